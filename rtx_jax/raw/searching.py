"""Searching functions of the standard on raw arrays. ``index_dtype`` is the default integer of the device."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..checks.shape import broadcast_shape
from ..core.axes import normalize_axes, normalize_axis
from ..core.dtypes import INTEGRAL, bool_
from ..errors import DTypeMismatch, InvalidArgument, InvalidDimension, ShapeMismatch
from ._kinds import cast, enter, no_complex, rank_at_least
from .operands import common_dtype as common

__all__ = ["argmax", "argmin", "count_nonzero", "nonzero_padded", "searchsorted", "where"]


def argmax(x: jax.Array, *, axis: int | None, keepdims: bool, index_dtype: np.dtype) -> jax.Array:
    """Return the index of the first greatest element, or of the first NaN."""
    return _arg("argmax", x, axis, keepdims, index_dtype)


def argmin(x: jax.Array, *, axis: int | None, keepdims: bool, index_dtype: np.dtype) -> jax.Array:
    """Return the index of the first least element, or of the first NaN."""
    return _arg("argmin", x, axis, keepdims, index_dtype)


def _arg(operation: str, x: jax.Array, axis: int | None, keepdims: bool, index_dtype: np.dtype) -> jax.Array:
    no_complex(operation, x)
    flat, dimension = (x.reshape(-1), 0) if axis is None else (x, normalize_axis(axis, x.ndim, operation))
    if not flat.shape[dimension]:
        raise InvalidArgument(
            operation,
            "x",
            got=f"shape {x.shape} and axis {axis}",
            wanted="at least one element to choose from",
            arg="x",
            reason="empty reduction",
        )
    found = (lax.argmax if operation == "argmax" else lax.argmin)(flat, dimension, index_dtype)
    if keepdims:
        return found.reshape((1,) * x.ndim) if axis is None else lax.expand_dims(found, (dimension,))
    return found


def count_nonzero(
    x: jax.Array, *, axis: int | tuple[int, ...] | None, keepdims: bool, index_dtype: np.dtype
) -> jax.Array:
    """Count the elements that are not zero."""
    axes = normalize_axes(axis, x.ndim, "count_nonzero")
    flags = x if x.dtype == bool_ else lax.ne(x, jnp.zeros((), x.dtype))
    return jnp.sum(flags, axis=axes, dtype=index_dtype, keepdims=keepdims)


def nonzero_padded(x: jax.Array, *, size: int, index_dtype: np.dtype) -> tuple[jax.Array, ...]:
    """Return the indices of the nonzero elements in row-major order, filled up with zeros to `size`."""
    rank_at_least("nonzero", x, 1)
    return tuple(cast(i, index_dtype) for i in jnp.nonzero(x, size=size, fill_value=0))


def searchsorted(
    x1: jax.Array, x2: jax.Array, sorter: jax.Array | None = None, *, side: str, index_dtype: np.dtype
) -> jax.Array:
    """Return where elements of `x2` go into the sorted vector `x1`; NaN sorts behind every number."""
    if x1.ndim != 1:
        raise InvalidDimension("searchsorted", "x1", got=f"shape {x1.shape}", wanted="1 axis", dim=x1.ndim, ndim=1)
    if side not in ("left", "right"):
        raise InvalidArgument(
            "searchsorted", "side", got=repr(side), wanted="'left' or 'right'", arg="side", reason="unknown side"
        )
    no_complex("searchsorted", x1, argument="x1")
    no_complex("searchsorted", x2, argument="x2")
    if sorter is not None:
        if sorter.shape != x1.shape:
            raise ShapeMismatch(
                "searchsorted",
                "sorter",
                got=f"shape {sorter.shape}",
                wanted=f"the shape of x1, {x1.shape}",
                expected=x1.shape,
                got_shape=sorter.shape,
            )
        if sorter.dtype not in INTEGRAL:
            raise DTypeMismatch("searchsorted", "sorter", got=sorter.dtype.name, wanted="an integer dtype")
        x1 = jnp.take(x1, sorter, axis=0, mode="fill")
    dtype = common("searchsorted", x1, x2)
    with enter(dtype):
        return cast(jnp.searchsorted(cast(x1, dtype), cast(x2, dtype), side=side), index_dtype)


def where(condition: jax.Array, x1: jax.Array, x2: jax.Array) -> jax.Array:
    """Choose from `x1` where the condition holds, else from `x2`."""
    dtype = common("where", x1, x2)
    broadcast_shape("where", condition.shape, x1.shape, x2.shape)
    if condition.dtype != bool_:
        condition = lax.ne(condition, jnp.zeros((), condition.dtype))
    with enter(dtype):
        return jnp.where(condition, cast(x1, dtype), cast(x2, dtype))
