"""The blocked backward pass (Dao et al. 2022, algorithm 4).

The scores are formed again, turned: keys in the rows. So every product but the first two is of plain matrices, which
processors multiply twice as fast as one with its first factor turned. Key blocks are the outer loop; their gradients
stay in the loop, and that of a query block is added in place. The order is fixed, so results are the same in each run.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .spec import AttentionSpec, Gradients, Operands
from .tiles import Blocks, Index, Tiles, default_blocks, fitting_blocks, split
from .xla_layout import at, join, product, split_keys, split_queries, split_rows
from .xla_scores import exponential, precision_of, softcapped
from .xla_values import finite

__all__ = ["backward"]

_AXES = "bksgt"


class _State(NamedTuple):
    """The gradients of all queries, turned, those of the key block, and that of the bias or None."""

    query: jax.Array
    key: jax.Array
    value: jax.Array
    bias: jax.Array | None


def backward(
    spec: AttentionSpec,
    operands: Operands,
    out: jax.Array,
    lse: jax.Array,
    d_out: jax.Array,
    d_lse: jax.Array,
    *,
    bias: bool = False,
    sinks: bool = False,
    blocks: Blocks | None = None,
    interpret: bool = False,
) -> Gradients:
    """Return the gradients of attention.

    Parameters
    ----------
    spec, operands
        The call.
    out, lse
        What `forward` returned.
    d_out, d_lse
        The cotangents of both.
    bias, sinks
        Whether their gradients are wanted.
    blocks
        The sizes of a step; by default those of `default_blocks`.
    interpret
        Without meaning here.

    Returns
    -------
    Gradients
        In the shapes and dtypes of the operands.

    Notes
    -----
    Beside operands and results, memory for two copies of queries, keys and values, and of the bias where its gradient
    is wanted.
    """
    if 0 in (spec.batch, spec.queries, spec.keys, spec.heads):
        return Gradients(
            jnp.zeros_like(operands.query),
            jnp.zeros_like(operands.key),
            jnp.zeros_like(operands.value),
            jnp.zeros_like(operands.bias) if bias and operands.bias is not None else None,
            jnp.zeros_like(operands.sinks) if sinks and operands.sinks is not None else None,
        )
    tiles = Tiles(spec, operands, fitting_blocks(spec, blocks) if blocks else default_blocks(spec, "backward"))
    work = spec.accumulator
    exp, precision = exponential(spec), precision_of(spec)
    zero = np.zeros((), work)

    by_position = spec.layout == "BTNH"

    def by_head(x: jax.Array) -> jax.Array:
        return x.swapaxes(1, 2) if by_position else x

    # Nothing comes from a query that sees nothing, or whose results nobody uses: NaN that it sees stays there.
    used = by_head(jnp.any(d_out != 0, -1)) | (d_lse != 0)
    gone = (lse == -np.inf) | ~used
    d_out = jnp.where(by_head(gone)[..., None], np.zeros((), d_out.dtype), d_out)
    delta = by_head(jnp.sum(out.astype(work) * d_out.astype(work), -1)) - d_lse.astype(work)
    delta = jnp.where(gone, zero, delta)
    # Factors that are not finite are 0 in the products, as a hidden one would spoil a sum where its weight is 0. What
    # sees them has a NaN from elsewhere: the sum of a query or of its keys, or for values the product of the result.
    ordinary = by_head(jnp.all(lax.is_finite(operands.query), -1))
    sums = jnp.where(gone, np.asarray(np.inf, work), jnp.where(ordinary, lse, np.asarray(np.nan, work)))

    query = split_queries(tiles, finite(operands.query))
    gradient = split_queries(tiles, d_out)
    key = split_keys(tiles, operands.key)
    value = split_keys(tiles, finite(operands.value))
    turned = split_keys(tiles, finite(operands.key)).swapaxes(-1, -2)
    sum_rows, delta_rows = split_rows(tiles, sums, np.inf), split_rows(tiles, delta)
    walk = tiles.walk(by_keys=True)
    blocks = tiles.blocks
    tile = (blocks.batch, blocks.heads, blocks.key, spec.group, blocks.query)
    flat_tile = (*tile[:3], -1)
    row_tile = (*tile[:2], 1, *tile[3:])

    def step(chunk: Index, i: Index, j: Index, masked: bool, state: _State) -> _State:
        keys, queries = chunk * tiles.key_blocks + j, chunk * tiles.query_blocks + i
        q, d = at(query, queries), at(gradient, queries)
        s, tanh = softcapped(spec, product(at(key, keys), q, (3, 3), work, precision).reshape(tile))
        added = tiles.bias(chunk, i, j, _AXES)
        keep = tiles.keep(chunk, i, j, _AXES, masked=masked, bias=added, existing=True)
        p = exp((s if added is None else s + added) - at(sum_rows, queries).reshape(row_tile))
        if keep is not None:
            # Written once, and not formed again for the slopes.
            p = lax.optimization_barrier(jnp.where(keep, p, zero))
        dp = product(at(value, keys), d, (3, 3), work, precision).reshape(tile)
        ds = p * (dp - at(delta_rows, queries).reshape(row_tile))
        d_bias = state.bias
        if d_bias is not None:
            d_bias = tiles.add_bias(d_bias, ds if keep is None else jnp.where(keep, ds, zero), chunk, i, j, _AXES)
        if tanh is not None:
            ds = ds * (np.ones((), work) - tanh * tanh)
        if keep is not None:
            ds = jnp.where(keep, ds, zero)
        p, ds = p.reshape(flat_tile), ds.reshape(flat_tile)
        d_key = state.key + product(ds, q, (3, 2), work, precision)
        d_value = state.value + product(p, d, (3, 2), work, precision)
        d_query = product(at(turned, keys), ds, (3, 2), work, precision)
        d_query = lax.dynamic_update_index_in_dim(state.query, at(state.query, queries) + d_query, queries, 0)
        return _State(d_query, d_key, d_value, d_bias)

    scale = np.asarray(spec.scale, work)

    def block(flat: Index, d_query: jax.Array, d_bias: jax.Array | None) -> tuple[_State, jax.Array, jax.Array]:
        chunk, j = split(flat, tiles.key_blocks)
        rows = (*tile[:3],)
        state = _State(d_query, jnp.zeros((*rows, spec.size), work), jnp.zeros((*rows, spec.value_size), work), d_bias)
        state = tiles.visit(walk, chunk, j, lambda i, masked, state: step(chunk, i, j, masked, state), state)
        return state, (state.key * scale).astype(spec.dtype), state.value.astype(spec.dtype)

    d_query = jnp.zeros((*query.shape[:3], spec.size, query.shape[3]), work)
    d_bias = tiles.zeros_like_bias() if bias else None
    count = tiles.chunks * tiles.key_blocks
    if count == 1:
        state, d_key, d_value = block(0, d_query, d_bias)
        d_query, d_bias, d_key, d_value = state.query, state.bias, d_key[None], d_value[None]
    else:

        def body(
            carry: tuple[jax.Array, jax.Array | None], flat: jax.Array
        ) -> tuple[tuple[jax.Array, jax.Array | None], tuple[jax.Array, jax.Array]]:
            state, d_key, d_value = block(flat, *carry)
            return (state.query, state.bias), (d_key, d_value)

        (d_query, d_bias), (d_key, d_value) = lax.scan(body, (d_query, d_bias), lax.iota(np.int32, count))

    return Gradients(
        join(tiles, (d_query * scale).astype(spec.dtype), turned=True),
        join(tiles, d_key, keys=True),
        join(tiles, d_value, keys=True),
        None if d_bias is None else tiles.as_bias(d_bias),
        _sinks(spec, operands, sums, delta) if sinks else None,
    )


def _sinks(spec: AttentionSpec, operands: Operands, sums: jax.Array, delta: jax.Array) -> jax.Array:
    """Return the gradient of the sinks: each is a key whose value is 0."""
    assert operands.sinks is not None
    weights = jnp.exp(operands.sinks.astype(spec.accumulator)[None, :, None] - sums)
    return -jnp.sum(weights * delta, (0, 2)).astype(operands.sinks.dtype)
