"""Indexing functions of the standard on raw arrays.

Indices are widened before negatives are resolved: in their own narrow type the size of the axis may not fit.
An index out of range reads as NaN, the integer minimum or False, never as another element.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from ..core.axes import normalize_axis
from ..core.dtypes import INTEGRAL
from ..core.gather import missing_value, resolve
from ..errors import BroadcastError, InvalidDimension, UnsupportedDType

__all__ = ["take", "take_along_axis"]


def _resolved(indices: jax.Array, size: int, checked: bool, operation: str) -> jax.Array:
    """Return indices counted from the front; those out of range stay out of range."""
    if indices.dtype not in INTEGRAL:
        raise UnsupportedDType(
            operation,
            "indices",
            got=indices.dtype.name,
            wanted="an integer dtype",
            dtype=indices.dtype,
            op=operation,
        )
    return resolve(indices, size, checked)


def take(x: jax.Array, indices: jax.Array, *, axis: int | None, checked: bool) -> jax.Array:
    """Elements of `x` at `indices` along an axis; the axes of `indices` take its place.

    `checked` says that every index is known to be in range.
    """
    if axis is None:
        if x.ndim != 1:
            raise InvalidDimension(
                "take", "axis", got="None", wanted=f"an axis, as the array has {x.ndim}", dim=None, ndim=x.ndim
            )
        axis = 0
    dimension = normalize_axis(axis, x.ndim, "take")
    size = x.shape[dimension]
    place = _resolved(indices, size, checked, "take")
    fill = missing_value(x.dtype)
    if size == 0:
        return lax.full((*x.shape[:dimension], *indices.shape, *x.shape[dimension + 1 :]), fill, x.dtype)
    last = dimension + indices.ndim
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(*range(dimension), *range(last, x.ndim + indices.ndim - 1)),
        collapsed_slice_dims=(dimension,),
        start_index_map=(dimension,),
    )
    return lax.gather(
        x,
        lax.expand_dims(place, (indices.ndim,)),
        numbers,
        slice_sizes=tuple(1 if n == dimension else length for n, length in enumerate(x.shape)),
        mode="promise_in_bounds" if checked else "fill",
        fill_value=fill,
    )


def take_along_axis(x: jax.Array, indices: jax.Array, *, axis: int, checked: bool) -> jax.Array:
    """Elements of `x` at one index for each line along an axis; the other axes broadcast."""
    if indices.ndim != x.ndim:
        raise InvalidDimension(
            "take_along_axis",
            "indices",
            got=f"shape {indices.shape}",
            wanted=f"as many axes as x of shape {x.shape}",
            dim=indices.ndim,
            ndim=x.ndim,
        )
    dimension = normalize_axis(axis, x.ndim, "take_along_axis")
    size = x.shape[dimension]
    place = _resolved(indices, size, checked, "take_along_axis")
    for i, (a, b) in enumerate(zip(x.shape, indices.shape, strict=True)):
        if i != dimension and a != b and 1 not in (a, b):
            raise BroadcastError(
                "take_along_axis",
                "indices",
                got=f"shape {indices.shape} for x of shape {x.shape}",
                wanted=f"sizes that are equal or 1 beside axis {axis}",
                lhs=x.shape,
                rhs=indices.shape,
            )
    fill = missing_value(x.dtype)
    if size == 0:
        pairs = zip(x.shape, indices.shape, strict=True)
        shape = tuple(b if a == 1 or i == dimension else a for i, (a, b) in enumerate(pairs))
        return lax.full(shape, fill, x.dtype)
    mode = "promise_in_bounds" if checked else "fill"
    if not checked:
        # jnp counts negative indices from the end, and would do so a second time.
        place = lax.select(place < 0, lax.full_like(place, size), place)
    return jnp.take_along_axis(x, place, axis=dimension, mode=mode, fill_value=fill)
