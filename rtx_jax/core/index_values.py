"""Values to write: Python scalars in the array's dtype, host memory as private copies."""

from __future__ import annotations

import math

import jax
import numpy as np

from .._compat import ArrayImpl
from ..errors import DTypeMismatch, ScalarOverflow, UnsupportedDType
from . import dtypes as _d
from . import index_table as _t
from .host import SCALARS

__all__ = ["cast_scalar", "clear_values", "scalar_value", "value_operand"]

_SET = "x[key] = value"
_KINDS = {bool: 0, int: 1, float: 2, complex: 3}
_fits: dict[tuple[type, _d.DType], bool] = {}


# Scalars that were written before: an array of the default device costs less in a call than one of the host.
_values: dict[tuple[object, ...], jax.Array | None] = {}
_MAX_VALUES = 1024
_place = jax.jit(lambda x: x)


def scalar_value(value: complex, dtype: _d.DType) -> jax.Array | np.ndarray:
    """Return a Python scalar as a 0-d operand beside an array of the default device; see `cast_scalar`."""
    kind = value.__class__
    if value or kind is int or kind is bool:
        key: tuple[object, ...] = (kind, value, dtype)
    elif kind is float:
        key = (math.copysign(1.0, value), "zero", dtype)  # type: ignore[arg-type]
    else:
        return cast_scalar(value, dtype)
    found = _values.get(key)
    if found is not None:
        return found
    host = cast_scalar(value, dtype)
    if key not in _values:
        if value == value:  # a NaN would never be found again
            _t.make_room(_values, _MAX_VALUES)
            _values[key] = None
        return host
    array = _t.call(_place, dtype in _d.WIDE, host)
    if type(array) is ArrayImpl:
        _values[key] = array
    return array


def clear_values() -> None:
    """Forget the scalars."""
    _values.clear()


def cast_scalar(value: complex, dtype: _d.DType) -> np.ndarray:
    """Return a Python scalar as a 0-d NumPy array of `dtype`.

    Raises
    ------
    DTypeMismatch
        The scalar is of a kind that the array does not hold: 1.5 in an integer array, 2 in a bool array.
    ScalarOverflow
        An integer is out of the range of the dtype.
    """
    kind = type(value)
    fits = _fits.get((kind, dtype))
    if fits is None:
        fits = _fits[kind, dtype] = _kind_fits(kind, dtype)
    if not fits:
        raise DTypeMismatch(
            _SET, "value", got=f"{value!r} for an array of dtype {dtype}", wanted="a value of the array's kind"
        )
    try:
        if kind is float and dtype.itemsize < 8 and not -6e4 < value < 6e4:  # type: ignore[operator]
            with np.errstate(over="ignore"):
                return np.asarray(value, dtype)
        return np.asarray(value, dtype)
    except OverflowError as error:
        raise ScalarOverflow(
            _SET,
            "value",
            got=f"the integer {value} for an array of dtype {dtype}",
            wanted="a value in the range of the dtype",
            dtype=dtype,
            arg="value",
            reason="out of range",
        ) from error


def _kind_fits(kind: type, dtype: _d.DType) -> bool:
    rank = 3 if dtype in _d.COMPLEX else 2 if dtype in _d.REAL_FLOATING else 1 if dtype in _d.INTEGRAL else 0
    return _KINDS[kind] <= rank


def value_operand(value: object, dtype: _d.DType) -> jax.Array | np.ndarray:
    """Return a value as an operand beside an array of `dtype`.

    Raises
    ------
    UnsupportedDType
        The value is no array, scalar or nested list of numbers.
    """
    if isinstance(value, jax.Array):
        return value
    if hasattr(value, "_data"):
        data: jax.Array = value._data
        return data
    if type(value) in SCALARS:
        return cast_scalar(value, dtype)  # type: ignore[arg-type]
    try:
        host = np.array(value, order="C")
    except ValueError:
        host = np.array(None, object)
    if host.dtype not in _d.KIND:
        native = host.dtype.newbyteorder("=")
        if native not in _d.KIND:
            raise UnsupportedDType(
                _SET,
                "value",
                got=f"{type(value).__name__} of dtype {host.dtype}",
                wanted="an Array, a NumPy array or numbers",
                dtype=host.dtype,
                op=_SET,
            )
        host = host.astype(native)
    return host
