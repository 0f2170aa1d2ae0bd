"""Elementwise methods."""

from __future__ import annotations

import builtins

import numpy as np

from ...checks import elementwise as check
from ...errors import UseAfterMove
from ..core import BackendCore, T

__all__ = ["ElementwiseMethods"]


class ElementwiseMethods(BackendCore[T]):
    """Arithmetic and functions of single elements.

    Two operands broadcast as in NumPy. Their dtypes must be of one kind, integer or floating, and promote as the array
    API standard says; a method that says "floating" refuses integers. Errors of all methods: `BroadcastError` for
    shapes that do not broadcast, `DTypeMismatch` for mixed kinds, `UnsupportedDType` for a dtype of another kind,
    `DeviceMismatch` for operands on different devices.
    """

    def add(self, lhs: T, rhs: T, /) -> T:
        """Return ``lhs + rhs``; integers wrap."""
        return self._binary("add", lhs, rhs)

    def sub(self, lhs: T, rhs: T, /) -> T:
        """Return ``lhs - rhs``; integers wrap."""
        return self._binary("sub", lhs, rhs)

    def mul(self, lhs: T, rhs: T, /) -> T:
        """Return ``lhs * rhs``; integers wrap."""
        return self._binary("mul", lhs, rhs)

    def div(self, lhs: T, rhs: T, /) -> T:
        """Return ``lhs / rhs`` of floating tensors; ``x / 0`` is infinite with the sign of both, ``0 / 0`` is NaN."""
        return self._binary("div", lhs, rhs, True)

    def maximum(self, lhs: T, rhs: T, /) -> T:
        """Return the greater of each pair; NaN if one is NaN. Equal ones share the gradient."""
        return self._binary("maximum", lhs, rhs)

    def minimum(self, lhs: T, rhs: T, /) -> T:
        """Return the smaller of each pair; NaN if one is NaN. Equal ones share the gradient."""
        return self._binary("minimum", lhs, rhs)

    def neg(self, x: T, /) -> T:
        """Return ``-x``."""
        return self._unary("neg", x, False)

    def abs(self, x: T, /) -> T:
        """Return the absolute value; that of -0 is 0, and its gradient at 0 is 0."""
        return self._unary("abs", x, False)

    def exp(self, x: T, /) -> T:
        """Return e to the power of a floating `x`; infinite where it overflows."""
        return self._unary("exp", x)

    def log(self, x: T, /) -> T:
        """Return the natural logarithm of a floating `x`: -inf at 0, NaN below."""
        return self._unary("log", x)

    def sqrt(self, x: T, /) -> T:
        """Return the square root of a floating `x`: -0 at -0, NaN below."""
        return self._unary("sqrt", x)

    def sin(self, x: T, /) -> T:
        """Return the sine of a floating `x`, in radians."""
        return self._unary("sin", x)

    def cos(self, x: T, /) -> T:
        """Return the cosine of a floating `x`, in radians."""
        return self._unary("cos", x)

    def pow(self, x: T, exp: float, /) -> T:
        """Return a floating `x` to the power of a scalar.

        Parameters
        ----------
        x
            Base, any shape.
        exp
            Exponent, a number of the host. An integral one is computed by multiplications.

        Returns
        -------
        Tensor
            ``pow(x, 0)`` is 1 for every x; a negative x to a power that is not integral is NaN.

        Raises
        ------
        InvalidArgument
            `exp` is not a number of the host.
        """
        value = check.scalar("pow", "exp", exp)
        self._floating("pow", x)
        return self._apply("pow", (x,), (value,))

    def clamp(self, x: T, min: float, max: float, /) -> T:
        """Return `x` limited to ``[min, max]``.

        Parameters
        ----------
        x
            Any shape; integers take limits that are integral.
        min, max
            Limits, numbers of the host; infinite ones do not limit. Where ``min > max`` the result is `max`.

        Returns
        -------
        Tensor
            NaN stays NaN. The gradient is 1 inside and at the limits, 0 outside.

        Raises
        ------
        InvalidArgument
            A limit is NaN, or no number of the host.
        """
        low, high = check.limits("clamp", min, max, self._numeric("clamp", x))
        return self._apply("clamp", (x,), (low, high))

    def gt_scalar(self, x: T, v: float, /) -> T:
        """Return 1 where ``x > v`` and else 0, in the dtype of `x`; NaN gives 0, and the gradient is 0.

        Raises
        ------
        InvalidArgument
            `v` is not a number of the host.
        """
        value = check.scalar_beside("gt_scalar", "v", v, self._numeric("gt_scalar", x))
        return self._apply("gt_scalar", (x,), (value,))

    def cast(self, x: T, dtype: object, /) -> T:
        """Return `x` in another dtype: a float saturates on its way to integers, and NaN becomes 0.

        Raises
        ------
        UnsupportedDType
            `dtype` is no dtype, or the device lacks it.
        DTypeMismatch
            A complex tensor would lose its imaginary part.
        """
        target = self._dtype("cast", dtype, self.float_dtype)
        check.castable("cast", self._given("cast", x)[1], target)
        return self._apply("cast", (x,), (target,))

    # -- shared by the groups

    def _binary(self, operation: str, lhs: T, rhs: T, floating: builtins.bool = False) -> T:
        try:
            dtype = lhs.dtype
            if dtype is not rhs.dtype or lhs.shape != rhs.shape:
                check.binary(operation, lhs.shape, dtype, rhs.shape, rhs.dtype)
            if dtype not in (check.FLOATING if floating else check.NUMERIC):
                (check.floating if floating else check.numeric)(operation, dtype, "lhs")
        except UseAfterMove as error:
            raise error.renamed(operation) from None
        except AttributeError:
            raise self._not_a_tensor(operation, rhs if hasattr(lhs, "dtype") else lhs) from None
        return self._apply(operation, (lhs, rhs))

    def _unary(self, operation: str, x: T, floating: builtins.bool = True) -> T:
        try:
            if x.dtype not in (check.FLOATING if floating else check.NUMERIC):
                (check.floating if floating else check.numeric)(operation, x.dtype)
        except UseAfterMove as error:
            raise error.renamed(operation) from None
        except AttributeError:
            raise self._not_a_tensor(operation, x) from None
        return self._apply(operation, (x,))

    def _floating(self, operation: str, x: T, argument: str = "x") -> np.dtype:
        """Return the dtype of an operand that must be floating."""
        try:
            dtype = x.dtype
        except UseAfterMove as error:
            raise error.renamed(operation) from None
        except AttributeError:
            raise self._not_a_tensor(operation, x) from None
        if dtype not in check.FLOATING:
            check.floating(operation, dtype, argument)
        return dtype

    def _numeric(self, operation: str, x: T, argument: str = "x") -> np.dtype:
        """Return the dtype of an operand that must be an integer or floating."""
        try:
            dtype = x.dtype
        except UseAfterMove as error:
            raise error.renamed(operation) from None
        except AttributeError:
            raise self._not_a_tensor(operation, x) from None
        if dtype not in check.NUMERIC:
            check.numeric(operation, dtype, argument)
        return dtype
