"""The doors of fusion: operations on handles become steps of this thread's tape, where that is possible.

Each function returns None where the call cannot be recorded; it runs eagerly then, which computes its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NoReturn, TypeAlias, TypeVar

import numpy as np
from jax.core import Tracer

from .._compat import EAGER_TRACE, ArrayImpl, running_trace
from ..errors import ScalarOverflow, UseAfterMove
from .fused import set_twin
from .handle import COUNTED, MOVED, Given, Handle, giving, held, moved
from .host import SCALARS, lift, scalar_operand
from .lazy import Lazy, Tape, Unrecordable, fusing, leaf, open_tape, record, resolve, scalar, slot_of, watch
from .op import Op, raise_translated

__all__ = [
    "binary_recorder",
    "dtype_at",
    "fail",
    "handle_slot",
    "operand_slot",
    "record_operation",
    "record_update",
    "spend_given",
    "unary_recorder",
    "wrap_lazy",
]

_H = TypeVar("_H", bound=Handle)

Slow: TypeAlias = Callable[..., object]

_new = object.__new__


def handle_slot(tape: Tape, handle: Handle) -> int:
    """Return the slot of what a handle holds; one that was given up is noted, to be dead once the call is recorded.

    Raises
    ------
    Unrecordable
        It is a tracer, spread over devices, or on another one than what was recorded before.
    """
    data = handle._data
    kind = type(data)
    if kind is Lazy:
        if data.state is tape:
            slot: int = data.fact.slot
            return slot
        data = held(handle)
    elif kind is ArrayImpl:
        known = tape.slots.get(id(data))
        if known is not None:
            return known
    else:
        if kind is Given:
            return _given_slot(tape, handle, data)
        data = held(handle)
        if type(data) is not ArrayImpl:
            raise Unrecordable
    return leaf(tape, data, handle._owned is True)


def _given_slot(tape: Tape, handle: Handle, given: Given) -> int:
    """Return the slot of what a handle that was given up holds. Its memory is reused where nobody else sees it."""
    data = given.data
    if any(other is handle for other in tape.given):
        raise moved()
    tape.given.append(handle)
    if type(data) is Lazy:
        if data.state is tape:
            slot: int = data.fact.slot
            return slot
        data = resolve(data)
    if type(data) is not ArrayImpl:
        raise Unrecordable
    slot = leaf(tape, data, handle._owned is True or handle._owned is COUNTED)
    if id(data) in tape.owned:
        tape.taken.add(slot)
    return slot


def spend_given(tape: Tape) -> None:
    """Mark the handles as dead that were given up to a call."""
    given = tape.given
    tape.given = []
    for handle in given:
        with giving:
            cell = handle._data  # type: ignore[attr-defined]
            if type(cell) is not Given:
                raise moved()  # another thread was faster
            handle._data = MOVED  # type: ignore[attr-defined]
            cell.data = MOVED  # frames of the call still hold the cell


def fail(tape: Tape, name: str, error: Exception) -> NoReturn:
    """Use up what was given to a call that raised, and raise its error under the name of the operation."""
    spend_given(tape)
    if isinstance(error, ScalarOverflow | UseAfterMove):
        raise error.renamed(name) from None
    raise_translated(name, error)


def wrap_lazy(cls: type[_H], value: object) -> _H:
    """Return a handle that owns a recorded value."""
    handle: _H = _new(cls)
    handle._data = value
    handle._owned = True
    return handle


def unary_recorder(cls: type[_H], op: Op, slow: Slow) -> Callable[[object], _H]:
    """Return the call of an operation with one operand and no parameters, off the fast path.

    It records where fusion is on, and goes on to `slow` where not.
    """
    fn, wide = op.variant()
    name = op.name

    def divert(x: object) -> _H:
        tape = fusing.recording
        if tape is None or ((running_trace.value is not EAGER_TRACE or watch.nans) and open_tape() is None):
            return slow(op, (x,))  # type: ignore[return-value]
        if type(x) is not cls:
            found = record_operation(cls, op, (x,))
            return found if found is not None else slow(op, (x,))  # type: ignore[return-value]
        try:
            data = x._data
            slot = data.fact.slot if type(data) is Lazy and data.state is tape else handle_slot(tape, x)
            place = tape.place.next.get((fn, slot))
            if place is None or place.fact is None:
                value = record(tape, fn, wide, (slot,))
            else:
                tape.place = place
                value = _new(Lazy)
                value.fact = place.fact
                value.state = tape
                tape.values.append(value)
        except Unrecordable:
            tape.given.clear()
            return slow(op, (x,))  # type: ignore[return-value]
        except Exception as error:
            fail(tape, name, error)
        if tape.given:
            spend_given(tape)
        if type(value) is not Lazy:
            return tuple([wrap_lazy(cls, part) for part in value])  # type: ignore[return-value, union-attr]
        handle: _H = _new(cls)
        handle._data = value
        handle._owned = True
        return handle

    return divert


def binary_recorder(cls: type[_H], op: Op, slow: Slow) -> Callable[[object, object], _H]:
    """Return the call of an operation with two operands, of which one may be a Python scalar, off the fast path.

    It records where fusion is on, and goes on to `slow` where not.
    """
    fn, wide = op.variant()
    name = op.name

    def divert(x1: object, x2: object) -> _H:
        tape = fusing.recording
        if tape is None or ((running_trace.value is not EAGER_TRACE or watch.nans) and open_tape() is None):
            return slow(op, (x1, x2))  # type: ignore[return-value]
        try:
            if type(x1) is cls:
                data = x1._data
                first = data.fact.slot if type(data) is Lazy and data.state is tape else handle_slot(tape, x1)
                if type(x2) is cls:
                    data = x2._data
                    second = data.fact.slot if type(data) is Lazy and data.state is tape else handle_slot(tape, x2)
                elif type(x2) in SCALARS:
                    second = scalar(tape, scalar_operand(x2, dtype_at(tape, first))[0])  # type: ignore[arg-type]
                else:
                    return general(x1, x2)
            elif type(x2) is cls and type(x1) in SCALARS:
                second = handle_slot(tape, x2)
                first = scalar(tape, scalar_operand(x1, dtype_at(tape, second))[0])  # type: ignore[arg-type]
            else:
                return general(x1, x2)
            place = tape.place.next.get((fn, first, second))
            if place is None or place.fact is None:
                value = record(tape, fn, wide, (first, second))
            else:
                tape.place = place
                value = _new(Lazy)
                value.fact = place.fact
                value.state = tape
                tape.values.append(value)
        except Unrecordable:
            tape.given.clear()
            return slow(op, (x1, x2))  # type: ignore[return-value]
        except Exception as error:
            fail(tape, name, error)
        if tape.given:
            spend_given(tape)
        if type(value) is not Lazy:
            return tuple([wrap_lazy(cls, part) for part in value])  # type: ignore[return-value, union-attr]
        handle: _H = _new(cls)
        handle._data = value
        handle._owned = True
        return handle

    def general(x1: object, x2: object) -> _H:
        found = record_operation(cls, op, (x1, x2))
        return found if found is not None else slow(op, (x1, x2))  # type: ignore[return-value]

    return divert


def dtype_at(tape: Tape, slot: int) -> np.dtype:
    found = tape.values[slot].fact if slot >= 0 else tape.leaves[-slot - 1]
    dtype: np.dtype = found.dtype  # type: ignore[attr-defined]
    return dtype


def record_operation(cls: type[_H], op: Op, operands: Sequence[object], static: Hashable = ()) -> object:
    """Record an operation on operands of any accepted kind; return a handle, or a tuple of them, or None."""
    tape = open_tape()
    if tape is None:
        return None
    fn, wide = op.variant(static)
    slots: list[int | None] = [None] * len(operands)
    partner: np.dtype | None = None
    try:
        for i, x in enumerate(operands):
            if isinstance(x, Handle):
                slots[i] = slot = handle_slot(tape, x)
                partner = partner or dtype_at(tape, slot)
            elif not isinstance(x, bool | int | float | complex):
                array = resolve(x) if type(x) is Lazy else lift(x, None, op.name, _argument(operands, i))
                if isinstance(array, Tracer):
                    return None
                slots[i] = leaf(tape, array, False)
                partner = partner or array.dtype
        for i, x in enumerate(operands):
            if slots[i] is None:
                if partner is None:
                    slots[i] = leaf(tape, lift(x), False)
                    partner = dtype_at(tape, slots[i])  # type: ignore[arg-type]
                else:
                    value = x.item() if isinstance(x, np.generic) else x
                    slots[i] = scalar(tape, scalar_operand(value, partner)[0])  # type: ignore[arg-type]
        result = record(tape, fn, wide, tuple(slots))
    except Unrecordable:
        tape.given.clear()
        return None
    except Exception as error:
        fail(tape, op.name, error)
    if tape.given:
        spend_given(tape)
    if type(result) is Lazy:
        return wrap_lazy(cls, result)
    return tuple([wrap_lazy(cls, part) for part in result])  # type: ignore[union-attr]


def _argument(operands: Sequence[object], i: int) -> str:
    return f"x{i + 1}" if len(operands) > 1 else "x"


def record_update(
    handle: Handle,
    plain: Callable[..., object],
    donating: Callable[..., object],
    operands: Sequence[object],
    wide: bool,
) -> bool:
    """Record that a handle's array is replaced by ``f(array, *operands)``; False where that is not possible.

    Parameters
    ----------
    plain, donating
        Two compiled forms of one function; the second donates its first operand.
    operands
        Handles, raw arrays, or scalars of NumPy.
    wide
        Whether the function needs x64 whatever its operands are.
    """
    tape = open_tape()
    if tape is None:
        return False
    if type(handle._data) is Given:  # the write is what it was given to
        handle._data = handle._data.data
    try:
        first = handle_slot(tape, handle)
        slots = [operand_slot(tape, x) for x in operands]
        set_twin(plain, donating)
        value = record(tape, plain, wide, (first, *slots))
    except Unrecordable:
        tape.given.clear()
        return False
    except Exception:
        spend_given(tape)
        raise
    if tape.given:
        spend_given(tape)
    if type(value) is not Lazy:
        return False
    handle._data = value
    handle._owned = True
    return True


def operand_slot(tape: Tape, x: object) -> int:
    if isinstance(x, Handle):
        return handle_slot(tape, x)
    if type(x) is ArrayImpl:
        return leaf(tape, x, False) if x.ndim or x.committed or x.weak_type else scalar(tape, x)
    if isinstance(x, np.ndarray | np.generic):
        return scalar(tape, lift(x)) if not x.ndim else leaf(tape, lift(x), False)
    return slot_of(tape, x)
