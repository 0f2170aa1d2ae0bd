"""``x.at[key].op(value)``: updates that return a new Array, as ``jax.Array.at``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import numpy as np

from ._compat import x64
from .core import indexing
from .core.dispatch import raise_translated
from .core.dtypes import WIDE, int32
from .core.gather import bring_near
from .core.handle import Handle, data_of
from .core.host import lift
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

    def _update(self, kind: str, value: Array | Scalar) -> Array:
        operation = f"x.at[key].{kind}"
        data = data_of(self._array)
        far = max(data.shape, default=0) >= 2**31
        key = tuple(_raw_index(part, far) for part in (self._key if type(self._key) is tuple else (self._key,)))
        operand = _raw_value(value, data.dtype, operation)
        try:
            # JAX drops what is out of range without a word; the read raises where that can be known.
            indexing.get(data, key)
            with x64(data.dtype in WIDE or operand.dtype in WIDE):
                result = getattr(data.at[key], kind)(operand)
        except Exception as error:
            raise_translated(operation, error)
        return type(self._array)._fresh(result)

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
        return self._update("add", value)

    def subtract(self, value: Array | Scalar) -> Array:
        """Return a copy of x with `value` subtracted at key; repeated indices add up."""
        return self._update("subtract", value)

    def multiply(self, value: Array | Scalar) -> Array:
        """Return a copy of x multiplied by `value` at key; repeated indices multiply up."""
        return self._update("multiply", value)

    def divide(self, value: Array | Scalar) -> Array:
        """Return a copy of x divided by `value` at key."""
        return self._update("divide", value)

    def power(self, value: Array | Scalar) -> Array:
        """Return a copy of x raised to `value` at key."""
        return self._update("power", value)

    def min(self, value: Array | Scalar) -> Array:
        """Return a copy of x with the minimum of itself and `value` at key."""
        return self._update("min", value)

    def max(self, value: Array | Scalar) -> Array:
        """Return a copy of x with the maximum of itself and `value` at key."""
        return self._update("max", value)

    def apply(self, function: Callable[[Array], Array]) -> Array:
        """Return a copy of x with `function` applied to the elements at key."""
        return self.set(function(self._array[self._key]))


def _raw_index(part: object, far: bool) -> object:
    """Return a part of a key as JAX takes it.

    Narrow integers are widened, in which JAX would count backwards; wide ones are narrowed, where it would wrap.
    """
    raw = data_of(part) if isinstance(part, Handle) else part
    if isinstance(raw, list):
        raw = np.asarray(raw)
    if isinstance(raw, jax.Array | np.ndarray) and raw.dtype.kind in "iu" and raw.dtype.itemsize < 4:
        raw = raw.astype(int32)
    elif isinstance(raw, jax.Array | np.ndarray) and raw.dtype.kind in "iu" and raw.dtype != int32 and not far:
        with x64():
            raw = jax.lax.convert_element_type(bring_near(raw, 2**31 - 1), int32)  # type: ignore[arg-type]
    return raw


def _raw_value(value: object, dtype: np.dtype, operation: str) -> jax.Array | np.ndarray:
    if isinstance(value, bool | int | float | complex):
        operand: jax.Array | np.ndarray = np.asarray(value, scalar_dtype(value, dtype))
    else:
        operand = lift(value, None, operation, "value")
    if not can_cast_same_kind(operand.dtype, dtype):
        raise DTypeMismatch(
            operation,
            "value",
            got=f"dtype {operand.dtype} for an array of {dtype}",
            wanted="a value of the same kind",
            remedy="Cast the array or the value with astype.",
        )
    return operand.astype(dtype)
