"""Searching, sorting and sets where NumPy's functions take other arguments than the standard's."""

from __future__ import annotations

import numpy as np

from ..ulp import Values

__all__ = ["argsort", "count_nonzero", "isin", "sort", "unique_counts", "unique_inverse", "unique_values"]


def sort(x: Values, /, *, axis: int, descending: bool, stable: bool) -> Values:
    """Sort; NaN last in either direction."""
    return np.take_along_axis(x, argsort(x, axis=axis, descending=descending, stable=stable), axis)


def argsort(x: Values, /, *, axis: int, descending: bool, stable: bool) -> Values:
    """Positions that sort, equal numbers in their order."""
    if not descending:
        return np.asarray(np.argsort(x, axis=axis, stable=True))
    values = np.moveaxis(x, axis, -1)
    # The order of the reversed row, counted from the end and reversed, keeps equal numbers in their order.
    backwards = np.argsort(values[..., ::-1], axis=-1, stable=True)
    order = values.shape[-1] - 1 - backwards[..., ::-1]
    if x.dtype.kind == "f":
        nan = np.isnan(np.take_along_axis(values, order, -1))
        # NaN sorts first when turned round; put it last again.
        order = np.take_along_axis(order, np.argsort(nan, axis=-1, stable=True), -1)
    return np.moveaxis(order, -1, axis)


def count_nonzero(x: Values, /, *, axis: int | None, keepdims: bool) -> Values:
    """How many elements are not zero."""
    return np.asarray(np.count_nonzero(x, axis=axis, keepdims=keepdims))


def isin(x1: Values, x2: Values, /, *, invert: bool) -> Values:
    """Whether each element is one of the others."""
    return np.asarray(np.isin(x1, x2, invert=invert))


def unique_values(x: Values, /) -> Values:
    """Every value once; each NaN is a value of its own."""
    return np.asarray(np.unique(x, equal_nan=False))


def unique_counts(x: Values, /) -> list[Values]:
    """Every value once, and how often it comes."""
    return [np.asarray(part) for part in np.unique(x, return_counts=True, equal_nan=False)]


def unique_inverse(x: Values, /) -> list[Values]:
    """Every value once, and where each element is among them."""
    values, inverse = np.unique(x, return_inverse=True, equal_nan=False)
    return [values, inverse.reshape(x.shape)]
