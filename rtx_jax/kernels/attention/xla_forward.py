"""The blocked forward pass (Dao et al. 2022, algorithm 1; Milakov and Gimelshein 2018 for the running maximum)."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .spec import AttentionSpec, Operands
from .tiles import Blocks, Index, Tiles, default_blocks, fitting_blocks, split
from .xla_layout import at, join, join_rows, product, split_keys, split_queries
from .xla_scores import exponential, precision_of, softcapped
from .xla_values import finite, hidden_to_zero, what_is_seen

__all__ = ["forward"]

_AXES = "bkgts"


class _State(NamedTuple):
    """The running maximum, sum and values of the rows of a query block."""

    m: jax.Array
    total: jax.Array
    acc: jax.Array


def forward(
    spec: AttentionSpec, operands: Operands, *, blocks: Blocks | None = None, interpret: bool = False
) -> tuple[jax.Array, jax.Array]:
    """Return the result and the log-sum-exp of attention.

    Parameters
    ----------
    spec, operands
        The call.
    blocks
        The sizes of a step; by default those of `default_blocks`.
    interpret
        Without meaning here.

    Returns
    -------
    out, lse
        In the layout of the query, of the dtype of the call; ``(B, N, T)`` in its accumulator.

    Notes
    -----
    Beside operands and results, memory for one copy of each and for one step.
    """
    if 0 in (spec.batch, spec.queries, spec.keys, spec.heads):
        shape = (*operands.query.shape[:-1], spec.value_size)
        return jnp.zeros(shape, spec.dtype), jnp.full((spec.batch, spec.heads, spec.queries), -np.inf, spec.accumulator)
    tiles = Tiles(spec, operands, fitting_blocks(spec, blocks) if blocks else default_blocks(spec, "forward"))
    work = spec.accumulator
    query = split_queries(tiles, operands.query)
    key = split_keys(tiles, operands.key)
    value = split_keys(tiles, operands.value)
    walk = tiles.walk()
    # What each query sees of values that are not finite, or 0 for keys that no query sees.
    seen = what_is_seen(tiles, walk, value) if spec.nan_safe and tiles.has_hidden else None
    if seen is None:
        value = hidden_to_zero(tiles, value)
    exp, precision = exponential(spec), precision_of(spec)
    scale = np.asarray(spec.scale, work)
    # A row that sees a key has a maximum of at least this, so that -infinity says that it sees none.
    lowest = np.asarray(np.finfo(work).min)
    zero, nothing = np.zeros((), work), np.asarray(-np.inf, work)
    rows = (tiles.blocks.batch, tiles.blocks.heads, spec.group, tiles.blocks.query)

    def step(q: jax.Array, chunk: Index, i: Index, j: Index, masked: bool, state: _State) -> _State:
        block = chunk * tiles.key_blocks + j
        k, v = at(key, block), at(value, block)
        if seen is not None:
            v = finite(v)
        products = product(q, k, (3, 3), work, precision).reshape(*rows, -1)
        bias = tiles.bias(chunk, i, j, _AXES)
        keep = tiles.keep(chunk, i, j, _AXES, masked=masked, bias=bias)
        s, _ = softcapped(spec, products)
        if keep is None and spec.softcap is None:
            # The products have to be read for their maximum, but not to be written again.
            top = jnp.maximum((jnp.max(products, -1) if spec.scale >= 0 else jnp.min(products, -1)) * scale, lowest)
        else:
            s = jnp.maximum(s if bias is None else s + bias, lowest)
            # Written once, and not formed again for the weights.
            s = lax.optimization_barrier(s if keep is None else jnp.where(keep, s, nothing))
            top = jnp.max(s, -1)
        m = jnp.maximum(state.m, top)
        shift = m if keep is None else jnp.where(m == nothing, zero, m)
        alpha = jnp.exp(state.m - shift)
        p = exp(s - shift[..., None])
        values = product(p.reshape(*rows[:2], -1, p.shape[-1]), v, (3, 2), work, precision)
        return _State(m, state.total * alpha + jnp.sum(p, -1), state.acc * alpha[..., None] + values.reshape(*rows, -1))

    def block(flat: Index) -> tuple[jax.Array, jax.Array]:
        chunk, i = split(flat, tiles.query_blocks)
        q = at(query, flat)
        state = _State(jnp.full(rows, nothing), jnp.zeros(rows, work), jnp.zeros((*rows, spec.value_size), work))
        state = tiles.visit(walk, chunk, i, lambda j, masked, state: step(q, chunk, i, j, masked, state), state)
        out, lse = _finish(state, tiles.sinks(operands.sinks, chunk))
        return (out if seen is None else out + seen(chunk, i)).astype(spec.dtype), lse

    count = tiles.chunks * tiles.query_blocks
    if count == 1:
        out, lse = (x[None] for x in block(0))
    else:
        out, lse = lax.map(block, lax.iota(np.int32, count))
    return join(tiles, out), join_rows(tiles, lse)


def _finish(state: _State, sinks: jax.Array | None) -> tuple[jax.Array, jax.Array]:
    """Return the values and the log-sum-exp of a query block."""
    m, total, acc = state
    empty = m == -np.inf
    zero = np.zeros((), m.dtype)
    if sinks is not None:
        top = jnp.maximum(m, sinks)
        shift = jnp.where(empty, zero, top)
        alpha = jnp.exp(m - shift)
        m, total, acc = shift, total * alpha + jnp.exp(sinks - shift), acc * alpha[..., None]
    # Every key that is seen has a score of -infinity: their softmax is 0 / 0.
    total = jnp.where(m == np.finfo(m.dtype).min, np.asarray(np.nan, m.dtype), total)
    out = jnp.where(empty[..., None], zero, acc / total[..., None])
    return out, jnp.where(empty, np.asarray(-np.inf, m.dtype), m + jnp.log(total))
