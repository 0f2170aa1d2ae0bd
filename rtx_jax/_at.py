"""``x.at[key].op(value)``: updates that return a new Array, as ``jax.Array.at``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import jax

from ._compat import x64
from .core.dtypes import WIDE
from .core.handle import Handle, data_of
from .core.promotion import can_cast_same_kind, scalar_dtype
from .errors import DTypeMismatch

if TYPE_CHECKING:
    from ._array import Array, Key, Scalar

__all__ = ["At", "AtKey"]


class At:
    """``x.at``: index it with a key, then call an update that returns a new Array."""

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array = array

    def __getitem__(self, key: Key) -> AtKey:
        return AtKey(self._array, key)


class AtKey:
    """An update of one key of an Array that returns a new Array and leaves the old one as it is."""

    __slots__ = ("_array", "_key")

    def __init__(self, array: Array, key: Key) -> None:
        self._array, self._key = array, key

    def get(self) -> Array:
        """Return ``x[key]``."""
        return self._array[self._key]

    def set(self, value: Array | Scalar) -> Array:
        """Return a copy of x with ``x[key] = value``; of repeated indices the last write wins."""
        new = self._array.copy()
        new[self._key] = value
        return new

    def add(self, value: Array | Scalar) -> Array:
        """Return a copy of x with `value` added at key; repeated indices add up."""
        return _at_update(self._array, self._key, "add", value)

    def subtract(self, value: Array | Scalar) -> Array:
        """Return a copy of x with `value` subtracted at key; repeated indices add up."""
        return _at_update(self._array, self._key, "subtract", value)

    def multiply(self, value: Array | Scalar) -> Array:
        """Return a copy of x multiplied by `value` at key; repeated indices multiply up."""
        return _at_update(self._array, self._key, "multiply", value)

    def divide(self, value: Array | Scalar) -> Array:
        """Return a copy of x divided by `value` at key."""
        return _at_update(self._array, self._key, "divide", value)

    def power(self, value: Array | Scalar) -> Array:
        """Return a copy of x raised to `value` at key."""
        return _at_update(self._array, self._key, "power", value)

    def min(self, value: Array | Scalar) -> Array:
        """Return a copy of x with the minimum of itself and `value` at key."""
        return _at_update(self._array, self._key, "min", value)

    def max(self, value: Array | Scalar) -> Array:
        """Return a copy of x with the maximum of itself and `value` at key."""
        return _at_update(self._array, self._key, "max", value)

    def apply(self, function: Callable[[Array], Array]) -> Array:
        """Return a copy of x with `function` applied to the elements at key."""
        return self.set(function(self._array[self._key]))
