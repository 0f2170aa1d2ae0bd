"""Sorting functions of the array API standard."""

from __future__ import annotations

from .._array import Array, call1
from ..core.axes import as_int
from ..core.dispatch import Op
from ..raw import sorting as _raw
from ._results import index_dtype

__all__ = ["argsort", "sort"]

_sort = Op("sort", _raw.sort, ("axis", "descending", "stable"))
_argsort = Op("argsort", _raw.argsort, ("axis", "descending", "stable", "index_dtype"))


def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """Return the indices that sort an array along an axis.

    Parameters
    ----------
    x
        Array with at least one axis. NaN counts as greater than every number, so it comes last in ascending and
        first in descending order. Complex numbers compare by their real parts, then by their imaginary ones.
    axis
        The axis to sort along.
    descending
        From the greatest to the least.
    stable
        Equal elements keep their order, in descending order too.

    Returns
    -------
    Array
        Of the shape of `x` and the default integer dtype.

    Raises
    ------
    InvalidDimension
        `x` has no such axis.
    """
    if type(axis) is not int:
        axis = as_int(axis, "argsort", "axis")
    return call1(_argsort, x, (axis, descending, stable, index_dtype(x)))


def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """Sort an array along an axis.

    Parameters
    ----------
    x
        Array with at least one axis. NaN counts as greater than every number, so it comes last in ascending and
        first in descending order. Complex numbers compare by their real parts, then by their imaginary ones.
    axis
        The axis to sort along.
    descending
        From the greatest to the least.
    stable
        Equal elements, such as the two zeros, keep their order, in descending order too.

    Returns
    -------
    Array
        Of the shape and dtype of `x`.

    Raises
    ------
    InvalidDimension
        `x` has no such axis.
    """
    if type(axis) is not int:
        axis = as_int(axis, "sort", "axis")
    return call1(_sort, x, (axis, descending, stable))
