"""Rows by index, and adding into rows.

Indices count from the front. One that is negative or too large raises where indices are known, while bounds checks
are on; under tracing `rtx_jax.checked` reports it.
"""

from __future__ import annotations

import jax
import numpy as np

from .._array import Array, call2
from .._compat import ArrayImpl
from ..checks.choices import flag
from ..checks.index import in_range, mode_of
from ..checks.parameters import whole
from ..core.dispatch import Op
from ..core.dtypes import INTEGRAL
from ..core.handle import data_of
from ..core.index_checks import checks_on
from ..ops import index as _ops

__all__ = ["index_add", "index_select", "row_mode"]

_index_select = Op("index_select", _ops.index_select, ("mode",))
_index_add = Op("index_add", _ops.index_add, ("num_rows", "deterministic", "mode"))


def row_mode(operation: str, x: Array, indices: Array, size: int, mode: str) -> str:
    """Return the mode of the raw operation: ``"promise"`` once the indices were found to be in range.

    Raises
    ------
    IndexOutOfBounds
        A known index is out of range, and bounds checks are on.
    InvalidArgument
        The mode is unknown.
    """
    if mode_of(operation, mode) != "error" or not x.ndim:
        return mode
    data: object = data_of(indices) if isinstance(indices, Array) else indices
    table: object = data_of(x) if isinstance(x, Array) else x
    if (
        (type(data) is ArrayImpl or isinstance(data, np.ndarray))
        and data.dtype in INTEGRAL
        and (not isinstance(table, jax.Array) or checks_on(table))
    ):
        in_range(operation, np.asarray(data), size)
        return "promise"
    return mode


def index_select(x: Array, indices: Array, /, *, mode: str = "error") -> Array:
    """Return rows of `x`.

    Parameters
    ----------
    x
        Shape (R, ...).
    indices
        Integers of shape (L,), each 0 to R - 1; any may occur several times.
    mode
        What an index out of range does. ``"error"``: raises IndexOutOfBounds; where it cannot raise, the row is NaN
        (the integer minimum, False) and `rtx_jax.checked` reports it. ``"fill"``: such a row, without an error.
        ``"clip"``: the nearest row.

    Returns
    -------
    Array
        Shape (L, ...). The gradient of floats below 32 bits adds up in float32.

    Raises
    ------
    IndexOutOfBounds
        An index is out of range.
    InvalidDimension
        `x` has no axis, or `indices` not one.
    UnsupportedDType
        The indices are not integers.
    """
    size = x.shape[0] if x.ndim else 0
    return call2(_index_select, x, indices, row_mode("index_select", x, indices, size, mode))


def index_add(
    x: Array, indices: Array, /, num_rows: int, *, deterministic: bool | None = None, mode: str = "error"
) -> Array:
    """Return zeros of `num_rows` rows with row i of `x` added to row ``indices[i]``.

    Parameters
    ----------
    x
        Shape (L, ...). Floats below 32 bits are added in float32 and rounded once.
    indices
        Integers of shape (L,), each 0 to ``num_rows - 1``; rows of equal index all count.
    num_rows
        Number of rows of the result; 0 or more.
    deterministic
        True adds in the same order in each run, also where a device adds in parallel; it sorts there.
    mode
        What an index out of range does. ``"error"``: raises IndexOutOfBounds; where it cannot raise, the row is left
        out and `rtx_jax.checked` reports it. ``"fill"``: the row is left out. ``"clip"``: it is added to the nearest.

    Returns
    -------
    Array
        Shape (num_rows, ...), of the dtype of `x`; a row without an index is 0.

    Raises
    ------
    IndexOutOfBounds
        An index is out of range.
    ShapeMismatch
        There is not one index for each row.
    InvalidArgument
        `num_rows` is negative.
    InvalidDimension
        `x` has no axis, or `indices` not one.
    UnsupportedDType
        The indices are not integers.
    """
    size = whole("index_add", "num_rows", num_rows, 0)
    found = row_mode("index_add", x, indices, size, mode)
    return call2(
        _index_add,
        x,
        indices,
        (size, deterministic is not None and flag("index_add", "deterministic", deterministic), found),
    )
