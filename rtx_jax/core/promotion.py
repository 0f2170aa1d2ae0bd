"""Which dtype a result has: the standard's table, and beyond it what JAX gives under x64 without weak types.

Pure functions of dtypes with a cache, as every binary operation asks them once per trace and every operation with
a Python scalar once per call.
"""

from __future__ import annotations

import numpy as np

from ..errors import DTypeMismatch, ScalarOverflow, UnsupportedDType
from . import dtypes as _d
from .dtypes import COMPLEX, FLOAT8, INEXACT, INTEGRAL, KIND, NARROW_INT, REAL_FLOATING, SIGNED, UNSIGNED, DType

_SIGNED_BY_SIZE = {d.itemsize: d for d in (_d.int8, _d.int16, _d.int32, _d.int64)}
_pairs: dict[tuple[DType, DType], DType] = {}


def result_dtype(first: DType, /, *others: DType) -> DType:
    """Return the dtype that the given dtypes promote to.

    Raises
    ------
    DTypeMismatch
        If they have no common dtype: an 8-bit float beside another float, an integer below one byte beside any
        other number.
    """
    out = first
    for other in others:
        if other is out:
            continue
        pair = (out, other)
        found = _pairs.get(pair)
        if found is None:
            found = _pairs[pair] = _promote(out, other)
        out = found
    if not others and out not in KIND:
        raise _unsupported(out)
    return out


def _unsupported(dtype: DType) -> UnsupportedDType:
    return UnsupportedDType("result_type", "", got=dtype, wanted="dtypes of JAX", dtype=dtype, op="result_type")


def _promote(a: DType, b: DType) -> DType:
    for dtype in (a, b):
        if dtype not in KIND:
            raise _unsupported(dtype)
    if a == b or b == _d.bool_:
        return a
    if a == _d.bool_:
        return b
    if not ({a, b} & NARROW_INT):
        if a in INTEGRAL and b in INTEGRAL:
            return _promote_integers(a, b)
        if a in INTEGRAL:
            return b
        if b in INTEGRAL:
            return a
        if not ({a, b} & FLOAT8):
            return _promote_inexact(a, b)
    raise DTypeMismatch(
        "result_type",
        "",
        got=f"{a.name} and {b.name}",
        wanted="dtypes with a common dtype",
        remedy="Cast one of them with xp.astype first.",
    )


def _promote_integers(a: DType, b: DType) -> DType:
    if (a in SIGNED) == (b in SIGNED):
        return a if a.itemsize >= b.itemsize else b
    signed, unsigned = (a, b) if b in UNSIGNED else (b, a)
    if signed.itemsize > unsigned.itemsize:
        return signed
    # uint64 beside a signed integer has no integer dtype that holds both; NumPy and JAX take float64.
    return _SIGNED_BY_SIZE.get(2 * unsigned.itemsize, _d.float64)


def _promote_inexact(a: DType, b: DType) -> DType:
    ra, rb = _d.real_of(a), _d.real_of(b)
    if ra.itemsize == rb.itemsize:
        real = ra if ra == rb else _d.float32  # float16 beside bfloat16
    else:
        real = ra if ra.itemsize > rb.itemsize else rb
    return _d.complex_of(real) if a in COMPLEX or b in COMPLEX else real


def inexact_dtype(dtype: DType, device: object = None, /) -> DType:
    """Return `dtype` if it is floating, else the default float of `device` (see `dtypes.default_float`)."""
    return dtype if dtype in _d.INEXACT else _d.default_float(device)


_RANGE: dict[DType, tuple[int, int]] = {}
for _dtype in INTEGRAL:
    _bits = {_d.int2: 2, _d.int4: 4, _d.uint2: 2, _d.uint4: 4}.get(_dtype, 8 * _dtype.itemsize)
    _RANGE[_dtype] = (-(1 << (_bits - 1)), (1 << (_bits - 1)) - 1) if _dtype in SIGNED else (0, (1 << _bits) - 1)
del _dtype, _bits


def integer_range(dtype: DType, /) -> tuple[int, int]:
    """Return the least and the greatest value of an integer dtype."""
    return _RANGE[dtype]


def scalar_dtype(value: object, dtype: DType, device: object = None, /) -> DType:
    """Return the dtype that a scalar takes beside an array of `dtype`: its kind may widen the array, never its size.

    Parameters
    ----------
    value
        A Python ``bool``, ``int``, ``float`` or ``complex``, or a NumPy scalar, which has a dtype of its own.
    dtype
        The dtype of the array.
    device
        The array, its device, or None: decides the default dtypes.

    Returns
    -------
    DType
        The array's own dtype if it can hold the scalar's kind. A float beside an integer array takes the default
        float, a complex beside a real floating array the complex dtype of that precision, an int beside a bool
        array the default int.

    Raises
    ------
    ScalarOverflow
        For an int out of the range of the integer dtype; it is an ``OverflowError`` and a ``ValueError``.
    UnsupportedDType
        If `value` is not a scalar.
    """
    kind = type(value)
    if kind is float:
        return dtype if dtype in INEXACT else _d.default_float(device)
    if kind is int:
        limits = _RANGE.get(dtype)
        if limits is None:
            if dtype in INEXACT:
                return dtype
            dtype = _d.default_int(device)
            limits = _RANGE[dtype]
        if limits[0] <= value <= limits[1]:  # type: ignore[operator]
            return dtype
        raise ScalarOverflow(
            "result_type",
            "",
            got=f"the integer {value} beside {dtype.name}",
            wanted=f"a value from {limits[0]} to {limits[1]}",
            remedy="Cast the array, or make the number an array of a wider dtype.",
            dtype=dtype,
        )
    if kind is bool:
        return dtype
    if kind is complex:
        if dtype in COMPLEX:
            return dtype
        return _d.complex_of(dtype) if dtype in REAL_FLOATING else _d.default_complex(device)
    if isinstance(value, np.generic):
        return _d.as_dtype(value.dtype, "result_type", "")
    for base in (bool, int, float, complex):  # subclasses of Python's numbers, such as IntEnum
        if isinstance(value, base):
            return scalar_dtype(base(value), dtype, device)  # type: ignore[arg-type]
    raise UnsupportedDType(
        "result_type", "", got=repr(value), wanted="an array or a Python scalar", dtype=kind, op="result_type"
    )


def operand_dtype(value: object, dtype: DType, device: object = None, /) -> DType:
    """Return `scalar_dtype`, except that a real number stays real beside a complex array.

    For the operands of a binary operation: so its arithmetic goes by components, as the standard's tables say, and
    keeps infinities and signs of zeros that a zero imaginary component would destroy.
    """
    found = scalar_dtype(value, dtype, device)
    return _d.real_of(found) if dtype in COMPLEX and not isinstance(value, complex | np.complexfloating) else found


_RANK: dict[DType, int] = {
    _d.bool_: 0,
    **dict.fromkeys(INTEGRAL, 1),
    **dict.fromkeys(REAL_FLOATING, 2),
    **dict.fromkeys(COMPLEX, 3),
}


def can_cast_same_kind(source: DType, target: DType, /) -> bool:
    """Tell whether an update may cast `source` to `target`: bool to integer to real to complex, never back.

    Signed and unsigned integers are one kind here, so that a mask of one may be written into the other.
    """
    return _RANK[source] <= _RANK[target]
