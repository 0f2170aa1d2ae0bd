"""Activations: functions of a neural network's elements, and along an axis."""

from __future__ import annotations

from ...checks import activation as check_activation
from ...checks import elementwise as check
from ...checks import shape as shapes
from ...checks.choices import is_one_of
from ...errors import InvalidArgument, ShapeMismatch
from ..core import T
from .elementwise import ElementwiseMethods

__all__ = ["ActivationMethods"]


class ActivationMethods(ElementwiseMethods[T]):
    """Activations of floating tensors, of any shape unless said.

    Floats below 32 bits are computed in float32 and rounded once. Errors of all methods: `UnsupportedDType` for
    integers, `InvalidArgument` for a parameter that is no finite number of the host.
    """

    def relu(self, x: T, /) -> T:
        """Return ``max(x, 0)``; NaN stays NaN, and the gradient at 0 is 0."""
        return self._unary("relu", x)

    def sigmoid(self, x: T, /) -> T:
        """Return ``1 / (1 + exp(-x))``, without overflow: exactly 0 and 1 far out."""
        return self._unary("sigmoid", x)

    def tanh(self, x: T, /) -> T:
        """Return the hyperbolic tangent, exactly -1 and 1 far out."""
        return self._unary("tanh", x)

    def silu(self, x: T, /) -> T:
        """Return ``x * sigmoid(x)``; -0 at -inf."""
        return self._unary("silu", x)

    def mish(self, x: T, /) -> T:
        """Return ``x * tanh(softplus(x))``; -0 at -inf."""
        return self._unary("mish", x)

    def selu(self, x: T, /) -> T:
        """Return the scaled elu of self-normalizing networks (Klambauer et al. 2017)."""
        return self._unary("selu", x)

    def hard_sigmoid(self, x: T, /) -> T:
        """Return ``min(max(x + 3, 0), 6) / 6``."""
        return self._unary("hard_sigmoid", x)

    def gelu(self, x: T, /, *, approximate: str = "none") -> T:
        """Return x times the normal distribution function.

        Parameters
        ----------
        x
            Any shape.
        approximate
            ``"none"``: exactly, by erf. ``"tanh"``: the approximation of Hendrycks and Gimpel (2016).

        Returns
        -------
        Tensor
            -0 at -inf, x far above 0.

        Raises
        ------
        InvalidArgument
            `approximate` is neither.
        """
        if not is_one_of(approximate, ("none", "tanh")):
            raise InvalidArgument(
                "gelu",
                "approximate",
                got=repr(approximate),
                wanted="'none' or 'tanh'",
                arg="approximate",
                reason="unknown form",
            )
        self._floating("gelu", x)
        return self._apply("gelu", (x,), (approximate,))

    def leaky_relu(self, x: T, negative_slope: float = 0.01, /) -> T:
        """Return ``max(negative_slope * x, x)``: for a slope above 1 the line below 0 is steeper, not the one above."""
        self._floating("leaky_relu", x)
        return self._apply(
            "leaky_relu", (x,), (check.scalar("leaky_relu", "negative_slope", negative_slope, finite=True),)
        )

    def elu(self, x: T, alpha: float = 1.0, /) -> T:
        """Return x above 0, else ``alpha * (exp(x) - 1)``."""
        self._floating("elu", x)
        return self._apply("elu", (x,), (check.scalar("elu", "alpha", alpha, finite=True),))

    def celu(self, x: T, alpha: float = 1.0, /) -> T:
        """Return x above 0, else ``alpha * (exp(x / alpha) - 1)``; `alpha` must not be 0."""
        self._floating("celu", x)
        value = check.scalar("celu", "alpha", alpha, finite=True)
        if value == 0:
            raise InvalidArgument(
                "celu", "alpha", got=value, wanted="a number other than 0", arg="alpha", reason="zero"
            )
        return self._apply("celu", (x,), (value,))

    def softplus(self, x: T, /, *, beta: float = 1.0, threshold: float = 20.0) -> T:
        """Return ``log(1 + exp(beta * x)) / beta``, and x itself where ``beta * x > threshold``."""
        self._floating("softplus", x)
        value = check.scalar("softplus", "beta", beta, finite=True)
        if value == 0:
            raise InvalidArgument(
                "softplus", "beta", got=value, wanted="a number other than 0", arg="beta", reason="zero"
            )
        return self._apply("softplus", (x,), (value, check.scalar("softplus", "threshold", threshold)))

    def prelu(self, x: T, weight: T, /) -> T:
        """Return x above 0, else ``weight * x``.

        Parameters
        ----------
        x
            ``(N, C, ...)``, or any shape for one weight.
        weight
            ``(1,)``, or ``(C,)`` with one slope for each entry of axis 1.

        Raises
        ------
        ShapeMismatch
            `weight` has another shape.
        """
        dtype = self._floating("prelu", x)
        other = self._floating("prelu", weight, "weight")
        check.common_dtype("prelu", dtype, other)
        channels = x.shape[1] if x.ndim > 1 else 1
        if weight.shape not in ((1,), (channels,)):
            raise ShapeMismatch(
                "prelu",
                "weight",
                got=f"shape {weight.shape} for a tensor of shape {x.shape}",
                wanted=f"(1,) or ({channels},)",
                expected=(channels,),
                got_shape=weight.shape,
            )
        return self._apply("prelu", (x, weight))

    def silu_mul(self, gate: T, up: T, /) -> T:
        """Return ``silu(gate) * up`` of equal shapes, in the dtype of `gate`.

        Raises
        ------
        ShapeMismatch
            The shapes differ.
        """
        check_activation.same_shape("silu_mul", self._given("silu_mul", gate)[0], self._given("silu_mul", up)[0], "up")
        return self._binary("silu_mul", gate, up, True)

    def glu(self, x: T, dim: int = -1, /) -> T:
        """Return ``a * sigmoid(b)`` of the two halves of an axis; -1 is the last.

        Raises
        ------
        InvalidDimension
            The axis is out of range.
        ShapeMismatch
            Its size is odd.
        """
        self._floating("glu", x)
        return self._apply("glu", (x,), (shapes.even_dim("glu", dim, x.shape),))

    def swiglu(self, x: T, dim: int = -1, /) -> T:
        """Return ``silu(a) * b`` of the two halves of an axis (Shazeer 2020); -1 is the last.

        Raises
        ------
        InvalidDimension
            The axis is out of range.
        ShapeMismatch
            Its size is odd.
        """
        self._floating("swiglu", x)
        return self._apply("swiglu", (x,), (shapes.even_dim("swiglu", dim, x.shape),))

    def softmax(self, x: T, dim: int, /) -> T:
        """Return ``exp(x) / sum(exp(x))`` along an axis, shifted so that it cannot overflow.

        A lane of -inf alone gives NaN.

        Raises
        ------
        InvalidDimension
            The axis is out of range.
        """
        self._floating("softmax", x)
        return self._apply("softmax", (x,), (shapes.dim_in("softmax", dim, x.ndim),))

    def log_softmax(self, x: T, dim: int, /) -> T:
        """Return the logarithm of `softmax`, without its loss of small values.

        Raises
        ------
        InvalidDimension
            The axis is out of range.
        """
        self._floating("log_softmax", x)
        return self._apply("log_softmax", (x,), (shapes.dim_in("log_softmax", dim, x.ndim),))
