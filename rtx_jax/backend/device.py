"""Devices of backends: a value that names one, and the operations that a family of devices has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

from ..errors import InvalidArgument

if TYPE_CHECKING:
    import jax

__all__ = ["Device", "DeviceId", "DeviceOps"]

KINDS = ("cpu", "cuda", "rocm", "tpu", "metal", "webgpu", "numpy")
"""Kinds of devices in the order of their type ids; a device of a third party has the id ``len(KINDS)``."""


@dataclass(frozen=True, slots=True)
class DeviceId:
    """A device as two numbers.

    Attributes
    ----------
    type_id
        Position of the kind in `KINDS`.
    index_id
        Number of the device among those of its kind.
    """

    type_id: int
    index_id: int


@runtime_checkable
class DeviceOps(Protocol):
    """What a device answers."""

    @property
    def id(self) -> DeviceId:
        """The device as two numbers."""

    def to_id(self) -> DeviceId:
        """Return the device as two numbers."""

    @classmethod
    def from_id(cls, device_id: DeviceId, /) -> Self:
        """Return the device of two numbers."""

    @property
    def name(self) -> str:
        """What the vendor calls it."""

    def is_same(self, other: object, /) -> bool:
        """Tell whether both are one piece of hardware."""

    @classmethod
    def defaults(cls) -> Self:
        """Return the device that is taken where none is named."""

    def memory_stats(self) -> Mapping[str, int] | None:
        """Return what the allocator counts, or None where the platform does not tell."""

    @classmethod
    def count(cls, kind: str | None = None, /) -> int:
        """Return the number of devices of a kind in this process."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device by its kind and its number: hashable, picklable, and taken wherever ``device=`` is.

    Parameters
    ----------
    kind
        ``"cpu"``, ``"cuda"``, ``"rocm"``, ``"tpu"``, ``"metal"``, ``"webgpu"`` or ``"numpy"``, or a name of a third
        party's.
    index
        Number among the devices of that kind in this process.

    Examples
    --------
    >>> Device("cpu", 0)
    Device('cpu:0')
    >>> Device.of("cuda:1").index
    1
    """

    kind: str
    index: int = 0

    def __post_init__(self) -> None:
        if not self.kind or ":" in self.kind or not isinstance(self.index, int) or self.index < 0:
            raise InvalidArgument(
                "Device",
                "index",
                got=f"{self.kind!r}, {self.index!r}",
                wanted="a kind and a number of 0 or more",
                remedy=f"Write Device.of({self.kind!r})." if ":" in self.kind else "",
                arg="index",
                reason="not a device",
            )

    def __repr__(self) -> str:
        return f"Device({str(self)!r})"

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}"

    @classmethod
    def of(cls, device: object, /, operation: str = "Device.of") -> Device:
        """Return the Device for a Device, a `jax.Device`, or a name such as ``"cuda:1"``.

        Raises
        ------
        InvalidArgument
            It is none of these.
        """
        if isinstance(device, Device):
            return device
        if isinstance(device, str):
            kind, _, number = device.strip().partition(":")
            if kind and (not number or number.isdigit()):
                return cls(
                    {"mps": "metal", "mtl": "metal", "gpu": "cuda"}.get(kind.lower(), kind.lower()), int(number or 0)
                )
        else:
            import jax

            if isinstance(device, jax.Device):
                from ..core.devices import platform_of

                same = jax.local_devices(backend=device.platform) if device in jax.local_devices() else []
                number_of = {d: i for i, d in enumerate(same)}
                return cls(platform_of(device), number_of.get(device, device.id))
        raise InvalidArgument(
            operation,
            "device",
            got=repr(device),
            wanted='a Device, a jax.Device or a name such as "cpu" or "cuda:1"',
            arg="device",
            reason="not a device",
        )

    @property
    def jax(self) -> jax.Device:
        """The `jax.Device`; looking it up starts its platform.

        Raises
        ------
        BackendUnavailable
            The platform or the number is not there.
        """
        from ..core.devices import resolve

        return resolve(str(self), "Device.jax")

    @property
    def id(self) -> DeviceId:
        """The device as two numbers."""
        return DeviceId(KINDS.index(self.kind) if self.kind in KINDS else len(KINDS), self.index)

    def to_id(self) -> DeviceId:
        """Return the device as two numbers."""
        return self.id

    @classmethod
    def from_id(cls, device_id: DeviceId, /) -> Device:
        """Return the device of two numbers.

        Raises
        ------
        InvalidArgument
            The type id belongs to no kind that is known here.
        """
        if not 0 <= device_id.type_id < len(KINDS):
            raise InvalidArgument(
                "Device.from_id",
                "device_id",
                got=device_id,
                wanted=f"a type id of 0..{len(KINDS) - 1}",
                arg="device_id",
                reason="unknown kind",
            )
        return cls(KINDS[device_id.type_id], device_id.index_id)

    @property
    def name(self) -> str:
        """What the vendor calls it: ``"NVIDIA H100 80GB HBM3"``."""
        return "NumPy on the host" if self.kind == "numpy" else str(self.jax.device_kind)

    def is_same(self, other: object, /) -> bool:
        """Tell whether `other`, a Device, `jax.Device` or name, is this piece of hardware."""
        return self == Device.of(other, "Device.is_same")

    @classmethod
    def defaults(cls) -> Device:
        """Return the device that is taken where none is named."""
        from ..core.devices import default_device

        return cls.of(default_device())

    def memory_stats(self) -> Mapping[str, int] | None:
        """Return the allocator's counts in bytes, such as ``bytes_in_use`` and ``bytes_limit``.

        None where the platform does not tell: the CPU.
        """
        if self.kind == "numpy":
            return None
        stats: Mapping[str, int] | None = self.jax.memory_stats()
        return stats or None

    @classmethod
    def count(cls, kind: str | None = None, /) -> int:
        """Return the number of devices of a kind in this process, 0 where there is none; None counts all."""
        from ..core.devices import devices, platforms

        if kind is None:
            return len(devices())
        if kind == "numpy":
            return 1
        found = platforms().get(cls.of(kind, "Device.count").kind)
        return len(found) if isinstance(found, list) else 0
