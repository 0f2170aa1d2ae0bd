"""Extremes along an axis whose gradient goes to the first of equal elements."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from ..raw import statistical

__all__ = ["max_dim", "min_dim"]


def max_dim(x: jax.Array, *, dim: int) -> jax.Array:
    """Greatest elements along an axis, which stays with size 1; the gradient goes to the first of equal ones."""
    return _extreme(x, dim, True)


def min_dim(x: jax.Array, *, dim: int) -> jax.Array:
    """Least elements along an axis, which stays with size 1; the gradient goes to the first of equal ones."""
    return _extreme(x, dim, False)


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _extreme(x: jax.Array, dim: int, greatest: bool) -> jax.Array:
    return (statistical.max if greatest else statistical.min)(x, axis=dim, keepdims=True)


@_extreme.defjvp
def _extreme_jvp(
    dim: int, greatest: bool, primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (x,), (x_dot,) = primals, tangents
    where = (jnp.argmax if greatest else jnp.argmin)(x, axis=dim, keepdims=True)
    return _extreme(x, dim, greatest), jnp.take_along_axis(x_dot, where, axis=dim, mode="promise_in_bounds")
