"""Values and memory of the host on their way to a device: casts, keys of constants, and calls without operands."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Sequence

import jax
import numpy as np
from jax.sharding import Sharding, SingleDeviceSharding

from .._array import Array
from .._compat import X64_UNSET, restore_x64, swap_x64, trace_is_clean
from ..core.axes import as_int
from ..core.devices import Placement, device_name
from ..core.devices import place as place_on
from ..core.dispatch import Op, place, raise_translated
from ..core.dtypes import COMPLEX, INTEGRAL, KIND, WIDE, DType, bool_
from ..core.promotion import integer_range
from ..errors import DTypeMismatch, InvalidArgument, RtxError, ScalarOverflow, UnsupportedDType

__all__ = [
    "check_dtype",
    "host_cast",
    "host_scalar",
    "make",
    "make_constant",
    "number",
    "out_of_range",
    "put",
    "scalar_key",
]

# One compiled function costs 15 ms and half a megabyte; interned constants are up to this size too.
_SMALL_BYTES = 4096


def scalar_key(value: complex) -> tuple[type, object]:
    """Return a key of a Python scalar that tells signs of zeros and NaNs, and under which NaN is found again."""
    kind = type(value)
    if kind is int or kind is bool or (kind is float and value and value == value):
        return kind, value
    return kind, (repr(value), math.copysign(1.0, value.real), math.copysign(1.0, value.imag))


def number(value: object, operation: str, argument: str) -> int | float:
    """Return a real number that a caller gave, as a Python int or float.

    Raises
    ------
    UnsupportedDType
        It is complex.
    InvalidArgument
        It is no number.
    """
    if type(value) is int or type(value) is float:
        return value
    if isinstance(value, (Array, jax.Array, np.ndarray)) and value.ndim == 0:
        value = Array(value).item() if isinstance(value, jax.Array) else value.item()
    elif isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, complex):
        raise UnsupportedDType(
            operation, argument, got=value, wanted="a real number", dtype=np.dtype(complex), op=operation
        )
    return float(value) if isinstance(value, float) else as_int(value, operation, argument)


def host_scalar(value: complex, dtype: DType, operation: str, argument: str) -> np.ndarray:
    """Return a Python scalar as a 0-d array of `dtype`.

    Raises
    ------
    ScalarOverflow
        An int out of the range of an integer dtype, or too large for any float.
    DTypeMismatch
        A complex number for a real dtype.
    """
    if isinstance(value, int) and dtype in INTEGRAL:
        least, greatest = integer_range(dtype)
        if not least <= value <= greatest:
            raise out_of_range(value, dtype, operation, argument)
        return np.asarray(value, dtype)
    if isinstance(value, int) and not isinstance(value, bool) and dtype != bool_:
        try:
            value = float(value)
        except OverflowError as error:
            raise out_of_range("an integer of more than 1024 bits", dtype, operation, argument) from error
    return host_cast(np.asarray(value), dtype, operation, argument)


def out_of_range(value: object, dtype: DType, operation: str, argument: str) -> ScalarOverflow:
    """Return the error for an integer that does not fit a dtype."""
    limits = integer_range(dtype) if dtype in INTEGRAL else None
    return ScalarOverflow(
        operation,
        argument,
        got=value,
        wanted=f"a value from {limits[0]} to {limits[1]}, for {dtype.name}" if limits else f"a value of {dtype.name}",
        remedy="Give a wider dtype, or make it a float.",
        dtype=dtype,
        arg=argument,
        reason="out of range",
    )


def host_cast(host: np.ndarray, dtype: DType, operation: str, argument: str) -> np.ndarray:
    """Cast on the host by the rule of the devices: floats saturate on their way to integers, and NaN becomes 0.

    Raises
    ------
    DTypeMismatch
        Complex numbers for a real dtype.
    """
    if host.dtype == dtype:
        return host
    if host.dtype.kind == "c" and dtype not in COMPLEX and dtype != bool_:
        raise DTypeMismatch(
            operation,
            argument,
            got=f"complex numbers for dtype {dtype.name}",
            wanted="a complex dtype",
            remedy="Take xp.real or xp.abs first.",
        )
    if dtype in INTEGRAL and host.dtype not in INTEGRAL and host.dtype != bool_:
        wide = host.astype(np.float64)
        least, greatest = integer_range(dtype)
        low, high = wide <= float(least), wide >= float(greatest)
        # float(greatest) of 64 bits is one too many: nothing that reaches the cast is outside of the range.
        inner = np.where(low | high | np.isnan(wide), 0.0, wide).astype(dtype)
        return np.where(low, np.array(least, dtype), np.where(high, np.array(greatest, dtype), inner))
    with np.errstate(over="ignore", invalid="ignore"):
        return host.astype(dtype)


def check_dtype(dtype: np.dtype, operation: str, argument: str) -> None:
    """Raise UnsupportedDType for a dtype of NumPy that devices do not have."""
    if dtype.newbyteorder("=") not in KIND:
        raise UnsupportedDType(
            operation, argument, got=f"dtype {dtype}", wanted="numbers or booleans", dtype=dtype, op=operation
        )


def put(host: np.ndarray, placement: Placement | None, operation: str) -> jax.Array:
    """Return private host memory as a raw array; the caller must not touch `host` afterwards."""
    if placement is None:
        return place(host)
    return place_on(host, placement, operation)  # type: ignore[arg-type]


def make_constant(
    op: Op,
    operands: Sequence[np.ndarray],
    static: Hashable,
    placement: Placement | None,
    on_host: Callable[[], np.ndarray],
    nbytes: int,
) -> jax.Array:
    """Run an operation that creates an array, or let the host write a small one, which needs no compiled call."""
    if nbytes > _SMALL_BYTES or isinstance(placement, Sharding) or not trace_is_clean():
        return make(op, operands, static, placement)
    return put(on_host(), placement, op.name)


@functools.lru_cache(maxsize=256)
def _on(jitted: Callable[..., jax.Array], placement: Placement) -> Callable[..., jax.Array]:
    sharding = placement if isinstance(placement, Sharding) else SingleDeviceSharding(placement)
    return jax.jit(jitted, out_shardings=sharding)


def make(op: Op, operands: Sequence[np.ndarray], static: Hashable, placement: Placement | None) -> jax.Array:
    """Run an operation that creates an array, right where it shall live.

    Parameters
    ----------
    op, static
        The operation and its static parameters.
    operands
        0-d host arrays of the right dtype.
    placement
        Device or sharding of the result, or None for the default device.

    Raises
    ------
    InvalidArgument
        The sharding does not fit the shape.
    """
    jitted, wide = op.variant(static)
    wide = wide or any(x.dtype in WIDE for x in operands)
    previous = X64_UNSET
    try:
        if wide:
            previous = swap_x64(True)
        if placement is None:
            return jitted(*operands)  # type: ignore[return-value]
        if not trace_is_clean():
            placed: jax.Array = jax.device_put(jitted(*operands), placement)
            return placed
        return _on(jitted, placement)(*operands)
    except ValueError as error:
        if placement is None or isinstance(error, RtxError):
            raise_translated(op.name, error)
        raise InvalidArgument(
            op.name,
            "device",
            got=device_name(placement),
            wanted="a sharding that divides the shape",
            remedy=str(error).splitlines()[0],
            arg="device",
            reason=str(error),
        ) from error
    except Exception as error:
        raise_translated(op.name, error)
    finally:
        if wide:
            restore_x64(previous)
