"""The calls of the JAX backends: operands and parameters in, one cached compiled call, the result out."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from .. import _config
from .._compat import X64_UNSET, ArrayImpl, restore_x64, swap_x64, trace_is_clean, x64
from ..core import devices as core_devices
from ..core.dtypes import INTEGRAL, WIDE
from ..core.handle import Handle, data_of, lend, tracing
from ..core.host import place as place_host
from ..core.host import scalar_operand
from ..core.lazy import Lazy, resolve
from ..core.op import Op, raise_translated
from ..core.ownership import donating, is_given, spend
from ..errors import InvalidArgument, UseAfterMove
from .base import Backend
from .core import Call, Params
from .jax_functions import FUNCTIONS, RUN_TIME, integer_bound, integer_limits
from .operations import OPERATIONS

__all__ = ["OWNED", "JaxCalls", "is_prepared"]

_PLACED = ("full", "rand", "randn")  # their device is where their operand is
_INDEXED = {"index_select": 1, "index_add": 1, "embedding": 0}


def _ops() -> dict[str, Op]:
    table = {}
    for name, fn in FUNCTIONS.items():
        params = [p for p in OPERATIONS[name].params if p not in RUN_TIME.get(name, ())]
        table[name] = Op(name, fn, tuple("sharding" if p == "device" else p for p in params))
    return table


_OPS = _ops()
# The places of operands that an operation takes by value; it borrows all others.
_BY_VALUE = frozenset(("x", "lhs", "rhs", "gate", "up", "query", "key", "value"))
OWNED = {
    name: frozenset(i for i, operand in enumerate(operation.operands) if operand in _BY_VALUE)
    for name, operation in OPERATIONS.items()
}
_HOST_OPERANDS = frozenset((*_PLACED, *_INDEXED, "attention"))
_PREPARED = frozenset((*RUN_TIME, *_PLACED, *_INDEXED))


def is_prepared(operation: str) -> bool:
    """Tell whether a call's operands and parameters are not the operation's own."""
    return operation in _PREPARED


class JaxCalls(Backend[jax.Array]):
    """A backend whose operations are compiled calls of JAX; `jax.JaxBackend` gives it devices and random numbers."""

    def _apply(
        self, operation: str, operands: tuple[jax.Array | np.ndarray | None, ...], params: Params = ()
    ) -> jax.Array:
        compiled, wide, arrays = self._call(operation, operands, params, True)
        try:
            if wide:
                previous = X64_UNSET
                try:
                    previous = swap_x64(True)
                    return compiled(*arrays)  # type: ignore[return-value]
                finally:
                    restore_x64(previous)
            return compiled(*arrays)  # type: ignore[return-value]
        except Exception as error:
            raise_translated(operation, error)

    def _traceable(
        self, operation: str, operands: tuple[jax.Array | np.ndarray | None, ...], params: Params = ()
    ) -> Call:
        return self._call(operation, operands, params, False)

    def _make(self, operation: str, call: Call) -> object:
        fn, wide, operands = call
        previous = X64_UNSET
        try:
            if wide:
                previous = swap_x64(True)
            return fn(*operands)
        except Exception as error:
            raise_translated(operation, error)
        finally:
            restore_x64(previous)

    def _call(
        self,
        operation: str,
        operands: tuple[jax.Array | np.ndarray | None, ...],
        params: Params,
        donates: bool,
    ) -> Call:
        """Return the compiled call of an operation, whether it needs x64, and its operands.

        Where `donates`, the call may put its result into the memory of a handle that was given up.
        """
        if tracing.guard is not None:
            tracing.guard(operation, operands)
        op = _OPS[operation]
        if operation in _PREPARED:
            operands, params = self._prepare(operation, operands, params)
        static: Hashable = params[0] if len(params) == 1 else params
        compiled, wide = op.cache.get(static) or op.build(static)
        for x in operands:
            if type(x) is ArrayImpl:
                if x.dtype in WIDE:
                    wide = True
            elif x is not None:
                if any(map(is_given, operands)):
                    return self._consuming(operation, operands, params, donates)
                operands = tuple([self._operand(operation, x) for x in operands])
                if donates:
                    operands = tuple([resolve(x) if type(x) is Lazy else x for x in operands])  # type: ignore[comparison-overlap]
                wide = wide or any(x is not None and x.dtype in WIDE for x in operands)
                break
        if operands and operands[-1] is None:  # each costs a little in the compiled call
            count = len(operands) - 1
            while operands[count - 1] is None:
                count -= 1
            operands = operands[:count]
        return compiled, wide, operands

    def _consuming(
        self, operation: str, operands: tuple[jax.Array | np.ndarray | None, ...], params: Params, donates: bool
    ) -> Call:
        """Return the call on handles that were given up: their memory may become that of the result.

        What an operation borrows (masks, weights, tables) stays as it is.
        """
        places = [i for i, x in enumerate(operands) if is_given(x) and i in OWNED[operation]]
        arrays: list[object] = [self._operand(operation, x) for x in operands]
        if donates:
            arrays = [resolve(x) if type(x) is Lazy else x for x in arrays]
        static: Hashable = params[0] if len(params) == 1 else params
        compiled, wide = _OPS[operation].variant(static)
        wide = wide or any(x is not None and x.dtype in WIDE for x in arrays)  # type: ignore[attr-defined]
        free = spend(operands, places, arrays, operation)
        if free and donates:
            try:
                compiled = donating(compiled, wide, arrays, free)
            except Exception as error:
                raise_translated(operation, error)
        return compiled, wide, tuple(arrays)

    def _operand(self, operation: str, x: object) -> jax.Array | np.ndarray | None:
        """Return one operand as the compiled call takes it."""
        if x is None or type(x) is Lazy:
            return x  # type: ignore[return-value]
        if isinstance(x, jax.Array):
            if not isinstance(x.dtype, np.dtype):  # a key is no number
                raise self._not_a_tensor(operation, x)
            return x
        if isinstance(x, Handle):
            try:
                return data_of(x) if tracing.traced() else lend(x)
            except UseAfterMove as error:
                raise error.renamed(operation) from None
        if isinstance(x, np.ndarray) and operation in _HOST_OPERANDS:
            return x  # our own copy
        raise self._not_a_tensor(operation, x)

    def _array(self, operation: str, x: object) -> jax.Array | np.ndarray | None:
        """Return one operand as an array, also one that is not computed yet."""
        found = self._operand(operation, x)
        return resolve(found) if type(found) is Lazy else found  # type: ignore[comparison-overlap]

    def _prepare(
        self, operation: str, operands: tuple[jax.Array | np.ndarray | None, ...], params: Params
    ) -> tuple[tuple[jax.Array | np.ndarray | None, ...], Params]:
        """Turn parameters that are operands of the compiled call into operands, and say where results are made."""
        if operation == "gt_scalar" or operation == "clamp":
            x: jax.Array = operands[0]  # type: ignore[assignment]
            if not isinstance(x, jax.Array | Handle | Lazy):
                raise self._not_a_tensor(operation, x)
            dtype = x.dtype
            scalars = _scalars.get((params, dtype))
            if scalars is not None:
                return (x, *scalars), ()
            values: Sequence[float] = params  # type: ignore[assignment]
            if dtype in INTEGRAL:
                if operation == "gt_scalar":
                    bound = integer_bound(dtype, values[0])
                    if isinstance(bound, bool):
                        return self._prepare_constant(x, bound)
                    values = (bound,)
                else:
                    values = integer_limits(dtype, *values)
            made = tuple([scalar_operand(v, dtype)[0] for v in values])
            # -0.0 equals 0.0, and is another limit; what is made while tracing is part of that trace.
            if all(values) and all(type(v) is ArrayImpl for v in made) and trace_is_clean():
                if len(_scalars) >= _MAX_PLACED:
                    _scalars.clear()
                _scalars[params, dtype] = made
            return (x, *made), ()
        if operation in _INDEXED:
            return self._prepare_indices(operation, operands, params)
        if operation == "full":
            shape, value, target, placement = params
            host = np.asarray(value, target)  # type: ignore[call-overload]
            return (self._put(host, placement),), (shape, target, _spreading(operation, shape, placement))
        if operation in _PLACED:
            shape, target, placement = params
            key = operands[0]
            return (key if placement is None else self._put(key, placement),), (
                shape,
                target,
                _spreading(operation, shape, placement),
            )
        raise AssertionError(operation)

    def _prepare_constant(self, x: jax.Array, greater: bool) -> tuple[tuple[jax.Array, jax.Array], Params]:
        # The comparison with the least or the greatest value of an integer dtype that gives the answer.
        dtype = x.dtype
        info = np.iinfo(dtype)
        if not greater:
            return (x, self._scalar(int(info.max), dtype)), ()
        raised = self.maximum(x, self.full((), int(info.min) + 1, dtype=dtype))
        return (raised, self._scalar(int(info.min), dtype)), ()

    @staticmethod
    def _scalar(value: float, dtype: np.dtype) -> jax.Array:
        return scalar_operand(value, dtype)[0]

    def _prepare_indices(
        self, operation: str, operands: tuple[jax.Array | np.ndarray | None, ...], params: Params
    ) -> tuple[tuple[jax.Array | np.ndarray | None, ...], Params]:
        """Give indices of the host the width that they need; those that were checked are not checked again."""
        first, second = operands
        place = _INDEXED[operation]
        indices = second if place else first
        if isinstance(indices, np.ndarray):
            checked = True
            rows: int = params[0] if operation == "index_add" else operands[1 - place].shape[0]  # type: ignore
            indices = _narrow(indices, rows, params[-1] == "error")
        else:
            checked = self._is_readable(indices)  # type: ignore[arg-type]
        if checked and params[-1] == "error":
            params = (*params[:-1], "promise")
        return ((first, indices) if place else (indices, second)), params

    @staticmethod
    def _is_readable(indices: jax.Array) -> bool:
        """Tell whether the values of a tensor of indices are read to check them."""
        if type(indices) is Lazy:  # type: ignore[comparison-overlap]
            indices = resolve(indices)
        if type(indices) is not ArrayImpl:
            if tracing.traced() or not isinstance(indices, Handle):
                return False
            indices = data_of(indices)
        wanted = _config.check_bounds()
        if wanted is None:
            return _only_cpu() or core_devices.platform_of(indices.sharding) == "cpu"
        return wanted

    def _index_values(self, indices: jax.Array) -> np.ndarray | None:
        if not self._is_readable(indices):
            return None
        return np.asarray(data_of(indices) if isinstance(indices, Handle) else indices)

    def _put(self, x: jax.Array | np.ndarray | None, placement: object) -> jax.Array:
        if isinstance(x, np.ndarray) and placement is None:
            return place_host(x)
        if isinstance(placement, NamedSharding):
            placement = NamedSharding(placement.mesh, PartitionSpec())
        with x64(x.dtype in WIDE):  # type: ignore[union-attr]
            placed: jax.Array = jax.device_put(x, placement)
            return placed


def _spreading(operation: str, shape: Hashable, placement: object) -> NamedSharding | None:
    """Return the sharding that a result is made with, if it is to be spread over several devices."""
    if not isinstance(placement, NamedSharding):
        return None
    try:
        placement.shard_shape(shape)  # type: ignore[arg-type]
    except ValueError as error:
        raise InvalidArgument(
            operation,
            "device",
            got=f"{core_devices.device_name(placement)} for shape {shape}",
            wanted="a sharding that divides the shape",
            remedy=str(error).splitlines()[0],
            arg="device",
            reason=str(error),
        ) from error
    return placement


@functools.cache
def _only_cpu() -> bool:
    """Tell whether every array of this process lives on the CPU: it is the default only where nothing else is."""
    listed = jax.config.jax_platforms  # type: ignore[attr-defined]
    return jax.default_backend() == "cpu" and (not listed or listed.strip().lower() == "cpu")


def _narrow(indices: np.ndarray, rows: int, checked: bool) -> np.ndarray | jax.Array:
    """Return indices of the host in the width that they need; short lists that are kept stay on the device too."""
    kept = not indices.flags.writeable
    if kept:
        found = _placed.get(id(indices))
        if found is not None and found[0] is indices and trace_is_clean():
            return found[1]
    narrow = indices.astype(np.int32) if rows < 2**31 and (checked or not indices.size) else indices
    if not kept or not trace_is_clean() or jax.config.jax_default_device is not None:  # type: ignore[attr-defined]
        return narrow
    placed = place_host(narrow.copy())
    if len(_placed) >= _MAX_PLACED:
        _placed.clear()
    _placed[id(indices)] = indices, placed
    return placed


_MAX_PLACED = 1024
_scalars: dict[tuple[Params, np.dtype], tuple[jax.Array, ...]] = {}
_placed: dict[int, tuple[np.ndarray, jax.Array]] = {}
