"""Products of the standard's linear algebra chapter on raw arrays.

``precision`` is ``"highest"``, ``"high"`` or ``"default"`` and concerns 32-bit floats; floats below 32 bits are
accumulated in float32 and rounded once.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._compat import guard_dot
from ..checks.shape import broadcast_shape
from ..core.axes import normalize_axes, normalize_axis
from ..core.dtypes import NUMERIC
from ..errors import InvalidArgument, InvalidDimension, ShapeMismatch
from . import statistical
from ._kinds import accumulator, cast, enter, rank_at_least
from .operands import check_kind
from .operands import common_dtype as common

__all__ = ["cross", "diagonal", "matmul", "matrix_transpose", "outer", "tensordot", "trace", "transpose", "vecdot"]


def _sizes_differ(operation: str, x1: jax.Array, x2: jax.Array, axes: object) -> ShapeMismatch:
    return ShapeMismatch(
        operation,
        "x2",
        got=f"shapes {x1.shape} and {x2.shape}",
        wanted=f"equal sizes of the contracted axes {axes}",
        expected=x1.shape,
        got_shape=x2.shape,
    )


def matmul(x1: jax.Array, x2: jax.Array, *, precision: str) -> jax.Array:
    """Multiply matrices, stacks of matrices and vectors."""
    rank_at_least("matmul", x1, 1, "x1")
    rank_at_least("matmul", x2, 1, "x2")
    if x1.shape[-1] != x2.shape[-2 if x2.ndim > 1 else 0]:
        raise _sizes_differ("matmul", x1, x2, "(the last of x1, the last but one of x2)")
    broadcast_shape("matmul", x1.shape[:-2], x2.shape[:-2])
    dtype = common("matmul", x1, x2)
    with enter(dtype):
        product = jnp.matmul(
            cast(x1, dtype), cast(x2, dtype), precision=precision, preferred_element_type=accumulator(dtype)
        )
        return cast(guard_dot(product), dtype)


def matrix_transpose(x: jax.Array) -> jax.Array:
    """Exchange the last two axes."""
    rank_at_least("matrix_transpose", x, 2)
    return jnp.matrix_transpose(x)


def transpose(x: jax.Array) -> jax.Array:
    """Exchange the axes of a matrix."""
    if x.ndim != 2:
        raise InvalidDimension(
            "T",
            "x",
            got=f"shape {x.shape}",
            wanted="2 axes",
            remedy="Use mT for stacks of matrices, permute_dims for any order of axes.",
            dim=x.ndim,
            ndim=2,
        )
    return lax.transpose(x, (1, 0))


def tensordot(
    x1: jax.Array, x2: jax.Array, *, axes: int | tuple[tuple[int, ...], tuple[int, ...]], precision: str
) -> jax.Array:
    """Sum products over axes of both arrays."""
    if isinstance(axes, int):
        if not 0 <= axes <= min(x1.ndim, x2.ndim):
            raise InvalidDimension(
                "tensordot",
                "axes",
                got=f"{axes} for shapes {x1.shape} and {x2.shape}",
                wanted=f"0..{min(x1.ndim, x2.ndim)}",
                dim=axes,
                ndim=min(x1.ndim, x2.ndim),
            )
        first, second = tuple(range(x1.ndim - axes, x1.ndim)), tuple(range(axes))
    else:
        first = normalize_axes(axes[0], x1.ndim, "tensordot", "axes")
        second = normalize_axes(axes[1], x2.ndim, "tensordot", "axes")
    if len(first) != len(second):
        raise InvalidArgument(
            "tensordot", "axes", got=axes, wanted="two sequences of equal length", arg="axes", reason="lengths differ"
        )
    if any(x1.shape[a] != x2.shape[b] for a, b in zip(first, second, strict=True)):
        raise _sizes_differ("tensordot", x1, x2, axes)
    dtype = common("tensordot", x1, x2)
    with enter(dtype):
        product = jnp.tensordot(
            cast(x1, dtype),
            cast(x2, dtype),
            axes=(first, second),
            precision=precision,
            preferred_element_type=accumulator(dtype),
        )
        return cast(guard_dot(product), dtype)


def vecdot(x1: jax.Array, x2: jax.Array, *, axis: int, precision: str) -> jax.Array:
    """Sum ``conj(x1) * x2`` along an axis; the others broadcast."""
    rank_at_least("vecdot", x1, 1, "x1")
    rank_at_least("vecdot", x2, 1, "x2")
    first, second = (normalize_axis(axis, x.ndim, "vecdot") for x in (x1, x2))
    if x1.shape[first] != x2.shape[second]:
        raise _sizes_differ("vecdot", x1, x2, axis)
    dtype = common("vecdot", x1, x2)
    with enter(dtype):
        a = jnp.moveaxis(cast(x1, dtype), first, -1)
        b = jnp.moveaxis(cast(x2, dtype), second, -1)
        broadcast_shape("vecdot", a.shape[:-1], b.shape[:-1])
        product = jnp.vecdot(a, b, precision=precision, preferred_element_type=accumulator(dtype))
        return cast(guard_dot(product), dtype)


def outer(x1: jax.Array, x2: jax.Array) -> jax.Array:
    """Multiply each element of one vector with each of another."""
    for name, x in (("x1", x1), ("x2", x2)):
        if x.ndim != 1:
            raise InvalidDimension("outer", name, got=f"shape {x.shape}", wanted="1 axis", dim=x.ndim, ndim=1)
    dtype = common("outer", x1, x2)
    with enter(dtype):
        return cast(x1, dtype)[:, None] * cast(x2, dtype)[None, :]


def cross(x1: jax.Array, x2: jax.Array, *, axis: int) -> jax.Array:
    """Cross products of vectors of three elements; the other axes broadcast."""
    check_kind("cross", NUMERIC, x1, x2)
    first, second = (normalize_axis(axis, x.ndim, "cross") for x in (x1, x2))
    if x1.shape[first] != 3 or x2.shape[second] != 3:
        raise ShapeMismatch(
            "cross",
            "axis",
            got=f"shapes {x1.shape} and {x2.shape}",
            wanted=f"3 elements along axis {axis} of both",
            expected=3,
            got_shape=(x1.shape[first], x2.shape[second]),
        )
    dtype = common("cross", x1, x2)
    with enter(dtype):
        a, b = jnp.moveaxis(cast(x1, dtype), first, -1), jnp.moveaxis(cast(x2, dtype), second, -1)
        broadcast_shape("cross", a.shape[:-1], b.shape[:-1])
        ax, ay, az = (a[..., i] for i in range(3))
        bx, by, bz = (b[..., i] for i in range(3))
        # Where the ranks differ the axis of the result counts from the end, as in both operands.
        place = axis if axis < 0 else axis - max(x1.ndim, x2.ndim)
        return jnp.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=place)


def diagonal(x: jax.Array, *, offset: int) -> jax.Array:
    """Return a diagonal of each matrix; empty where the offset lies outside of it."""
    rank_at_least("diagonal", x, 2)
    rows, columns = x.shape[-2:]
    length = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    if not length:
        return lax.full((*x.shape[:-2], 0), 0, x.dtype)
    found: jax.Array = jnp.diagonal(x, offset=offset, axis1=-2, axis2=-1)
    return found


def trace(x: jax.Array, *, offset: int, dtype: np.dtype | None) -> jax.Array:
    """Sum a diagonal of each matrix."""
    rank_at_least("trace", x, 2)
    return statistical.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype, keepdims=False)
