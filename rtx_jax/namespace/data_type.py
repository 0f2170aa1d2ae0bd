"""Data type functions of the array API standard."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import jax
import ml_dtypes
import numpy as np

from .._array import Array, call1, wrap_shared
from ..core.devices import DeviceLike, resolve
from ..core.devices import place as place_on
from ..core.dispatch import Op
from ..core.dtypes import COMPLEX, INTEGRAL, REAL_FLOATING, DType, DTypeLike, DTypeName, as_dtype, real_of
from ..core.dtypes import isdtype as _isdtype
from ..core.handle import Handle, data_of, facts_of, share
from ..core.promotion import integer_range, result_dtype, scalar_dtype
from ..errors import InvalidArgument, UnsupportedDType
from ..raw import data_type as _raw

__all__ = ["astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]

_PYTHON = (bool, int, float, complex)  # a bool is an int too, so it comes first
_astype = Op("astype", _raw.astype, ("dtype",))


@dataclass(frozen=True, slots=True)
class FInfo:
    """What `finfo` returns: limits of a real floating dtype, as Python numbers.

    Attributes
    ----------
    bits
        Bits of one number.
    eps
        Distance from 1 to the next greater number.
    max, min
        Greatest and least finite number.
    smallest_normal, tiny
        Least positive number with full precision.
    smallest_subnormal
        Least positive number; XLA on a CPU computes with it as with 0.
    resolution
        10 to the power of minus the decimal digits that are certain.
    dtype
        The real floating dtype.
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    tiny: float
    smallest_subnormal: float
    resolution: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class IInfo:
    """What `iinfo` returns: limits of an integer dtype.

    Attributes
    ----------
    bits
        Bits of one number.
    max, min
        Greatest and least number.
    dtype
        The integer dtype.
    """

    bits: int
    max: int
    min: int
    dtype: DType


def astype(x: Array, dtype: DTypeLike, /, *, copy: bool = True, device: DeviceLike | None = None) -> Array:
    """Cast an array to a dtype.

    Parameters
    ----------
    x
        Array of any dtype.
    dtype
        The dtype of the result; Python's ``bool``, ``int``, ``float`` and ``complex`` mean the defaults.
    copy
        Whether to return a new Array when the dtype is that of `x` already, or `x` itself.
    device
        Where to put the result; by default it stays where `x` is.

    Returns
    -------
    Array

    Raises
    ------
    DTypeMismatch
        For complex `x` and a real dtype; take `real`, `imag` or `abs` first.
    UnsupportedDType
        `dtype` is no dtype of JAX.

    Notes
    -----
    Floats beyond the range of an integer dtype become its limits and NaN becomes 0, on every device. Integers wrap
    around. True becomes 1, and all but 0 becomes True.
    """
    placement = None if device is None else resolve(device, "astype")
    data = facts_of(x) if isinstance(x, Handle) else x
    target = as_dtype(dtype, "astype", device=data if placement is None else placement)
    if type(x) is Array and data.dtype == target:
        out = x.copy() if copy else x
    else:
        out = call1(_astype, x, target)
    if placement is None or (out is x and placement in (x.device, x.sharding)):
        return out
    return wrap_shared(place_on(share(out), placement, "astype"))


def can_cast(from_: DTypeLike | Array, to: DTypeLike, /) -> bool:
    """Tell whether type promotion may turn one dtype into another.

    Parameters
    ----------
    from_
        A dtype, or an array, whose dtype counts.
    to
        A dtype.

    Returns
    -------
    bool
        True if `from_` and `to` promote to `to`. Integers can be cast to every floating dtype, as they promote
        to it.

    Raises
    ------
    UnsupportedDType
        One of the two is no dtype of JAX.
    """
    target = as_dtype(to, "can_cast", "to")
    return _promotes(_dtype_of(from_, "can_cast", "from_"), target)


@functools.lru_cache(maxsize=1024)
def _promotes(source: DType, target: DType) -> bool:
    try:
        return result_dtype(source, target) == target
    except TypeError:
        return False


def _dtype_of(value: object, operation: str, argument: str) -> DType:
    if isinstance(value, Array | jax.Array | np.ndarray | np.generic):
        value = value.dtype
    return as_dtype(value, operation, argument)


def finfo(type: DTypeLike | Array, /) -> FInfo:
    """Return the limits of a floating-point dtype.

    Parameters
    ----------
    type
        A real or complex floating-point dtype, or an array of one. For a complex dtype the limits are those of its
        components.

    Returns
    -------
    FInfo
        With the attributes bits, eps, max, min, smallest_normal and dtype of the standard, and NumPy's tiny,
        smallest_subnormal and resolution.

    Raises
    ------
    UnsupportedDType
        For any other dtype.
    """
    named = _named.get(id(type))
    if named is not None and named[0] is type:
        return named[1]
    try:
        found = _finfos[type]
    except (KeyError, TypeError):
        dtype = _dtype_of(type, "finfo", "type")
        _finfos[dtype.type] = found = _finfos.setdefault(dtype, _finfo(dtype))
    if isinstance(type, DTypeName) and len(_named) < _MAX_NAMED:
        _named[id(type)] = type, found
    return found


# Keyed by dtype and by scalar type; what else is given, by name or as an array, is no key.
_finfos: dict[object, FInfo] = {}
# The namespace's own names of dtypes, by identity: they hash and compare in Python, which takes longer than the rest.
_named: dict[int, tuple[DTypeName, FInfo]] = {}
_MAX_NAMED = 64
_iinfos: dict[object, IInfo] = {}


def _finfo(dtype: DType) -> FInfo:
    if dtype not in REAL_FLOATING and dtype not in COMPLEX:
        raise UnsupportedDType(
            "finfo",
            "type",
            got=dtype.name,
            wanted="a floating-point dtype",
            remedy="Use iinfo.",
            dtype=dtype,
            op="finfo",
        )
    real = real_of(dtype)
    info = ml_dtypes.finfo(real)
    return FInfo(
        bits=int(info.bits),
        eps=float(info.eps),
        max=float(info.max),
        min=float(info.min),
        smallest_normal=float(info.smallest_normal),
        tiny=float(info.smallest_normal),
        smallest_subnormal=float(info.smallest_subnormal),
        resolution=float(info.resolution),
        dtype=real,
    )


def iinfo(type: DTypeLike | Array, /) -> IInfo:
    """Return the limits of an integer dtype.

    Parameters
    ----------
    type
        An integer dtype, or an array of one.

    Returns
    -------
    IInfo
        With the attributes bits, max, min and dtype.

    Raises
    ------
    UnsupportedDType
        For any other dtype.
    """
    try:
        return _iinfos[type]
    except (KeyError, TypeError):
        dtype = _dtype_of(type, "iinfo", "type")
        _iinfos[dtype.type] = found = _iinfos.setdefault(dtype, _iinfo(dtype))
        return found


def _iinfo(dtype: DType) -> IInfo:
    if dtype not in INTEGRAL:
        raise UnsupportedDType(
            "iinfo", "type", got=dtype.name, wanted="an integer dtype", remedy="Use finfo.", dtype=dtype, op="iinfo"
        )
    least, greatest = integer_range(dtype)
    return IInfo(bits=(greatest - least).bit_length(), max=greatest, min=least, dtype=dtype)


def isdtype(dtype: DTypeLike, kind: DTypeLike | tuple[DTypeLike, ...]) -> bool:
    """Tell whether a dtype is of a kind.

    Parameters
    ----------
    dtype
        A dtype.
    kind
        A dtype, the name of a kind, or a tuple of these: ``"bool"``, ``"signed integer"``, ``"unsigned integer"``,
        ``"integral"``, ``"real floating"``, ``"complex floating"``, ``"numeric"``.

    Returns
    -------
    bool

    Raises
    ------
    InvalidArgument
        There is no such kind.
    UnsupportedDType
        `dtype` is no dtype of JAX.

    Notes
    -----
    float16, bfloat16 and the 8-bit floats are of the kind ``"real floating"``, integers below one byte of the kinds
    of integers.
    """
    return _isdtype(as_dtype(dtype, "isdtype"), kind)


def result_type(*arrays_and_dtypes: Array | DTypeLike | bool | int | float | complex) -> DType:
    """Return the dtype that arrays, dtypes and Python scalars promote to.

    Parameters
    ----------
    *arrays_and_dtypes
        Arrays, dtypes and scalars, at least one of them an array or a dtype.

    Returns
    -------
    dtype

    Raises
    ------
    DTypeMismatch
        There is no common dtype, as for an 8-bit float beside another float.
    InvalidArgument
        There is neither an array nor a dtype.
    UnsupportedDType
        An argument is none of these.

    Notes
    -----
    The standard's table; beyond it what JAX promotes with 64-bit types on: integers take the floating dtype beside
    them, float16 and bfloat16 make float32. A scalar never widens a dtype within its kind.
    """
    dtypes, kinds, device = [], [], None
    for argument in arrays_and_dtypes:
        if isinstance(argument, bool | int | float | complex) and not isinstance(argument, np.generic):
            kinds.append(next(kind for kind in _PYTHON if isinstance(argument, kind)))
            continue
        if isinstance(argument, Array):
            device = data_of(argument)
        dtypes.append(_dtype_of(argument, "result_type", ""))
    if not dtypes:
        raise InvalidArgument(
            "result_type",
            "",
            got=f"{len(kinds)} Python scalars" if kinds else "no argument",
            wanted="at least one array or dtype",
            arg="arrays_and_dtypes",
            reason="no dtype",
        )
    out = result_dtype(*dtypes)
    for kind in _PYTHON:
        if kind in kinds:
            out = scalar_dtype(kind(0), out, device)
    return out
