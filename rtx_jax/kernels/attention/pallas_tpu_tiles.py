"""Lists of the tiles that a TPU kernel visits: which are hidden, whole, or need a mask.

A tile is a block of queries by a block of keys. The kernels walk over a list in scalar memory, so that a hidden tile
is neither fetched nor computed. Where only static numbers decide (causal, window, a static offset), the list is a
constant of the program; lengths, segments, masks and traced offsets make it on the device, from one number for each
block or, for a mask, one reading of it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .spec import AttentionSpec, Operands

__all__ = ["HIDDEN", "MASKED", "PLAIN", "TileList", "list_tiles", "may_be_empty", "row_numbers", "tile_kinds"]

HIDDEN, MASKED, PLAIN = 0, 1, 2
"""Nothing is seen; some of it is; every query sees every key."""

FAR = 1 << 29
"""Beyond every position, with room for sums in int32."""

_MINOR_BITS = 14
_KIND_BITS = 2
MAJOR_SHIFT = _MINOR_BITS + _KIND_BITS
MINOR_MASK = (1 << _MINOR_BITS) - 1
KIND_MASK = (1 << _KIND_BITS) - 1
MAX_MINOR = 1 << _MINOR_BITS
MAX_MAJOR = 1 << 15

type_Table = np.ndarray | jax.Array


class TileList(NamedTuple):
    """Tiles to visit, in order, for each of some groups of rows of the batch and key heads.

    Attributes
    ----------
    codes
        int32, groups by length, flat: ``major << 16 | minor << 2 | kind``. Each major block occurs at least once, if
        need be as a hidden tile, so that its result is written.
    counts
        int32, how many of the codes of each group are to be visited.
    length
        Codes of each group.
    batch, heads
        Groups along the batch (B or 1) and along the key heads (K or 1).
    """

    codes: type_Table
    counts: type_Table
    length: int
    batch: int
    heads: int

    @property
    def steps(self) -> int | jax.Array:
        """How far the longest list goes: the grid of a kernel."""
        return int(self.counts.max()) if isinstance(self.counts, np.ndarray) else jnp.max(self.counts)


def may_be_empty(spec: AttentionSpec) -> bool:
    """Whether some query may see no key, as far as the specification tells."""
    if spec.mask or spec.bias or spec.segments or spec.query_lengths or spec.key_lengths:
        return True
    left, right = spec.window
    if spec.q_offset is None:
        return left is not None or right is not None
    first, last = spec.q_offset, spec.q_offset + spec.queries - 1
    return (right is not None and first + right < 0) or (left is not None and last - left > spec.keys - 1)


def row_numbers(spec: AttentionSpec, operands: Operands) -> jax.Array:
    """Return offset, number of queries and number of keys of each row of the batch, int32 ``(3 * B,)``."""
    b = spec.batch

    def row(given: jax.Array | None, value: int, low: int, high: int) -> jax.Array:
        x = jnp.full((b,), value, jnp.int32) if given is None else given.astype(jnp.int32)
        return jnp.clip(x, low, high)

    offset = row(operands.q_offset if spec.q_offset is None else None, spec.q_offset or 0, -FAR, FAR)
    queries = row(operands.query_lengths if spec.query_lengths else None, spec.queries, 0, spec.queries)
    keys = row(operands.key_lengths if spec.key_lengths else None, spec.keys, 0, spec.keys)
    return jnp.concatenate([offset, queries, keys])


def tile_kinds(spec: AttentionSpec, operands: Operands, block_q: int, block_k: int) -> type_Table:
    """Return the kind of each tile, int32 ``(B or 1, K or 1, query blocks, key blocks)``; NumPy where it is static."""
    t0 = np.arange(0, spec.queries, block_q, dtype=np.int32).reshape(1, 1, -1, 1)
    s0 = np.arange(0, spec.keys, block_k, dtype=np.int32).reshape(1, 1, 1, -1)
    t1 = np.minimum(t0 + block_q, spec.queries) - 1
    s1 = np.minimum(s0 + block_k, spec.keys) - 1
    touched: type_Table = np.ones((1, 1, t0.size, s0.size), bool)
    plain: type_Table = (t0 + block_q <= spec.queries) & (s0 + block_k <= spec.keys)

    left, right = (None if side is None else min(side, FAR) for side in spec.window)
    if left is not None or right is not None:
        offset: int | jax.Array
        if spec.q_offset is None and operands.q_offset is not None:
            offset = _column(jnp.clip(operands.q_offset.astype(jnp.int32), -FAR, FAR))
        else:
            offset = int(np.clip(spec.q_offset or 0, -FAR, FAR))
        if right is not None:
            touched = touched & (s0 <= t1 + offset + right)
            plain = plain & (s1 <= t0 + offset + right)
        if left is not None:
            touched = touched & (s1 >= t0 + offset - left)
            plain = plain & (s0 >= t1 + offset - left)
    for given, wanted, low, high in (
        (operands.query_lengths, spec.query_lengths, t0, t1),
        (operands.key_lengths, spec.key_lengths, s0, s1),
    ):
        if wanted and given is not None:
            length = _column(given.astype(jnp.int32))
            touched = touched & (low < length)
            plain = plain & (high < length)
    if spec.segments and operands.segment_ids is not None and operands.key_segment_ids is not None:
        q_low, q_high = (x[:, None, :, None] for x in _extremes(operands.segment_ids, block_q))
        k_low, k_high = (x[:, None, None, :] for x in _extremes(operands.key_segment_ids, block_k))
        touched = touched & (q_low <= k_high) & (k_low <= q_high)
        plain = plain & (q_low == q_high) & (k_low == k_high) & (q_low == k_low)
    if spec.mask and operands.mask is not None:
        some, every = _mask_tiles(operands.mask, spec, block_q, block_k)
        touched = touched & some
        plain = plain & every
    if spec.bias:
        plain = plain & np.zeros((), bool)  # Minus infinity hides.
    where = np.where if isinstance(touched, np.ndarray) and isinstance(plain, np.ndarray) else jnp.where
    kinds = where(touched, where(plain, PLAIN, MASKED), HIDDEN)
    return kinds.astype(np.int32)


def list_tiles(kinds: type_Table, *, by_keys: bool) -> TileList:
    """Return the tiles that are not hidden, query block after query block or, if `by_keys`, key block after key block.

    Within a block the others come in ascending order.
    """
    if by_keys:
        kinds = kinds.swapaxes(2, 3)
    groups_b, groups_k, majors, minors = kinds.shape
    codes = (np.arange(majors, dtype=np.int32)[:, None] << MAJOR_SHIFT) | (
        np.arange(minors, dtype=np.int32)[None, :] << _KIND_BITS
    )
    codes = codes.reshape(1, 1, majors, minors)
    first = (np.arange(minors) == 0).reshape(1, 1, 1, minors)
    if isinstance(kinds, np.ndarray):
        wanted = (kinds != HIDDEN) | (first & (kinds == HIDDEN).all(-1, keepdims=True))
        rows = [
            (codes[0, 0] | kind)[keep]
            for kind, keep in zip(kinds.reshape(-1, majors, minors), wanted.reshape(-1, majors, minors), strict=True)
        ]
        length = max(len(row) for row in rows)
        flat = np.concatenate([np.pad(row, (0, length - len(row)), mode="edge") for row in rows])
        return TileList(flat, np.array([len(row) for row in rows], np.int32), length, groups_b, groups_k)
    length = majors * minors
    wanted_now = (kinds != HIDDEN) | (first & jnp.all(kinds == HIDDEN, -1, keepdims=True))
    far = np.int32(np.iinfo(np.int32).max)
    chosen = jnp.where(wanted_now, codes | kinds, far).reshape(groups_b * groups_k, length)
    counts = jnp.sum(chosen != far, axis=1, dtype=jnp.int32)
    # The codes ascend, so sorting moves those to visit to the front in their order.
    return TileList(jnp.sort(chosen, axis=1).reshape(-1), counts, length, groups_b, groups_k)


def _column(x: jax.Array) -> jax.Array:
    return x.reshape(-1, 1, 1, 1)


def _extremes(ids: jax.Array, block: int) -> tuple[jax.Array, jax.Array]:
    """Return the least and the greatest of each block, ``(B, blocks)``."""
    padded = jnp.pad(ids.astype(jnp.int32), ((0, 0), (0, -ids.shape[1] % block)), mode="edge")
    blocks = padded.reshape(ids.shape[0], -1, block)
    return jnp.min(blocks, -1), jnp.max(blocks, -1)


def _mask_tiles(mask: jax.Array, spec: AttentionSpec, block_q: int, block_k: int) -> tuple[jax.Array, jax.Array]:
    """Return whether something and whether everything is seen, ``(B or 1, K or 1, blocks or 1, blocks or 1)``."""
    b, n, t, s = mask.shape
    heads, group = (1, 1) if n == 1 else (spec.key_heads, spec.group)
    sizes = [(t, 1 if t == 1 else block_q), (s, 1 if s == 1 else block_k)]
    pads = ((0, 0), (0, 0), *((0, -size % block) for size, block in sizes))

    def blocks(fill: bool) -> jax.Array:
        x = jnp.pad(mask, pads, constant_values=fill)
        return x.reshape(b, heads, group, -1, sizes[0][1], x.shape[3] // sizes[1][1], sizes[1][1])

    return jnp.any(blocks(False), (2, 4, 6)), jnp.all(blocks(True), (2, 4, 6))
