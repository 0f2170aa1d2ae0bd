"""Copies to the host that run while other work goes on."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING

import numpy as np

from ..errors import IndexOutOfBounds
from .host import HostMemory, writable
from .recording import check_eager

if TYPE_CHECKING:
    from .buffer import Buffer
    from .client import Client, Storage
    from .events import Event

__all__ = ["PendingCopy", "Read"]


class Read:
    """A copy to the host that reads a storage where it is, or, once that is to change, a copy of the storage.

    Attributes
    ----------
    future
        Its result; set by whoever starts it.
    nbytes
        How many bytes it brings.
    """

    __slots__ = ("_client", "_event", "_has_begun", "_lock", "_out", "_source", "future", "nbytes")

    future: Future[np.ndarray]

    def __init__(
        self, client: Client, source: Storage, event: Event | None, out: np.ndarray | None, nbytes: int
    ) -> None:
        self._client, self._source, self._event, self._out, self.nbytes = client, source, event, out, nbytes
        self._has_begun = False
        self._lock = threading.Lock()

    def run(self) -> np.ndarray:
        """Wait for what must be waited for, and copy; in a thread of the client's."""
        if self._event is not None:
            self._event.wait()
        while not self._has_begun:
            source = self._source
            self._client._wait(source)
            with self._lock:
                self._has_begun = source is self._source
        found = np.empty(self.nbytes, np.uint8) if self._out is None else self._out
        if self.nbytes:
            self._client._load(source, 0, found)
        del self._source
        if self._out is None:
            found.flags.writeable = False
        return found

    def give_way(self) -> None:
        """Leave the storage: go on with a copy of it, or end, if the reading has begun; under the client's lock."""
        with self._lock:
            if not self._has_begun and not self.future.done():
                self._source = self._client._clone(self._source)
                return
        wait([self.future])


class PendingCopy:
    """A copy of a buffer that is on its way to the host. `Runtime.copy_from_device_async` makes one.

    Attributes
    ----------
    nbytes
        How many bytes it brings.
    """

    __slots__ = ("_future", "nbytes")

    def __init__(self, future: Future[np.ndarray], nbytes: int) -> None:
        self._future, self.nbytes = future, nbytes

    @classmethod
    def begin(cls, src: Buffer, event: Event | None, out: np.ndarray | None) -> PendingCopy:
        """Begin a copy of all of a buffer, or of as much as `out` takes."""
        client = src.client
        with client.lock:
            check_eager("copy_from_device_async")
            storage = src._check("copy_from_device_async")
            read = Read(client, storage, event, out, src.nbytes if out is None else out.size)
            read.future = client._submit(read.run)
            src._reads = [*[other for other in src._reads if not other.future.done()], read]
        return cls(read.future, read.nbytes)

    def __repr__(self) -> str:
        return f"PendingCopy({self.nbytes} bytes, {'done' if self.done else 'on its way'})"

    @property
    def done(self) -> bool:
        """Whether the bytes are on the host; asking does not wait."""
        return self._future.done()

    def result(self) -> np.ndarray:
        """Wait, and return the bytes as ``uint8``: a read-only array, or a view of the memory given as `into`."""
        return self._future.result()

    def read_into(self, dst: HostMemory, /) -> None:
        """Wait, and copy the bytes into writable memory.

        Raises
        ------
        IndexOutOfBounds
            `dst` is longer than the copy.
        InvalidArgument, NotContiguous
            `dst` has no such memory.
        """
        out = writable(dst, "read_into", "dst")
        if out.size > self.nbytes:
            raise IndexOutOfBounds(
                "read_into",
                "dst",
                got=f"{out.size} bytes",
                wanted=f"at most {self.nbytes}, the size of the copy",
                index=out.size,
                size=self.nbytes,
            )
        out[...] = self.result()[: out.size]
