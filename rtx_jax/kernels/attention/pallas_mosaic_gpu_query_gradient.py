"""The gradient of the queries on Hopper, and of a bias that has more than one query.

Two warpgroups hold 64 queries each with their cotangents, the sums and the log-sum-exp; keys and values come through
a ring, as in the forward pass, and the weights are formed again.
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

__all__ = ["query_gradient"]

_COMPUTING = 2


def query_gradient(
    shape: Shape, operands: Mapping[str, jax.Array], *, bias: jax.ShapeDtypeStruct | None = None
) -> tuple[jax.Array, ...]:
    """Return the gradient of the queries and, where asked for, of the scores after the softcap.

    Parameters
    ----------
    shape
        The sizes; `block_k` keys a step.
    operands
        Those of the forward pass by name, with ``"d_out"``, ``"lse"`` in units of log2 and plus infinity of an empty
        row, and ``"delta"``, all padded.
    bias
        ``(B, N, T, S)`` for the gradient of each score, ``(B, N, T)`` for its sum over the keys, in a dtype.
    """
    plgpu, spec = mosaic(), shape.spec
    names = tuple(operands)
    tile = _COMPUTING * ROWS
    query = operands["query"]
    results = [jax.ShapeDtypeStruct(query.shape, query.dtype), *([] if bias is None else [bias])]
    scratches = _scratch(shape, operands, bias)

    def body(*refs: Any) -> None:
        given = dict(zip(names, refs, strict=False))
        outs, scratch = refs[len(names) : len(names) + len(results)], refs[len(names) + len(results) :]
        _Tile(shape, given, outs, dict(zip(scratches, scratch, strict=True))).run()

    kernel = plgpu.kernel(
        body,
        out_type=results,
        scratch_types=list(scratches.values()),
        grid=(spec.batch, spec.heads, shape.queries // tile),
        grid_names=("batch", "head", "tile"),
        num_threads=_COMPUTING + 1,
        thread_name="warpgroup",
        kernel_name="attention_query_gradient",
        compiler_params=plgpu.CompilerParams(approx_math=True),
        interpret=plgpu.InterpretGPUParams() if shape.interpret else None,
    )
    return tuple(kernel(*operands.values()))


def _scratch(shape: Shape, operands: Mapping[str, jax.Array], bias: jax.ShapeDtypeStruct | None) -> dict[str, Any]:
    plgpu = mosaic()
    turns, widest = shape.stages, shape.block_k * shape.dtype.itemsize
    scratch: dict[str, Any] = {
        "query": swizzled((_COMPUTING, ROWS, shape.size), shape.dtype, widest),
        "d_out": swizzled((_COMPUTING, ROWS, shape.value_size), shape.dtype, widest),
        "key": swizzled((turns, shape.block_k, shape.size), shape.dtype, widest),
        "value": swizzled((turns, shape.block_k, shape.value_size), shape.dtype, widest),
        "rows are there": plgpu.Barrier(num_arrivals=2, num_barriers=_COMPUTING),
        "value is there": plgpu.Barrier(num_barriers=turns),
        "key is used": plgpu.Barrier(num_arrivals=_COMPUTING, num_barriers=turns),
        "value is used": plgpu.Barrier(num_arrivals=_COMPUTING, num_barriers=turns),
    }
    if bias is not None:
        pair = len(bias.shape) == 4
        scratch["d_bias"] = (
            swizzled((_COMPUTING, ROWS, shape.block_k), bias.dtype)
            if pair
            else plgpu.SMEM((_COMPUTING, ROWS), bias.dtype)
        )
    extras, copies = Extras(shape).scratch(operands, _COMPUTING * ROWS, shape.block_k)
    scratch |= extras
    scratch["key is there"] = plgpu.Barrier(num_arrivals=1 + copies, num_barriers=turns)
    return scratch


@dataclass(frozen=True)
class _Tile:
    """128 queries of one head: `given`, `outs` and `scratch` are references by name."""

    shape: Shape
    given: Mapping[str, Any]
    outs: tuple[Any, ...]
    scratch: Mapping[str, Any]

    def run(self) -> None:
        import jax.experimental.pallas as pl

        plgpu, shape, spec = mosaic(), self.shape, self.shape.spec
        batch, head, warpgroup = (lax.axis_index(name) for name in ("batch", "head", "warpgroup"))
        at = lax.axis_index("tile")
        at = (shape.queries // (_COMPUTING * ROWS) - 1) - at if spec.causal else at
        row = at * np.int32(_COMPUTING * ROWS)

        # Each role finds the bounds for itself: what lives from before the roles part takes registers of them all.
        def bounds() -> tuple[Any, ...]:
            found = shape.touched_keys(row, _COMPUTING * ROWS, *shape.diagonal(self.given, batch))
            if "first_block" not in self.given:
                return found
            return within(found, self.given["first_block"][batch, at], self.given["last_block"][batch, at])

        @pl.when(warpgroup < _COMPUTING)
        def _compute() -> None:
            plgpu.set_max_registers(240, action="increase")
            self.compute(bounds(), batch, head, warpgroup, row, *shape.diagonal(self.given, batch))

        @pl.when(warpgroup == _COMPUTING)
        def _copy() -> None:
            plgpu.set_max_registers(24, action="decrease")
            self.copy(bounds(), batch, head, row)

    def copy(self, bounds: tuple[Any, ...], batch: Any, head: Any, row: Any) -> None:
        """Bring keys and values."""
        plgpu, shape, scratch = mosaic(), self.shape, self.scratch
        key_head = lax.div(head, np.int32(shape.spec.group))
        first, block = bounds[0], shape.block_k

        def bring_key(step: Any, place: Any) -> None:
            column = (first + step) * np.int32(block)
            there = scratch["key is there"].at[place]
            source = shape.rows(self.given["key"], batch, column, block, key_head)
            plgpu.copy_gmem_to_smem(source, scratch["key"].at[place], there)
            rows, columns = (row, _COMPUTING * ROWS), (column, block)
            Extras(shape).bring(self.given, scratch, there, place, batch, head, rows, columns)

        def bring_value(step: Any, place: Any) -> None:
            column = (first + step) * np.int32(block)
            source = shape.rows(self.given["value"], batch, column, block, key_head)
            plgpu.copy_gmem_to_smem(source, scratch["value"].at[place], scratch["value is there"].at[place])

        parts = [(bring_key, scratch["key is used"]), (bring_value, scratch["value is used"])]
        feed(shape, shape.keys // block, bounds[3] - first, parts)

    def compute(
        self, bounds: tuple[Any, ...], batch: Any, head: Any, warpgroup: Any, tile_row: Any, offset: Any, length: Any
    ) -> None:
        """Compute the gradients of one warpgroup's 64 queries."""
        import jax.experimental.pallas as pl

        plgpu, shape, scratch, given = mosaic(), self.shape, self.scratch, self.given
        per_row = plgpu.Layout.WGMMA.reduce(1)
        mine = warpgroup * np.int32(ROWS)
        row, tile, first = tile_row + mine, (ROWS, shape.block_k), bounds[0]
        there = scratch["rows are there"].at[warpgroup]
        query, d_out = scratch["query"].at[warpgroup], scratch["d_out"].at[warpgroup]
        plgpu.copy_gmem_to_smem(shape.rows(given["query"], batch, row, ROWS, head), query, there)
        plgpu.copy_gmem_to_smem(shape.rows(given["d_out"], batch, row, ROWS, head), d_out, there)
        at = pl.ds(row, ROWS)
        lse, delta = (
            plgpu.load(given[name].at[batch, head, at], layout=per_row, optimized=False) for name in ("lse", "delta")
        )
        extras = Extras(shape)
        held = extras.held(given, batch, head, at)
        d_bias: Any = self.outs[1] if len(self.outs) > 1 else None
        pairs = d_bias is not None and len(d_bias.shape) == 4
        plgpu.barrier_wait(there)

        def write_pairs(value: Any, column: Any) -> None:
            plgpu.wait_smem_to_gmem(0, wait_read_only=True)
            scratch["d_bias"].at[warpgroup][...] = value.astype(d_bias.dtype)
            plgpu.commit_smem()
            target = d_bias.at[batch, head, at, pl.ds(column, shape.block_k)]
            plgpu.copy_smem_to_gmem(scratch["d_bias"].at[warpgroup], target)

        def step(block: Any, carry: tuple[Any, ...], edge: bool) -> tuple[Any, ...]:
            d_query, *d_rows = carry
            place = lax.rem(block - first, np.int32(shape.stages))
            column = block * np.int32(shape.block_k)
            plgpu.barrier_wait(scratch["key is there"].at[place])
            plgpu.barrier_wait(scratch["value is there"].at[place])
            key, value = scratch["key"].at[place], scratch["value"].at[place]

            def products(scores: Any, weights: Any) -> tuple[Any, Any]:
                plgpu.wgmma(scores, query, key.transpose((1, 0)))
                plgpu.wgmma(weights, d_out, value.transpose((1, 0)))
                return scores[...], weights[...]

            s, d_p = pl.run_scoped(products, plgpu.ACC(tile, jnp.float32), plgpu.ACC(tile, jnp.float32))
            release(shape, scratch["value is used"].at[place])
            hiding = extras.tile(scratch, held, place, mine, tile)
            s, tanh = shape.scores(s, row, column, offset, length, edge=edge, **hiding)
            p = jnp.exp2(s - lax.broadcast_in_dim(lse, tile, [0]))
            d_s = p * (d_p - lax.broadcast_in_dim(delta, tile, [0]))
            if pairs:
                # Beside a NaN that the query sees, what is hidden from it has no gradient still.
                write_pairs(jnp.where(s == -np.float32(np.inf), np.float32(0), d_s), column)
            elif d_bias is not None:
                d_rows = [d_rows[0] + d_s.sum(axis=1)]
            if tanh is not None:
                d_s = d_s * (1 - tanh * tanh)
            (d_query,) = accumulate(shape, [(d_query, d_s.astype(shape.dtype), key)])
            release(shape, scratch["key is used"].at[place])
            return (d_query, *d_rows)

        zero = plgpu.layout_cast(jnp.zeros((ROWS, shape.size), jnp.float32), plgpu.Layout.WGMMA)
        start = [zero]
        if d_bias is not None and not pairs:
            start.append(plgpu.layout_cast(jnp.zeros((ROWS,), jnp.float32), per_row))
        if pairs:
            # Blocks that no query of the tile sees have gradients too: 0.
            nothing = plgpu.layout_cast(jnp.zeros(tile, jnp.float32), plgpu.Layout.WGMMA)

            def clear(block: Any, _: None) -> None:
                write_pairs(nothing, block * np.int32(shape.block_k))

            run_loop(0, first, clear, None)
            run_loop(bounds[3], shape.keys // shape.block_k, clear, None)
        d_query, *d_rows = shape.loop(bounds, step, tuple(start))
        query[...] = (d_query * np.float32(shape.spec.scale)).astype(shape.dtype)
        if d_rows:
            scratch["d_bias"].at[warpgroup][...] = d_rows[0]
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(query, shape.rows(self.outs[0], batch, row, ROWS, head))
        if d_rows:
            plgpu.copy_smem_to_gmem(scratch["d_bias"].at[warpgroup], d_bias.at[batch, head, at])
        plgpu.wait_smem_to_gmem(0)
