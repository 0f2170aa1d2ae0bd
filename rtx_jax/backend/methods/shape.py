"""Methods that read or change the shape, and products of matrices."""

from __future__ import annotations

from collections.abc import Sequence

from ... import _config
from ...checks import linear as check_linear
from ...checks import shape as shapes
from ...checks.elementwise import common_dtype
from ...errors import UseAfterMove
from ..core import T
from .elementwise import ElementwiseMethods

__all__ = ["ShapeMethods", "product_precision"]


def product_precision(operation: str, precision: str | None) -> str:
    """Return the precision of a float32 product; None takes the setting of `rtx_jax.set_matmul_precision`."""
    if precision is None:
        return _config.matmul_precision()
    return check_linear.precision(operation, precision)


class ShapeMethods(ElementwiseMethods[T]):
    """Shapes and products of matrices.

    Axes count from the front, ``0..D-1``; negative ones raise `InvalidDimension`.
    """

    def shape(self, x: T, /) -> tuple[int, ...]:
        """Return the sizes of the axes, also while tracing."""
        try:
            return tuple(x.shape)
        except UseAfterMove as error:
            raise error.renamed("shape") from None
        except AttributeError:
            raise self._not_a_tensor("shape", x) from None

    def reshape(self, x: T, shape: int | Sequence[int], /) -> T:
        """Return the elements in row-major order under another shape.

        Parameters
        ----------
        x
            Any shape.
        shape
            The new shape, of as many elements; one size may be -1 and is then what is left.

        Raises
        ------
        ShapeMismatch
            The number of elements differs.
        InvalidArgument
            Several sizes are -1, or one is below.

        Notes
        -----
        Under jit it moves no memory.
        """
        return self._apply("reshape", (x,), (shapes.reshape("reshape", self.shape(x), shape),))

    def permute(self, x: T, dims: Sequence[int], /) -> T:
        """Return `x` with its axes in the order `dims`, each of ``0..D-1`` once.

        Raises
        ------
        InvalidDimension
            `dims` is not a permutation of the axes.
        """
        return self._apply("permute", (x,), (shapes.permutation("permute", dims, len(self.shape(x))),))

    def transpose(self, x: T, /) -> T:
        """Return `x` with its last two axes exchanged.

        Raises
        ------
        InvalidDimension
            It has fewer than two axes.
        """
        shapes.rank_at_least("transpose", self.shape(x), 2)
        return self._apply("transpose", (x,))

    def swap_dims(self, x: T, dim1: int, dim2: int, /) -> T:
        """Return `x` with two axes exchanged; the same axis twice changes nothing.

        Raises
        ------
        InvalidDimension
            An axis is out of range.
        """
        ndim = len(self.shape(x))
        axes = shapes.dim_in("swap_dims", dim1, ndim, "dim1"), shapes.dim_in("swap_dims", dim2, ndim, "dim2")
        return self._apply("swap_dims", (x,), axes)

    def matmul(self, lhs: T, rhs: T, /, *, precision: str | None = None) -> T:
        """Return the product of two matrices.

        Parameters
        ----------
        lhs, rhs
            ``(M, K)`` and ``(K, N)``, of one kind. K = 0 gives zeros.
        precision
            ``"highest"``, ``"high"`` or ``"default"`` (what the device is fastest at) for float32; None takes the
            setting of `rtx_jax.set_matmul_precision`, which is ``"highest"``.

        Returns
        -------
        Tensor
            ``(M, N)``. Floats below 32 bits are accumulated in float32; integers in their dtype.

        Raises
        ------
        InvalidDimension
            One is not a matrix.
        ShapeMismatch
            The inner sizes differ.
        """
        self._operands("matmul", lhs, rhs)
        shapes.matmul("matmul", lhs.shape, rhs.shape)
        return self._apply("matmul", (lhs, rhs), (product_precision("matmul", precision),))

    def bmm(self, lhs: T, rhs: T, /, *, precision: str | None = None) -> T:
        """Return the products of two batches of matrices.

        Parameters
        ----------
        lhs, rhs
            ``(B, M, K)`` and ``(B, K, N)``; the batches are not broadcast.
        precision
            See `matmul`.

        Returns
        -------
        Tensor
            ``(B, M, N)``.

        Raises
        ------
        InvalidDimension
            One does not have three axes.
        ShapeMismatch
            The numbers of matrices or the inner sizes differ.
        """
        self._operands("bmm", lhs, rhs)
        shapes.bmm("bmm", lhs.shape, rhs.shape)
        return self._apply("bmm", (lhs, rhs), (product_precision("bmm", precision),))

    def _operands(self, operation: str, lhs: T, rhs: T) -> None:
        left, right = self._numeric(operation, lhs, "lhs"), self._numeric(operation, rhs, "rhs")
        if left is not right:
            common_dtype(operation, left, right)
