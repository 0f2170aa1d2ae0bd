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


def _resolved(indices: jax.Array, size: int, operation: str) -> jax.Array:
    """Return indices counted from the front; those out of range become `size`."""
    if indices.dtype not in INTEGRAL:
        raise UnsupportedDType(
            operation,
            "indices",
            got=indices.dtype.name,
            wanted="an integer dtype",
            dtype=indices.dtype,
            op=operation,
        )
    place = resolve(indices, size, False)
    # jnp.take counts negative indices from the end, and would do so a second time.
    return lax.select(place < 0, lax.full_like(place, size), place)


def take(x: jax.Array, indices: jax.Array, *, axis: int | None) -> jax.Array:
    """Elements of `x` at `indices` along an axis; the axes of `indices` take its place."""
    if axis is None:
        if x.ndim != 1:
            raise InvalidDimension(
                "take", "axis", got="None", wanted=f"an axis, as the array has {x.ndim}", dim=None, ndim=x.ndim
            )
        axis = 0
    dimension = normalize_axis(axis, x.ndim, "take")
    size = x.shape[dimension]
    place = _resolved(indices, size, "take")
    fill = missing_value(x.dtype)
    if size == 0:
        return lax.full((*x.shape[:dimension], *indices.shape, *x.shape[dimension + 1 :]), fill, x.dtype)
    return jnp.take(x, place, axis=dimension, mode="fill", fill_value=fill)


def take_along_axis(x: jax.Array, indices: jax.Array, *, axis: int) -> jax.Array:
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
    place = _resolved(indices, size, "take_along_axis")
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
    return jnp.take_along_axis(x, place, axis=dimension, mode="fill", fill_value=fill)
