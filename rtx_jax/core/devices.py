"""Devices by name, the devices that are there, and why another is not.

Nothing here runs at import: a device is looked up, and its platform started, at the first call that needs it.
"""

from __future__ import annotations

import importlib.metadata
import re
from typing import TYPE_CHECKING, Protocol, TypeAlias

import jax
from jax.sharding import Sharding

from .._compat import x64
from ..errors import BackendUnavailable, InvalidArgument
from .dtypes import WIDE

if TYPE_CHECKING:
    from .lazy import Lazy

__all__ = [
    "DeviceLike",
    "Placement",
    "default_device",
    "device_name",
    "device_of",
    "devices",
    "place",
    "platform_of",
    "platforms",
    "resolve",
]

Placement: TypeAlias = jax.Device | Sharding
"""Where an array lives, as JAX says it."""


class _WrapsPlacement(Protocol):
    @property
    def jax(self) -> Placement: ...


DeviceLike: TypeAlias = Placement | str | _WrapsPlacement
"""What ``device=`` takes; ``None`` means the default device."""

# What JAX calls each platform (the first that answers is taken), the distributions that bring its plugin,
# and our extra that installs one. Metal has two plugins, which register under different names.
_METAL = ("METAL", "mps", "mtl", "metal")
_PLATFORMS: dict[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "cpu": (("cpu",), ("jaxlib",), ""),
    "cuda": (("cuda",), ("jax-cuda13-plugin", "jax-cuda12-plugin"), "cuda13"),
    "rocm": (("rocm",), ("jax-rocm7-plugin", "jax-rocm60-plugin"), "rocm"),
    "tpu": (("tpu",), ("libtpu",), "tpu"),
    "metal": (_METAL, ("jax-metal", "jax-mps"), "metal"),
}
_ALIASES = {"mps": "metal", "mtl": "metal", "nvidia": "cuda", "hip": "rocm"}


def platforms() -> dict[str, list[jax.Device] | str]:
    """Return every known platform with its devices, or with the reason why it has none.

    Starts the platforms that are installed.
    """
    return {name: _devices_or_reason(name) for name in _PLATFORMS}


def devices() -> list[jax.Device]:
    """Return the devices that arrays can live on in this process: the default platform's first, the CPU's last."""
    found = list(_local_devices("devices"))
    if found and found[0].platform != "cpu":
        cpu = _devices_or_reason("cpu")
        found += cpu if isinstance(cpu, list) else []
    return found


def default_device() -> jax.Device:
    """Return the device of a creation call without ``device=``, as ``jax.default_device`` or JAX's order says.

    Raises
    ------
    BackendUnavailable
        No platform starts.
    """
    chosen = jax.config.jax_default_device  # type: ignore[attr-defined]
    if isinstance(chosen, str):
        chosen = resolve(chosen, "default_device")
    return chosen if isinstance(chosen, jax.Device) else _local_devices("default_device")[0]


def resolve(device: object, /, operation: str = "device") -> Placement | None:
    """Return what ``device=`` means, as JAX takes it.

    Parameters
    ----------
    device
        ``None`` (the default device), a `jax.Device`, a `jax.sharding.Sharding`, an object that wraps one of these
        as ``.jax``, or a name: ``"cpu"``, ``"cuda:1"``, ``"gpu"``, ``"rocm"``, ``"tpu:0"``, ``"metal"``, ``"mps"``.
        The number counts the platform's devices of this process.
    operation
        The function that the error names.

    Raises
    ------
    BackendUnavailable
        The platform or the number is known but not there; the text lists the devices there are and, for each
        platform without one, the reason.
    InvalidArgument
        It is none of these.
    """
    if device is None or isinstance(device, (jax.Device, Sharding)):
        return device
    if isinstance(device, str):
        return _by_name(device, operation)
    inner = getattr(device, "jax", None)
    if isinstance(inner, (jax.Device, Sharding)):
        return inner
    raise InvalidArgument(
        operation,
        "device",
        got=f"{device!r} ({type(device).__name__})",
        wanted='a jax.Device, a jax.sharding.Sharding or a name such as "cpu" or "cuda:1"',
        arg="device",
        reason="not a device",
    )


def _by_name(text: str, operation: str) -> jax.Device:
    match = re.fullmatch(r"\s*([A-Za-z_][A-Za-z_0-9]*)(?::(\d+))?\s*", text)
    if match is None:
        raise InvalidArgument(
            operation,
            "device",
            got=repr(text),
            wanted='"platform" or "platform:number"',
            remedy=_inventory(),
            arg="device",
            reason="not a device name",
        )
    name, number = match[1].lower(), int(match[2] or 0)
    name = _ALIASES.get(name, name)
    found: list[jax.Device] | str | None
    if name == "gpu":
        found = _any_gpu()
    elif name in _PLATFORMS:
        found = _devices_or_reason(name)
    else:
        found = _plugin_devices(match[1])
    if found is None:
        raise InvalidArgument(
            operation,
            "device",
            got=repr(text),
            wanted="one of " + ", ".join([*_PLATFORMS, "gpu", "mps"]),
            remedy=_inventory(),
            arg="device",
            reason="unknown platform",
        )
    if isinstance(found, str):
        raise BackendUnavailable(
            operation,
            "device",
            got=repr(text),
            wanted="a platform that is here",
            remedy=_inventory(),
            backend=name,
            reason=found,
        ) from _cause(name)
    if number >= len(found):
        reason = f"there {'is' if len(found) == 1 else 'are'} {len(found)} {name} device{'s' * (len(found) != 1)}"
        raise BackendUnavailable(
            operation,
            "device",
            got=repr(text),
            wanted=f"a number below {len(found)}",
            remedy=_inventory(),
            backend=name,
            reason=reason,
        )
    return found[number]


def _any_gpu() -> list[jax.Device] | str:
    reasons = []
    for name in ("cuda", "rocm"):
        found = _devices_or_reason(name)
        if isinstance(found, list):
            return found
        reasons.append(f"{name}: {found}")
    return "; ".join(reasons)


def _plugin_devices(name: str) -> list[jax.Device] | None:
    """Devices of a PJRT plugin that we do not know by name, or None."""
    for spelling in (name, name.lower()):
        try:
            return list(jax.local_devices(backend=spelling))
        except RuntimeError:
            continue
    return None


def _devices_or_reason(name: str) -> list[jax.Device] | str:
    spellings, distributions, extra = _PLATFORMS[name]
    words = ""
    for spelling in spellings:
        try:
            found = list(jax.local_devices(backend=spelling))
        except RuntimeError as error:
            if not words or "failed to initialize" in str(error):
                words = str(error)
        else:
            if found:
                return found
    allowed = _allowed()
    if allowed and not {s.lower() for s in spellings} & {p.strip().lower() for p in allowed.split(",")}:
        return f"left out by JAX_PLATFORMS={allowed}"
    if not any(_is_installed(d) for d in distributions):
        remedy = f"; pip install 'rtx-jax[{extra}]'" if extra else ""
        return f"no plugin installed ({' or '.join(distributions)}){remedy}"
    failed = re.search(r"failed to initialize: (.*?)\.? Available backends", words, re.DOTALL)
    return f"no device found: {failed[1]}" if failed else "plugin installed, no device found"


def _cause(name: str) -> RuntimeError | None:
    """JAX's own exception for a platform that is not there, to be the `__cause__` of ours."""
    try:
        jax.local_devices(backend=_PLATFORMS[name][0][0] if name in _PLATFORMS else name)
    except RuntimeError as error:
        return error
    return None


def _allowed() -> str:
    """The platforms that JAX may start, as the user limited them; empty when all."""
    limit: str | None = jax.config.jax_platforms  # type: ignore[attr-defined]
    return limit or ""


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _inventory() -> str:
    """What is there and why the rest is not, for the end of an error."""
    there, absent = [], []
    for name, found in platforms().items():
        if isinstance(found, str):
            absent.append(f"{name} ({found})")
        else:
            there += [f"{name}:{i}" for i in range(len(found))]
    return f"Devices here: {', '.join(there) or 'none'}. Not here: {', '.join(absent) or 'none'}"


def _local_devices(operation: str) -> list[jax.Device]:
    try:
        found: list[jax.Device] = jax.local_devices()
        return found
    except RuntimeError as error:
        raise BackendUnavailable(
            operation,
            got=f"JAX_PLATFORMS={_allowed()}",
            wanted="a platform that starts",
            remedy=f"JAX says: {error}",
            backend=_allowed(),
            reason=str(error),
        ) from error


def platform_of(placement: Placement, /) -> str:
    """Return ``"cpu"``, ``"cuda"``, ``"rocm"``, ``"tpu"``, ``"metal"`` or the plugin's own name."""
    device = placement if isinstance(placement, jax.Device) else next(iter(placement.device_set))
    platform = device.platform.lower()
    if platform == "gpu":
        version = str(getattr(device.client, "platform_version", "")).lower()
        return "rocm" if "rocm" in version else "cuda"
    return str(_ALIASES.get(platform, platform))


def device_name(placement: Placement, /) -> str:
    """Return a short name for texts: ``"cuda:1"``, or for a sharding its devices: ``"cpu:0,cpu:1 (P('x',))"``."""
    if isinstance(placement, jax.Device):
        return f"{platform_of(placement)}:{placement.id}"
    ordered = sorted(placement.device_set, key=lambda d: d.id)
    names = ",".join(device_name(d) for d in ordered[:8]) + (",..." if len(ordered) > 8 else "")
    spec = getattr(placement, "spec", None)
    return names if len(ordered) == 1 or spec is None else f"{names} ({spec})"


def device_of(x: jax.Array | Lazy, /) -> Placement | None:
    """Return the device of an array, its sharding when it is spread over several, or None while tracing.

    ``None`` is what ``device=`` takes for "wherever the computation runs", which is all that is known then.
    """
    if isinstance(x, jax.core.Tracer):
        return None
    sharding = x.sharding
    return next(iter(sharding.device_set)) if len(sharding.device_set) == 1 else sharding


def place(x: jax.Array, placement: Placement, /, operation: str = "to_device") -> jax.Array:
    """Return `x` on `placement`; the buffer may be shared when it is there already.

    Raises
    ------
    InvalidArgument
        The sharding does not fit the shape of `x`.
    """
    try:
        with x64(x.dtype in WIDE):
            placed: jax.Array = jax.device_put(x, placement)
            return placed
    except ValueError as error:
        raise InvalidArgument(
            operation,
            "device",
            got=f"{device_name(placement)} for shape {x.shape}",
            wanted="a sharding that divides the shape",
            remedy=str(error).splitlines()[0],
            arg="device",
            reason=str(error),
        ) from error
