"""Allocators: what counts the memory of a client's buffers, and can refuse to give more."""

from __future__ import annotations

import contextlib
import operator
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from ..errors import AllocatorBusy, AllocatorFrozen, InvalidArgument
from .recording import check_eager

if TYPE_CHECKING:
    from .buffer import Buffer
    from .client import Client

__all__ = ["AllocationStats", "Allocator", "FreezeMode"]

FreezeMode: TypeAlias = Literal["reject", "capture"]
"""What a frozen allocator refuses; see `Allocator.freeze`."""

_MODES = ("reject", "capture")

# Buffers are collected at any point of any thread, also of one that counts: so one lock, which may be taken twice.
_lock = threading.RLock()


@dataclass(frozen=True, slots=True)
class AllocationStats:
    """What an allocator has counted since it was made or reset.

    Attributes
    ----------
    total_allocations
        How many buffers it gave.
    total_bytes
        Their bytes, those of freed buffers included.
    active_allocations
        How many of them are not freed.
    is_frozen
        Whether it refuses memory now.
    peak_usage
        The most bytes that were in use at one time.
    """

    total_allocations: int
    total_bytes: int
    active_allocations: int
    is_frozen: bool
    peak_usage: int


class Allocator:
    """Gives buffers of one client and counts them; safe to use from several threads.

    A client has one (`Client.allocator`), which a `Runtime` uses; more of them count a part of a program on its own.

    Parameters
    ----------
    client
        Whose memory it is.
    """

    __slots__ = ("__weakref__", "_active", "_bytes", "_client", "_mode", "_peak", "_total", "_total_bytes")

    def __init__(self, client: Client) -> None:
        self._client = weakref.ref(client)
        self._mode: FreezeMode | None = None
        self._total = self._total_bytes = self._active = self._bytes = self._peak = 0

    def __repr__(self) -> str:
        state = f", frozen for {self._mode!r}" if self._mode else ""
        return f"Allocator({self._owner().device}: {self._active} buffers, {self._bytes} bytes{state})"

    def allocate(self, nbytes: int, /) -> Buffer:
        """Return a new buffer of `nbytes` zeros, aligned to 64 bytes on the host.

        Parameters
        ----------
        nbytes
            0 or more. A buffer of 0 bytes has the pointer 0.

        Raises
        ------
        AllocatorFrozen
            The allocator is frozen.
        OutOfMemory
            The device has no room.
        InvalidArgument
            `nbytes` is not an integer of 0 or more.
        """
        from .buffer import Buffer

        size = _size(nbytes)
        with _lock:
            if self._mode is not None:
                raise self._frozen(size)
        check_eager("allocate")
        client = self._owner()
        storage = client._new(size)
        return Buffer(self, client, size, storage)

    def deallocate(self, buffer: Buffer, /, nbytes: int | None = None) -> None:
        """Free a buffer.

        Parameters
        ----------
        buffer
            A buffer that this allocator gave.
        nbytes
            Its size, to be checked, or None.

        Raises
        ------
        UseAfterFree
            It was freed before; `Buffer.free` may be called twice.
        InvalidArgument
            `nbytes` is not its size, or another allocator gave it.
        """
        if buffer.allocator is not self:
            raise InvalidArgument(
                "deallocate",
                "buffer",
                got=f"a buffer that {buffer.allocator!r} gave",
                wanted="one of this allocator's",
                arg="buffer",
                reason="of another allocator",
            )
        buffer._check("deallocate")
        if nbytes is not None and nbytes != buffer.nbytes:
            raise InvalidArgument(
                "deallocate",
                "nbytes",
                got=nbytes,
                wanted=f"{buffer.nbytes}, the buffer's size",
                arg="nbytes",
                reason="not the size of the buffer",
            )
        buffer.free()

    def stats(self) -> AllocationStats:
        """Return the counts."""
        with _lock:
            return AllocationStats(
                self._total, self._total_bytes, self._active, self._mode is not None, max(self._peak, self._bytes)
            )

    @property
    def allocated_bytes(self) -> int:
        """Bytes of the buffers that are not freed."""
        return self._bytes

    def device_bytes(self) -> int:
        """Return the bytes in use on the device by everybody: Arrays, tensors and buffers.

        The platform's own count where it tells, else the bytes of the arrays that are alive.
        """
        return self._owner()._device_bytes()

    def reset(self) -> None:
        """Start counting anew; a frozen allocator stays frozen.

        Raises
        ------
        AllocatorBusy
            Buffers are not freed.
        """
        with _lock:
            if self._active:
                raise AllocatorBusy(
                    "reset",
                    got=f"{self._active} buffers of {self._bytes} bytes that are in use",
                    wanted="none",
                    remedy="Free them first.",
                    active_allocations=self._active,
                )
            self._total = self._total_bytes = self._peak = 0

    # -- freezing

    @property
    def is_frozen(self) -> bool:
        """Whether it refuses memory now."""
        return self._mode is not None

    def freeze(self, mode: FreezeMode = "reject", /) -> None:
        """Refuse memory until `unfreeze`; what was given stays as it is, and may be read and written.

        Parameters
        ----------
        mode
            ``"reject"``: no buffers; and from the allocator of a client, no results of eager operations on Arrays and
            Backend tensors of its device either. Captured graphs still launch, and updates in place go on.
            ``"capture"``: no buffers, while a function is traced, which itself allocates nothing.

        Raises
        ------
        InvalidArgument
            The mode is neither ``"reject"`` nor ``"capture"``.
        """
        if mode not in _MODES:
            raise InvalidArgument(
                "freeze", "mode", got=repr(mode), wanted='"reject" or "capture"', arg="mode", reason="unknown mode"
            )
        self._set_mode(mode)

    def unfreeze(self) -> None:
        """Give memory again."""
        self._set_mode(None)

    @contextlib.contextmanager
    def frozen(self, mode: FreezeMode = "reject", /) -> Iterator[None]:
        """Freeze for the body, and return to what was before whatever happens in it."""
        before = self._mode
        self.freeze(mode)
        try:
            yield
        finally:
            self._set_mode(before)

    def _set_mode(self, mode: FreezeMode | None) -> None:
        with _lock:
            self._mode = mode
        client = self._owner()
        if self is client.allocator:
            client._refuse_results(mode == "reject")

    def _frozen(self, size: int) -> AllocatorFrozen:
        inside = self._mode == "capture"
        return AllocatorFrozen(
            "allocate",
            got=f"{size} bytes from the frozen allocator of {self._owner().device}",
            remedy="Allocate before the capture begins." if inside else "Call unfreeze() first.",
        )

    # -- counting

    def _given(self, nbytes: int) -> None:
        with _lock:
            self._total += 1
            self._total_bytes += nbytes
            self._active += 1
            self._bytes += nbytes
            self._peak = max(self._peak, self._bytes)

    def _returned(self, nbytes: int) -> None:
        with _lock:
            self._active -= 1
            self._bytes -= nbytes

    def _owner(self) -> Client:
        client = self._client()
        assert client is not None  # clients are kept for the life of the process
        return client


def _size(nbytes: object) -> int:
    try:
        size = -1 if isinstance(nbytes, bool) else operator.index(nbytes)  # type: ignore[arg-type]
    except TypeError:
        size = -1
    if size < 0:
        raise InvalidArgument(
            "allocate", "nbytes", got=repr(nbytes), wanted="an integer of 0 or more", arg="nbytes", reason="not a size"
        )
    return size
