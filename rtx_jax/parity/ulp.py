"""The distance between a result and the exact value, in units in the last place of the result's dtype.

The distance is a fraction: a correctly rounded result is at most 0.5 away. Subnormal numbers count as zero on devices
that flush them, so a zero is right where the exact value is subnormal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Format",
    "Values",
    "flushed",
    "format_of",
    "is_floating",
    "is_inexact",
    "is_inexact_name",
    "spacing",
    "ulp_error",
]

Values: TypeAlias = np.ndarray


@dataclass(frozen=True, slots=True)
class Format:
    """A binary floating-point format.

    Attributes
    ----------
    mantissa_bits
        Stored bits of the significand.
    largest, tiny, least
        The largest finite, the smallest normal and the smallest subnormal number.
    top
        The power of two above `largest`, which takes the place of infinity in distances.
    has_infinity
        Without it, overflow gives NaN or the largest number.
    """

    mantissa_bits: int
    largest: float
    tiny: float
    least: float
    top: float
    has_infinity: bool


@cache
def format_of(dtype: np.dtype, /) -> Format:
    """Return the format of a real dtype, or of the components of a complex one."""
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        dtype = np.dtype(f"f{dtype.itemsize // 2}")
    info = ml_dtypes.finfo(dtype)
    largest = float(info.max)
    bits = int(info.nmant)
    tiny = float(info.smallest_normal)
    with np.errstate(all="ignore"):
        has_infinity = bool(np.isinf(np.asarray(np.inf).astype(dtype).astype(np.float64)))
    top = 2.0 ** min(float(np.frexp(largest)[1]), 1023.0)
    return Format(bits, largest, tiny, float(np.ldexp(tiny, -bits)), top, has_infinity)


def is_floating(dtype: np.dtype, /) -> bool:
    """Whether the dtype is a real floating-point one, those of ml_dtypes included."""
    if dtype.kind == "f":
        return True
    return dtype.kind == "V" and dtype.name.startswith(("bfloat", "float"))


def is_inexact(dtype: np.dtype, /) -> bool:
    """Whether the dtype is a real or complex floating-point one."""
    return dtype.kind == "c" or is_floating(dtype)


def is_inexact_name(name: str, /) -> bool:
    """Whether a dtype's name is that of a real or complex floating-point one."""
    return name.startswith(("float", "bfloat", "complex"))


def spacing(magnitude: NDArray[np.float64], form: Format, /) -> NDArray[np.float64]:
    """Return the distance between neighbouring numbers of the format at each magnitude, float64."""
    with np.errstate(invalid="ignore"):
        clipped = np.clip(np.nan_to_num(np.abs(magnitude), nan=1.0, posinf=form.largest), form.tiny, form.largest)
    exponent = np.frexp(clipped)[1].astype(np.int64) - 1
    step: NDArray[np.float64] = np.ldexp(np.ones_like(clipped), exponent - form.mantissa_bits)
    return step


def flushed(x: Values, /) -> Values:
    """Return the values with subnormal numbers replaced by zeros of their sign; the same object without any."""
    if x.dtype.kind == "c":
        real, imag = flushed(x.real), flushed(x.imag)
        if real is x.real and imag is x.imag:
            return x
        out: Values = np.empty_like(x)
        out.real, out.imag = real, imag
        return out
    if not is_floating(x.dtype):
        return x
    wide = x.astype(np.float64)
    small = (np.abs(wide) < format_of(x.dtype).tiny) & (wide != 0)
    if not small.any():
        return x
    return np.where(small, np.copysign(0.0, wide), wide).astype(x.dtype)


def ulp_error(
    got: Values,
    exact: Values,
    /,
    *,
    scale: NDArray[np.float64] | None = None,
    signed_zeros: bool = False,
    by_component: bool = True,
) -> NDArray[np.float64]:
    """Return the distance of each element of `got` from the exact value.

    Parameters
    ----------
    got
        What was computed, in its own dtype.
    exact
        The exact values, in a dtype at least as wide; shape of `got`.
    scale
        Magnitude whose spacing is the unit, where it is larger than the exact value: for sums, the sum of the
        magnitudes. Shape of `got`.
    signed_zeros
        A zero of the wrong sign is infinitely wrong.
    by_component
        Which components of a complex number are NaN or infinite counts. Otherwise it is enough that one is where one
        has to be, and anything goes where both have to be NaN: there the formulas of libraries differ.

    Returns
    -------
    np.ndarray
        float64, shape of `got`. Integers and booleans count in ones, words are right or wrong. Infinity where one side
        is NaN or infinite and the other is not. A complex number counts by its larger component's unit.
    """
    if not is_inexact(got.dtype):
        same = got == exact
        if got.dtype.kind not in "biu":
            return np.where(same, 0.0, np.inf)
        with np.errstate(all="ignore"):
            gap = np.abs(got.astype(np.float64) - exact.astype(np.float64))
        return np.where(same, 0.0, np.maximum(np.nan_to_num(gap, nan=np.inf), 1.0))
    form = format_of(got.dtype)
    if got.dtype.kind == "c":
        wide = exact.astype(np.complex128)
        with np.errstate(invalid="ignore", over="ignore"):
            size = np.maximum(_finite(np.abs(wide.real)), _finite(np.abs(wide.imag)))
        unit = size if scale is None else np.maximum(size, scale)
        larger = np.maximum(
            _component(got.real, wide.real, form, unit, signed_zeros),
            _component(got.imag, wide.imag, form, unit, signed_zeros),
        )
        if by_component:
            return larger
        open_end = np.isnan(wide.real) & np.isnan(wide.imag)
        return np.where(~np.isfinite(wide), np.where(open_end | ~np.isfinite(got), 0.0, np.inf), larger)
    return _component(got, exact.astype(np.float64), form, scale, signed_zeros)


def _finite(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.isfinite(x), x, 0.0)


def _component(
    got: Values, exact: NDArray[np.float64], form: Format, scale: NDArray[np.float64] | None, signed_zeros: bool
) -> NDArray[np.float64]:
    value = got.astype(np.float64)
    with np.errstate(all="ignore"):
        overflow = np.isfinite(exact) & (np.abs(exact) >= form.largest + spacing(np.asarray(form.largest), form) / 2)
        # An infinity is the number above the largest where the exact value is finite, so that rounding near the end
        # of the range counts like rounding elsewhere.
        wanted = np.where(overflow, np.copysign(form.top, exact), exact)
        near_top = np.isinf(value) & np.isfinite(exact)
        seen = np.where(near_top, np.copysign(form.top, value), value)
        size = np.abs(wanted) if scale is None else np.maximum(np.abs(wanted), _finite(scale))
        unit = spacing(size, form)
        error = np.abs(seen / unit - wanted / unit)
        error = np.where(np.isinf(exact), np.where(value == exact, 0.0, np.inf), error)
        nan, nan_wanted = np.isnan(value), np.isnan(exact)
        if not form.has_infinity:
            # Overflow of a format without infinities is NaN or the largest number.
            error = np.where(overflow & (nan | (np.abs(value) == form.largest)), 0.0, error)
            nan = nan & ~overflow
        error = np.where(nan | nan_wanted, np.where(nan & nan_wanted, 0.0, np.inf), error)
        # The least normal number too: half of it, which a formula may go through, is subnormal.
        flushes = (np.abs(exact) <= form.tiny) & (exact != 0)
        error = np.where(flushes & (value == 0), 0.0, error)
        if signed_zeros:
            zero = (exact == 0) & (value == 0)
            error = np.where(zero & (np.signbit(value) != np.signbit(exact)), np.inf, error)
    return error
