"""Affine maps and tables of vectors."""

from __future__ import annotations

from .._array import Array, call2
from .._config import matmul_precision
from ..core.dispatch import Op
from ..ops.linear import embedding as _raw_embedding
from ..ops.linear import linear as _raw_linear
from ._call import call, optional
from .index import row_mode

__all__ = ["embedding", "linear"]

_linear = optional("linear", _raw_linear, ("precision",))
_embedding = Op("embedding", _raw_embedding, ("mode",))


def linear(x: Array, weight: Array, /, bias: Array | None = None) -> Array:
    """Return ``x @ weight.T + bias``.

    Parameters
    ----------
    x
        Real floating, shape (..., I).
    weight
        Shape (O, I).
    bias
        Shape (O,).

    Returns
    -------
    Array
        Shape (..., O), of the dtype that `x` and `weight` promote to. float32 is multiplied in full float32 on every
        device; `set_matmul_precision` lowers it. Floats below 32 bits are multiplied and added in float32 and rounded
        once.

    Raises
    ------
    InvalidDimension
        `x` has no axis, or `weight` not two.
    ShapeMismatch
        The sizes do not fit.
    UnsupportedDType, DTypeMismatch
        An operand is not real floating, or the dtypes do not combine.
    """
    return call(_linear, {"x": x, "weight": weight, "bias": bias}, matmul_precision())  # type: ignore[return-value]


def embedding(indices: Array, weight: Array, /, *, mode: str = "error") -> Array:
    """Return the rows of a table at indices.

    Parameters
    ----------
    indices
        Integers of any shape, each 0 to V - 1.
    weight
        The table, of shape (V, D).
    mode
        What an index out of range does. ``"error"``: raises IndexOutOfBounds; where it cannot raise, the row is NaN
        and `rtx_jax.checked` reports it. ``"fill"``: NaN, without an error. ``"clip"``: the nearest row.

    Returns
    -------
    Array
        Shape (*indices.shape, D). The gradient of a table below 32 bits adds up in float32.

    Raises
    ------
    IndexOutOfBounds
        An index is out of range.
    InvalidDimension
        The table has not two axes.
    UnsupportedDType
        The indices are not integers.
    """
    size = weight.shape[0] if weight.ndim else 0
    return call2(_embedding, indices, weight, row_mode("embedding", weight, indices, size, mode))
