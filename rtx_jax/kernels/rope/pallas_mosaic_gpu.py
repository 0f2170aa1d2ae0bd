"""The rotation on Hopper: one pass over the array, the tables of a tile held in registers for all heads.

One warpgroup takes a tile of positions and goes over the heads; a ring of copies brings the next ones and takes the
turned ones away. The two channels of a pair come as two copies, so both lie alike in the registers. Pairs of
neighbouring bfloat16 channels come as one integer of 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._hopper import PROCESSORS, THREADS, mosaic, rows_layout, unsupported_target
from ..target import Target
from .shape import TurnShape

__all__ = ["NAME", "turn", "unsupported"]

NAME = "pallas_mosaic_gpu"

_RING = 4
# Pairs of a tile: 16 in each thread, of two channels and two tables.
_TILE = 2048
_COPIED, _COPIED_BYTES = 256, 16  # most elements along an axis of a copy, and the least bytes of a line


def unsupported(shape: TurnShape | None, dtype: np.dtype, layout: str, target: Target) -> list[str]:
    """Return why a call cannot run here; nothing where it can."""
    reasons = unsupported_target(target, dtype)
    if layout == "interleaved" and dtype.name != "bfloat16":
        reasons.append(f"interleaved pairs are read as one number, which bfloat16 fits, not {dtype.name}")
    if shape is None:
        return [*reasons, "the axes that the tables have lie in more than two places"]
    sizes = _parts(shape, layout)
    itemsize = 4 if layout == "interleaved" else dtype.itemsize
    if any(size > _COPIED or size * itemsize % _COPIED_BYTES for size in sizes):
        reasons.append(f"parts of {' and '.join(map(str, sizes))} channels are no lines that the copies take")
    elif _tile(shape, layout) is None:
        reasons.append(f"{shape.rows} rows of {shape.pairs} pairs do not divide into tiles for {THREADS} threads")
    return reasons


def _parts(shape: TurnShape, layout: str) -> tuple[int, ...]:
    """Return the widths of what is copied by itself: both channels of the pairs, and what does not turn."""
    rest = shape.channels - 2 * shape.pairs
    if layout == "interleaved":
        return (shape.pairs, rest // 2) if rest else (shape.pairs,)
    return (shape.pairs, shape.pairs, rest) if rest else (shape.pairs, shape.pairs)


def _tile(shape: TurnShape, layout: str) -> int | None:
    """Return how many rows a tile has."""
    widths = _parts(shape, layout)

    def fits(rows: int) -> bool:
        return shape.rows % rows == 0 and all(rows * width % THREADS == 0 for width in widths)

    most = min(_TILE // shape.pairs, _COPIED, shape.rows)
    return next((rows for rows in range(most, 0, -1) if fits(rows)), None)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The shape, rows of a tile, widths of the parts, turns of one program, and programs of a tile."""

    shape: TurnShape
    layout: str
    tile: int
    parts: tuple[int, ...]
    each: int
    splits: int

    @property
    def turns(self) -> int:
        """How many heads, in all repeats, a tile's tables serve."""
        return self.shape.repeats * self.shape.heads

    @property
    def starts(self) -> tuple[int, ...]:
        """Where each part begins."""
        return tuple(sum(self.parts[:i]) for i in range(len(self.parts)))


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
    """Return `x` turned; see `xla.turn`.

    XLA places the result where it likes, in the memory of `x` too if that is given away: `aliased` changes nothing.
    """
    del aliased
    tile = _tile(shape, layout)
    assert tile is not None
    tiles = shape.outer * shape.rows // tile
    turns = shape.repeats * shape.heads
    # Enough programs for all multiprocessors, but a few turns for each table.
    splits = min(max(-(-PROCESSORS * 8 // tiles), 1), max(turns // 4, 1))
    each = -(-turns // splits)
    plan = _Plan(shape, layout, tile, _parts(shape, layout), each, -(-turns // each))
    flat = x.reshape(shape.outer * shape.repeats, shape.rows, shape.heads, shape.channels)
    if layout == "interleaved":
        pairs = flat.reshape(*flat.shape[:-1], shape.channels // 2, 2)
        flat = lax.bitcast_convert_type(pairs, np.uint32)
    tables = (t.astype(jnp.float32).reshape(shape.outer, shape.rows, shape.pairs) for t in (cos, sin))
    out = _kernel(plan, flat.shape, flat.dtype, interpret)(flat, *tables)
    if layout == "interleaved":
        out = lax.bitcast_convert_type(out, x.dtype)
    return out.reshape(x.shape)


def _kernel(plan: _Plan, shape: tuple[int, ...], dtype: np.dtype, interpret: bool) -> Callable[..., jax.Array]:
    plgpu = mosaic()
    n = len(plan.parts)
    pieces = [plgpu.SMEM((_RING, plan.tile, width), dtype) for width in plan.parts]

    def body(x: Any, cos: Any, sin: Any, out: Any, *scratch: Any) -> None:
        _Tile(plan, x, out, (cos, sin), scratch[:n], scratch[n : 2 * n], scratch[-1]).run()

    return plgpu.kernel(  # type: ignore[no-any-return]
        body,
        out_type=jax.ShapeDtypeStruct(shape, dtype),
        scratch_types=[*pieces, *pieces, plgpu.Barrier(num_arrivals=n, num_barriers=_RING)],
        grid=(plan.shape.outer, plan.shape.rows // plan.tile, plan.splits),
        grid_names=("outer", "tile", "split"),
        num_threads=1,
        thread_name="warpgroup",
        kernel_name="rope",
        interpret=plgpu.InterpretGPUParams() if interpret else None,
    )


@dataclass(frozen=True)
class _Tile:
    """Some heads of one tile of rows: references to operand, result, tables and scratch memory."""

    plan: _Plan
    x: Any
    out: Any
    tables: tuple[Any, Any]
    come: tuple[Any, ...]
    go: tuple[Any, ...]
    there: Any

    def run(self) -> None:
        """Go over the heads."""
        import jax.experimental.pallas as pl

        plgpu, plan = mosaic(), self.plan
        outer, tile, split = (lax.axis_index(name) for name in ("outer", "tile", "split"))
        row = tile * np.int32(plan.tile)
        first = split * np.int32(plan.each)
        count = jnp.minimum(np.int32(plan.turns) - first, np.int32(plan.each))

        def bring(i: Any) -> None:
            place = lax.rem(i, np.int32(_RING))
            for number, part in enumerate(self.come):
                source = self.part(self.x, outer, row, first + i, number)
                plgpu.copy_gmem_to_smem(source, part.at[place], self.there.at[place])

        for i in range(min(_RING, plan.each)):

            @pl.when(i < count)
            def _(i: int = i) -> None:
                bring(np.int32(i))

        layout = rows_layout((plan.tile, plan.shape.pairs))
        cos, sin = (plgpu.load(t.at[outer, pl.ds(row, plan.tile)], layout=layout) for t in self.tables)

        def step(i: Any, nothing: None) -> None:
            place = lax.rem(i, np.int32(_RING))
            plgpu.barrier_wait(self.there.at[place])
            # What was written from this place before has left it.
            plgpu.wait_smem_to_gmem(_RING - 1, wait_read_only=True)
            self.one(place, cos, sin)
            plgpu.commit_smem()
            for number, part in enumerate(self.go):
                target = self.part(self.out, outer, row, first + i, number)
                plgpu.copy_smem_to_gmem(part.at[place], target, commit_group=number == len(self.go) - 1)

            @pl.when(i + np.int32(_RING) < count)
            def _() -> None:
                bring(i + np.int32(_RING))

        lax.fori_loop(np.int32(0), count, step, None)
        plgpu.wait_smem_to_gmem(0)

    def part(self, array: Any, outer: Any, row: Any, turn: Any, number: int) -> Any:
        """Return one part of a head's rows."""
        import jax.experimental.pallas as pl

        plan = self.plan
        repeat, head = lax.div(turn, np.int32(plan.shape.heads)), lax.rem(turn, np.int32(plan.shape.heads))
        start, width = plan.starts[number], plan.parts[number]
        leading = outer * np.int32(plan.shape.repeats) + repeat
        return array.at[leading, pl.ds(row, plan.tile), head, start : start + width]

    def load(self, number: int, place: Any) -> jax.Array:
        """Return a part that has come."""
        layout = rows_layout((self.plan.tile, self.plan.parts[number]))
        found: jax.Array = mosaic().load(self.come[number].at[place], layout=layout)
        return found

    def one(self, place: Any, cos: jax.Array, sin: jax.Array) -> None:
        """Turn the rows of one head."""
        if self.plan.layout == "half":
            first, second = (self.load(i, place).astype(jnp.float32) for i in (0, 1))
            self.go[0][place] = (first * cos - second * sin).astype(self.go[0].dtype)
            self.go[1][place] = (second * cos + first * sin).astype(self.go[1].dtype)
            turned = 2
        else:
            both = self.load(0, place)
            first = lax.bitcast_convert_type(both << np.uint32(16), jnp.float32)
            second = lax.bitcast_convert_type(both & np.uint32(0xFFFF0000), jnp.float32)
            low, high = _rounded(first * cos - second * sin), _rounded(second * cos + first * sin)
            self.go[0][place] = (low >> np.uint32(16)) | (high & np.uint32(0xFFFF0000))
            turned = 1
        if len(self.go) > turned:
            self.go[turned][place] = self.load(turned, place)


def _rounded(x: jax.Array) -> jax.Array:
    """Return the bits of float32 values of which the upper 16 are those of the nearest bfloat16."""
    bits = lax.bitcast_convert_type(x, jnp.uint32)
    even = (bits >> np.uint32(16)) & np.uint32(1)
    return jnp.where(x == x, bits + even + np.uint32(0x7FFF), np.uint32(0x7FC00000))
