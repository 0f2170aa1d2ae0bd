"""Indexing functions of the array API standard."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import jax
import numpy as np

from .._array import Array, call2, lift
from .._compat import ArrayImpl
from ..core.axes import as_int
from ..core.dispatch import Op
from ..core.dtypes import INTEGRAL
from ..core.index_checks import check_bounds, checks_on, known_in_bounds
from ..raw import indexing_functions as raw

if TYPE_CHECKING:
    ArrayLike: TypeAlias = Array | jax.Array | np.ndarray

__all__ = ["take", "take_along_axis"]

_take = Op("take", raw.take, ("axis", "checked"))
_take_along_axis = Op("take_along_axis", raw.take_along_axis, ("axis", "checked"))


def take(x: ArrayLike, indices: ArrayLike, /, *, axis: int | None = None) -> Array:
    """Return elements at indices along an axis.

    Parameters
    ----------
    x
        The array.
    indices
        Integers of any width; negative ones count from the end. Their axes take the place of `axis`.
    axis
        The axis; may be left out if `x` has one axis only.

    Returns
    -------
    Array
        The dtype of `x`.

    Raises
    ------
    IndexOutOfBounds
        An index is out of range, while bounds checks are on. Where it cannot raise, under tracing and with checks
        off, the element is NaN, the integer minimum or False.
    UnsupportedDType
        The indices are not integers.
    InvalidDimension
        There is no such axis, or none is given and `x` has several.
    """
    found = axis if type(axis) is int or axis is None else as_int(axis, "take", "axis")
    return call2(_take, x, indices, (found, _checked(x, indices, 0 if found is None else found, "take")))


def take_along_axis(x: ArrayLike, indices: ArrayLike, /, *, axis: int = -1) -> Array:
    """Return elements at one index for each line along an axis.

    Parameters
    ----------
    x
        The array.
    indices
        Integers of any width, of as many axes as `x`; negative ones count from the end. The other axes broadcast.
    axis
        The axis.

    Returns
    -------
    Array
        The dtype of `x`; the size of `axis` is that of `indices`.

    Raises
    ------
    IndexOutOfBounds
        An index is out of range, while bounds checks are on; otherwise as in `take`.
    UnsupportedDType
        The indices are not integers.
    InvalidDimension
        There is no such axis, or the arrays differ in rank.
    BroadcastError
        The other axes do not broadcast.
    """
    found = axis if type(axis) is int else as_int(axis, "take_along_axis", "axis")
    return call2(_take_along_axis, x, indices, (found, _checked(x, indices, found, "take_along_axis")))


def _checked(x: object, indices: object, axis: int, operation: str) -> bool:
    """Check the bounds of indices whose values can be read, and tell whether they are in range for sure.

    What is wrong otherwise, the operation itself says.
    """
    d = x._data if type(x) is Array else None
    i = indices._data if type(indices) is Array else None
    if type(d) is ArrayImpl and type(i) is ArrayImpl:
        shape = d.shape
        if axis < len(shape) and axis >= -len(shape) and known_in_bounds(i, shape[axis]):
            return i.dtype in INTEGRAL
    if type(i) is not ArrayImpl:
        i = lift(indices, None, operation, "indices")
    if type(d) is not ArrayImpl:
        d = lift(x, None, operation)
    if type(i) is not ArrayImpl or i.dtype not in INTEGRAL:
        return False
    ndim = d.ndim
    if not (-ndim <= axis < ndim and checks_on(d)):
        return False
    check_bounds(i, d.shape[axis], axis, operation)
    return True
