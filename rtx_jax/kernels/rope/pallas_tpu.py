"""The rotation on TPU: one pass over the array, tables fetched once for all that share them.

The partner of each channel comes from a rotation of the lanes, so no half of a register is moved by itself. Channels
of less than 128 lie beside those of the next heads.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..target import Target
from .shape import TurnShape

__all__ = ["NAME", "turn", "unsupported"]

NAME = "pallas_tpu"

_LANES = 128
# Bytes of one block in float32; several of them, and the two blocks that are on their way, fit a core's memory.
_BLOCK_BYTES = 1 << 20


def unsupported(shape: TurnShape | None, dtype: np.dtype, target: Target) -> list[str]:
    """Return why a call cannot run here; nothing where it can."""
    reasons = []
    if target.platform != "tpu":
        reasons.append(f"it runs on TPU, not on {target.platform or 'several platforms'}")
    if dtype.itemsize == 8:
        reasons.append("TPU has no float64")
    elif dtype.name not in ("float32", "bfloat16"):
        reasons.append(f"it takes float32 and bfloat16, not {dtype.name}")
    if shape is None:
        reasons.append("the axes that the tables have lie in more than two places")
    elif _lanes(shape) is None:
        reasons.append(f"channels in registers of {_LANES} lanes: {shape.heads} x {shape.channels} is no multiple")
    return reasons


def _lanes(shape: TurnShape) -> int | None:
    """Return how many values lie beside each other in a row of a block."""
    if shape.channels % _LANES == 0:
        return shape.channels
    beside = shape.channels * shape.heads
    return beside if beside % _LANES == 0 and _LANES % math.gcd(shape.channels, _LANES) == 0 else None


@dataclass(frozen=True, slots=True)
class _Block:
    """Rows of a block, lanes, and the static facts of the rotation."""

    rows: int
    lanes: int
    channels: int
    pairs: int
    layout: str
    tables: int


def turn(
    x: jax.Array,
    cos: jax.Array,
    sin: jax.Array,
    *,
    layout: str,
    shape: TurnShape,
    aliased: bool = False,
    interpret: bool = False,
) -> jax.Array:
    """Return `x` turned; see `xla.turn`. `aliased` writes into the memory of `x`."""
    import jax.experimental.pallas as pl
    import jax.experimental.pallas.tpu as pltpu

    lanes = _lanes(shape)
    assert lanes is not None
    beside = lanes // shape.channels
    heads = shape.heads // beside
    # Tables of whole registers: the same for each head that lies in one.
    copies = min(math.lcm(shape.channels, _LANES) // shape.channels, beside)
    table = functools.partial(_whole, shape=shape, layout=layout, copies=copies)
    both = table(cos, 1.0, 1.0), table(sin, 0.0, -1.0)
    rows = max(_BLOCK_BYTES // (4 * lanes * heads) // 16 * 16, 16)
    rows = min(rows, shape.rows)
    block = _Block(rows, lanes, shape.channels, shape.pairs, layout, both[0].shape[-1])
    flat = x.reshape(shape.outer, shape.repeats, shape.rows, heads, lanes)
    if heads == 1:
        flat = flat.reshape(shape.outer, shape.repeats, shape.rows, lanes)
    tail = (0,) * (flat.ndim - 3)
    of_x = pl.BlockSpec((None, None, rows, *flat.shape[3:]), lambda a, c, b: (a, b, c, *tail))
    of_table = pl.BlockSpec((None, rows, block.tables), lambda a, c, b: (a, c, 0))
    kernel = pl.pallas_call(
        functools.partial(_body, block=block, roll=pltpu.roll),
        out_shape=jax.ShapeDtypeStruct(flat.shape, x.dtype),
        # The repeats come last, so that a block of the tables stays for all of them.
        grid=(shape.outer, pl.cdiv(shape.rows, rows), shape.repeats),
        in_specs=[of_x, of_table, of_table],
        out_specs=of_x,
        input_output_aliases={0: 0} if aliased else {},
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
        cost_estimate=pl.CostEstimate(
            flops=4 * x.size, transcendentals=0, bytes_accessed=2 * x.nbytes + 2 * both[0].nbytes
        ),
        interpret=interpret,
        name="rope",
    )
    out: jax.Array = kernel(flat, *both)
    return out.reshape(x.shape)


def _whole(table: jax.Array, rest: float, first: float, *, shape: TurnShape, layout: str, copies: int) -> jax.Array:
    """Return a table with a column for each lane of a register: `first` times that of a pair's first channel.

    `rest` is that of channels that do not turn.
    """
    own = table.astype(jnp.float32).reshape(shape.outer, shape.rows, shape.pairs)
    sides = [own * np.float32(first), own]
    turned = jnp.concatenate(sides, -1) if layout == "half" else jnp.stack(sides, -1).reshape(*own.shape[:2], -1)
    left = shape.channels - 2 * shape.pairs
    padded = jnp.pad(turned, ((0, 0), (0, 0), (0, left)), constant_values=rest)
    return jnp.tile(padded, (1, 1, copies))


def _body(x_ref: Any, cos_ref: Any, sin_ref: Any, out_ref: Any, *, block: _Block, roll: Any) -> None:
    x = x_ref[...].astype(jnp.float32)
    axis = x.ndim - 1
    place = lax.broadcasted_iota(jnp.int32, x.shape, axis) % block.channels
    shift = block.pairs if block.layout == "half" else 1
    is_first = place < block.pairs if block.layout == "half" else place % 2 == 0
    partner = jnp.where(is_first, roll(x, block.lanes - shift, axis), roll(x, shift, axis))
    cos, sin = (_beside(ref[...], x, block) for ref in (cos_ref, sin_ref))
    turned = x * cos + partner * sin
    if 2 * block.pairs < block.channels:
        turned = jnp.where(place < 2 * block.pairs, turned, x)
    out_ref[...] = turned.astype(out_ref.dtype)


def _beside(table: jax.Array, x: jax.Array, block: _Block) -> jax.Array:
    """Return a block of a table with its rows beside those of all heads."""
    wide = jnp.concatenate([table] * (block.lanes // block.tables), -1) if block.lanes > block.tables else table
    return wide if x.ndim == 2 else jnp.broadcast_to(wide[:, None, :], x.shape)
