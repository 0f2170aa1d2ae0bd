"""The sharding of an array as text, and back."""

from __future__ import annotations

import json

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, Sharding

from ..core.devices import platform_of
from ..errors import BackendUnavailable, FormatError, InvalidArgument

__all__ = ["read_sharding", "write_sharding"]


def write_sharding(sharding: Sharding) -> str | None:
    """Return the record of a sharding over several devices, or None for one device.

    Raises
    ------
    InvalidArgument
        It is not a NamedSharding of this process.
    """
    if len(sharding.device_set) == 1:
        return None
    if not isinstance(sharding, NamedSharding) or not sharding.is_fully_addressable:
        raise InvalidArgument(
            "save",
            "arrays",
            got=f"an array with {type(sharding).__name__}",
            wanted="a NamedSharding over devices of this process",
            remedy="Move it to one device or to a NamedSharding with to_device.",
            arg="arrays",
            reason="sharding",
        )
    mesh = sharding.mesh
    record = {
        "platform": platform_of(sharding),
        "axes": list(mesh.axis_names),
        "shape": list(mesh.devices.shape),
        "devices": [device.id for device in mesh.devices.flat],
        "spec": [list(part) if isinstance(part, tuple) else part for part in sharding.spec],
    }
    return json.dumps(record)


def read_sharding(text: str, path: str) -> NamedSharding:
    """Return the sharding of a record on this process's devices.

    Raises
    ------
    FormatError
        The record is damaged.
    BackendUnavailable
        A device that it names is not there.
    """
    try:
        record = json.loads(text)
        platform, shape, ids = str(record["platform"]), tuple(record["shape"]), list(record["devices"])
        spec = PartitionSpec(*(tuple(part) if isinstance(part, list) else part for part in record["spec"]))
        axes = tuple(map(str, record["axes"]))
        count = int(np.prod(shape))
        if count != len(ids) or len(axes) != len(shape):
            raise ValueError("the mesh does not fit its devices")
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(
            "load", "path", got=f"{path!r} with a damaged record of a sharding", remedy='Load with sharding="drop".'
        ) from error
    try:
        found = {device.id: device for device in jax.local_devices(backend=platform)}
    except RuntimeError:
        found = {}
    missing = [f"{platform}:{number}" for number in ids if number not in found]
    if missing:
        raise BackendUnavailable(
            "load",
            "path",
            got=f"{path!r}, sharded over {len(ids)} devices of which {', '.join(missing)} are not here",
            wanted="the devices that it was saved from",
            remedy='Load with sharding="drop", or with device= a device or sharding.',
            backend=platform,
            reason="missing devices",
        )
    devices = np.array([found[number] for number in ids], dtype=object).reshape(shape)
    return NamedSharding(Mesh(devices, axes, axis_types=(AxisType.Auto,) * len(axes)), spec)
