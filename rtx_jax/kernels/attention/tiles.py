"""Which tiles of the scores a blocked attention visits, and what of a tile its queries see.

The scores are cut into tiles of (query block, key block). A tile that no query of it sees is left out, one in which
every query sees every key is plain, and the others are masked. A step of a blocked attention takes such a tile for
several rows of the batch and several key heads at once, a chunk, as each operation has to be large enough for all
cores. What a tile of scores is made of:

==== =======================================
axis length
==== =======================================
b    rows of the batch in a chunk
k    key heads in a chunk
g    query heads of one key head
t    queries of a block
s    keys of a block
==== =======================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .spec import AttentionSpec, Operands

__all__ = ["Blocks", "Index", "Tiles", "Walk", "default_blocks", "diagonals", "fitting_blocks"]

Index: TypeAlias = "jax.Array | np.int32 | int"

State = TypeVar("State")

_INT32 = np.iinfo(np.int32)


@dataclass(frozen=True, slots=True)
class Blocks:
    """The size of one step.

    Attributes
    ----------
    query, key
        Queries and keys of a block.
    batch, heads
        Rows of the batch and key heads of a chunk; they divide B and K.
    """

    query: int
    key: int
    batch: int = 1
    heads: int = 1


# One step has so many scores: enough for every core, and little enough for its caches. Measured with blocks of 512:
# with four times as many a call takes 1.15 times as long.
_SCORES = 8 * 256 * 256
_LONG = 4096


def default_blocks(spec: AttentionSpec, direction: str = "forward", /) -> Blocks:
    """Return block sizes for a direction, ``"forward"`` or ``"backward"``, that are good on a few cores.

    Blocks of 256, and of 512 beyond 4096 positions, but at most a quarter of the window, as what is computed beside
    the window grows with the block; query blocks shrink where many query heads share a key head.
    """
    size = 512 if max(spec.queries, spec.keys) > _LONG else 256
    if spec.window[0] is not None and spec.window[1] is not None:
        size = min(size, max(128, _power_below((spec.window[0] + spec.window[1] + 1) // 4)))
    key = _even(spec.keys, size)
    query = _even(spec.queries, min(size, max(16, size * 8 // max(spec.group, 1))))
    # A tile of the bias or of the mask has its place in the caches too, and so has each of the backward pass.
    dense = any(shape is not None and min(shape[2:]) > 1 for shape in (spec.mask, spec.bias))
    share = 4 if dense else 2 if direction == "backward" else 1
    wanted = max(1.0, _SCORES / share / (spec.group * query * key))
    heads = _divisor(spec.key_heads, wanted)
    batch = _divisor(spec.batch, wanted / heads) if heads == spec.key_heads else 1
    return Blocks(query, key, batch, heads)


def fitting_blocks(spec: AttentionSpec, blocks: Blocks) -> Blocks:
    """Return block sizes that were found for another call as this one can have them."""
    heads = math.gcd(blocks.heads, spec.key_heads)
    batch = math.gcd(blocks.batch, spec.batch) if heads == spec.key_heads else 1
    return Blocks(min(blocks.query, spec.queries), min(blocks.key, spec.keys), batch, heads)


def _power_below(number: int) -> int:
    return 1 << max(number, 1).bit_length() - 1


def _even(length: int, most: int) -> int:
    """Return the size of equal blocks of at most `most`: one that divides the length, or a multiple of 8."""
    size = math.ceil(length / math.ceil(length / most))
    return size if length % size == 0 else min(most, math.ceil(size / 8) * 8)


def _divisor(number: int, wanted: float) -> int:
    """Return the divisor of a number that is nearest to what is wanted, by ratio."""
    divisors = (d for d in range(1, number + 1) if number % d == 0)
    return min(divisors, key=lambda d: abs(math.log(d / wanted)))


class Diagonals(NamedTuple):
    """Query t sees key s where ``low <= s - t <= high``; None for no bound, an array for one of each batch row."""

    low: int | jax.Array | None
    high: int | jax.Array | None


def diagonals(spec: AttentionSpec, operands: Operands) -> Diagonals:
    """Return the first and the last diagonal of the window.

    Bounds that hide nothing are None, and the others within ``[-T, S]``, so that no sum with them overflows.
    """
    left, right = spec.window
    low = None if left is None else _bound(spec, operands, -left)
    high = None if right is None else _bound(spec, operands, right)
    if isinstance(low, int) and low <= 1 - spec.queries:
        low = None
    if isinstance(high, int) and high >= spec.keys - 1:
        high = None
    return Diagonals(low, high)


def _bound(spec: AttentionSpec, operands: Operands, side: int) -> int | jax.Array:
    least, most = -spec.queries, spec.keys
    if spec.q_offset is not None:
        return min(max(spec.q_offset + side, least), most)
    assert operands.q_offset is not None
    # Clipped before the sum: a wide window or a far offset would leave the 32 bits.
    first, last = (min(max(end - side, int(_INT32.min)), int(_INT32.max)) for end in (least, most))
    offset = jnp.clip(operands.q_offset.astype(np.int32), np.int32(first), np.int32(last))
    if not _INT32.min <= side <= _INT32.max:
        return most if side > 0 else least
    return offset + np.int32(side)


class Walk(NamedTuple):
    """The tiles of each outer block: the plain ones first, then the masked ones.

    Attributes
    ----------
    order
        Inner blocks in the order of the visit, int32 (chunks of the batch or 1, outer blocks, inner blocks); None
        where that is their own order.
    plain, touched
        How many of them are plain, and how many are visited at all, int32 (chunks of the batch or 1, outer blocks) or
        one number for all.
    inner
        How many inner blocks there are.
    """

    order: jax.Array | None
    plain: Index
    touched: Index
    inner: int


class Tiles:
    """The tiles of one call.

    Parameters
    ----------
    spec, operands
        The call.
    blocks
        The size of a tile.

    Attributes
    ----------
    query_blocks, key_blocks
        How many blocks there are of each.
    batch_chunks, head_chunks, chunks
        How many chunks of the batch and of the key heads, and their product. Chunk c has heads ``c % head_chunks``.
    """

    def __init__(self, spec: AttentionSpec, operands: Operands, blocks: Blocks) -> None:
        self.spec = spec
        self.blocks = blocks
        self.query_blocks = math.ceil(spec.queries / blocks.query)
        self.key_blocks = math.ceil(spec.keys / blocks.key)
        self.batch_chunks = spec.batch // blocks.batch
        self.head_chunks = spec.key_heads // blocks.heads
        self.chunks = self.batch_chunks * self.head_chunks
        self.low, self.high = diagonals(spec, operands)
        self._query_lengths = operands.query_lengths
        self._key_lengths = operands.key_lengths
        rest_t, rest_s = self.query_blocks * blocks.query - spec.queries, self.key_blocks * blocks.key - spec.keys
        self.padding = (rest_t, rest_s)
        self._segments = None
        if operands.segment_ids is not None and operands.key_segment_ids is not None:
            # With the last number again, so that a block has no segment but those of its positions.
            self._segments = (
                _extended(operands.segment_ids, rest_t),
                _extended(operands.key_segment_ids, rest_s),
            )
        # Queries and keys that are padding see nothing and are not seen.
        self._mask, self._bias = self._grouped(operands.mask, False), self._grouped(operands.bias, -np.inf)

    def _grouped(self, x: jax.Array | None, fill: float) -> jax.Array | None:
        """Return an operand like the scores with the axes bkgts, padded to whole blocks."""
        if x is None:
            return None
        heads = (1, 1) if x.shape[1] == 1 else (self.spec.key_heads, self.spec.group)
        x = x.reshape(x.shape[0], *heads, *x.shape[2:])
        for axis, rest in zip((3, 4), self.padding, strict=True):
            if rest and x.shape[axis] > 1:
                widths = [(0, rest if at == axis else 0) for at in range(5)]
                x = jnp.pad(x, widths, constant_values=np.asarray(fill, x.dtype))
        return x

    # --- which tiles ---

    @property
    def has_masked(self) -> bool:
        """Whether a tile may be masked: positions decide, the others are plain."""
        hidden = (self.low, self.high, self._query_lengths, self._key_lengths, self._segments)
        return any(x is not None for x in hidden) or self.padding[1] > 0

    @property
    def has_hidden(self) -> bool:
        """Whether a query may not see every key, by its position, the mask or the bias."""
        return self.has_masked or self._mask is not None or self._bias is not None

    def walk(self, *, by_keys: bool = False) -> Walk:
        """Return the tiles to visit, for each query block or for each key block."""
        inner = self.query_blocks if by_keys else self.key_blocks
        if not self.has_masked:
            return Walk(None, np.int32(inner), np.int32(inner), inner)
        plain, touched = self._kinds()
        if by_keys:
            plain, touched = plain.swapaxes(1, 2), touched.swapaxes(1, 2)
        rank = jnp.where(plain, np.int32(0), jnp.where(touched, np.int32(1), np.int32(2)))
        order = lax.broadcasted_iota(np.int32, rank.shape, 2)
        _, order = lax.sort((rank, order), dimension=2, is_stable=True, num_keys=1)
        return Walk(order, jnp.sum(plain, 2, dtype=np.int32), jnp.sum(touched, 2, dtype=np.int32), inner)

    def _kinds(self) -> tuple[jax.Array, jax.Array]:
        """Return which tiles are plain and which are touched, (chunks of the batch or 1, query blocks, key blocks)."""
        spec, blocks = self.spec, self.blocks
        # The first position of each block and the last that exists.
        first_t = lax.broadcasted_iota(np.int32, (1, self.query_blocks, 1), 1) * np.int32(blocks.query)
        first_s = lax.broadcasted_iota(np.int32, (1, 1, self.key_blocks), 2) * np.int32(blocks.key)
        last_t = jnp.minimum(first_t + np.int32(blocks.query), np.int32(spec.queries)) - np.int32(1)
        last_s = jnp.minimum(first_s + np.int32(blocks.key), np.int32(spec.keys)) - np.int32(1)
        whole = jnp.ones((1, self.query_blocks, self.key_blocks), bool)
        plain, touched = whole, whole
        if self.padding[1]:
            plain &= first_s + np.int32(blocks.key) <= np.int32(spec.keys)
        if self.low is not None:
            low = _each_row(self.low)
            plain, touched = plain & (first_s - last_t >= low), touched & (last_s - first_t >= low)
        if self.high is not None:
            high = _each_row(self.high)
            plain, touched = plain & (last_s - first_t <= high), touched & (first_s - last_t <= high)
        for length, first, last in (
            (self._query_lengths, first_t, last_t),
            (self._key_lengths, first_s, last_s),
        ):
            if length is not None:
                plain, touched = plain & (last < _each_row(length)), touched & (first < _each_row(length))
        if self._segments is not None:
            (least_t, most_t), (least_s, most_s) = (
                (blocked.min(-1), blocked.max(-1))
                for blocked in (
                    self._segments[0].reshape(spec.batch, self.query_blocks, 1, blocks.query),
                    self._segments[1].reshape(spec.batch, 1, self.key_blocks, blocks.key),
                )
            )
            plain &= (least_t == most_t) & (least_s == most_s) & (least_t == least_s)
            touched &= (least_t <= most_s) & (least_s <= most_t)
        if plain.shape[0] > 1:
            rows = (self.batch_chunks, blocks.batch, self.query_blocks, self.key_blocks)
            plain, touched = plain.reshape(rows).all(1), jnp.broadcast_to(touched, plain.shape).reshape(rows).any(1)
        return plain & touched, touched

    def visit(
        self,
        walk: Walk,
        chunk: Index,
        outer: Index,
        step: Callable[[Index, bool, State], State],
        state: State,
    ) -> State:
        """Go through the tiles of an outer block.

        Parameters
        ----------
        walk
            Of `walk`.
        chunk, outer
            The chunk and the outer block.
        step
            Takes the inner block, whether the tile is masked, and the state; returns the state.
        state
            What the first step gets.
        """
        if walk.inner == 1:
            return step(0, self.has_masked, state)
        order, plain, touched = walk.order, walk.plain, walk.touched
        if order is not None:
            row = split(chunk, self.head_chunks)[0] if order.shape[0] > 1 else 0
            order, plain, touched = (x[row, outer] for x in (order, plain, touched))  # type: ignore[index]

        def body(masked: bool) -> Callable[[jax.Array, State], State]:
            return lambda n, state: step(n if order is None else order[n], masked, state)

        state = lax.fori_loop(np.int32(0), plain, body(False), state)
        if self.has_masked:
            state = lax.fori_loop(plain, touched, body(True), state)
        return state

    # --- what of a tile ---

    def keep(
        self,
        chunk: Index,
        i: Index,
        j: Index,
        axes: str,
        *,
        masked: bool,
        bias: jax.Array | None = None,
        existing: bool = False,
    ) -> jax.Array | None:
        """Return which keys the queries of a tile see.

        Parameters
        ----------
        chunk, i, j
            The chunk, the query block and the key block.
        axes
            The order of the axes of the tile, ``"bkgts"`` or another.
        masked
            Whether the tile is masked.
        bias
            What `bias` returned, where the caller has it.
        existing
            Whether queries that are padding see nothing; nobody reads their results, so most callers do not care.

        Returns
        -------
        Array or None
            Bool of five axes, those of the tile or 1; None where nothing is hidden.
        """
        seen = self._positions(chunk, i, j, axes, existing) if masked else []
        if self._mask is not None:
            seen.append(self._slice(self._mask, *self.chunk_start(chunk), i, j, axes))
        bias = self.bias(chunk, i, j, axes) if bias is None else bias
        if bias is not None:
            seen.append(lax.ne(bias, lax.full_like(bias, -np.inf)))
        keep: jax.Array | None = None
        for condition in seen:
            keep = condition if keep is None else keep & condition
        return keep

    def _positions(self, chunk: Index, i: Index, j: Index, axes: str, existing: bool) -> list[jax.Array]:
        """Return what positions say of a tile, of five axes each."""
        spec, blocks = self.spec, self.blocks
        row, _ = self.chunk_start(chunk)
        t = place(lax.iota(np.int32, blocks.query) + i * blocks.query, "t", axes)
        s = place(lax.iota(np.int32, blocks.key) + j * blocks.key, "s", axes)

        def rows(x: jax.Array | int) -> jax.Array | np.int32:
            if isinstance(x, int):
                return np.int32(x)
            return place(lax.dynamic_slice(x.astype(np.int32), _starts(row), (blocks.batch,)), "b", axes)

        seen = []
        if self.low is not None:
            seen.append(s - t >= rows(self.low))
        if self.high is not None:
            seen.append(s - t <= rows(self.high))
        if self._query_lengths is not None:
            seen.append(t < rows(self._query_lengths))
        if existing and self.padding[0]:
            seen.append(t < np.int32(spec.queries))
        if self._key_lengths is not None:
            seen.append(s < rows(self._key_lengths))
        if self.padding[1]:
            seen.append(s < np.int32(spec.keys))
        if self._segments is not None:
            own, other = self._segments
            own = lax.dynamic_slice(own, _starts(row, i * blocks.query), (blocks.batch, blocks.query))
            other = lax.dynamic_slice(other, _starts(row, j * blocks.key), (blocks.batch, blocks.key))
            seen.append(place(own, "bt", axes) == place(other, "bs", axes))
        return seen

    def bias(self, chunk: Index, i: Index, j: Index, axes: str) -> jax.Array | None:
        """Return what is added to the scores of a tile, of five axes, those of the tile or 1."""
        if self._bias is None:
            return None
        return self._slice(self._bias, *self.chunk_start(chunk), i, j, axes).astype(self.spec.accumulator)

    def zeros_like_bias(self) -> jax.Array:
        """Return what the gradient of the bias is added to."""
        assert self._bias is not None
        return jnp.zeros(self._bias.shape, self.spec.accumulator)

    def add_bias(self, total: jax.Array, tile: jax.Array, chunk: Index, i: Index, j: Index, axes: str) -> jax.Array:
        """Add the gradient of a tile of scores to that of the bias, summed where the bias has one for all."""
        shared = [at for at, axis in enumerate(axes) if total.shape["bkgts".index(axis)] == 1]
        tile = jnp.sum(tile, shared, keepdims=True)
        tile = lax.transpose(tile, [axes.index(axis) for axis in "bkgts"])
        start = self.tile_start(total.shape, *self.chunk_start(chunk), i, j)
        return lax.dynamic_update_slice(total, lax.dynamic_slice(total, start, tile.shape) + tile, start)

    def as_bias(self, total: jax.Array) -> jax.Array:
        """Return the gradient of the bias in the bias's own shape and dtype."""
        spec = self.spec
        assert spec.bias is not None and spec.bias_dtype is not None
        whole = total[:, :, :, : spec.bias[2], : spec.bias[3]]
        return whole.reshape(spec.bias).astype(spec.bias_dtype)

    def sinks(self, sinks: jax.Array | None, chunk: Index) -> jax.Array | None:
        """Return the sinks of the heads of a chunk, of the axes bkgt."""
        if sinks is None:
            return None
        sinks = sinks.astype(self.spec.accumulator).reshape(self.spec.key_heads, self.spec.group)
        sinks = lax.dynamic_slice(sinks, _starts(self.chunk_start(chunk)[1], 0), (self.blocks.heads, self.spec.group))
        return place(sinks, "kg", "bkgt")

    def chunk_start(self, chunk: Index) -> tuple[Index, Index]:
        """Return the first row of the batch and the first key head of a chunk."""
        row, head = split(chunk, self.head_chunks)
        return row * self.blocks.batch, head * self.blocks.heads

    def tile_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a tile of an operand like the scores, axes bkgts."""
        blocks = self.blocks
        sizes = (blocks.batch, blocks.heads, self.spec.group, blocks.query, blocks.key)
        return tuple(1 if whole == 1 else size for whole, size in zip(shape, sizes, strict=True))

    def tile_start(
        self, shape: tuple[int, ...], row: Index, head: Index, i: Index, j: Index
    ) -> tuple[jax.Array | np.int32, ...]:
        """Return where that tile starts."""
        starts = (row, head, 0, i * self.blocks.query, j * self.blocks.key)
        return _starts(*(0 if whole == 1 else start for whole, start in zip(shape, starts, strict=True)))

    def _slice(self, x: jax.Array, row: Index, head: Index, i: Index, j: Index, axes: str) -> jax.Array:
        tile = lax.dynamic_slice(x, self.tile_start(x.shape, row, head, i, j), self.tile_of(x.shape))
        # Read once: a slice that is part of each pass over a tile takes three times as long on processors.
        whole: jax.Array = lax.optimization_barrier(place(tile, "bkgts", axes))
        return whole


def place(x: jax.Array, names: str, axes: str) -> jax.Array:
    """Return `x`, whose axes have these names, with all the axes of a tile in their order, 1 where it has none."""
    order = [names.index(axis) for axis in axes if axis in names]
    x = lax.transpose(x, order)
    return lax.expand_dims(x, [at for at, axis in enumerate(axes) if axis not in names])


def split(number: Index, by: int) -> tuple[Index, Index]:
    """Return the quotient and the rest of a number that is not negative."""
    if isinstance(number, int):
        return divmod(number, by)
    return lax.div(number, np.int32(by)), lax.rem(number, np.int32(by))


def _starts(*starts: Index) -> tuple[jax.Array | np.int32, ...]:
    return tuple(np.int32(start) if isinstance(start, int) else start for start in starts)


def _each_row(x: jax.Array | int) -> jax.Array | np.int32:
    return np.int32(x) if isinstance(x, int) else x.astype(np.int32).reshape(-1, 1, 1)


def _extended(segments: jax.Array, rest: int) -> jax.Array:
    return jnp.pad(segments, ((0, 0), (0, rest)), mode="edge") if rest else segments
