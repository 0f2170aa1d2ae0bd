"""Events of a `jax.Device`: the arrays that were being computed when the event was recorded."""

from __future__ import annotations

import threading
import weakref

import jax
import jax.numpy as jnp

from .events import Event

__all__ = ["InFlight", "JaxEvent", "is_done"]


class JaxEvent(Event):
    """The arrays of a device whose values were not there yet; they are kept until they are."""

    __slots__ = ("__weakref__", "_lock", "_pending")

    def __init__(self, pending: list[jax.Array], lock: threading.RLock) -> None:
        self._pending, self._lock = pending, lock

    @property
    def ready(self) -> bool:
        """Whether the work is done; asking does not wait."""
        self.prune()
        return not self._pending

    def prune(self) -> None:
        """Let the arrays go that are done."""
        self._pending = [array for array in self._pending if not is_done(array)]

    def wait(self) -> None:
        """Wait until the work is done."""
        while self._pending:
            for array in list(self._pending):  # more may come, made of those that are given away
                try:
                    array.block_until_ready()
                except RuntimeError:  # given away, or failed: nothing is left to wait for
                    continue
            self.prune()

    def follow(self, old: jax.Array, new: jax.Array) -> None:
        """Wait for `new` too, which was made of `old`, if the event waits for `old`."""
        if any(array is old for array in self._pending):
            self._pending.append(new)


class InFlight:
    """Makes the events of one device; `lock` is its client's."""

    def __init__(self, device: jax.Device, lock: threading.RLock) -> None:
        self._device, self._lock = device, lock
        self._marker = None if device.platform == "cpu" else jax.jit(lambda x: x + 1)
        self._events: weakref.WeakSet[JaxEvent] = weakref.WeakSet()

    def record(self) -> JaxEvent:
        """Return an event for what is being computed now."""
        for event in list(self._events):
            event.prune()
        pending = [array for array in jax.live_arrays() if not is_done(array) and self._device in array.devices()]
        if self._marker is not None:
            # The device works in order: this is done when all before it is, of dropped arrays too.
            pending.append(self._marker(jax.device_put(jnp.int32(0), self._device)))
        event = JaxEvent(pending, self._lock)
        if pending:
            self._events.add(event)
        return event

    def follow(self, old: jax.Array, new: jax.Array) -> None:
        """Let the events that wait for a donated array wait for what was made of it."""
        if self._events:
            for event in list(self._events):
                event.follow(old, new)


def is_done(array: jax.Array) -> bool:
    """Tell whether the values of an array are there, or never will be."""
    try:
        # Asking a deleted array crashes JAX 0.10.2.
        return array.is_deleted() or bool(array.is_ready())  # type: ignore[attr-defined]
    except RuntimeError:  # given away: whoever took it is among the arrays; or failed
        return True
