"""`TensorHandle`: a tensor that can be given up, so that the next operation may use its memory."""

from __future__ import annotations

import itertools
import threading

import numpy as np
from jax import Array
from jax.core import Tracer

from ..errors import InvalidArgument, UseAfterMove

__all__ = ["TensorHandle"]

_ids = itertools.count(1)


def _deleted(data: Array) -> bool:
    return not isinstance(data, Tracer) and data.is_deleted()


class _Shared:
    """How many handles share one buffer."""

    __slots__ = ("count", "lock")

    def __init__(self) -> None:
        self.count = 1
        self.lock = threading.Lock()


class TensorHandle:
    """A handle on the tensor of a JAX backend, taken wherever a tensor is.

    Parameters
    ----------
    data
        A `jax.Array` or `rtx_jax.Array`. A handle owns what it is given: nothing else should use that afterwards, if
        the handle is to be given up.

    Examples
    --------
    >>> from rtx_jax.backend import CpuBackend, TensorHandle
    >>> B = CpuBackend()
    >>> x = TensorHandle(B.ones((2,)))
    >>> B.add(x.take(), B.ones((2,)))
    Array([2., 2.], dtype=float32)
    >>> x.is_alive
    False
    """

    __slots__ = ("_data", "_given", "_shared", "id")

    id: int
    """A number that no other handle of this process has."""

    def __init__(self, data: Array, /) -> None:
        inner = data if isinstance(data, Array) else getattr(data, "jax", None)
        if not isinstance(inner, Array):
            raise InvalidArgument(
                "TensorHandle",
                "data",
                got=type(data).__name__,
                wanted="a jax.Array or an rtx_jax.Array",
                arg="data",
                reason="not a tensor",
            )
        self._data: Array | None = inner
        self._shared = _Shared()
        self._given = False
        self.id = next(_ids)

    @property
    def is_alive(self) -> bool:
        """Whether the handle still has its tensor."""
        return self._data is not None and not _deleted(self._data)

    @property
    def jax(self) -> Array:
        """The tensor.

        Raises
        ------
        UseAfterMove
            The handle was given up.
        """
        data = self._data
        if data is None or _deleted(data):
            raise self._moved("jax")
        return data

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self.jax.shape

    @property
    def dtype(self) -> np.dtype:
        """Type of the elements."""
        return self.jax.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.jax.ndim

    def take(self) -> TensorHandle:
        """Give the handle up: return one for the next operation, which may put its result into the same memory.

        Where a clone shares the memory, the operation leaves it alone.

        Raises
        ------
        UseAfterMove
            The handle was given up before.
        """
        data = self.jax
        moved = object.__new__(TensorHandle)
        moved._data, moved._shared, moved._given, moved.id = data, self._shared, True, next(_ids)
        self._data = None
        return moved

    def clone(self) -> TensorHandle:
        """Return another handle on the same memory; neither is changed by what is done with the other.

        Raises
        ------
        UseAfterMove
            The handle was given up.
        """
        twin = object.__new__(TensorHandle)
        twin._data, twin._shared, twin._given, twin.id = self.jax, self._shared, False, next(_ids)
        with self._shared.lock:
            self._shared.count += 1
        return twin

    def _consume(self) -> tuple[Array, bool]:
        """Return the tensor for an operation, and whether its memory is free to be used."""
        data = self.jax
        if not self._given:
            return data, False
        self._data = None
        with self._shared.lock:
            alone = self._shared.count == 1
            self._shared.count -= 1
        return data, alone

    def _moved(self, operation: str) -> UseAfterMove:
        return UseAfterMove(
            operation,
            "x",
            got=f"the handle {self.id}, which was given up with take()",
            wanted="a handle that is alive",
            remedy="Use the result of the operation that took it, or give a clone() to that.",
        )

    def __repr__(self) -> str:
        if not self.is_alive:
            return f"<TensorHandle {self.id}, given up>"
        return f"<TensorHandle {self.id}: {self.dtype.name}{list(self.shape)}>"
