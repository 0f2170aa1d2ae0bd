"""Set functions of the standard on raw arrays.

The results of the unique functions have as many elements as there are distinct values. Here they are padded to the
size of the operand and come with their number, so that they compile once per shape; the face cuts them.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.dtypes import FLOAT8, float32
from ._kinds import cast, enter
from .operands import common_dtype as common
from .sorting import flat_order

__all__ = ["isin", "unique_padded"]

# Up to this many candidates every element is compared with every candidate, in one fused loop; beyond, a sort and
# a binary search take less work.
_COMPARE_ALL = 32


def isin(x1: jax.Array, x2: jax.Array, *, invert: bool) -> jax.Array:
    """Tell which elements of `x1` are equal to some element of `x2`. NaN is equal to nothing."""
    dtype = common("isin", x1, x2)
    with enter(dtype):
        if dtype in FLOAT8:
            dtype = float32
        x1, x2 = cast(x1, dtype), cast(x2, dtype).reshape(-1)
        if not x2.size:
            found = jnp.zeros(x1.shape, jnp.bool_)
        elif x2.size <= _COMPARE_ALL:
            found = jnp.any(x1[..., None] == x2, axis=-1)
        else:
            ordered = lax.sort(x2)
            place = jnp.searchsorted(ordered, x1, side="left")
            found = jnp.take(ordered, place, mode="clip") == x1
        return ~found if invert else found


def unique_padded(x: jax.Array, *, index_dtype: np.dtype) -> tuple[jax.Array, ...]:
    """Return (number, values, indices, inverse_indices, counts); all but the first and the fourth are padded.

    Elements are the same if they are equal: NaNs are distinct, the two zeros are not. Values ascend.
    """
    ordered, order = flat_order(x)
    size = ordered.size
    if not size:
        none = jnp.zeros((0,), index_dtype)
        return jnp.zeros((), index_dtype), ordered, none, none.reshape(x.shape), none
    comparable = cast(ordered, float32) if ordered.dtype in FLOAT8 else ordered
    first = jnp.concatenate([jnp.ones((1,), jnp.bool_), comparable[1:] != comparable[:-1]])
    group = jnp.cumsum(first, dtype=order.dtype) - 1
    (starts,) = jnp.nonzero(first, size=size, fill_value=size)
    starts = cast(starts, order.dtype)
    values = jnp.take(ordered, starts, mode="clip")
    indices = jnp.take(order, starts, mode="clip")  # the sort is stable, so this is the first occurrence
    inverse = jnp.zeros((size,), order.dtype).at[order].set(group, unique_indices=True)
    counts = jnp.diff(starts, append=jnp.asarray(size, order.dtype))
    return (
        cast(group[-1] + 1, index_dtype),
        values,
        cast(indices, index_dtype),
        cast(inverse, index_dtype).reshape(x.shape),
        cast(counts, index_dtype),
    )
