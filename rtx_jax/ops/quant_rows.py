"""The product of one row of integers and a quantized matrix in plain XLA, for CPUs.

XLA's CPU compiler multiplies one row of int8 with scalar code, and so it reduces along the last axis: 45 ms
for 4096 x 4096. Written as a sum of products of slices it is one elementwise kernel, which LLVM turns into vector
instructions that read the weight once: 1.3 ms on one core with AVX2.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from .quant_formats import halves

__all__ = ["LEAST_INNER", "integer_row"]

LEAST_INNER = 128
"""Bytes of a row of the weight from which on this form pays."""

_LANES = 64  # with fewer, LLVM unrolls the loop over lanes before it can vectorize it, which is ten times slower
_TERMS = 64  # slices in one kernel; more cost compile time


def integer_row(a: jax.Array, b: jax.Array, /, *, packed: bool, pairs: bool) -> jax.Array:
    """Return the exact int32 product ``(1, N)`` of ``(1, K)`` int8 and an integer matrix stored as ``(N, K)``.

    Parameters
    ----------
    a
        One row of int8.
    b
        int8 ``(N, K)``, or uint8 ``(N, K / 2)`` with two 4-bit values in a byte if `packed`.
    packed
        Whether `b` holds 4-bit values.
    pairs
        Whether int16 holds the sum of two products: both in -127..127, or 4-bit values.
    """
    size = b.shape[1]
    lanes = max(_LANES, -(-size // (_TERMS * 32)) * 32)
    terms = size // lanes
    # The barrier keeps the conversion of the row out of the kernel, where it would be repeated for each row of b.
    rows = lax.optimization_barrier(
        tuple(part.astype(jnp.int16) for part in ((a[:, 0::2], a[:, 1::2]) if packed else (a,)))
    )

    def products(start: int, stop: int) -> list[jax.Array]:
        piece = b[:, start:stop]
        columns = halves(piece, signed=True) if packed else (piece,)
        return [row[:, start:stop] * column.astype(jnp.int16) for row, column in zip(rows, columns, strict=True)]

    summed = _sum([p for j in range(terms) for p in products(j * lanes, (j + 1) * lanes)], pairs)
    # Without the barrier the sum over lanes would pull the kernel apart.
    total = jnp.sum(lax.optimization_barrier(summed), axis=1, dtype=jnp.int32)
    if size % lanes:
        rest = _sum(products(terms * lanes, size), pairs)
        total = total + jnp.sum(lax.optimization_barrier(rest), axis=1, dtype=jnp.int32)
    return total[None]


def _sum(products: list[jax.Array], pairs: bool) -> jax.Array:
    """Sum int16 products to int32."""
    if pairs:
        products = [p + q for p, q in zip(products[::2], products[1::2], strict=False)] + (
            products[-1:] if len(products) % 2 else []
        )
    total = products[0].astype(jnp.int32)
    for product in products[1:]:
        total = total + product.astype(jnp.int32)
    return total
