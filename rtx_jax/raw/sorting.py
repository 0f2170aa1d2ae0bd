"""Sorting functions of the standard on raw arrays.

NaN counts as greater than every number and the two zeros as equal, so NaNs are last in ascending and first in
descending order.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.axes import normalize_axis
from ..core.dtypes import FLOAT8, float32, int32
from ._kinds import cast, rank_at_least

__all__ = ["argsort", "sort"]


def sort(x: jax.Array, *, axis: int, descending: bool, stable: bool) -> jax.Array:
    """Sort along an axis."""
    dimension = _dimension("sort", x, axis)
    if x.dtype in FLOAT8:
        return cast(sort(cast(x, float32), axis=axis, descending=descending, stable=stable), x.dtype)
    if not descending:
        return lax.sort(x, dimension=dimension, is_stable=stable)
    # Reversed before and after: equal elements keep their order, which reversing the result alone would turn
    # round, and unsigned integers have no negative to sort by.
    return lax.rev(lax.sort(lax.rev(x, (dimension,)), dimension=dimension, is_stable=stable), (dimension,))


def argsort(x: jax.Array, *, axis: int, descending: bool, stable: bool, index_dtype: np.dtype) -> jax.Array:
    """Return the indices that sort along an axis."""
    dimension = _dimension("argsort", x, axis)
    if x.dtype in FLOAT8:
        x = cast(x, float32)
    places = lax.broadcasted_iota(index_dtype, x.shape, dimension)
    if descending:
        x, places = lax.rev(x, (dimension,)), lax.rev(places, (dimension,))
    _, order = lax.sort((x, places), dimension=dimension, num_keys=1, is_stable=stable)
    if descending:
        order = lax.rev(order, (dimension,))
    return order


def _dimension(operation: str, x: jax.Array, axis: int) -> int:
    rank_at_least(operation, x, 1)
    return normalize_axis(axis, x.ndim, operation)


def flat_order(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the elements of `x` in ascending order and their places in the flattened array, as int32 or wider."""
    flat = x.reshape(-1)
    counter = int32 if flat.size < 2**31 else jnp.int64
    places = lax.iota(counter, flat.size)
    if x.dtype in FLOAT8:
        ordered, order = lax.sort((cast(flat, float32), places), num_keys=1)
        return cast(ordered, x.dtype), order
    ordered, order = lax.sort((flat, places), num_keys=1)
    return ordered, order
