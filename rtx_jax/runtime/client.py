"""Clients: the one way to the memory and the work of a device."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import jax
import numpy as np

from ..backend.device import Device
from .allocator import Allocator

if TYPE_CHECKING:
    from .events import Event
    from .strided import Layout

__all__ = ["Client", "Storage"]

Storage: TypeAlias = "jax.Array | np.ndarray"
"""What holds the bytes of a buffer: a vector of them, or of elements of the dtype that `Buffer._unit` tells."""


_WORKERS = 4


class Client(ABC):
    """The memory and the work of one device. There is one client of each device; ask a `Runtime` for it.

    Attributes
    ----------
    device
        The device.
    allocator
        What gives and counts its buffers.
    lock
        Held by whatever reads or replaces the storage of a buffer of this client. Work that is dispatched under it
        runs after it was released.
    """

    device: Device
    allocator: Allocator
    lock: threading.RLock

    _has_types: ClassVar[bool]
    """Whether programs of the device run faster on storages of the dtype that they compute in."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._workers: ThreadPoolExecutor | None = None
        self.lock = threading.RLock()
        self.allocator = Allocator(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.device)!r})"

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until all work that was given to the device is done."""

    @abstractmethod
    def compute_stream_handle(self) -> int | None:
        """Return the driver's handle of the stream on which work runs, or None where there is none: on a host."""

    # -- what buffers are made of; under the lock, all ranges checked

    @abstractmethod
    def _new(self, nbytes: int) -> Storage:
        """Return the storage of `nbytes` zeros; raises OutOfMemory."""

    @abstractmethod
    def _pointer(self, storage: Storage) -> int:
        """Return the address of the storage on the device."""

    @abstractmethod
    def _release(self, storage: Storage) -> None:
        """Give the memory back."""

    @abstractmethod
    def _load(self, storage: Storage, start: int, out: np.ndarray) -> None:
        """Copy bytes from `start` on into `out`, ``uint8``; waits for the work that makes them."""

    # The storage that changes comes in a list. Where another one takes its place, in the same memory, that is appended.

    @abstractmethod
    def _store(self, cell: list[Storage], start: int, data: np.ndarray) -> None:
        """Write `data`, ``uint8``, from byte `start` on; `data` may change as soon as this returns."""

    @abstractmethod
    def _put(self, cell: list[Storage], start: int, array: jax.Array) -> None:
        """Write the elements of an array of JAX from byte `start` on; raises DeviceMismatch where it cannot come."""

    @abstractmethod
    def _move(self, source: Storage, start: int, cell: list[Storage], target_start: int, nbytes: int) -> None:
        """Write bytes of `source`, which may be the storage that changes; ranges may overlap."""

    @abstractmethod
    def _gather(self, source: Storage, layout: Layout, cell: list[Storage]) -> None:
        """Write the elements of a layout of `source` side by side to the beginning."""

    @abstractmethod
    def _typed(self, storage: Storage, dtype: np.dtype) -> Storage:
        """Return the bytes of a storage of bytes as elements of a dtype, in other memory."""

    @abstractmethod
    def _array(self, storage: Storage, dtype: np.dtype, shape: tuple[int, ...], offset: int) -> jax.Array:
        """Return bytes from `offset` on as an array of JAX, in other memory."""

    @abstractmethod
    def _clone(self, storage: Storage) -> Storage:
        """Return the same bytes in other memory; does not wait for the work that makes them."""

    @abstractmethod
    def _refuse_results(self, refuses: bool) -> None:
        """Refuse, or allow again, eager operations that make their results on the device."""

    @abstractmethod
    def _replaced(self, old: Storage, new: Storage) -> None:
        """Note that a storage was donated for another one."""

    @abstractmethod
    def _wait(self, storage: Storage) -> None:
        """Wait for the work that makes the bytes of the storage; returns where it was donated meanwhile."""

    @abstractmethod
    def _record(self) -> Event:
        """Return an event for the work that was given to the device until now."""

    @abstractmethod
    def _device_bytes(self) -> int:
        """Return the bytes in use on the device, by whomever."""

    def _submit(self, work: Callable[[], np.ndarray]) -> Future[np.ndarray]:
        """Run a copy beside the caller; under the lock."""
        if self._workers is None:
            name = f"rtx_jax copies of {self.device}"
            self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix=name)
        return self._workers.submit(work)
