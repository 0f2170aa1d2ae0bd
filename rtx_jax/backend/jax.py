"""`JaxBackend`: the operations on `jax.Array`, on the devices of one platform."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Self, TypeAlias

import jax
import numpy as np
from jax.core import Tracer
from jax.sharding import Sharding

from .._compat import current_trace
from ..core import devices as core_devices
from ..core import random as core_random
from ..core.dtypes import KIND, has_wide_floats
from ..core.handle import Handle, share, tracing
from ..core.host import place as place_host
from ..core.op import raise_translated
from ..errors import BackendUnavailable, ConcretizationError, InvalidArgument
from .device import Device
from .jax_calls import JaxCalls
from .jax_functions import FUNCTIONS

__all__ = ["CpuBackend", "CudaBackend", "JaxBackend", "MetalBackend", "RocmBackend", "TpuBackend"]

Placement: TypeAlias = "jax.Device | Sharding | None"


class JaxBackend(JaxCalls):
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

    def _from_data(self, array: np.ndarray, device: Placement) -> jax.Array:
        try:
            if device is None:
                return place_host(array)
            return core_devices.place(array, device, "from_data")  # type: ignore[arg-type]
        except Exception as error:
            raise_translated("from_data", error)

    def _to_data(self, x: object) -> np.ndarray:
        data = self._array("to_data", x)
        if isinstance(data, Tracer):
            raise _unknown("to_data")
        try:
            return np.asarray(data)
        except Exception as error:
            raise_translated("to_data", error)

    def _device_of(self, x: object) -> Device | tuple[Device, ...]:
        data = self._array("device", x)
        if isinstance(data, Tracer):
            raise _unknown("device")
        try:
            there = data.devices()  # type: ignore[union-attr]
        except Exception as error:
            raise_translated("device", error)
        found = sorted((Device.of(d) for d in there), key=lambda d: d.index)
        return found[0] if len(found) == 1 else tuple(found)

    def _to_device(self, x: object, device: Placement) -> jax.Array:
        data = self._array("to_device", x)
        assert isinstance(data, jax.Array)
        if isinstance(x, Handle) and not tracing.traced():
            share(x)  # what is returned may be another array of the same memory
        target = device if device is not None else self._there("to_device")[self.default_device().index]
        try:
            if not isinstance(data, Tracer) and core_devices.device_of(data) == target:
                data.devices()  # raises where the buffer was given away
                return data
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
            self._keys = core_random.outside_of_traces(core_random.seed_data(None))
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
