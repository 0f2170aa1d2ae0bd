"""Activations, with their limits at the infinities also where the formula is infinity times 0."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...checks import activation as check
from ...checks.elementwise import floating
from ...checks.parameters import axis, number
from .elementwise import function_of
from .rounding import narrow, wide
from .special import erfc
from .special import sigmoid as logistic
from .special import softplus as log1p_exp

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

# Klambauer et al. 2017, appendix; the solution of the fixed-point equations for mean 0 and variance 1.
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def relu(x: np.ndarray, /) -> np.ndarray:
    """Return ``max(x, 0)``; NaN stays NaN."""
    return function_of("relu", x, lambda x: np.maximum(x, 0))


def leaky_relu(x: np.ndarray, /, *, negative_slope: float = 0.01) -> np.ndarray:
    """Return ``max(negative_slope * x, x)`` literally, so slopes above 1 act on the positive side; slope 0 is relu."""
    slope = number("leaky_relu", "negative_slope", negative_slope)
    return function_of("leaky_relu", x, lambda x: np.maximum(slope * x if slope else 0 * np.sign(x), x))


def elu(x: np.ndarray, /, *, alpha: float = 1.0) -> np.ndarray:
    """Return x where positive, else ``alpha * (exp(x) - 1)``."""
    scale = number("elu", "alpha", alpha)
    return function_of("elu", x, lambda x: np.where(x > 0, x, scale * np.expm1(np.minimum(x, 0))))


def selu(x: np.ndarray, /) -> np.ndarray:
    """Return ``scale * elu(x, alpha)`` with the constants of self-normalizing networks."""
    return function_of("selu", x, lambda x: _SELU_SCALE * np.where(x > 0, x, _SELU_ALPHA * np.expm1(np.minimum(x, 0))))


def celu(x: np.ndarray, /, *, alpha: float = 1.0) -> np.ndarray:
    """Return x where positive, else ``alpha * (exp(x / alpha) - 1)``."""
    scale = check.divisor("celu", "alpha", alpha)
    return function_of("celu", x, lambda x: np.where(x > 0, x, scale * np.expm1(np.minimum(x, 0) / scale)))


def _gated(x: np.ndarray, gate: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return ``x * gate(x)``, whose limit at -infinity is -0."""
    return np.where(np.isneginf(x), -0.0, x * gate(x))


def gelu(x: np.ndarray, /, *, approximate: str = "none") -> np.ndarray:
    """Return ``x * Phi(x)``, Phi the normal distribution function, or its form by tanh (Hendrycks and Gimpel 2016)."""
    if check.approximation("gelu", approximate) == "none":
        return function_of("gelu", x, lambda x: _gated(x, lambda x: erfc(-x / np.sqrt(x.dtype.type(2))) / 2))
    return function_of("gelu", x, lambda x: _gated(x, _tanh_gate))


def _tanh_gate(x: np.ndarray) -> np.ndarray:
    """Return ``(1 + tanh(y)) / 2``, which is ``sigmoid(2 y)``, for ``y = sqrt(2 / pi) * (x + 0.044715 x**3)``."""
    pi = np.arccos(x.dtype.type(-1))
    return logistic(np.sqrt(8 / pi) * (x + 0.044715 * x * x * x))


def tanh(x: np.ndarray, /) -> np.ndarray:
    """Return the hyperbolic tangent; exactly 1 and -1 far out."""
    return function_of("tanh", x, np.tanh)


def sigmoid(x: np.ndarray, /) -> np.ndarray:
    """Return ``1 / (1 + exp(-x))``; exactly 0 and 1 far out."""
    return function_of("sigmoid", x, logistic)


def silu(x: np.ndarray, /) -> np.ndarray:
    """Return ``x * sigmoid(x)``."""
    return function_of("silu", x, lambda x: _gated(x, logistic))


def mish(x: np.ndarray, /) -> np.ndarray:
    """Return ``x * tanh(softplus(x))``."""
    return function_of("mish", x, lambda x: _gated(x, lambda x: np.tanh(log1p_exp(x))))


def softplus(x: np.ndarray, /, *, beta: float = 1.0, threshold: float = 20.0) -> np.ndarray:
    """Return ``log(1 + exp(beta * x)) / beta``; x itself where ``beta * x`` is above the threshold."""
    scale = check.divisor("softplus", "beta", beta)
    above = number("softplus", "threshold", threshold)
    return function_of("softplus", x, lambda x: np.where(scale * x > above, x, log1p_exp(scale * x) / scale))


def hard_sigmoid(x: np.ndarray, /) -> np.ndarray:
    """Return ``clamp(x + 3, 0, 6) / 6``."""
    return function_of("hard_sigmoid", x, lambda x: np.clip(x + 3, 0, 6) / 6)


def prelu(x: np.ndarray, weight: np.ndarray, /) -> np.ndarray:
    """Return x where positive, else ``weight * x``; one weight, or one for each index of axis 1."""
    check.prelu(x.shape, x.dtype, weight.shape, weight.dtype)
    slope = wide(weight)
    slope = slope.reshape(()) if slope.size == 1 else slope.reshape(-1, *(1,) * (x.ndim - 2))
    return function_of("prelu", x, lambda x: np.where(x > 0, x, slope * x))


def _halves(name: str, x: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
    floating(name, x.dtype)
    place, _ = check.halves(name, x.shape, dim)
    first, second = np.split(wide(x), 2, place)
    return first, second


def glu(x: np.ndarray, /, *, dim: int = -1) -> np.ndarray:
    """Return the first half along `dim` times the sigmoid of the second."""
    first, second = _halves("glu", x, dim)
    with np.errstate(all="ignore"):
        return narrow(first * logistic(second), x.dtype)


def swiglu(x: np.ndarray, /, *, dim: int = -1) -> np.ndarray:
    """Return the silu of the first half along `dim` times the second half."""
    first, second = _halves("swiglu", x, dim)
    with np.errstate(all="ignore"):
        return narrow(_gated(first, logistic) * second, x.dtype)


def silu_mul(gate: np.ndarray, up: np.ndarray, /) -> np.ndarray:
    """Return ``silu(gate) * up``."""
    floating("silu_mul", gate.dtype)
    floating("silu_mul", up.dtype, "y")
    check.same_shape("silu_mul", gate.shape, up.shape, "y")
    with np.errstate(all="ignore"):
        return narrow(_gated(wide(gate), logistic) * wide(up), gate.dtype)


def _shifted(x: np.ndarray, place: int) -> np.ndarray:
    """Return the values less their greatest along an axis, in wide precision."""
    values = wide(x)
    shifted: np.ndarray = values - values.max(place, keepdims=True)
    return shifted


def softmax(x: np.ndarray, /, *, dim: int) -> np.ndarray:
    """Return ``exp(x)`` over its sum along `dim`; NaN where all values are -infinity, or one is infinity."""
    floating("softmax", x.dtype)
    place = axis("softmax", dim, x.ndim)
    if not x.size:
        return x.copy()
    with np.errstate(all="ignore"):
        powers = np.exp(_shifted(x, place))
        return narrow(powers / powers.sum(place, keepdims=True), x.dtype)


def log_softmax(x: np.ndarray, /, *, dim: int) -> np.ndarray:
    """Return the logarithm of `softmax`, without forming it."""
    floating("log_softmax", x.dtype)
    place = axis("log_softmax", dim, x.ndim)
    if not x.size:
        return x.copy()
    with np.errstate(all="ignore"):
        shifted = _shifted(x, place)
        powers = np.exp(shifted)
        # The greatest counts 1, which log1p keeps out of the sum: beside it the others may be tiny.
        np.put_along_axis(powers, np.expand_dims(shifted.argmax(place), place), 0, place)
        total = np.log1p(powers.sum(place, keepdims=True))
        # Beside +infinity or NaN nothing is left to compare.
        total[np.isnan(shifted).any(place, keepdims=True)] = np.nan
        return narrow(shifted - total, x.dtype)
