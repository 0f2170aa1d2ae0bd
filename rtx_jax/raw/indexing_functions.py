"""Indexing functions of the standard on raw arrays.

Indices are widened before negatives are resolved: in their own narrow type the size of the axis may not fit.
An index out of range reads as NaN, the integer minimum or False, never as another element.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core import dtypes as _d
from ..core.axes import normalize_axis
from ..core.dtypes import DType
from ..errors import BroadcastError, InvalidDimension, UnsupportedDType

__all__ = ["take", "take_along_axis"]


def _missing(dtype: DType) -> int | None:
    """Return the fill value of a gather that reads out of range: NaN, the integer minimum or False.

    None is JAX's own choice, right for floats and signed integers; its choice for unsigned ones is the maximum.
    """
    return None if dtype in _d.INEXACT or dtype in _d.SIGNED else 0


def _all_missing(shape: tuple[int, ...], dtype: DType) -> jax.Array:
    value = np.nan if dtype in _d.INEXACT else int(jnp.iinfo(dtype).min) if dtype in _d.INTEGRAL else False
    return lax.full(shape, value, dtype)


def _resolve(indices: jax.Array, size: int, operation: str) -> jax.Array:
    """Return indices counted from the front; those out of range become `size`."""
    if indices.dtype not in _d.INTEGRAL:
        raise UnsupportedDType(
            operation,
            "indices",
            got=indices.dtype.name,
            wanted="an integer dtype",
            dtype=indices.dtype,
            op=operation,
        )
    if indices.dtype.itemsize < 4 or (indices.dtype == _d.uint32 and size < 2**31):
        if indices.dtype == _d.uint32:
            indices = lax.min(indices, np.array(size, np.uint32))  # 2**32 - 1 is not -1
        indices = lax.convert_element_type(indices, np.dtype(np.int32))
    elif indices.dtype == _d.uint64:
        indices = lax.convert_element_type(lax.min(indices, np.array(size, np.uint64)), np.dtype(np.int64))
    bound = np.array(size, indices.dtype)
    counted = lax.select(indices < 0, indices + bound, indices) if indices.dtype in _d.SIGNED else indices
    outside = (counted < 0) | (counted >= bound) if indices.dtype in _d.SIGNED else counted >= bound
    return lax.select(outside, jnp.full_like(counted, size), counted)


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
    place = _resolve(indices, size, "take")
    if size == 0:
        return _all_missing((*x.shape[:dimension], *indices.shape, *x.shape[dimension + 1 :]), x.dtype)
    return jnp.take(x, place, axis=dimension, mode="fill", fill_value=_missing(x.dtype))


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
    place = _resolve(indices, size, "take_along_axis")
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
    if size == 0:
        pairs = zip(x.shape, indices.shape, strict=True)
        shape = tuple(b if a == 1 or i == dimension else a for i, (a, b) in enumerate(pairs))
        return _all_missing(shape, x.dtype)
    return jnp.take_along_axis(x, place, axis=dimension, mode="fill", fill_value=_missing(x.dtype))
