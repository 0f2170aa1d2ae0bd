"""Decode attention with all scores at once: for short caches, and what every derivative is taken of.

Few queries make scores that are no larger than the cache, so that this is O(S) too.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax

from ..._compat import guard_dot
from ..target import Target
from .ranges import row_ranges, union_range
from .spec import DecodeOperands, DecodeSpec, Partial, whole_only
from .splits import finish, safe_top

__all__ = ["NAME", "forward", "partial", "scores_of", "unsupported"]

NAME = "reference"


def unsupported(spec: DecodeSpec, target: Target) -> list[str]:
    """Return why this implementation cannot do a call, in words: all but parts."""
    del target
    return whole_only(spec)


def forward(spec: DecodeSpec, operands: DecodeOperands) -> tuple[jax.Array, jax.Array]:
    """Return the result and the log-sum-exp; differentiable in every floating operand, in every mode."""
    return finish(spec, operands, partial(spec, operands))


def partial(spec: DecodeSpec, operands: DecodeOperands, *, blocks: None = None, interpret: bool = False) -> Partial:
    """Return the softmax over all keys as one part."""
    del blocks, interpret
    work = spec.accumulator
    key, value = (_heads_first(spec, x, operands.table) for x in (operands.key, operands.value))
    key_scale, value_scale = (
        None if x is None else _heads_first(spec, x[..., None], operands.table)[..., 0]
        for x in (operands.key_scale, operands.value_scale)
    )
    at = lax.broadcasted_iota(operands.lengths.dtype, (1, 1, spec.keys), 2)
    first, stop = (x[..., None] for x in union_range(spec, operands.lengths, operands.offsets))
    used = (at >= first) & (at < stop)

    def clean(x: jax.Array) -> jax.Array:
        # What no query sees may be NaN.
        return jnp.where(used if x.ndim == 3 else used[..., None], x.astype(work), 0)

    key, value = clean(key), clean(value)
    first, stop = (x[..., None] for x in row_ranges(spec, operands.lengths, operands.offsets))
    seen = (at[:, :, None] >= first) & (at[:, :, None] < stop)

    def shown(x: jax.Array) -> jax.Array:
        # Slopes at a NaN that other queries see would be NaN.
        return jnp.where(seen, x, 0)

    scores = shown(_product(spec.precision, operands.query.astype(work), key))
    scale = None if key_scale is None else shown(clean(key_scale)[:, :, None])
    scores = jnp.where(seen, scores_of(spec, scores, operands.factor, scale), -jnp.inf)
    m = lax.stop_gradient(jnp.max(scores, -1, initial=-jnp.inf))
    weights = jnp.exp(scores - safe_top(m)[..., None])
    total = jnp.sum(weights, -1)
    if value_scale is not None:
        weights = weights * clean(value_scale)[:, :, None]
    acc = jnp.einsum("bkrs,bksh->bkrh", weights, value, precision=spec.precision)
    return Partial(acc[None], m[None], total[None])


def scores_of(
    spec: DecodeSpec, products: jax.Array, factor: jax.Array | None, key_scale: jax.Array | None
) -> jax.Array:
    """Return the scores of products (..., R, S): scaled by a factor (..., R) and by key, and capped."""
    scores = products * (spec.scale if factor is None else factor[..., None])
    if key_scale is not None:
        scores = scores * key_scale.astype(scores.dtype)
    return scores if spec.softcap is None else spec.softcap * jnp.tanh(scores / spec.softcap)


def _heads_first(spec: DecodeSpec, x: jax.Array, table: jax.Array | None) -> jax.Array:
    """Return a part of the cache as (B, K, S, ...)."""
    heads = 2 if spec.layout == "BTNH" else 1
    if table is None:
        return jnp.moveaxis(x, heads, 1)
    x = jnp.moveaxis(x[table], heads + 1, 1)
    return x.reshape(*x.shape[:2], spec.keys, x.shape[-1])


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _product(precision: str, query: jax.Array, key: jax.Array) -> jax.Array:
    """Products of queries and keys. A derivative of 0 by one of them stays 0 beside a NaN in the other."""
    return guard_dot(jnp.einsum("bkrh,bksh->bkrs", query, key, precision=precision))


@_product.defjvp
def _product_jvp(
    precision: str, primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (query, key), (d_query, d_key) = primals, tangents

    def finite(x: jax.Array) -> jax.Array:
        return jnp.where(lax.is_finite(x), x, 0)

    tangent = _product(precision, d_query, finite(key)) + _product(precision, finite(query), d_key)
    return _product(precision, query, key), tangent
