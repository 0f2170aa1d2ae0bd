"""The loops over tiles of queries and keys that `pairwise` is carried out by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = ["Bounds", "Piece", "walk"]

# A tile of all heads holds about so many scores: few enough for the caches, and enough to be shared by the cores.
_SCORES = 1 << 19
_LARGEST, _SMALLEST = 256, 32

Index = int | jax.Array
State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class Piece:
    """An operand or result of a sum over pairs.

    Attributes
    ----------
    shape, dtype
        Of the whole.
    t, s
        Its axis of queries, and that of keys; None for none.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    t: int | None = None
    s: int | None = None

    def sized(self, queries: int, keys: int) -> tuple[int, ...]:
        """Return its shape with so many queries and keys."""
        sizes = {self.t: queries, self.s: keys}
        return tuple(sizes.get(axis, size) for axis, size in enumerate(self.shape))

    def block(self, queries: int, keys: int) -> jax.ShapeDtypeStruct:
        """Return what a slice of it is."""
        return jax.ShapeDtypeStruct(self.sized(queries, keys), self.dtype)

    def batched(self, size: int) -> Piece:
        """Return it with one more axis in front."""
        t, s = (None if axis is None else axis + 1 for axis in (self.t, self.s))
        return Piece((size, *self.shape), self.dtype, t, s)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Keys outside of ``t + offset - left .. t + offset + right`` give query t nothing; None is no bound."""

    offset: int = 0
    left: int | None = None
    right: int | None = None

    def keys_of(self, first: Index, queries: int, block: int, blocks: int) -> tuple[Index, Index]:
        """Return the first block of keys that a block of queries from `first` on needs, and the one past the last."""
        low: Index = 0
        high: Index = blocks
        if self.left is not None:
            low = _clip((first + (self.offset - self.left)) // block, blocks)
        if self.right is not None:
            high = _clip((first + (queries - 1 + self.offset + self.right)) // block + 1, blocks)
        return low, high


def _clip(x: Index, most: int) -> Index:
    return min(max(x, 0), most) if isinstance(x, int) else lax.clamp(np.int32(0), x, np.int32(most))


def walk(
    tile: Callable[[Sequence[jax.Array], int, int], list[jax.Array]],
    operands: Sequence[Piece],
    results: Sequence[Piece],
    arrays: Sequence[jax.Array],
    sizes: tuple[int, int],
    bounds: Bounds,
    lead: int,
) -> list[jax.Array]:
    """Return the sums of `tile` over all blocks, as `pairwise.Sum` says.

    Notes
    -----
    Beyond the operands and results there are their copies filled up to whole blocks, and one tile. What is filled up
    is -1 in integers and 0 in floats: a tile has to give 0 for positions below 0.
    """
    (queries, query_blocks), (keys, key_blocks) = (_blocks(size, lead) for size in sizes)
    if query_blocks == 1 and key_blocks == 1:
        return tile(arrays, queries, keys)
    whole = query_blocks * queries, key_blocks * keys
    filled = [_fill(piece, x, whole) for piece, x in zip(operands, arrays, strict=True)]
    by_query = [i for i, piece in enumerate(results) if piece.t is not None and piece.s is None]
    # Blocks are written along an axis in front: that is done in place and by all cores.
    totals = [
        jnp.zeros(
            (
                *([] if piece.t is None else [query_blocks]),
                *([] if piece.s is None else [key_blocks]),
                *piece.sized(queries, keys),
            ),
            piece.dtype,
        )
        for piece in results
    ]

    def row(i: Index, totals: list[jax.Array]) -> list[jax.Array]:
        own = [_slice(x, piece.t, i, queries) for piece, x in zip(operands, filled, strict=True)]

        def step(j: Index, carry: tuple[list[jax.Array], list[jax.Array]]) -> tuple[list[jax.Array], list[jax.Array]]:
            rows, totals = list(carry[0]), list(carry[1])
            slices = [_slice(x, piece.s, j, keys) for piece, x in zip(operands, own, strict=True)]
            for k, (piece, part) in enumerate(zip(results, tile(slices, queries, keys), strict=True)):
                if piece.s is None and piece.t is None:
                    totals[k] = totals[k] + part
                elif piece.s is None:
                    rows[by_query.index(k)] += part
                elif piece.t is None:
                    totals[k] = _write(totals[k], _read(totals[k], j) + part, j)
                else:
                    totals[k] = lax.dynamic_update_slice(
                        totals[k], part[None, None], (i, j, *([np.int32(0)] * part.ndim))
                    )
            return rows, totals

        rows = [jnp.zeros(results[k].sized(queries, keys), results[k].dtype) for k in by_query]
        low, high = bounds.keys_of(i * queries, queries, keys, key_blocks)
        rows, totals = _loop(low, high, step, (rows, totals))
        for k, x in zip(by_query, rows, strict=True):
            totals[k] = _write(totals[k], x, i)
        return totals

    totals = _loop(0, query_blocks, row, totals)
    return [_join(piece, x, sizes) for piece, x in zip(results, totals, strict=True)]


def _blocks(size: int, lead: int) -> tuple[int, int]:
    """Return the size of a block and how many there are; blocks of one size, so that little is filled up."""
    largest = _LARGEST
    while largest > _SMALLEST and largest * largest * lead > _SCORES:
        largest //= 2
    if size <= largest:
        return size, 1
    count = -(-size // largest)
    block = -(-size // (count * 8)) * 8
    return block, -(-size // block)


def _fill(piece: Piece, x: jax.Array, whole: tuple[int, int]) -> jax.Array:
    pads = [(0, 0, 0)] * x.ndim
    for axis, size in ((piece.t, whole[0]), (piece.s, whole[1])):
        if axis is not None:
            pads[axis] = (0, size - x.shape[axis], 0)
    if not any(high for _, high, _ in pads):
        return x
    fill = -1 if jnp.issubdtype(x.dtype, np.integer) else 0
    return lax.pad(x, np.asarray(fill, x.dtype), pads)


def _slice(x: jax.Array, axis: int | None, block: Index, size: int) -> jax.Array:
    return x if axis is None else lax.dynamic_slice_in_dim(x, block * size, size, axis)


def _read(x: jax.Array, i: Index) -> jax.Array:
    block: jax.Array = lax.dynamic_index_in_dim(x, i, 0, keepdims=False)
    return block


def _write(x: jax.Array, part: jax.Array, i: Index) -> jax.Array:
    written: jax.Array = lax.dynamic_update_index_in_dim(x, part, i, 0)
    return written


def _loop(low: Index, high: Index, body: Callable[[Index, State], State], state: State) -> State:
    # Counters are 64 bits wide where these types are on.
    def step(i: Index, state: State) -> State:
        return body(lax.convert_element_type(i, np.int32), state)

    return lax.fori_loop(low, high, step, state)  # type: ignore[no-any-return]


def _join(piece: Piece, x: jax.Array, sizes: tuple[int, int]) -> jax.Array:
    """Return a whole of its blocks, without what was filled up."""
    axes = [axis for axis in (piece.t, piece.s) if axis is not None]
    if not axes:
        return x
    front, ndim = len(axes), len(piece.shape)
    order: list[int] = []
    for axis in range(ndim):
        if axis in axes:
            order.append(axes.index(axis))
        order.append(front + axis)
    x = lax.transpose(x, order)
    shape = list(piece.shape)
    for n, axis in enumerate(axes):
        block = x.shape[order.index(front + axis)]
        shape[axis] = block * x.shape[order.index(n)]
    x = x.reshape(shape)
    for end, size in ((piece.t, sizes[0]), (piece.s, sizes[1])):
        if end is not None:
            x = lax.slice_in_dim(x, 0, size, axis=end)
    return x
