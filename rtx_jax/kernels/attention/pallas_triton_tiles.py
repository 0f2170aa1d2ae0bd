"""What the Triton kernels of attention read and write: tiles of queries, of keys, and of what lies between them.

What lies past the end of an array reads as 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from .. import _triton as triton
from .pallas_triton_spans import Grid, Head, Number

__all__ = ["LOG2_E", "View", "seen_any"]

LOG2_E = math.log2(math.e)


@dataclass(frozen=True, slots=True)
class View(Grid):
    """The operands of a kernel, tile by tile.

    Attributes
    ----------
    refs
        References to the operands by the names of `Operands`, and to what a kernel adds.
    """

    refs: Mapping[str, jax.Array]

    def bounds(self, side: str, batch: jax.Array, index: jax.Array) -> tuple[jax.Array, jax.Array] | None:
        """Return the first and the last tile that shares a segment with a tile, where there are segments."""
        if f"{side}_first" not in self.refs:
            return None
        return self.number(f"{side}_first", batch, index), self.number(f"{side}_last", batch, index)

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


def _all(seen: Sequence[jax.Array], shape: tuple[int, ...]) -> jax.Array | None:
    """Return where all are True, of this shape; None for everywhere."""
    found: jax.Array | None = None
    for x in seen:
        found = x if found is None else found & x
    return None if found is None else jnp.broadcast_to(found, shape)


def seen_any(keep: jax.Array, axis: int) -> jax.Array:
    """Return where a tile of booleans has a True along `axis`."""
    return jnp.max(keep.astype(np.int32), axis=axis) > 0
