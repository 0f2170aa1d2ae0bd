"""Cosines and sines of positions that are known only on the device."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .frequencies import Frequencies

__all__ = ["cosines_and_sines", "rows"]


def cosines_and_sines(positions: jax.Array, frequencies: Frequencies, dtype: np.dtype) -> tuple[jax.Array, jax.Array]:
    """Return tables of the shape of `positions` with an axis of pairs behind, in float32 or float64.

    The product of a position and a frequency is formed in turns, as integers of 64 bits of which the whole turns
    overflow: in float32 the angle of position 100,000 would be off by 0.004, here it is exact to 1e-8.
    """
    turns = (_low_product if dtype.itemsize < 8 else _wide_product)(positions, frequencies)
    angle = turns * dtype.type(2 * math.pi)
    factor = dtype.type(frequencies.factor)
    return jnp.cos(angle) * factor, jnp.sin(angle) * factor


def _wide_product(positions: jax.Array, frequencies: Frequencies) -> jax.Array:
    turns = np.asarray(frequencies.radians, np.float64) / (2 * math.pi)
    product = lax.convert_element_type(positions, np.float64)[..., None] * _behind(positions, turns)
    return product - jnp.round(product)


def _low_product(positions: jax.Array, frequencies: Frequencies) -> jax.Array:
    fractions = [int(math.fmod(f / (2 * math.pi), 1.0) * 2**64) for f in frequencies.radians]
    at = lax.convert_element_type(positions, np.uint32)[..., None]
    high, low = (
        _behind(positions, np.array(half, np.uint32))
        for half in ([f >> 32 for f in fractions], [f & 0xFFFFFFFF for f in fractions])
    )
    phase = at * high + _upper_half(at, low)
    if positions.dtype.kind == "i":
        phase = phase - jnp.where(lax.convert_element_type(positions, np.int32)[..., None] < 0, low, np.uint32(0))
    signed = lax.bitcast_convert_type(phase, np.int32)
    return lax.convert_element_type(signed, np.float32) * np.float32(2.0**-32)


def _behind(positions: jax.Array, pairs: np.ndarray) -> np.ndarray:
    """Return numbers of the pairs with an axis of 1 in front for each of the positions."""
    return pairs.reshape((1,) * positions.ndim + pairs.shape)


def _upper_half(a: jax.Array, b: np.ndarray) -> jax.Array:
    """Return the upper 32 of the 64 bits of a product of unsigned integers."""
    sixteen, mask = np.uint32(16), np.uint32(0xFFFF)
    a_high, a_low = a >> sixteen, a & mask
    b_high, b_low = b >> sixteen, b & mask
    first, second = a_high * b_low, a_low * b_high
    carry = ((a_low * b_low) >> sixteen) + (first & mask) + (second & mask)
    return a_high * b_high + (first >> sixteen) + (second >> sixteen) + (carry >> sixteen)


def rows(table: jax.Array, positions: jax.Array) -> jax.Array:
    """Return rows of a table; NaN for those that it does not have."""
    # JAX compares an index with the size in the index's dtype.
    at = positions if positions.dtype.itemsize >= 4 else lax.convert_element_type(positions, np.int32)
    numbers = lax.GatherDimensionNumbers(offset_dims=(at.ndim,), collapsed_slice_dims=(0,), start_index_map=(0,))
    starts = lax.expand_dims(at, (at.ndim,))
    return lax.gather(table, starts, numbers, (1, table.shape[1]), mode="fill", fill_value=np.nan)
