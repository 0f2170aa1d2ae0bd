"""The doors of operations with floating-point results, where integers become the default float.

Which float that is depends on the device and on `set_default_dtype`, so it is a static parameter of the compiled
call; for floating operands, the fast path, it costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import jax
import numpy as np
from jax import lax

from .._compat import X64_UNSET, ArrayImpl, restore_x64, swap_x64
from ..errors import UseAfterMove
from .dispatch import Door, Op, lift, raise_translated, scalar_operand
from .dtypes import INEXACT, KIND, WIDE, DType, default_float
from .handle import Handle, facts_of, tracing
from .host import SCALARS
from .recorded_floating import floating_binary_recorder, floating_unary_recorder

__all__ = ["floating_binary", "floating_unary"]

_H = TypeVar("_H", bound=Handle)

# What a dtype asks of the call, in two bits: x64; the default float.
_X64, _CAST = 1, 2


class _Needs(dict[DType, int]):
    def __missing__(self, dtype: DType) -> int:
        return _CAST  # an unknown dtype: the raw function refuses it


_NEEDS = _Needs({dtype: (dtype in WIDE) * _X64 + (dtype not in INEXACT) * _CAST for dtype in KIND})


def _casting(op: Op) -> Op:
    def cast(*operands: jax.Array, dtype: np.dtype) -> object:
        return op.fn(*(lax.convert_element_type(x, dtype) for x in operands))

    return Op(op.name, cast, ("dtype",))


def _slow(door: Door[_H], op: Op, cast: Op, operands: Sequence[object]) -> object:
    """Run in any mode and on any operand: decide by the dtypes whether the operands become the default float."""
    dtypes, device = [], None
    for operand in operands:
        if isinstance(operand, Handle):
            try:
                device = facts_of(operand)
            except UseAfterMove as error:
                raise error.renamed(op.name) from None
            dtypes.append(device.dtype)
        elif isinstance(operand, jax.Array | np.ndarray | np.generic):
            dtypes.append(operand.dtype)
        elif isinstance(operand, bool | int):
            dtypes.append(np.dtype(bool))
        else:  # floating scalars, and what is no operand at all
            return door.general(op, operands)
    target = None if any(dtype in INEXACT or dtype not in KIND for dtype in dtypes) else default_float(device)
    del device  # whether memory is free is seen from the references
    if target is None:
        return door.general(op, operands)
    lifted = [lift(x) if isinstance(x, bool | int) else x for x in operands]
    return door.general(cast, lifted, target)


def floating_unary(door: Door[_H], op: Op) -> Callable[[object], _H]:
    """Return the call of an operation with one operand and no parameters, as ``door.unary`` does."""
    cls, new, mode, traced, needs = door.cls, object.__new__, tracing, door.traced, _NEEDS
    jitted, _ = op.variant()
    cast = _casting(op)
    divert = floating_unary_recorder(cls, op, cast, lambda x: _slow(door, op, cast, (x,)))

    def call(x: object, /) -> _H:
        if type(x) is cls:
            data = x._data
            if type(data) is ArrayImpl and not mode.active:
                wide, run = needs[data.dtype], jitted
                if wide >= _CAST:
                    target = default_float(data)
                    run, wide_result = cast.cache.get(target) or cast.build(target)
                    wide = wide_result or wide & _X64
                try:
                    if wide:
                        previous = X64_UNSET
                        try:
                            previous = swap_x64(True)
                            result = run(data)
                        finally:
                            restore_x64(previous)
                    else:
                        result = run(data)
                except Exception as error:
                    raise_translated(op.name, error)
                if type(result) is ArrayImpl:
                    handle = new(cls)
                    handle._data = result
                    handle._owned = True
                    return handle
                return traced(op, (x,), result)  # type: ignore[return-value]
        return divert(x)

    return call


def floating_binary(door: Door[_H], op: Op, alone: Op | None = None) -> Callable[[object, object], _H]:
    """Return the call of an operation with two operands, of which one may be a Python scalar, as ``door.binary``.

    `alone` takes the place of `op` in eager calls, where nothing is fused with it.
    """
    cls, new, mode, traced, needs = door.cls, object.__new__, tracing, door.traced, _NEEDS
    jitted, _ = (alone or op).variant()
    cast, cast_alone = _casting(op), _casting(alone or op)

    def general(x1: object, x2: object) -> object:
        # Operands of other kinds (host values, handles that were given up) come here eagerly too.
        if tracing.settle():
            return _slow(door, alone or op, cast_alone, (x1, x2))
        return _slow(door, op, cast, (x1, x2))

    divert = floating_binary_recorder(cls, alone or op, cast_alone, general)

    def call(x1: object, x2: object, /) -> _H:
        if mode.active:
            return divert(x1, x2)
        run = jitted
        if type(x1) is cls:
            a = x1._data
            if type(a) is not ArrayImpl:
                return divert(x1, x2)
            wide = needs[a.dtype]
            if type(x2) is cls:
                b = x2._data
                if type(b) is not ArrayImpl:
                    return divert(x1, x2)
                other = needs[b.dtype]
                if wide & other & _CAST:
                    target = default_float(a)
                    run, wide_result = cast_alone.cache.get(target) or cast_alone.build(target)
                    other |= wide_result
            elif type(x2) in SCALARS:
                # An integer beside an integer array is made the default float, so that the result becomes that too.
                b, other = scalar_operand(x2, a.dtype if wide < _CAST else default_float(a))  # type: ignore[arg-type]
            else:
                return divert(x1, x2)
        elif type(x2) is cls and type(x1) in SCALARS:
            b = x2._data
            if type(b) is not ArrayImpl:
                return divert(x1, x2)
            wide = needs[b.dtype]
            a, other = scalar_operand(x1, b.dtype if wide < _CAST else default_float(b))  # type: ignore[arg-type]
        else:
            return divert(x1, x2)
        try:
            if (wide | other) & _X64:
                previous = X64_UNSET
                try:
                    previous = swap_x64(True)
                    result = run(a, b)
                finally:
                    restore_x64(previous)
            else:
                result = run(a, b)
        except Exception as error:
            raise_translated(op.name, error)
        if type(result) is ArrayImpl:
            handle = new(cls)
            handle._data = result
            handle._owned = True
            return handle
        return traced(op, (x1, x2), result)  # type: ignore[return-value]

    return call
