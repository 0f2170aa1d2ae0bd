"""The greatest and the least element of real arrays, where a NaN is never passed over."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from ..core.dtypes import INEXACT

__all__ = ["greatest", "least"]

Axes = int | tuple[int, ...]

# XLA reduces arrays of 4096 elements or more on the CPU in vectors, with a maximum that returns the other operand for
# a NaN (JAX 0.10.2 to 0.12.0.1, also in jax.numpy). Smaller ones are reduced as in plain JAX.
_VECTORIZED = 2048


def greatest(x: jax.Array, axes: Axes, keepdims: bool = False, initial: float | None = None) -> jax.Array:
    """Return the greatest element along axes; NaN if one is NaN."""
    return _choose(partial(jnp.max, axis=axes, keepdims=keepdims, initial=initial), x, axes, keepdims)


def least(x: jax.Array, axes: Axes, keepdims: bool = False) -> jax.Array:
    """Return the least element along axes; NaN if one is NaN."""
    return _choose(partial(jnp.min, axis=axes, keepdims=keepdims), x, axes, keepdims)


def _choose(reduce: Callable[[jax.Array], jax.Array], x: jax.Array, axes: Axes, keepdims: bool) -> jax.Array:
    if x.dtype not in INEXACT or x.size < _VECTORIZED:
        return reduce(x)

    def search(x: jax.Array) -> jax.Array:
        chosen = reduce(x)
        return jnp.where(jnp.any(x != x, axis=axes, keepdims=keepdims), jnp.asarray(jnp.nan, x.dtype), chosen)

    # A sum is cheap and finds every NaN, and otherwise only infinities of both signs.
    chosen: jax.Array = lax.cond(jnp.isnan(jnp.sum(lax.stop_gradient(x))), search, reduce, x)
    return chosen
