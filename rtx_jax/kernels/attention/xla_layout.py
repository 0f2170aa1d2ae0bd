"""How the blocked attention holds its operands: by blocks of positions, each contiguous.

A block is read and written in one piece there: slices along a leading axis are copied by all cores, others by one. The
query heads of a key head lie in the rows of a block, so that grouped heads are larger products and no repeated keys.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .tiles import Index, Tiles

__all__ = ["at", "join", "join_rows", "product", "split_keys", "split_queries", "split_rows"]

# Axes of the whole: chunks of the batch C, rows b; chunks of key heads D, key heads k, query heads of one g; query
# blocks i, queries t; key blocks j, keys s; h the size of a head.


def split_queries(tiles: Tiles, x: jax.Array) -> jax.Array:
    """Return (B, T, N, h) or (B, N, T, h), as the layout says, as (chunks * query blocks, b, k, g * t, h)."""
    blocks, group = tiles.blocks, tiles.spec.group
    by_position = tiles.spec.layout == "BTNH"
    x = _pad(x, 1 if by_position else 2, tiles.padding[0])
    size = x.shape[-1]
    batch, heads = (tiles.batch_chunks, blocks.batch), (tiles.head_chunks, blocks.heads, group)
    positions = (tiles.query_blocks, blocks.query)
    if by_position:
        x = x.reshape(*batch, *positions, *heads, size).transpose(0, 4, 2, 1, 5, 6, 3, 7)
    else:
        x = x.reshape(*batch, *heads, *positions, size).transpose(0, 2, 5, 1, 3, 4, 6, 7)
    return x.reshape(-1, blocks.batch, blocks.heads, group * blocks.query, size)


def split_keys(tiles: Tiles, x: jax.Array) -> jax.Array:
    """Return (B, S, K, h) or (B, K, S, h), as the layout says, as (chunks * key blocks, b, k, s, h)."""
    blocks = tiles.blocks
    by_position = tiles.spec.layout == "BTNH"
    x = _pad(x, 1 if by_position else 2, tiles.padding[1])
    size = x.shape[-1]
    batch, heads = (tiles.batch_chunks, blocks.batch), (tiles.head_chunks, blocks.heads)
    positions = (tiles.key_blocks, blocks.key)
    if by_position:
        x = x.reshape(*batch, *positions, *heads, size).transpose(0, 4, 2, 1, 5, 3, 6)
    else:
        x = x.reshape(*batch, *heads, *positions, size).transpose(0, 2, 4, 1, 3, 5, 6)
    return x.reshape(-1, blocks.batch, blocks.heads, blocks.key, size)


def split_rows(tiles: Tiles, x: jax.Array, fill: float = 0.0) -> jax.Array:
    """Return (B, N, T) as (chunks * query blocks, b, k, g * t)."""
    blocks, group = tiles.blocks, tiles.spec.group
    x = _pad(x, 2, tiles.padding[0], fill)
    batch, heads = (tiles.batch_chunks, blocks.batch), (tiles.head_chunks, blocks.heads, group)
    x = x.reshape(*batch, *heads, tiles.query_blocks, blocks.query).transpose(0, 2, 5, 1, 3, 4, 6)
    return x.reshape(-1, blocks.batch, blocks.heads, group * blocks.query)


def join(tiles: Tiles, x: jax.Array, *, keys: bool = False, turned: bool = False) -> jax.Array:
    """Undo `split_queries`, or `split_keys`; `turned` where the two last axes are (h, positions)."""
    blocks, spec = tiles.blocks, tiles.spec
    group = 1 if keys else spec.group
    count, block, length = (
        (tiles.key_blocks, blocks.key, spec.keys) if keys else (tiles.query_blocks, blocks.query, spec.queries)
    )
    size = x.shape[3] if turned else x.shape[-1]
    chunks = (tiles.batch_chunks, tiles.head_chunks, count, blocks.batch, blocks.heads)
    # Chunks of the batch and of heads, blocks, rows, key heads, group, positions, size: at 0, 1, 2, 3, 4, g, p, h.
    x = x.reshape(*chunks, size, group, block) if turned else x.reshape(*chunks, group, block, size)
    g, p, h = (6, 7, 5) if turned else (5, 6, 7)
    order = (0, 3, 2, p, 1, 4, g, h) if spec.layout == "BTNH" else (0, 3, 1, 4, g, 2, p, h)
    x = x.transpose(order)
    heads = spec.key_heads * group
    if spec.layout == "BTNH":
        return x.reshape(spec.batch, count * block, heads, size)[:, :length]
    return x.reshape(spec.batch, heads, count * block, size)[:, :, :length]


def join_rows(tiles: Tiles, x: jax.Array) -> jax.Array:
    """Undo `split_rows`."""
    blocks, spec = tiles.blocks, tiles.spec
    x = x.reshape(
        tiles.batch_chunks, tiles.head_chunks, tiles.query_blocks, blocks.batch, blocks.heads, spec.group, blocks.query
    )
    x = x.transpose(0, 3, 1, 4, 5, 2, 6)
    return x.reshape(spec.batch, spec.heads, tiles.query_blocks * blocks.query)[..., : spec.queries]


def at(x: jax.Array, index: Index) -> jax.Array:
    """Return one block."""
    if isinstance(index, int):
        return lax.index_in_dim(x, index, 0, keepdims=False)
    block: jax.Array = lax.dynamic_index_in_dim(x, index, 0, keepdims=False)
    return block


def product(
    x: jax.Array, y: jax.Array, contract: tuple[int, int], accumulator: np.dtype, precision: lax.Precision
) -> jax.Array:
    """Return the products of the matrices of two blocks, summed over one axis of each.

    Halves are multiplied as what they are summed in: nothing is lost, processors without products of halves take
    longer for those, and with the default precision others still take them for halves.
    """
    dims = (((contract[0],), (contract[1],)), ((0, 1), (0, 1)))
    return lax.dot_general(
        x.astype(accumulator), y.astype(accumulator), dims, precision=precision, preferred_element_type=accumulator
    )


def _pad(x: jax.Array, axis: int, rest: int, fill: float = 0.0) -> jax.Array:
    widths = [(0, rest if at == axis else 0) for at in range(x.ndim)]
    return jnp.pad(x, widths, constant_values=np.asarray(fill, x.dtype)) if rest else x
