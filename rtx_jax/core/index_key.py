"""Index keys: what stands between the brackets of ``x[...]`` becomes a static plan and run-time operands.

A plan is a tuple with one item for each part of the key, in order:

``":"``           a whole axis
``"i"``           one position of an axis; operand: the position
``(n, step)``     `n` positions of an axis, `step` apart; operand: the lowest position
``"n"``           a new axis of size 1; consumes no axis
``"a"``           an integer array on an axis; operand: the array
``"t"``, ``"f"``  the scalar masks True and False; consume no axis
``"."``           an Ellipsis that stands for no axis; it separates arrays, which moves their axes to the front

Plans hold no positions, so that one compiled function serves a loop over ``x[i]`` or over ``x[i:i+n]``.
"""

from __future__ import annotations

import operator as _operator
from typing import NamedTuple, TypeAlias

import jax
import numpy as np
from jax.core import Tracer

from ..errors import (
    BroadcastError,
    DataDependentShape,
    IndexOutOfBounds,
    InvalidArgument,
    InvalidDimension,
    InvalidKey,
)
from .dtypes import INTEGRAL

__all__ = ["IndexArray", "Key", "Layout", "Plan", "lay_out", "parse", "parse_basic", "slice_span"]

Plan: TypeAlias = "tuple[str | tuple[int, int], ...]"
IndexArray: TypeAlias = "jax.Array | np.ndarray"

_ARRAYS = (jax.Array, np.ndarray)
_WHOLE = slice(None)
_REMEDY = "Use integers, slices, Ellipsis, None, and arrays or lists of integers or booleans."


class Key(NamedTuple):
    """A parsed key."""

    plan: Plan
    starts: list[int]
    arrays: list[IndexArray]
    parts: list[object]
    """The same key for NumPy: positions counted from the front, slices with integer bounds, masks as positions."""


def out_of_bounds(index: object, size: int, axis: int, operation: str) -> IndexOutOfBounds:
    """Return the error for an index outside of an axis."""
    return IndexOutOfBounds(
        operation,
        "key",
        got=f"index {index} for axis {axis} of size {size}",
        wanted=f"{-size}..{size - 1}" if size else "no index, as the axis is empty",
        index=index,
        size=size,
    )


def _too_many(used: int, shape: tuple[int, ...], operation: str) -> InvalidDimension:
    return InvalidDimension(
        operation,
        "key",
        got=f"{used} indices",
        wanted=f"at most {len(shape)} for shape {shape}",
        dim=used,
        ndim=len(shape),
    )


def _two_ellipses(operation: str) -> InvalidKey:
    return InvalidKey(operation, "key", got="more than one Ellipsis", wanted="at most one", key=Ellipsis)


def _bound(value: object, operation: str) -> int | None:
    try:
        return None if value is None else _operator.index(value)  # type: ignore[arg-type]
    except TypeError as error:
        if type(error) is not TypeError:
            raise  # a typed error, such as reading a tracer
        raise InvalidKey(
            operation,
            "key",
            got=f"a slice with the bound {value!r}",
            wanted="integers or None",
            key=value,
        ) from error


def slice_span(part: slice, size: int, operation: str) -> tuple[int, int, int]:
    """Return the lowest position, the number of positions and the step of a slice of an axis.

    Slices of at most one position have step 1.
    """
    try:
        start, stop, step = part.indices(size)
    except TypeError:
        part = slice(*(_bound(value, operation) for value in (part.start, part.stop, part.step)))
        start, stop, step = part.indices(size)
    except ValueError as error:
        raise InvalidArgument(
            operation, "key", got="a slice with step 0", wanted="a step that is not 0", arg="key", reason="step is 0"
        ) from error
    count = len(range(start, stop, step))
    if count <= 1:
        return (start if count else 0), count, 1
    return (start if step > 0 else start + (count - 1) * step), count, step


def parse_basic(key: tuple[object, ...], shape: tuple[int, ...], operation: str) -> tuple[Plan, list[int]] | None:
    """Return plan and positions of a key of Python ints, slices, None and Ellipsis; None for any other key."""
    used, dots = 0, False
    for part in key:
        kind = type(part)
        if kind is int or kind is slice:
            used += 1
        elif part is Ellipsis:
            if dots:
                raise _two_ellipses(operation)
            dots = True
        elif part is not None:
            return None
    ndim = len(shape)
    if used > ndim:
        raise _too_many(used, shape, operation)
    plan: list[str | tuple[int, int]] = []
    starts: list[int] = []
    axis = 0
    for part in key:
        kind = type(part)
        if kind is int:
            size = shape[axis]
            position: int = part + size if part < 0 else part  # type: ignore[operator,assignment]
            if not 0 <= position < size:
                raise out_of_bounds(part, size, axis, operation)
            plan.append("i")
            starts.append(position)
            axis += 1
        elif kind is slice:
            size = shape[axis]
            if part == _WHOLE:
                plan.append(":")
            else:
                start, count, step = slice_span(part, size, operation)  # type: ignore[arg-type]
                if count == size and step == 1:
                    plan.append(":")
                else:
                    plan.append((count, step))
                    starts.append(start)
            axis += 1
        elif part is None:
            plan.append("n")
        else:
            for _ in range(ndim - used):
                plan.append(":")
            axis += ndim - used
    for _ in range(ndim - axis):
        plan.append(":")
    return tuple(plan), starts


def parse(key: object, shape: tuple[int, ...], operation: str, *, read_scalars: bool) -> Key:
    """Return plan, positions and index arrays of any key.

    Parameters
    ----------
    key
        Raw: handles were replaced by their arrays.
    shape
        Shape of the indexed array.
    operation
        Name for errors.
    read_scalars
        Whether concrete 0-d integer arrays are read, so that they are checked and counted as integers; otherwise
        they stay operands.

    Raises
    ------
    IndexOutOfBounds
        An integer lies outside of its axis.
    InvalidDimension
        More indices than axes.
    InvalidKey
        A part is none of the kinds that index an array, or a mask does not fit.
    DataDependentShape
        A mask is not known while tracing.
    """
    parts = [_plain(part, operation, read_scalars) for part in (key if type(key) is tuple else (key,))]
    used = 0
    for part in parts:
        if isinstance(part, _ARRAYS):
            used += part.ndim if part.dtype == bool else 1
        elif part is not None and part is not Ellipsis and not isinstance(part, bool):
            used += 1
    if used > len(shape):
        raise _too_many(used, shape, operation)
    if sum(part is Ellipsis for part in parts) > 1:
        raise _two_ellipses(operation)
    if not any(part is Ellipsis for part in parts):
        parts.append(Ellipsis)
    builder = _Builder(shape, len(shape) - used, operation)
    for part in parts:
        builder.add(part)
    return builder.key()


def _plain(part: object, operation: str, read_scalars: bool) -> object:
    """Return one part as int, bool, slice, None, Ellipsis, or an array with axes (0-d only where not read)."""
    kind = type(part)
    if kind is int or kind is bool or kind is slice or part is None or part is Ellipsis:
        return part
    if hasattr(part, "_data"):
        part = part._data
    if isinstance(part, np.bool_):
        return bool(part)
    if isinstance(part, list | tuple) or (hasattr(part, "__array__") and not isinstance(part, _ARRAYS)):
        try:
            part = np.asarray(part)
        except ValueError as error:
            raise InvalidKey(operation, "key", got=f"the list {part!r}", wanted="equal lengths", key=part) from error
        if part.size == 0:
            part = part.astype(np.int32)
    if isinstance(part, _ARRAYS):
        if part.dtype not in INTEGRAL and part.dtype != bool:
            raise InvalidKey(
                operation, "key", got=f"an array of dtype {part.dtype}", wanted="integers or booleans", key=part.dtype
            )
        if part.ndim == 0 and not isinstance(part, Tracer):
            if part.dtype == bool:
                return bool(part)
            if read_scalars or isinstance(part, np.ndarray):
                return int(part)
        return part
    try:
        return _operator.index(part)  # type: ignore[arg-type]
    except TypeError as error:
        if type(error) is not TypeError:
            raise
        raise InvalidKey(
            operation,
            "key",
            got=f"{part!r} ({type(part).__name__})",
            wanted="a key that indexes an array",
            remedy=_REMEDY,
            key=part,
        ) from error


class _Builder:
    def __init__(self, shape: tuple[int, ...], spare: int, operation: str) -> None:
        self.shape, self.spare, self.operation = shape, spare, operation
        self.axis = 0
        self.plan: list[str | tuple[int, int]] = []
        self.starts: list[int] = []
        self.arrays: list[IndexArray] = []
        self.parts: list[object] = []

    def key(self) -> Key:
        plan = tuple(self.plan)
        if not any(item in ("a", "t", "f") for item in plan):
            plan = tuple(item for item in plan if item != ".")
        return Key(plan, self.starts, self.arrays, self.parts)

    def add(self, part: object) -> None:
        if part is Ellipsis:
            self.plan.extend([":"] * self.spare or ["."])
            self.parts.append(part)
            self.axis += self.spare
        elif part is None:
            self.plan.append("n")
            self.parts.append(part)
        elif isinstance(part, bool):
            self.plan.append("t" if part else "f")
            self.parts.append(part)
        elif isinstance(part, slice):
            self._add_slice(part)
        elif isinstance(part, _ARRAYS):
            if part.dtype == bool:
                self._add_mask(part)
            else:
                self._add_array(part)
        else:
            self._add_int(part)  # type: ignore[arg-type]

    def _add_int(self, index: int) -> None:
        size = self.shape[self.axis]
        position = index + size if index < 0 else index
        if not 0 <= position < size:
            raise out_of_bounds(index, size, self.axis, self.operation)
        self.plan.append("i")
        self.starts.append(position)
        self.parts.append(position)
        self.axis += 1

    def _add_slice(self, part: slice) -> None:
        size = self.shape[self.axis]
        start, count, step = slice_span(part, size, self.operation)
        if count == size and step == 1:
            self.plan.append(":")
            self.parts.append(_WHOLE)
        else:
            self.plan.append((count, step))
            self.starts.append(start)
            last = start + (count - 1) * abs(step)
            if step > 0:
                self.parts.append(slice(start, last + 1 if count else start, step))
            else:
                self.parts.append(slice(last, start - 1 if start else None, step))
        self.axis += 1

    def _add_array(self, array: IndexArray) -> None:
        self.plan.append("a")
        self.arrays.append(array)
        self.parts.append(array)
        self.axis += 1

    def _add_mask(self, mask: IndexArray) -> None:
        check_mask(mask, self.shape[self.axis : self.axis + mask.ndim], self.operation)
        if isinstance(mask, Tracer):
            raise data_dependent(self.operation)
        for positions in np.nonzero(np.asarray(mask)):
            self._add_array(positions)


def data_dependent(operation: str) -> DataDependentShape:
    """Return the error for a mask whose number of True elements would decide a shape while tracing."""
    return DataDependentShape(
        operation,
        "key",
        got="a boolean mask that is not known while tracing",
        wanted="a shape that does not depend on values",
        remedy="Use where(mask, x, fill) or assign a scalar; outside of the traced function any mask works.",
    )


def check_mask(mask: IndexArray, shape: tuple[int, ...], operation: str) -> None:
    """Raise InvalidKey unless a mask has the shape of the axes that it selects from; empty axes fit any."""
    if len(shape) < mask.ndim:
        raise _too_many(mask.ndim, shape, operation)
    if all(m in (n, 0) for m, n in zip(mask.shape, shape, strict=True)):
        return
    raise InvalidKey(
        operation,
        "key",
        got=f"a mask of shape {mask.shape}",
        wanted=f"the shape {shape} of the axes that it selects from",
        key=mask.shape,
    )


class Layout(NamedTuple):
    """Where the axes of a result come from."""

    shape: tuple[int, ...]
    batch: tuple[int, ...]
    """Shape to which the index arrays broadcast; () without arrays."""
    position: int
    """The first result axis of the batch, new axes counted."""
    new: tuple[int, ...]
    """The result axes that are new, of size 1."""


def lay_out(plan: Plan, shape: tuple[int, ...], index_shapes: list[tuple[int, ...]], operation: str) -> Layout:
    """Return the shape of ``x[key]`` and the places of its axes.

    The axes of index arrays stand where the arrays do when these are adjacent, and first when something lies
    between them; integers count as arrays where there is one (NumPy's rule).

    Raises
    ------
    BroadcastError
        The index arrays do not broadcast.
    """
    flags = [(1,) if item == "t" else (0,) for item in plan if item in ("t", "f")]
    advanced = bool(index_shapes or flags)
    batch: tuple[int, ...] = ()
    if advanced:
        try:
            batch = np.broadcast_shapes(*index_shapes, *flags)
        except ValueError as error:
            raise BroadcastError(
                operation,
                "key",
                got=f"index arrays of shapes {', '.join(map(str, [*index_shapes, *flags]))}",
                wanted="shapes that broadcast together",
                lhs=(index_shapes or flags)[0],
                rhs=[*index_shapes, *flags][-1],
            ) from error
    rest: list[int] = []
    new: list[int] = []
    position, state, axis = 0, "before", 0
    for item in plan:
        if advanced and item in ("a", "i", "t", "f"):
            if state == "before":
                position, state = len(rest), "in"
            elif state == "after":
                position, state = 0, "split"
        elif state == "in":
            state = "after"
        if item == "n":
            new.append(len(rest))
            rest.append(1)
        elif item == ":":
            rest.append(shape[axis])
        elif isinstance(item, tuple):
            rest.append(item[0])
        axis += item not in ("n", ".", "t", "f")
    shift = len(batch)
    return Layout(
        (*rest[:position], *batch, *rest[position:]),
        batch,
        position,
        tuple(place + shift if place >= position else place for place in new),
    )
