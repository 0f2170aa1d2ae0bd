"""Typed views of buffers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import jax
import numpy as np
from jax.core import Tracer

from ..core.dtypes import KIND, NARROW_INT
from ..core.handle import Handle, data_of
from ..core.promotion import can_cast_same_kind
from ..errors import ConcretizationError, DTypeMismatch, InvalidArgument, ShapeMismatch, UnsupportedDType
from .host import as_numpy, readable
from .recording import check_eager

if TYPE_CHECKING:
    from .._array import Array
    from .buffer import Buffer

__all__ = ["BufferView", "as_dtype"]


class BufferView:
    """A range of a buffer as an array of a dtype and a shape. It keeps the buffer, not its memory.

    Attributes
    ----------
    buffer
        The buffer.
    dtype, shape
        What the bytes are taken for; C order.
    offset
        The first byte in the buffer.
    """

    __slots__ = ("buffer", "dtype", "offset", "shape")

    def __init__(self, buffer: Buffer, dtype: np.dtype, shape: tuple[int, ...], offset: int) -> None:
        self.buffer, self.dtype, self.shape, self.offset = buffer, dtype, shape, offset

    def __repr__(self) -> str:
        return f"BufferView({self.dtype}{list(self.shape)} at byte {self.offset} of {self.buffer!r})"

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Number of bytes."""
        return self.size * self.dtype.itemsize

    @property
    def ptr(self) -> int:
        """Address of the first element on the device; see `Buffer.ptr`."""
        return self.buffer.ptr + self.offset

    @property
    def is_whole(self) -> bool:
        """Whether it covers all bytes of the buffer."""
        return self.nbytes == self.buffer.nbytes

    def read(self) -> np.ndarray:
        """Return the elements as an array of its own, after waiting for the work that makes them.

        Raises
        ------
        UseAfterFree
            The buffer was freed.
        """
        return self.buffer.read(self.nbytes, offset=self.offset).view(self.dtype).reshape(self.shape)

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        return as_numpy(self.read(), dtype, copy)

    def to_array(self) -> Array:
        """Return the elements as an `Array` of its own, without going through the host where the buffer is not there.

        That of `NumpyRuntime` lies on the default device.

        Raises
        ------
        UseAfterFree
            The buffer was freed.
        ConcretizationError
            A function is being traced or captured.
        """
        from .._array import wrap

        check_eager("to_array")
        client = self.buffer.client
        with client.lock:
            return wrap(client._array(self.buffer._check("to_array"), self.dtype, self.shape, self.offset))

    def write(self, value: object, /) -> None:
        """Write an array of the view's shape and dtype, or a number or nested list that converts to it.

        Parameters
        ----------
        value
            A NumPy array, an `Array` or ``jax.Array`` of this dtype and shape, a nested list of numbers, or a number
            for all elements.

        Raises
        ------
        ShapeMismatch, DTypeMismatch
            It is an array of another kind.
        DeviceMismatch
            It is an `Array` on another device.
        InvalidArgument
            It does not convert to the dtype.
        ConcretizationError
            A function is being traced or captured, in which writes would happen once.
        UseAfterFree
            The buffer was freed.
        """
        if isinstance(value, Handle):
            value = data_of(value)
        if isinstance(value, Tracer):
            raise ConcretizationError(
                "write",
                "value",
                got="a value of a function that is being traced",
                remedy="Return it, or capture the function with the buffer among the outputs.",
            )
        if isinstance(value, jax.Array):
            self._check_kind(value.shape, value.dtype)
            buffer, array = self.buffer, value
            with buffer.client.lock:
                buffer._check("write")
                if self.size:
                    buffer._change("write", lambda cell: buffer.client._put(cell, self.offset, array))
            return
        self.buffer._store("write", self.offset, readable(self._as_host(value), "write", "value"))

    def _as_host(self, value: object) -> np.ndarray:
        if isinstance(value, np.ndarray | np.generic):
            array = np.asarray(value)
            self._check_kind(array.shape, array.dtype)
            return np.ascontiguousarray(array)
        try:
            array = np.asarray(value)
            if array.dtype not in KIND or not can_cast_same_kind(array.dtype, self.dtype):
                raise TypeError(f"{array.dtype} does not convert to {self.dtype}")
            array = np.asarray(value, self.dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidArgument(
                "write",
                "value",
                got=f"{type(value).__name__}: {error}",
                wanted=f"{self.dtype} of shape {self.shape}",
                arg="value",
                reason="no array of the dtype",
            ) from error
        if array.ndim:
            self._check_kind(array.shape, array.dtype)
        return np.ascontiguousarray(np.broadcast_to(array, self.shape))

    def _check_kind(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        if dtype != self.dtype:
            raise DTypeMismatch(
                "write", "value", got=str(dtype), wanted=str(self.dtype), remedy="Convert it with astype."
            )
        if shape != self.shape:
            raise ShapeMismatch("write", "value", got=shape, wanted=self.shape, expected=self.shape, got_shape=shape)


def as_dtype(dtype: object, operation: str) -> np.dtype:
    """Return the dtype of a name, a ``np.dtype``, a scalar type or a `DType`, of whole bytes."""
    named = getattr(dtype, "np", dtype)
    try:
        found: np.dtype = np.dtype(named)  # type: ignore[call-overload]
    except TypeError:
        found = np.dtype(object)
    if found not in KIND or found in NARROW_INT:  # a device packs what has less than 8 bits
        raise UnsupportedDType(
            operation, "dtype", got=repr(dtype), wanted="a dtype of numbers or booleans", dtype=dtype, op=operation
        )
    return found
