"""The client of the host's own memory: storages are NumPy arrays, changed in place, and work is done on return."""

from __future__ import annotations

import math
from typing import ClassVar

import jax
import numpy as np

from ..core.host import place
from .client import Client, Storage
from .events import DoneEvent, Event
from .host import aligned_zeros, check_room, out_of_memory
from .strided import Layout

__all__ = ["NumpyClient"]


class NumpyClient(Client):
    """The memory of the host, and NumPy's work on it."""

    _has_types: ClassVar[bool] = False

    def synchronize(self) -> None:
        """Return at once: work is done when the call that asks for it returns."""

    def compute_stream_handle(self) -> int | None:
        """Return None: the host has no streams."""
        return None

    def _new(self, nbytes: int) -> Storage:
        check_room(nbytes, str(self.device))
        try:
            return aligned_zeros(nbytes)
        except (MemoryError, ValueError) as error:
            raise out_of_memory(nbytes, str(self.device)) from error

    def _pointer(self, storage: Storage) -> int:
        return int(_host(storage).ctypes.data)

    def _release(self, storage: Storage) -> None:
        pass  # the last reference goes

    def _load(self, storage: Storage, start: int, out: np.ndarray) -> None:
        out[...] = _bytes(storage)[start : start + out.size]

    def _store(self, cell: list[Storage], start: int, data: np.ndarray) -> None:
        _bytes(cell[-1])[start : start + data.size] = data

    def _put(self, cell: list[Storage], start: int, array: jax.Array) -> None:
        self._store(cell, start, np.ascontiguousarray(array).reshape(-1).view(np.uint8))

    def _move(self, source: Storage, start: int, cell: list[Storage], target_start: int, nbytes: int) -> None:
        # NumPy copies by way of a temporary where the two overlap.
        _bytes(cell[-1])[target_start : target_start + nbytes] = _bytes(source)[start : start + nbytes]

    def _gather(self, source: Storage, layout: Layout, cell: list[Storage]) -> None:
        item = layout.item_bytes
        low, high = layout.range_bytes
        elements = np.ndarray(
            (*layout.shape, item),
            np.uint8,
            _bytes(source)[low:high],
            layout.offset_bytes - low,
            (*[stride * item for stride in layout.strides], 1),
        )
        _bytes(cell[-1])[: layout.nbytes] = elements.reshape(-1)  # the reshape copies, so both may be one storage

    def _typed(self, storage: Storage, dtype: np.dtype) -> Storage:
        return _bytes(storage).view(dtype)

    def _array(self, storage: Storage, dtype: np.dtype, shape: tuple[int, ...], offset: int) -> jax.Array:
        end = offset + math.prod(shape) * dtype.itemsize
        return place(_bytes(storage)[offset:end].copy().view(dtype).reshape(shape))

    def _clone(self, storage: Storage) -> Storage:
        return _bytes(storage).copy()

    def _refuse_results(self, refuses: bool) -> None:
        pass  # no Array lives here

    def _replaced(self, old: Storage, new: Storage) -> None:
        pass

    def _wait(self, storage: Storage) -> None:
        pass

    def _record(self) -> Event:
        return DoneEvent()

    def _device_bytes(self) -> int:
        return self.allocator.allocated_bytes


def _host(storage: Storage) -> np.ndarray:
    assert isinstance(storage, np.ndarray)
    return storage


def _bytes(storage: Storage) -> np.ndarray:
    return _host(storage).reshape(-1).view(np.uint8)
