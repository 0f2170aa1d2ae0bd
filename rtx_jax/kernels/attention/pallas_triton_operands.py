"""How the Triton kernels of attention are given their operands: each whole, and padded to tiles."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from .. import _triton as triton
from .spec import AttentionSpec, Operands

__all__ = ["Operand", "named_operands", "seen_whole", "tile_bounds"]

Operand = tuple[jax.Array, pl.BlockSpec]


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
