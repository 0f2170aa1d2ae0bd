"""Codes of the quantized formats: rounding floats to them, reading them, and packing two into a byte."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import lax

from ..checks.quant import Format, packed_shape

__all__ = ["decode", "decode_scale", "encode", "encode_scale_up", "halves", "pack4", "unpack4"]

_FLOAT8 = {"fp8_e4m3": jnp.dtype(jnp.float8_e4m3fn), "fp8_e5m2": jnp.dtype(jnp.float8_e5m2)}
_EXPONENT = 0x7F800000


def encode(scaled: jax.Array, form: Format, zero: jax.Array | None = None) -> jax.Array:
    """Return the codes of float32 numbers that were divided by their scale.

    Rounds to nearest, ties to even; what lies outside of the range becomes its end.

    Parameters
    ----------
    scaled
        Float32 numbers.
    form
        The format.
    zero
        Zero points as float32, or None for the symmetric range.

    Returns
    -------
    jax.Array
        int8 for integers, float8 for 8-bit floats, uint8 in 0..15 for 4-bit floats.
    """
    if form.integer:
        whole = lax.round(scaled, lax.RoundingMethod.TO_NEAREST_EVEN)
        if zero is None:
            return jnp.clip(whole, -form.top, form.top).astype(jnp.int8)
        return jnp.clip(whole + zero, form.least, -form.least - 1).astype(jnp.int8)
    rounded = _round_float(jnp.clip(scaled, -form.top, form.top), form)
    if form.bits == 8:
        return rounded.astype(_FLOAT8[form.name])
    # Twice an e2m1 number is 0, 1, 2, 3, 4, 6, 8 or 12.
    twice = (jnp.abs(rounded) * 2).astype(jnp.int32)
    code = jnp.minimum(twice, 4) + (twice >= 6) + (twice >= 8) + (twice >= 12)
    sign = lax.bitcast_convert_type(rounded, jnp.uint32) >> 31
    return (code.astype(jnp.uint32) | (sign << 3)).astype(jnp.uint8)


def _round_float(x: jax.Array, form: Format) -> jax.Array:
    """Round float32 numbers to the format's significand, subnormal numbers included.

    The cast of XLA is not used for this: on some devices it goes through float16 and rounds twice.
    """
    exponent = lax.bitcast_convert_type(x, jnp.int32) & _EXPONENT
    exponent = jnp.maximum(exponent, jnp.int32((form.min_exponent + 127) << 23))
    spacing = lax.bitcast_convert_type(exponent - (form.mantissa << 23), jnp.float32)
    inverse = lax.bitcast_convert_type((254 << 23) - (exponent - (form.mantissa << 23)), jnp.float32)
    return lax.round(x * inverse, lax.RoundingMethod.TO_NEAREST_EVEN) * spacing


def decode(codes: jax.Array, form: Format) -> jax.Array:
    """Return the numbers of codes, as float32; 8-bit floats may come as their bytes."""
    if form.integer:
        return codes.astype(jnp.float32)
    if form.bits == 8:
        return _float8(codes, form)
    numbers: jax.Array = twice_e2m1(codes).astype(jnp.float32) * jnp.float32(0.5)
    return numbers


def _float8(codes: jax.Array, form: Format) -> jax.Array:
    """Return the numbers of finite 8-bit floats by way of the bits of float16, whose exponent has 5 bits.

    XLA's CPU compiler computes with float8 by converting whole operands to float16 first, out of loops too.
    """
    if codes.dtype != jnp.uint8:
        codes = lax.bitcast_convert_type(codes, jnp.uint8)
    bits = codes.astype(jnp.uint16)
    if form.name == "fp8_e5m2":
        return lax.bitcast_convert_type(bits << 8, jnp.float16).astype(jnp.float32)
    half = lax.bitcast_convert_type(((bits & 0x80) << 8) | ((bits & 0x7F) << 7), jnp.float16)
    numbers: jax.Array = half.astype(jnp.float32) * jnp.float32(256)
    return numbers


def twice_e2m1(codes: jax.Array) -> jax.Array:
    """Return twice the number of each e2m1 code 0..15, an integer in -12..12, as int8."""
    low = (codes & 7).astype(jnp.int8)
    magnitude = low + jnp.maximum(low - 4, 0) + 2 * jnp.maximum(low - 6, 0)
    signed: jax.Array = jnp.where(codes & 8, -magnitude, magnitude)
    return signed


def pack4(codes: jax.Array) -> jax.Array:
    """Pack 4-bit codes two into a byte, the first in the low half (`checks.quant.packed_shape`)."""
    shape = packed_shape(codes.shape)
    nibbles = codes.astype(jnp.uint8) & 15
    if math.prod(shape) * 2 != codes.size:
        nibbles = jnp.pad(nibbles.reshape(-1), (0, 1))
    pairs = nibbles.reshape(*shape, 2)
    return pairs[..., 0] | (pairs[..., 1] << 4)


def halves(data: jax.Array, *, signed: bool) -> tuple[jax.Array, jax.Array]:
    """Return the codes of the low and of the high halves of bytes: int8 in -8..7 if signed, else uint8 in 0..15."""
    if not signed:
        return data & 15, data >> 4
    as_signed = lax.bitcast_convert_type(data, jnp.int8)
    return (as_signed << 4) >> 4, as_signed >> 4


def unpack4(data: jax.Array, shape: tuple[int, ...], *, signed: bool) -> jax.Array:
    """Return the 4-bit codes that bytes hold, one for each element of `shape`."""
    flat = jnp.stack(halves(data, signed=signed), axis=-1)
    if flat.size != math.prod(shape):
        flat = flat.reshape(-1)[: math.prod(shape)]
    return flat.reshape(shape)


def encode_scale_up(scale: jax.Array, scale_dtype: str) -> jax.Array:
    """Return positive float32 scales in their storage type, rounded up."""
    if scale_dtype == "float32":
        return scale
    bits = lax.bitcast_convert_type(jnp.where(scale == scale, scale, jnp.float32(jnp.inf)), jnp.uint32)
    if scale_dtype == "bfloat16":
        return lax.bitcast_convert_type(((bits + 0xFFFF) >> 16).astype(jnp.uint16), jnp.bfloat16)
    if scale_dtype == "e8m0":
        # Infinity becomes 255, which is the NaN of e8m0.
        return lax.bitcast_convert_type(((bits + 0x7FFFFF) >> 23).astype(jnp.uint8), jnp.float8_e8m0fnu)
    # e4m3: spacing of the number below, then up; 2**-9 is the smallest number.
    scale = jnp.clip(scale, 2.0**-9, 448.0)
    exponent = jnp.maximum(lax.bitcast_convert_type(scale, jnp.int32) & _EXPONENT, (127 - 6) << 23)
    spacing = lax.bitcast_convert_type(exponent - (3 << 23), jnp.float32)
    inverse = lax.bitcast_convert_type((254 << 23) - (exponent - (3 << 23)), jnp.float32)
    return (lax.ceil(scale * inverse) * spacing).astype(jnp.float8_e4m3fn)


def decode_scale(scale: jax.Array, scale_dtype: str) -> jax.Array:
    """Return stored scales as float32."""
    if scale_dtype == "e8m0":
        code = lax.bitcast_convert_type(scale, jnp.uint8).astype(jnp.uint32)
        return jnp.where(code == 255, jnp.float32(jnp.nan), lax.bitcast_convert_type(code << 23, jnp.float32))
    return scale.astype(jnp.float32)
