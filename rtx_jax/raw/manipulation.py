"""Manipulation functions of the standard on raw arrays."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..checks.shape import broadcast_shape
from ..core.axes import normalize_axes, normalize_axis
from ..core.dtypes import NARROW_INT, int8
from ..errors import BroadcastError, InvalidArgument, InvalidDimension, ShapeMismatch
from ._kinds import cast, enter
from .operands import common_dtype

__all__ = [
    "broadcast_arrays",
    "broadcast_to",
    "concat",
    "expand_dims",
    "flip",
    "moveaxis",
    "permute_dims",
    "repeat",
    "repeat_each",
    "reshape",
    "roll",
    "roll_by",
    "squeeze",
    "stack",
    "tile",
    "unstack",
]


def _same_dtype(arrays: tuple[jax.Array, ...], operation: str) -> list[jax.Array]:
    dtype = common_dtype(operation, *arrays)
    with enter(dtype):
        return [cast(a, dtype) for a in arrays]


def join(parts: Sequence[jax.Array], dimension: int) -> jax.Array:
    """Concatenate arrays of one dtype.

    Integers below one byte go by way of int8: XLA's CPU compiler ends the process when it concatenates them.
    """
    dtype = parts[0].dtype
    if dtype not in NARROW_INT:
        return lax.concatenate(parts, dimension)
    return cast(lax.concatenate([cast(part, int8) for part in parts], dimension), dtype)


def _at_least_one(arrays: tuple[jax.Array, ...], operation: str) -> None:
    if not arrays:
        raise InvalidArgument(operation, "arrays", got="none", wanted="one or more", arg="arrays", reason="empty")


def broadcast_arrays(*arrays: jax.Array) -> tuple[jax.Array, ...]:
    """Broadcast arrays against one another; each keeps its dtype."""
    shape = broadcast_shape("broadcast_arrays", *[a.shape for a in arrays])
    return tuple(jnp.broadcast_to(a, shape) for a in arrays)


def broadcast_to(x: jax.Array, *, shape: tuple[int, ...]) -> jax.Array:
    """Broadcast one array to a shape."""
    fits = len(x.shape) <= len(shape) and builtins.all(
        have in (1, want) for have, want in zip(x.shape[::-1], shape[::-1], strict=False)
    )
    if not fits:
        raise BroadcastError(
            "broadcast_to",
            "shape",
            got=f"{shape}, to which shape {x.shape} cannot be broadcast",
            wanted="sizes equal to the array's, or any where the array has 1",
            lhs=x.shape,
            rhs=shape,
        )
    return jnp.broadcast_to(x, shape)


def concat(*arrays: jax.Array, axis: int | None) -> jax.Array:
    """Join along an existing axis, or flattened when `axis` is None."""
    _at_least_one(arrays, "concat")
    parts = _same_dtype(arrays, "concat")
    if axis is None:
        with enter(parts[0].dtype):
            return join([lax.reshape(p, (p.size,)) for p in parts], 0)
    first = parts[0].shape
    dimension = normalize_axis(axis, len(first), "concat")
    for part in parts[1:]:
        if len(part.shape) != len(first) or builtins.any(
            a != b for i, (a, b) in enumerate(zip(first, part.shape, strict=True)) if i != dimension
        ):
            raise ShapeMismatch(
                "concat",
                "arrays",
                got=f"shapes {first} and {part.shape}",
                wanted=f"shapes that differ in axis {axis} alone",
                expected=first,
                got_shape=part.shape,
            )
    with enter(parts[0].dtype):
        return join(parts, dimension)


def expand_dims(x: jax.Array, *, axis: int | tuple[int, ...]) -> jax.Array:
    """Insert axes of size one at these positions of the result."""
    axes = (axis,) if isinstance(axis, int) else axis
    return lax.expand_dims(x, normalize_axes(axes, x.ndim + len(axes), "expand_dims"))


def flip(x: jax.Array, *, axis: int | tuple[int, ...] | None) -> jax.Array:
    """Reverse the order along axes, all of them for None."""
    return lax.rev(x, normalize_axes(axis, x.ndim, "flip"))


def moveaxis(x: jax.Array, *, source: int | tuple[int, ...], destination: int | tuple[int, ...]) -> jax.Array:
    """Move axes to new positions; the others keep their order."""
    origin = normalize_axes(source, x.ndim, "moveaxis", "source")
    target = normalize_axes(destination, x.ndim, "moveaxis", "destination")
    if len(origin) != len(target):
        raise InvalidArgument(
            "moveaxis",
            "destination",
            got=f"{len(target)} axes for {len(origin)} in source",
            wanted="as many as in source",
            arg="destination",
            reason="length",
        )
    order = [n for n in range(x.ndim) if n not in origin]
    for to, of in sorted(zip(target, origin, strict=True)):
        order.insert(to, of)
    return lax.transpose(x, order)


def permute_dims(x: jax.Array, *, axes: tuple[int, ...]) -> jax.Array:
    """Permute the axes."""
    order = normalize_axes(axes, x.ndim, "permute_dims", "axes")
    if len(order) != x.ndim:
        raise InvalidDimension(
            "permute_dims", "axes", got=axes, wanted=f"all {x.ndim} axes once", dim=axes, ndim=x.ndim
        )
    return lax.transpose(x, order)


def _flat_or_axis(x: jax.Array, axis: int | None, operation: str) -> tuple[jax.Array, int]:
    if axis is None:
        return x.reshape(-1), 0
    return x, normalize_axis(axis, x.ndim, operation)


def repeat(x: jax.Array, *, repeats: int, axis: int | None) -> jax.Array:
    """Repeat each element `repeats` times."""
    if repeats < 0:
        raise _negative_repeats(repeats)
    x, axis = _flat_or_axis(x, axis, "repeat")
    shape = x.shape
    wide = lax.broadcast_in_dim(
        x, (*shape[: axis + 1], repeats, *shape[axis + 1 :]), [i + (i > axis) for i in range(x.ndim)]
    )
    return wide.reshape(*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :])


def repeat_each(x: jax.Array, counts: jax.Array, *, total: int, axis: int | None) -> jax.Array:
    """Repeat element i ``counts[i]`` times; `total` is the sum of the counts, which the shape needs.

    The counts are not negative; that and `total` are the caller's to see to, as they are values.
    """
    x, axis = _flat_or_axis(x, axis, "repeat")
    size = x.shape[axis]
    if size == 0 or total == 0:
        return lax.slice_in_dim(x, 0, 0, axis=axis)
    # The sum of narrow counts overflows their dtype.
    index = np.dtype(np.int32 if total < 2**31 else np.int64)
    ends = jnp.cumsum(lax.convert_element_type(jnp.broadcast_to(counts, (size,)), index), dtype=index)
    # A one where the source moves on by one; two at one place skip an element that is not repeated at all.
    steps = jnp.zeros((total,), index).at[ends[:-1]].add(1, mode="drop")
    source = jnp.cumsum(steps, dtype=index)
    return jnp.take(x, source, axis=axis, mode="clip")


def _negative_repeats(repeats: object) -> InvalidArgument:
    return InvalidArgument("repeat", "repeats", got=repeats, wanted="0 or more", arg="repeats", reason="negative")


def reshape(x: jax.Array, *, shape: tuple[int, ...]) -> jax.Array:
    """Give a new shape to the elements in row-major order; one size may be -1."""
    return lax.reshape(x, infer_shape(x.shape, shape))


def infer_shape(old: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
    """Return `new` with a -1 replaced by the size that is left.

    Raises
    ------
    ShapeMismatch
        The number of elements differs, or does not determine the size of -1.
    InvalidArgument
        More than one -1, or another negative size.
    """
    size = math.prod(old)
    known = math.prod([n for n in new if n != -1])
    unknown = new.count(-1)
    if unknown > 1 or builtins.any(n < -1 for n in new):
        raise InvalidArgument(
            "reshape", "shape", got=new, wanted="sizes of 0 or more and at most one -1", arg="shape", reason="negative"
        )
    if unknown and known and size % known == 0:
        return tuple(size // known if n == -1 else n for n in new)
    if unknown or size != known:
        raise ShapeMismatch(
            "reshape",
            "shape",
            got=f"{new} for an array of shape {old} ({size} elements)",
            wanted="a shape of as many elements",
            expected=old,
            got_shape=new,
        )
    return new


def _roll_axes(ndim: int, shifts: int, axis: int | tuple[int, ...]) -> list[int]:
    # An axis may come twice, and its shifts add up.
    axes = (axis,) if isinstance(axis, int) else axis
    if len(axes) != shifts:
        raise InvalidArgument(
            "roll", "axis", got=f"{len(axes)} axes for {shifts} shifts", wanted="as many", arg="axis", reason="length"
        )
    return [normalize_axis(a, ndim, "roll") for a in axes]


def roll(x: jax.Array, *, shift: tuple[int, ...], axis: int | tuple[int, ...] | None) -> jax.Array:
    """Roll by amounts that are known when compiling, one for each axis; None rolls the flattened array."""
    if axis is None:
        return roll(x.reshape(-1), shift=shift, axis=0).reshape(x.shape)
    for amount, dimension in zip(shift, _roll_axes(x.ndim, len(shift), axis), strict=True):
        size = x.shape[dimension]
        start = -amount % size if size else 0
        if start:
            head = lax.slice_in_dim(x, 0, start, axis=dimension)
            x = join([lax.slice_in_dim(x, start, size, axis=dimension), head], dimension)
    return x


def roll_by(x: jax.Array, shift: jax.Array, *, axis: int | tuple[int, ...] | None) -> jax.Array:
    """Roll by amounts that are known when running: `shift` is an integer array of one entry for each axis."""
    if axis is None:
        return roll_by(x.reshape(-1), shift, axis=0).reshape(x.shape)
    for place, dimension in enumerate(_roll_axes(x.ndim, shift.shape[0], axis)):
        size = x.shape[dimension]
        if size < 2:
            continue
        # A narrow integer type may not hold the size.
        amount = shift[place] if shift.dtype.itemsize > 4 else lax.convert_element_type(shift[place], np.int32)
        amount = jnp.remainder(amount, np.array(size, amount.dtype))
        twice = join([x, x], dimension)
        x = lax.dynamic_slice_in_dim(twice, np.array(size, amount.dtype) - amount, size, axis=dimension)
    return x


def squeeze(x: jax.Array, *, axis: int | tuple[int, ...]) -> jax.Array:
    """Remove axes of size one."""
    axes = normalize_axes(axis, x.ndim, "squeeze")
    for n in axes:
        if x.shape[n] != 1:
            raise ShapeMismatch(
                "squeeze",
                "axis",
                got=f"axis {n} of shape {x.shape}",
                wanted="an axis of size 1",
                expected=1,
                got_shape=x.shape,
            )
    return lax.squeeze(x, axes)


def stack(*arrays: jax.Array, axis: int) -> jax.Array:
    """Join along a new axis."""
    _at_least_one(arrays, "stack")
    parts = _same_dtype(arrays, "stack")
    first = parts[0].shape
    dimension = normalize_axis(axis, len(first) + 1, "stack")
    for part in parts[1:]:
        if part.shape != first:
            raise ShapeMismatch(
                "stack",
                "arrays",
                got=f"shapes {first} and {part.shape}",
                wanted="equal shapes",
                expected=first,
                got_shape=part.shape,
            )
    with enter(parts[0].dtype):
        return join([lax.expand_dims(p, (dimension,)) for p in parts], dimension)


def tile(x: jax.Array, *, repetitions: tuple[int, ...]) -> jax.Array:
    """Repeat the whole array along its axes; the shorter of shape and repetitions is filled up with ones in front."""
    if builtins.any(n < 0 for n in repetitions):
        raise InvalidArgument(
            "tile", "repetitions", got=repetitions, wanted="0 or more", arg="repetitions", reason="negative"
        )
    return jnp.tile(x, repetitions)


def unstack(x: jax.Array, *, axis: int) -> tuple[jax.Array, ...]:
    """Split into the slices along an axis, which they lose."""
    dimension = normalize_axis(axis, x.ndim, "unstack")
    return tuple(lax.index_in_dim(x, i, dimension, keepdims=False) for i in range(x.shape[dimension]))
