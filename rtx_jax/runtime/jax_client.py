"""The client of a `jax.Device`: storages are `jax.Array`, replaced by compiled calls that donate them."""

from __future__ import annotations

import ctypes
import math
import re
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import SingleDeviceSharding

from .._compat import x64
from ..backend.device import Device
from ..core.devices import device_name
from ..core.dtypes import WIDE
from ..core.op import raise_translated, translate
from ..errors import DeviceMismatch, OutOfMemory
from . import jax_moves as moves
from .client import Client, Storage
from .events import Event
from .frozen_devices import freeze, thaw
from .host import aligned_zeros, check_room, out_of_memory
from .jax_events import InFlight
from .strided import Layout

__all__ = ["JaxClient"]


class JaxClient(Client):
    """The memory and the work of a `jax.Device`.

    Attributes
    ----------
    jax_device
        The `jax.Device`.
    """

    _has_types: ClassVar[bool] = True

    def __init__(self, device: Device, jax_device: jax.Device) -> None:
        super().__init__(device)
        self.jax_device = jax_device
        # On the CPU the host reads the memory where it is.
        self._is_host = jax_device.platform == "cpu"
        self._events = InFlight(jax_device, self.lock)

    def synchronize(self) -> None:
        """Wait until all work that was given to the device is done: computations, copies, callbacks."""
        for array in jax.live_arrays():
            if self.jax_device in array.devices() and not array.is_deleted():
                self._wait(array)
        try:
            jax.effects_barrier()
        except Exception as error:  # a callback has raised
            raise_translated("synchronize", error)

    def compute_stream_handle(self) -> int | None:
        """Return the driver's handle of the stream that computations run on, or None: the CPU has no streams."""
        try:
            handle: int = self.jax_device.get_stream_for_external_ready_events()
        except (jax.errors.JaxRuntimeError, NotImplementedError, AttributeError):
            return None
        return handle

    def _new(self, nbytes: int) -> Storage:
        if self._is_host:
            check_room(nbytes, str(self.device))
        elif nbytes >= 2**62:  # more than compilers count
            raise out_of_memory(nbytes, str(self.device))
        try:
            made: jax.Array
            if self._is_host:
                made = self._owned(aligned_zeros(nbytes, 1))
            else:
                made = jnp.zeros(nbytes, jnp.uint8, device=SingleDeviceSharding(self.jax_device))
            made.block_until_ready()
        except (jax.errors.JaxRuntimeError, MemoryError) as error:
            raise self._translated(error, nbytes) from error
        return made

    def _owned(self, host: np.ndarray) -> jax.Array:
        """Return private memory of the host, that is not aligned for XLA, as memory of XLA's own.

        XLA copies it for that reason. What it only borrowed it could not change in place.
        """
        with x64(host.dtype in WIDE):
            made: jax.Array = jax.device_put(host, self.jax_device)
        return made

    def _translated(self, error: Exception, nbytes: int) -> Exception:
        ours = translate("allocate", error)
        if isinstance(ours, OutOfMemory):
            told = re.search(r"allocat\w* (\d+) ?bytes", str(error))
            return out_of_memory(int(told[1]) if told else nbytes, str(self.device))
        return ours

    def _pointer(self, storage: Storage) -> int:
        return int(_raw(storage).unsafe_buffer_pointer())

    def _release(self, storage: Storage) -> None:
        _raw(storage).delete()

    def _load(self, storage: Storage, start: int, out: np.ndarray) -> None:
        if self._is_host:
            _raw(storage).block_until_ready()
            ctypes.memmove(out.ctypes.data, self._pointer(storage) + start, out.size)
        else:
            moves.load(_raw(storage), start, out)

    def _store(self, cell: list[Storage], start: int, data: np.ndarray) -> None:
        # The host's memory is read after the call returns: the caller may change it by then.
        moves.store(cell, start, data.copy())

    def _put(self, cell: list[Storage], start: int, array: jax.Array) -> None:
        if array.devices() != {self.jax_device}:
            there = ", ".join(sorted(map(device_name, array.devices())))
            raise DeviceMismatch(
                "write",
                "value",
                got=f"an array on {there}",
                wanted=f"one on {self.device}",
                remedy="Move it with to_device, or write numpy.asarray(value).",
                devices=(there, str(self.device)),
            )
        moves.put(array, cell, start)

    def _move(self, source: Storage, start: int, cell: list[Storage], target_start: int, nbytes: int) -> None:
        moves.move(_raw(source), start, cell, target_start, nbytes)

    def _gather(self, source: Storage, layout: Layout, cell: list[Storage]) -> None:
        moves.move(moves.gather(_raw(source), layout), 0, cell, 0, layout.nbytes)

    def _typed(self, storage: Storage, dtype: np.dtype) -> Storage:
        if not self._is_host:
            return moves.retype(_raw(storage), dtype)
        made = aligned_zeros(storage.nbytes, dtype.itemsize)
        self._load(storage, 0, made)
        return self._owned(made.view(dtype))

    def _array(self, storage: Storage, dtype: np.dtype, shape: tuple[int, ...], offset: int) -> jax.Array:
        return moves.view(_raw(storage), dtype, shape, offset)

    def _clone(self, storage: Storage) -> Storage:
        return moves.clone(_raw(storage))

    def _refuse_results(self, refuses: bool) -> None:
        (freeze if refuses else thaw)(self.jax_device)

    def _replaced(self, old: Storage, new: Storage) -> None:
        self._events.follow(_raw(old), _raw(new))

    def _wait(self, storage: Storage) -> None:
        try:
            _raw(storage).block_until_ready()
        except RuntimeError as error:
            if "deleted" not in str(error) and "donated" not in str(error):
                raise translate("wait", error) from error

    def _record(self) -> Event:
        return self._events.record()

    def _device_bytes(self) -> int:
        stats = self.jax_device.memory_stats()
        if stats and "bytes_in_use" in stats:
            return int(stats["bytes_in_use"])
        return sum(
            math.prod(array.sharding.shard_shape(array.shape)) * array.dtype.itemsize
            for array in jax.live_arrays()
            if not array.is_deleted() and self.jax_device in array.devices()
        )


def _raw(storage: Storage) -> jax.Array:
    assert isinstance(storage, jax.Array)
    return storage
