"""Keys of leaves: the facts of an array from outside as one object in the tree of structures."""

from __future__ import annotations

from collections.abc import Hashable

import jax
from jax.sharding import SingleDeviceSharding

from .fused import Unrecordable, clear_places

__all__ = ["LeafKey", "clear", "key_of", "known"]


class LeafKey:
    """Stands for the facts of a leaf in the tree of structures; there is one object for each."""

    __slots__ = ("bytes", "device")

    def __init__(self, device: jax.Device | None, nbytes: int) -> None:
        self.device = device  # that it is committed to
        self.bytes = nbytes


_keys: dict[Hashable, LeafKey] = {}
# Arrays from one compiled call have one description, so facts are found by the identity of that.
known: dict[tuple[int, int, bool], tuple[LeafKey, object, object]] = {}
_MAX_KNOWN = 4096
_devices: dict[object, jax.Device | None] = {}


def _device_of(data: jax.Array) -> jax.Device | None:
    """Return the one device in whose default memory an array lives, None for every other array."""
    sharding = data.sharding
    try:
        return _devices[sharding]
    except KeyError:
        found = None
        if type(sharding) is SingleDeviceSharding:
            (device,) = sharding.device_set
            if sharding.memory_kind in (None, jax.sharding.SingleDeviceSharding(device).memory_kind):
                found = device
        if len(_devices) >= _MAX_KNOWN:
            _devices.clear()
        _devices[sharding] = found
        return found


def key_of(data: jax.Array) -> LeafKey:
    device, committed = _device_of(data), data.committed
    if device is None or not (committed or device == jax.local_devices()[0]):
        raise Unrecordable
    facts = (data.shape, data.dtype, data.weak_type, committed, device)
    if len(_keys) >= _MAX_KNOWN:
        clear()
    key = _keys.setdefault(facts, LeafKey(device if committed else None, data.nbytes))
    if len(known) >= _MAX_KNOWN:
        known.clear()
    aval, sharding = data.aval, data.sharding
    known[id(aval), id(sharding), committed] = key, aval, sharding
    return key


def clear() -> None:
    """Forget the facts of leaves, and with them every structure."""
    _keys.clear()
    known.clear()
    _devices.clear()
    clear_places()
