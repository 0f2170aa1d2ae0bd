"""Default bodies of elementwise operations and activations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

import ml_dtypes

from ..core import Tensor
from .tools import Body, constant, host, in_float32, is_floating, take_rows

if TYPE_CHECKING:
    from ..base import Backend

__all__ = ["BODIES"]

T = TypeVar("T", bound=Tensor)

_FAR = -1000.0  # exp of it is 0 in float32 and float64
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def sub(B: Backend[T], lhs: T, rhs: T) -> T:
    """``lhs + (-rhs)``."""
    return B.add(lhs, B.neg(rhs))


def neg(B: Backend[T], x: T) -> T:
    """``x * -1``; for unsigned integers the factor that wraps to it."""
    return B.mul(x, constant(B, x, _minus_one(x)))


def _minus_one(x: Tensor) -> int:
    return int(ml_dtypes.iinfo(x.dtype).max) if x.dtype.kind == "u" else -1


def flip(B: Backend[T], x: T) -> T:
    """Reverse the order of the values of a dtype: ``-x`` of floats, ``-1 - x`` of integers."""
    return B.neg(x) if is_floating(x) else B.add(B.neg(x), constant(B, x, _minus_one(x)))


def minimum(B: Backend[T], lhs: T, rhs: T) -> T:
    """The maximum in the reversed order."""
    if lhs.dtype != rhs.dtype:
        zero = constant(B, lhs, 0), constant(B, rhs, 0)
        lhs, rhs = B.add(lhs, zero[1]), B.add(rhs, zero[0])
    return flip(B, B.maximum(flip(B, lhs), flip(B, rhs)))


def abs(B: Backend[T], x: T) -> T:
    """The greater of x and -x; adding 0 makes 0 of -0."""
    if x.dtype.kind == "u":
        return x
    found = B.maximum(x, B.neg(x))
    return B.add(found, constant(B, x, 0.0)) if is_floating(x) else found


def sqrt(B: Backend[T], x: T) -> T:
    """``x ** 0.5``, with NaN for -inf and -0 for -0."""
    root = B.pow(x, 0.5)
    below = B.log(B.gt_scalar(x, -math.inf))  # -inf at -inf and NaN, else 0
    root = B.add(root, B.mul(below, constant(B, x, 0.0)))
    # 1 / -0 is -inf.
    sign = B.add(
        B.mul(B.gt_scalar(B.div(constant(B, x, 1.0), x), -math.inf), constant(B, x, 2.0)), constant(B, x, -1.0)
    )
    return B.mul(root, sign)


def cos(B: Backend[T], x: T) -> T:
    """``1 - 2 sin(x / 2) ** 2``: halving is exact, adding half of pi is not."""
    half = B.sin(B.mul(x, constant(B, x, 0.5)))
    return B.add(B.mul(B.mul(half, half), constant(B, x, -2.0)), constant(B, x, 1.0))


def clamp(B: Backend[T], x: T, low: float, high: float) -> T:
    """Maximum, then minimum."""
    if not is_floating(x):
        info = ml_dtypes.iinfo(x.dtype)
        low = _whole(low, int(info.min), int(info.max))
        high = _whole(high, int(info.min), int(info.max))
    return B.minimum(B.maximum(x, constant(B, x, low)), constant(B, x, high))


def _whole(limit: float, least: int, greatest: int) -> int:
    """Return a limit as an integer that the dtype has."""
    return least if limit <= least else greatest if limit >= greatest else int(limit)


def relu(B: Backend[T], x: T) -> T:
    """``max(x, 0)``."""
    return B.maximum(x, constant(B, x, 0.0))


def leaky_relu(B: Backend[T], x: T, negative_slope: float) -> T:
    """``max(slope * x, x)``; 0 times infinity is no slope."""
    return B.maximum(B.mul(x, constant(B, x, negative_slope)), x) if negative_slope else B.relu(x)


def prelu(B: Backend[T], x: T, weight: T) -> T:
    """``max(x, 0) + weight * min(x, 0)``."""
    if weight.shape != (1,):
        weight = B.reshape(weight, (1, -1, *(1,) * (x.ndim - 2)))
    zero = constant(B, x, 0.0)
    return B.add(B.maximum(x, zero), B.mul(weight, B.minimum(x, zero)))


def sigmoid(B: Backend[T], x: T) -> T:
    """``1 / (1 + exp(-x))``: exp overflows to infinity, whose inverse is the limit."""
    one = constant(B, x, 1.0)
    return B.div(one, B.add(one, B.exp(B.neg(x))))


def _expm1_below(B: Backend[T], x: T) -> T:
    """``exp(x) - 1`` for x up to 0, of full relative precision (Kahan: ``(u - 1) * x / log(u)`` for u = exp(x))."""
    x = B.maximum(x, constant(B, x, -40.0))
    u = B.exp(x)
    less = B.add(u, constant(B, x, -1.0))
    same = B.sub(constant(B, x, 1.0), B.gt_scalar(B.neg(less), 0.0))  # 1 where u is 1 (or x NaN)
    return B.div(B.add(B.mul(less, x), B.mul(same, x)), B.add(B.log(u), same))


def _log1p_unit(B: Backend[T], v: T) -> T:
    """``log(1 + v)`` for v in [0, 1], of full relative precision, by the same device."""
    u = B.add(v, constant(B, v, 1.0))
    more = B.add(u, constant(B, v, -1.0))
    same = B.sub(constant(B, v, 1.0), B.gt_scalar(more, 0.0))
    return B.div(B.mul(B.add(B.log(u), same), v), B.add(more, same))


def tanh(B: Backend[T], x: T) -> T:
    """``-t / (2 + t)`` for t = exp(-2 abs(x)) - 1, with the sign of x."""
    t = _expm1_below(B, B.mul(B.abs(x), constant(B, x, -2.0)))
    size = B.div(B.neg(t), B.add(t, constant(B, x, 2.0)))
    return B.mul(size, B.sub(B.gt_scalar(x, 0.0), B.gt_scalar(B.neg(x), 0.0)))


def elu(B: Backend[T], x: T, alpha: float) -> T:
    """``max(x, 0) + alpha * expm1(min(x, 0))``."""
    zero = constant(B, x, 0.0)
    below = B.mul(_expm1_below(B, B.minimum(x, zero)), constant(B, x, alpha))
    return B.add(B.maximum(x, zero), below)


def selu(B: Backend[T], x: T) -> T:
    """Scaled elu."""
    return B.mul(B.elu(x, _SELU_ALPHA), constant(B, x, _SELU_SCALE))


def celu(B: Backend[T], x: T, alpha: float) -> T:
    """``max(x, 0) + alpha * expm1(min(x, 0) / alpha)``."""
    if alpha < 0:
        return host("celu")(B, x, alpha)  # type: ignore[return-value]
    zero, scale = constant(B, x, 0.0), constant(B, x, alpha)
    return B.add(B.maximum(x, zero), B.mul(_expm1_below(B, B.div(B.minimum(x, zero), scale)), scale))


def softplus(B: Backend[T], x: T, beta: float, threshold: float) -> T:
    """``(max(z, 0) + log1p(exp(-abs(z)))) / beta`` for z = beta * x, and x beyond the threshold."""
    if threshold < 0:
        return host("softplus")(B, x, beta, threshold)  # type: ignore[return-value]
    z = B.mul(x, constant(B, x, beta))
    rest = _log1p_unit(B, B.exp(B.neg(B.abs(z))))
    near = B.sub(constant(B, x, 1.0), B.gt_scalar(z, threshold))
    return B.div(B.add(B.relu(z), B.mul(rest, near)), constant(B, x, beta))


def silu(B: Backend[T], x: T) -> T:
    """``x * sigmoid(x)``, where x is kept finite below."""
    x = B.maximum(x, constant(B, x, _FAR))
    return B.mul(x, B.sigmoid(x))


def mish(B: Backend[T], x: T) -> T:
    """``x * tanh(log(1 + exp(x)))`` as a quotient of exponentials that cannot overflow."""
    zero, two = constant(B, x, 0.0), constant(B, x, 2.0)
    x = B.maximum(x, constant(B, x, _FAR))
    n, m = B.exp(B.minimum(x, zero)), B.exp(B.neg(B.relu(x)))
    top = B.add(B.mul(n, n), B.mul(two, B.mul(n, m)))
    return B.mul(x, B.div(top, B.add(top, B.mul(two, B.mul(m, m)))))


def hard_sigmoid(B: Backend[T], x: T) -> T:
    """``clamp(x + 3, 0, 6) / 6``."""
    return B.div(B.clamp(B.add(x, constant(B, x, 3.0)), 0.0, 6.0), constant(B, x, 6.0))


def gelu(B: Backend[T], x: T, approximate: str) -> T:
    """By sigmoid for the approximation; erf is no primitive."""
    if approximate == "none":
        return host("gelu")(B, x, approximate)  # type: ignore[return-value]
    x = B.maximum(x, constant(B, x, -100.0))
    inner = B.add(x, B.mul(B.pow(x, 3.0), constant(B, x, 0.044715)))
    return B.mul(x, B.sigmoid(B.mul(inner, constant(B, x, math.sqrt(8 / math.pi)))))


def silu_mul(B: Backend[T], gate: T, up: T) -> T:
    """``silu(gate) * up``."""
    return B.mul(B.silu(gate), up)


def _halves(B: Backend[T], x: T, dim: int) -> tuple[T, T]:
    half = x.shape[dim] // 2
    return take_rows(B, x, dim, range(half)), take_rows(B, x, dim, range(half, 2 * half))


def glu(B: Backend[T], x: T, dim: int) -> T:
    """``a * sigmoid(b)``."""
    a, b = _halves(B, x, dim)
    return B.mul(a, B.sigmoid(b))


def swiglu(B: Backend[T], x: T, dim: int) -> T:
    """``silu(a) * b``."""
    a, b = _halves(B, x, dim)
    return B.mul(B.silu(a), b)


def softmax(B: Backend[T], x: T, dim: int) -> T:
    """Exponentials of the distance to the greatest element, divided by their sum."""
    if 0 in x.shape:
        return x
    powers = B.exp(B.sub(x, B.max_dim(x, dim)))
    return B.div(powers, B.sum_dim(powers, dim))


def log_softmax(B: Backend[T], x: T, dim: int) -> T:
    """The distance to the greatest element, less the logarithm of the sum of exponentials."""
    if 0 in x.shape:
        return x
    shifted = B.sub(x, B.max_dim(x, dim))
    return B.sub(shifted, B.log(B.sum_dim(B.exp(shifted), dim)))


BODIES: dict[str, Body] = {
    "sub": sub,
    "neg": neg,
    "minimum": minimum,
    "abs": abs,
    "sqrt": in_float32(sqrt),
    "cos": in_float32(cos),
    "clamp": clamp,
    "relu": relu,
    "leaky_relu": in_float32(leaky_relu),
    "prelu": in_float32(prelu, common=True),
    "sigmoid": in_float32(sigmoid),
    "tanh": in_float32(tanh),
    "elu": in_float32(elu),
    "selu": in_float32(selu),
    "celu": in_float32(celu),
    "softplus": in_float32(softplus),
    "silu": in_float32(silu),
    "mish": in_float32(mish),
    "hard_sigmoid": in_float32(hard_sigmoid),
    "gelu": in_float32(gelu),
    "silu_mul": in_float32(silu_mul, common=True),
    "glu": in_float32(glu),
    "swiglu": in_float32(swiglu),
    "softmax": in_float32(softmax),
    "log_softmax": in_float32(log_softmax),
}
