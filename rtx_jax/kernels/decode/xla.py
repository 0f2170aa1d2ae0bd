"""Decode attention in plain XLA, a block of keys at a time: no more of the cache is read than the rows see.

Each row of the batch takes its own number of steps. A block is cast and scaled where it lies in the processor's
cache, so that an int8 cache is never copied whole. Where heads are inside of positions (`"BTNH"`), the products of
each head are an operation of their own: one batched product would copy the block, at 10 times the cost (measured on
2 cores, 8 heads of 128).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..target import Target
from . import plain
from .narrow import sliceable, widen
from .ranges import row_ranges, union_range
from .spec import DecodeOperands, DecodeSpec, Partial, whole_only
from .splits import safe_top

__all__ = ["Blocks", "NAME", "default_blocks", "partial", "unsupported"]

NAME = "xla"

_BLOCK_BYTES = 1 << 20
"""Of one block of keys as float32: with the values beside it, it stays in the second-level cache of a core."""

_SMALL_BYTES = 1 << 20
"""Of all keys that a call can see: below, one step over everything costs less than a loop."""

_UNROLLED_HEADS = 16


def unsupported(spec: DecodeSpec, target: Target) -> list[str]:
    """Return why this implementation cannot do a call, in words: all but parts."""
    del target
    return whole_only(spec)


@dataclass(frozen=True, slots=True)
class Blocks:
    """The size of one step.

    Attributes
    ----------
    key
        Positions of a block; all of them, and there is no loop.
    """

    key: int


def default_blocks(spec: DecodeSpec) -> Blocks:
    """Return the block of a call: everything where that is little, else as much as a core's cache holds."""
    everything = spec.batch * spec.keys * spec.key_heads * (spec.size + spec.value_size) * 4
    if everything <= _SMALL_BYTES:
        return Blocks(spec.keys)
    width = max(spec.size, spec.value_size, 1) * spec.key_heads * spec.accumulator.itemsize
    return Blocks(_fitting(spec, min(max(1 << int(math.log2(max(_BLOCK_BYTES // width, 1))), 64), 1024)))


def _fitting(spec: DecodeSpec, block: int) -> int:
    """Return a block that the call can have: at most S, in pages a multiple of their size."""
    if spec.page:
        block = max(block // spec.page, 1) * spec.page
    return min(block, spec.keys)


def partial(
    spec: DecodeSpec,
    operands: DecodeOperands,
    *,
    blocks: Blocks | None = None,
    together: bool = False,
    interpret: bool = False,
) -> Partial:
    """Return the softmax over all keys as one part.

    Parameters
    ----------
    blocks
        The size of a step, made to fit; None chooses.
    together
        Whether rows and heads go through the loop together, which takes as many steps as the longest row needs. XLA
        can divide that among devices, while one row after the other would bring the cache of each row to all.
    """
    del interpret
    block = _fitting(spec, (blocks or default_blocks(spec)).key)
    if block >= spec.keys:
        return plain.partial(spec, operands)
    operands = operands._replace(key=sliceable(operands.key), value=sliceable(operands.value))
    if together:
        return _together(spec, operands, block)
    if spec.batch == 1:
        return Partial(*(x[None, None] for x in _row(spec, operands, 0, block)))
    parts = lax.map(lambda b: _row(spec, operands, b, block), jnp.arange(spec.batch, dtype=np.int32))
    return Partial(*(x[None] for x in parts))


def _together(spec: DecodeSpec, operands: DecodeOperands, block: int) -> Partial:
    first, stop = union_range(spec, operands.lengths, operands.offsets)
    given = {name: x for name, x in operands._asdict().items() if x is not None}
    # Rows share the pool of pages.
    shared = {"key", "value", "key_scale", "value_scale"} if spec.page else set()

    def row(given: dict[str, jax.Array]) -> Partial:
        one = DecodeOperands(**{name: x if name in shared else x[None] for name, x in given.items()})
        return _row(spec, one, 0, block, (jnp.min(first), jnp.max(stop)))

    axes = {name: None if name in shared else 0 for name in given}
    parts: Partial = jax.vmap(row, in_axes=(axes,))(given)
    return Partial(*(x[None] for x in parts))


def _row(
    spec: DecodeSpec,
    operands: DecodeOperands,
    b: jax.Array | int,
    block: int,
    bounds: tuple[jax.Array, jax.Array] | None = None,
) -> Partial:
    """Return the softmax of one row of the batch: acc (K, R, Hv), m and total (K, R).

    With `bounds`, the range of positions of all rows, heads are not taken apart either.
    """
    work = spec.accumulator

    def at_row(x: jax.Array) -> jax.Array:
        row: jax.Array = lax.dynamic_index_in_dim(x, b, 0, keepdims=False)
        return row

    query, lengths, offsets = (at_row(x) for x in (operands.query, operands.lengths, operands.offsets))
    factor = None if operands.factor is None else at_row(operands.factor)
    query = query.astype(work)
    first, stop = row_ranges(spec, lengths, offsets)
    used_first, used_stop = union_range(spec, lengths, offsets)
    begin, end = (jnp.min(used_first), jnp.max(used_stop)) if bounds is None else bounds
    by_head = functools.partial(_by_head, spec, apart=bounds is None)

    def step(i: jax.Array, carry: Partial) -> Partial:
        acc, m, total = carry
        # The last block begins early rather than reach past the end: what came before is hidden in it.
        start = jnp.minimum(i * block, spec.keys - block)
        at = start + lax.broadcasted_iota(start.dtype, (1, block), 1)
        new = at >= i * block
        used = new & (at >= used_first[:, None]) & (at < used_stop[:, None])
        key, value, key_scale, value_scale = (
            None if x is None else _block(spec, x, operands.table, b, start, block)
            for x in (operands.key, operands.value, operands.key_scale, operands.value_scale)
        )
        assert key is not None and value is not None
        key, value = (widen(x, dtype).astype(work) for x, dtype in ((key, spec.key_dtype), (value, spec.value_dtype)))
        products = by_head(query, key, across=True)
        scores = plain.scores_of(spec, products, factor, None if key_scale is None else key_scale[:, None])
        sees = new[None] & (at[None] >= first[..., None]) & (at[None] < stop[..., None])
        scores = jnp.where(sees, scores, -jnp.inf)
        top = jnp.maximum(m, jnp.max(scores, -1))
        weights = jnp.exp(scores - safe_top(top)[..., None])
        keep = jnp.exp(m - safe_top(top))
        total = total * keep + jnp.sum(weights, -1)
        if value_scale is not None:
            weights = weights * jnp.where(used, value_scale.astype(work), 0)[:, None]
        return Partial(acc * keep[..., None] + by_head(weights, _hide(spec, value, used), across=False), top, total)

    shape = (spec.key_heads, spec.rows)
    empty = Partial(jnp.zeros((*shape, spec.value_size), work), jnp.full(shape, -jnp.inf, work), jnp.zeros(shape, work))
    done: Partial = lax.fori_loop(begin // block, jnp.maximum(-(-end // block), begin // block), step, empty)
    return done


def _block(
    spec: DecodeSpec, x: jax.Array, table: jax.Array | None, b: jax.Array | int, start: jax.Array, block: int
) -> jax.Array:
    """Return `block` positions of one row of the cache, (S, K, H) or (K, S, H) as the layout has it.

    A scale, which has no last axis, comes as (K, S).
    """
    is_scale = x.ndim == 3
    by_position = spec.layout == "BTNH"
    if table is None:
        found = lax.dynamic_index_in_dim(x, b, 0, keepdims=False)
        found = lax.dynamic_slice_in_dim(found, start, block, 0 if by_position else 1)
    else:
        row = lax.dynamic_index_in_dim(table, b, 0, keepdims=False)
        pages = x[lax.dynamic_slice_in_dim(row, start // spec.page, block // spec.page)]
        pages = pages if by_position else jnp.moveaxis(pages, 1, 0)
        lead = (block,) if by_position else (spec.key_heads, block)
        found = pages.reshape(*lead, *pages.shape[2 if by_position else 3 :])
    return found.T if is_scale and by_position else found


def _hide(spec: DecodeSpec, value: jax.Array, used: jax.Array) -> jax.Array:
    """Return a block of values, 0 where no query sees them: NaN there counts nothing."""
    return jnp.where((used.T if spec.layout == "BTNH" else used)[..., None], value, 0)


def _by_head(spec: DecodeSpec, rows: jax.Array, block: jax.Array, *, across: bool, apart: bool) -> jax.Array:
    """Return the product of rows (K, R, x) with each head of a block; `across` contracts the block's last axis."""
    precision = spec.precision
    if spec.layout == "BNTH":
        return jnp.einsum("krh,ksh->krs" if across else "krs,ksh->krh", rows, block, precision=precision)
    if not apart or spec.key_heads > _UNROLLED_HEADS:
        block = lax.optimization_barrier(jnp.moveaxis(block, 1, 0))
        return jnp.einsum("krh,ksh->krs" if across else "krs,ksh->krh", rows, block, precision=precision)
    heads = [block[:, k] for k in range(spec.key_heads)]
    form = "rh,sh->rs" if across else "rs,sh->rh"
    return jnp.stack([jnp.einsum(form, rows[k], head, precision=precision) for k, head in enumerate(heads)])
