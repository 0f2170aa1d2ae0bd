"""Values that are NaN or infinite: kept from those that do not see them.

A weight of 0 times NaN is NaN, so a hidden value has to be 0 before the product. That is looked into only where a
value is not finite, which takes one read of the values to know.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .tiles import Index, Tiles, Walk, split
from .xla_layout import at, product

__all__ = ["finite", "hidden_to_zero", "what_is_seen"]

_AXES = "bkgts"


def finite(x: jax.Array) -> jax.Array:
    """Return `x` with 0 in place of NaN and infinities."""
    return jnp.where(lax.is_finite(x), x, np.zeros((), x.dtype))


def hidden_to_zero(tiles: Tiles, value: jax.Array) -> jax.Array:
    """Return blocks of values with 0 for keys that no query sees."""
    if not tiles.has_hidden:
        return value
    blocks = tiles.blocks
    count, rows = value.shape[0], (blocks.batch, blocks.heads, blocks.key)

    def seen_block(walk: Walk, flat: Index) -> jax.Array:
        chunk, j = split(flat, tiles.key_blocks)

        def step(i: Index, masked: bool, seen: jax.Array) -> jax.Array:
            keep = tiles.keep(chunk, i, j, _AXES, masked=masked, existing=True)
            return jnp.ones_like(seen) if keep is None else seen | jnp.any(keep, (2, 3))

        return tiles.visit(walk, chunk, j, step, jnp.zeros(rows, bool))

    def look() -> jax.Array:
        walk = tiles.walk(by_keys=True)
        if count == 1:
            return seen_block(walk, 0)[None]
        blocks: jax.Array = lax.map(lambda flat: seen_block(walk, flat), lax.iota(np.int32, count))
        return blocks

    seen = lax.cond(jnp.all(lax.is_finite(value)), lambda: jnp.ones((count, *rows), bool), look)
    return jnp.where(seen[..., None], value, np.zeros((), value.dtype))


def what_is_seen(tiles: Tiles, walk: Walk, value: jax.Array) -> Callable[[Index, Index], jax.Array]:
    """Return a function of a chunk and a query block: the sums of the NaN and infinities that its queries see.

    Added to sums of finite values, they give what IEEE arithmetic says of those that are seen, and 0 otherwise.
    """
    blocks, spec = tiles.blocks, tiles.spec
    work = spec.accumulator
    rows = (blocks.batch, blocks.heads, spec.group, blocks.query)
    # Small counts, exact in any precision.
    precision = lax.Precision.DEFAULT
    all_finite = jnp.all(lax.is_finite(value))
    zero = np.zeros((), work)

    def counts(chunk: Index, i: Index) -> jax.Array:
        def step(j: Index, masked: bool, counts: jax.Array) -> jax.Array:
            v = at(value, chunk * tiles.key_blocks + j)
            kinds = jnp.concatenate([jnp.isnan(v), v == np.inf, v == -np.inf], -1).astype(work)
            keep = tiles.keep(chunk, i, j, _AXES, masked=masked)
            if keep is None:
                return counts + jnp.sum(kinds, 2)[:, :, None, None]
            sees = jnp.broadcast_to(keep, (*rows, blocks.key)).astype(work).reshape(*rows[:2], -1, blocks.key)
            return counts + product(sees, kinds, (3, 2), work, precision).reshape(counts.shape)

        return tiles.visit(walk, chunk, i, step, jnp.zeros((*rows, 3 * spec.value_size), work))

    def look(chunk: Index, i: Index) -> jax.Array:
        nan, up, down = (part > 0 for part in jnp.split(counts(chunk, i), 3, -1))
        infinite = jnp.where(up, np.asarray(np.inf, work), jnp.where(down, np.asarray(-np.inf, work), zero))
        return jnp.where(nan | (up & down), np.asarray(np.nan, work), infinite)

    def added(chunk: Index, i: Index) -> jax.Array:
        nothing = jnp.zeros((*rows, spec.value_size), work)
        sums: jax.Array = lax.cond(all_finite, lambda: nothing, lambda: look(chunk, i))
        return sums

    return added
