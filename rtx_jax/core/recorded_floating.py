"""The doors of fusion for operations whose integer operands become the default float; see `rtx_jax.core.floating`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .._compat import EAGER_TRACE, running_trace
from .dtypes import INEXACT, default_float
from .handle import Handle
from .host import SCALARS, scalar_operand
from .lazy import Lazy, Unrecordable, fusing, open_tape, record, scalar, watch
from .op import Op
from .recorded import dtype_at, fail, handle_slot, spend_given, wrap_lazy

__all__ = ["floating_binary_recorder", "floating_unary_recorder"]

_H = TypeVar("_H", bound=Handle)

_new = object.__new__


def floating_unary_recorder(
    cls: type[_H], op: Op, cast: Op, slow: Callable[[object], object]
) -> Callable[[object], _H]:
    """Return the call of an operation with one operand, off the fast path; `cast` takes what is not floating."""
    entry = op.variant()
    floating = entry[0]
    name = op.name

    def divert(x: object) -> _H:
        tape = fusing.recording
        if tape is None or ((running_trace.value is not EAGER_TRACE or watch.nans) and open_tape() is None):
            return slow(x)  # type: ignore[return-value]
        if type(x) is not cls:
            return slow(x)  # type: ignore[return-value]
        try:
            data = x._data
            slot = data.fact.slot if type(data) is Lazy and data.state is tape else handle_slot(tape, x)
            # Known here, it takes a floating operand.
            place = tape.place.next.get((floating, slot))
            if place is None or place.fact is None:
                fn, wide = entry if dtype_at(tape, slot) in INEXACT else cast.variant(default_float())
                value = record(tape, fn, wide, (slot,))
            else:
                tape.place = place
                value = _new(Lazy)
                value.fact = place.fact
                value.state = tape
                tape.values.append(value)
        except Unrecordable:
            tape.given.clear()
            return slow(x)  # type: ignore[return-value]
        except Exception as error:
            fail(tape, name, error)
        if tape.given:
            spend_given(tape)
        return wrap_lazy(cls, value)

    return divert


def floating_binary_recorder(
    cls: type[_H], op: Op, cast: Op, slow: Callable[[object, object], object]
) -> Callable[[object, object], _H]:
    """Return the call of an operation with two operands, off the fast path; `cast` takes what is not floating."""
    entry = op.variant()
    name = op.name

    def divert(x1: object, x2: object) -> _H:
        tape = fusing.recording
        if tape is None or ((running_trace.value is not EAGER_TRACE or watch.nans) and open_tape() is None):
            return slow(x1, x2)  # type: ignore[return-value]
        try:
            fn, wide = entry
            if type(x1) is cls:
                first = handle_slot(tape, x1)
                dtype = dtype_at(tape, first)
                if type(x2) is cls:
                    second = handle_slot(tape, x2)
                    if dtype not in INEXACT and dtype_at(tape, second) not in INEXACT:
                        fn, wide = cast.variant(default_float())
                elif type(x2) in SCALARS:
                    beside = dtype if dtype in INEXACT else default_float()
                    second = scalar(tape, scalar_operand(x2, beside)[0])  # type: ignore[arg-type]
                else:
                    return slow(x1, x2)  # type: ignore[return-value]
            elif type(x2) is cls and type(x1) in SCALARS:
                second = handle_slot(tape, x2)
                dtype = dtype_at(tape, second)
                beside = dtype if dtype in INEXACT else default_float()
                first = scalar(tape, scalar_operand(x1, beside)[0])  # type: ignore[arg-type]
            else:
                return slow(x1, x2)  # type: ignore[return-value]
            value = record(tape, fn, wide, (first, second))
        except Unrecordable:
            tape.given.clear()
            return slow(x1, x2)  # type: ignore[return-value]
        except Exception as error:
            fail(tape, name, error)
        if tape.given:
            spend_given(tape)
        return wrap_lazy(cls, value)

    return divert
