"""Which tiles of scores a program walks over, and where it must look at positions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .. import _triton as triton
from .spec import AttentionSpec

__all__ = ["Grid", "Head", "Number", "Spans", "least", "run_spans"]

Carry = TypeVar("Carry")
Number = jax.Array | int


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
class Grid:
    """The scores of a call in tiles.

    Attributes
    ----------
    spec
        The call.
    rows, columns
        Queries and keys of a tile.
    """

    spec: AttentionSpec
    rows: int
    columns: int

    def bounds(self, side: str, batch: jax.Array, index: jax.Array) -> tuple[jax.Array, jax.Array] | None:
        """Return the first and the last tile that a tile of queries (`side` ``"row"``) or keys meets, if known."""
        del side, batch, index
        return None

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
        bounds = self.bounds(*tile)
        if bounds is not None:
            first, last = _most(bounds[0], first), least(bounds[1], last)
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


def run_spans(grid: Grid, spans: Spans, body: Callable[[jax.Array, Carry, bool], Carry], carry: Carry) -> Carry:
    """Run `body` over the tiles of `spans`, in order; its last argument says whether to look at positions."""
    left, right = grid.spec.window
    # A loop that has nothing to do is not compiled: each holds the whole body.
    head = left is not None or right is not None
    if not head and not grid.spec.key_lengths and grid.spec.keys % grid.columns == 0:
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
