"""Functions beyond the standard that NumPy has and its users miss: `array`, `pad`, `isclose`, `allclose`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import jax
import numpy as np

from .._array import Array, call2, lift
from ..core.axes import as_int
from ..core.devices import DeviceLike
from ..core.dispatch import Op
from ..core.dtypes import INTEGRAL, DType, DTypeLike
from ..errors import DTypeMismatch, InvalidArgument
from ..raw import extras as raw
from ._conversion import convert
from ._host import host_cast, number
from .manipulation import reshape

if TYPE_CHECKING:
    Scalar: TypeAlias = bool | int | float | complex
    ArrayLike: TypeAlias = Array | jax.Array | np.ndarray
    Nested: TypeAlias = Sequence["Scalar | ArrayLike | Nested"]
    Widths: TypeAlias = int | Sequence[int] | Sequence[Sequence[int]]

__all__ = ["allclose", "array", "isclose", "pad"]

_isclose = Op("isclose", raw.isclose, ("rtol", "atol", "equal_nan"))
_allclose = Op("allclose", raw.allclose, ("rtol", "atol", "equal_nan"))
_pad = Op("pad", raw.pad, ("pad_width", "mode", "stat_length", "reflect_type"))

_MODES = (
    "constant",
    "edge",
    "empty",
    "linear_ramp",
    "maximum",
    "mean",
    "median",
    "minimum",
    "reflect",
    "symmetric",
    "wrap",
)


def allclose(
    x1: ArrayLike | Scalar,
    x2: ArrayLike | Scalar,
    /,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Tell whether all elements are equal within a tolerance.

    Parameters
    ----------
    x1, x2
        Arrays that broadcast, or scalars.
    rtol, atol
        Largest difference, ``atol + rtol * |x2|``.
    equal_nan
        Whether NaN equals NaN.

    Returns
    -------
    Array
        0-d, of dtype bool; ``bool`` of it reads the value.

    Raises
    ------
    BroadcastError
        The shapes do not fit.
    """
    return call2(_allclose, x1, x2, _tolerances(rtol, atol, equal_nan, "allclose"))


def isclose(
    x1: ArrayLike | Scalar,
    x2: ArrayLike | Scalar,
    /,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Tell which elements are equal within a tolerance.

    Parameters
    ----------
    x1, x2
        Arrays that broadcast, or scalars.
    rtol, atol
        Largest difference of finite elements, ``atol + rtol * |x2|``. Infinite ones must be equal.
    equal_nan
        Whether NaN equals NaN.

    Returns
    -------
    Array
        Of dtype bool.

    Raises
    ------
    BroadcastError
        The shapes do not fit.

    Notes
    -----
    Integers are compared in float64, floats below 32 bits in float32.
    """
    return call2(_isclose, x1, x2, _tolerances(rtol, atol, equal_nan, "isclose"))


def _tolerances(rtol: float, atol: float, equal_nan: bool, operation: str) -> tuple[float, float, bool]:
    return float(number(rtol, operation, "rtol")), float(number(atol, operation, "atol")), bool(equal_nan)


def array(
    obj: ArrayLike | Scalar | Nested,
    /,
    dtype: DTypeLike | None = None,
    *,
    copy: bool | None = True,
    ndmin: int = 0,
    device: DeviceLike | None = None,
) -> Array:
    """Return a new Array of an object, as ``numpy.array`` does.

    Parameters
    ----------
    obj, dtype, device
        As in `asarray`.
    copy
        True: independent of `obj`. None: share what can be shared. False: never copy.
    ndmin
        The least number of axes; axes of size one are put in front.

    Raises
    ------
    As `asarray`.
    """
    out = convert(obj, dtype, device, copy, "array")
    missing = as_int(ndmin, "array", "ndmin") - out.ndim
    return reshape(out, (1,) * missing + out.shape) if missing > 0 else out


def pad(
    x: ArrayLike,
    /,
    pad_width: Widths | dict[int, int | tuple[int, int]],
    mode: Literal[
        "constant",
        "edge",
        "empty",
        "linear_ramp",
        "maximum",
        "mean",
        "median",
        "minimum",
        "reflect",
        "symmetric",
        "wrap",
    ] = "constant",
    *,
    constant_values: Scalar | ArrayLike | Nested = 0,
    end_values: Scalar | ArrayLike | Nested = 0,
    stat_length: Widths | None = None,
    reflect_type: Literal["even", "odd"] = "even",
) -> Array:
    """Extend an array at both ends of each axis, as ``numpy.pad`` does.

    Parameters
    ----------
    x
        The array.
    pad_width
        Elements to add: an integer; ``(before, after)`` for every axis; one such pair for each axis; or a dict from
        axis to one of these.
    mode
        What they are: a constant, the edge, unspecified, a ramp to `end_values`, a statistic of the axis, or the
        array itself reflected, mirrored or repeated.
    constant_values, end_values
        For ``"constant"`` and ``"linear_ramp"``: a value, a pair, or a pair for each axis.
    stat_length
        For the statistics: how many elements at each edge they are taken of; all if None.
    reflect_type
        For ``"reflect"`` and ``"symmetric"``; ``"odd"`` reflects about the value at the edge too.

    Returns
    -------
    Array
        The dtype of `x`.

    Raises
    ------
    InvalidArgument
        A width is negative or not an integer, the mode is unknown, or it cannot fill the width.
    DTypeMismatch
        The dtype of `x` cannot hold the values.
    """
    if mode not in _MODES:
        raise InvalidArgument(
            "pad", "mode", got=repr(mode), wanted=", ".join(_MODES), arg="mode", reason="unknown mode"
        )
    if reflect_type not in ("even", "odd"):
        raise InvalidArgument(
            "pad",
            "reflect_type",
            got=repr(reflect_type),
            wanted="'even' or 'odd'",
            arg="reflect_type",
            reason="unknown",
        )
    data = lift(x, None, "pad")
    widths = _pairs(pad_width, data.ndim, "pad_width")
    lengths = None if stat_length is None else _pairs(stat_length, data.ndim, "stat_length")
    argument = "end_values" if mode == "linear_ramp" else "constant_values"
    values = _fitting(end_values if mode == "linear_ramp" else constant_values, data.dtype, argument)
    return call2(_pad, x, values, (widths, mode, lengths, reflect_type))


def _pairs(value: object, ndim: int, argument: str) -> tuple[tuple[int, int], ...]:
    if type(value) is int and value >= 0:
        return ((value, value),) * ndim
    if isinstance(value, dict):
        by_axis: list[object] = [(0, 0)] * ndim
        for axis, width in value.items():
            by_axis[as_int(axis, "pad", argument)] = (width, width) if isinstance(width, int) else width
        value = by_axis
    try:
        found = np.broadcast_to(np.asarray(value), (ndim, 2))
    except ValueError as error:
        raise InvalidArgument(
            "pad",
            argument,
            got=value,
            wanted=f"an integer, a pair, or a pair for each of {ndim} axes",
            arg=argument,
            reason=str(error),
        ) from error
    if found.dtype.kind not in "iu" or found.min(initial=0) < 0:
        raise InvalidArgument(
            "pad", argument, got=value, wanted="integers of 0 or more", arg=argument, reason="not a width"
        )
    return tuple((int(before), int(after)) for before, after in found)


def _fitting(values: object, dtype: DType, argument: str) -> Array:
    if isinstance(values, (Array, jax.Array)):
        return convert(values, dtype, None, None, "pad", argument)
    if isinstance(values, (bool, int)):
        return convert(values, dtype, None, None, "pad", argument)
    host = np.asarray(values)
    if dtype in INTEGRAL and host.dtype.kind == "f" and not bool(np.all(host == np.floor(host))):
        raise DTypeMismatch(
            "pad", argument, got=values, wanted=f"integers, for an array of dtype {dtype.name}", remedy="Cast x first."
        )
    return convert(host_cast(host, dtype, "pad", argument), None, None, None, "pad", argument)
