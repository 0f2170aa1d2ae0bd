"""Writing by a plan: functions of raw arrays that are compiled once per plan and shape, with and without donation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..errors import BroadcastError, DTypeMismatch
from . import dtypes as _d
from .gather import Advanced, read_window, split_starts, split_window, window_of
from .index_key import Plan, lay_out
from .promotion import can_cast_same_kind

__all__ = ["check_value", "fit_value", "masked_function", "write_function"]

_SET = "x[key] = value"


def check_value(shape: tuple[int, ...], dtype: _d.DType, target: tuple[int, ...], target_dtype: _d.DType) -> None:
    """Raise unless a value of this shape and dtype can be written where `target` elements are.

    Raises
    ------
    DTypeMismatch
        The cast would change the kind: complex into real, real into integer, numbers into bool.
    BroadcastError
        The shape does not broadcast to the target; leading axes of size 1 are ignored.
    """
    if dtype != target_dtype and not can_cast_same_kind(dtype, target_dtype):
        raise DTypeMismatch(
            _SET,
            "value",
            got=f"dtype {dtype}",
            wanted=f"a dtype that casts to {target_dtype} within its kind",
            remedy="Convert the value with astype first.",
        )
    trimmed = _trim(shape, len(target))
    offset = len(target) - len(trimmed)
    if offset < 0 or any(n not in (1, target[offset + i]) for i, n in enumerate(trimmed)):
        raise BroadcastError(
            _SET, "value", got=f"shape {shape}", wanted=f"a shape that broadcasts to {target}", lhs=shape, rhs=target
        )


def _trim(shape: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    extra = len(shape) - ndim
    if extra > 0 and all(n == 1 for n in shape[:extra]):
        return shape[extra:]
    return shape


def fit_value(value: jax.Array, target: tuple[int, ...], dtype: _d.DType, *, stretch: bool = True) -> jax.Array:
    """Return a value cast and broadcast to the place that it is written to; see `check_value`.

    With ``stretch=False`` axes of size 1 are kept, and only leading axes are added.
    """
    check_value(value.shape, value.dtype, target, dtype)
    if value.dtype != dtype:
        value = lax.convert_element_type(value, dtype)
    trimmed = _trim(value.shape, len(target))
    if not stretch:
        return lax.reshape(value, (*(1,) * (len(target) - len(trimmed)), *trimmed))
    if value.shape == target:
        return value
    offset = len(target) - len(trimmed)
    kept = [i for i, n in enumerate(trimmed) if n == target[offset + i]]
    return lax.broadcast_in_dim(lax.reshape(value, tuple(trimmed[i] for i in kept)), target, [offset + i for i in kept])


def write_window(x: jax.Array, value: jax.Array, plan: Plan, starts: Sequence[jax.Array]) -> jax.Array:
    """Return x with ``x[key] = value`` for a basic plan; the value has the dtype and the shape of ``x[key]``."""
    begins, spans, strides, reverse, sizes = window_of(plan, x.shape, starts)
    value = lax.reshape(value, sizes)
    if reverse:
        value = lax.rev(value, reverse)
    if any(stride > 1 for stride in strides):
        # Between the written positions the window keeps what it had.
        old = lax.dynamic_slice(x, begins, spans, allow_negative_indices=False)
        spread = lax.pad(value, np.zeros((), x.dtype), [(0, 0, stride - 1) for stride in strides])
        written = lax.full(spans, True)
        for axis, stride in enumerate(strides):
            if stride > 1:
                written &= lax.broadcasted_iota(np.dtype(np.int32), spans, axis) % np.int32(stride) == 0
        value = lax.select(written, spread, old)
    if tuple(spans) == x.shape:
        return value
    return lax.dynamic_update_slice(x, value, begins, allow_negative_indices=False)


def write_function(plan: Plan, arrays: int, checked: bool, ordered: bool) -> Callable[..., jax.Array]:
    """Return the function of ``(x, value, *starts, *arrays)`` that gives x with ``x[key] = value``.

    Parameters
    ----------
    plan
        See `rtx_jax.core.index_key`.
    arrays
        Number of index arrays among the operands, last.
    checked
        True when array indices are known to be in range; otherwise writes outside are dropped.
    ordered
        True when the device applies repeated indices in order, so that the last write wins by itself.
    """
    if not arrays and not any(item in ("t", "f") for item in plan):

        def write_basic(x: jax.Array, value: jax.Array, *starts: jax.Array) -> jax.Array:
            target = lay_out(plan, x.shape, [], _SET).shape
            return write_window(x, fit_value(value, target, x.dtype), plan, starts)

        return write_basic

    narrow, narrows = split_window(plan)

    def write(x: jax.Array, value: jax.Array, *operands: jax.Array) -> jax.Array:
        starts, indices = operands[: len(operands) - arrays], operands[len(operands) - arrays :]
        layout = lay_out(plan, x.shape, [index.shape for index in indices], _SET)
        value = fit_value(value, layout.shape, x.dtype)
        cuts, ints = split_starts(plan, starts)
        part = read_window(x, narrow, cuts) if narrows else x
        place = Advanced(plan, part.shape, iter(ints), iter(indices), layout, checked)
        part = scatter(part, lax.reshape(value, place.shape), place, checked, ordered)
        return write_window(x, part, narrow, cuts) if narrows else part

    return write


def scatter(x: jax.Array, value: jax.Array, place: Advanced, checked: bool, ordered: bool) -> jax.Array:
    """Return x with the value at `place`; of repeated places the last one wins."""
    if 0 in place.shape or 0 in x.shape:
        return x
    if not place.axes:
        # Only scalar masks, all True: the batch axes are of size 1.
        return lax.reshape(value, x.shape)
    vectors = place.vectors
    if not ordered and place.batch:
        vectors = _drop_overwritten(vectors, [x.shape[axis] for axis in place.axes])
        checked = False
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=place.offsets,
        inserted_window_dims=tuple(place.axes),
        scatter_dims_to_operand_dims=tuple(place.axes),
    )
    mode = lax.GatherScatterMode.PROMISE_IN_BOUNDS if checked else lax.GatherScatterMode.FILL_OR_DROP
    return lax.scatter(x, vectors, value, numbers, mode=mode)


def _drop_overwritten(vectors: jax.Array, sizes: list[int]) -> jax.Array:
    """Move every index vector that a later one repeats out of range, so that its write is dropped.

    For devices that apply scattered writes in no particular order.
    """
    flat = lax.reshape(vectors, (-1 if 0 in vectors.shape else vectors.size // vectors.shape[-1], vectors.shape[-1]))
    count = flat.shape[0]
    columns = [flat[:, i] for i in range(flat.shape[1])]
    number = lax.iota(np.dtype(np.int32), count)
    *ordered, last = lax.sort((*columns, number), num_keys=len(columns) + 1)
    same = jnp.ones((count - 1,), bool)
    for column in ordered:
        same = same & (column[1:] == column[:-1])
    lost_sorted = jnp.concatenate([same, jnp.zeros((1,), bool)])
    lost = jnp.zeros((count,), bool).at[last].set(lost_sorted, unique_indices=True)
    outside = np.array(sizes, flat.dtype)
    return lax.reshape(jnp.where(lost[:, None], outside, flat), vectors.shape)


def masked_function(plan: Plan, position: int, rank: int, *, counted: bool) -> Callable[..., jax.Array]:
    """Return the function of ``(x, value, mask, *starts)`` that gives x with ``x[..., mask, ...] = value``.

    The mask selects from whole axes; nothing depends on how many of its elements are True.

    Parameters
    ----------
    plan
        Basic plan of the key with ``":"`` for each axis of the mask.
    position
        Axis of ``x[plan]`` at which the mask begins.
    rank
        Number of axes of the mask.
    counted
        False when the value is the same for each True element (its axis there is 1 or missing); True when it
        brings one for each. Elements without a value keep what they had.
    """

    def write(x: jax.Array, value: jax.Array, mask: jax.Array, *cuts: jax.Array) -> jax.Array:
        whole = all(item == ":" for item in plan)
        part = x if whole else read_window(x, plan, cuts)
        before, after = part.shape[:position], part.shape[position + rank :]
        wide = lax.broadcast_in_dim(mask, part.shape, range(position, position + rank))
        if counted and not value.size:
            return x
        if counted:
            trimmed = _trim(value.shape, len(before) + 1 + len(after))
            axis = len(trimmed) - 1 - len(after)
            count = trimmed[axis]
            value = fit_value(value, (*before, count, *after), x.dtype, stretch=False)
            flat = lax.reshape(mask, (mask.size,))
            order = lax.cumsum(lax.convert_element_type(flat, np.dtype(np.int32)))
            wide = wide & lax.broadcast_in_dim(
                lax.reshape(order <= np.int32(count), mask.shape), part.shape, range(position, position + rank)
            )
            taken = jnp.take(value, jnp.clip(order - 1, 0, count - 1), axis=position, mode="clip")
            value = lax.reshape(taken, (*taken.shape[:position], *mask.shape, *taken.shape[position + 1 :]))
        else:
            value = fit_value(value, (*before, 1, *after), x.dtype, stretch=False)
            value = lax.reshape(value, (*value.shape[:position], *(1,) * rank, *value.shape[position + 1 :]))
        part = lax.select(wide, jnp.broadcast_to(value, part.shape), part)
        return part if whole else write_window(x, part, plan, cuts)

    return write
