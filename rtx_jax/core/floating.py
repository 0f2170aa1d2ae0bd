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
from .dispatch import Door, Op, lift, raise_translated, scalar_operand
from .dtypes import INEXACT, KIND, WIDE, DType, default_float
from .handle import Handle, data_of, tracing
from .host import SCALARS

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
            device = data_of(operand)
            dtypes.append(device.dtype)
        elif isinstance(operand, jax.Array | np.ndarray | np.generic):
            dtypes.append(operand.dtype)
        elif isinstance(operand, bool | int):
            dtypes.append(np.dtype(bool))
        else:  # floating scalars, and what is no operand at all
            return door.slow(op, operands)
    target = None if any(dtype in INEXACT or dtype not in KIND for dtype in dtypes) else default_float(device)
    del device  # whether memory is free is seen from the references
    if target is None:
        return door.slow(op, operands)
    lifted = [lift(x) if isinstance(x, bool | int) else x for x in operands]
    return door.slow(cast, lifted, target)


def floating_unary(door: Door[_H], op: Op) -> Callable[[object], _H]:
    """Return the call of an operation with one operand and no parameters, as ``door.unary`` does."""
    cls, new, mode, traced, needs = door.cls, object.__new__, tracing, door.traced, _NEEDS
    jitted, _ = op.variant()
    cast = _casting(op)

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
        return _slow(door, op, cast, (x,))  # type: ignore[return-value]

    return call


def floating_binary(door: Door[_H], op: Op, alone: Op | None = None) -> Callable[[object, object], _H]:
    """Return the call of an operation with two operands, of which one may be a Python scalar, as ``door.binary``.

    `alone` takes the place of `op` in eager calls, where nothing is fused with it.
    """
    cls, new, mode, traced, needs = door.cls, object.__new__, tracing, door.traced, _NEEDS
    jitted, _ = (alone or op).variant()
    cast, cast_alone = _casting(op), _casting(alone or op)

    def call(x1: object, x2: object, /) -> _H:
        if mode.active:
            return _slow(door, op, cast, (x1, x2))  # type: ignore[return-value]
        run = jitted
        if type(x1) is cls:
            a = x1._data
            if type(a) is not ArrayImpl:
                return _slow(door, op, cast, (x1, x2))  # type: ignore[return-value]
            wide = needs[a.dtype]
            if type(x2) is cls:
                b = x2._data
                if type(b) is not ArrayImpl:
                    return _slow(door, op, cast, (x1, x2))  # type: ignore[return-value]
                other = needs[b.dtype]
                if wide & other & _CAST:
                    target = default_float(a)
                    run, wide_result = cast_alone.cache.get(target) or cast_alone.build(target)
                    other |= wide_result
            elif type(x2) in SCALARS:
                # An integer beside an integer array is made the default float, so that the result becomes that too.
                b, other = scalar_operand(x2, a.dtype if wide < _CAST else default_float(a))  # type: ignore[arg-type]
            else:
                return _slow(door, op, cast, (x1, x2))  # type: ignore[return-value]
        elif type(x2) is cls and type(x1) in SCALARS:
            b = x2._data
            if type(b) is not ArrayImpl:
                return _slow(door, op, cast, (x1, x2))  # type: ignore[return-value]
            wide = needs[b.dtype]
            a, other = scalar_operand(x1, b.dtype if wide < _CAST else default_float(b))  # type: ignore[arg-type]
        else:
            return _slow(door, op, cast, (x1, x2))  # type: ignore[return-value]
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
