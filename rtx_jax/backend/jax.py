"""`JaxBackend`: the operations on `jax.Array`, on the devices of one platform."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import ClassVar, Self, TypeAlias

import jax
import numpy as np
from jax.core import Tracer
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from .. import _config
from .._compat import X64_UNSET, ArrayImpl, current_trace, restore_x64, swap_x64, trace_is_clean, x64
from ..core import devices as core_devices
from ..core import random as core_random
from ..core.dtypes import INTEGRAL, KIND, WIDE, has_wide_floats
from ..core.handle import Handle, data_of, share, tracing
from ..core.host import place as place_host
from ..core.host import scalar_operand
from ..core.op import Compiled, Op, raise_translated
from ..errors import BackendUnavailable, ConcretizationError, InvalidArgument
from .base import Backend
from .core import Params
from .device import Device
from .jax_functions import FUNCTIONS, RUN_TIME, integer_bound, integer_limits
from .operations import OPERATIONS
from .tensor_handle import TensorHandle

__all__ = ["CpuBackend", "CudaBackend", "JaxBackend", "MetalBackend", "RocmBackend", "TpuBackend"]

Placement: TypeAlias = "jax.Device | Sharding | None"

_PLACED = ("full", "rand", "randn")  # their device is where their operand is
_INDEXED = {"index_select": 1, "index_add": 1, "embedding": 0}


def _ops() -> dict[str, Op]:
    table = {}
    for name, fn in FUNCTIONS.items():
        left_out = RUN_TIME.get(name, ()) + (("device",) if name in _PLACED else ())
        table[name] = Op(name, fn, tuple(p for p in OPERATIONS[name].params if p not in left_out))
    return table


_OPS = _ops()


class JaxBackend(Backend[jax.Array]):
    """The operations on `jax.Array`, on the devices of one platform.

    A method is one compiled call, cached by operation and parameters; inside `jax.jit` it is traced and costs nothing
    at run time. An `rtx_jax.Array` is taken wherever a tensor is, and read as its ``.jax``; results are `jax.Array`.
    64-bit dtypes work whatever ``jax_enable_x64`` says.

    There is one value of each class; it exists, and can be asked, also where its platform is not.
    """

    kind: ClassVar[str]
    """Name of the backend, and kind of its devices."""

    _instance: ClassVar[Self | None] = None
    _keys: core_random.Stream | None
    _seeded: tuple[object, core_random.Stream] | None  # within the trace that is running

    def __new__(cls) -> Self:
        if cls.__dict__.get("_instance") is None:
            backend = super().__new__(cls)
            backend._keys = backend._seeded = None
            cls._instance = backend
        instance: Self = cls._instance  # type: ignore[assignment]
        return instance

    def name(self) -> str:
        """Return the name of the platform: ``"cpu"``, ``"cuda"``, ``"rocm"``, ``"tpu"`` or ``"metal"``."""
        return self.kind

    @property
    def functions(self) -> Mapping[str, Callable[..., object]]:  # type: ignore[override]
        """The traceable functions, and those that manage tensors."""
        return {
            **FUNCTIONS,
            "from_data": self._from_data,
            "to_data": self._to_data,
            "device": self._device_of,
            "to_device": self._to_device,
            "sync": self._sync,
        }

    # -- operations

    def _apply(
        self, operation: str, operands: tuple[jax.Array | np.ndarray | None, ...], params: Params = ()
    ) -> jax.Array:
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
                if any(isinstance(x, TensorHandle) for x in operands):
                    return self._consuming(operation, operands, params)
                operands = tuple([self._operand(operation, x) for x in operands])
                wide = wide or any(x is not None and x.dtype in WIDE for x in operands)
                break
        if operands and operands[-1] is None:  # each costs a little in the compiled call
            count = len(operands) - 1
            while operands[count - 1] is None:
                count -= 1
            operands = operands[:count]
        try:
            if wide:
                previous = X64_UNSET
                try:
                    previous = swap_x64(True)
                    return compiled(*operands)  # type: ignore[return-value]
                finally:
                    restore_x64(previous)
            return compiled(*operands)  # type: ignore[return-value]
        except Exception as error:
            raise_translated(operation, error)

    def _consuming(
        self, operation: str, operands: tuple[jax.Array | np.ndarray | None, ...], params: Params
    ) -> jax.Array:
        """Run an operation on handles: the memory of one that was given up may become that of the result."""
        free: list[int] = []
        arrays: list[jax.Array | np.ndarray | None] = []
        for i, x in enumerate(operands):
            if isinstance(x, TensorHandle):
                x, alone = x._consume()
                if alone and type(x) is ArrayImpl and trace_is_clean():
                    free.append(i)
            arrays.append(x if x is None else self._operand(operation, x))
        static: Hashable = params[0] if len(params) == 1 else params
        compiled, wide = _OPS[operation].variant(static)
        try:
            with x64(wide or any(x is not None and x.dtype in WIDE for x in arrays)):
                if free:
                    result = jax.eval_shape(compiled, *arrays)
                    fitting = [
                        i
                        for i in free
                        if isinstance(result, jax.ShapeDtypeStruct)
                        and (arrays[i].shape, arrays[i].dtype) == (result.shape, result.dtype)  # type: ignore[union-attr]
                        and all(arrays[i] is not other for j, other in enumerate(arrays) if j != i)
                    ][:1]
                    if fitting:
                        return _donating(compiled, fitting[0])(*arrays)  # type: ignore[return-value]
                return compiled(*arrays)  # type: ignore[return-value]
        except Exception as error:
            raise_translated(operation, error)

    def _operand(self, operation: str, x: object) -> jax.Array | np.ndarray | None:
        """Return one operand as the compiled call takes it."""
        if isinstance(x, jax.Array) or x is None:
            return x
        if isinstance(x, Handle):
            return data_of(x) if tracing.active else share(x)
        if isinstance(x, TensorHandle):
            return x._consume()[0]
        if isinstance(x, np.ndarray) and operation in _HOST_OPERANDS:
            return x  # our own copy
        raise self._not_a_tensor(operation, x)

    def _prepare(
        self, operation: str, operands: tuple[jax.Array | np.ndarray | None, ...], params: Params
    ) -> tuple[tuple[jax.Array | np.ndarray | None, ...], Params]:
        """Turn parameters that are operands of the compiled call into operands, and say where results are made."""
        if operation == "gt_scalar" or operation == "clamp":
            x: jax.Array = operands[0]  # type: ignore[assignment]
            if not isinstance(x, jax.Array):
                x = self._operand(operation, x)
            dtype = x.dtype
            values: Sequence[float] = params  # type: ignore[assignment]
            if dtype in INTEGRAL:
                if operation == "gt_scalar":
                    bound = integer_bound(dtype, values[0])
                    if isinstance(bound, bool):
                        return self._prepare_constant(x, bound)
                    values = (bound,)
                else:
                    values = integer_limits(dtype, *values)
            return (x, *[scalar_operand(v, dtype)[0] for v in values]), ()
        if operation in _INDEXED:
            return self._prepare_indices(operation, operands, params)
        if operation == "full":
            shape, value, target, placement = params
            host = np.asarray(value, target)  # type: ignore[call-overload]
            return (self._put(host, placement),), (shape, target)
        if operation in _PLACED:
            shape, target, placement = params
            key = operands[0]
            return (key if placement is None else self._put(key, placement),), (shape, target)
        raise AssertionError(operation)

    def _prepare_constant(self, x: jax.Array, greater: bool) -> tuple[tuple[jax.Array, jax.Array], Params]:
        # The comparison with the least or the greatest value of an integer dtype that gives the answer.
        info = np.iinfo(x.dtype)
        if not greater:
            return (x, self._scalar(int(info.max), x.dtype)), ()
        return (
            self.maximum(x, self.full((), int(info.min) + 1, dtype=x.dtype)),
            self._scalar(int(info.min), x.dtype),
        ), ()

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
        if type(indices) is not ArrayImpl:
            if tracing.active or not isinstance(indices, Handle):
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

    # -- devices

    def is_available(self) -> bool:
        """Tell whether a device of the platform is there; never raises."""
        try:
            return isinstance(core_devices.platforms().get(self.kind), list)
        except Exception:
            return False

    def devices(self) -> list[Device]:
        """Return the platform's devices in this process.

        Raises
        ------
        BackendUnavailable
            It has none; the text says why.
        """
        return [Device(self.kind, i) for i in range(len(self._there("devices")))]

    def default_device(self) -> Device:
        """Return the device of tensors made without ``device=``.

        Raises
        ------
        BackendUnavailable
            The platform has no device here.
        """
        there = self._there("default_device")
        default = core_devices.default_device()
        return Device(self.kind, there.index(default) if default in there else 0)

    def _there(self, operation: str) -> list[jax.Device]:
        found = core_devices.platforms()[self.kind]
        if isinstance(found, str):
            here = ", ".join(name for name, there in core_devices.platforms().items() if isinstance(there, list))
            raise BackendUnavailable(
                operation,
                "",
                got=f"the backend {self.kind!r}",
                wanted=f"a platform that is here: {here}",
                remedy=f"{self.kind}: {found}.",
                backend=self.kind,
                reason=found,
            )
        return found

    def supports_dtype(self, dtype: np.dtype, device: object = None) -> bool:
        """Tell whether tensors of `dtype` can live on `device`: Metal has no 64-bit floats, and nothing has strings."""
        if dtype not in KIND:
            return False
        return dtype not in _WIDE_FLOATS or self.kind == "tpu" or has_wide_floats(self.kind)

    def _device(self, operation: str, device: object) -> Placement:
        if device is None:
            if _runs_on(self.kind):
                return None
            return self._there(operation)[0]
        placement = core_devices.resolve(device, operation)
        assert placement is not None
        kind = core_devices.platform_of(placement)
        if kind != self.kind:
            self._there(operation)
            raise InvalidArgument(
                operation,
                "device",
                got=core_devices.device_name(placement),
                wanted=f"a device of the backend {self.kind!r}: {', '.join(map(str, self.devices()))}",
                remedy="Use the backend of that device, and from_data(to_data(x)) to bring a tensor there.",
                arg="device",
                reason="a device of another backend",
            )
        return placement

    def _put(self, x: jax.Array | np.ndarray | None, placement: object) -> jax.Array:
        if isinstance(x, np.ndarray) and placement is None:
            return place_host(x)
        if isinstance(placement, NamedSharding):
            placement = NamedSharding(placement.mesh, PartitionSpec())
        with x64(x.dtype in WIDE):  # type: ignore[union-attr]
            placed: jax.Array = jax.device_put(x, placement)
            return placed

    def _from_data(self, array: np.ndarray, device: Placement) -> jax.Array:
        try:
            if device is None:
                return place_host(array)
            return core_devices.place(array, device, "from_data")  # type: ignore[arg-type]
        except Exception as error:
            raise_translated("from_data", error)

    def _to_data(self, x: object) -> np.ndarray:
        data = self._operand("to_data", x)
        if isinstance(data, Tracer):
            raise _unknown("to_data")
        try:
            return np.asarray(data)
        except Exception as error:
            raise_translated("to_data", error)

    def _device_of(self, x: object) -> Device | tuple[Device, ...]:
        data = self._operand("device", x)
        if isinstance(data, Tracer):
            raise _unknown("device")
        found = sorted((Device.of(d) for d in data.devices()), key=lambda d: d.index)  # type: ignore[union-attr]
        return found[0] if len(found) == 1 else tuple(found)

    def _to_device(self, x: object, device: Placement) -> jax.Array:
        data = self._operand("to_device", x)
        assert isinstance(data, jax.Array)
        target = device if device is not None else self._there("to_device")[self.default_device().index]
        if not isinstance(data, Tracer) and core_devices.device_of(data) == target:
            return data
        try:
            return core_devices.place(data, target)
        except Exception as error:
            raise_translated("to_device", error)

    def _sync(self, device: Placement) -> None:
        there = set(self._there("sync") if device is None else _device_set(device))
        # effects_barrier alone does not wait for computations, and these alone not for callbacks.
        for array in jax.live_arrays():
            if not there.isdisjoint(array.devices()) and not array.is_deleted():
                array.block_until_ready()
        jax.effects_barrier()

    # -- random draws

    def seed(self, seed: int, /) -> None:
        """Start this backend's stream of random numbers anew; see `Backend.seed`.

        Inside a function that `rtx_jax.jit` traces, the draws after it repeat with each call.
        """
        data = core_random.seed_data(seed, "seed")
        trace = current_trace()
        if trace is not None:
            self._seeded = trace, core_random.Stream(data)
        elif self._keys is None:
            self._keys = core_random.Stream(data)
        else:
            self._keys.restart(data)

    def _next_key(self, operation: str) -> np.ndarray:
        if self._seeded is not None:
            trace, stream = self._seeded
            if trace is current_trace():
                return core_random.fold_in(*stream.next(operation))  # type: ignore[return-value]
            self._seeded = None
        if self._keys is None:
            self._keys = core_random.Stream(core_random.seed_data(None))
        return core_random.fold_in(*self._keys.next(operation))  # type: ignore[return-value]

    def _key_data(self, operation: str, key: object) -> np.ndarray:
        from ..random.keys import typed_key

        if isinstance(key, np.ndarray):
            return super()._key_data(operation, key)
        typed = typed_key(key, operation)  # type: ignore[arg-type]
        if str(jax.random.key_impl(typed)) != core_random.IMPL:
            raise InvalidArgument(
                operation,
                "key",
                got=f"a key of {jax.random.key_impl(typed)}",
                wanted=f"a key of {core_random.IMPL}",
                remedy="Make it with rtx_jax.random.key, or draw with rtx_jax.random.",
                arg="key",
                reason="another generator",
            )
        return jax.random.key_data(typed)  # type: ignore[return-value]


@functools.lru_cache(maxsize=1024)
def _donating(compiled: Compiled, place: int) -> Compiled:
    """Return the compiled call that may put its result into the memory of one operand."""
    return jax.jit(lambda *operands: compiled(*operands), donate_argnums=place)


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
_placed: dict[int, tuple[np.ndarray, jax.Array]] = {}


def _unknown(operation: str) -> ConcretizationError:
    return ConcretizationError(
        operation,
        "x",
        got="a tensor that is not known while tracing",
        remedy="Call it outside of the traced function.",
    )


def _device_set(placement: jax.Device | Sharding) -> set[jax.Device]:
    return {placement} if isinstance(placement, jax.Device) else set(placement.device_set)


def _runs_on(kind: str) -> bool:
    """Tell whether results without a device land on this platform."""
    chosen = jax.config.jax_default_device  # type: ignore[attr-defined]
    if chosen is None:
        platform = jax.default_backend()
        if platform == kind:
            return True
    return core_devices.platform_of(core_devices.default_device()) == kind


_HOST_OPERANDS = frozenset((*_PLACED, *_INDEXED, "attention"))
_PREPARED = frozenset((*RUN_TIME, *_PLACED, *_INDEXED))
_WIDE_FLOATS = frozenset((np.dtype(np.float64), np.dtype(np.complex128)))


class CpuBackend(JaxBackend):
    """The host's processors."""

    kind = "cpu"


class CudaBackend(JaxBackend):
    """NVIDIA GPUs."""

    kind = "cuda"


class RocmBackend(JaxBackend):
    """AMD GPUs."""

    kind = "rocm"


class TpuBackend(JaxBackend):
    """Google's TPUs."""

    kind = "tpu"


class MetalBackend(JaxBackend):
    """Apple's GPUs, through any of the plugins that register as METAL, mps or mtl."""

    kind = "metal"
