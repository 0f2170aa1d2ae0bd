"""The forward pass on Hopper: two warpgroups compute, a third brings keys and values through a ring.

The scheme of FlashAttention-3 (Shah et al. 2024, sections 3.1 and 3.2): each computing warpgroup holds 64 queries and
their running maximum, sum and result; while one is at its softmax, the other has the tensor cores. Barriers of the
ring say when a block is there and when both have used it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .pallas_mosaic_gpu_extras import Extras
from .pallas_mosaic_gpu_tiles import LOG2E, ROWS, Shape, accumulate, feed, mosaic, release, swizzled, within

__all__ = ["forward_kernel"]

_COMPUTING = 2
"""Warpgroups that compute; one more copies."""


def forward_kernel(shape: Shape, operands: Mapping[str, jax.Array], *, entropy: bool) -> tuple[jax.Array, ...]:
    """Return result, log-sum-exp and, where asked for, ``sum(P * scores)`` of each row, all padded.

    `operands` are those of the specification by name, padded; ``"bias"`` and ``"mask"`` are tiles, rows or columns as
    `shape` says, ``"sinks"`` is in units of log2.
    """
    plgpu, spec = mosaic(), shape.spec
    names = tuple(operands)
    tile = _COMPUTING * ROWS
    layout = (
        (spec.batch, shape.queries, spec.heads) if spec.layout == "BTNH" else (spec.batch, spec.heads, shape.queries)
    )
    row = jax.ShapeDtypeStruct((spec.batch, spec.heads, shape.queries), jnp.float32)
    results = [jax.ShapeDtypeStruct((*layout, shape.value_size), spec.dtype), row, *([row] if entropy else [])]

    def body(*refs: Any) -> None:
        given = dict(zip(names, refs, strict=False))
        outs, scratch = refs[len(names) : len(names) + len(results)], refs[len(names) + len(results) :]
        _tile(shape, given, outs, dict(zip(scratches, scratch, strict=True)))

    scratches = _scratch(shape, operands, len(results) - 1)
    kernel = plgpu.kernel(
        body,
        out_type=results,
        scratch_types=list(scratches.values()),
        grid=(spec.batch, spec.heads, shape.queries // tile),
        grid_names=("batch", "head", "tile"),
        num_threads=_COMPUTING + 1,
        thread_name="warpgroup",
        kernel_name="attention_forward",
        compiler_params=plgpu.CompilerParams(approx_math=True),
        interpret=plgpu.InterpretGPUParams() if shape.interpret else None,
    )
    return tuple(kernel(*operands.values()))


def _scratch(shape: Shape, operands: Mapping[str, jax.Array], rows: int) -> dict[str, Any]:
    plgpu = mosaic()
    turns = shape.stages
    scratch: dict[str, Any] = {
        "query": swizzled((_COMPUTING, ROWS, shape.size), shape.dtype),
        "key": swizzled((turns, shape.block_k, shape.size), shape.dtype),
        "value": swizzled((turns, shape.block_k, shape.value_size), shape.dtype, shape.block_k * shape.dtype.itemsize),
        "rows": plgpu.SMEM((_COMPUTING, rows, ROWS), jnp.float32),
        "query is there": plgpu.Barrier(num_barriers=_COMPUTING),
        "value is there": plgpu.Barrier(num_barriers=turns),
        "key is used": plgpu.Barrier(num_arrivals=_COMPUTING, num_barriers=turns),
        "value is used": plgpu.Barrier(num_arrivals=_COMPUTING, num_barriers=turns),
        "turn": plgpu.Barrier(num_arrivals=_COMPUTING),
    }
    if shape.value_size != shape.size:
        scratch["out"] = swizzled((_COMPUTING, ROWS, shape.value_size), shape.dtype)
    extras, copies = Extras(shape).scratch(operands, _COMPUTING * ROWS, shape.block_k)
    scratch |= extras
    scratch["key is there"] = plgpu.Barrier(num_arrivals=1 + copies, num_barriers=turns)
    return scratch


def _tile(shape: Shape, given: Mapping[str, Any], outs: tuple[Any, ...], scratch: Mapping[str, Any]) -> None:
    """Compute the results of 128 queries of one head."""
    import jax.experimental.pallas as pl

    plgpu, spec = mosaic(), shape.spec
    batch, head, warpgroup = (lax.axis_index(name) for name in ("batch", "head", "warpgroup"))
    # Under a causal mask the last tiles have the most to do, so they start first.
    at = lax.axis_index("tile")
    at = (shape.queries // (_COMPUTING * ROWS) - 1) - at if spec.causal else at
    row = at * np.int32(_COMPUTING * ROWS)

    # Each role finds the bounds for itself: what lives from before the roles part takes registers of them all.
    def bounds() -> tuple[Any, ...]:
        found = shape.touched_keys(row, _COMPUTING * ROWS, *shape.diagonal(given, batch))
        if "first_block" not in given:
            return found
        return within(found, given["first_block"][batch, at], given["last_block"][batch, at])

    @pl.when(warpgroup < _COMPUTING)
    def _compute() -> None:
        plgpu.set_max_registers(232, action="increase")
        _compute_rows(shape, given, outs, scratch, bounds(), batch, head, warpgroup, row)

    @pl.when(warpgroup == _COMPUTING)
    def _copy() -> None:
        plgpu.set_max_registers(40, action="decrease")
        first, _, _, last = bounds()
        _copy_blocks(shape, given, scratch, batch, head, row, first, last - first)


def _copy_blocks(
    shape: Shape,
    given: Mapping[str, Any],
    scratch: Mapping[str, Any],
    batch: Any,
    head: Any,
    row: Any,
    first: Any,
    n: Any,
) -> None:
    """Bring the blocks ``first .. first + n`` of keys and values into the ring, each when its place is free."""
    plgpu, spec = mosaic(), shape.spec
    key_head = lax.div(head, np.int32(spec.group))

    def bring_key(step: Any, slot: Any) -> None:
        column = (first + step) * np.int32(shape.block_k)
        there = scratch["key is there"].at[slot]
        plgpu.copy_gmem_to_smem(
            shape.rows(given["key"], batch, column, shape.block_k, key_head), scratch["key"].at[slot], there
        )
        rows, columns = (row, _COMPUTING * ROWS), (column, shape.block_k)
        Extras(shape).bring(given, scratch, there, slot, batch, head, rows, columns)

    def bring_value(step: Any, slot: Any) -> None:
        column = (first + step) * np.int32(shape.block_k)
        source = shape.rows(given["value"], batch, column, shape.block_k, key_head)
        plgpu.copy_gmem_to_smem(source, scratch["value"].at[slot], scratch["value is there"].at[slot])

    feed(
        shape,
        shape.keys // shape.block_k,
        n,
        [(bring_key, scratch["key is used"]), (bring_value, scratch["value is used"])],
    )


def _compute_rows(
    shape: Shape,
    given: Mapping[str, Any],
    outs: tuple[Any, ...],
    scratch: Mapping[str, Any],
    bounds: tuple[Any, ...],
    batch: Any,
    head: Any,
    warpgroup: Any,
    tile_row: Any,
) -> None:
    """Compute the results of one warpgroup's 64 queries."""
    import jax.experimental.pallas as pl

    plgpu, spec = mosaic(), shape.spec
    per_row = plgpu.Layout.WGMMA.reduce(1)
    row = tile_row + warpgroup * np.int32(ROWS)
    offset, length = shape.diagonal(given, batch)
    queries = given["query_lengths"][batch] if spec.query_lengths else None
    wants_entropy = len(outs) > 2
    query = scratch["query"].at[warpgroup]
    plgpu.copy_gmem_to_smem(
        shape.rows(given["query"], batch, row, ROWS, head), query, scratch["query is there"].at[warpgroup]
    )

    at = pl.ds(row, ROWS)
    extras = Extras(shape)
    held = extras.held(given, batch, head, at)

    def take_turn() -> None:
        plgpu.barrier_arrive(scratch["turn"])
        plgpu.barrier_wait(scratch["turn"])

    def constant(value: float, of: tuple[int, ...]) -> Any:
        layout = plgpu.Layout.WGMMA if len(of) == 2 else per_row
        return plgpu.layout_cast(jnp.full(of, value, jnp.float32), layout)

    tile = (ROWS, shape.block_k)

    plgpu.barrier_wait(scratch["query is there"].at[warpgroup])
    first, last = bounds[0], bounds[3]

    @pl.when(last > first)
    def _() -> None:
        plgpu.barrier_wait(scratch["key is there"].at[0])

    pl.when(warpgroup == 1)(take_turn)

    def step(block: Any, carry: tuple[Any, ...], edge: bool) -> tuple[Any, ...]:
        acc, m, total, *weighted = carry
        slot = lax.rem(block - first, np.int32(shape.stages))

        def products(ref: Any) -> Any:
            plgpu.wgmma(ref, query, scratch["key"].at[slot].transpose((1, 0)))
            take_turn()
            return ref[...]

        s = pl.run_scoped(products, plgpu.ACC(tile, jnp.float32))
        column = block * np.int32(shape.block_k)
        hiding = extras.tile(scratch, held, slot, warpgroup * np.int32(ROWS), tile)
        s, _ = shape.scores(s, row, column, offset, length, edge=edge, **hiding)
        release(shape, scratch["key is used"].at[slot])

        top = jnp.maximum(m, s.max(axis=1))
        # A row that has seen no key yet: minus infinity less itself would be NaN.
        base = jnp.where(top == -np.float32(np.inf), np.float32(0), top)
        alpha = jnp.exp2(m - base)
        p = jnp.exp2(s - lax.broadcast_in_dim(base, tile, [0]))
        if wants_entropy:
            # 0 log 0 is 0.
            terms = jnp.where(p > 0, p * s, np.float32(0))
            weighted = [weighted[0] * alpha + terms.sum(axis=1)]
        acc = acc * lax.broadcast_in_dim(alpha, acc.shape, [0])
        total = total * alpha
        rounded = p.astype(spec.dtype)

        def end_of_softmax() -> None:
            plgpu.barrier_arrive(scratch["turn"])
            plgpu.barrier_wait(scratch["value is there"].at[slot])
            plgpu.barrier_wait(scratch["turn"])

        if shape.value_size <= 128:
            total = total + p.sum(axis=1)
            acc, total, top, rounded = lax.optimization_barrier((acc, total, top, rounded))
            end_of_softmax()
        else:
            end_of_softmax()
            total = total + p.sum(axis=1)

        def await_next_key() -> None:
            @pl.when(block + 1 < last)
            def _() -> None:
                following = lax.rem(block + 1 - first, np.int32(shape.stages))
                plgpu.barrier_wait(scratch["key is there"].at[following])

        (acc,) = accumulate(shape, [(acc, rounded, scratch["value"].at[slot])], await_next_key)
        release(shape, scratch["value is used"].at[slot])
        return (acc, top, total, *weighted)

    start = (constant(0, (ROWS, shape.value_size)), constant(-np.inf, (ROWS,)), constant(0, (ROWS,)))
    acc, m, total, *weighted = shape.loop(bounds, step, (*start, *([constant(0, (ROWS,))] if wants_entropy else [])))
    pl.when(warpgroup == 0)(take_turn)

    if queries is not None:
        t = plgpu.broadcasted_iota(jnp.int32, (ROWS, shape.block_k), 0, layout=plgpu.Layout.WGMMA).max(axis=1)
        total = jnp.where(t < queries - row, total, np.float32(0))
    empty = total == 0
    if "sinks" in given:
        sink = given["sinks"][head]
        top = jnp.maximum(m, sink)
        base = jnp.where(top == -np.float32(np.inf), np.float32(0), top)
        alpha = jnp.exp2(m - base)
        total = jnp.where(empty, total, total * alpha + jnp.exp2(sink - base))
        acc = acc * lax.broadcast_in_dim(alpha, acc.shape, [0])
        weighted = [x * alpha for x in weighted]
        m = top
    inverse = 1 / jnp.where(empty, np.float32(1), total)
    hidden = lax.broadcast_in_dim(empty, acc.shape, [0])
    acc = jnp.where(hidden, np.float32(0), acc * lax.broadcast_in_dim(inverse, acc.shape, [0]))
    out = scratch["out"].at[warpgroup] if "out" in scratch else query
    out[...] = acc.astype(spec.dtype)
    rows = scratch["rows"].at[warpgroup]
    rows[0] = jnp.where(empty, -np.float32(np.inf), (m + jnp.log2(total)) * np.float32(1 / LOG2E))
    if wants_entropy:
        rows[1] = jnp.where(empty, np.float32(0), weighted[0] * inverse * np.float32(1 / LOG2E))
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(out, shape.rows(outs[0], batch, row, ROWS, head))
    for i, of_rows in enumerate(outs[1:]):
        plgpu.copy_smem_to_gmem(rows.at[i], of_rows.at[batch, head, at])
    plgpu.wait_smem_to_gmem(0)
