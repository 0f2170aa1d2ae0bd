"""Dropout on raw arrays, with an explicit key."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..checks import linear as _check
from ..raw import random_bits
from ..raw._kinds import accumulator, cast

__all__ = ["dropout"]


def dropout(x: jax.Array, key: jax.Array, *, p: float = 0.5) -> jax.Array:
    """Return `x` with elements set to 0 with probability `p` and the others divided by ``1 - p``.

    `key` is a typed key. What is dropped is 0 also where `x` is NaN or infinite.
    """
    rate = _check.dropout(x.dtype, p)
    if rate == 0:
        return x
    if rate == 1:
        return lax.full_like(x, 0)
    with jax.threefry_partitionable(True):
        kept = random_bits.uniform(key, x.shape, np.dtype(np.float32)) >= rate
    wide = cast(x, accumulator(x.dtype))
    return cast(jnp.where(kept, wide / (1 - rate), lax.full_like(wide, 0)), x.dtype)
