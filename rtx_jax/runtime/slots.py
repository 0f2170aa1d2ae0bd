"""Slots: buffers as operands of a compiled program, and the views that a captured function has of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import jax
import numpy as np

from .buffer import Buffer
from .units import elements, put_elements
from .view import BufferView

__all__ = ["Slot", "slots_of"]


@dataclass(slots=True, eq=False)
class Slot:
    """A buffer as one operand.

    Attributes
    ----------
    buffer
        The buffer.
    dtype, shape
        What the program takes all of its bytes for: a vector of the dtype that the buffer is laid out for.
    views
        The views that the function has of it, with the number of the operand of the function that each one is.
    """

    buffer: Buffer
    dtype: np.dtype
    shape: tuple[int, ...]
    views: list[tuple[int, BufferView]] = field(default_factory=list)

    def read(self) -> jax.Array:
        """Return the buffer's storage; under the client's lock."""
        storage: jax.Array = self.buffer._check("launch")  # type: ignore[assignment]
        return storage

    def take(self, storage: jax.Array, view: BufferView) -> jax.Array:
        """Return the elements of a view."""
        return elements(storage, view.dtype, view.offset, view.nbytes).reshape(view.shape)

    def put(self, storage: jax.Array, view: BufferView, value: jax.Array) -> jax.Array:
        """Return the storage with other elements in the place of a view."""
        return put_elements(storage, value.reshape(-1), view.offset)


def slots_of(views: Sequence[tuple[int, BufferView]]) -> list[Slot]:
    """Return one slot for each buffer."""
    groups: dict[int, list[tuple[int, BufferView]]] = {}
    for number, view in views:
        groups.setdefault(id(view.buffer), []).append((number, view))
    found = []
    for group in groups.values():
        buffer = group[0][1].buffer
        dtype = buffer._unit(group[0][1].dtype)
        found.append(Slot(buffer, dtype, (buffer.nbytes // dtype.itemsize,), group))
    return found
