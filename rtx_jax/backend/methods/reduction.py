"""Reductions: over everything, with a result of shape ``(1,)``, and over one axis, which is kept with size 1."""

from __future__ import annotations

from ...checks import elementwise as check
from ...checks import shape as shapes
from ..core import T
from .elementwise import ElementwiseMethods

__all__ = ["ReductionMethods"]


class ReductionMethods(ElementwiseMethods[T]):
    """Sums, means, variances and extremes.

    The method with ``_dim`` in its name reduces one axis, `dim` in ``0..D-1``, and keeps it with size 1; the one
    without reduces everything to a tensor of shape ``(1,)``. Floats below 32 bits are accumulated in float32 and
    rounded once. Errors of all methods: `InvalidDimension` for an axis out of range, `UnsupportedDType`.
    """

    def sum(self, x: T, /) -> T:
        """Return the sum of all elements, ``(1,)``; 0 of none. Integers wrap."""
        self._numeric("sum", x)
        return self._apply("sum", (x,))

    def sum_dim(self, x: T, dim: int, /) -> T:
        """Return the sums along an axis; 0 of none. Integers wrap."""
        self._numeric("sum_dim", x)
        return self._apply("sum_dim", (x,), (shapes.dim_in("sum_dim", dim, x.ndim),))

    def mean(self, x: T, /) -> T:
        """Return the mean of all elements of a floating tensor, ``(1,)``; NaN of none."""
        self._floating("mean", x)
        return self._apply("mean", (x,))

    def mean_dim(self, x: T, dim: int, /) -> T:
        """Return the means of a floating tensor along an axis; NaN of none."""
        self._floating("mean_dim", x)
        return self._apply("mean_dim", (x,), (shapes.dim_in("mean_dim", dim, x.ndim),))

    def var(self, x: T, /, *, correction: float = 0.0) -> T:
        """Return the variance of all elements of a floating tensor, ``(1,)``.

        Parameters
        ----------
        x
            Any shape.
        correction
            Subtracted from the number of elements n to give the divisor: 0 for the population, 1 for a sample.

        Returns
        -------
        Tensor
            The mean squared distance from the mean, in two passes; NaN where ``n - correction <= 0``.
        """
        self._floating("var", x)
        return self._apply("var", (x,), (check.scalar("var", "correction", correction, finite=True),))

    def var_dim(self, x: T, dim: int, /, *, correction: float = 0.0) -> T:
        """Return the variances of a floating tensor along an axis; see `var`."""
        self._floating("var_dim", x)
        value = check.scalar("var_dim", "correction", correction, finite=True)
        return self._apply("var_dim", (x,), (shapes.dim_in("var_dim", dim, x.ndim), value))

    def max(self, x: T, /) -> T:
        """Return the greatest element, ``(1,)``; NaN if one is NaN. Equal ones share the gradient.

        Raises
        ------
        InvalidArgument
            There is no element.
        """
        self._numeric("max", x)
        shapes.nonempty("max", x.shape)
        return self._apply("max", (x,))

    def max_dim(self, x: T, dim: int, /) -> T:
        """Return the greatest elements along an axis; NaN if one is NaN. The first of equal ones has the gradient.

        Raises
        ------
        InvalidArgument
            The axis has no element.
        """
        self._numeric("max_dim", x)
        axis = shapes.dim_in("max_dim", dim, x.ndim)
        shapes.nonempty("max_dim", x.shape, axis)
        return self._apply("max_dim", (x,), (axis,))

    def min(self, x: T, /) -> T:
        """Return the least element, ``(1,)``; NaN if one is NaN. Equal ones share the gradient.

        Raises
        ------
        InvalidArgument
            There is no element.
        """
        self._numeric("min", x)
        shapes.nonempty("min", x.shape)
        return self._apply("min", (x,))

    def min_dim(self, x: T, dim: int, /) -> T:
        """Return the least elements along an axis; NaN if one is NaN. The first of equal ones has the gradient.

        Raises
        ------
        InvalidArgument
            The axis has no element.
        """
        self._numeric("min_dim", x)
        axis = shapes.dim_in("min_dim", dim, x.ndim)
        shapes.nonempty("min_dim", x.shape, axis)
        return self._apply("min_dim", (x,), (axis,))
