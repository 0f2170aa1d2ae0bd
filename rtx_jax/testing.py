"""Assertions for tests of code that runs on several devices.

They compare what a reader of the values would not see too: the namespace, the device, the dtype and the shape. The
values are compared on the host, in float64 or complex128, and a failure names the first index that differs.
"""

from __future__ import annotations

from typing import TypeAlias

import jax
import ml_dtypes
import numpy as np

from ._array import Array
from .core import dtypes as _d
from .core.devices import Placement, device_name, device_of
from .core.handle import data_of
from .errors import ConcretizationError, DTypeMismatch, InvalidArgument, UnsupportedDType

__all__ = ["assert_allclose", "assert_array_equal", "assert_ulp", "ulp_distance"]

Comparable: TypeAlias = "Array | jax.Array | np.ndarray | np.generic | complex | list[object] | tuple[object, ...]"
"""What can be compared. Python numbers and lists say nothing about dtype and device, NumPy arrays not the device."""

_RTOL = {_d.float64: 1e-7, _d.complex128: 1e-7, _d.float16: 1e-3, _d.bfloat16: 1.6e-2}
_RTOL_32, _RTOL_8 = 1e-5, 0.25
_FAR = np.uint64(2**64 - 1)


def assert_array_equal(
    actual: Comparable,
    desired: Comparable,
    /,
    *,
    strict: bool = True,
    equal_nan: bool = True,
    signed_zeros: bool = False,
    err_msg: str = "",
) -> None:
    """Check that two arrays are equal.

    Parameters
    ----------
    actual, desired
        What was computed, and what is right.
    strict
        Check namespace, device, dtype and shape too, as far as `desired` says them; otherwise the two broadcast.
    equal_nan
        NaN equals NaN.
    signed_zeros
        0.0 and -0.0 differ.
    err_msg
        Put before the text of a failure.

    Raises
    ------
    AssertionError
        They differ; the text names the first index and both values.
    """
    a, b = _prepare("assert_array_equal", actual, desired, strict, err_msg)
    same = _same(a, b, equal_nan)
    if signed_zeros and a.dtype.kind in "fc":
        same &= _signs(a) == _signs(b)
    if not same.all():
        raise AssertionError(_difference("assert_array_equal", a, b, ~same, "", err_msg))


def assert_allclose(
    actual: Comparable,
    desired: Comparable,
    /,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    strict: bool = True,
    equal_nan: bool = True,
    err_msg: str = "",
) -> None:
    """Check that ``|actual - desired| <= atol + rtol * |desired|`` everywhere; infinities must be equal.

    Parameters
    ----------
    actual, desired
        What was computed, and what is right.
    rtol
        None: by the dtype of `actual`: 1e-7 for 64 bits, 1e-5 for 32, 1e-3 for float16, 1.6e-2 for bfloat16, 0.25
        for 8 bits, 0 for integers.
    atol
        Absolute tolerance.
    strict, equal_nan, err_msg
        As in `assert_array_equal`.

    Raises
    ------
    AssertionError
        They differ by more; the text names the first index, both values and the largest differences.
    """
    kind = _dtype(actual)
    if rtol is None:
        rtol = _default_rtol(kind)
    if not (rtol >= 0 and atol >= 0):
        raise InvalidArgument(
            "assert_allclose",
            "rtol, atol",
            got=f"{rtol}, {atol}",
            wanted="0 or more",
            arg="rtol, atol",
            reason="negative tolerance",
        )
    a, b = _prepare("assert_allclose", actual, desired, strict, err_msg)
    close = _same(a, b, equal_nan)
    wide = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(a.astype(wide) - b.astype(wide))
        close |= np.isfinite(a) & np.isfinite(b) & (distance <= atol + rtol * np.abs(b.astype(wide)))
    if not close.all():
        raise AssertionError(_difference("assert_allclose", a, b, ~close, f"rtol={rtol:g}, atol={atol:g}", err_msg))


def assert_ulp(
    actual: Comparable,
    desired: Comparable,
    /,
    max_ulp: int = 1,
    *,
    strict: bool = True,
    equal_nan: bool = True,
    err_msg: str = "",
) -> None:
    """Check that no element is more than `max_ulp` representable values away from the right one.

    Parameters
    ----------
    actual
        Floating-point or complex values; their dtype is the unit.
    desired
        The right values. Not strict, they may be more precise, and are rounded to the dtype of `actual`.
    max_ulp
        Largest distance allowed, see `ulp_distance`.
    strict, equal_nan, err_msg
        As in `assert_array_equal`.

    Raises
    ------
    AssertionError
        The text names the first index, both values, and the largest distance.
    """
    kind = _dtype(actual)
    a, b = _prepare("assert_ulp", actual, desired, strict, err_msg, rounded=kind)
    distance = _distance(a, b, equal_nan)
    bad = distance > np.uint64(max_ulp)
    if bad.any():
        worst = distance.max()
        measured = "infinitely many" if worst == _FAR else str(worst)
        text = f"max_ulp={max_ulp}, measured {measured} ulp"
        raise AssertionError(_difference("assert_ulp", a, b, bad, text, err_msg))


def ulp_distance(a: Comparable, b: Comparable, /, *, equal_nan: bool = True) -> np.ndarray:
    """Return how many steps between neighbouring representable values lie between `a` and `b`.

    Parameters
    ----------
    a, b
        Floating-point or complex values of one dtype that broadcast together; the larger distance of the two
        components counts for complex ones.
    equal_nan
        NaN is 0 away from NaN.

    Returns
    -------
    np.ndarray
        uint64. 0.0 and -0.0 are 0 apart, infinity is one step beyond the largest finite value, and NaN is
        ``2**64 - 1`` away from any number.

    Raises
    ------
    DTypeMismatch
        The dtypes differ.
    UnsupportedDType
        They are not floating-point.
    """
    x, y = _host(a, "ulp_distance"), _host(b, "ulp_distance")
    if x.dtype != y.dtype:
        raise DTypeMismatch("ulp_distance", "a, b", got=f"{x.dtype} and {y.dtype}", wanted="one dtype")
    x, y = np.broadcast_arrays(x, y)
    return _distance(x, y, equal_nan)


def _distance(a: np.ndarray, b: np.ndarray, equal_nan: bool) -> np.ndarray:
    if a.dtype.kind == "c":
        larger: np.ndarray = np.maximum(_distance(a.real, b.real, equal_nan), _distance(a.imag, b.imag, equal_nan))
        return larger
    x, y = _rank(a), _rank(b)
    with np.errstate(over="ignore"):
        # Wraps around where the distance does not fit int64, and so is right as uint64.
        distance = np.where(x > y, x - y, y - x).astype(np.uint64)
    nan = np.isnan(a) | np.isnan(b)
    both = np.isnan(a) & np.isnan(b) & equal_nan
    return np.where(both, np.uint64(0), np.where(nan, _FAR, distance))


def _rank(x: np.ndarray) -> np.ndarray:
    """Return the position of each value in the order of the representable values, from 0 at both zeros."""
    if x.dtype not in _d.REAL_FLOATING or x.dtype == _d.float8_e8m0fnu or "fnuz" in x.dtype.name:
        raise UnsupportedDType(
            "ulp_distance",
            "a",
            got=f"dtype {x.dtype}",
            wanted="a floating-point dtype with infinity or a sign of zero",
            dtype=x.dtype,
            op="ulp_distance",
        )
    bits = 8 * x.dtype.itemsize
    word = np.ascontiguousarray(x).reshape(x.shape).view(np.dtype(f"i{x.dtype.itemsize}")).astype(np.int64)
    magnitude = word & (2 ** (bits - 1) - 1)
    rank: np.ndarray = np.where(word < 0, -magnitude, magnitude)
    return rank


def _default_rtol(dtype: np.dtype) -> float:
    if dtype.kind in "biu":
        return 0.0
    if dtype in _d.FLOAT8:
        return _RTOL_8
    return _RTOL.get(dtype, _RTOL_32)


def _dtype(x: Comparable) -> np.dtype:
    return x.dtype if isinstance(x, Array | jax.Array) else np.asarray(x).dtype


def _host(x: Comparable, operation: str) -> np.ndarray:
    data = data_of(x) if isinstance(x, Array) else x
    if isinstance(data, jax.core.Tracer):
        raise ConcretizationError(
            operation, got="values that are not known while tracing", remedy="Assert on what the function returns."
        )
    return np.asarray(data)


def _prepare(
    name: str, actual: Comparable, desired: Comparable, strict: bool, message: str, rounded: np.dtype | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Check everything but the values; return the values with one shape."""
    a, b = _host(actual, name), _host(desired, name)
    if strict:
        _check_metadata(name, actual, desired, a, b, message)
    if rounded is not None and b.dtype != rounded:
        b = b.astype(rounded)
    scalar = isinstance(desired, bool | int | float | complex) and not isinstance(desired, np.generic)
    if strict and not scalar and a.shape != b.shape:
        raise AssertionError(_head(name, message) + f"shape {a.shape}, wanted {b.shape}")
    try:
        a, b = np.broadcast_arrays(a, b)
    except ValueError:
        raise AssertionError(_head(name, message) + f"shape {a.shape} does not fit {b.shape}") from None
    return a, b


def _check_metadata(
    name: str,
    actual: Comparable,
    desired: Comparable,
    a: np.ndarray,
    b: np.ndarray,
    message: str,
) -> None:
    head = _head(name, message)
    if isinstance(desired, Array) and not isinstance(actual, Array):
        raise AssertionError(f"{head}an object of {type(actual).__module__}.{type(actual).__name__}, wanted an Array")
    if isinstance(desired, Array | jax.Array) and isinstance(actual, Array | jax.Array):
        here, there = _placement(actual), _placement(desired)
        if here != there:
            raise AssertionError(f"{head}on {_place_name(here)}, wanted on {_place_name(there)}")
    typed = isinstance(desired, Array | jax.Array | np.ndarray | np.generic)
    if typed and a.dtype != b.dtype:
        raise AssertionError(f"{head}dtype {a.dtype}, wanted {b.dtype}")


def _placement(x: Array | jax.Array) -> Placement | None:
    return device_of(data_of(x) if isinstance(x, Array) else x)


def _place_name(placement: Placement | None) -> str:
    return "the device of the trace" if placement is None else device_name(placement)


def _same(a: np.ndarray, b: np.ndarray, equal_nan: bool) -> np.ndarray:
    same = np.asarray(a == b)
    if equal_nan and _has_nan(a) and _has_nan(b):
        same = same | (np.isnan(a) & np.isnan(b))
    return same


def _has_nan(x: np.ndarray) -> bool:
    return x.dtype.kind in "fc" or hasattr(ml_dtypes, x.dtype.name) and x.dtype in _d.REAL_FLOATING


def _signs(x: np.ndarray) -> np.ndarray:
    signs: np.ndarray = np.signbit(x.real) + 2 * np.signbit(x.imag) if x.dtype.kind == "c" else np.signbit(x)
    return signs


def _head(name: str, message: str) -> str:
    return f"{message}\n{name}: got " if message else f"{name}: got "


def _difference(name: str, a: np.ndarray, b: np.ndarray, bad: np.ndarray, rule: str, message: str) -> str:
    first = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(bad)))[: a.ndim]
    wide = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        gap = np.where(bad, np.abs(a.astype(wide) - b.astype(wide)), 0)
        relative = gap / np.abs(b.astype(wide))
    where = f"at index {first}: " if a.ndim else ""
    lines = [
        f"{_head(name, message)}{bad.sum()} of {bad.size} elements that differ" + (f" ({rule})" if rule else ""),
        f"first {where}got {a[first]!r}, wanted {b[first]!r}",
        f"largest difference {np.nanmax(gap) if not np.isnan(gap).all() else np.nan:g}"
        f", relative {np.nanmax(relative) if not np.isnan(relative).all() else np.nan:g}",
    ]
    return "\n".join(lines)
