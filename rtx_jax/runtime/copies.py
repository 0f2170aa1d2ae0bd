"""Copies to the host that run while other work goes on."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

import numpy as np

from ..errors import IndexOutOfBounds
from .host import HostMemory, writable

if TYPE_CHECKING:
    from .buffer import Buffer
    from .events import Event

__all__ = ["PendingCopy"]


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
            storage = src._check("copy_from_device_async")
            nbytes = src.nbytes if out is None else out.size
            future, reads = client._begin_read(storage, event, out, nbytes)
            if reads:
                src._reads = [*[read for read in src._reads if not read.done()], future]
        return cls(future, nbytes)

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
