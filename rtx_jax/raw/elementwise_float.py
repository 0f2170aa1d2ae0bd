"""Elementwise functions whose results are floating-point: exponentials, logarithms, trigonometry, roots.

Integers become the default float. Real operands go to ``jax.lax`` or ``jax.numpy``, complex ones to
`elementwise_complex`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from ..core.dtypes import COMPLEX, FLOAT8, INEXACT
from . import elementwise_complex as _complex
from . import elementwise_real as _real
from .operands import EVERY, REAL_OR_BOOL, check_kind, floating, floating2

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "divide_rounded",
    "exp",
    "expm1",
    "hypot",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "nextafter",
    "reciprocal",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]


@floating
def acos(x: jax.Array) -> jax.Array:
    """Inverse cosine."""
    return _complex.acos(x) if x.dtype in COMPLEX else lax.acos(x)


@floating
def acosh(x: jax.Array) -> jax.Array:
    """Inverse hyperbolic cosine."""
    return _complex.acosh(x) if x.dtype in COMPLEX else lax.acosh(x)


@floating
def asin(x: jax.Array) -> jax.Array:
    """Inverse sine."""
    return _complex.asin(x) if x.dtype in COMPLEX else lax.asin(x)


@floating
def asinh(x: jax.Array) -> jax.Array:
    """Inverse hyperbolic sine."""
    return _complex.asinh(x) if x.dtype in COMPLEX else lax.asinh(x)


@floating
def atan(x: jax.Array) -> jax.Array:
    """Inverse tangent."""
    return _complex.atan(x) if x.dtype in COMPLEX else lax.atan(x)


@floating2
def atan2(x1: jax.Array, x2: jax.Array) -> jax.Array:
    """Angle of the point (x2, x1)."""
    return jnp.arctan2(x1, x2)


@floating
def atanh(x: jax.Array) -> jax.Array:
    """Inverse hyperbolic tangent."""
    return _complex.atanh(x) if x.dtype in COMPLEX else lax.atanh(x)


@floating2
def copysign(x1: jax.Array, x2: jax.Array) -> jax.Array:
    """Magnitude of x1 with the sign of x2."""
    return jnp.copysign(x1, x2)


@floating
def cos(x: jax.Array) -> jax.Array:
    """Cosine."""
    return _complex.cos(x) if x.dtype in COMPLEX else lax.cos(x)


@floating
def cosh(x: jax.Array) -> jax.Array:
    """Hyperbolic cosine."""
    return _complex.cosh(x) if x.dtype in COMPLEX else lax.cosh(x)


_divide = floating2(jnp.divide, EVERY)


def divide(x1: jax.Array, x2: jax.Array, /) -> jax.Array:
    """Quotient; a complex number over a real one divides by components."""
    if x1.dtype in COMPLEX and x2.dtype not in COMPLEX:
        return lax.complex(_divide(lax.real(x1), x2), _divide(lax.imag(x1), x2))
    return _divide(x1, x2)


def divide_rounded(x1: jax.Array, x2: jax.Array, /) -> jax.Array:
    """Quotient, correctly rounded also where the divisor is broadcast, for calls that stand alone.

    XLA turns a real ``x / broadcast(y)`` into ``x * (1 / y)``, which makes 49 / 49 less than 1. A divisor that depends
    on the element keeps it from that, and costs nothing beside the traffic of memory. Within a traced program the
    plain quotient is used, as in plain JAX.
    """
    try:
        shape = jnp.broadcast_shapes(x1.shape, x2.shape)
    except ValueError:
        return divide(x1, x2)  # raises our error
    if x2.shape != shape and x1.dtype not in COMPLEX and x2.dtype not in COMPLEX:
        # An integer beside a float takes its dtype; XLA knows that an integer always equals itself.
        if x1.dtype not in INEXACT and x2.dtype in INEXACT:
            x1 = lax.convert_element_type(x1, x2.dtype)
        x1 = jnp.broadcast_to(x1, shape)
        x2 = jnp.broadcast_to(x2, shape)
        # Only a NaN differs from itself, and NaN by anything is NaN.
        x2 = jnp.where(x1 == x1, x2, lax.full_like(x2, 1))
    return divide(x1, x2)


@floating
def exp(x: jax.Array) -> jax.Array:
    """e to the power of x."""
    return _complex.exp(x) if x.dtype in COMPLEX else lax.exp(x)


@floating
def expm1(x: jax.Array) -> jax.Array:
    """exp(x) - 1, accurate near zero."""
    return _complex.expm1(x) if x.dtype in COMPLEX else lax.expm1(x)


@floating2
def hypot(x1: jax.Array, x2: jax.Array) -> jax.Array:
    """sqrt(x1**2 + x2**2) without overflow on the way."""
    return jnp.hypot(x1, x2)


@floating
def log(x: jax.Array) -> jax.Array:
    """Natural logarithm."""
    return _complex.log(x) if x.dtype in COMPLEX else lax.log(x)


@floating
def log10(x: jax.Array) -> jax.Array:
    """Logarithm to base 10."""
    return _complex.log_in_base(x, 10.0) if x.dtype in COMPLEX else jnp.log10(x)


@floating
def log1p(x: jax.Array) -> jax.Array:
    """log(1 + x), accurate near zero."""
    return _complex.log1p(x) if x.dtype in COMPLEX else lax.log1p(x)


@floating
def log2(x: jax.Array) -> jax.Array:
    """Logarithm to base 2."""
    return _complex.log_in_base(x, 2.0) if x.dtype in COMPLEX else jnp.log2(x)


@floating2
def logaddexp(x1: jax.Array, x2: jax.Array) -> jax.Array:
    """log(exp(x1) + exp(x2))."""
    return jnp.logaddexp(x1, x2)


@floating2
def _nextafter(x1: jax.Array, x2: jax.Array) -> jax.Array:
    return _real.nextafter(x1, x2)


def nextafter(x1: jax.Array, x2: jax.Array, /) -> jax.Array:
    """Next float after x1 towards x2; not of 8-bit floats, which would be stepped through in float32."""
    check_kind("nextafter", REAL_OR_BOOL - FLOAT8, x1, x2)
    return _nextafter(x1, x2)


@floating
def reciprocal(x: jax.Array) -> jax.Array:
    """1 / x."""
    return lax.div(lax.full_like(x, 1), x)


@floating
def sin(x: jax.Array) -> jax.Array:
    """Sine."""
    return _complex.sin(x) if x.dtype in COMPLEX else lax.sin(x)


@floating
def sinh(x: jax.Array) -> jax.Array:
    """Hyperbolic sine."""
    return _complex.sinh(x) if x.dtype in COMPLEX else lax.sinh(x)


@floating
def sqrt(x: jax.Array) -> jax.Array:
    """Principal square root."""
    return _complex.sqrt(x) if x.dtype in COMPLEX else lax.sqrt(x)


@floating
def tan(x: jax.Array) -> jax.Array:
    """Tangent."""
    return _complex.tan(x) if x.dtype in COMPLEX else lax.tan(x)


@floating
def tanh(x: jax.Array) -> jax.Array:
    """Hyperbolic tangent."""
    return _complex.tanh(x) if x.dtype in COMPLEX else lax.tanh(x)
