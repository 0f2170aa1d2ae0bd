"""Elementwise functions of complex numbers where XLA's are right for finite numbers only.

Each function takes and returns complex64 or complex128. XLA's own results are within 3 ULP per component for finite
input (measured against mpmath; the exceptions are named below), so they are kept, and what is set here are the
cases with infinities, NaNs and signs of zeros, which the array API standard takes from C99 (annex G). ``a`` and
``b`` are the real and the imaginary component of the operand.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import lax

__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "exp",
    "expm1",
    "log",
    "log1p",
    "log_in_base",
    "pow",
    "round",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]

_where, _isinf, _isnan = jnp.where, jnp.isinf, jnp.isnan
_INF, _NAN = math.inf, math.nan


def _parts(z: jax.Array) -> tuple[jax.Array, jax.Array]:
    return lax.real(z), lax.imag(z)


def _times_j(z: jax.Array) -> jax.Array:
    # i z without the products of a complex multiplication, which would turn infinities into NaN.
    a, b = _parts(z)
    return lax.complex(-b, a)


def _over_j(z: jax.Array) -> jax.Array:
    a, b = _parts(z)
    return lax.complex(b, -a)


def abs(z: jax.Array) -> jax.Array:
    """Return the magnitude; infinite if a component is, NaN beside it or not (which JAX 0.10 gets wrong)."""
    a, b = _parts(z)
    return _where(_isinf(a) | _isinf(b), _INF, lax.abs(z))


def exp(z: jax.Array) -> jax.Array:
    """Return e**z."""
    a, b = _parts(z)
    re, im = _parts(lax.exp(z))
    # XLA gives NaN for both components where only the angle is unknown.
    no_angle = _isinf(a) & ~lax.is_finite(b)
    return lax.complex(
        _where(no_angle, _where(a < 0, 0.0, _INF), re),
        _where(b == 0, b, _where(no_angle, _where(a < 0, 0.0, _NAN), im)),  # XLA may lose the sign of a zero
    )


def expm1(z: jax.Array) -> jax.Array:
    """Return e**z - 1."""
    a, b = _parts(z)
    no_angle = _isinf(a) & ~lax.is_finite(b)
    re = _where(no_angle, _where(a < 0, -1.0, _INF), lax.real(lax.expm1(z)))
    # The imaginary component is that of exp; XLA takes it from expm1(a) + 1, which loses it for negative a.
    return lax.complex(re, lax.imag(exp(z)))


def log(z: jax.Array) -> jax.Array:
    """Return the natural logarithm; branch cut along the negative real axis."""
    a, b = _parts(z)
    re, im = _parts(lax.log(z))
    return lax.complex(_where(_isinf(a) | _isinf(b), _INF, re), im)


def log1p(z: jax.Array) -> jax.Array:
    """Return log(1 + z)."""
    a, b = _parts(z)
    re, im = _parts(lax.log1p(z))
    # At -1 + bi XLA squares b, which underflows to log(0).
    re = _where((a == -1) & (b != 0), lax.log(lax.abs(b)), re)
    return lax.complex(_where(_isinf(a) | _isinf(b), _INF, re), im)


def log_in_base(z: jax.Array, base: float) -> jax.Array:
    """Return log(z) / log(base) by components."""
    re, im = _parts(log(z))
    scale = math.log(base)
    return lax.complex(re / scale, im / scale)


def sqrt(z: jax.Array) -> jax.Array:
    """Return the principal square root; continuous from above the branch cut for +0, from below for -0."""
    a, b = _parts(z)
    re, im = _parts(lax.sqrt(z))
    # XLA gives NaN where one component is infinite and the other NaN.
    re = _where(_isinf(b) | ((a == _INF) & _isnan(b)), _INF, re)
    im = _where(_isinf(b) | ((a == -_INF) & _isnan(b)), _INF, im)
    return lax.complex(re, jnp.copysign(im, b))


def _trig(b: jax.Array, finite: jax.Array) -> tuple[jax.Array, jax.Array]:
    safe = _where(finite, b, _NAN)
    return lax.sin(safe), lax.cos(safe)


def _scaled_sinh_cosh(a: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return s, c, k with sinh(a) = s k and cosh(a) = c k, where k is 1 unless sinh(a) overflows."""
    size = lax.abs(a)
    limit = math.floor(math.log(float(jnp.finfo(a.dtype).max)))
    large = size > limit
    half = lax.exp(size * 0.5)
    small = _where(large, 0.0, size)
    e, em1 = lax.exp(small), lax.expm1(small)
    s = _where(large, half * 0.5, 0.5 * (em1 + em1 / (em1 + 1.0)))
    c = _where(large, half * 0.5, 0.5 * e + 0.5 / e)
    return jnp.copysign(s, a), c, _where(large, half, 1.0)


def sinh(z: jax.Array) -> jax.Array:
    """Return the hyperbolic sine.

    XLA subtracts two exponentials, which loses all digits of small arguments and overflows early.
    """
    a, b = _parts(z)
    finite = lax.is_finite(b)
    s, c, k = _scaled_sinh_cosh(a)
    sin_b, cos_b = _trig(b, finite)
    re = _where(~finite & ((a == 0) | _isinf(a)), a, s * cos_b * k)
    im = _where(b == 0, b, c * sin_b * k)
    return lax.complex(re, im)


def cosh(z: jax.Array) -> jax.Array:
    """Return the hyperbolic cosine; see `sinh`."""
    a, b = _parts(z)
    finite = lax.is_finite(b)
    s, c, k = _scaled_sinh_cosh(a)
    sin_b, cos_b = _trig(b, finite)
    re = _where(~finite & _isinf(a), _INF, c * cos_b * k)
    im = _where((a == 0) | (b == 0), _signed_zero(a, b), s * sin_b * k)
    return lax.complex(re, im)


def _signed_zero(a: jax.Array, b: jax.Array) -> jax.Array:
    negative = jnp.signbit(a) != jnp.signbit(b)
    return _where(negative, -0.0, 0.0).astype(a.dtype)


def sin(z: jax.Array) -> jax.Array:
    """Return the sine."""
    return _over_j(sinh(_times_j(z)))


def cos(z: jax.Array) -> jax.Array:
    """Return the cosine."""
    return cosh(_times_j(z))


def tanh(z: jax.Array) -> jax.Array:
    """Return the hyperbolic tangent."""
    a, b = _parts(z)
    re, im = _parts(lax.tanh(z))
    finite = lax.is_finite(b)
    # The real component is known to be zero even where the angle is not.
    re = _where((a == 0) & ~finite, a, re)
    # The standard gives 1 + 0j for every positive finite angle, where C99 gives the zero the sign of sin(2 b).
    im = _where(_isinf(a), jnp.copysign(jnp.zeros_like(b), _where(finite, b, 0.0)), im)
    im = _where(b == 0, b, im)  # XLA may lose the sign of a zero
    return lax.complex(re, im)


def tan(z: jax.Array) -> jax.Array:
    """Return the tangent."""
    return _over_j(tanh(_times_j(z)))


def asinh(z: jax.Array) -> jax.Array:
    """Return the inverse hyperbolic sine; branch cuts on the imaginary axis beyond +-i."""
    a, b = _parts(z)
    re, im = _parts(lax.asinh(z))
    # XLA does not tell the sides of the cuts apart, and gives large finite b a magnitude when a is NaN.
    re = _where(_isnan(a) & ~_isinf(b), _NAN, jnp.copysign(re, a))
    im = _where(_isnan(a) & (b == 0), b, jnp.copysign(im, b))
    re = _where(_isnan(b) & ~_isinf(a), _NAN, re)
    return lax.complex(re, im)


def asin(z: jax.Array) -> jax.Array:
    """Return the inverse sine; branch cuts on the real axis beyond +-1."""
    return _over_j(asinh(_times_j(z)))


def acos(z: jax.Array) -> jax.Array:
    """Return the inverse cosine; branch cuts on the real axis beyond +-1."""
    a, b = _parts(z)
    re, im = _parts(lax.acos(z))
    re = _where(_isnan(b), _where(a == 0, math.pi / 2, _NAN), _where(_isnan(a), _NAN, re))
    im = _where((_isnan(a) & ~_isinf(b)) | (_isnan(b) & ~_isinf(a)), _NAN, jnp.copysign(im, -b))
    return lax.complex(re, im)


def acosh(z: jax.Array) -> jax.Array:
    """Return the inverse hyperbolic cosine; branch cut on the real axis below 1."""
    re, im = _parts(acos(z))
    return lax.complex(lax.abs(im), jnp.copysign(re, lax.imag(z)))


def atanh(z: jax.Array) -> jax.Array:
    """Return the inverse hyperbolic tangent; branch cuts on the real axis beyond +-1."""
    a, b = _parts(z)
    re, im = _parts(lax.atanh(z))
    # At +-1 + bi XLA squares b, which underflows and gives an infinity.
    size = lax.abs(b)
    near = (lax.abs(a) == 1) & (b != 0) & (size < float(jnp.finfo(a.dtype).eps))
    re = _where(near, 0.5 * (math.log(2.0) - lax.log(_where(near, size, 1.0))), re)
    re = _where((a == 0) | _isinf(a) | _isinf(b), 0.0, re)
    im = _where(_isinf(b), math.pi / 2, _where(_isnan(a) | _isnan(b), _NAN, im))
    return lax.complex(jnp.copysign(re, a), jnp.copysign(im, b))


def atan(z: jax.Array) -> jax.Array:
    """Return the inverse tangent; branch cuts on the imaginary axis beyond +-i."""
    return _over_j(atanh(_times_j(z)))


def pow(z: jax.Array, w: jax.Array) -> jax.Array:
    """Return exp(w log(z)); a zero base has the power 0 for every exponent with a positive real component.

    ``jax.numpy.power`` gives NaN there unless the exponent is real.
    """
    power = jnp.power(z, w)
    return _where((z == 0) & (lax.real(w) > 0), jnp.zeros_like(power), power)


def sign(z: jax.Array) -> jax.Array:
    """Return z / |z|, and 0 at 0; the direction of an infinite component beside a finite one."""
    a, b = _parts(z)
    one_infinite = _isinf(a) != _isinf(b)
    a, b = (_where(one_infinite, jnp.copysign(_where(_isinf(c), 1.0, 0.0), c), c) for c in (a, b))
    # XLA divides by |z|, which overflows above and underflows below these limits.
    info = jnp.finfo(a.dtype)
    largest = lax.max(lax.abs(a), lax.abs(b))
    scale = _where(largest > float(info.max) / 4, 0.25, _where(largest < float(info.tiny) * 2**30, 2.0**60, 1.0))
    a, b = a * scale, b * scale
    size = jnp.hypot(a, b)
    zero = size == 0
    size = _where(zero, 1.0, _where(_isinf(size), _NAN, size))
    re, im = _where(zero, 0.0, a / size), _where(zero, 0.0, b / size)
    unknown = _isnan(a) | _isnan(b)
    return lax.complex(_where(unknown, _NAN, re), _where(unknown, _NAN, im))


def round(z: jax.Array) -> jax.Array:
    """Round both components to the nearest integer, halves to even."""
    a, b = _parts(z)
    even = lax.RoundingMethod.TO_NEAREST_EVEN
    return lax.complex(lax.round(a, even), lax.round(b, even))
