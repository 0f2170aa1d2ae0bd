"""Set functions of the array API standard."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._array import Array, call2, calln, wrap_shared
from ..core.dispatch import Op
from ..core.dtypes import FLOAT8, bfloat16, default_int
from ..raw import set_functions as _raw
from ._concrete import concrete, from_host, host_view

__all__ = ["isin", "unique_all", "unique_counts", "unique_inverse", "unique_values"]

_isin = Op("isin", _raw.isin, ("invert",))
_unique_padded = Op("unique_all", _raw.unique_padded, ("index_dtype",))

# NumPy does not put NaN last in dtypes that it does not know itself.
_UNORDERED = FLOAT8 | {bfloat16}

_REMEDY = "Call it outside of the traced function, or work on the sorted array of full size."


class UniqueAllResult(NamedTuple):
    """Result of `unique_all`."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCountsResult(NamedTuple):
    """Result of `unique_counts`."""

    values: Array
    counts: Array


class UniqueInverseResult(NamedTuple):
    """Result of `unique_inverse`."""

    values: Array
    inverse_indices: Array


def isin(x1: Array | int, x2: Array | int, /, *, invert: bool = False) -> Array:
    """Tell which elements of one array are equal to some element of another.

    Parameters
    ----------
    x1
        The elements to look for, or one number.
    x2
        The elements to compare with, or one number.
    invert
        Tell which are equal to none instead.

    Returns
    -------
    Array
        Bools of the shape of `x1`. NaN is equal to nothing.

    Raises
    ------
    ScalarOverflow
        A Python integer that the dtype of the array beside it cannot hold.
    """
    return call2(_isin, x1, x2, bool(invert))


def unique_all(x: Array, /) -> UniqueAllResult:
    """Return the distinct values of an array, where each is first, how they make up the array, and how often.

    Parameters
    ----------
    x
        Array of any shape. Elements are the same if they are equal: each NaN is distinct, the two zeros are not.

    Returns
    -------
    UniqueAllResult
        ``values``, ascending; ``indices`` of their first occurrences in the flattened array; ``inverse_indices``
        into the values, of the shape of `x`; ``counts``. Indices and counts have the default integer dtype.

    Raises
    ------
    DataDependentShape
        While tracing: the number of values depends on values.
    """
    return UniqueAllResult(*_unique(x, "unique_all"))


def unique_counts(x: Array, /) -> UniqueCountsResult:
    """Return the distinct values of an array and how often each occurs.

    Parameters
    ----------
    x
        Array of any shape. Elements are the same if they are equal: each NaN is distinct, the two zeros are not.

    Returns
    -------
    UniqueCountsResult
        ``values``, ascending; ``counts`` of the default integer dtype.

    Raises
    ------
    DataDependentShape
        While tracing: the number of values depends on values.
    """
    values, _, _, counts = _unique(x, "unique_counts")
    return UniqueCountsResult(values, counts)


def unique_inverse(x: Array, /) -> UniqueInverseResult:
    """Return the distinct values of an array and the indices into them that make up the array.

    Parameters
    ----------
    x
        Array of any shape. Elements are the same if they are equal: each NaN is distinct, the two zeros are not.

    Returns
    -------
    UniqueInverseResult
        ``values``, ascending; ``inverse_indices`` of the shape of `x` and the default integer dtype.

    Raises
    ------
    DataDependentShape
        While tracing: the number of values depends on values.
    """
    values, _, inverse, _ = _unique(x, "unique_inverse")
    return UniqueInverseResult(values, inverse)


def unique_values(x: Array, /) -> Array:
    """Return the distinct values of an array in ascending order.

    Parameters
    ----------
    x
        Array of any shape. Elements are the same if they are equal: each NaN is distinct, the two zeros are not.

    Returns
    -------
    Array
        A vector of the dtype of `x`.

    Raises
    ------
    DataDependentShape
        While tracing: the number of values depends on values.
    """
    data = concrete(x, "unique_values", _REMEDY)
    host = host_view(data)
    if host is None or data.dtype in _UNORDERED:
        return _unique_on_device(wrap_shared(data), default_int(data))[0]
    ordered = np.sort(host, axis=None)
    (values,) = from_host((ordered[_first_of_each(ordered)],), data)
    return values


def _unique(x: object, operation: str) -> tuple[Array, Array, Array, Array]:
    data = concrete(x, operation, _REMEDY)
    dtype = default_int(data)
    host = host_view(data)
    if host is None or data.dtype in _UNORDERED:
        return _unique_on_device(wrap_shared(data), dtype)
    flat = host.reshape(-1)
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    first = _first_of_each(ordered)
    starts = np.flatnonzero(first)
    inverse = np.empty(flat.size, dtype)
    inverse[order] = np.cumsum(first) - 1
    counts = np.diff(starts, append=flat.size)
    values, indices, inverse_indices, counted = from_host(
        (
            ordered[starts],
            order[starts].astype(dtype),
            inverse.reshape(host.shape),
            counts.astype(dtype),
        ),
        data,
    )
    return values, indices, inverse_indices, counted


def _first_of_each(ordered: np.ndarray) -> np.ndarray:
    first = np.ones(ordered.shape, np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


def _unique_on_device(x: Array, dtype: np.dtype) -> tuple[Array, Array, Array, Array]:
    parts: tuple[Array, ...] = calln(_unique_padded, (x,), dtype)  # type: ignore[assignment]
    number, values, indices, inverse, counts = parts
    n = int(number)
    return values[:n], indices[:n], inverse, counts[:n]
