"""Rotary position embedding on raw arrays (Su et al. 2021, section 3.2)."""

from __future__ import annotations

import jax
import numpy as np

from ..checks import rope as _check
from ..kernels.rope import Scaling, rope_frequencies
from ..kernels.rope import rope as _rotary

__all__ = ["rope", "rope_tables"]


def rope(
    x: jax.Array,
    cos: jax.Array,
    sin: jax.Array,
    positions: jax.Array | None = None,
    *,
    layout: str = "half",
    seq_axis: int = -2,
    rotary_dim: int | None = None,
) -> jax.Array:
    """Return `x` with each pair of channels turned by the angle of its position.

    Parameters
    ----------
    x
        Channels last, positions along `seq_axis`.
    cos, sin
        Shape (S, D/2), or (S, D) of which the column of the first channel of each pair is read.
    positions
        Rows of the tables, shape (S,) or (B, S) with B the first axis of `x`; 0 to S - 1 by default. One out of
        range gives NaN.
    layout
        ``"half"`` pairs channel i with i + D/2, ``"interleaved"`` 2 i with 2 i + 1.
    seq_axis
        Axis of the positions.
    rotary_dim
        Number of leading channels that are turned, all by default; the tables are for these.
    """
    return _rotary(x, cos, sin, positions, layout=layout, seq_axis=seq_axis, rotary_dim=rotary_dim)


def rope_tables(
    length: int, dim: int, *, base: float = 10000.0, scaling: Scaling | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the cosines and sines of ``position * base**(-2 i / dim)``, each float64 of shape (length, dim/2).

    They are made on the host in float64: in float32 the angle of position 100,000 is off by 0.004. `scaling` is one of
    `rtx_jax.kernels`, for longer contexts.
    """
    count, width, scale = _check.tables(length, dim, base)
    return rope_frequencies(width, base=scale, scaling=scaling).tables(count)
