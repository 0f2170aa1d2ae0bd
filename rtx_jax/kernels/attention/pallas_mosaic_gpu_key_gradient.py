"""The gradients of keys and values on Hopper, and of a bias that is one for all queries.

Warpgroups hold keys and values; queries and their cotangents come through a ring, for all query heads of the key
head one after another, so that nothing is added up outside. The scores are formed with keys as rows: weights and
their gradients then are left operands of the products as they stand. Where heads are so wide that one warpgroup's
registers cannot hold both sums, one warpgroup makes the gradient of the values and the other that of the keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .pallas_mosaic_gpu_extras import Extras
from .pallas_mosaic_gpu_tiles import ROWS, Shape, accumulate, feed, mosaic, release, run_loop, swizzled, within

__all__ = ["key_gradient", "key_tile"]

_COMPUTING = 2
_WIDEST_SHARED = 128


def key_tile(shape: Shape) -> int:
    """Return how many keys one block of the grid holds."""
    return ROWS if _is_split(shape) else _COMPUTING * ROWS


def _is_split(shape: Shape) -> bool:
    return max(shape.size, shape.value_size) > _WIDEST_SHARED


def key_gradient(shape: Shape, operands: Mapping[str, jax.Array], *, bias: bool = False) -> tuple[jax.Array, ...]:
    """Return the gradients of keys and values and, where asked for, ``(B, N, S)`` of a bias, its sum over the queries.

    Parameters
    ----------
    shape
        The sizes; `block_q` queries a step.
    operands
        As for the gradient of the queries, but with the axes T and S of mask and bias exchanged where they are tiles.
    bias
        Whether the gradient of a bias that is one for all queries is wanted.
    """
    plgpu, spec = mosaic(), shape.spec
    names = tuple(operands)
    results = [jax.ShapeDtypeStruct(operands[name].shape, operands[name].dtype) for name in ("key", "value")]
    if bias:
        results.append(jax.ShapeDtypeStruct((spec.batch, spec.heads, shape.keys), np.dtype(np.float32)))
    scratches = _scratch(shape, operands, bias)

    def body(*refs: Any) -> None:
        given = dict(zip(names, refs, strict=False))
        outs, scratch = refs[len(names) : len(names) + len(results)], refs[len(names) + len(results) :]
        _Tile(shape, given, outs, dict(zip(scratches, scratch, strict=True))).run()

    kernel = plgpu.kernel(
        body,
        out_type=results,
        scratch_types=list(scratches.values()),
        grid=(spec.batch, spec.key_heads, shape.keys // key_tile(shape)),
        grid_names=("batch", "key_head", "tile"),
        num_threads=_COMPUTING + 1,
        thread_name="warpgroup",
        kernel_name="attention_key_gradient",
        compiler_params=plgpu.CompilerParams(approx_math=True),
        interpret=plgpu.InterpretGPUParams() if shape.interpret else None,
    )
    return tuple(kernel(*operands.values()))


def _scratch(shape: Shape, operands: Mapping[str, jax.Array], bias: bool) -> dict[str, Any]:
    plgpu = mosaic()
    turns, tile, widest = shape.stages, key_tile(shape), shape.block_q * shape.dtype.itemsize
    scratch: dict[str, Any] = {
        "key": swizzled((tile, shape.size), shape.dtype, widest),
        "value": swizzled((tile, shape.value_size), shape.dtype, widest),
        "query": swizzled((turns, shape.block_q, shape.size), shape.dtype, widest),
        "d_out": swizzled((turns, shape.block_q, shape.value_size), shape.dtype, widest),
        "lse": plgpu.SMEM((turns, shape.block_q), jnp.float32),
        "delta": plgpu.SMEM((turns, shape.block_q), jnp.float32),
        "keys are there": plgpu.Barrier(num_arrivals=2, num_barriers=_COMPUTING),
        "d_out is there": plgpu.Barrier(num_arrivals=2, num_barriers=turns),
        "query is used": plgpu.Barrier(num_arrivals=_COMPUTING, num_barriers=turns),
        "d_out is used": plgpu.Barrier(num_arrivals=_COMPUTING, num_barriers=turns),
        "all is read": plgpu.Barrier(num_arrivals=_COMPUTING),
    }
    if bias:
        scratch["d_bias"] = plgpu.SMEM((_COMPUTING, ROWS), jnp.float32)
    extras, copies = Extras(shape, transposed=True).scratch(operands, tile, shape.block_q)
    scratch |= extras
    scratch["query is there"] = plgpu.Barrier(num_arrivals=2 + copies, num_barriers=turns)
    return scratch


@dataclass(frozen=True)
class _Tile:
    """Some keys of one key head: `given`, `outs` and `scratch` are references by name."""

    shape: Shape
    given: Mapping[str, Any]
    outs: tuple[Any, ...]
    scratch: Mapping[str, Any]

    def run(self) -> None:
        import jax.experimental.pallas as pl

        plgpu, shape, spec, given = mosaic(), self.shape, self.shape.spec, self.given
        batch, key_head, at, warpgroup = (lax.axis_index(name) for name in ("batch", "key_head", "tile", "warpgroup"))
        column = at * np.int32(key_tile(shape))

        # Each role finds the bounds for itself: what lives from before the roles part takes registers of them all.
        def bounds() -> tuple[Any, ...]:
            offset, length = shape.diagonal(given, batch)
            queries = given["query_lengths"][batch] if spec.query_lengths else spec.queries
            found = shape.touched_queries(column, key_tile(shape), offset, length, queries)
            if "first_block" not in given:
                return found
            return within(found, given["first_block"][batch, at], given["last_block"][batch, at])

        def compute(first: Any, *, key_side: bool, value_side: bool) -> None:
            plgpu.set_max_registers(240, action="increase")
            offset, length = shape.diagonal(given, batch)
            rows = _Rows(self, bounds(), batch, key_head, column, first, offset, length)
            rows.compute(warpgroup, key_side=key_side, value_side=value_side)

        if _is_split(shape):
            pl.when(warpgroup == 0)(lambda: compute(0, key_side=False, value_side=True))
            pl.when(warpgroup == 1)(lambda: compute(0, key_side=True, value_side=False))
        else:

            @pl.when(warpgroup < _COMPUTING)
            def _both() -> None:
                compute(warpgroup * np.int32(ROWS), key_side=True, value_side=True)

        @pl.when(warpgroup == _COMPUTING)
        def _copy() -> None:
            plgpu.set_max_registers(24, action="decrease")
            self.copy(bounds(), batch, key_head, column)

    def copy(self, bounds: tuple[Any, ...], batch: Any, key_head: Any, column: Any) -> None:
        """Bring queries and their cotangents, head after head."""
        import jax.experimental.pallas as pl

        plgpu, shape, scratch, given = mosaic(), self.shape, self.scratch, self.given
        first, count, block = bounds[0], bounds[3] - bounds[0], shape.block_q

        def source(step: Any) -> tuple[Any, Any]:
            step, count_ = jnp.int32(step), jnp.int32(count)
            head = key_head * np.int32(shape.spec.group) + lax.div(step, count_)
            return head, (first + lax.rem(step, count_)) * np.int32(block)

        def bring_query(step: Any, place: Any) -> None:
            head, row = source(step)
            there = scratch["query is there"].at[place]
            plgpu.copy_gmem_to_smem(
                shape.rows(given["query"], batch, row, block, head), scratch["query"].at[place], there
            )
            plgpu.copy_gmem_to_smem(given["lse"].at[batch, head, pl.ds(row, block)], scratch["lse"].at[place], there)
            rows, columns = (column, key_tile(shape)), (row, block)
            Extras(shape, transposed=True).bring(given, scratch, there, place, batch, head, rows, columns)

        def bring_d_out(step: Any, place: Any) -> None:
            head, row = source(step)
            there = scratch["d_out is there"].at[place]
            plgpu.copy_gmem_to_smem(
                shape.rows(given["d_out"], batch, row, block, head), scratch["d_out"].at[place], there
            )
            delta = given["delta"].at[batch, head, pl.ds(row, block)]
            plgpu.copy_gmem_to_smem(delta, scratch["delta"].at[place], there)

        parts = [(bring_query, scratch["query is used"]), (bring_d_out, scratch["d_out is used"])]
        group = shape.spec.group
        feed(shape, shape.queries // block * group, count * np.int32(group), parts)


@dataclass(frozen=True)
class _Rows:
    """The 64 keys of one warpgroup, from `first` of the tile at `column`."""

    tile: _Tile
    bounds: tuple[Any, ...]
    batch: Any
    key_head: Any
    column: Any
    first: Any
    offset: Any
    length: Any

    def compute(self, warpgroup: Any, *, key_side: bool, value_side: bool) -> None:
        """Compute the gradients of the keys, of the values, or both."""
        import jax.experimental.pallas as pl

        plgpu, shape, scratch, given = mosaic(), self.tile.shape, self.tile.scratch, self.tile.given
        outs, spec = self.tile.outs, self.tile.shape.spec
        mine = pl.ds(self.first, ROWS)
        key, value = scratch["key"].at[mine], scratch["value"].at[mine]
        column = self.column + self.first
        # Where both warpgroups hold the same keys, each brings one half and waits for both.
        there = scratch["keys are there"].at[warpgroup]
        sources = {name: shape.rows(given[name], self.batch, column, ROWS, self.key_head) for name in ("key", "value")}
        if key_side and value_side:
            plgpu.copy_gmem_to_smem(sources["key"], key, there)
            plgpu.copy_gmem_to_smem(sources["value"], value, there)
            plgpu.barrier_wait(there)
        else:
            name, target = ("key", key) if key_side else ("value", value)
            plgpu.copy_gmem_to_smem(sources[name], target, scratch["keys are there"].at[0])
            plgpu.barrier_wait(scratch["keys are there"].at[0])

        sides = [name for name, wanted in (("key", key_side), ("value", value_side)) if wanted]
        widths = {"key": shape.size, "value": shape.value_size}
        sums = [plgpu.layout_cast(jnp.zeros((ROWS, widths[name]), jnp.float32), plgpu.Layout.WGMMA) for name in sides]
        wants_bias = len(outs) > 2 and key_side
        for_bias = pl.ds(column, ROWS)

        def head(number: Any, carry: tuple[Any, ...]) -> tuple[Any, ...]:
            at = self.key_head * np.int32(spec.group) + number
            held = Extras(shape, transposed=True).held(given, self.batch, at, for_bias)
            zero = plgpu.layout_cast(jnp.zeros((ROWS,), jnp.float32), plgpu.Layout.WGMMA.reduce(1))
            before = number * (self.bounds[3] - self.bounds[0])

            def step(block: Any, carry: tuple[Any, ...], edge: bool) -> tuple[Any, ...]:
                return self.step(block, before, held, carry, key, value, edge=edge, sides=sides)

            start = (*carry, *([zero] if wants_bias else []))
            carry = shape.loop(self.bounds, step, start)
            if not wants_bias:
                return carry
            *sums, d_bias = carry
            plgpu.wait_smem_to_gmem(0, wait_read_only=True)
            scratch["d_bias"].at[warpgroup][...] = d_bias
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(scratch["d_bias"].at[warpgroup], outs[2].at[self.batch, at, for_bias])
            return tuple(sums)

        sums = list(run_loop(0, spec.group, head, tuple(sums)))
        # The results take the places of keys and values, which the other warpgroup may still read.
        plgpu.barrier_arrive(scratch["all is read"])
        plgpu.barrier_wait(scratch["all is read"])
        for name, total in zip(sides, sums, strict=True):
            place, out = (key, outs[0]) if name == "key" else (value, outs[1])
            scaled = total * np.float32(spec.scale) if name == "key" else total
            place[...] = scaled.astype(shape.dtype)
        plgpu.commit_smem()
        for name in sides:
            place, out = (key, outs[0]) if name == "key" else (value, outs[1])
            plgpu.copy_smem_to_gmem(place, shape.rows(out, self.batch, column, ROWS, self.key_head))
        plgpu.wait_smem_to_gmem(0)

    def step(
        self,
        block: Any,
        before: Any,
        held: Mapping[str, Any],
        carry: tuple[Any, ...],
        key: Any,
        value: Any,
        *,
        edge: bool,
        sides: list[str],
    ) -> tuple[Any, ...]:
        """Add what one block of queries gives."""
        import jax.experimental.pallas as pl

        plgpu, shape, scratch = mosaic(), self.tile.shape, self.tile.scratch
        per_column = plgpu.Layout.WGMMA.reduce(0)
        tile = (ROWS, shape.block_q)
        place = lax.rem(before + block - self.bounds[0], np.int32(shape.stages))
        plgpu.barrier_wait(scratch["query is there"].at[place])
        plgpu.barrier_wait(scratch["d_out is there"].at[place])
        query, d_out = scratch["query"].at[place], scratch["d_out"].at[place]
        sums, d_bias = list(carry[: len(sides)]), list(carry[len(sides) :])

        def scores(ref: Any) -> Any:
            plgpu.wgmma(ref, key, query.transpose((1, 0)))
            return ref[...]

        s = pl.run_scoped(scores, plgpu.ACC(tile, jnp.float32))
        hiding = Extras(shape, transposed=True).tile(scratch, held, place, self.first, tile)
        row, column = block * np.int32(shape.block_q), self.column + self.first
        s, tanh = shape.scores(s, row, column, self.offset, self.length, edge=edge, query_axis=1, **hiding)
        lse = plgpu.load(scratch["lse"].at[place], layout=per_column)
        p = jnp.exp2(s - lax.broadcast_in_dim(lse, tile, [1]))
        hides = edge or bool(hiding)
        if hides:
            # A query with a NaN for a log-sum-exp has no weight for what it does not see.
            p = jnp.where(s == -np.float32(np.inf), np.float32(0), p)
        p = p.astype(shape.dtype)
        if "value" in sides:
            p, *_ = lax.optimization_barrier((p, lse))
            (sums[-1],) = accumulate(shape, [(sums[-1], p, d_out)])
        if "key" in sides:

            def weights(ref: Any) -> Any:
                plgpu.wgmma(ref, value, d_out.transpose((1, 0)))
                return ref[...]

            d_p = pl.run_scoped(weights, plgpu.ACC(tile, jnp.float32))
            delta = plgpu.load(scratch["delta"].at[place], layout=per_column)
            wide = p.astype(jnp.float32)
            d_s = wide * (d_p - lax.broadcast_in_dim(delta, tile, [1]))
            d_s = jnp.where(wide == 0, np.float32(0), d_s) if hides else d_s
            d_bias = [d_bias[0] + d_s.sum(axis=1)] if d_bias else []
            if tanh is not None:
                d_s = d_s * (1 - tanh * tanh)
            (sums[0],) = accumulate(shape, [(sums[0], d_s.astype(shape.dtype), query)])
        release(shape, scratch["query is used"].at[place])
        release(shape, scratch["d_out is used"].at[place])
        return (*sums, *d_bias)
