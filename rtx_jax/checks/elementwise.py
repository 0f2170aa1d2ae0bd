"""Checks of elementwise operations: kinds of dtypes, one dtype, shapes that broadcast, scalars."""

from __future__ import annotations

import builtins
import math
from typing import cast

import ml_dtypes
import numpy as np

from ..errors import DTypeMismatch, InvalidArgument, UnsupportedDType
from .shape import broadcast_shape

__all__ = [
    "DRAWN",
    "FLOAT8",
    "FLOATING",
    "NUMERIC",
    "binary",
    "castable",
    "common_dtype",
    "fill_value",
    "floating",
    "kind_of",
    "limits",
    "numeric",
    "scalar",
    "scalar_beside",
]

_FLOAT8: tuple[str, ...] = (
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e4m3b11fnuz",
    "float8_e8m0fnu",
)
_FLOAT8 += ("float8_e5m2", "float8_e5m2fnuz")
_KIND: dict[np.dtype, str] = {
    np.dtype(bool): "bool",
    **{np.dtype(name): "integer" for name in ("int8", "int16", "int32", "int64")},
    **{np.dtype(name): "integer" for name in ("uint8", "uint16", "uint32", "uint64")},
    **{np.dtype(getattr(ml_dtypes, name)): "integer" for name in ("int2", "int4", "uint2", "uint4")},
    **{np.dtype(name): "floating" for name in ("float16", "float32", "float64")},
    np.dtype(ml_dtypes.bfloat16): "floating",
    **{np.dtype(getattr(ml_dtypes, name)): "floating" for name in _FLOAT8},
    **{np.dtype(name): "complex" for name in ("complex64", "complex128")},
}
FLOAT8: frozenset[np.dtype] = frozenset(np.dtype(getattr(ml_dtypes, name)) for name in _FLOAT8)
"""The 8-bit floating-point dtypes; only `cast` mixes them with others."""

FLOATING: frozenset[np.dtype] = frozenset(dtype for dtype, kind in _KIND.items() if kind == "floating")
"""The real floating dtypes."""
NUMERIC: frozenset[np.dtype] = FLOATING | {dtype for dtype, kind in _KIND.items() if kind == "integer"}
"""Integers and real floating dtypes."""

DRAWN: frozenset[np.dtype] = frozenset(
    (np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
)
"""The dtypes of random draws."""

_REAL_NUMBERS: tuple[type, ...] = (int, float, np.integer, np.floating, ml_dtypes.bfloat16)
_REAL_NUMBERS += tuple(getattr(ml_dtypes, name) for name in (*_FLOAT8, "int2", "int4", "uint2", "uint4"))

_WIDER: dict[int, np.dtype] = {1: np.dtype(np.int16), 2: np.dtype(np.int32), 4: np.dtype(np.int64)}
_TENSORS = "For a value on a device use the operation of two tensors."
_MAX_FITTING = 4096
_fitting: dict[
    tuple[tuple[int, ...], tuple[int, ...], np.dtype, np.dtype], tuple[tuple[int, ...], np.dtype]
] = {}  # operands that were found to go together
_pairs: dict[tuple[np.dtype, np.dtype], np.dtype] = {}


def kind_of(dtype: np.dtype) -> str:
    """Return ``"bool"``, ``"integer"``, ``"floating"``, ``"complex"``, or ``"other"`` for what no backend has."""
    return _KIND.get(dtype, "other")


def _refuse(operation: str, argument: str, dtype: np.dtype, wanted: str) -> UnsupportedDType:
    return UnsupportedDType(
        operation,
        argument,
        got=getattr(dtype, "name", repr(dtype)),  # other libraries have dtypes of their own
        wanted=wanted,
        remedy="Convert it first: with astype, or cast of a backend.",
        dtype=dtype,
        op=operation,
    )


def floating(operation: str, dtype: np.dtype, argument: str = "x") -> None:
    """Raise UnsupportedDType unless `dtype` is a real floating dtype."""
    if _KIND.get(dtype) != "floating":
        raise _refuse(operation, argument, dtype, "a floating-point dtype")


def numeric(operation: str, dtype: np.dtype, argument: str = "x") -> None:
    """Raise UnsupportedDType unless `dtype` is an integer or a real floating dtype."""
    kind = _KIND.get(dtype)
    if kind != "floating" and kind != "integer":
        raise _refuse(operation, argument, dtype, "an integer or floating-point dtype")


def common_dtype(operation: str, lhs: np.dtype, rhs: np.dtype) -> np.dtype:
    """Return the dtype of two operands of one kind, as the array API standard promotes them.

    float16 beside bfloat16 gives float32, which holds both.

    Raises
    ------
    DTypeMismatch
        The kinds differ, or no dtype holds both: uint64 beside a signed integer, an 8-bit float beside another float.
    UnsupportedDType
        One is not an integer or a real floating dtype.
    """
    found = _pairs.get((lhs, rhs))
    if found is None:
        found = _pairs[lhs, rhs] = _promote(operation, lhs, rhs)
    return found


def _promote(operation: str, lhs: np.dtype, rhs: np.dtype) -> np.dtype:
    numeric(operation, lhs, "lhs")
    numeric(operation, rhs, "rhs")
    if lhs == rhs:
        return lhs
    if _KIND[lhs] == _KIND[rhs] and not {lhs, rhs} & FLOAT8 and min(_bits(lhs), _bits(rhs)) >= 8:
        if _KIND[lhs] == "floating":
            if lhs.itemsize == rhs.itemsize:
                return np.dtype(np.float32)
            return lhs if lhs.itemsize > rhs.itemsize else rhs
        if lhs.kind == rhs.kind:
            return lhs if lhs.itemsize > rhs.itemsize else rhs
        signed, unsigned = (lhs, rhs) if lhs.kind == "i" else (rhs, lhs)
        if signed.itemsize > unsigned.itemsize:
            return signed
        if unsigned.itemsize in _WIDER:
            return _WIDER[unsigned.itemsize]
    raise DTypeMismatch(
        operation,
        "",
        got=f"{lhs.name} and {rhs.name}",
        wanted="two dtypes of one kind that a common dtype holds",
        remedy="Convert one of them with cast first.",
    )


def _bits(dtype: np.dtype) -> int:
    return int(ml_dtypes.iinfo(dtype).bits) if _KIND[dtype] == "integer" else 8 * dtype.itemsize


def binary(
    operation: str, lhs_shape: tuple[int, ...], lhs_dtype: np.dtype, rhs_shape: tuple[int, ...], rhs_dtype: np.dtype
) -> tuple[tuple[int, ...], np.dtype]:
    """Return the shape and the dtype of an elementwise operation of two operands.

    Raises
    ------
    BroadcastError, DTypeMismatch, UnsupportedDType
        See `broadcast_shape` and `common_dtype`.
    """
    key = lhs_shape, rhs_shape, lhs_dtype, rhs_dtype
    found = _fitting.get(key)
    if found is None:
        dtype = common_dtype(operation, lhs_dtype, rhs_dtype)
        found = cast("tuple[int, ...]", broadcast_shape(operation, lhs_shape, rhs_shape)), dtype
        if len(_fitting) >= _MAX_FITTING:
            _fitting.clear()
        _fitting[key] = found
    return found


def scalar(operation: str, argument: str, value: object, *, finite: bool = False, remedy: str = _TENSORS) -> float:
    """Return a scalar parameter as a Python float; NaN and infinities are allowed unless `finite`.

    Raises
    ------
    InvalidArgument
        It is not a real number of the host (a traced value is not), or not finite where it must be.
    """
    if type(value) is not float:
        if isinstance(value, (builtins.bool, np.bool_)) or not isinstance(value, _REAL_NUMBERS):
            raise InvalidArgument(
                operation,
                argument,
                got=f"{value!r} ({type(value).__name__})",
                wanted="a real number of the host",
                remedy=remedy,
                arg=argument,
                reason="not a number",
            )
        try:
            value = float(value)  # type: ignore[arg-type]
        except (TypeError, OverflowError) as error:
            raise InvalidArgument(
                operation, argument, got=repr(value), wanted="a real number", arg=argument, reason="not a real number"
            ) from error
    if finite and not math.isfinite(value):
        raise InvalidArgument(
            operation, argument, got=value, wanted="a finite number", arg=argument, reason="not finite"
        )
    return value


def scalar_beside(operation: str, argument: str, value: object, dtype: np.dtype) -> float:
    """Return a scalar that is compared with elements of `dtype`: an integer beside integers stays exact.

    Raises
    ------
    InvalidArgument
        See `scalar`.
    """
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, builtins.bool)
    if whole and kind_of(dtype) == "integer":
        return int(value)  # type: ignore[call-overload, no-any-return]
    return scalar(operation, argument, value)


def limits(operation: str, low: object, high: object, dtype: np.dtype) -> tuple[float, float]:
    """Return the two limits of a clamp of elements of `dtype`; integers beside integers stay exact.

    Raises
    ------
    InvalidArgument
        One is NaN, or no number of the host.
    """
    if type(low) is float and type(high) is float and low == low and high == high:
        return low, high
    found = scalar_beside(operation, "min", low, dtype), scalar_beside(operation, "max", high, dtype)
    for argument, value in zip(("min", "max"), found, strict=True):
        if value != value:  # an int may be too large for isnan
            raise InvalidArgument(
                operation, argument, got=value, wanted="a number or an infinity", arg=argument, reason="NaN"
            )
    return found


def castable(operation: str, dtype: np.dtype, target: np.dtype) -> None:
    """Raise DTypeMismatch for a cast that would drop imaginary parts."""
    if kind_of(dtype) == "complex" and kind_of(target) not in ("complex", "bool"):
        raise DTypeMismatch(
            operation,
            "dtype",
            got=f"{target.name} for a tensor of {dtype.name}",
            wanted="a complex dtype or bool",
            remedy="Take the real or the imaginary part first.",
        )


def fill_value(operation: str, value: object, dtype: np.dtype) -> float | int | bool:
    """Return the value of a creation in the Python type of its dtype's kind.

    Raises
    ------
    InvalidArgument
        It is not a number of the host, or an integer dtype cannot hold it.
    """
    kind = kind_of(dtype)
    if kind == "floating":
        return scalar(operation, "v", value)
    if kind == "bool" and isinstance(value, (builtins.bool, np.bool_)):
        return builtins.bool(value)
    number = scalar(operation, "v", value)
    if kind == "bool":
        return number != 0
    if kind == "complex":
        return number
    whole = int(value) if isinstance(value, (int, np.integer)) else number  # beyond 2**53 a float is not exact
    info = ml_dtypes.iinfo(dtype)
    if whole != whole or whole != math.floor(whole) if math.isfinite(number) else True:
        raise InvalidArgument(
            operation, "v", got=value, wanted=f"an integer, for {dtype.name}", arg="v", reason="not an integer"
        )
    if not int(info.min) <= whole <= int(info.max):
        raise InvalidArgument(
            operation,
            "v",
            got=value,
            wanted=f"{int(info.min)}..{int(info.max)}, for {dtype.name}",
            arg="v",
            reason="out of range",
        )
    return int(whole)
