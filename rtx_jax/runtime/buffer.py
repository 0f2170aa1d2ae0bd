"""Buffers: owned bytes on a device, with a pointer that stays, and typed views of them."""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

import numpy as np

from ..core.op import raise_translated
from ..errors import (
    IndexOutOfBounds,
    InvalidArgument,
    NotImplementedOp,
    ShapeMismatch,
    UseAfterFree,
)
from .host import HostMemory, as_numpy, readable
from .recording import check_eager, is_recording
from .units import unit_of
from .view import BufferView, as_dtype

if TYPE_CHECKING:
    from .allocator import Allocator
    from .client import Client, Storage
    from .copies import Read

__all__ = ["Buffer"]


class Buffer:
    """A number of bytes on a device, until it is freed.

    Writes, copies and the launches of captured graphs change the bytes in place: `ptr` stays. All methods may be called
    from several threads. Leaving a ``with`` block, and the end of the last reference, free the buffer too.

    A `Runtime` or an `Allocator` makes buffers.

    Attributes
    ----------
    allocator
        What gave and counts it.
    client
        The client of the device.
    nbytes
        The size.

    Examples
    --------
    >>> from rtx_jax.runtime import NumpyRuntime
    >>> with NumpyRuntime().allocate(8) as buffer:
    ...     buffer.view("float32", (2,)).write([1.5, 2])
    ...     buffer.read()
    array([  0,   0, 192,  63,   0,   0,   0,  64], dtype=uint8)
    """

    __slots__ = ("__weakref__", "_is_settled", "_reads", "_returned", "_storage", "allocator", "client", "nbytes")

    def __init__(self, allocator: Allocator, client: Client, nbytes: int, storage: Storage) -> None:
        self.allocator, self.client, self.nbytes = allocator, client, nbytes
        self._storage: Storage | None = storage
        self._is_settled = not client._has_types
        self._reads: list[Read] = []
        allocator._given(nbytes)
        self._returned = weakref.finalize(self, allocator._returned, nbytes)
        self._returned.atexit = False

    def __repr__(self) -> str:
        if self._storage is None:
            return f"Buffer({self.nbytes} bytes on {self.client.device}, freed)"
        return f"Buffer({self.nbytes} bytes on {self.client.device})"

    def __reduce__(self) -> NoReturn:
        raise NotImplementedOp(
            "copy",
            "buffer",
            got="a buffer, which is one piece of memory",
            remedy="Allocate another one and use copy_within_device, or pickle buffer.read().",
            feature="copies of buffers",
        )

    def __enter__(self) -> Self:
        self._check("with")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.free()

    @property
    def is_alive(self) -> bool:
        """Whether it is not freed."""
        return self._storage is not None

    @property
    def ptr(self) -> int:
        """Address of the first byte on the device; 0 for a buffer of 0 bytes.

        It stays until the buffer is freed. Captured graphs are fastest on buffers whose first view, taken before the
        pointer, is of the dtype that they compute in: the device lays the buffer out for it.

        Raises
        ------
        UseAfterFree
            The buffer was freed.
        """
        with self.client.lock:
            storage = self._check("ptr")
            self._is_settled = True
            return self.client._pointer(storage) if self.nbytes else 0

    def free(self) -> None:
        """Give the memory back. A second call does nothing; every other use raises `UseAfterFree`."""
        with self.client.lock:
            storage = self._storage
            if storage is None:
                return
            self._settle()
            self._storage = None
            self._returned()
            self.client._release(storage)

    def read(self, nbytes: int | None = None, /, *, offset: int = 0) -> np.ndarray:
        """Return bytes as a ``uint8`` array of its own, after waiting for the work that makes them.

        Parameters
        ----------
        nbytes
            How many; all that follow `offset` when None.
        offset
            The first byte.

        Raises
        ------
        IndexOutOfBounds
            The range does not lie in the buffer.
        UseAfterFree
            The buffer was freed.
        """
        size = max(self.nbytes - offset, 0) if nbytes is None else nbytes
        out = np.empty(self._range("read", offset, size), np.uint8)
        self._load("read", offset, out)
        return out

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        return as_numpy(self.read(), dtype, copy)

    def write(self, data: HostMemory, /, *, offset: int = 0) -> None:
        """Copy host memory into the buffer; the memory may be changed as soon as this returns.

        Parameters
        ----------
        data
            Any contiguous memory: bytes, bytearray, memoryview, NumPy array of any dtype.
        offset
            The first byte that is written.

        Raises
        ------
        IndexOutOfBounds
            The data does not fit behind `offset`.
        InvalidArgument, NotContiguous
            `data` has no such memory.
        UseAfterFree
            The buffer was freed.
        """
        self._store("write", offset, readable(data, "write", "data"))

    def view(self, dtype: object, shape: int | Sequence[int] | None = None, /, *, offset: int = 0) -> BufferView:
        """Return a typed view of the bytes, which keeps the buffer.

        Parameters
        ----------
        dtype
            A dtype of whole bytes: its name, ``np.dtype``, one of `rtx_jax` or a `DType`.
        shape
            Shape in C order; as many elements as fit behind `offset` when None.
        offset
            The first byte; a multiple of the item size.

        Raises
        ------
        ShapeMismatch
            The view needs more bytes than the buffer has behind `offset`.
        UnsupportedDType
            There is no such dtype, or its elements are not whole bytes.
        InvalidArgument
            The offset or the shape is none.
        UseAfterFree
            The buffer was freed.
        """
        self._check("view")
        kind = as_dtype(dtype, "view")
        if not 0 <= offset <= self.nbytes or offset % kind.itemsize:
            raise InvalidArgument(
                "view",
                "offset",
                got=offset,
                wanted=f"a multiple of {kind.itemsize} from 0 to {self.nbytes}",
                arg="offset",
                reason="not aligned or out of range",
            )
        if shape is None:
            shape = ((self.nbytes - offset) // kind.itemsize,)
        sizes = _shape(shape)
        needed = math.prod(sizes) * kind.itemsize
        if needed > self.nbytes - offset:
            raise ShapeMismatch(
                "view",
                "shape",
                got=f"{sizes} of {kind}, {needed} bytes",
                wanted=f"at most {self.nbytes - offset} bytes",
                expected=(self.nbytes - offset,),
                got_shape=sizes,
            )
        self._unit(kind)
        return BufferView(self, kind, sizes, offset)

    # -- for the runtime

    def _check(self, operation: str) -> Storage:
        """Return the storage; raises UseAfterFree."""
        storage = self._storage
        if storage is None:
            raise UseAfterFree(operation, "buffer", got="a buffer that was freed", remedy="Allocate another one.")
        return storage

    def _replace(self, storage: Storage) -> None:
        """Take the storage that follows the present one, which was donated; under the lock."""
        old, self._storage = self._storage, storage
        if old is not storage and old is not None:
            self.client._replaced(old, storage)

    def _settle(self) -> None:
        """Let the copies end that read the storage, or read elsewhere; under the lock, before it changes in place."""
        while self._reads:
            self._reads.pop().give_way()

    def _unit(self, dtype: np.dtype) -> np.dtype:
        """Return the dtype of the elements that the storage has, a vector.

        They serve the first view, so that compiled programs need not take them apart; later views must. But a pointer
        that somebody has seen stays, and with it the bytes that the storage had then.
        """
        with self.client.lock:
            storage = self._check("view")
            if not self._is_settled and self.nbytes and self.nbytes % dtype.itemsize == 0 and not is_recording():
                self._is_settled = True
                unit = unit_of(dtype)
                if storage.dtype != unit:
                    storage = self._storage = self.client._typed(storage, unit)
            return storage.dtype

    def _range(self, operation: str, offset: int, nbytes: int, argument: str = "offset") -> int:
        """Return `nbytes`; raises IndexOutOfBounds unless they lie in the buffer from `offset` on."""
        self._check(operation)
        first, size = _integer(operation, argument, offset), _integer(operation, "nbytes", nbytes)
        if first < 0 or size < 0 or first + size > self.nbytes:
            raise IndexOutOfBounds(
                operation,
                argument,
                got=f"bytes {first} to {first + size}",
                wanted=f"a range within the buffer's {self.nbytes} bytes",
                index=first if first < 0 else first + size,
                size=self.nbytes,
            )
        return size

    def _load(self, operation: str, offset: int, out: np.ndarray) -> None:
        check_eager(operation)
        client = self.client
        while True:
            storage = self._check(operation)
            client._wait(storage)  # not under the lock, so that others go on
            with client.lock:
                if storage is self._storage:
                    if out.size:
                        client._load(storage, offset, out)
                    return

    def _store(self, operation: str, offset: int, data: np.ndarray) -> None:
        self._range(operation, offset, data.size)
        with self.client.lock:
            self._check(operation)
            if data.size:
                self._change(operation, lambda cell: self.client._store(cell, offset, data))

    def _change(self, operation: str, work: Callable[[list[Storage]], None]) -> None:
        """Let `work` change the storage, which it gets in a list and appends what replaces it; under the lock."""
        check_eager(operation)
        self._settle()
        cell = [self._check(operation)]
        try:
            work(cell)
        except Exception as error:
            raise_translated(operation, error)
        finally:
            # No call may come before the store: it could be interrupted, and what was donated would stay.
            old, self._storage = self._storage, cell[-1]
            if old is not None and old is not cell[-1]:
                self.client._replaced(old, cell[-1])


def _shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    found = tuple([_integer("view", "shape", n) for n in sizes])
    if any(n < 0 for n in found):
        raise InvalidArgument("view", "shape", got=found, wanted="sizes of 0 or more", arg="shape", reason="negative")
    return found


def _integer(operation: str, argument: str, value: object) -> int:
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError as error:
        raise InvalidArgument(
            operation, argument, got=repr(value), wanted="an integer", arg=argument, reason="not an integer"
        ) from error
