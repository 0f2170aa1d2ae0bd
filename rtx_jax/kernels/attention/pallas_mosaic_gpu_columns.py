"""Weighted sums of the weights that each key gets, on Hopper: what a policy of eviction ranks keys by.

A second pass with the known log-sum-exp: scores with keys as rows, as in the gradient of the keys, and one sum a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .pallas_mosaic_gpu_extras import Extras
from .pallas_mosaic_gpu_tiles import ROWS, Shape, feed, mosaic, release, swizzled

__all__ = ["column_sums"]

_COMPUTING = 2


def column_sums(shape: Shape, operands: Mapping[str, jax.Array]) -> jax.Array:
    """Return ``sum_t counts[t] * P[t, s]`` for each key, ``(B, N, S)`` padded.

    `operands` are those of the gradient of the keys, with ``"counts"`` ``(B, N, T)`` in the place of ``"delta"``.
    """
    plgpu, spec = mosaic(), shape.spec
    names = tuple(operands)
    tile = _COMPUTING * ROWS
    scratches = _scratch(shape, operands)

    def body(*refs: Any) -> None:
        given = dict(zip(names, refs, strict=False))
        _tile(shape, given, refs[len(names)], dict(zip(scratches, refs[len(names) + 1 :], strict=True)))

    kernel = plgpu.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((spec.batch, spec.heads, shape.keys), np.dtype(np.float32)),
        scratch_types=list(scratches.values()),
        grid=(spec.batch, spec.heads, shape.keys // tile),
        grid_names=("batch", "head", "tile"),
        num_threads=_COMPUTING + 1,
        thread_name="warpgroup",
        kernel_name="attention_column_sums",
        compiler_params=plgpu.CompilerParams(approx_math=True),
        interpret=plgpu.InterpretGPUParams() if shape.interpret else None,
    )
    sums: jax.Array = kernel(*operands.values())
    return sums


def _scratch(shape: Shape, operands: Mapping[str, jax.Array]) -> dict[str, Any]:
    plgpu, turns = mosaic(), shape.stages
    scratch: dict[str, Any] = {
        "key": swizzled((_COMPUTING, ROWS, shape.size), shape.dtype),
        "query": swizzled((turns, shape.block_q, shape.size), shape.dtype),
        "lse": plgpu.SMEM((turns, shape.block_q), jnp.float32),
        "counts": plgpu.SMEM((turns, shape.block_q), jnp.float32),
        "sums": plgpu.SMEM((_COMPUTING, ROWS), jnp.float32),
        "key is there": plgpu.Barrier(num_barriers=_COMPUTING),
        "query is used": plgpu.Barrier(num_arrivals=_COMPUTING, num_barriers=turns),
    }
    extras, copies = Extras(shape, transposed=True).scratch(operands, _COMPUTING * ROWS, shape.block_q)
    scratch |= extras
    scratch["query is there"] = plgpu.Barrier(num_arrivals=3 + copies, num_barriers=turns)
    return scratch


def _tile(shape: Shape, given: Mapping[str, Any], out: Any, scratch: Mapping[str, Any]) -> None:
    """Sum over the queries for 128 keys of one query head."""
    import jax.experimental.pallas as pl

    plgpu, spec, block_q = mosaic(), shape.spec, shape.block_q
    batch, head, at, warpgroup = (lax.axis_index(name) for name in ("batch", "head", "tile", "warpgroup"))
    column = at * np.int32(_COMPUTING * ROWS)
    offset, length = shape.diagonal(given, batch)
    queries = given["query_lengths"][batch] if spec.query_lengths else spec.queries
    bounds = shape.touched_queries(column, _COMPUTING * ROWS, offset, length, queries)
    first = bounds[0]
    extras = Extras(shape, transposed=True)

    @pl.when(warpgroup == _COMPUTING)
    def _copy() -> None:
        plgpu.set_max_registers(24, action="decrease")

        def bring(step: Any, place: Any) -> None:
            row = (first + step) * np.int32(block_q)
            there = scratch["query is there"].at[place]
            plgpu.copy_gmem_to_smem(
                shape.rows(given["query"], batch, row, block_q, head), scratch["query"].at[place], there
            )
            for name in ("lse", "counts"):
                numbers = given[name].at[batch, head, pl.ds(row, block_q)]
                plgpu.copy_gmem_to_smem(numbers, scratch[name].at[place], there)
            rows, columns = (column, _COMPUTING * ROWS), (row, block_q)
            extras.bring(given, scratch, there, place, batch, head, rows, columns)

        feed(shape, shape.queries // block_q, bounds[3] - first, [(bring, scratch["query is used"])])

    @pl.when(warpgroup < _COMPUTING)
    def _compute() -> None:
        plgpu.set_max_registers(240, action="increase")
        per_column = plgpu.Layout.WGMMA.reduce(0)
        mine = warpgroup * np.int32(ROWS)
        key, tile, keys = scratch["key"].at[warpgroup], (ROWS, block_q), pl.ds(column + mine, ROWS)
        key_head = lax.div(head, np.int32(spec.group))
        there = scratch["key is there"].at[warpgroup]
        plgpu.copy_gmem_to_smem(shape.rows(given["key"], batch, column + mine, ROWS, key_head), key, there)
        held = extras.held(given, batch, head, keys)
        plgpu.barrier_wait(there)

        def step(block: Any, total: Any, edge: bool) -> Any:
            place = lax.rem(block - first, np.int32(shape.stages))
            plgpu.barrier_wait(scratch["query is there"].at[place])

            def products(ref: Any) -> Any:
                plgpu.wgmma(ref, key, scratch["query"].at[place].transpose((1, 0)))
                return ref[...]

            s = pl.run_scoped(products, plgpu.ACC(tile, jnp.float32))
            hiding = extras.tile(scratch, held, place, mine, tile)
            row = block * np.int32(block_q)
            s, _ = shape.scores(s, row, column + mine, offset, length, edge=edge, query_axis=1, **hiding)
            lse, counts = (plgpu.load(scratch[name].at[place], layout=per_column) for name in ("lse", "counts"))
            release(shape, scratch["query is used"].at[place])
            p = jnp.exp2(s - lax.broadcast_in_dim(lse, tile, [1]))
            return total + (p * lax.broadcast_in_dim(counts, tile, [1])).sum(axis=1)

        zero = plgpu.layout_cast(jnp.zeros((ROWS,), jnp.float32), plgpu.Layout.WGMMA.reduce(1))
        scratch["sums"].at[warpgroup][...] = shape.loop(bounds, step, zero)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(scratch["sums"].at[warpgroup], out.at[batch, head, keys])
        plgpu.wait_smem_to_gmem(0)
