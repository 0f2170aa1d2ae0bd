"""Products whose derivatives stay clean beside NaN and infinities that nothing sees."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["finite", "product"]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def product(subscripts: str, precision: str, a: jax.Array, b: jax.Array) -> jax.Array:
    """Return an einsum of two operands. A derivative of 0 by one of them stays 0 beside a NaN in the other."""
    result: jax.Array = jnp.einsum(subscripts, a, b, precision=precision)
    return result


@product.defjvp
def _product_jvp(
    subscripts: str, precision: str, primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (a, b), (da, db) = primals, tangents
    einsum = functools.partial(jnp.einsum, subscripts, precision=precision)
    return product(subscripts, precision, a, b), einsum(da, finite(b)) + einsum(finite(a), db)


def finite(x: jax.Array) -> jax.Array:
    """Return `x` with 0 in place of NaN and infinities."""
    return jnp.where(lax.is_finite(x), x, lax.full_like(x, 0))
