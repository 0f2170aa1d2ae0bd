"""How the Triton kernels of attention see their operands: one tile of queries against one tile of keys.

A program gets each operand whole and reads tiles of it. Axes of sequences and head sizes are seen padded to what a
tile needs; what lies past the end of an array reads as 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from .. import _triton as triton
from .spec import AttentionSpec, Operands

__all__ = [
    "LOG2_E",
    "Head",
    "Spans",
    "View",
    "least",
    "named_operands",
    "run_spans",
    "seen_any",
    "seen_whole",
    "tile_bounds",
]

LOG2_E = math.log2(math.e)

Carry = TypeVar("Carry")
Number = jax.Array | int
Operand = tuple[jax.Array, pl.BlockSpec]


@dataclass(frozen=True, slots=True)
class Head:
    """One query head of one batch entry, as a program sees it.

    Attributes
    ----------
    batch, query, key
        Indices on the axes of the batch, of the query heads and of the key heads.
    offset
        Query t has its diagonal at key ``t + offset``.
    queries, keys
        Ends of the queries and of the keys that there are.
    """

    batch: jax.Array
    query: jax.Array
    key: jax.Array
    offset: Number
    queries: Number
    keys: Number


@dataclass(frozen=True, slots=True)
class Spans:
    """Which tiles of a row (or column) of tiles are touched, and which of them lie wholly inside the window.

    Tiles ``[first, last)`` are touched; those of ``[plain_first, plain_last)`` need no look at positions.
    """

    first: Number
    plain_first: Number
    plain_last: Number
    last: Number


@dataclass(frozen=True, slots=True)
class View:
    """The operands of a kernel, tile by tile.

    Attributes
    ----------
    spec
        The call.
    refs
        References to the operands by the names of `Operands`, and to what a kernel adds.
    rows, columns
        Queries and keys of a tile.
    """

    spec: AttentionSpec
    refs: Mapping[str, jax.Array]
    rows: int
    columns: int

    @property
    def looks(self) -> bool:
        """Whether visibility depends on more than positions: on segments, a mask or a bias."""
        return self.spec.segments or self.spec.mask is not None or self.spec.bias is not None

    def head(self, batch: jax.Array, query: jax.Array) -> Head:
        """Return the query head `query` of the batch entry `batch`."""
        spec = self.spec
        key = query if spec.group == 1 else lax.div(query, np.int32(spec.group))
        return Head(
            batch,
            query,
            key,
            self.number("q_offset", batch) if "q_offset" in self.refs else spec.q_offset or 0,
            self._length("query_lengths", batch, spec.queries),
            self._length("key_lengths", batch, spec.keys),
        )

    def number(self, name: str, *index: jax.Array) -> jax.Array:
        """Return one number of an operand."""
        return triton.load(self.refs[name].at[index])

    def _length(self, name: str, batch: jax.Array, size: int) -> Number:
        if name not in self.refs:
            return size
        return lax.min(lax.max(self.number(name, batch), np.int32(0)), np.int32(size))

    def row_matrix(self, name: str, head: Head, start: jax.Array) -> jax.Array:
        """Return the tile ``(rows, H)`` of queries, or of what has their shape, from query `start` on.

        Queries past the end of their sequence read as 0.
        """
        limit = head.queries if self.spec.queries % self.rows or self.spec.query_lengths else None
        return self._matrix(name, head.batch, head.query, start, self.rows, None, limit)

    def column_matrix(self, name: str, head: Head, start: jax.Array, seen: tuple[Number, Number] | None) -> jax.Array:
        """Return the tile ``(columns, H)`` of keys or values from key `start` on; 0 but for keys in ``[*seen)``."""
        low, high = (None, None) if seen is None else seen
        return self._matrix(name, head.batch, head.key, start, self.columns, low, high)

    def _matrix(
        self,
        name: str,
        batch: jax.Array,
        head: jax.Array,
        start: jax.Array,
        count: int,
        low: Number | None,
        high: Number | None,
    ) -> jax.Array:
        ref = self.refs[name]
        at = pl.ds(start, count)
        tile = ref.at[batch, at, head, :] if self.spec.layout == "BTNH" else ref.at[batch, head, at, :]
        positions = start + lax.iota(np.int32, count)
        seen: list[jax.Array] = []
        if low is not None:
            seen.append((positions >= low)[:, None])
        if high is not None:
            seen.append((positions < high)[:, None])
        size = self.spec.size if name in ("query", "key") else self.spec.value_size
        if size != ref.shape[-1]:
            seen.append((lax.iota(np.int32, ref.shape[-1]) < size)[None, :])
        x = triton.load(tile, mask=_all(seen, (count, ref.shape[-1])))
        # Eight bits save memory, not products: each of their values is one of bfloat16.
        return x.astype(jnp.bfloat16) if x.dtype.itemsize == 1 else x

    def write(
        self, name: str, batch: jax.Array, head: jax.Array, start: jax.Array, x: jax.Array, size: int, length: int
    ) -> None:
        """Write the tile `x` from position `start` on, of an array of `length` positions and `size` features."""
        ref = self.refs[name]
        at = pl.ds(start, x.shape[0])
        tile = ref.at[batch, at, head, :] if self.spec.layout == "BTNH" else ref.at[batch, head, at, :]
        kept: list[jax.Array] = []
        if length % x.shape[0]:
            kept.append((start + lax.iota(np.int32, x.shape[0]) < length)[:, None])
        if size != x.shape[1]:
            kept.append((lax.iota(np.int32, x.shape[1]) < size)[None, :])
        triton.store(tile, x.astype(ref.dtype), mask=_all(kept, (x.shape[0], x.shape[1])))

    def row(self, name: str, head: Head, start: jax.Array, *, other: float = 0.0) -> jax.Array:
        """Return the numbers ``(rows,)`` of a statistic ``(B, N, T)`` from query `start` on, `other` past the end."""
        inside = self._inside(start, self.rows, self.spec.queries)
        at = self.refs[name].at[head.batch, head.query, pl.ds(start, self.rows)]
        return triton.load(at, mask=inside, other=other)

    def write_row(self, name: str, head: Head, start: jax.Array, x: jax.Array) -> None:
        """Write the numbers ``(rows,)`` of a statistic ``(B, N, T)`` from query `start` on."""
        inside = self._inside(start, self.rows, self.spec.queries)
        triton.store(self.refs[name].at[head.batch, head.query, pl.ds(start, self.rows)], x, mask=inside)

    def pair(
        self, name: str, shape: tuple[int, int, int, int], head: Head, t: jax.Array, s: jax.Array, across: bool
    ) -> jax.Array:
        """Return the tile of a mask or bias for queries from `t` and keys from `s` on, to broadcast to a tile.

        A tile is ``(rows, columns)``, or ``(columns, rows)`` where `across`.
        """
        spec = self.spec
        # Not a Python number: masked loads do not take one as an index.
        zero = head.batch - head.batch
        lead = (head.batch if shape[0] > 1 else zero, head.query if shape[1] > 1 else zero)
        sides = [(t, self.rows, spec.queries), (s, self.columns, spec.keys)]
        index: list[object] = []
        seen: list[jax.Array] = []
        extent: list[int] = []
        for (start, count, _), given in zip(sides, shape[2:], strict=True):
            index.append(pl.ds(start, count) if given > 1 else zero)
            if given > 1:
                extent.append(count)
        for axis, ((start, count, size), given) in enumerate(zip(sides, shape[2:], strict=True)):
            inside = self._inside(start, count, size) if given > 1 else None
            if inside is not None:
                seen.append(inside if len(extent) == 1 else inside[:, None] if axis == 0 else inside[None, :])
        x = triton.load(self.refs[name].at[(*lead, *index)], mask=_all(seen, tuple(extent)))
        if shape[2] > 1 and shape[3] > 1:
            return x.T if across else x
        if shape[2] == 1 and shape[3] == 1:
            return x.reshape(1, 1)
        return x[None, :] if (shape[2] == 1) != across else x[:, None]

    def _inside(self, start: jax.Array, count: int, size: int) -> jax.Array | None:
        return start + lax.iota(np.int32, count) < size if size % count else None

    def keep(self, head: Head, t: jax.Array, s: jax.Array, positions: bool, across: bool) -> jax.Array | None:
        """Return which keys from `s` on the queries from `t` on see; None for all.

        `positions` says whether to look at positions; segments, mask and bias are always looked at. The tile is as
        `pair` says.
        """
        spec = self.spec
        shape = (self.columns, self.rows) if across else (self.rows, self.columns)
        seen: list[jax.Array] = []

        def sides(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
            return (x[None, :], y[:, None]) if across else (x[:, None], y[None, :])

        at, to = sides(t + lax.iota(np.int32, self.rows), s + lax.iota(np.int32, self.columns))
        if (self.looks or (across and positions)) and (spec.query_lengths or spec.queries % self.rows):
            # Queries that are not there see nothing, so that a key is hidden if only they would see it.
            seen.append(at < head.queries)
        if positions:
            left, right = spec.window
            if left is not None:
                seen.append(to >= at + (head.offset - left))
            if right is not None:
                seen.append(to <= at + (head.offset + right))
            if spec.key_lengths or spec.keys % self.columns:
                seen.append(to < head.keys)
        if spec.segments:
            own = triton.load(
                self.refs["segment_ids"].at[head.batch, pl.ds(t, self.rows)],
                mask=self._inside(t, self.rows, spec.queries),
            )
            other = triton.load(
                self.refs["key_segment_ids"].at[head.batch, pl.ds(s, self.columns)],
                mask=self._inside(s, self.columns, spec.keys),
            )
            own, other = sides(own, other)
            seen.append(own == other)
        if spec.mask is not None:
            seen.append(self.pair("mask", spec.mask, head, t, s, across))
        if spec.bias is not None:
            seen.append(self.bias(head, t, s, across) != -jnp.inf)
        return _all(seen, shape)

    def scored(
        self, products: jax.Array, head: Head, t: jax.Array, s: jax.Array, across: bool
    ) -> tuple[jax.Array, jax.Array | None]:
        """Return the scores of a tile from its products, and the slope that `softcap` gives them, or None."""
        spec = self.spec
        slope = None
        if spec.softcap is None:
            scores = products * spec.scale
        else:
            bound = lax.tanh(products * (spec.scale / spec.softcap))
            scores, slope = bound * spec.softcap, 1.0 - bound * bound
        if spec.bias is not None:
            scores = scores + self.bias(head, t, s, across)
        return scores, slope

    def bias(self, head: Head, t: jax.Array, s: jax.Array, across: bool) -> jax.Array:
        """Return the tile of the bias in float32, to broadcast, as `pair` says."""
        assert self.spec.bias is not None
        return self.pair("bias", self.spec.bias, head, t, s, across).astype(np.float32)

    def spans_of_row(self, head: Head, index: jax.Array) -> Spans:
        """Return which tiles of keys the tile `index` of queries touches."""
        left, right = self.spec.window
        start = index * self.rows
        end = least(start + self.rows, head.queries)
        low, high = self.keys_seen(head, start, end)
        plain_low: Number = 0 if left is None else end - 1 + head.offset - left
        plain_high = head.keys
        if right is not None:
            plain_high = least(start + head.offset + right + 1, plain_high)
        high = _if_any(start, end, high) if self.spec.query_lengths else high
        return self._spans(low, high, plain_low, plain_high, self.columns, ("row", head.batch, index))

    def keys_seen(self, head: Head, start: jax.Array, end: Number) -> tuple[Number, Number]:
        """Return the range of keys outside of which queries of ``[start, end)`` see nothing, by position."""
        left, right = self.spec.window
        low: Number = 0
        high = head.keys
        if left is not None:
            low = _most(start + head.offset - left, 0)
        if right is not None:
            high = least(end + head.offset + right, high)
        return low, high

    def spans_of_column(self, head: Head, index: jax.Array) -> Spans:
        """Return which tiles of queries the tile `index` of keys is touched by."""
        left, right = self.spec.window
        start = index * self.columns
        end = least(start + self.columns, head.keys)
        low: Number = 0
        plain_low: Number = 0
        high = head.queries
        # Queries past the end read as 0 and weigh nothing, so that their tile needs no look at positions.
        plain_high: Number = triton.blocks_of(self.spec.queries, self.rows) * self.rows
        if right is not None:
            low = _most(start - head.offset - right, 0)
            plain_low = end - 1 - head.offset - right
        if left is not None:
            high = least(end - head.offset + left, high)
            plain_high = least(start - head.offset + left + 1, plain_high)
        high = _if_any(start, end, high) if self.spec.key_lengths else high
        return self._spans(low, high, plain_low, plain_high, self.rows, ("column", head.batch, index))

    def _spans(
        self,
        low: Number,
        high: Number,
        plain_low: Number,
        plain_high: Number,
        count: int,
        tile: tuple[str, jax.Array, jax.Array],
    ) -> Spans:
        first = _below(low, count)
        last = _if_any(low, high, _below(_most(high, 0) + (count - 1), count))
        side, batch, index = tile
        if f"{side}_first" in self.refs:
            first = _most(self.number(f"{side}_first", batch, index), first)
            last = least(self.number(f"{side}_last", batch, index), last)
        last = _most(last, first)
        plain_first = least(_most(_below(_most(plain_low, 0) + (count - 1), count), first), last)
        plain_last = least(_most(_below(_most(plain_high, 0), count), plain_first), last)
        return Spans(first, plain_first, plain_last, last)

    def rows_that_see(self, head: Head, start: jax.Array) -> jax.Array:
        """Return which queries from `start` on see a key, by position."""
        left, right = self.spec.window
        t = start + lax.iota(np.int32, self.rows)
        low = _most(t + (head.offset - left), 0) if left is not None else 0
        high = least(t + (head.offset + right + 1), head.keys) if right is not None else head.keys
        return (t < head.queries) & (low < high)


def run_spans(view: View, spans: Spans, body: Callable[[jax.Array, Carry, bool], Carry], carry: Carry) -> Carry:
    """Run `body` over the tiles of `spans`, in order; its last argument says whether to look at positions."""
    left, right = view.spec.window
    # A loop that has nothing to do is not compiled: each holds the whole body.
    head = left is not None or right is not None
    if not head and not view.spec.key_lengths and view.spec.keys % view.columns == 0:
        bounds: list[tuple[Number, Number, bool]] = [(spans.first, spans.last, False)]
    else:
        bounds = [
            *([(spans.first, spans.plain_first, True)] if head else []),
            (spans.plain_first, spans.plain_last, False),
            (spans.plain_last, spans.last, True),
        ]
    for low, high, positions in bounds:

        def step(index: jax.Array, carry: Carry, positions: bool = positions) -> Carry:
            return body(index, carry, positions)

        carry = lax.fori_loop(_number(low), _number(high), step, carry)
    return carry


def _most(x: Number, y: Number) -> Number:
    """Return the larger, of int32; a number of the program stays one."""
    if isinstance(x, int):
        return max(x, y) if isinstance(y, int) else _most(y, x)
    return lax.max(x, jnp.broadcast_to(np.int32(y) if isinstance(y, int) else y, x.shape))


def least(x: Number, y: Number) -> Number:
    """Return the smaller, as `_most` the larger."""
    if isinstance(x, int):
        return min(x, y) if isinstance(y, int) else least(y, x)
    return lax.min(x, jnp.broadcast_to(np.int32(y) if isinstance(y, int) else y, x.shape))


def _if_any(start: Number, end: Number, x: Number) -> Number:
    """Return `x`, or 0 where ``[start, end)`` is empty."""
    traced = end if isinstance(start, int) else start
    if isinstance(traced, int):
        return x if start < end else 0
    # A sum, so that Triton never chooses between two constants, which it gives the wrong type.
    return jnp.where(start < end, x + (traced - traced), 0)


def _number(x: Number) -> jax.Array | np.int32:
    return np.int32(x) if isinstance(x, int) else x


def _below(x: Number, count: int) -> Number:
    """Return the quotient of what is not negative, rounded down."""
    return x // count if isinstance(x, int) else lax.div(x, np.int32(count))


def _all(seen: Sequence[jax.Array], shape: tuple[int, ...]) -> jax.Array | None:
    """Return where all are True, of this shape; None for everywhere."""
    found: jax.Array | None = None
    for x in seen:
        found = x if found is None else found & x
    return None if found is None else jnp.broadcast_to(found, shape)


def seen_any(keep: jax.Array, axis: int) -> jax.Array:
    """Return where a tile of booleans has a True along `axis`."""
    return jnp.max(keep.astype(np.int32), axis=axis) > 0


def named_operands(spec: AttentionSpec, operands: Operands, rows: int, columns: int) -> dict[str, Operand]:
    """Return the operands that there are, by name, each with how a kernel sees it."""
    return {
        name: (x, seen_whole(spec, name, x.shape, rows, columns))
        for name, x in zip(Operands._fields, operands, strict=True)
        if x is not None
    }


def seen_whole(spec: AttentionSpec, name: str, shape: tuple[int, ...], rows: int, columns: int) -> pl.BlockSpec:
    """Return an array as each program sees it: whole, and padded to tiles.

    Parameters
    ----------
    name
        That of the operand whose axes it has: ``"query"``, ``"key"``, ``"value"``, ``"out"``, ``"mask"``, ``"lse"``
        and so on.
    shape
        Of the array.
    rows, columns
        Queries and keys of a tile.
    """
    t = 1 if spec.layout == "BTNH" else 2
    tiles: dict[str, dict[int, int]] = {
        "query": {t: rows},
        "out": {t: rows},
        "key": {t: columns},
        "value": {t: columns},
        "mask": {2: rows, 3: columns},
        "bias": {2: rows, 3: columns},
        "segment_ids": {1: rows},
        "key_segment_ids": {1: columns},
        "lse": {2: rows},
    }
    sizes = list(shape)
    for axis, count in tiles.get(name, {}).items():
        # A mask's axis of 1 is read as one number, not as a tile.
        if len(shape) == 4 and name in ("mask", "bias") and sizes[axis] == 1:
            continue
        sizes[axis] = triton.blocks_of(sizes[axis], count) * count
    if name in ("query", "out", "key", "value"):
        sizes[3] = triton.padded(sizes[3])
    return pl.BlockSpec(tuple(sizes), lambda *_: (0,) * len(sizes))


def tile_bounds(spec: AttentionSpec, operands: Operands, rows: int, columns: int, side: str) -> dict[str, Operand]:
    """Return the first and the last tile that share a segment with each tile of queries (`side` ``"row"``) or keys.

    The rule compares ranges of numbers, so it is exact for packed sequences, and never wrong.
    """
    if operands.segment_ids is None or operands.key_segment_ids is None:
        return {}
    (low, high), (other_low, other_high) = (
        _ranges(x, count) for x, count in ((operands.segment_ids, rows), (operands.key_segment_ids, columns))
    )
    if side == "column":
        low, high, other_low, other_high = other_low, other_high, low, high
    meets = (low[:, :, None] <= other_high[:, None, :]) & (other_low[:, None, :] <= high[:, :, None])
    tiles = lax.broadcasted_iota(np.int32, meets.shape, 2)
    first = jnp.min(jnp.where(meets, tiles, meets.shape[2]), 2)
    last = jnp.max(jnp.where(meets, tiles + 1, 0), 2)
    return {
        name: (x, seen_whole(spec, name, x.shape, rows, columns))
        for name, x in ((f"{side}_first", first), (f"{side}_last", last))
    }


def _ranges(ids: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
    """Return the least and the greatest number of each tile."""
    short = -ids.shape[1] % count
    tiles = jnp.pad(ids, ((0, 0), (0, short)), mode="edge").reshape(ids.shape[0], -1, count)
    return jnp.min(tiles, 2), jnp.max(tiles, 2)
