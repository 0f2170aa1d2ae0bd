"""Activations on raw arrays.

Operands are real floating. Floats below 32 bits are computed in float32 and rounded once. Every function has its
limits at the infinities, also where its formula does not.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from ..checks import activation as _check
from ..checks.elementwise import floating
from ..checks.parameters import axis, number
from ..kernels.swiglu import swiglu as _swiglu
from ..raw._kinds import accumulator, cast
from ..raw.elementwise_real import clip

__all__ = [
    "celu",
    "elu",
    "gelu",
    "glu",
    "hard_sigmoid",
    "leaky_relu",
    "log_softmax",
    "mish",
    "prelu",
    "relu",
    "selu",
    "sigmoid",
    "silu",
    "silu_mul",
    "softmax",
    "softplus",
    "swiglu",
    "tanh",
]

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def _rounded_once(fn: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """Decorate a function of one array: check its dtype, and compute floats below 32 bits in float32."""
    operation = fn.__name__

    @functools.wraps(fn)
    def raw(x: jax.Array, **params: object) -> jax.Array:
        floating(operation, x.dtype)
        return cast(fn(cast(x, accumulator(x.dtype)), **params), x.dtype)

    return raw


def _gated(x: jax.Array, gate: Callable[[jax.Array], jax.Array], bound: float = math.inf) -> jax.Array:
    """Return ``x * gate(x)`` for a gate that rises from 0 to 1.

    From `bound` on the gate is 1, and below its negative 0, so that the product has its limits in value (-0 at
    -infinity) and derivative, where the formula is infinity times 0.
    """
    high, low = x >= bound, x <= -bound
    inside = jnp.where(high | low, lax.full_like(x, 0), x)
    return jnp.where(high, x, jnp.where(low, lax.full_like(x, -0.0), inside * gate(inside)))


def relu(x: jax.Array) -> jax.Array:
    """Return the positive part; NaN of NaN, and derivative 0 at 0."""
    floating("relu", x.dtype)
    return jax.nn.relu(x)


def leaky_relu(x: jax.Array, *, negative_slope: float = 0.01) -> jax.Array:
    """Return ``max(negative_slope * x, x)``, also for slopes above 1; at 0 the derivative is the mean of both."""
    floating("leaky_relu", x.dtype)
    slope = number("leaky_relu", "negative_slope", negative_slope)
    return cast(_greater_of(slope, cast(x, accumulator(x.dtype))), x.dtype)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _greater_of(slope: float, x: jax.Array) -> jax.Array:
    # 0 times infinity is no slope.
    if x.dtype.type(slope):
        return lax.max(x * slope, x)
    below = lax.full_like(x, 0)
    if slope:  # too small a number for the device, but not for infinity
        below = jnp.where(jnp.isinf(x), x * math.copysign(1, slope), below)
    return lax.max(below, x)


@_greater_of.defjvp
def _greater_of_jvp(slope: float, primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    # As of the maximum, except at the infinities, where that takes both slopes for equal.
    (x,), (t,) = primals, tangents
    below, above = sorted((slope, 1.0))
    slopes = jnp.where(x > 0, above, jnp.where(x < 0, below, (below + above) / 2))
    return _greater_of(slope, x), t * slopes.astype(x.dtype)


@_rounded_once
def elu(x: jax.Array, *, alpha: float = 1.0) -> jax.Array:
    """Return x where positive, else ``alpha * (exp(x) - 1)``."""
    return jax.nn.elu(x, number("elu", "alpha", alpha))


@_rounded_once
def selu(x: jax.Array) -> jax.Array:
    """Return elu with the constants of self-normalizing networks."""
    return _SELU_SCALE * jax.nn.elu(x, _SELU_ALPHA)


@_rounded_once
def celu(x: jax.Array, *, alpha: float = 1.0) -> jax.Array:
    """Return ``max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))``."""
    scale = _check.divisor("celu", "alpha", alpha)
    if not x.dtype.type(scale):  # too small a number for the device: what it tends to
        return relu(x)
    if math.isinf(x.dtype.type(scale)):
        return x
    negative = jnp.where(x > 0, lax.full_like(x, 0), x)
    return jnp.where(x > 0, x, scale * lax.expm1(negative / scale))


@_rounded_once
def gelu(x: jax.Array, *, approximate: str = "none") -> jax.Array:
    """Return x times the normal distribution function of x, exact or by a tanh."""
    if _check.approximation("gelu", approximate) == "none":
        return _gated(x, lambda x: 0.5 * lax.erfc(x * -math.sqrt(0.5)), 50.0)
    # (1 + tanh(y)) / 2 is sigmoid(2 y), which does not cancel on the negative side.
    return _gated(x, lambda x: lax.logistic(math.sqrt(8 / math.pi) * (x + 0.044715 * (x * x * x))), 50.0)


@_rounded_once
def tanh(x: jax.Array) -> jax.Array:
    """Return the hyperbolic tangent."""
    return lax.tanh(x)


@_rounded_once
def sigmoid(x: jax.Array) -> jax.Array:
    """Return ``1 / (1 + exp(-x))``."""
    return lax.logistic(x)


@_rounded_once
def silu(x: jax.Array) -> jax.Array:
    """Return ``x * sigmoid(x)``."""
    return _gated(x, lax.logistic)


@_rounded_once
def mish(x: jax.Array) -> jax.Array:
    """Return ``x * tanh(softplus(x))``."""
    return _gated(x, lambda x: lax.tanh(_softplus(x)))


def _softplus(x: jax.Array) -> jax.Array:
    return jnp.logaddexp(x, lax.full_like(x, 0))


@_rounded_once
def softplus(x: jax.Array, *, beta: float = 1.0, threshold: float = 20.0) -> jax.Array:
    """Return ``log(1 + exp(beta * x)) / beta``; x itself where ``beta * x`` is above the threshold."""
    scale = _check.divisor("softplus", "beta", beta)
    above = number("softplus", "threshold", threshold)
    scaled = x * scale
    return jnp.where(scaled > above, x, _softplus(jnp.where(scaled > above, lax.full_like(x, 0), scaled)) / scale)


@_rounded_once
def hard_sigmoid(x: jax.Array) -> jax.Array:
    """Return ``clamp(x + 3, 0, 6) / 6``; at the bounds the derivative is 1/6, as that of clamp is 1."""
    return clip(x + 3.0, lax.full_like(x, 0), lax.full_like(x, 6)) / 6.0


def prelu(x: jax.Array, weight: jax.Array) -> jax.Array:
    """Return x where positive, else ``weight * x``, with one weight or one for each index of axis 1."""
    _check.prelu(x.shape, x.dtype, weight.shape, weight.dtype)
    work = accumulator(x.dtype)
    wide, slope = cast(x, work), cast(weight, work)
    if slope.size != 1:
        slope = slope.reshape(1, -1, *(1,) * (x.ndim - 2))
    elif slope.ndim:
        slope = slope.reshape(())
    # Without this the derivative by the weight would be infinity times 0 where x is infinite.
    negative = jnp.where(wide > 0, lax.full_like(wide, 0), wide)
    return cast(jnp.where(wide > 0, wide, slope * negative), x.dtype)


def glu(x: jax.Array, *, dim: int = -1) -> jax.Array:
    """Return the first half along an axis times the sigmoid of the second."""
    return _halves("glu", x, dim, lambda a, b: a * lax.logistic(b))


def swiglu(x: jax.Array, *, dim: int = -1) -> jax.Array:
    """Return the silu of the first half along an axis times the second half."""
    floating("swiglu", x.dtype)
    place, half = _check.halves("swiglu", x.shape, dim)
    return _swiglu(*(lax.slice_in_dim(x, start, start + half, axis=place) for start in (0, half)))


def _halves(operation: str, x: jax.Array, dim: int, fn: Callable[[jax.Array, jax.Array], jax.Array]) -> jax.Array:
    floating(operation, x.dtype)
    place, half = _check.halves(operation, x.shape, dim)
    wide = cast(x, accumulator(x.dtype))
    first, second = (lax.slice_in_dim(wide, start, start + half, axis=place) for start in (0, half))
    return cast(fn(first, second), x.dtype)


def silu_mul(gate: jax.Array, up: jax.Array) -> jax.Array:
    """Return ``silu(gate) * up``, rounded once."""
    floating("silu_mul", gate.dtype, "gate")
    floating("silu_mul", up.dtype, "up")
    _check.same_shape("silu_mul", gate.shape, up.shape, "up")
    return _swiglu(gate, up)


@_rounded_once
def softmax(x: jax.Array, *, dim: int) -> jax.Array:
    """Return ``exp(x)`` over its sum along an axis; NaN where all are -infinity."""
    place = axis("softmax", dim, x.ndim)
    return jax.nn.softmax(x, place) if x.size else x


@_rounded_once
def log_softmax(x: jax.Array, *, dim: int) -> jax.Array:
    """Return the logarithm of `softmax`, without forming it."""
    place = axis("log_softmax", dim, x.ndim)
    return jax.nn.log_softmax(x, place) if x.size else x
