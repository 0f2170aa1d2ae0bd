"""`Output`: what a captured function writes its results to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

import numpy as np

from ..errors import InvalidArgument, ShapeMismatch

__all__ = ["Output", "Value", "check_written"]


class Value(Protocol):
    """A value inside of a captured function: an Array, or on the NumPy runtime a `HostValue`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""

    @property
    def dtype(self) -> np.dtype:
        """Type of the elements."""


V = TypeVar("V", bound=Value)


class Output(ABC, Generic[V]):
    """A destination inside of a captured function.

    ``out.write(v)`` and ``out[...] = v`` set all of it, ``out[key] = v`` a part; the rest keeps what it had before the
    launch. It must be written at least once.

    Attributes
    ----------
    value
        What it holds at this point of the function: before any write, what the last launch left.
    position
        Its place among the outputs.
    is_written
        Whether the function has written to it.

    Notes
    -----
    A captured function receives these after its inputs. They are of no use outside of it.
    """

    __slots__ = ("is_written", "position", "value")

    def __init__(self, value: V, position: int) -> None:
        self.value, self.position, self.is_written = value, position, False

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self.value.shape

    @property
    def dtype(self) -> np.dtype:
        """Type of the elements."""
        return self.value.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.value.shape)

    def write(self, value: object, /) -> None:
        """Set all of it.

        Parameters
        ----------
        value
            A value of the function, or an array from outside, of this shape and dtype. A number sets a 0-d output.

        Raises
        ------
        ShapeMismatch
            It has another shape or dtype: nothing is broadcast or cast.
        """
        self._store(value)
        self.is_written = True

    def __getitem__(self, key: object, /) -> object:
        return self.value[key]  # type: ignore[index]

    def __setitem__(self, key: object, value: object, /) -> None:
        if key is Ellipsis and not isinstance(value, bool | int | float | complex):
            self.write(value)
            return
        self.value[key] = value  # type: ignore[index]
        self.is_written = True

    def __repr__(self) -> str:
        return f"<Output {self.position}: {self.dtype.name}{list(self.shape)}>"

    @abstractmethod
    def _store(self, value: object) -> None:
        """Make `value` what the output holds, after `_check`."""

    def _check(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        if shape == self.shape and dtype == self.dtype:
            return
        raise ShapeMismatch(
            "capture",
            f"outputs[{self.position}]",
            got=f"{dtype.name}{list(shape)}",
            wanted=f"{self.dtype.name}{list(self.shape)}",
            remedy="Convert with astype, reshape or broadcast_to first.",
            expected=self.shape,
            got_shape=shape,
        )


def check_written(outputs: list[Output[V]]) -> None:
    """Raise InvalidArgument when the function has left an output alone."""
    for output in outputs:
        if not output.is_written:
            label = f"outputs[{output.position}]"
            raise InvalidArgument(
                "capture",
                label,
                got="an output that the function never writes",
                wanted="out.write(value) or out[...] = value for each of them",
                arg=label,
                reason="never written",
            )
