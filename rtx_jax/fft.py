"""The fft extension of the array API standard.

Integers are transformed as the default float, float16 and bfloat16 as float32. The precision of the result is that
of the operand: float32 gives complex64, float64 complex128. Transforms take ``norm``, which says where the factor
``1/n`` goes: ``"backward"`` to the inverse transforms, ``"forward"`` to the others, ``"ortho"`` its root to both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import jax

from ._array import Array, call1, wrap
from .core.axes import as_axis, as_int
from .core.devices import resolve
from .core.dispatch import Op
from .core.dtypes import REAL_FLOATING, DTypeLike, as_dtype, default_float
from .errors import InvalidArgument, UnsupportedDType
from .namespace._host import host_scalar, make, number
from .namespace._results import floating
from .raw import fft as _raw

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

Norm: TypeAlias = Literal["backward", "ortho", "forward"]

_ONE = ("n", "axis", "norm")
_MANY = ("s", "axes", "norm")

_fft = Op("fft.fft", _raw.fft, _ONE)
_ifft = Op("fft.ifft", _raw.ifft, _ONE)
_rfft = Op("fft.rfft", _raw.rfft, _ONE)
_irfft = Op("fft.irfft", _raw.irfft, _ONE)
_hfft = Op("fft.hfft", _raw.hfft, _ONE)
_ihfft = Op("fft.ihfft", _raw.ihfft, _ONE)
_fftn = Op("fft.fftn", _raw.fftn, _MANY)
_ifftn = Op("fft.ifftn", _raw.ifftn, _MANY)
_rfftn = Op("fft.rfftn", _raw.rfftn, _MANY)
_irfftn = Op("fft.irfftn", _raw.irfftn, _MANY)
_fftfreq = Op("fft.fftfreq", _raw.fftfreq, ("n",))
_rfftfreq = Op("fft.rfftfreq", _raw.rfftfreq, ("n",))
_fftshift = Op("fft.fftshift", _raw.fftshift, ("axes",))
_ifftshift = Op("fft.ifftshift", _raw.ifftshift, ("axes",))


def _one(op: Op, operation: str, x: Array, n: int | None, axis: int, norm: str) -> Array:
    if n is not None:
        n = as_int(n, operation, "n")
    return call1(op, floating(x, operation), (n, as_int(axis, operation, "axis"), norm))


def _many(op: Op, operation: str, x: Array, s: Sequence[int] | None, axes: Sequence[int] | None, norm: str) -> Array:
    sizes = None if s is None else tuple(as_int(n, operation, "s") for n in s)
    places = None if axes is None else tuple(as_int(n, operation, "axes") for n in axes)
    return call1(op, floating(x, operation), (sizes, places, norm))


def fft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Array:
    """Transform one axis to frequencies.

    Parameters
    ----------
    x
        Array of any numeric dtype.
    n
        Number of points: the axis is padded with zeros or cut. Its size by default.
    axis
        The axis.
    norm
        See the module.

    Returns
    -------
    Array
        Complex.

    Raises
    ------
    InvalidDimension
        `x` has no such axis.
    InvalidArgument
        There is no point to transform, or no such `norm`.
    """
    return _one(_fft, "fft", x, n, axis, norm)


def ifft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Array:
    """Transform one axis back from frequencies.

    Parameters
    ----------
    x
        Array of any numeric dtype.
    n
        Number of points: the axis is padded with zeros or cut. Its size by default.
    axis
        The axis.
    norm
        See the module.

    Returns
    -------
    Array
        Complex.

    Raises
    ------
    InvalidDimension
        `x` has no such axis.
    InvalidArgument
        There is no point to transform, or no such `norm`.
    """
    return _one(_ifft, "ifft", x, n, axis, norm)


def fftn(
    x: Array, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Array:
    """Transform several axes to frequencies.

    Parameters
    ----------
    x
        Array of any numeric dtype.
    s
        Number of points along each of `axes`; -1 and None mean the size of the axis.
    axes
        The axes; by default all, or as many of the last ones as `s` has entries.
    norm
        See the module.

    Returns
    -------
    Array
        Complex.

    Raises
    ------
    InvalidDimension
        `x` has no such axis, or one is given twice.
    InvalidArgument
        There is no point to transform, `s` and `axes` differ in length, or no such `norm`.
    """
    return _many(_fftn, "fftn", x, s, axes, norm)


def ifftn(
    x: Array, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Array:
    """Transform several axes back from frequencies.

    Parameters
    ----------
    x
        Array of any numeric dtype.
    s
        Number of points along each of `axes`; -1 and None mean the size of the axis.
    axes
        The axes; by default all, or as many of the last ones as `s` has entries.
    norm
        See the module.

    Returns
    -------
    Array
        Complex.

    Raises
    ------
    InvalidDimension
        `x` has no such axis, or one is given twice.
    InvalidArgument
        There is no point to transform, `s` and `axes` differ in length, or no such `norm`.
    """
    return _many(_ifftn, "ifftn", x, s, axes, norm)


def rfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Array:
    """Transform one axis of real input to the frequencies from 0 up, which determine the others.

    Parameters
    ----------
    x
        Real array.
    n
        Number of points: the axis is padded with zeros or cut. Its size by default.
    axis
        The axis.
    norm
        See the module.

    Returns
    -------
    Array
        Complex, with ``n // 2 + 1`` elements along the axis.

    Raises
    ------
    UnsupportedDType
        `x` is complex.
    InvalidDimension
        `x` has no such axis.
    InvalidArgument
        There is no point to transform, or no such `norm`.
    """
    return _one(_rfft, "rfft", x, n, axis, norm)


def irfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Array:
    """Invert `rfft`.

    Parameters
    ----------
    x
        Array of frequencies from 0 up.
    n
        Number of points of the result; by default even, ``2 * (m - 1)`` for m frequencies.
    axis
        The axis.
    norm
        See the module.

    Returns
    -------
    Array
        Real, with `n` elements along the axis.

    Raises
    ------
    InvalidDimension
        `x` has no such axis.
    InvalidArgument
        There is no point to transform, or no such `norm`.
    """
    return _one(_irfft, "irfft", x, n, axis, norm)


def rfftn(
    x: Array, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Array:
    """Transform several axes of real input, the last one to the frequencies from 0 up.

    Parameters
    ----------
    x
        Real array.
    s
        Number of points along each of `axes`; -1 and None mean the size of the axis.
    axes
        The axes; by default all, or as many of the last ones as `s` has entries.
    norm
        See the module.

    Returns
    -------
    Array
        Complex, with ``s[-1] // 2 + 1`` elements along the last of the axes.

    Raises
    ------
    UnsupportedDType
        `x` is complex.
    InvalidDimension
        `x` has no such axis, or one is given twice.
    InvalidArgument
        There is no point to transform, `s` and `axes` differ in length, or no such `norm`.
    """
    return _many(_rfftn, "rfftn", x, s, axes, norm)


def irfftn(
    x: Array, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Array:
    """Invert `rfftn`.

    Parameters
    ----------
    x
        Array of frequencies, along the last of the axes from 0 up.
    s
        Number of points of the result along each of `axes`; -1 and None mean the size of the axis, for the last one
        ``2 * (m - 1)`` for m frequencies.
    axes
        The axes; by default all, or as many of the last ones as `s` has entries.
    norm
        See the module.

    Returns
    -------
    Array
        Real.

    Raises
    ------
    InvalidDimension
        `x` has no such axis, or one is given twice.
    InvalidArgument
        There is no point to transform, `s` and `axes` differ in length, or no such `norm`.
    """
    return _many(_irfftn, "irfftn", x, s, axes, norm)


def hfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Array:
    """Transform a signal with Hermitian symmetry, given by its first half, to real frequencies.

    Parameters
    ----------
    x
        Array of the half of the signal.
    n
        Number of points of the result; by default ``2 * (m - 1)`` for m elements.
    axis
        The axis.
    norm
        See the module.

    Returns
    -------
    Array
        Real, with `n` elements along the axis.

    Raises
    ------
    InvalidDimension
        `x` has no such axis.
    InvalidArgument
        There is no point to transform, or no such `norm`.
    """
    return _one(_hfft, "hfft", x, n, axis, norm)


def ihfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Array:
    """Invert `hfft`.

    Parameters
    ----------
    x
        Real array.
    n
        Number of points: the axis is padded with zeros or cut. Its size by default.
    axis
        The axis.
    norm
        See the module.

    Returns
    -------
    Array
        Complex, with ``n // 2 + 1`` elements along the axis.

    Raises
    ------
    UnsupportedDType
        `x` is complex.
    InvalidDimension
        `x` has no such axis.
    InvalidArgument
        There is no point to transform, or no such `norm`.
    """
    return _one(_ihfft, "ihfft", x, n, axis, norm)


def _frequencies(
    op: Op,
    operation: str,
    n: int,
    d: float,
    dtype: DTypeLike | None,
    device: jax.Device | jax.sharding.Sharding | str | None,
) -> Array:
    n = as_int(n, operation, "n")
    spacing = number(d, operation, "d")
    if n < 1:
        raise InvalidArgument(operation, "n", got=n, wanted="at least 1", arg="n", reason="no points")
    if spacing == 0:
        raise InvalidArgument(operation, "d", got=d, wanted="a spacing other than 0", arg="d", reason="zero")
    placement = resolve(device, operation)
    out = default_float(placement) if dtype is None else as_dtype(dtype, operation)
    if out not in REAL_FLOATING:
        raise UnsupportedDType(
            operation, "dtype", got=out.name, wanted="a real floating dtype", dtype=out, op=operation
        )
    return wrap(make(op, [host_scalar(float(spacing), out, operation, "d")], n, placement))


def fftfreq(
    n: int,
    /,
    *,
    d: float = 1.0,
    dtype: DTypeLike | None = None,
    device: jax.Device | jax.sharding.Sharding | str | None = None,
) -> Array:
    """Return the frequencies of `fft`: from 0 up, then the negative ones, in cycles per unit of the spacing.

    Parameters
    ----------
    n
        Number of points, at least 1.
    d
        Spacing of the samples, not 0.
    dtype
        Real floating; the default float by default.
    device
        Where to put the array; the default device by default.

    Returns
    -------
    Array
        Of shape (n,).

    Raises
    ------
    InvalidArgument
        There are no points, or the spacing is 0.
    UnsupportedDType
        The dtype is not real floating.
    BackendUnavailable
        There is no such device.
    """
    return _frequencies(_fftfreq, "fftfreq", n, d, dtype, device)


def rfftfreq(
    n: int,
    /,
    *,
    d: float = 1.0,
    dtype: DTypeLike | None = None,
    device: jax.Device | jax.sharding.Sharding | str | None = None,
) -> Array:
    """Return the frequencies of `rfft`: from 0 up, in cycles per unit of the spacing.

    Parameters
    ----------
    n
        Number of points, at least 1.
    d
        Spacing of the samples, not 0.
    dtype
        Real floating; the default float by default.
    device
        Where to put the array; the default device by default.

    Returns
    -------
    Array
        Of shape (n // 2 + 1,).

    Raises
    ------
    InvalidArgument
        There are no points, or the spacing is 0.
    UnsupportedDType
        The dtype is not real floating.
    BackendUnavailable
        There is no such device.
    """
    return _frequencies(_rfftfreq, "rfftfreq", n, d, dtype, device)


def fftshift(x: Array, /, *, axes: int | Sequence[int] | None = None) -> Array:
    """Move the zero frequency from the front to the middle.

    Parameters
    ----------
    x
        Array of any dtype.
    axes
        Axis or axes to shift; all of them by default.

    Returns
    -------
    Array
        Of the shape and dtype of `x`.

    Raises
    ------
    InvalidDimension
        `x` has no such axis, or one is given twice.
    """
    return call1(_fftshift, x, as_axis(axes, "fftshift", "axes"))


def ifftshift(x: Array, /, *, axes: int | Sequence[int] | None = None) -> Array:
    """Move the zero frequency from the middle back to the front.

    Parameters
    ----------
    x
        Array of any dtype.
    axes
        Axis or axes to shift; all of them by default.

    Returns
    -------
    Array
        Of the shape and dtype of `x`.

    Raises
    ------
    InvalidDimension
        `x` has no such axis, or one is given twice.
    """
    return call1(_ifftshift, x, as_axis(axes, "ifftshift", "axes"))
