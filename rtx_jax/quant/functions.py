"""quantize and dequantize, on Array and on ``jax.Array``."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeAlias, TypeVar, overload

import jax
import numpy as np
from jax.core import Tracer

from .._array import Array, calln, lift, wrap_shared
from ..checks import quant as check
from ..core.dispatch import Op
from ..core.dtypes import REAL_FLOATING as _REAL
from ..core.dtypes import DTypeLike, as_dtype
from ..errors import InvalidArgument, ShapeMismatch, UnsupportedDType
from ..ops import quant as _raw
from .schemes import Calibration, QuantScheme
from .tensor import QTensor

__all__ = ["dequantize", "quantize"]

T = TypeVar("T", Array, jax.Array)
Quantized: TypeAlias = QTensor[Array] | QTensor[jax.Array]
"""A quantized array of either kind."""

_quantize = Op(
    "quantize",
    _raw.quantize,
    ("value", "block", "scale_dtype", "global_scale", "symmetric", "calibration", "packed"),
)


def _dequantize_raw(*parts: jax.Array, present: tuple[bool, bool], **static: object) -> jax.Array:
    data, scale, zero, overall = four(parts, present)
    return _raw.dequantize(data, scale, zero, overall, **static)  # type: ignore[arg-type]


FORMAT = ("value", "shape", "block", "scale_dtype", "packed")
_dequantize = Op("dequantize", _dequantize_raw, ("present", *FORMAT, "dtype"))


def four(
    parts: Sequence[jax.Array], present: tuple[bool, bool]
) -> tuple[jax.Array, jax.Array, jax.Array | None, jax.Array | None]:
    rest = iter(parts[2:])
    return parts[0], parts[1], next(rest) if present[0] else None, next(rest) if present[1] else None


def call(op: Op, operands: Sequence[object], static: Hashable, raw: bool) -> object:
    """Run an operation through the door of Arrays; give ``jax.Array``s back to a caller who brought them."""
    result = calln(op, tuple(x if isinstance(x, Array) else wrap_shared(lift(x)) for x in operands), static)
    if not raw:
        return result
    return tuple(part.jax for part in result) if isinstance(result, tuple) else result.jax  # type: ignore[attr-defined]


def is_raw(*operands: object) -> bool:
    """Whether all operands are ``jax.Array``s, which the caller then gets back."""
    return all(isinstance(x, jax.Array) for x in operands)


@overload
def quantize(
    x: jax.Array, scheme: QuantScheme, /, *, calibration: Calibration = "minmax", scale: float | jax.Array | None = None
) -> QTensor[jax.Array]: ...
@overload
def quantize(
    x: Array | np.ndarray,
    scheme: QuantScheme,
    /,
    *,
    calibration: Calibration = "minmax",
    scale: float | Array | None = None,
) -> QTensor[Array]: ...
def quantize(
    x: Array | jax.Array | np.ndarray,
    scheme: QuantScheme,
    /,
    *,
    calibration: Calibration = "minmax",
    scale: float | Array | jax.Array | None = None,
) -> QTensor[Array] | QTensor[jax.Array]:
    """Quantize an array.

    Each block gets the smallest scale, in the scheme's scale dtype, with which its range fits. Numbers are divided by
    it and rounded to nearest, ties to even; what lies outside of the range becomes its end. A block of zeros has
    scale 1.

    Parameters
    ----------
    x
        Array of a real floating dtype, read as float32. Numbers below 2**-126 count as zero.
    scheme
        Format, granularity and scales.
    calibration
        How the range of a block is found. ``"minmax"``: from the least to the greatest number, zero included.
        ``"absmax"``: from minus the greatest magnitude to it. ``"absmean"``: from minus the mean magnitude to it.
        ``"mse"``: the part of the ``"minmax"`` range, of 24 from 9/32 to 32/32, with the least sum of squared errors.
    scale
        Scales to use instead of calibrated ones: a number, or an array that broadcasts to
        ``scheme.scale_shape(x.shape)``; rounded up to the scale dtype.

    Returns
    -------
    QTensor
        Of Arrays, or of ``jax.Array``s if `x` is one.

    Raises
    ------
    UnsupportedDType
        `x` has no real floating dtype.
    InvalidArgument
        `x` has NaN or infinities, `scheme` is no scheme, or there is no such calibration.
    InvalidDimension, ShapeMismatch
        The array lacks the axis of the scheme; the block does not divide its shape.

    Notes
    -----
    Integers are off by at most half a scale where the range holds the number; floats by half the spacing of the format
    at ``abs(x) / scale``, times the scale. Under tracing nothing can be raised for values: there NaN and infinity make
    their blocks' scales NaN.

    Examples
    --------
    >>> import rtx_jax as xp
    >>> from rtx_jax.quant import QuantScheme, dequantize, quantize
    >>> q = quantize(xp.asarray([0.5, -1.27, 1.0], dtype=xp.float32), QuantScheme("int8"))
    >>> q.data
    Array([  50, -127,  100], dtype=int8)
    """
    raw = is_raw(x)
    array = x if isinstance(x, Array) else wrap_shared(lift(x, None, "quantize", "x"))
    shape, dtype = array.shape, array.dtype  # the Array may be given up to the call
    require_float("quantize", "x", dtype)
    if not isinstance(scheme, QuantScheme):
        raise _no("quantize", "scheme", scheme, "a QuantScheme", 'Make one: QuantScheme("int8").')
    check.as_calibration("quantize", calibration)
    block = scheme.block(shape)
    operands: tuple[object, ...] = (array,)
    if scale is not None:
        operands = (array, _given_scale(scale, scheme.scale_shape(shape)))
    static = (
        scheme.value,
        block,
        scheme.scale_dtype,
        scheme.global_scale,
        scheme.symmetric,
        calibration,
        scheme.packed,
    )
    parts: list[Array] = list(call(_quantize, operands, static, raw))  # type: ignore[call-overload]
    finite = parts.pop()
    if not isinstance(finite if raw else finite.jax, Tracer) and not bool(finite):
        raise check.not_finite("quantize")
    data, stored, *rest = parts
    zero = None if scheme.symmetric else rest[0]
    overall = rest[-1] if scheme.global_scale else None
    return QTensor(data, stored, zero, overall, shape=shape, scheme=scheme, dtype=dtype)


def _given_scale(scale: float | Array | jax.Array, grid: tuple[int, ...]) -> object:
    value = scale if isinstance(scale, Array | jax.Array) else np.asarray(scale, np.float32)
    if isinstance(value, np.ndarray) and not (np.isfinite(value).all() and (value >= 2.0**-125).all()):
        raise InvalidArgument(
            "quantize",
            "scale",
            got=repr(scale),
            wanted="finite scales of at least 2**-125",
            arg="scale",
            reason="out of range",
        )
    try:
        fits = np.broadcast_shapes(value.shape, grid) == grid
    except ValueError:
        fits = False
    if not fits:
        raise ShapeMismatch(
            "quantize",
            "scale",
            got=f"shape {value.shape}",
            wanted=f"a shape that broadcasts to one scale for each block: {grid}",
            expected=grid,
            got_shape=value.shape,
        )
    return value


@overload
def dequantize(q: QTensor[Array], /, *, dtype: DTypeLike | None = None) -> Array: ...
@overload
def dequantize(q: QTensor[jax.Array], /, *, dtype: DTypeLike | None = None) -> jax.Array: ...
def dequantize(q: Quantized, /, *, dtype: DTypeLike | None = None) -> Array | jax.Array:
    """Return the numbers that a quantized array stands for.

    Parameters
    ----------
    q
        The quantized array.
    dtype
        Real floating dtype of the result; that of what was quantized by default.

    Returns
    -------
    Array or jax.Array
        ``(data - zero) * scale * overall``, computed in float32; of the type of the tensor's parts.

    Raises
    ------
    UnsupportedDType
        `dtype` is not a real floating dtype.
    InvalidArgument
        `q` is not quantized.
    """
    if not isinstance(q, QTensor):
        raise _no("dequantize", "q", q, "a QTensor", "Quantize it first.")
    target = q.dtype if dtype is None else as_dtype(dtype, "dequantize")
    require_float("dequantize", "dtype", target)
    static = (present(q), *stored_format(q), target)
    result: Array = call(_dequantize, q.parts(), static, is_raw(q.data))  # type: ignore[assignment]
    return _exchanged(result) if q.transposed else result


def _no(operation: str, argument: str, value: object, wanted: str, remedy: str) -> InvalidArgument:
    return InvalidArgument(
        operation, argument, got=type(value).__name__, wanted=wanted, remedy=remedy, arg=argument, reason="another type"
    )


def require_float(operation: str, argument: str, dtype: np.dtype) -> None:
    if dtype not in _REAL:
        raise UnsupportedDType(
            operation, argument, got=dtype.name, wanted="a real floating dtype", dtype=dtype, op=operation
        )


def present(q: QTensor[Array] | QTensor[jax.Array]) -> tuple[bool, bool]:
    """Return whether there are zero points and a global scale."""
    return q.zero is not None, q.overall is not None


def stored_format(q: Quantized) -> tuple[object, ...]:
    """Return the static parameters that say how the values are stored, in the order of `FORMAT`."""
    scheme = q.stored_scheme
    return scheme.value, q.stored_shape, scheme.block(q.stored_shape), scheme.scale_dtype, scheme.packed


def _exchanged(x: T) -> T:
    """Return the array with its last two axes exchanged."""
    exchanged: T = x.T if x.ndim == 2 else x.swapaxes(-1, -2)
    return exchanged
