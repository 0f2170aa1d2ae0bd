"""Elementwise functions of real numbers where XLA or ``jax.numpy`` differ from the standard, in value or gradient.

Operands have one dtype and shapes that broadcast.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["abs", "clip", "floor_divide", "integer_power", "nextafter", "remainder", "sign"]


@jax.custom_jvp
def _abs(x: jax.Array) -> jax.Array:
    return lax.abs(x)


@_abs.defjvp
def _abs_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    # JAX takes +1 at zero; the middle of the two slopes is 0.
    (x,), (t,) = primals, tangents
    return _abs(x), lax.sign(x) * t


def abs(x: jax.Array) -> jax.Array:
    """Return the absolute value of a real floating array; its derivative at zero is 0."""
    return _abs(x)


def sign(x: jax.Array) -> jax.Array:
    """Return the sign; +0 for -0 too, where XLA keeps the zero."""
    return jnp.where(x == 0, jnp.zeros_like(x), lax.sign(x))


@jax.custom_jvp
def _zero_like_divisor(remainder: jax.Array, divisor: jax.Array) -> jax.Array:
    return jnp.where(remainder == 0, jnp.copysign(jnp.zeros_like(remainder), divisor), remainder)


@_zero_like_divisor.defjvp
def _zero_like_divisor_jvp(
    primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    # The sign of a zero has no derivative: selecting it would stop the gradient at every multiple.
    return _zero_like_divisor(*primals), tangents[0]


def remainder(x1: jax.Array, x2: jax.Array) -> jax.Array:
    """Return ``x1 % x2`` as Python defines it: exact, with the sign of `x2`, zeros included.

    ``jax.numpy.remainder`` gives zeros the sign of `x1`.
    """
    x1, x2 = jnp.broadcast_arrays(x1, x2)
    rem = lax.rem(x1, x2)
    other_side = (rem != 0) & ((rem < 0) != (x2 < 0))
    return _zero_like_divisor(jnp.where(other_side, rem + x2, rem), x2)


def floor_divide(x1: jax.Array, x2: jax.Array) -> jax.Array:
    """Return the floor of the exact quotient.

    Where an operand is infinite or the divisor zero it is the floor of ``x1 / x2``, as the standard prefers:
    ``jax.numpy.floor_divide`` gives NaN for infinity // finite and -1 for finite // -infinity, and loses the sign of
    a zero quotient.
    """
    x1, x2 = jnp.broadcast_arrays(x1, x2)
    quotient = x1 / x2
    rem = lax.rem(x1, x2)
    rem = jnp.where((rem != 0) & ((rem < 0) != (x2 < 0)), rem + x2, rem)
    # x1 - rem is a multiple of x2 up to one rounding, so the nearest integer is the exact floor.
    exact = lax.round((x1 - rem) / x2, lax.RoundingMethod.TO_NEAREST_EVEN)
    plain = ~(lax.is_finite(x1) & lax.is_finite(quotient)) | jnp.isinf(x2)
    floor = jnp.where(plain, lax.floor(quotient), exact)
    return jnp.where(floor == 0, jnp.copysign(jnp.zeros_like(floor), quotient), floor)


def integer_power(x1: jax.Array, x2: jax.Array) -> jax.Array:
    """Return ``x1 ** x2`` of integers, wrapped around; of a negative exponent the quotient rounded towards zero.

    ``jax.numpy.power`` looks at the lowest 6 bits of the exponent only, so that 2 to the power of 64 is 1.
    """
    x1, x2 = jnp.broadcast_arrays(x1, x2)
    zero, one = lax.full_like(x1, 0), lax.full_like(x1, 1)
    unit = (x1 == one) | (x1 == lax.neg(one))
    x1 = jnp.where((x2 < zero) & ~unit, zero, x1)
    exponent = jnp.where(x2 < zero, jnp.where((x2 & one) == one, one, zero + 2), x2)

    def more(state: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        return jnp.any(state[2] != zero)

    def step(state: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        power, square, rest = state
        power = jnp.where((rest & one) == one, power * square, power)
        return power, square * square, lax.shift_right_logical(rest, one)

    power: jax.Array = lax.while_loop(more, step, (one, x1, exponent))[0]
    return power


_BITS = {2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint64}


def nextafter(x1: jax.Array, x2: jax.Array) -> jax.Array:
    """Return the next float after `x1` towards `x2`.

    Works on the bits: XLA on a CPU takes subnormal numbers for zero in comparisons, and ``lax.nextafter`` steps
    over them.
    """
    x1, x2 = jnp.broadcast_arrays(x1, x2)
    word = _BITS[x1.dtype.itemsize]
    i, j = lax.bitcast_convert_type(x1, word), lax.bitcast_convert_type(x2, word)
    sign = jnp.asarray(1 << (8 * x1.dtype.itemsize - 1), word)
    one = jnp.asarray(1, word)
    size_i, size_j = i & ~sign, j & ~sign
    same_sign = (i & sign) == (j & sign)
    smallest = (j & sign) | one
    away = same_sign & (size_j > size_i)
    step = jnp.where(size_i == 0, smallest, jnp.where(away, i + one, i - one))
    equal = (i == j) | ((size_i == 0) & (size_j == 0))
    bits = jnp.where(equal, j, step)
    nan = jnp.isnan(x1) | jnp.isnan(x2)
    return jnp.where(nan, jnp.nan, lax.bitcast_convert_type(bits, x1.dtype)).astype(x1.dtype)


@jax.custom_jvp
def _at_least(x: jax.Array, bound: jax.Array) -> jax.Array:
    return jnp.maximum(x, bound)


@_at_least.defjvp
def _at_least_jvp(
    primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (x, bound), (tx, tb) = primals, tangents
    return _at_least(x, bound), jnp.where(x < bound, tb, tx)


@jax.custom_jvp
def _at_most(x: jax.Array, bound: jax.Array) -> jax.Array:
    return jnp.minimum(x, bound)


@_at_most.defjvp
def _at_most_jvp(
    primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (x, bound), (tx, tb) = primals, tangents
    return _at_most(x, bound), jnp.where(x > bound, tb, tx)


def clip(x: jax.Array, low: jax.Array | None, high: jax.Array | None) -> jax.Array:
    """Return `x` limited to [low, high]; `high` where the bounds cross, NaN where any is NaN.

    The derivative in `x` is 1 inside and at the bounds (``jax.numpy.clip``: 0.5 at them) and 0 outside.
    """
    if low is not None:
        x = _at_least(x, low)
    if high is not None:
        x = _at_most(x, high)
    return x
