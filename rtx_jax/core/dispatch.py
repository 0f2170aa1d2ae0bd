"""Dispatch: the doors through which handles enter the engine.

Operation + static parameters -> one cached compiled call (`Op`). The doors (`unary`, `binary`, `call1`, ...) take
handles apart, enter x64 where 64-bit types take part, call, and wrap the results. Each door has a fast path for
eager handles; everything else (tracers, host input, an active transform) goes through `Door.slow`. The doors are
made for a handle class, so that this module knows no face.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

import jax
import numpy as np
from jax import lax
from jax.core import Tracer

from .. import _config
from .._compat import X64_UNSET, ArrayImpl, restore_x64, swap_x64, trace_is_clean
from ..errors import ScalarOverflow, UseAfterMove
from .dtypes import WIDE
from .handle import INTERNED, Given, Handle, tracing
from .host import SCALARS, clear_scalars, lift, place, scalar_operand
from .indexing import clear as clear_indexing
from .lazy import clear as clear_lazy
from .lazy import fusing
from .nans import has_nan
from .op import InPlace, Op, all_ops, given_away, raise_translated
from .ownership import clear as clear_donating
from .ownership import donating, spend
from .promotion import operand_dtype
from .recorded import binary_recorder, record_operation, unary_recorder

__all__ = ["Door", "InPlace", "Op", "clear_caches", "given_away", "lift", "place", "raise_translated", "scalar_operand"]

_H = TypeVar("_H", bound=Handle)

_MAX_INTERNED = 1024
_INTERNED_BYTES = 4096
_EXAMPLES: dict[str, complex] = {"b": True, "i": 1, "f": 1.0, "c": 1j}


class Door(Generic[_H]):
    """The call doors for one handle class."""

    def __init__(self, cls: type[_H]) -> None:
        self.cls = cls
        self._interned: dict[Hashable, jax.Array] = {}
        _interned_tables.append(self._interned)

    # -- wrapping

    def wrap(self, data: jax.Array) -> _H:
        """Return a new handle on the fresh result of a compiled call, under any mode."""
        handle = object.__new__(self.cls)
        handle._data = data
        if type(data) is ArrayImpl and not tracing.active and trace_is_clean():
            handle._owned = True
        else:
            if isinstance(data, Tracer):
                tracing.tracer_seen()
            elif tracing.guard is not None:
                tracing.guard("allocate", (data,))
            handle._owned = tracing.mark()
        return handle

    def wrap_shared(self, data: jax.Array) -> _H:
        """Return a new handle on an array that somebody else has too."""
        handle = self.wrap(data)
        if handle._owned is True:
            handle._owned = False
        return handle

    def wrap_result(self, result: object) -> object:
        """Wrap one array or a tuple or list of arrays."""
        if isinstance(result, tuple | list):
            return tuple(self.wrap(part) for part in result)
        return self.wrap(result)  # type: ignore[arg-type]

    # -- the slow path

    def slow(self, op: Op, operands: Sequence[object], static: Hashable = ()) -> object:
        """Run an operation in any mode and on any accepted operand: the one place that tracing goes through."""
        entry = op.variant(static)
        eager = tracing.settle()
        if tracing.guard is not None:
            tracing.guard(op.name, operands)
        arrays: list[object] = [None] * len(operands)
        partner: np.dtype | None = None
        weak: list[int] = []
        given: list[int] = []
        for i, operand in enumerate(operands):
            # NumPy's float64 and complex128 scalars are Python floats and complex numbers too.
            if not isinstance(operand, builtins.bool | int | float | complex):
                if isinstance(operand, Handle) and type(operand._data) is Given:
                    given.append(i)
                try:
                    arrays[i] = array = lift(operand, None, op.name, f"x{i + 1}" if len(operands) > 1 else "x")
                except UseAfterMove as error:
                    raise error.renamed(op.name) from None
                if isinstance(array, Tracer) and array.aval.weak_type:  # type: ignore[attr-defined]
                    weak.append(i)  # a Python number that became an operand of a traced function
                elif partner is None:
                    partner = array.dtype
        array = None  # type: ignore[assignment]  # whether memory is free is seen from the references
        for i in weak:
            array = arrays[i]  # type: ignore[assignment]
            if partner is None:
                partner = array.dtype
            else:
                arrays[i] = lax.convert_element_type(array, operand_dtype(_EXAMPLES[array.dtype.kind], partner))
        wide = entry[1]
        for i, operand in enumerate(operands):
            if arrays[i] is None:
                if partner is None:
                    arrays[i] = lift(operand)
                    partner = arrays[i].dtype  # type: ignore[attr-defined]
                else:
                    try:
                        if given and eager and type(operand) in SCALARS:
                            arrays[i] = scalar_operand(operand, partner)[0]  # type: ignore[arg-type]
                        else:
                            arrays[i] = np.asarray(operand, operand_dtype(_plain_scalar(operand), partner))
                    except ScalarOverflow as error:
                        raise error.renamed(op.name) from None
            wide = wide or arrays[i].dtype in WIDE  # type: ignore[attr-defined]
        compiled = entry[0]
        previous = X64_UNSET
        try:
            if given and (free := spend(operands, given, arrays, op.name)):
                compiled = donating(compiled, wide, arrays, free)
            if wide:
                previous = swap_x64(True)
            result = compiled(*arrays)
        except Exception as error:
            raise_translated(op.name, error)
        finally:
            if wide:
                restore_x64(previous)
        traced = not tracing.settle()
        if traced:
            for operand in operands:
                if isinstance(operand, Handle) and operand._owned is True:
                    operand._owned = False  # a trace holds on to the array
        elif _config.debug_nans():
            _find_nans(op, arrays, result)
        return self.wrap_result(result)

    def finish(self, op: Op, operands: Sequence[object], result: object) -> object:
        """Wrap what a fast path got when it is not one concrete array: several results, or tracers."""
        if isinstance(result, tuple | list):
            cls, new = self.cls, object.__new__
            handles: list[_H] = []
            for part in result:
                if type(part) is not ArrayImpl:
                    break
                handle = new(cls)
                handle._data = part
                handle._owned = True
                handles.append(handle)
            else:
                return tuple(handles)
        return self.traced(op, operands, result)

    def traced(self, op: Op, operands: Sequence[object], result: object) -> object:
        """Wrap what a fast path got while plain JAX was tracing unnoticed."""
        tracing.tracer_seen()
        for operand in operands:
            if isinstance(operand, Handle) and operand._owned is True:
                operand._owned = False
        return self.wrap_result(result)

    def general(self, op: Op, operands: Sequence[object], static: Hashable = ()) -> object:
        """Record an operation where fusion is on, or run it by `slow`."""
        if fusing.recording is not None:
            recorded = record_operation(self.cls, op, operands, static)
            if recorded is not None:
                return recorded
        return self.slow(op, operands, static)

    # -- doors

    def unary(self, op: Op) -> Callable[[object], _H]:
        """Return the call of an operation with one operand and no parameters."""
        cls, new, mode, traced = self.cls, object.__new__, tracing, self.traced
        divert = unary_recorder(cls, op, self.slow)
        jitted, wide_op = op.variant()

        def call(x: object, /) -> _H:
            if type(x) is cls:
                data = x._data
                if type(data) is ArrayImpl and not mode.active:
                    try:
                        if wide_op or data.dtype in WIDE:
                            previous = X64_UNSET
                            try:
                                previous = swap_x64(True)
                                result = jitted(data)
                            finally:
                                restore_x64(previous)
                        else:
                            result = jitted(data)
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

    def binary(self, op: Op) -> Callable[[object, object], _H]:
        """Return the call of an operation with two operands, of which one may be a Python scalar."""
        cls, new, mode, traced = self.cls, object.__new__, tracing, self.traced
        divert = binary_recorder(cls, op, self.slow)
        jitted, wide_op = op.variant()

        def call(x1: object, x2: object, /) -> _H:
            if type(x1) is cls:
                a = x1._data
                if type(a) is not ArrayImpl or mode.active:
                    return divert(x1, x2)
                if type(x2) is cls:
                    b = x2._data
                    if type(b) is not ArrayImpl:
                        return divert(x1, x2)
                    wide = a.dtype in WIDE or b.dtype in WIDE
                elif type(x2) in SCALARS:
                    dtype = a.dtype
                    try:
                        b, wide = scalar_operand(x2, dtype)  # type: ignore[arg-type]
                    except ScalarOverflow as error:
                        raise error.renamed(op.name) from None
                    wide = wide or dtype in WIDE
                else:
                    return divert(x1, x2)
            elif type(x2) is cls and type(x1) in SCALARS:
                b = x2._data
                if type(b) is not ArrayImpl or mode.active:
                    return divert(x1, x2)
                dtype = b.dtype
                try:
                    a, wide = scalar_operand(x1, dtype)  # type: ignore[arg-type]
                except ScalarOverflow as error:
                    raise error.renamed(op.name) from None
                wide = wide or dtype in WIDE
            else:
                return divert(x1, x2)
            try:
                if wide or wide_op:
                    previous = X64_UNSET
                    try:
                        previous = swap_x64(True)
                        result = jitted(a, b)
                    finally:
                        restore_x64(previous)
                else:
                    result = jitted(a, b)
            except Exception as error:
                raise_translated(op.name, error)
            if type(result) is ArrayImpl:
                handle = new(cls)
                handle._data = result
                handle._owned = True
                return handle
            return traced(op, (x1, x2), result)  # type: ignore[return-value]

        return call

    def call1(self) -> Callable[..., _H]:
        """Return ``call1(op, x, static=())``: one operand, static parameters."""
        cls, new, mode, slow, finish = self.cls, object.__new__, tracing, self.general, self.finish

        def call1(op: Op, x: object, static: Hashable = (), /) -> _H:
            if type(x) is cls:
                data = x._data
                if type(data) is ArrayImpl and not mode.active:
                    jitted, wide = op.cache.get(static) or op.build(static)
                    try:
                        if wide or data.dtype in WIDE:
                            previous = X64_UNSET
                            try:
                                previous = swap_x64(True)
                                result = jitted(data)
                            finally:
                                restore_x64(previous)
                        else:
                            result = jitted(data)
                    except Exception as error:
                        raise_translated(op.name, error)
                    if type(result) is ArrayImpl:
                        handle = new(cls)
                        handle._data = result
                        handle._owned = True
                        return handle
                    return finish(op, (x,), result)  # type: ignore[return-value]
            return slow(op, (x,), static)  # type: ignore[return-value]

        return call1

    def call2(self) -> Callable[..., _H]:
        """Return ``call2(op, x1, x2, static=())``: two array operands, static parameters."""
        cls, new, mode, slow, finish = self.cls, object.__new__, tracing, self.general, self.finish

        def call2(op: Op, x1: object, x2: object, static: Hashable = (), /) -> _H:
            if type(x1) is cls and type(x2) is cls:
                a, b = x1._data, x2._data
                if type(a) is ArrayImpl and type(b) is ArrayImpl and not mode.active:
                    jitted, wide = op.cache.get(static) or op.build(static)
                    try:
                        if wide or a.dtype in WIDE or b.dtype in WIDE:
                            previous = X64_UNSET
                            try:
                                previous = swap_x64(True)
                                result = jitted(a, b)
                            finally:
                                restore_x64(previous)
                        else:
                            result = jitted(a, b)
                    except Exception as error:
                        raise_translated(op.name, error)
                    if type(result) is ArrayImpl:
                        handle = new(cls)
                        handle._data = result
                        handle._owned = True
                        return handle
                    return finish(op, (x1, x2), result)  # type: ignore[return-value]
            return slow(op, (x1, x2), static)  # type: ignore[return-value]

        return call2

    def calln(self) -> Callable[..., object]:
        """Return ``calln(op, operands, static=())``: any operands; several results come as a tuple."""
        cls, new, mode, slow, finish = self.cls, object.__new__, tracing, self.general, self.finish

        def calln(op: Op, operands: Sequence[object], static: Hashable = (), /) -> object:
            if mode.active:
                return slow(op, operands, static)
            jitted, wide = op.cache.get(static) or op.build(static)
            arrays = []
            for x in operands:
                if type(x) is not cls:
                    return slow(op, operands, static)
                data = x._data
                if type(data) is not ArrayImpl:
                    return slow(op, operands, static)
                wide = wide or data.dtype in WIDE
                arrays.append(data)
            try:
                if wide:
                    previous = X64_UNSET
                    try:
                        previous = swap_x64(True)
                        result = jitted(*arrays)
                    finally:
                        restore_x64(previous)
                else:
                    result = jitted(*arrays)
            except Exception as error:
                raise_translated(op.name, error)
            if type(result) is ArrayImpl:
                handle = new(cls)
                handle._data = result
                handle._owned = True
                return handle
            return finish(op, operands, result)

        return calln

    def interned(self, key: Hashable, build: Callable[[], jax.Array]) -> _H:
        """Return a handle on a small constant, made once and shared; its first update copies.

        `key` holds all arguments with their types (``1 == True == 1.0``); zeros of float type are keyed by sign.
        `build` is called with x64 as the caller entered it.
        """
        data = self._interned.get(key)
        if data is not None and not tracing.active and trace_is_clean() and not data.is_deleted():
            handle = object.__new__(self.cls)
            handle._data = data
            handle._owned = INTERNED
            return handle
        if tracing.guard is not None:
            tracing.guard("allocate", ())
        data = build()
        if type(data) is not ArrayImpl or not tracing.settle() or data.nbytes > _INTERNED_BYTES:
            return self.wrap(data)
        if len(self._interned) >= _MAX_INTERNED:
            del self._interned[next(iter(self._interned))]
        self._interned[key] = data
        handle = object.__new__(self.cls)
        handle._data = data
        handle._owned = INTERNED
        return handle


_interned_tables: list[dict[Hashable, jax.Array]] = []


def _plain_scalar(value: object) -> complex:
    return value.item() if isinstance(value, np.generic) else value  # type: ignore[return-value]


def _find_nans(op: Op, arrays: Sequence[object], result: object) -> None:
    outputs = result if isinstance(result, tuple | list) else (result,)
    if has_nan(outputs) and not has_nan(arrays):
        described = ", ".join(f"{a.dtype}{list(a.shape)}" for a in arrays if isinstance(a, jax.Array))
        raise FloatingPointError(f"{op.name}: made NaN from operands without NaN: {described}")


def clear_caches() -> None:
    """Drop every compiled variant, interned constant and scalar of the engine (not JAX's own executables)."""
    for op in all_ops:
        for jitted, _ in op.cache.values():
            jitted.clear_cache()  # type: ignore[attr-defined]
    clear_lazy()
    clear_scalars()
    clear_donating()
    clear_indexing()
    for table in _interned_tables:
        table.clear()


def _watch_nans() -> None:
    # Fast paths do not look at values: from the first time on that NaNs are watched, every call takes the slow path.
    global _nans_watched
    if not _nans_watched and _config.debug_nans():
        _nans_watched = True
        tracing.active += 1


_nans_watched = False
_config.SETTINGS["debug_nans"].listeners.append(_watch_nans)
_watch_nans()
