"""Quantization: ranges of blocks, scales, codes, and products with quantized matrices.

A block of numbers x has a scale s and, if its range is not symmetric, an integer zero point z. Its codes are
``clip(round(x / s) + z)``, ties to even, and stand for ``(code - z) * s``. The steps up to the codes are float32
arithmetic in the order written here, one rounding each, so that every device finds the same integers; numbers below the
smallest normal float32 count as zero. Operands and parameters are those of `rtx_jax.ops.quant`.
"""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from ...checks.quant import FORMATS, SMALLEST_SCALE, Format, block_grid, packed_shape
from .rounding import narrow, wide

__all__ = ["dequantize", "integer_matmul", "quantize", "quantized_matmul", "weight_matmul"]

_FLOATS = {
    "fp8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "fp8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "fp4_e2m1": np.dtype(ml_dtypes.float4_e2m1fn),
}
_SCALES = {
    "float32": np.dtype(np.float32),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "e8m0": np.dtype(ml_dtypes.float8_e8m0fnu),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
}
_FLOAT32 = np.dtype(np.float32)
_LEAST = np.float32(SMALLEST_SCALE)
_TINY = np.float32(2.0**-126)


def quantize(
    x: np.ndarray,
    scale: np.ndarray | None = None,
    /,
    *,
    value: str,
    block: tuple[int, ...],
    scale_dtype: str,
    global_scale: bool,
    symmetric: bool,
    calibration: str,
    packed: bool,
) -> tuple[np.ndarray, ...]:
    """Return the codes and the scales; then the zero points and the global scale, where there are; then whether all of
    `x` is finite.
    """
    form = FORMATS[value]
    grid = block_grid("quantize", x.shape, block)
    with np.errstate(all="ignore"):
        numbers = narrow(wide(x), _FLOAT32)
        finite = np.asarray(np.isfinite(numbers).all())
        numbers = _flushed(numbers)
        blocks = _by_block(numbers, grid, block)
        low, high = _range(blocks, form, symmetric, calibration if scale is None else "minmax")
        ideal = _ideal_scale(low, high, form, symmetric)
        if scale is not None:
            ideal = np.broadcast_to(narrow(wide(scale), _FLOAT32), grid)
        stored, overall = _stored(ideal, scale_dtype, global_scale)
        effective = _effective(stored, overall)
        zero = None if symmetric else _zero_point(low, effective, form)
        codes = _encode(numbers / _expand(effective, block), form, None if zero is None else _expand(zero, block))
    parts = [_pack(codes) if packed and form.bits == 4 else codes, stored]
    if zero is not None:
        parts.append(zero.astype(np.int8))
    if overall is not None:
        parts.append(overall)
    return (*parts, finite)


def dequantize(
    data: np.ndarray,
    scale: np.ndarray,
    zero: np.ndarray | None = None,
    overall: np.ndarray | None = None,
    /,
    *,
    value: str,
    shape: tuple[int, ...],
    block: tuple[int, ...],
    scale_dtype: str,
    packed: bool,
    dtype: np.dtype,
) -> np.ndarray:
    """Return ``(code - zero) * scale``, rounded once to `dtype`."""
    with np.errstate(all="ignore"):
        return narrow(_numbers(data, scale, zero, overall, FORMATS[value], shape, block, packed), dtype)


def _numbers(
    data: np.ndarray,
    scale: np.ndarray,
    zero: np.ndarray | None,
    overall: np.ndarray | None,
    form: Format,
    shape: tuple[int, ...],
    block: tuple[int, ...],
    packed: bool,
) -> np.ndarray:
    """Return what the codes stand for, exactly, as float64."""
    codes = _unpack(data, shape, form) if packed and form.bits == 4 else data
    numbers = codes.view(_FLOATS[form.name]) if form.name == "fp4_e2m1" else codes
    values = numbers.astype(np.float64)
    if zero is not None:
        values = values - _expand(zero.astype(np.float64), block)
    product: np.ndarray = values * _expand(_effective(scale, overall).astype(np.float64), block)
    return product


# Ranges


def _flushed(x: np.ndarray) -> np.ndarray:
    """Return zero for numbers below the smallest normal one."""
    return np.where(np.abs(x) < _TINY, np.float32(0), x)


def _by_block(x: np.ndarray, grid: tuple[int, ...], block: tuple[int, ...]) -> np.ndarray:
    """Return the elements of each block on the last axis: the grid's shape, then the size of a block."""
    split = x.reshape([size for pair in zip(grid, block, strict=True) for size in pair])
    order = (*range(0, split.ndim, 2), *range(1, split.ndim, 2))
    return split.transpose(order).reshape(*grid, math.prod(block))


def _expand(per_block: np.ndarray, block: tuple[int, ...]) -> np.ndarray:
    """Repeat values of the grid for each element of their block."""
    for axis, size in enumerate(block):
        per_block = np.repeat(per_block, size, axis)
    return per_block


def _range(blocks: np.ndarray, form: Format, symmetric: bool, calibration: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the greatest number that the codes of each block shall reach; 0 lies between them.

    ``"minmax"``: those of the block. ``"absmax"``: plus and minus the greatest magnitude, as any symmetric range.
    ``"absmean"``: plus and minus the mean magnitude. ``"mse"``: that part (32/32, 31/32, ..., 9/32) of the range that
    leaves the least squared error.
    """
    if calibration == "absmean":
        high = _mean(np.abs(blocks))
        return -high, high
    high = np.max(np.abs(blocks) if symmetric or calibration == "absmax" else blocks, -1, initial=np.float32(0))
    low = -high if symmetric or calibration == "absmax" else np.min(blocks, -1, initial=np.float32(0))
    if calibration != "mse":
        return low, high
    unit = np.maximum(np.maximum(-low, high), _LEAST)[..., None]
    least, best = np.full(low.shape, np.inf, np.float32), np.ones(low.shape, np.float32)
    for parts in range(32, 8, -1):
        part = np.float32(parts / 32)
        start, end = _flushed(low * part), _flushed(high * part)
        scale = _ideal_scale(start, end, form, symmetric)[..., None]
        zero = None if symmetric else _zero_point(start[..., None], scale, form)
        codes = _encode(blocks / scale, form, zero)
        numbers = (codes.view(_FLOATS[form.name]) if form.name == "fp4_e2m1" else codes).astype(np.float32)
        error = _flushed(blocks - (numbers if zero is None else numbers - zero) * scale) / unit
        total = _sum(_flushed(error * error))
        best = np.where(total < least, part, best)
        least = np.minimum(total, least)
    return _flushed(low * best), _flushed(high * best)


def _sum(x: np.ndarray) -> np.ndarray:
    """Sum the last axis by halving: zeros up to a power of two, then the first half plus the second, until one."""
    length = 1 << max(x.shape[-1] - 1, 0).bit_length()
    x = np.concatenate([x, np.zeros((*x.shape[:-1], length - x.shape[-1]), x.dtype)], -1)
    while length > 1:
        length //= 2
        x = x[..., :length] + x[..., length:]
    return x[..., 0]


def _mean(x: np.ndarray) -> np.ndarray:
    """Return the mean of the last axis; a power of two is divided by first, so that the sum is finite."""
    count = max(1, x.shape[-1])
    power = 2.0 ** -(count - 1).bit_length()
    mean: np.ndarray = _sum(_flushed(x * np.float32(power))) * np.float32(1 / (count * power))
    return mean


# Scales


def _ideal_scale(low: np.ndarray, high: np.ndarray, form: Format, symmetric: bool) -> np.ndarray:
    """Return the smallest float32 s whose codes reach the range; 1 where that is zero.

    Symmetric: ``top * s >= high``. Else the codes are ``-2 * least`` steps less one apart, and ``(-least - 1/2) * s``
    is at least half of ``high - low``.
    """
    width = high if symmetric else _flushed(high * np.float32(0.5)) - _flushed(low * np.float32(0.5))
    top = form.top if symmetric else -form.least - 0.5
    scale = narrow(width.astype(np.float64) / top, _FLOAT32)
    # The product with `top` is exact in float64, so this is the true quotient rounded up.
    short = scale.astype(np.float64) * top < width
    scale = np.where(short, np.nextafter(scale, np.float32(np.inf)), scale)
    return np.where(width < _TINY, np.float32(1), np.maximum(scale, _LEAST))


def _stored(ideal: np.ndarray, scale_dtype: str, global_scale: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the scales in their type, and the global one, which brings the greatest to 1 (e4m3: to 256)."""
    if not global_scale:
        return _rounded_up(ideal, scale_dtype), None
    greatest = ideal.max(initial=np.float32(0)) if ideal.size else np.float32(1)
    overall = np.maximum(greatest * np.float32(1 / 256 if scale_dtype == "e4m3" else 1), _LEAST)
    return _rounded_up(np.maximum(ideal / overall, _LEAST), scale_dtype), np.asarray(overall, np.float32)


def _rounded_up(scale: np.ndarray, scale_dtype: str) -> np.ndarray:
    """Return the smallest numbers of a type of scales that are not below `scale`."""
    dtype = _SCALES[scale_dtype]
    if scale_dtype == "float32":
        return scale.astype(np.float32)
    if scale_dtype == "e8m0":  # powers of two, stored as their exponent plus 127
        mantissa, exponent = np.frexp(scale)  # 1/2 <= mantissa < 1
        power: np.ndarray = (np.where(mantissa == 0.5, exponent - 1, exponent) + 127).astype(np.uint8).view(dtype)
        return power
    if scale_dtype == "e4m3":
        scale = np.clip(scale, np.float32(2.0**-9), np.float32(448))
    near = narrow(scale.astype(np.float64), dtype)
    bits = near.view(f"u{dtype.itemsize}")
    up: np.ndarray = (bits + (near.astype(np.float32) < scale)).astype(bits.dtype).view(dtype)
    return up


def _effective(scale: np.ndarray, overall: np.ndarray | None) -> np.ndarray:
    """Return the float32 scale of each block, the global one included."""
    found = scale.astype(np.float32)
    return found if overall is None else np.maximum(found * overall, _LEAST)


def _zero_point(low: np.ndarray, scale: np.ndarray, form: Format) -> np.ndarray:
    """Return the code that stands for 0, as float32."""
    zero: np.ndarray = np.clip(np.rint(-low / scale) + np.float32(form.least), form.least, -form.least - 1)
    return zero


# Codes


def _encode(scaled: np.ndarray, form: Format, zero: np.ndarray | None) -> np.ndarray:
    """Round to codes, ties to even; what is out of range becomes its end."""
    if form.integer:
        low, high = (-form.top, form.top) if zero is None else (form.least, -form.least - 1)
        codes: np.ndarray = np.clip(np.rint(scaled) + (0 if zero is None else zero), low, high).astype(np.int8)
        return codes
    rounded = narrow(np.clip(scaled, -form.top, form.top).astype(np.float64), _FLOATS[form.name])
    return rounded.view(np.uint8) & np.uint8(15) if form.bits == 4 else rounded


def _pack(codes: np.ndarray) -> np.ndarray:
    """Put two 4-bit codes into a byte, the first into the low half; an odd last one stands alone."""
    flat = codes.reshape(-1).view(np.uint8) & np.uint8(15)
    pairs = np.concatenate([flat, np.zeros(flat.size % 2, np.uint8)]).reshape(-1, 2)
    packed: np.ndarray = (pairs[:, 0] | (pairs[:, 1] << 4)).reshape(packed_shape(codes.shape))
    return packed


def _unpack(data: np.ndarray, shape: tuple[int, ...], form: Format) -> np.ndarray:
    """Return the 4-bit codes of bytes: int8 for integers, uint8 for floats."""
    flat = np.stack([data & 15, data >> 4], -1).reshape(-1)[: math.prod(shape)].reshape(shape)
    return np.where(flat > 7, flat.astype(np.int8) - 16, flat).astype(np.int8) if form.integer else flat


# Products


def integer_matmul(a: np.ndarray, b: np.ndarray, /, *, transposed: bool = False) -> np.ndarray:
    """Return the product of two int8 matrices as int32, summed in int64; `transposed`: `b` is stored as (N, K)."""
    product: np.ndarray = np.matmul(a.astype(np.int64), (b.T if transposed else b).astype(np.int64)).astype(np.int32)
    return product


def quantized_matmul(
    a: np.ndarray,
    scale: np.ndarray,
    zero: np.ndarray | None,
    data: np.ndarray,
    weight_scale: np.ndarray,
    weight_zero: np.ndarray | None,
    overall: np.ndarray | None,
    /,
    *,
    value: str,
    shape: tuple[int, int],
    block: tuple[int, int],
    scale_dtype: str,
    packed: bool,
    transposed: bool,
    pairs: bool,
) -> np.ndarray:
    """Return the product of quantized rows and a quantized weight, rounded once to float32.

    Rows `a` (M, K) have a scale and a zero point for each of the blocks along K: (M, blocks) or (M, 1). The weight is
    stored as (N, K) if `transposed`, else as (K, N); `shape` and `block` are as it is stored.
    """
    weight = _numbers(data, weight_scale, weight_zero, overall, FORMATS[value], shape, block, packed)
    inner = (1, a.shape[1] // scale.shape[1])
    rows = a.astype(np.float64)
    if zero is not None:
        rows = rows - _expand(np.broadcast_to(zero, scale.shape).astype(np.float64), inner)
    rows = rows * _expand(scale.astype(np.float64), inner)
    return narrow(rows @ (weight.T if transposed else weight), _FLOAT32)


def weight_matmul(
    a: np.ndarray,
    data: np.ndarray,
    scale: np.ndarray,
    zero: np.ndarray | None,
    overall: np.ndarray | None,
    /,
    *,
    value: str,
    shape: tuple[int, int],
    block: tuple[int, int],
    scale_dtype: str,
    packed: bool,
    transposed: bool,
) -> np.ndarray:
    """Return the product of float rows and a quantized weight, rounded once to float32 (float64 for float64 rows)."""
    weight = _numbers(data, scale, zero, overall, FORMATS[value], shape, block, packed)
    out = np.dtype(np.float64) if a.dtype == np.float64 else _FLOAT32
    with np.errstate(all="ignore"):
        return narrow(wide(a) @ (weight.T if transposed else weight), out)
