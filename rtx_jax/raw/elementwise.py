"""Elementwise functions on raw arrays: arithmetic, comparisons, logic, bits, rounding, parts of complex numbers.

The functions with floating-point results live in `elementwise_float` and are part of this chapter too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from .._compat import x64
from ..core.dtypes import (
    COMPLEX,
    FLOAT8,
    INEXACT,
    INTEGRAL,
    NUMERIC,
    REAL_FLOATING,
    SIGNED,
    WIDE,
    bool_,
    float32,
    int2,
    int4,
)
from ..errors import InvalidArgument
from . import elementwise_complex as _complex
from . import elementwise_real as _real
from .elementwise_float import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    copysign,
    cos,
    cosh,
    divide,
    divide_rounded,
    exp,
    expm1,
    hypot,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    nextafter,
    reciprocal,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
)
from .operands import BITS, REAL, REAL_OR_BOOL, check_kind, check_shapes, combine, common_dtype

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "divide_rounded",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "integer_pow",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]

# Arithmetic. Between a complex and a real operand it goes by components, as the standard's tables say: promoting the
# real one first would add or multiply a zero imaginary component, which loses signs of zeros and turns infinities
# into NaN.


def _mixed(x1: jax.Array, x2: jax.Array) -> bool:
    return (x1.dtype in COMPLEX) != (x2.dtype in COMPLEX)


def add(x1: jax.Array, x2: jax.Array, /) -> jax.Array:
    """Sum; of two bools their disjunction."""
    if not _mixed(x1, x2):
        return combine("add", jnp.add, x1, x2)
    if x2.dtype in COMPLEX:
        x1, x2 = x2, x1
    re = add(lax.real(x1), x2)
    return lax.complex(re, _like(lax.imag(x1), re))


def _like(x: jax.Array, other: jax.Array) -> jax.Array:
    return jnp.broadcast_to(lax.convert_element_type(x, other.dtype), other.shape)


def subtract(x1: jax.Array, x2: jax.Array, /) -> jax.Array:
    """Difference; not defined for two bools."""
    if not _mixed(x1, x2):
        return combine("subtract", jnp.subtract, x1, x2, NUMERIC)
    if x1.dtype in COMPLEX:
        re = subtract(lax.real(x1), x2)
        return lax.complex(re, _like(lax.imag(x1), re))
    re = subtract(x1, lax.real(x2))
    return lax.complex(re, _like(-lax.imag(x2), re))


def multiply(x1: jax.Array, x2: jax.Array, /) -> jax.Array:
    """Product; of two bools their conjunction."""
    if not _mixed(x1, x2):
        return combine("multiply", jnp.multiply, x1, x2)
    if x2.dtype in COMPLEX:
        x1, x2 = x2, x1
    return lax.complex(multiply(lax.real(x1), x2), multiply(lax.imag(x1), x2))


def floor_divide(x1: jax.Array, x2: jax.Array, /) -> jax.Array:
    """Floor of the quotient."""
    return combine("floor_divide", _floor_divide, x1, x2, REAL)


def _floor_divide(x1: jax.Array, x2: jax.Array) -> jax.Array:
    return jnp.floor_divide(x1, x2) if x1.dtype in INTEGRAL else _in_float32(_real.floor_divide, x1, x2)


def remainder(x1: jax.Array, x2: jax.Array, /) -> jax.Array:
    """Remainder of the floor division."""
    return combine("remainder", _remainder, x1, x2, REAL)


def _remainder(x1: jax.Array, x2: jax.Array) -> jax.Array:
    return jnp.remainder(x1, x2) if x1.dtype in INTEGRAL else _in_float32(_real.remainder, x1, x2)


def _in_float32(fn: Callable[[jax.Array, jax.Array], jax.Array], x1: jax.Array, x2: jax.Array) -> jax.Array:
    """Apply `fn`, to 8-bit floats by way of float32: JAX does not read their bits."""
    if x1.dtype not in FLOAT8:
        return fn(x1, x2)
    wide = fn(lax.convert_element_type(x1, float32), lax.convert_element_type(x2, float32))
    return lax.convert_element_type(wide, x1.dtype)


def pow(x1: jax.Array, x2: jax.Array, /) -> jax.Array:
    """x1 to the power of x2."""
    return combine("pow", _pow, x1, x2, NUMERIC)


def _pow(x1: jax.Array, x2: jax.Array) -> jax.Array:
    if x1.dtype in COMPLEX:
        return _complex.pow(x1, x2)
    return _real.integer_power(x1, x2) if x1.dtype in INTEGRAL else jnp.power(x1, x2)


def integer_pow(x: jax.Array, *, exponent: int) -> jax.Array:
    """X to the power of a Python integer, by multiplications."""
    check_kind("pow", NUMERIC, x)
    if exponent < 0 and x.dtype in INTEGRAL:
        raise InvalidArgument(
            "pow",
            "x2",
            got=str(exponent),
            wanted="an exponent of at least 0 for integers",
            remedy="Cast x1 to a floating dtype.",
            arg="x2",
            reason="negative power of integers",
        )
    return lax.integer_pow(x, exponent)


def negative(x: jax.Array, /) -> jax.Array:
    """-x."""
    check_kind("negative", NUMERIC, x)
    return lax.neg(x)


def positive(x: jax.Array, /) -> jax.Array:
    """+x."""
    check_kind("positive", NUMERIC, x)
    return x


def square(x: jax.Array, /) -> jax.Array:
    """X times x."""
    return x if x.dtype == bool_ else lax.square(x)


def abs(x: jax.Array, /) -> jax.Array:
    """Absolute value."""
    if x.dtype in COMPLEX:
        return _complex.abs(x)
    if x.dtype in REAL_FLOATING:
        return _real.abs(x)
    if x.dtype not in SIGNED:
        return x
    if x.dtype in (int2, int4):  # which XLA has no absolute values of
        return lax.select(lax.lt(x, lax.full_like(x, 0)), lax.neg(x), x)
    return lax.abs(x)


def sign(x: jax.Array, /) -> jax.Array:
    """Sign of a real number, direction of a complex one."""
    check_kind("sign", NUMERIC, x)
    if x.dtype in COMPLEX:
        return _complex.sign(x)
    return _real.sign(x) if x.dtype in REAL_FLOATING else lax.sign(x)


def signbit(x: jax.Array, /) -> jax.Array:
    """Whether the sign bit is set; of integers, whether they are negative."""
    check_kind("signbit", REAL_OR_BOOL, x)
    if x.dtype in FLOAT8:
        x = lax.convert_element_type(x, float32)
    return jnp.signbit(x) if x.dtype in REAL_FLOATING else lax.lt(x, lax.full_like(x, 0))


def clip(x: jax.Array, *bounds: jax.Array, has_min: bool, has_max: bool) -> jax.Array:
    """X limited to bounds; the operands after x are the bounds that are there, the lower first."""
    operands = (x, *bounds)
    check_kind("clip", REAL_OR_BOOL, *operands)
    check_shapes("clip", *operands)
    dtype = common_dtype("clip", *operands)
    with x64() if dtype in WIDE else contextlib.nullcontext():
        x, *rest = (lax.convert_element_type(operand, dtype) for operand in operands)
        return _real.clip(x, rest[0] if has_min else None, rest[-1] if has_max else None)


def maximum(x1: jax.Array, x2: jax.Array, /) -> jax.Array:
    """Greater of two; NaN if either is."""
    return combine("maximum", jnp.maximum, x1, x2)


def minimum(x1: jax.Array, x2: jax.Array, /) -> jax.Array:
    """Less of two; NaN if either is."""
    return combine("minimum", jnp.minimum, x1, x2)


# Rounding. Integers and bools are whole numbers already.


def ceil(x: jax.Array, /) -> jax.Array:
    """Round up."""
    check_kind("ceil", REAL_OR_BOOL, x)
    return lax.ceil(x) if x.dtype in INEXACT else x


def floor(x: jax.Array, /) -> jax.Array:
    """Round down."""
    check_kind("floor", REAL_OR_BOOL, x)
    return lax.floor(x) if x.dtype in INEXACT else x


def trunc(x: jax.Array, /) -> jax.Array:
    """Round towards zero."""
    check_kind("trunc", REAL_OR_BOOL, x)
    return jnp.trunc(x) if x.dtype in INEXACT else x


def round(x: jax.Array, /) -> jax.Array:
    """Round to the nearest integer, halves to even."""
    if x.dtype in COMPLEX:
        return _complex.round(x)
    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN) if x.dtype in INEXACT else x


# Parts of complex numbers; a real number has the imaginary part 0.


def real(x: jax.Array, /) -> jax.Array:
    """Real component."""
    return lax.real(x) if x.dtype in COMPLEX else x


def imag(x: jax.Array, /) -> jax.Array:
    """Imaginary component."""
    return lax.imag(x) if x.dtype in COMPLEX else lax.full_like(x, 0)


def conj(x: jax.Array, /) -> jax.Array:
    """Complex conjugate."""
    return lax.conj(x) if x.dtype in COMPLEX else x


# Comparisons


def equal(x1: jax.Array, x2: jax.Array, /) -> jax.Array:
    """x1 == x2."""
    return combine("equal", jnp.equal, x1, x2)


def not_equal(x1: jax.Array, x2: jax.Array, /) -> jax.Array:
    """x1 != x2."""
    return combine("not_equal", jnp.not_equal, x1, x2)


def less(x1: jax.Array, x2: jax.Array, /) -> jax.Array:
    """x1 < x2; complex numbers in lexicographic order."""
    return combine("less", jnp.less, x1, x2)


def less_equal(x1: jax.Array, x2: jax.Array, /) -> jax.Array:
    """x1 <= x2."""
    return combine("less_equal", jnp.less_equal, x1, x2)


def greater(x1: jax.Array, x2: jax.Array, /) -> jax.Array:
    """x1 > x2."""
    return combine("greater", jnp.greater, x1, x2)


def greater_equal(x1: jax.Array, x2: jax.Array, /) -> jax.Array:
    """x1 >= x2."""
    return combine("greater_equal", jnp.greater_equal, x1, x2)


def isfinite(x: jax.Array, /) -> jax.Array:
    """Whether neither infinite nor NaN."""
    return jnp.isfinite(x)


def isinf(x: jax.Array, /) -> jax.Array:
    """Whether infinite."""
    return jnp.isinf(x)


def isnan(x: jax.Array, /) -> jax.Array:
    """Whether NaN."""
    return jnp.isnan(x)


# Logic and bits


def logical_and(x1: jax.Array, x2: jax.Array, /) -> jax.Array:
    """Whether both are nonzero."""
    check_shapes("logical_and", x1, x2)
    return jnp.logical_and(x1, x2)


def logical_or(x1: jax.Array, x2: jax.Array, /) -> jax.Array:
    """Whether one is nonzero."""
    check_shapes("logical_or", x1, x2)
    return jnp.logical_or(x1, x2)


def logical_xor(x1: jax.Array, x2: jax.Array, /) -> jax.Array:
    """Whether exactly one is nonzero."""
    check_shapes("logical_xor", x1, x2)
    return jnp.logical_xor(x1, x2)


def logical_not(x: jax.Array, /) -> jax.Array:
    """Whether zero."""
    return jnp.logical_not(x)


def bitwise_and(x1: jax.Array, x2: jax.Array, /) -> jax.Array:
    """Bits set in both."""
    return combine("bitwise_and", jnp.bitwise_and, x1, x2, BITS)


def bitwise_or(x1: jax.Array, x2: jax.Array, /) -> jax.Array:
    """Bits set in one or both."""
    return combine("bitwise_or", jnp.bitwise_or, x1, x2, BITS)


def bitwise_xor(x1: jax.Array, x2: jax.Array, /) -> jax.Array:
    """Bits set in exactly one."""
    return combine("bitwise_xor", jnp.bitwise_xor, x1, x2, BITS)


def bitwise_invert(x: jax.Array, /) -> jax.Array:
    """Bits not set."""
    check_kind("bitwise_invert", BITS, x)
    return lax.bitwise_not(x)


def bitwise_left_shift(x1: jax.Array, x2: jax.Array, /) -> jax.Array:
    """x1 shifted left; 0 from the width of the dtype on."""
    return combine("bitwise_left_shift", jnp.left_shift, x1, x2, INTEGRAL)


def bitwise_right_shift(x1: jax.Array, x2: jax.Array, /) -> jax.Array:
    """x1 shifted right with its sign; 0 or -1 from the width of the dtype on."""
    return combine("bitwise_right_shift", jnp.right_shift, x1, x2, INTEGRAL)
