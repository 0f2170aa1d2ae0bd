"""`arange` and `linspace`: lengths, the dtype to compute in, and the values; few are written by the host."""

from __future__ import annotations

import math

import jax
import numpy as np

from ..core.devices import Placement
from ..core.dispatch import Op
from ..core.dtypes import (
    COMPLEX,
    FLOAT8,
    INTEGRAL,
    NARROW_INT,
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int32,
    real_of,
)
from ..core.promotion import integer_range
from ..errors import InvalidArgument, UnsupportedDType
from ..raw import creation as raw
from ._host import host_cast, host_scalar, make_constant, out_of_range

__all__ = ["arange_size", "linspace_op", "linspace_static", "make_arange", "make_linspace"]

_NARROW = FLOAT8 | {float16, bfloat16}  # dtypes that are computed in float32

_arange = Op("arange", raw.arange, ("size", "dtype"))
linspace_op = Op("linspace", raw.linspace, ("num", "endpoint", "compute", "dtype"))


def arange_size(start: int | float, stop: int | float, step: int | float) -> int:
    """Return the number of values of a range.

    Raises
    ------
    InvalidArgument
        The step is 0, or the number is not finite.
    """
    if type(start) is int and type(stop) is int and type(step) is int and step:
        return max(0, -((start - stop) // step))
    try:
        return max(0, math.ceil((stop - start) / step))
    except (ZeroDivisionError, OverflowError, ValueError) as error:
        argument = "step" if step == 0 else "stop"
        raise InvalidArgument(
            "arange",
            argument,
            got=f"start={start}, stop={stop}, step={step}",
            wanted="a step other than 0" if step == 0 else "a finite length",
            arg=argument,
            reason="length",
        ) from error


def make_arange(
    start: int | float, step: int | float, size: int, dtype: DType, placement: Placement | None
) -> jax.Array:
    """Return ``start + step * i`` for i below `size`.

    Raises
    ------
    ScalarOverflow
        A value does not fit an integer dtype.
    UnsupportedDType
        The dtype is bool.
    """
    if dtype == bool_:
        raise UnsupportedDType("arange", "dtype", got="bool", wanted="a numeric dtype", dtype=dtype, op="arange")
    compute = float32 if dtype in _NARROW else int32 if dtype in NARROW_INT else real_of(dtype)
    if dtype in INTEGRAL and type(start) is int and type(step) is int:
        if size:
            least, greatest = integer_range(dtype)
            for value in (start, start + (size - 1) * step):
                if not least <= value <= greatest:
                    raise out_of_range(value, dtype, "arange", "stop")
        # Only the distance may leave the range of the dtype, where it wraps around and back.
        low, high = integer_range(compute)
        start, step = (v if low <= v <= high else (v - low) % (high - low + 1) + low for v in (start, step))
        operands = [np.asarray(start, compute), np.asarray(step, compute)]
    else:
        compute = float64 if dtype in INTEGRAL else compute
        operands = [host_scalar(v, compute, "arange", "start") for v in (start, step)]

    def on_host() -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            values = operands[0] + operands[1] * np.arange(size, dtype=compute)
        return host_cast(values, dtype, "arange", "start")

    return make_constant(_arange, operands, (size, dtype), placement, on_host, size * dtype.itemsize)


def linspace_static(num: int, endpoint: bool, dtype: DType) -> tuple[int, bool, DType, DType]:
    """Return the static parameters of `linspace`, with the dtype to compute in."""
    compute = float64 if dtype in INTEGRAL else float32 if dtype in _NARROW else dtype
    return num, endpoint, compute, dtype


def make_linspace(
    start: complex, stop: complex, static: tuple[int, bool, DType, DType], placement: Placement | None
) -> jax.Array:
    """Return evenly spaced numbers between two Python scalars."""
    num, endpoint, compute, dtype = static
    ends = [host_scalar(v, compute, "linspace", name) for v, name in ((start, "start"), (stop, "stop"))]
    divisions = num - 1 if endpoint else num
    # By the divisions, so that endpoint=False gives the very numbers of endpoint=True with one more.
    nbytes = divisions * dtype.itemsize
    return make_constant(
        linspace_op, ends, static, placement, lambda: _line(ends[0], ends[1], num, divisions, dtype), nbytes
    )


def _line(start: np.ndarray, stop: np.ndarray, num: int, divisions: int, dtype: DType) -> np.ndarray:
    """Do as `raw.creation.linspace` does."""
    compute = start.dtype
    if compute in COMPLEX:
        out = np.empty(num, compute)
        out.real = _line(start.real, stop.real, num, divisions, start.real.dtype)
        out.imag = _line(start.imag, stop.imag, num, divisions, start.real.dtype)
        return out
    if divisions < 1:
        return host_cast(np.broadcast_to(start, (num,)).copy(), dtype, "linspace", "start")
    n = np.asarray(divisions, compute)
    i = np.arange(num, dtype=compute)
    with np.errstate(over="ignore", invalid="ignore"):
        distance = stop - start
        step = distance / n if np.isfinite(distance) else stop / n - start / n
        half = n / 2
        out = np.where(i < half, start + i * step, stop - (n - i) * step)
        out = np.where(i == half, start / 2 + stop / 2, out)
        out = np.where(i == 0, start, np.where(i == n, stop, out))
        if dtype in INTEGRAL:
            out = np.floor(out)
    return host_cast(out, dtype, "linspace", "start")
