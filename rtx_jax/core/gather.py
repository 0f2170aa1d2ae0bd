"""Reading by a plan: functions of raw arrays that are compiled once per plan and shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from . import dtypes as _d
from .index_key import Layout, Plan, lay_out

__all__ = ["bring_near", "missing_value", "read_function", "read_window", "resolve", "window_of"]

_INT32, _INT64 = _d.int32, _d.int64


def missing_value(dtype: _d.DType) -> float | int | bool:
    """Return what a read out of range gives: NaN, the integer minimum or False."""
    if dtype in _d.INEXACT:
        return np.nan
    return False if dtype == _d.bool_ else int(jnp.iinfo(dtype).min)


def window_of(
    plan: Plan, shape: tuple[int, ...], starts: Sequence[jax.Array]
) -> tuple[list[jax.Array | np.ndarray], list[int], list[int], list[int], list[int]]:
    """Return begins, spans, strides, reversed axes and strided sizes of the window that a basic plan reads."""
    begins: list[jax.Array | np.ndarray] = []
    spans, strides, reverse, sizes = [], [], [], []
    operands = iter(starts)
    zero = np.zeros((), starts[0].dtype if starts else _INT32)
    axis = 0
    for item in plan:
        if item == "n":
            continue
        count, step = item if isinstance(item, tuple) else (shape[axis] if item == ":" else 1, 1)
        begin = zero if item == ":" else next(operands)
        begins.append(begin)
        spans.append((count - 1) * abs(step) + 1 if count else 0)
        strides.append(abs(step))
        sizes.append(count)
        if step < 0:
            reverse.append(axis)
        axis += 1
    return begins, spans, strides, reverse, sizes


def read_window(x: jax.Array, plan: Plan, starts: Sequence[jax.Array]) -> jax.Array:
    """Return ``x[key]`` for a basic plan. Positions are not checked here: XLA would clamp them."""
    begins, spans, strides, reverse, _ = window_of(plan, x.shape, starts)
    out = lay_out(plan, x.shape, [], "x[key]").shape
    if tuple(spans) != x.shape:
        x = lax.dynamic_slice(x, begins, spans, allow_negative_indices=False)
    if any(stride > 1 for stride in strides):
        x = lax.slice(x, (0,) * x.ndim, x.shape, strides)
    if reverse:
        x = lax.rev(x, reverse)
    return lax.reshape(x, out)


def bring_near(index: jax.Array, size: int) -> jax.Array:
    """Return indices that can be narrowed for an axis of `size`, out of range where they were: 2**32 + 1 is not 1."""
    dtype = index.dtype
    top = lax.full(index.shape, size, dtype)
    return lax.clamp(lax.full(index.shape, -size - 1, dtype), index, top) if dtype in _d.SIGNED else lax.min(index, top)


def resolve(index: jax.Array, size: int, checked: bool) -> jax.Array:
    """Return indices counted from the front, wide enough for the axis; those out of range stay out of range.

    Negatives are resolved in a type that can hold `size`: an int8 cannot say where -1 is on an axis of 200.

    Parameters
    ----------
    index
        Integers of any width, also on axes of more than 2**31 elements.
    size
        Size of the axis.
    checked
        True when all indices are known to be in range.
    """
    target = _INT32 if size < 2**31 else _INT64
    dtype = index.dtype
    signed = dtype in _d.SIGNED
    if not checked and (dtype.itemsize > target.itemsize or (not signed and dtype.itemsize == target.itemsize)):
        index = bring_near(index, size)
    if dtype != target:
        index = lax.convert_element_type(index, target)
    if signed:
        index = lax.select(index < 0, index + np.array(size, target), index)
    return index


def split_window(plan: Plan) -> tuple[Plan, bool]:
    """Return the basic plan that narrows the slices of an advanced plan, and whether it narrows anything."""
    narrow = tuple(
        item if isinstance(item, tuple) else ":" for item in plan if item in ("a", "i", ":") or isinstance(item, tuple)
    )
    return narrow, any(isinstance(item, tuple) for item in narrow)


class Advanced:
    """The parts of a gather or scatter: index vectors and dimension numbers for an advanced plan.

    Slices were narrowed before, so that every axis is whole or indexed.
    """

    def __init__(
        self,
        plan: Plan,
        shape: tuple[int, ...],
        positions: Iterator[jax.Array],
        arrays: Iterator[jax.Array],
        layout: Layout,
        checked: bool,
    ) -> None:
        self.axes: list[int] = []
        parts: list[jax.Array] = []
        axis = 0
        for item in plan:
            if item in ("n", ".", "t", "f"):
                continue
            if item in ("a", "i"):
                index = next(arrays) if item == "a" else next(positions)
                self.axes.append(axis)
                parts.append(resolve(index, shape[axis], checked or item == "i"))
            axis += 1
        wide = _INT64 if any(part.dtype == _INT64 for part in parts) else _INT32
        self.batch = layout.batch
        self.columns = [_stretch(lax.convert_element_type(part, wide), self.batch) for part in parts]
        self.sizes = tuple(1 if i in self.axes else n for i, n in enumerate(shape))
        start = layout.position - sum(place < layout.position for place in layout.new)
        rank = len(shape) - len(self.axes) + len(self.batch)
        self.offsets = tuple(i for i in range(rank) if not start <= i < start + len(self.batch))
        self.start = start
        rest = [n for i, n in enumerate(shape) if i not in self.axes]
        self.shape = (*rest[:start], *self.batch, *rest[start:])

    @property
    def vectors(self) -> jax.Array:
        """The index vectors, along the last axis."""
        return lax.concatenate([lax.expand_dims(c, (c.ndim,)) for c in self.columns], len(self.batch))


def _stretch(part: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Broadcast with plain lax operations, which do not depend on the state of x64."""
    if part.shape == shape:
        return part
    offset = len(shape) - part.ndim
    kept = [i for i, n in enumerate(part.shape) if n == shape[offset + i]]
    part = lax.reshape(part, tuple(part.shape[i] for i in kept))
    return lax.broadcast_in_dim(part, shape, [offset + i for i in kept])


def read_function(plan: Plan, arrays: int, checked: bool) -> Callable[..., jax.Array]:
    """Return the function of ``(x, *starts, *arrays)`` that reads by a plan.

    Parameters
    ----------
    plan
        See `rtx_jax.core.index_key`.
    arrays
        Number of index arrays among the operands, last.
    checked
        True when array indices are known to be in range; otherwise those outside read as `missing_value`.
    """
    if not arrays and not any(item in ("t", "f") for item in plan):

        def read_basic(x: jax.Array, *starts: jax.Array) -> jax.Array:
            return read_window(x, plan, starts)

        return read_basic

    narrow, narrows = split_window(plan)

    def read(x: jax.Array, *operands: jax.Array) -> jax.Array:
        starts, indices = operands[: len(operands) - arrays], operands[len(operands) - arrays :]
        layout = lay_out(plan, x.shape, [index.shape for index in indices], "x[key]")
        cuts, ints = split_starts(plan, starts)
        if narrows:
            x = read_window(x, narrow, cuts)
        gathered = gather(x, Advanced(plan, x.shape, iter(ints), iter(indices), layout, checked), checked)
        return lax.reshape(gathered, layout.shape)

    return read


def split_starts(plan: Plan, starts: Sequence[jax.Array]) -> tuple[list[jax.Array], list[jax.Array]]:
    """Return the positions of the slices and those of the integers."""
    cuts, ints = [], []
    operands = iter(starts)
    for item in plan:
        if item == "i":
            ints.append(next(operands))
        elif isinstance(item, tuple):
            cuts.append(next(operands))
    return cuts, ints


def gather(x: jax.Array, parts: Advanced, checked: bool) -> jax.Array:
    """Read the elements that `parts` select, without new axes."""
    if not parts.axes:
        # Only scalar masks: one copy or none.
        kept = [i for i in range(len(parts.shape)) if i in parts.offsets]
        return lax.broadcast_in_dim(x, parts.shape, kept)
    if 0 in parts.shape or 0 in x.shape:
        return lax.full(parts.shape, missing_value(x.dtype), x.dtype)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=parts.offsets, collapsed_slice_dims=tuple(parts.axes), start_index_map=tuple(parts.axes)
    )
    if checked:
        return lax.gather(x, parts.vectors, numbers, parts.sizes, mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS)
    return lax.gather(
        x,
        parts.vectors,
        numbers,
        parts.sizes,
        mode=lax.GatherScatterMode.FILL_OR_DROP,
        fill_value=missing_value(x.dtype),
    )
