"""Where elementwise functions are tried: special numbers first, then numbers of every magnitude."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from .ulp import format_of

__all__ = ["COMPLEX_SPECIALS", "REAL_SPECIALS", "complex_points", "real_pairs", "real_points"]

REAL_SPECIALS = 16
"""How many of the real points are special numbers."""
COMPLEX_SPECIALS = 49
"""How many of the complex points have a zero, an infinity or a NaN as a component, or are whole."""

_COUNT = 128


def _spread(rng: np.random.Generator, size: int, low: float, high: float) -> NDArray[np.float64]:
    """Return numbers of either sign whose logarithms to base 2 are uniform."""
    sign = rng.choice(np.array([-1.0, 1.0]), size)
    out: NDArray[np.float64] = sign * np.exp2(rng.uniform(low, high, size))
    return out


@cache
def real_points(dtype: np.dtype, /) -> NDArray[np.float64]:
    """Return 128 points that the dtype holds exactly: 16 special ones, 112 others. float64."""
    form = format_of(dtype)
    rng = np.random.default_rng(20)
    specials = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0]
    specials += [form.largest, -form.largest, form.tiny, -form.tiny, 3 * form.least, -3 * form.least]
    top = np.log2(form.largest)
    parts = (
        np.array(specials),
        rng.uniform(-1, 1, 32),
        rng.uniform(-30, 30, 32),
        1 + _spread(rng, 8, -10, -1),
        _spread(rng, 24, max(-20.0, np.log2(form.tiny)), min(20.0, top)),
        _spread(rng, 16, 0.95 * np.log2(form.tiny), 0.95 * top),
    )
    return _held(np.concatenate(parts), dtype)


@cache
def real_pairs(dtype: np.dtype, /) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return 256 pairs: every pair of 11 special numbers, 135 others. float64."""
    form = format_of(dtype)
    rng = np.random.default_rng(21)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 3.0, form.largest, form.tiny])
    left, right = (part.ravel() for part in np.meshgrid(special, special, indexing="ij"))
    span = min(16.0, 0.4 * np.log2(form.largest))
    first = np.concatenate([left, rng.uniform(-4, 4, 67), _spread(rng, 68, -span, span)])
    second = np.concatenate([right, rng.uniform(-4, 4, 67), rng.permutation(_spread(rng, 68, -span, span))])
    return _held(first, dtype), _held(second, dtype)


@cache
def complex_points(dtype: np.dtype, /) -> NDArray[np.complex128]:
    """Return 128 points that the dtype holds exactly: 49 special ones, 79 others. complex128."""
    rng = np.random.default_rng(22)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0])
    real, imag = (part.ravel() for part in np.meshgrid(special, special, indexing="ij"))
    rest = _COUNT - COMPLEX_SPECIALS
    near, wide = rng.uniform(-1, 1, (30, 2)), rng.uniform(-10, 10, (25, 2))
    far = np.stack([_spread(rng, rest - 55, -12, 4), _spread(rng, rest - 55, -12, 4)], axis=1)
    others = np.concatenate([near, wide, far])
    out = np.empty(_COUNT, np.complex128)
    out.real = np.concatenate([real, others[:, 0]])
    out.imag = np.concatenate([imag, others[:, 1]])
    with np.errstate(all="ignore"):
        return out.astype(dtype).astype(np.complex128)


def _held(x: NDArray[np.float64], dtype: np.dtype) -> NDArray[np.float64]:
    with np.errstate(all="ignore"):
        out: NDArray[np.float64] = x.astype(dtype).astype(np.float64)
    return out
