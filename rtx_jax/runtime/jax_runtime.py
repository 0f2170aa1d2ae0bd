"""`JaxRuntime`: the devices of one platform of JAX."""

from __future__ import annotations

import threading

import jax

from ..backend.device import Device
from ..core import devices as core_devices
from ..core.devices import DeviceLike
from ..errors import BackendUnavailable, InvalidArgument
from .base import Runtime
from .jax_client import JaxClient

__all__ = ["JaxRuntime"]

_clients: dict[jax.Device, JaxClient] = {}
_devices: dict[str, list[jax.Device]] = {}
_lock = threading.Lock()


class JaxRuntime(Runtime):
    """The devices of one platform of JAX.

    It can be made, and asked (`is_available`), where its platform is not; the first use of a device raises
    `BackendUnavailable` with the reason.

    Parameters
    ----------
    platform
        ``"cpu"``, ``"cuda"``, ``"rocm"``, ``"tpu"``, ``"metal"``, or the name of another PJRT plugin; that of the
        default device when None.

    Examples
    --------
    >>> runtime = JaxRuntime("cpu")
    >>> runtime.default_client() is runtime.client("cpu:0")
    True
    """

    __slots__ = ("_kind",)

    def __init__(self, platform: str | None = None, /) -> None:
        if platform is None:
            self._kind = core_devices.platform_of(core_devices.default_device())
        else:
            self._kind = Device.of(platform, "JaxRuntime").kind
        if self._kind == "numpy":
            raise InvalidArgument(
                "JaxRuntime",
                "platform",
                got="'numpy'",
                wanted="a platform of JAX",
                remedy="Use NumpyRuntime().",
                arg="platform",
                reason="not a platform of JAX",
            )

    def __repr__(self) -> str:
        return f"JaxRuntime({self._kind!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JaxRuntime) and self._kind == other._kind

    def __hash__(self) -> int:
        return hash((JaxRuntime, self._kind))

    def __reduce__(self) -> tuple[type[JaxRuntime], tuple[str]]:
        return JaxRuntime, (self._kind,)

    def name(self) -> str:
        """Return the kind of the devices: ``"cpu"``, ``"cuda"``, ``"rocm"``, ``"tpu"``, ``"metal"`` or a plugin's."""
        return self._kind

    def is_available(self) -> bool:
        """Tell whether a device is there; never raises."""
        try:
            return bool(self._there())
        except Exception:
            return False

    def devices(self) -> list[Device]:
        """Return the platform's devices in this process.

        Raises
        ------
        BackendUnavailable
            It has none; the text says why.
        """
        return [Device(self._kind, i) for i in range(len(self._there()))]

    def default_device(self) -> Device:
        """Return JAX's default device where it is of this platform, else the platform's first.

        Raises
        ------
        BackendUnavailable
            The platform has no device here.
        """
        there = self._there()
        default = core_devices.default_device()
        return Device(self._kind, there.index(default) if default in there else 0)

    def client(self, device: Device | DeviceLike | None = None) -> JaxClient:
        """Return the client of a device: the same object at every call, and from every runtime of the platform.

        Raises
        ------
        BackendUnavailable
            The device is not there.
        InvalidArgument
            It is a device of another platform, or none.
        """
        named = self.default_device() if device is None else Device.of(device, "client")
        if named.kind != self._kind:
            raise InvalidArgument(
                "client",
                "device",
                got=str(named),
                wanted=f"a device of {self!r}: {', '.join(map(str, self.devices()))}",
                remedy="Use the runtime of that platform.",
                arg="device",
                reason="a device of another runtime",
            )
        there = self._there()
        if named.index >= len(there):
            core_devices.resolve(str(named), "client")  # says what is there
        found = there[named.index]
        with _lock:
            client = _clients.get(found)
            if client is None:
                client = _clients[found] = JaxClient(named, found)
            return client

    def _there(self) -> list[jax.Device]:
        if self._kind in _devices:  # asking the platforms takes a millisecond
            return _devices[self._kind]
        found = core_devices.platforms().get(self._kind)
        if found is None:  # a plugin that is not known by name
            first = core_devices.resolve(self._kind, "JaxRuntime")
            assert isinstance(first, jax.Device)
            found = list(jax.local_devices(backend=first.platform))
        if isinstance(found, list):
            _devices[self._kind] = found
            return found
        raise BackendUnavailable(
            "JaxRuntime",
            "platform",
            got=repr(self._kind),
            wanted="a platform that is here",
            remedy=f"{self._kind}: {found}.",
            backend=self._kind,
            reason=found,
        )
