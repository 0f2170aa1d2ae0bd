"""`NumpyRuntime`: the contract of a runtime on the host, by NumPy alone."""

from __future__ import annotations

import threading

from ..backend.device import Device
from ..core.devices import DeviceLike
from ..errors import InvalidArgument
from .base import Runtime
from .numpy_client import NumpyClient

__all__ = ["NumpyRuntime"]

_DEVICE = Device("numpy")
_clients: list[NumpyClient] = []
_lock = threading.Lock()


class NumpyRuntime(Runtime):
    """The host's memory, and NumPy's work on it: the same contract without a device, exact and easy to debug.

    Examples
    --------
    >>> NumpyRuntime().devices()
    [Device('numpy:0')]
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "NumpyRuntime()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NumpyRuntime)

    def __hash__(self) -> int:
        return hash(NumpyRuntime)

    def name(self) -> str:
        """Return ``"numpy"``."""
        return "numpy"

    def is_available(self) -> bool:
        """Tell whether a device is there: always."""
        return True

    def devices(self) -> list[Device]:
        """Return the one device."""
        return [_DEVICE]

    def default_device(self) -> Device:
        """Return the one device."""
        return _DEVICE

    def client(self, device: Device | DeviceLike | None = None) -> NumpyClient:
        """Return the client: the same object at every call.

        Raises
        ------
        InvalidArgument
            `device` is another one.
        """
        if device is not None and Device.of(device, "client") != _DEVICE:
            raise InvalidArgument(
                "client",
                "device",
                got=str(Device.of(device, "client")),
                wanted="numpy:0, the only device of NumpyRuntime()",
                remedy="Use JaxRuntime for devices of JAX.",
                arg="device",
                reason="a device of another runtime",
            )
        with _lock:
            if not _clients:
                _clients.append(NumpyClient(_DEVICE))
            return _clients[0]
