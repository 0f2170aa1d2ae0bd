"""Linear algebra functions of the array API standard; the rest of linear algebra is in `rtx_jax.linalg`."""

from __future__ import annotations

from collections.abc import Sequence

from .._array import Array, _matmul, _matrix_transpose, call2
from .._config import matmul_precision
from ..core.axes import as_int
from ..core.dispatch import Op
from ..errors import InvalidArgument
from ..raw import linear_algebra as _raw

__all__ = ["matmul", "matrix_transpose", "tensordot", "vecdot"]

_tensordot = Op("tensordot", _raw.tensordot, ("axes", "precision"))
_vecdot = Op("vecdot", _raw.vecdot, ("axis", "precision"))


def matmul(x1: Array, x2: Array, /) -> Array:
    """Multiply matrices; the function of the operator ``@``.

    Parameters
    ----------
    x1
        Array of shape (..., M, K), or (K,) for a row.
    x2
        Array of shape (..., K, N), or (K,) for a column.

    Returns
    -------
    Array
        Of shape (..., M, N), without the axis of a vector; the leading axes broadcast. Of the dtype that the
        operands promote to.

    Raises
    ------
    InvalidDimension
        An operand without axes.
    ShapeMismatch
        The sizes K differ.
    BroadcastError
        The leading axes do not broadcast.

    Notes
    -----
    float32 is multiplied in full float32 on every device; `set_matmul_precision` lowers it. Floats below 32 bits are
    accumulated in float32 and rounded once; integers wrap around.
    """
    return call2(_matmul, x1, x2, matmul_precision())


def matrix_transpose(x: Array, /) -> Array:
    """Transpose each matrix in the last two axes.

    Parameters
    ----------
    x
        Array of shape (..., M, N).

    Returns
    -------
    Array
        Of shape (..., N, M).

    Raises
    ------
    InvalidDimension
        `x` has fewer than two axes.
    """
    return _matrix_transpose(x)


def tensordot(x1: Array, x2: Array, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Array:
    """Sum the products of two arrays over some of their axes.

    Parameters
    ----------
    x1, x2
        Arrays whose contracted axes have equal sizes.
    axes
        How many of the last axes of `x1` are contracted with as many first axes of `x2`, in order; or two sequences
        of axes.

    Returns
    -------
    Array
        With the other axes of `x1`, then those of `x2`. Precision is that of `matmul`.

    Raises
    ------
    InvalidDimension
        An array has no such axis, or it is given twice.
    InvalidArgument
        The sequences have different lengths.
    ShapeMismatch
        The sizes of contracted axes differ.
    """
    if type(axes) is not int:
        axes = _pair(axes)
    return call2(_tensordot, x1, x2, (axes, matmul_precision()))


def _pair(axes: object) -> int | tuple[tuple[int, ...], tuple[int, ...]]:
    if not isinstance(axes, Sequence) or isinstance(axes, str):
        return as_int(axes, "tensordot", "axes")
    if len(axes) != 2:
        raise InvalidArgument(
            "tensordot",
            "axes",
            got=repr(axes),
            wanted="an integer or a pair of sequences of axes",
            arg="axes",
            reason="not a pair",
        )
    first, second = (
        tuple(as_int(n, "tensordot", "axes") for n in (part if isinstance(part, Sequence) else (part,)))
        for part in axes
    )
    return first, second


def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """Return dot products of vectors along an axis, the first one conjugated.

    Parameters
    ----------
    x1, x2
        Arrays that broadcast along all other axes.
    axis
        The axis of the vectors, of equal size in both; negative, as it counts from the last axis of each.

    Returns
    -------
    Array
        Without that axis. Precision is that of `matmul`.

    Raises
    ------
    InvalidDimension
        An array has no such axis.
    ShapeMismatch
        The vectors differ in size.
    BroadcastError
        The other axes do not broadcast.
    """
    if type(axis) is not int:
        axis = as_int(axis, "vecdot", "axis")
    return call2(_vecdot, x1, x2, (axis, matmul_precision()))
