"""The greatest element and the sum of windows that slide over the last axes of a raw array (B, C, ...)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..checks.spatial import Pairs
from ..core.dtypes import INTEGRAL, int32, int64
from ..raw._kinds import enter

__all__ = ["Windows", "disjoint", "greatest", "total"]

_Operands = TypeVar("_Operands", jax.Array, tuple[jax.Array, jax.Array])


@dataclass(frozen=True, slots=True)
class Windows:
    """Sizes of windows, for each spatial axis; of integers alone, so that it can be part of a key."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: Pairs

    def reduce(self, x: _Operands, start: object, combine: Callable[..., object]) -> _Operands:
        """Combine the elements of each window, in any order, beginning with `start`; padding is `start` too."""
        found: _Operands = lax.reduce_window(
            x,
            start,
            combine,
            window_dimensions=(1, 1, *self.size),
            window_strides=(1, 1, *self.stride),
            padding=((0, 0), (0, 0), *self.padding),
            window_dilation=(1, 1, *self.dilation),
        )
        return found


def disjoint(size: tuple[int, ...]) -> Windows:
    """Return windows that cover the axes side by side."""
    return Windows(size, size, (1,) * len(size), ((0, 0),) * len(size))


def total(x: jax.Array, windows: Windows) -> jax.Array:
    """Return the sum of each window; padding is zero."""
    return windows.reduce(x, np.zeros((), x.dtype), lax.add)


def greatest(x: jax.Array, windows: Windows) -> jax.Array:
    """Return the greatest element of each window: NaN if one is NaN; padding is never chosen.

    The gradient goes to the first of equal elements in row-major order, and to the first NaN.
    """
    if x.dtype in INTEGRAL:
        low = np.array(np.iinfo(x.dtype).min, x.dtype)
        return windows.reduce(x, low, lax.max)
    return _greatest(x, windows)


def _larger(a: jax.Array, b: jax.Array) -> jax.Array:
    return lax.select(lax.ge(a, b) | lax.ne(a, a), a, b)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _greatest(x: jax.Array, windows: Windows) -> jax.Array:
    # Not lax.max: where windows are disjoint, XLA for the CPU takes the maximum of whole vectors and loses NaN (JAX
    # 0.10.2 to 0.12.0.1). And the gradient of lax.max goes to the padding in a window of -inf, and past a NaN.
    return windows.reduce(x, np.array(-np.inf, x.dtype), _larger)


@_greatest.defjvp
def _greatest_jvp(
    windows: Windows, primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (x,), (t,) = primals, tangents
    places = _places(lax.stop_gradient(x), windows)
    unique = all(s >= d * (k - 1) + 1 for s, d, k in zip(windows.stride, windows.dilation, windows.size, strict=True))
    return _read(x, places, unique), _read(t, places, unique)


def _places(x: jax.Array, windows: Windows) -> jax.Array:
    """Return where the first greatest element of each window is, counted in the spatial axes in row-major order."""
    count = math.prod(x.shape[2:])
    last = 2**31 - 1 if count < 2**31 - 1 else 2**63 - 1
    dtype = int32 if last < 2**31 else int64
    with enter(dtype):
        order = lax.broadcast_in_dim(lax.reshape(lax.iota(dtype, count), x.shape[2:]), x.shape, tuple(range(2, x.ndim)))

        def choose(a: tuple[jax.Array, jax.Array], b: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            # A total order: NaN above everything, then by value, then the lower place. Padding has the last place.
            (av, ai), (bv, bi) = a, b
            a_nan, b_nan = lax.ne(av, av), lax.ne(bv, bv)
            above = lax.gt(av, bv) | (a_nan & ~b_nan)
            level = lax.eq(av, bv) | (a_nan & b_nan)
            first = above | (level & lax.lt(ai, bi))
            return lax.select(first, av, bv), lax.select(first, ai, bi)

        start = np.array(-np.inf, x.dtype), np.array(last, dtype)
        return windows.reduce((x, order), start, choose)[1]


def _read(x: jax.Array, places: jax.Array, unique: bool) -> jax.Array:
    flat = lax.reshape(x, (*x.shape[:2], math.prod(x.shape[2:])))
    rows = lax.reshape(places, (*places.shape[:2], math.prod(places.shape[2:]), 1))
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(),
        collapsed_slice_dims=(2,),
        start_index_map=(2,),
        operand_batching_dims=(0, 1),
        start_indices_batching_dims=(0, 1),
    )
    out = lax.gather(flat, rows, numbers, slice_sizes=(1, 1, 1), mode="promise_in_bounds", unique_indices=unique)
    return jnp.reshape(out, places.shape)
