"""Operands from the host: Python scalars as interned 0-d arrays, NumPy memory as private copies."""

from __future__ import annotations

import builtins
import math

import jax
import numpy as np
from jax.core import Tracer

from .._compat import X64_UNSET, ArrayImpl, place_default, restore_x64, swap_x64, trace_is_clean
from ..errors import ScalarOverflow, UnsupportedDType
from .dtypes import INEXACT, INTEGRAL, WIDE, default_complex, default_float, default_int
from .handle import Handle, data_of, tracing
from .lazy import Lazy, resolve
from .promotion import operand_dtype

__all__ = ["SCALARS", "clear_scalars", "lift", "place", "scalar_operand", "unpickle"]

_MAX_SCALARS = 4096

SCALARS = frozenset((bool, int, float, complex))

_scalars: dict[tuple[object, ...], tuple[jax.Array, bool]] = {}
_staged = jax.jit(lambda x: x, inline=True)


def scalar_operand(value: complex, dtype: np.dtype) -> tuple[jax.Array, bool]:
    """Return a Python scalar as a 0-d array for use beside an array of `dtype`, and whether it is 64-bit."""
    # Beside integers the default dtypes decide, which may differ at the next call.
    kind = value.__class__
    own = dtype in INEXACT or (kind is int and dtype in INTEGRAL)
    target = dtype if own else operand_dtype(value, dtype)
    key: tuple[object, ...] = (kind, value, target)
    if not value and kind is not bool and kind is not int:
        # 0.0 == -0.0: the signs are part of the key.
        z = complex(value)
        key = (*key, math.copysign(1.0, z.real), math.copysign(1.0, z.imag))
    found = _scalars.get(key)
    if found is not None and not found[0].is_deleted():
        return found
    target = operand_dtype(value, dtype)
    wide = target in WIDE
    array = place(np.asarray(value, target))
    if type(array) is ArrayImpl and value == value and trace_is_clean():
        if len(_scalars) >= _MAX_SCALARS:
            del _scalars[next(iter(_scalars))]
        _scalars[key] = (array, wide)
    return array, wide


def lift(value: object, dtype: np.dtype | None = None, operation: str = "asarray", argument: str = "x") -> jax.Array:
    """Return host input as a raw array.

    Parameters
    ----------
    value
        A handle, ``jax.Array``, NumPy array or scalar, or Python scalar.
    dtype
        For Python scalars only; the default dtype of their kind when None.

    Notes
    -----
    Memory of the caller is copied first: JAX reads it after the call returns.

    Raises
    ------
    UnsupportedDType
        The dtype has no counterpart on a device (objects, strings, datetimes).
    """
    if isinstance(value, Handle):
        return data_of(value)
    if isinstance(value, jax.Array):
        if isinstance(value, Tracer):
            tracing.tracer_seen()
        return value
    if type(value) is Lazy:
        return resolve(value)
    if isinstance(value, np.ndarray | np.generic):
        host = np.array(value, dtype, order="C")
    elif isinstance(value, builtins.bool | int | float | complex):
        host = np.asarray(value, dtype if dtype is not None else _default_dtype(value))
    else:
        raise UnsupportedDType(
            operation,
            argument,
            got=f"an object of type {type(value).__name__}",
            wanted="an Array, a jax.Array, a NumPy array or a Python scalar",
            remedy=getattr(type(value), "_remedy", "Convert it with asarray first."),
            dtype=type(value).__name__,
            op=operation,
        )
    if host.dtype.kind not in "biufcV" or (host.dtype.kind == "V" and host.dtype.names is not None):
        raise UnsupportedDType(
            operation, argument, got=f"dtype {host.dtype}", wanted="numbers or booleans", dtype=host.dtype, op=operation
        )
    if not host.dtype.isnative:
        host = host.astype(host.dtype.newbyteorder("="))
    return place(host)


def place(host: np.ndarray) -> jax.Array:
    """Put private host memory on the default device. The caller must not touch `host` afterwards."""
    wide = host.dtype in WIDE
    previous = X64_UNSET
    try:
        if wide:
            previous = swap_x64(True)
        if trace_is_clean():
            return place_default(host)
        placed: jax.Array = _staged(host)
        return placed
    finally:
        if wide:
            restore_x64(previous)


def unpickle(host: np.ndarray) -> jax.Array:
    """Put what a pickle held on the default device; memory that came beside the pickle is the caller's."""
    return place(host if host.flags.owndata else host.copy())


def _default_dtype(value: complex) -> np.dtype:
    if isinstance(value, bool):
        return np.dtype(bool)
    if isinstance(value, int):
        dtype = default_int(None)
        info = np.iinfo(dtype)
        if not info.min <= value <= info.max:
            raise ScalarOverflow(
                "asarray",
                "obj",
                got=value,
                wanted=f"an integer that fits {dtype}",
                remedy="Give a dtype, or make it a float.",
                dtype=dtype,
                arg="obj",
                reason="out of range",
            )
        return dtype
    return default_float(None) if isinstance(value, float) else default_complex(None)


def clear_scalars() -> None:
    """Forget the interned scalars."""
    _scalars.clear()
