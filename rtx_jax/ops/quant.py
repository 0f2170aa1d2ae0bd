"""Quantize and dequantize raw arrays: calibration, scales, rounding. Formats and packing are in `quant_formats`.

Everything is float32 arithmetic in an order that is written down, so that the NumPy reference finds the same integers.
Numbers below the smallest normal float32 count as zero, as devices flush them.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import lax

from ..checks.quant import FORMATS, SMALLEST_SCALE, Format, block_grid
from .quant_formats import decode, decode_scale, encode, encode_scale_up, pack4, unpack4

__all__ = ["dequantize", "effective_scale", "expand", "quantize", "unpacked"]

_TINY = 2.0**-126  # the smallest normal float32
_MSE_STEPS = 24  # ranges that "mse" tries: 32/32, 31/32, ..., 9/32 of the greatest one


def quantize(
    x: jax.Array,
    scale: jax.Array | None = None,
    /,
    *,
    value: str,
    block: tuple[int, ...],
    scale_dtype: str,
    global_scale: bool,
    symmetric: bool,
    calibration: str,
    packed: bool,
) -> tuple[jax.Array, ...]:
    """Quantize an array block by block.

    Parameters
    ----------
    x
        Real floating array; read as float32.
    scale
        Scales of the grid's shape, or a shape that broadcasts to it, instead of calibrated ones.
    value
        Name of the format.
    block
        Sizes of a block, one for each axis of `x`; they divide its shape.
    scale_dtype
        Type of the scales; they are rounded up to it.
    global_scale
        Whether a float32 scale of the whole array stands before the scales of the blocks.
    symmetric
        Whether the range is symmetric about zero; else each block has a zero point (integers only).
    calibration
        ``"minmax"``, ``"absmax"``, ``"absmean"`` or ``"mse"``.
    packed
        Whether 4-bit values lie two in a byte.

    Returns
    -------
    tuple
        The values, the scales, then the zero points (int8) if not `symmetric`, then the global scale if there is one,
        then a bool: whether all of `x` is finite.
    """
    form = FORMATS[value]
    grid = block_grid("quantize", x.shape, block)
    x = x.astype(jnp.float32)
    finite = jnp.all(jnp.isfinite(x))
    x = _flushed(x)
    blocks = x.reshape(_interleaved(grid, block))
    if scale is None:
        low, high = _range(blocks, form, symmetric, calibration)
    else:
        low, high = _range(blocks, form, symmetric, "minmax")
    low, high = low.reshape(grid), high.reshape(grid)
    stored, overall = _scales(low, high, scale, form, scale_dtype, global_scale, symmetric)
    effective = effective_scale(stored, overall, scale_dtype=scale_dtype)
    zero = None if symmetric else _zero_point(low, effective, form)
    codes = encode(divided(x, expand(effective, x.shape, block)), form, _expanded(zero, x.shape, block))
    if form.bits == 4 and packed:
        codes = pack4(codes)
    parts = [codes, stored]
    if zero is not None:
        parts.append(zero.astype(jnp.int8))
    if overall is not None:
        parts.append(overall)
    return (*parts, finite)


def dequantize(
    data: jax.Array,
    scale: jax.Array,
    zero: jax.Array | None = None,
    overall: jax.Array | None = None,
    /,
    *,
    value: str,
    shape: tuple[int, ...],
    block: tuple[int, ...],
    scale_dtype: str,
    packed: bool,
    dtype: jnp.dtype,
) -> jax.Array:
    """Return ``(data - zero) * scale * overall`` of `shape` in `dtype`; computed in float32.

    Parameters
    ----------
    data, scale, zero, overall
        As `quantize` returns them.
    value, shape, block, scale_dtype, packed
        As they were quantized.
    dtype
        Real floating dtype of the result.
    """
    form = FORMATS[value]
    numbers = decode(unpacked(data, form, shape, packed), form)
    if zero is not None:
        numbers = numbers - expand(zero.astype(jnp.float32), shape, block)
    effective = effective_scale(scale, overall, scale_dtype=scale_dtype)
    return (numbers * expand(effective, shape, block)).astype(dtype)


def unpacked(data: jax.Array, form: Format, shape: tuple[int, ...], packed: bool) -> jax.Array:
    """Return one code for each value: the bytes themselves, or their halves where two are packed."""
    if form.bits == 4 and packed:
        return unpack4(data, shape, signed=form.integer)
    return data


def effective_scale(scale: jax.Array, overall: jax.Array | None, /, *, scale_dtype: str) -> jax.Array:
    """Return the float32 scale of each block, the global one included."""
    found = decode_scale(scale, scale_dtype)
    return found if overall is None else jnp.maximum(found * overall, jnp.float32(SMALLEST_SCALE))


def expand(per_block: jax.Array, shape: tuple[int, ...], block: tuple[int, ...]) -> jax.Array:
    """Return values of the grid's shape in a shape that broadcasts to `shape`: axes of one block keep size 1."""
    grid = per_block.shape
    if all(g in (1, n) for g, n in zip(grid, shape, strict=True)):
        return per_block
    wide = tuple(size for g, b in zip(grid, block, strict=True) for size in ((g, 1) if g == 1 else (g, b)))
    narrow = tuple(size for g in grid for size in (g, 1))
    joined = tuple(g if g == 1 else n for g, n in zip(grid, shape, strict=True))
    return jnp.broadcast_to(per_block.reshape(narrow), wide).reshape(joined)


def divided(x: jax.Array, y: jax.Array) -> jax.Array:
    """Return the correctly rounded quotient by a divisor that broadcasts.

    XLA turns a division by a broadcast divisor into a multiplication by its reciprocal, which moves ties. A divisor
    that depends on the element keeps it from that.
    """
    wide = jnp.broadcast_to(y, x.shape)
    return x / jnp.where(x == x, wide, jnp.ones_like(wide))


def _flushed(x: jax.Array) -> jax.Array:
    """Return zero for numbers below the smallest normal one; many devices do that unasked, and not all."""
    return jnp.where(jnp.abs(x) < _TINY, jnp.zeros_like(x), x)


def _expanded(zero: jax.Array | None, shape: tuple[int, ...], block: tuple[int, ...]) -> jax.Array | None:
    return None if zero is None else expand(zero, shape, block)


def _interleaved(grid: tuple[int, ...], block: tuple[int, ...]) -> tuple[int, ...]:
    """Shape in which the blocks' own axes are the odd ones."""
    return tuple(size for g, b in zip(grid, block, strict=True) for size in (g, b))


def _axes(blocks: jax.Array) -> tuple[int, ...]:
    return tuple(range(1, blocks.ndim, 2))


def _range(blocks: jax.Array, form: Format, symmetric: bool, calibration: str) -> tuple[jax.Array, jax.Array]:
    """Return the least and the greatest number that each block represents, with the blocks' axes kept."""
    axes = _axes(blocks)
    if calibration == "absmean":
        high = _mean(jnp.abs(blocks))
        return -high, high
    if symmetric or calibration == "absmax":
        high = jnp.max(jnp.abs(blocks), axes, keepdims=True, initial=0.0)
        low = -high
    else:
        low = jnp.min(blocks, axes, keepdims=True, initial=0.0)
        high = jnp.max(blocks, axes, keepdims=True, initial=0.0)
    return _least_squares(blocks, low, high, form, symmetric) if calibration == "mse" else (low, high)


def _sum(blocks: jax.Array) -> jax.Array:
    """Sum over each block by halving, an order that the reference repeats; the axes stay, with size 1."""
    axes = _axes(blocks)
    even = tuple(range(0, blocks.ndim, 2))
    flat = jnp.transpose(blocks, (*even, *axes)).reshape(*(blocks.shape[i] for i in even), -1)
    size = flat.shape[-1]
    length = 1 << max(size - 1, 0).bit_length()
    flat = jnp.pad(flat, ((0, 0),) * len(even) + ((0, length - size),))
    while length > 1:
        length //= 2
        flat = flat[..., :length] + flat[..., length:]
    return flat.reshape(tuple(size for i in even for size in (blocks.shape[i], 1)))


def _mean(blocks: jax.Array) -> jax.Array:
    """Mean over each block; numbers are divided first, so that the sum of great ones is finite."""
    count = max(1, math.prod(blocks.shape[i] for i in _axes(blocks)))
    power = 2.0 ** -(count - 1).bit_length()
    mean: jax.Array = _sum(_flushed(blocks * jnp.float32(power))) * jnp.float32(1.0 / (count * power))
    return mean


def _least_squares(
    blocks: jax.Array, low: jax.Array, high: jax.Array, form: Format, symmetric: bool
) -> tuple[jax.Array, jax.Array]:
    """Return the part of the range with the least sum of squared errors, of `_MSE_STEPS` parts."""
    # Errors are counted in units of the greatest magnitude, so that their squares neither overflow nor vanish.
    unit = jnp.maximum(jnp.maximum(-low, high), jnp.float32(SMALLEST_SCALE))

    def step(best: tuple[jax.Array, jax.Array], index: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
        part = (32 - index).astype(jnp.float32) * jnp.float32(1 / 32)
        least, most = _flushed(low * part), _flushed(high * part)
        scale = _ideal_scale(least, most, form, symmetric)
        zero = None if symmetric else _zero_point(least, scale, form)
        numbers = decode(encode(divided(blocks, scale), form, zero), form)
        if zero is not None:
            numbers = numbers - zero
        # Barriers: a product and a sum in one kernel may become one fused operation, which rounds once.
        back = lax.optimization_barrier(numbers * scale)
        error = divided(_flushed(blocks - back), unit)
        total = _sum(lax.optimization_barrier(_flushed(error * error)))
        better = total < best[0]
        return (jnp.where(better, total, best[0]), jnp.where(better, part, best[1])), None

    start = (jnp.full(low.shape, jnp.inf, jnp.float32), jnp.ones(low.shape, jnp.float32))
    (_, part), _ = lax.scan(step, start, jnp.arange(_MSE_STEPS, dtype=jnp.int32))
    return _flushed(low * part), _flushed(high * part)


def _scales(
    low: jax.Array,
    high: jax.Array,
    given: jax.Array | None,
    form: Format,
    scale_dtype: str,
    global_scale: bool,
    symmetric: bool,
) -> tuple[jax.Array, jax.Array | None]:
    """Return the stored scales and the global one (None where there is none)."""
    ideal = _ideal_scale(low, high, form, symmetric)
    if given is not None:
        ideal = jnp.broadcast_to(given.astype(jnp.float32), ideal.shape)
    if not global_scale:
        return encode_scale_up(ideal, scale_dtype), None
    greatest = jnp.max(ideal, initial=0.0) if ideal.size else jnp.float32(1)
    # The greatest scale of a block becomes 1, or 256 where e4m3 can use its range.
    overall = greatest * jnp.float32(1 / 256) if scale_dtype == "e4m3" else greatest
    overall = jnp.maximum(overall, jnp.float32(SMALLEST_SCALE))
    relative = jnp.maximum(divided(ideal, overall), jnp.float32(SMALLEST_SCALE))
    return encode_scale_up(relative, scale_dtype), overall


def _ideal_scale(low: jax.Array, high: jax.Array, form: Format, symmetric: bool) -> jax.Array:
    """Return the smallest float32 scale whose range holds ``low..high``; 1 for a block of zeros."""
    width = high if symmetric else _flushed(high * jnp.float32(0.5)) - _flushed(low * jnp.float32(0.5))
    top = form.top if symmetric else -form.least - 0.5
    scale = jnp.maximum(_quotient_up(width, top), jnp.float32(SMALLEST_SCALE))
    return jnp.where(width < _TINY, jnp.ones_like(scale), scale)


def _quotient_up(x: jax.Array, top: float) -> jax.Array:
    """Return the smallest float32 that is at least ``x / top``, for `top` of the form ``(2**k - 1) * 2**j``.

    ``x - top * s`` is exact in two steps, as ``top * s`` is the difference of two powers of two times s.
    """
    mantissa = math.frexp(top)[0]
    upper = 2.0 ** math.frexp(top)[1]
    lower = upper * (1 - mantissa)
    factor = jnp.where(x > 1, jnp.float32(2.0**-20), jnp.float32(2.0**20))  # keeps every step away from the limits
    back = jnp.where(x > 1, jnp.float32(2.0**20), jnp.float32(2.0**-20))
    x = x * factor
    bits = lax.bitcast_convert_type(x / jnp.float32(top), jnp.int32)
    best = lax.bitcast_convert_type(bits + 2, jnp.float32)
    for offset in (1, 0, -1, -2):
        s = lax.bitcast_convert_type(jnp.maximum(bits + offset, 0), jnp.float32)
        rest = (x - s * jnp.float32(upper)) + s * jnp.float32(lower)
        best = jnp.where(rest <= 0, s, best)
    return best * back


def _zero_point(low: jax.Array, scale: jax.Array, form: Format) -> jax.Array:
    """Return the integer, as float32, that stands for zero."""
    zero = lax.round(divided(-low, scale), lax.RoundingMethod.TO_NEAREST_EVEN) + form.least
    return jnp.clip(zero, form.least, -form.least - 1)
