"""Strided ranges of memory, as `numpy.lib.stride_tricks.as_strided` describes them."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import IndexOutOfBounds, InvalidArgument

__all__ = ["Layout"]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the elements of a strided array lie.

    Attributes
    ----------
    offset_bytes
        The first byte of the element with all indices 0.
    shape
        Sizes of the axes; ``()`` is one element.
    strides
        Elements from one index of an axis to the next; negative and 0 are allowed.
    item_bytes
        Size of an element.
    """

    offset_bytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    item_bytes: int

    @classmethod
    def checked(
        cls, operation: str, offset_bytes: int, shape: Sequence[int], strides: Sequence[int], item_bytes: int
    ) -> Layout:
        """Return the layout of a caller's numbers.

        Raises
        ------
        InvalidArgument
            They are not integers, a size is negative, the element size is below 1, or the lengths differ.
        """
        try:
            found = cls(
                operator.index(offset_bytes),
                tuple([operator.index(n) for n in shape]),
                tuple([operator.index(n) for n in strides]),
                operator.index(item_bytes),
            )
        except TypeError as error:
            raise InvalidArgument(
                operation, "shape", got=str(error), wanted="integers", arg="shape", reason="not integers"
            ) from error
        if len(found.shape) != len(found.strides):
            raise InvalidArgument(
                operation,
                "strides",
                got=found.strides,
                wanted=f"one for each axis of {found.shape}",
                arg="strides",
                reason="another number of axes",
            )
        if any(n < 0 for n in found.shape):
            raise InvalidArgument(
                operation, "shape", got=found.shape, wanted="sizes of 0 or more", arg="shape", reason="negative"
            )
        if found.item_bytes < 1:
            raise InvalidArgument(
                operation, "elem_size", got=found.item_bytes, wanted="1 or more", arg="elem_size", reason="no size"
            )
        return found

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements side by side."""
        return self.size * self.item_bytes

    @property
    def range_bytes(self) -> tuple[int, int]:
        """The first byte and the one behind the last that it touches; the offset twice where it has no elements."""
        low = high = self.offset_bytes
        if not self.size:
            return low, high
        for length, stride in zip(self.shape, self.strides, strict=True):
            reach = (length - 1) * stride * self.item_bytes
            low, high = low + min(reach, 0), high + max(reach, 0)
        return low, high + self.item_bytes

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements already lie side by side in C order."""
        expected = 1
        for length, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if length > 1 and stride != expected:
                return False
            expected *= length
        return True

    def check_range(self, operation: str, nbytes: int) -> None:
        """Raise IndexOutOfBounds unless every byte lies within the first `nbytes` of a buffer."""
        low, high = self.range_bytes
        if low < 0 or high > nbytes:
            raise IndexOutOfBounds(
                operation,
                "src",
                got=f"bytes {low} to {high} by offset {self.offset_bytes}, shape {self.shape}, strides {self.strides}",
                wanted=f"a range within the buffer's {nbytes} bytes",
                index=low if low < 0 else high,
                size=nbytes,
            )
