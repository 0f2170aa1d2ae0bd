"""Bounds of index arrays, checked where their values can be read cheaply."""

from __future__ import annotations

import weakref

import jax
import numpy as np
from jax.core import Tracer

from .. import _config
from .._compat import ArrayImpl
from .index_key import IndexArray, out_of_bounds
from .index_table import platform_of

__all__ = ["check_bounds", "checks_on", "known_in_bounds"]


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
    known = _ranges.get(id(indices))
    low, high = known[1:] if known is not None and known[0]() is indices else _range(indices)
    if low < -size or high >= size:
        raise out_of_bounds(low if low < -size else high, size, axis, operation)


def known_in_bounds(indices: jax.Array, size: int) -> bool:
    """Tell whether these indices were read before and are in ``-size..size-1``, on any device and with any setting."""
    known = _ranges.get(id(indices))
    return known is not None and known[1] >= -size and known[2] < size and known[0]() is indices


# A jax.Array never changes, so its range is read once. Reading waits for it and costs more than the rest of a check.
_ranges: dict[int, tuple[weakref.ref[jax.Array], int, int]] = {}
_MAX_RANGES = 512


def _range(indices: IndexArray) -> tuple[int, int]:
    """Return the least and the greatest index; those of an empty array are in every range."""
    host = np.asarray(indices)
    if not host.size:
        return 0, -1
    low, high = int(np.minimum.reduce(host, axis=None)), int(np.maximum.reduce(host, axis=None))
    if type(indices) is ArrayImpl:
        if len(_ranges) >= _MAX_RANGES:
            _ranges.clear()
        _ranges[id(indices)] = weakref.ref(indices), low, high
    return low, high
