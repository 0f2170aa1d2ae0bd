"""Memory of the host that the caller brings: bytes to read from, bytes to write into."""

from __future__ import annotations

import os
from typing import TypeAlias

import numpy as np

from ..errors import InvalidArgument, NotContiguous, OutOfMemory

__all__ = ["ALIGNMENT", "HostMemory", "aligned_zeros", "as_numpy", "check_room", "readable", "writable"]

HostMemory: TypeAlias = "bytes | bytearray | memoryview | np.ndarray"
"""What copies read and write on the host: any object with contiguous memory."""

ALIGNMENT = 64
"""Bytes to which buffers on the host are aligned, as XLA aligns its own."""


def readable(data: object, operation: str, argument: str) -> np.ndarray:
    """Return the memory of `data` as ``uint8`` bytes, not copied.

    Raises
    ------
    InvalidArgument
        It has no memory to read.
    NotContiguous
        Its elements do not lie side by side.
    """
    if isinstance(data, np.ndarray | np.generic):
        array = np.asarray(data)  # dtypes of ml_dtypes do not take part in the buffer protocol
        if array.dtype.hasobject:
            raise _no_memory(data, operation, argument)
        if not array.flags.c_contiguous:
            raise _scattered(operation, argument)
        return array.reshape(-1).view(np.uint8)
    try:
        view = memoryview(data)  # type: ignore[arg-type]
    except (TypeError, BufferError) as error:
        raise _no_memory(data, operation, argument) from error
    if not view.c_contiguous:
        raise _scattered(operation, argument)
    return np.frombuffer(view, np.uint8) if view.nbytes else np.empty(0, np.uint8)


def writable(data: object, operation: str, argument: str) -> np.ndarray:
    """Return the memory of `data` as ``uint8`` bytes that may be written.

    Raises
    ------
    InvalidArgument
        It has no memory, or memory that must not be written.
    NotContiguous
        Its elements do not lie side by side.
    """
    view = readable(data, operation, argument)
    if view.size and not view.flags.writeable:
        raise InvalidArgument(
            operation,
            argument,
            got=f"{type(data).__name__} that is read-only",
            wanted="a bytearray or a writable NumPy array",
            arg=argument,
            reason="read-only",
        )
    return view


def as_numpy(values: np.ndarray, dtype: np.dtype | None, copy: bool | None) -> np.ndarray:
    """Return what ``__array__`` gives for values that were copied from a device.

    Raises
    ------
    InvalidArgument
        For ``copy=False``.
    """
    if copy is False:
        raise InvalidArgument(
            "np.asarray",
            "copy",
            got="False for memory of a device",
            wanted="None or True",
            remedy="Its values are always copied.",
            arg="copy",
            reason="always copied",
        )
    return values if dtype is None else values.astype(dtype, copy=False)


def aligned_zeros(nbytes: int, remainder: int = 0) -> np.ndarray:
    """Return ``uint8`` zeros whose address leaves `remainder` when divided by `ALIGNMENT`."""
    block = np.zeros(nbytes + 2 * ALIGNMENT, np.uint8)
    start = (remainder - block.ctypes.data) % ALIGNMENT
    return block[start : start + nbytes]


def check_room(nbytes: int, where: str) -> None:
    """Raise OutOfMemory when the host has less memory than `nbytes` at all.

    A system that promises more memory than it has ends the process when the memory is touched.
    """
    try:
        room = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not every system tells
        room = 2**62
    if nbytes > room > 0:
        raise out_of_memory(nbytes, where, f"at most {room} bytes, the memory of the host")


def out_of_memory(nbytes: int, where: str, wanted: str = "") -> OutOfMemory:
    """Return the error for an allocation that does not fit."""
    return OutOfMemory(
        "allocate",
        "nbytes",
        got=f"{nbytes} bytes on {where}",
        wanted=wanted,
        remedy="Free buffers and Arrays, or use smaller pieces.",
        size=nbytes,
    )


def _no_memory(data: object, operation: str, argument: str) -> InvalidArgument:
    return InvalidArgument(
        operation,
        argument,
        got=f"an object of type {type(data).__name__}",
        wanted="bytes, a bytearray, a memoryview or a NumPy array of numbers",
        arg=argument,
        reason="no memory of bytes",
    )


def _scattered(operation: str, argument: str) -> NotContiguous:
    return NotContiguous(
        operation,
        argument,
        got="memory whose elements do not lie side by side",
        wanted="contiguous memory in C order",
        remedy="Use numpy.ascontiguousarray.",
    )
