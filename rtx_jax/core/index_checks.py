"""Bounds of index arrays, checked where their values can be read cheaply."""

from __future__ import annotations

import jax
import numpy as np
from jax.core import Tracer

from .. import _config
from .index_key import IndexArray, out_of_bounds
from .index_table import platform_of

__all__ = ["check_bounds", "checks_on"]


def checks_on(d: jax.Array) -> bool:
    """Tell whether index arrays into `d` are checked: as set, by default on CPU (`RTX_JAX_CHECK_BOUNDS`)."""
    setting = _config.check_bounds()
    if setting is not None:
        return setting
    if isinstance(d, Tracer):
        return True  # known indices cost nothing then
    return platform_of(d) == "cpu"


def check_bounds(indices: IndexArray, size: int, axis: int, operation: str) -> None:
    """Raise IndexOutOfBounds unless all indices are in ``-size..size-1``; waits for the indices.

    Parameters
    ----------
    indices
        Concrete integers.
    size
        Size of the axis.
    axis, operation
        For the error.
    """
    host = np.asarray(indices)
    if not host.size:
        return
    low, high = np.minimum.reduce(host, axis=None), np.maximum.reduce(host, axis=None)
    if low < -size or high >= size:
        raise out_of_bounds(int(low) if low < -size else int(high), size, axis, operation)
