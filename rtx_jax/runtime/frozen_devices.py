"""Devices of JAX whose allocator is frozen: eager operations that would make a result there are refused."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import jax
from jax.core import Tracer

from .._compat import trace_is_clean
from ..core.devices import default_device, device_name
from ..core.handle import Handle, tracing
from ..errors import AllocatorFrozen

__all__ = ["freeze", "thaw"]

_frozen: set[jax.Device] = set()
_lock = threading.Lock()


def freeze(device: jax.Device) -> None:
    """Refuse eager results on a device."""
    with _lock:
        if not _frozen:
            # Every operation takes the general path now, which asks.
            tracing.active += 1
            tracing.guard = _check
        _frozen.add(device)


def thaw(device: jax.Device) -> None:
    """Allow them again."""
    with _lock:
        if device in _frozen:
            _frozen.discard(device)
            if not _frozen:
                tracing.guard = None
                tracing.active -= 1


def _check(operation: str, operands: Sequence[object]) -> None:
    """Raise AllocatorFrozen when an operation on these operands makes its result on a frozen device."""
    devices: set[jax.Device] = set()
    for x in operands:
        data = x._data if isinstance(x, Handle) else x
        if isinstance(data, Tracer):
            return
        if isinstance(data, jax.Array) and not data.is_deleted():
            devices |= data.devices()
    if not trace_is_clean():
        return  # what is traced allocates nothing
    refused = _frozen & (devices or {default_device()})
    if refused:
        names = ", ".join(sorted(map(device_name, refused)))
        raise AllocatorFrozen(
            operation,
            got=f"a new array on {names}, whose allocator is frozen",
            wanted="launches of captured graphs, and updates in place",
            remedy="Call unfreeze() on the allocator first.",
        )
