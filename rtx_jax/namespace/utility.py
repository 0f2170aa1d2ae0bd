"""Utility functions of the array API standard."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import jax
import numpy as np

from .._array import Array, call1, calln
from ..core.axes import as_axis, as_int
from ..core.dispatch import Op
from ..raw import utility as raw

if TYPE_CHECKING:
    ArrayLike: TypeAlias = Array | jax.Array | np.ndarray
    Axis: TypeAlias = int | tuple[int, ...]

__all__ = ["all", "any", "diff"]

_all = Op("all", raw.all, ("axis", "keepdims"))
_any = Op("any", raw.any, ("axis", "keepdims"))
_diff = Op("diff", raw.diff, ("axis", "n", "prepend", "append"))


def all(x: ArrayLike, /, *, axis: Axis | None = None, keepdims: bool = False) -> Array:
    """Tell whether all elements are true.

    Parameters
    ----------
    x
        The array. What is not zero is true, NaN too.
    axis
        The axis or axes to reduce; all of them if None.
    keepdims
        Keep the reduced axes, with size one.

    Returns
    -------
    Array
        Of dtype bool. True where there is nothing to reduce.

    Raises
    ------
    InvalidDimension
        There is no such axis.
    """
    return call1(_all, x, (as_axis(axis, "all"), True if keepdims else False))


def any(x: ArrayLike, /, *, axis: Axis | None = None, keepdims: bool = False) -> Array:
    """Tell whether some element is true.

    Parameters
    ----------
    x
        The array. What is not zero is true, NaN too.
    axis
        The axis or axes to reduce; all of them if None.
    keepdims
        Keep the reduced axes, with size one.

    Returns
    -------
    Array
        Of dtype bool. False where there is nothing to reduce.

    Raises
    ------
    InvalidDimension
        There is no such axis.
    """
    return call1(_any, x, (as_axis(axis, "any"), True if keepdims else False))


def diff(
    x: ArrayLike,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: ArrayLike | bool | int | float | complex | None = None,
    append: ArrayLike | bool | int | float | complex | None = None,
) -> Array:
    """Return the n-th differences of neighbours along an axis.

    Parameters
    ----------
    x
        The array. Unsigned differences wrap around; of a bool array the result tells where neighbours differ.
    axis
        The axis.
    n
        How often differences are taken.
    prepend, append
        Put before and after `x` along the axis first; of the shape of `x` beside that axis, or 0-d. Their dtype is
        promoted with that of `x`.

    Returns
    -------
    Array
        The size of the axis is `n` less, at least 0.

    Raises
    ------
    InvalidArgument
        `n` is negative or not an integer.
    InvalidDimension
        There is no such axis.
    ShapeMismatch
        `prepend` or `append` does not fit.
    """
    before, after = prepend is not None, append is not None
    static = as_int(axis, "diff", "axis"), as_int(n, "diff", "n"), before, after
    if not (before or after):
        return call1(_diff, x, static)
    return calln(_diff, [x, *([prepend] if before else []), *([append] if after else [])], static)  # type: ignore[return-value]
