"""Activations.

All take real floating Arrays of any shape and return the same dtype. Floats below 32 bits are computed in float32 and
rounded once. NaN stays NaN, and the values at the infinities are the limits, in value and in derivative.
"""

from __future__ import annotations

from .._array import Array, call1, call2, unary
from ..checks.activation import approximation, divisor
from ..checks.parameters import axis as axis_of
from ..checks.parameters import number
from ..core.dispatch import Op
from ..ops import activation as _ops

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

_relu, _selu, _tanh = unary(Op("relu", _ops.relu)), unary(Op("selu", _ops.selu)), unary(Op("tanh", _ops.tanh))
_sigmoid, _silu = unary(Op("sigmoid", _ops.sigmoid)), unary(Op("silu", _ops.silu))
_mish, _hard_sigmoid = unary(Op("mish", _ops.mish)), unary(Op("hard_sigmoid", _ops.hard_sigmoid))
_leaky_relu = Op("leaky_relu", _ops.leaky_relu, ("negative_slope",))
_elu, _celu = Op("elu", _ops.elu, ("alpha",)), Op("celu", _ops.celu, ("alpha",))
_gelu = Op("gelu", _ops.gelu, ("approximate",))
_softplus = Op("softplus", _ops.softplus, ("beta", "threshold"))
_prelu, _silu_mul = Op("prelu", _ops.prelu), Op("silu_mul", _ops.silu_mul)
_glu, _swiglu = Op("glu", _ops.glu, ("dim",)), Op("swiglu", _ops.swiglu, ("dim",))
_softmax, _log_softmax = Op("softmax", _ops.softmax, ("dim",)), Op("log_softmax", _ops.log_softmax, ("dim",))


def relu(x: Array, /) -> Array:
    """Return the positive part, ``max(x, 0)``.

    Parameters
    ----------
    x
        Real floating, of any shape.

    Returns
    -------
    Array
        NaN where `x` is NaN. The derivative at 0 is 0.

    Raises
    ------
    UnsupportedDType
        `x` is not real floating.
    """
    return _relu(x)


def leaky_relu(x: Array, /, *, negative_slope: float = 0.01) -> Array:
    """Return ``max(negative_slope * x, x)``.

    Parameters
    ----------
    x
        Real floating, of any shape.
    negative_slope
        The slope below 0 where it is at most 1; one above 1 is the slope above 0, as the formula says.

    Returns
    -------
    Array
        At 0 the derivative is the mean of the two slopes.

    Raises
    ------
    UnsupportedDType
        `x` is not real floating.
    InvalidArgument
        The slope is not a finite number.
    """
    return call1(_leaky_relu, x, number("leaky_relu", "negative_slope", negative_slope))


def elu(x: Array, /, *, alpha: float = 1.0) -> Array:
    """Return x where it is positive, else ``alpha * (exp(x) - 1)`` (Clevert et al. 2015).

    Parameters
    ----------
    x
        Real floating, of any shape.
    alpha
        Minus the limit at -infinity.

    Returns
    -------
    Array

    Raises
    ------
    UnsupportedDType
        `x` is not real floating.
    InvalidArgument
        `alpha` is not a finite number.
    """
    return call1(_elu, x, number("elu", "alpha", alpha))


def selu(x: Array, /) -> Array:
    """Return ``scale * elu(x, alpha)`` with the constants that keep mean 0 and variance 1 (Klambauer et al. 2017).

    Parameters
    ----------
    x
        Real floating, of any shape.

    Returns
    -------
    Array

    Raises
    ------
    UnsupportedDType
        `x` is not real floating.
    """
    return _selu(x)


def celu(x: Array, /, *, alpha: float = 1.0) -> Array:
    """Return ``max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))``, whose derivative is continuous (Barron 2017).

    Parameters
    ----------
    x
        Real floating, of any shape.
    alpha
        Minus the limit at -infinity; not 0.

    Returns
    -------
    Array

    Raises
    ------
    UnsupportedDType
        `x` is not real floating.
    InvalidArgument
        `alpha` is 0 or not a finite number.
    """
    return call1(_celu, x, divisor("celu", "alpha", alpha))


def gelu(x: Array, /, *, approximate: str = "none") -> Array:
    """Return x times the standard normal distribution function of x (Hendrycks and Gimpel 2016).

    Parameters
    ----------
    x
        Real floating, of any shape.
    approximate
        ``"none"``: the exact form, with the error function. ``"tanh"``:
        ``x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2``.

    Returns
    -------
    Array
        -0 at -infinity.

    Raises
    ------
    UnsupportedDType
        `x` is not real floating.
    InvalidArgument
        `approximate` is another word.
    """
    return call1(_gelu, x, approximation("gelu", approximate))


def tanh(x: Array, /) -> Array:
    """Return the hyperbolic tangent; exactly 1 and -1 for large arguments.

    Parameters
    ----------
    x
        Real floating, of any shape.

    Returns
    -------
    Array

    Raises
    ------
    UnsupportedDType
        `x` is not real floating.
    """
    return _tanh(x)


def sigmoid(x: Array, /) -> Array:
    """Return ``1 / (1 + exp(-x))``, without overflow; exactly 0 and 1 for large arguments.

    Parameters
    ----------
    x
        Real floating, of any shape.

    Returns
    -------
    Array

    Raises
    ------
    UnsupportedDType
        `x` is not real floating.
    """
    return _sigmoid(x)


def silu(x: Array, /) -> Array:
    """Return ``x * sigmoid(x)``, also called swish (Elfwing et al. 2017).

    Parameters
    ----------
    x
        Real floating, of any shape.

    Returns
    -------
    Array
        -0 at -infinity.

    Raises
    ------
    UnsupportedDType
        `x` is not real floating.
    """
    return _silu(x)


def silu_mul(gate: Array, up: Array, /) -> Array:
    """Return ``silu(gate) * up``, rounded once: the gate of a Llama's feed-forward block.

    Parameters
    ----------
    gate
        Real floating, of any shape.
    up
        What is gated; the same shape.

    Returns
    -------
    Array
        Of the dtype of `gate`.

    Raises
    ------
    ShapeMismatch
        The shapes differ.
    UnsupportedDType
        An operand is not real floating.
    """
    return call2(_silu_mul, gate, up)


def mish(x: Array, /) -> Array:
    """Return ``x * tanh(softplus(x))`` (Misra 2019).

    Parameters
    ----------
    x
        Real floating, of any shape.

    Returns
    -------
    Array
        -0 at -infinity.

    Raises
    ------
    UnsupportedDType
        `x` is not real floating.
    """
    return _mish(x)


def softplus(x: Array, /, *, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """Return ``log(1 + exp(beta * x)) / beta``.

    Parameters
    ----------
    x
        Real floating, of any shape.
    beta
        Steepness; not 0.
    threshold
        Where ``beta * x`` is above it, the result is x itself.

    Returns
    -------
    Array

    Raises
    ------
    UnsupportedDType
        `x` is not real floating.
    InvalidArgument
        `beta` is 0, or one of the two not a finite number.
    """
    return call1(_softplus, x, (divisor("softplus", "beta", beta), number("softplus", "threshold", threshold)))


def hard_sigmoid(x: Array, /) -> Array:
    """Return ``clip(x + 3, 0, 6) / 6``.

    Parameters
    ----------
    x
        Real floating, of any shape.

    Returns
    -------
    Array
        The derivative is 1/6 from -3 to 3, the bounds included, as that of `clip` is 1 there.

    Raises
    ------
    UnsupportedDType
        `x` is not real floating.
    """
    return _hard_sigmoid(x)


def prelu(x: Array, weight: Array, /) -> Array:
    """Return x where it is positive, else ``weight * x`` (He et al. 2015).

    Parameters
    ----------
    x
        Real floating, shape (B, C, ...), or any shape with one weight.
    weight
        Shape () or (1,) for one slope, (C,) for one of each channel (axis 1).

    Returns
    -------
    Array
        Of the dtype of `x`.

    Raises
    ------
    ShapeMismatch
        There is another number of slopes.
    UnsupportedDType
        An operand is not real floating.
    """
    return call2(_prelu, x, weight)


def glu(x: Array, /, *, axis: int = -1) -> Array:
    """Return the first half along an axis times the sigmoid of the second (Dauphin et al. 2016).

    Parameters
    ----------
    x
        Real floating.
    axis
        The axis that is split; its size is even.

    Returns
    -------
    Array
        Half as large along `axis`.

    Raises
    ------
    InvalidDimension
        There is no such axis.
    ShapeMismatch
        Its size is odd.
    UnsupportedDType
        `x` is not real floating.
    """
    return call1(_glu, x, axis_of("glu", axis, x.ndim, "axis"))


def swiglu(x: Array, /, *, axis: int = -1) -> Array:
    """Return the silu of the first half along an axis times the second half (Shazeer 2020).

    Parameters
    ----------
    x
        Real floating: the gate, then what is gated.
    axis
        The axis that is split; its size is even.

    Returns
    -------
    Array
        Half as large along `axis`.

    Raises
    ------
    InvalidDimension
        There is no such axis.
    ShapeMismatch
        Its size is odd.
    UnsupportedDType
        `x` is not real floating.
    """
    return call1(_swiglu, x, axis_of("swiglu", axis, x.ndim, "axis"))


def softmax(x: Array, /, *, axis: int = -1) -> Array:
    """Return ``exp(x)`` over its sum along an axis.

    Parameters
    ----------
    x
        Real floating.
    axis
        The axis along which the results add up to 1.

    Returns
    -------
    Array
        NaN along a line that holds NaN or infinity, or nothing but -infinity. (`attention` gives 0 for a query that
        sees no key.)

    Raises
    ------
    InvalidDimension
        There is no such axis.
    UnsupportedDType
        `x` is not real floating.
    """
    return call1(_softmax, x, axis_of("softmax", axis, x.ndim, "axis"))


def log_softmax(x: Array, /, *, axis: int = -1) -> Array:
    """Return the logarithm of `softmax`, which keeps what that would round to 0.

    Parameters
    ----------
    x
        Real floating.
    axis
        The axis along which the exponentials of the results add up to 1.

    Returns
    -------
    Array

    Raises
    ------
    InvalidDimension
        There is no such axis.
    UnsupportedDType
        `x` is not real floating.
    """
    return call1(_log_softmax, x, axis_of("log_softmax", axis, x.ndim, "axis"))
