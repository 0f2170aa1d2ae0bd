"""Reads and writes of recorded values with the keys that need no values: integers, slices, None, Ellipsis.

Integer arrays and masks are recorded too, where what is read or written does not depend on their values: the integers
must be there, as their bounds are checked; a mask may be recorded itself, if the value is the same wherever it holds.

A recorded access is one function by plan and shape, with positions as operands. In a program that is compiled whole
it is traced; run by itself it goes through `rtx_jax.core.indexing`, which compiles only what recurs.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import numpy as np
from jax.core import Tracer

from .._compat import ArrayImpl
from . import indexing as _indexing
from .fused import set_twin
from .gather import read_function
from .handle import Given, Handle, facts_of, held
from .host import SCALARS, lift
from .index_checks import check_bounds, checks_on
from .index_key import Plan, parse_basic
from .index_table import applies_in_order, starts
from .index_values import scalar_value
from .lazy import Lazy, Tape, Unrecordable, open_tape, record, scalar
from .recorded import handle_slot, operand_slot, spend_given
from .scatter import masked_function, write_function

__all__ = ["record_read", "record_write"]

_GET, _SET = "x[key]", "x[key] = value"
_MAX_ACCESSES = 4096


def record_read(handle: Handle, key: object) -> Lazy | None:
    """Record ``x[key]``; None where it cannot be recorded."""
    tape = open_tape()
    if tape is None:
        return None
    try:
        shape = facts_of(handle).shape
        found = _plan(key, shape, _GET)
        if found is None:
            return None
        plan, positions, index = found
        if not positions and index is None and all(item == ":" for item in plan):
            return None
        if index is not None:
            _check_index(index, shape[0], _GET)
        slot = handle_slot(tape, handle)
        slots = [slot, *_positions(tape, positions)]
        if index is not None:
            slots.append(handle_slot(tape, index))
        value = record(tape, _read(plan, index is not None), False, tuple(slots))
    except Unrecordable:
        tape.given.clear()
        return None
    except Exception:
        spend_given(tape)
        raise
    if tape.given:
        spend_given(tape)
    return value if type(value) is Lazy else None


def record_write(handle: Handle, key: object, value: object) -> bool:
    """Record ``x[key] = value``; False where it cannot be recorded."""
    tape = open_tape()
    if tape is None:
        return False
    if type(handle._data) is Given:  # the write is what it was given to
        handle._data = handle._data.data
    try:
        facts = facts_of(handle)
        shape, dtype = facts.shape, facts.dtype
        fn: _Write | _MaskWrite
        index: Handle | None
        positions: list[int] = []
        if isinstance(key, Handle) and facts_of(key).dtype == bool:
            mask = facts_of(key).shape
            if not mask or mask != shape[: len(mask)] or _shape_of(value):
                return False
            fn, index = _mask_write((":",) * len(shape), len(mask)), key
        else:
            found = _plan(key, shape, _SET)
            if found is None:
                return False
            plan, positions, index = found
            fn = _write(plan, index is not None, _in_order())
            if index is not None:
                _check_index(index, shape[0], _SET)
        slot = handle_slot(tape, handle)
        second = _value_slot(tape, value, dtype)
        slots = [slot, second, *_positions(tape, positions)]
        if index is not None:
            slots.append(handle_slot(tape, index))
        set_twin(fn, fn.donating)
        result = record(tape, fn, False, tuple(slots))
    except Unrecordable:
        tape.given.clear()
        return False
    except Exception:
        spend_given(tape)
        raise
    if tape.given:
        spend_given(tape)
    handle._data = result
    handle._owned = True
    return True


# --- keys and values -------------------------------------------------------------------------------------------------


def _plan(key: object, shape: tuple[int, ...], operation: str) -> tuple[Plan, list[int], Handle | None] | None:
    """Return plan, positions and the array of integers of a key; None for a key that is not recorded."""
    if max(shape, default=0) >= 2**31:
        return None
    kind = type(key)
    if kind is int or kind is slice or key is None or key is Ellipsis:
        parsed = parse_basic((key,), shape, operation)
    elif kind is tuple:
        parsed = parse_basic(key, shape, operation)  # type: ignore[arg-type]
    elif isinstance(key, Handle) and shape:
        facts = facts_of(key)
        if facts.dtype.kind not in "iu" or not facts.ndim:
            return None
        return ("a", *(":",) * (len(shape) - 1)), [], key
    else:
        return None
    return None if parsed is None else (*parsed, None)


def _positions(tape: Tape, positions: Sequence[int]) -> list[int]:
    slots = []
    for position in positions:
        start = starts[position]
        if type(start) is not ArrayImpl:
            start = lift(np.int32(position))
        slots.append(scalar(tape, start))
    return slots


def _check_index(index: Handle, size: int, operation: str) -> None:
    """Check the bounds of integers, for which they must be known: this may run the tape, so it comes before slots."""
    array = held(index)
    if type(array) is not ArrayImpl or not checks_on(array):
        raise Unrecordable
    check_bounds(array, size, 0, operation)


def _shape_of(value: object) -> tuple[int, ...]:
    if type(value) in SCALARS:
        return ()
    if isinstance(value, Handle):
        return facts_of(value).shape
    shape: tuple[int, ...] = np.shape(value)  # type: ignore[call-overload]
    return shape


def _value_slot(tape: Tape, value: object, dtype: np.dtype) -> int:
    if type(value) in SCALARS:
        operand = scalar_value(value, dtype)  # type: ignore[arg-type]
        return scalar(tape, operand if type(operand) is ArrayImpl else lift(operand))
    if not isinstance(value, Handle | jax.Array | np.ndarray | np.generic | Lazy):
        raise Unrecordable
    return operand_slot(tape, value)


def _in_order() -> bool:
    return applies_in_order(starts[0])  # type: ignore[arg-type]


# --- accesses --------------------------------------------------------------------------------------------------------


class _Access:
    """A read or write by a plan: traceable, and by itself what eager indexing does."""

    __slots__ = ("__name__", "__weakref__", "arrays", "plan")

    def __init__(self, name: str, plan: Plan, arrays: bool) -> None:
        self.__name__ = name
        self.plan, self.arrays = plan, arrays

    def key(self, operands: Sequence[object]) -> object:
        """Return the key that positions and an array of integers stand for."""
        if self.arrays:
            return operands[-1]
        values = iter(operands)
        parts: list[object] = []
        for item in self.plan:
            if item == "i":
                parts.append(int(next(values)))  # type: ignore[call-overload]
            elif isinstance(item, tuple):
                count, step = item
                low = int(next(values))  # type: ignore[call-overload]
                high = low + (count - 1) * abs(step)
                if step > 0:
                    parts.append(slice(low, high + 1, step))
                else:
                    parts.append(slice(high, low - 1 if low else None, step))
                if not count:
                    parts[-1] = slice(low, low)
            elif item == "n":
                parts.append(None)
            else:
                parts.append(slice(None))
        return tuple(parts)


class _Read(_Access):
    """``f(x, *positions, *arrays)``."""

    __slots__ = ()

    def __call__(self, x: jax.Array, *operands: jax.Array) -> jax.Array:
        if isinstance(x, Tracer):
            return read_function(self.plan, int(self.arrays), True)(x, *operands)
        return _indexing.get(x, self.key(operands))


class _Write(_Access):
    """``f(x, value, *positions, *arrays)``."""

    __slots__ = ("ordered",)

    def __init__(self, plan: Plan, arrays: bool, ordered: bool) -> None:
        super().__init__(_SET, plan, arrays)
        self.ordered = ordered  # whether the device applies repeated indices in order

    def __call__(self, x: jax.Array, value: jax.Array, *operands: jax.Array) -> jax.Array:
        if isinstance(x, Tracer):
            return write_function(self.plan, int(self.arrays), True, self.ordered)(x, value, *operands)
        plain, _, rest, _ = _indexing.plan_set(x, self.key(operands), value)
        return plain(x, *rest)

    def donating(self, x: jax.Array, value: jax.Array, *operands: jax.Array) -> jax.Array:
        """Do the same, in the memory of `x` where that is possible."""
        _, donating, rest, _ = _indexing.plan_set(x, self.key(operands), value)
        return donating(x, *rest)


class _MaskWrite(_Access):
    """``f(x, value, mask)``."""

    __slots__ = ("rank",)

    def __init__(self, plan: Plan, rank: int) -> None:
        super().__init__(_SET, plan, False)
        self.rank = rank

    def __call__(self, x: jax.Array, value: jax.Array, mask: jax.Array) -> jax.Array:
        if isinstance(x, Tracer):
            return masked_function(self.plan, 0, self.rank, counted=False)(x, value, mask)
        plain, _, rest, _ = _indexing.plan_set(x, mask, value)
        return plain(x, *rest)

    def donating(self, x: jax.Array, value: jax.Array, mask: jax.Array) -> jax.Array:
        """Do the same, in the memory of `x` where that is possible."""
        _, donating, rest, _ = _indexing.plan_set(x, mask, value)
        return donating(x, *rest)


@functools.lru_cache(maxsize=_MAX_ACCESSES)
def _read(plan: Plan, arrays: bool) -> _Read:
    return _Read(_GET, plan, arrays)


@functools.lru_cache(maxsize=_MAX_ACCESSES)
def _write(plan: Plan, arrays: bool, ordered: bool) -> _Write:
    return _Write(plan, arrays, ordered)


@functools.lru_cache(maxsize=_MAX_ACCESSES)
def _mask_write(plan: Plan, rank: int) -> _MaskWrite:
    return _MaskWrite(plan, rank)
