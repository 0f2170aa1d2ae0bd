"""The backward pass on TPU: one kernel for the gradients of queries, keys and values, one for that of the bias.

The fused kernel goes over key blocks, adds up their gradients in scratch, and keeps the gradients of all queries of a
key head on the chip meanwhile: five products for each tile, no second pass, nothing partial in main memory, and always
the same order of sums. `pallas_tpu` hands it as many queries at a time as fit.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from .pallas_tpu_tile import (
    LOG2E,
    Indices,
    Place,
    Plan,
    Ref,
    Scalar,
    compiler_params,
    contract,
    entry,
    finite,
    for_parts,
    group_of,
    key_head,
    part_keys,
    part_touched,
    rows_spec,
    shape_scores,
    side_inputs,
    tile_bias,
    tile_keep,
    vector_spec,
)
from .pallas_tpu_tiles import MASKED, PLAIN, TileList, list_tiles, row_numbers, tile_kinds
from .spec import Operands

__all__ = ["pull", "pull_bias"]


def pull(
    plan: Plan, operands: Operands, d_out: jax.Array, lse: jax.Array, delta: jax.Array, out_dtype: Any
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the gradients of query, key and value, those of keys and values in `out_dtype`.

    Parameters
    ----------
    d_out
        Cotangent of the result, laid out as the queries; 0 where a query sees no key.
    lse, delta
        ``(B, N, T)``: the log-sum-exp, and the sums of result times cotangent less the cotangent of `lse`.
    """
    spec, group = plan.spec, plan.spec.group
    tiles = list_tiles(tile_kinds(spec, operands, plan.block_q, plan.block_k), by_keys=True)

    def at(
        b: Scalar, k: Scalar, step: Scalar, g: Scalar, codes: Ref, counts: Ref, *_: Ref
    ) -> tuple[Any, Any, Any, Any]:
        j, i, _kind = entry(tiles, codes, counts, group_of(tiles, b, k), step)
        return b, k * group + g, i, j

    def query_block(*where: Any) -> Indices:
        b, n, i, _ = at(*where)
        return b, n, i

    def key_block(*where: Any) -> Indices:
        b, _, _, j = at(*where)
        return b, where[1], j

    inputs = _inputs(plan, operands, d_out, lse, delta, at, query_block, key_block)
    scalars = [jnp.asarray(tiles.codes), jnp.asarray(tiles.counts), row_numbers(spec, operands)]
    rows = plan.query_blocks * plan.block_q
    if plan.flat:
        query_shape: tuple[int, ...] = (spec.batch, rows, spec.heads * spec.size)
        query_spec = pl.BlockSpec((None, rows, group * spec.size), lambda b, k, *_: (b, 0, k))
        shapes: list[tuple[int, ...]] = [
            (spec.batch, spec.keys, spec.key_heads * size) for size in (spec.size, spec.value_size)
        ]
    else:
        query_shape = (spec.batch, spec.heads, rows, spec.size)
        query_spec = pl.BlockSpec((None, group, rows, spec.size), lambda b, k, *_: (b, k, 0, 0))
        shapes = [(spec.batch, spec.key_heads, spec.keys, size) for size in (spec.size, spec.value_size)]
    d_query, d_key, d_value = pl.pallas_call(
        functools.partial(_kernel, plan, tiles, list(inputs)),
        out_shape=[
            jax.ShapeDtypeStruct(query_shape, spec.dtype),
            *(jax.ShapeDtypeStruct(shape, out_dtype) for shape in shapes),
        ],
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=len(scalars),
            grid=(spec.batch, spec.key_heads, tiles.steps, group),
            in_specs=[block for _, block in inputs.values()],
            out_specs=[
                query_spec,
                rows_spec(plan, plan.block_k, spec.size, key_block),
                rows_spec(plan, plan.block_k, spec.value_size, key_block),
            ],
            scratch_shapes=[
                pltpu.VMEM((group, plan.query_blocks, spec.size, plan.block_q), jnp.float32),
                pltpu.VMEM((plan.block_k, spec.size), jnp.float32),
                pltpu.VMEM((plan.block_k, spec.value_size), jnp.float32),
            ],
        ),
        compiler_params=compiler_params(4, 2, plan.vmem_bytes),
        interpret=plan.interpret,
        name="rtx_jax_attention_backward",
    )(*scalars, *(array for array, _ in inputs.values()))
    d_query = d_query[:, : spec.queries] if plan.flat else d_query[:, :, : spec.queries]
    return d_query, d_key, d_value


def _inputs(
    plan: Plan,
    operands: Operands,
    d_out: jax.Array,
    lse: jax.Array,
    delta: jax.Array,
    at: Any,
    query_block: Any,
    key_block: Any,
) -> dict[str, tuple[jax.Array, pl.BlockSpec]]:
    spec = plan.spec
    return {
        "query": (operands.query, rows_spec(plan, plan.block_q, spec.size, query_block)),
        "key": (operands.key, rows_spec(plan, plan.block_k, spec.size, key_block)),
        "value": (operands.value, rows_spec(plan, plan.block_k, spec.value_size, key_block)),
        "d_out": (d_out, rows_spec(plan, plan.block_q, spec.value_size, query_block)),
        "statistics": (jnp.stack([lse, delta], axis=2), vector_spec(2, plan.block_q, query_block)),
        **side_inputs(plan, operands, at),
    }


def _kernel(
    plan: Plan, tiles: TileList, names: Sequence[str], codes: Ref, counts: Ref, numbers: Ref, *rest: Ref
) -> None:
    spec = plan.spec
    refs = dict(zip(names, rest, strict=False))
    d_query, d_key, d_value, query_sums, key_sums, value_sums = rest[len(names) :]
    b, k, step, g = (pl.program_id(axis) for axis in range(4))
    group = group_of(tiles, b, k)
    count = counts[group]
    j, i, kind = entry(tiles, codes, counts, group, step)
    before, _, _ = entry(tiles, codes, counts, group, jnp.maximum(step - 1, 0))
    after, _, _ = entry(tiles, codes, counts, group, step + 1)
    active = step < count
    place = Place.of(numbers, spec.batch, b, i, j)

    @pl.when((step == 0) & (g == 0))
    def start_queries() -> None:
        def clear(block: jax.Array, _: None) -> None:
            for head in range(spec.group):
                query_sums[head, block] = jnp.zeros((spec.size, plan.block_q), jnp.float32)

        jax.lax.fori_loop(0, plan.query_blocks, clear, None)

    @pl.when(active & (g == 0) & ((step == 0) | (before != j)))
    def start_keys() -> None:
        key_sums[...] = jnp.zeros_like(key_sums)
        value_sums[...] = jnp.zeros_like(value_sums)

    def add(part: jax.Array, masked: bool) -> None:
        keys = part_keys(plan, part)
        tile = _tile(plan, refs, part, place if masked else None)
        value_sums[keys, :] += contract(plan, tile.weights.astype(tile.d_out.dtype), tile.d_out, (1, 0))
        d_products = tile.d_products.astype(tile.query.dtype)
        key_sums[keys, :] += contract(plan, d_products, tile.query, (1, 0))
        query_sums[g, i] += contract(plan, tile.key, d_products, (0, 0))

    @pl.when(active & (kind == PLAIN))
    def whole() -> None:
        for_parts(plan, lambda part: add(part, False), unroll=True)

    @pl.when(active & (kind == MASKED))
    def cut() -> None:
        for_parts(plan, lambda part: pl.when(part_touched(plan, place, part))(lambda: add(part, True)), unroll=False)

    @pl.when(active & (g == spec.group - 1) & ((step == count - 1) | (after != j)))
    def finish_keys() -> None:
        d_key[...] = (key_sums[...] * spec.scale).astype(d_key.dtype)
        d_value[...] = value_sums[...].astype(d_value.dtype)

    @pl.when((step == count - 1) & (g == spec.group - 1))
    def finish_queries() -> None:
        def write(block: jax.Array, _: None) -> None:
            rows = pl.ds(pl.multiple_of(block * plan.block_q, plan.block_q), plan.block_q)
            for head in range(spec.group):
                result = jnp.transpose(query_sums[head, block] * spec.scale).astype(d_query.dtype)
                if plan.flat:
                    d_query[rows, head * spec.size : (head + 1) * spec.size] = result
                else:
                    d_query[head, rows, :] = result

        jax.lax.fori_loop(0, plan.query_blocks, write, None)


class _Tile(NamedTuple):
    """One part of a tile: operands without what nobody sees, weights, and the cotangents of scores and of products."""

    query: jax.Array
    key: jax.Array
    d_out: jax.Array
    weights: jax.Array
    d_scores: jax.Array
    d_products: jax.Array


def _tile(plan: Plan, refs: Mapping[str, Ref], part: jax.Array, place: Place | None) -> _Tile:
    """Return the part; `place` is None where every query sees every key. `d_products` lacks the factor of the scale."""
    spec = plan.spec
    keys = part_keys(plan, part)
    query, key, value, d_out = refs["query"][...], refs["key"][keys, :], refs["value"][keys, :], refs["d_out"][...]
    lse, delta = refs["statistics"][0:1, :], refs["statistics"][1:2, :]
    scores, tangent = shape_scores(plan, contract(plan, key, query, (1, 1)))
    keep = None
    if place is not None:
        bias = tile_bias(plan, refs, part)
        keep = tile_keep(plan, refs, place, part, bias)
        if bias is not None:
            scores = scores + bias
    weights = jnp.exp2((scores - lse) * LOG2E)
    if spec.nan_safe:
        value = finite(value)
    d_weights = contract(plan, value, d_out, (1, 1))
    d_scores = weights * (d_weights - delta)
    if keep is not None:
        weights, d_scores = (jnp.where(keep, x, 0.0) for x in (weights, d_scores))
        d_out = _rows_before(plan, place, d_out)
    if place is not None or spec.nan_safe:
        # A NaN that is seen is in `d_scores` already.
        query, key = finite(query), finite(key)
    d_products = d_scores if tangent is None else d_scores * (1.0 - tangent * tangent)
    if tangent is not None and keep is not None:
        d_products = jnp.where(keep, d_products, 0.0)
    return _Tile(query, key, d_out, weights, d_scores, d_products)


def _rows_before(plan: Plan, place: Place | None, x: jax.Array) -> jax.Array:
    """Return `x` with 0 in the rows of the block that are beyond the queries."""
    if place is None or not (plan.spec.query_lengths or plan.spec.queries % plan.block_q):
        return x
    row = jax.lax.broadcasted_iota(jnp.int32, x.shape, 0)
    wide = x.astype(jnp.float32)
    return jnp.where(row < place.queries - place.i * plan.block_q, wide, 0.0).astype(x.dtype)


# --- the bias -------------------------------------------------------------------------------------------------------


def pull_bias(plan: Plan, operands: Operands, d_out: jax.Array, lse: jax.Array, delta: jax.Array) -> jax.Array:
    """Return the gradient of the bias, float32 in its shape.

    Notes
    -----
    Axes along which the bias repeats are the innermost ones of the grid, so that their sums stay on the chip: memory
    is that of the bias.
    """
    spec = plan.spec
    assert spec.bias is not None
    # A bias of one number for each row or none is summed over queries at the end.
    kept = (spec.bias[0] > 1, spec.bias[1] > 1, spec.bias[2] > 1 or spec.bias[3] == 1, spec.bias[3] > 1)
    sizes = (spec.batch, spec.heads, plan.query_blocks, plan.key_blocks)
    order = [axis for axis in range(4) if kept[axis]] + [axis for axis in range(4) if not kept[axis]]
    kinds = jnp.asarray(tile_kinds(spec, operands, plan.block_q, plan.block_k))

    def at(*where: Any) -> tuple[Any, Any, Any, Any]:
        b, n, i, j = (where[order.index(axis)] for axis in range(4))
        return b, n, i, j

    def query_block(*where: Any) -> Indices:
        return at(*where)[:3]

    def key_block(*where: Any) -> Indices:
        b, n, _, j = at(*where)
        return b, key_head(plan, n), j

    def result_block(*where: Any) -> tuple[Any, Any, Any, Any]:
        b, n, i, j = (x if keep else 0 for x, keep in zip(at(*where), kept, strict=True))
        return (b, n, i, j) if kept[2] and kept[3] else (b, n, 0, i if kept[2] else j)

    shape = [spec.batch if kept[0] else 1, spec.heads if kept[1] else 1]
    if kept[2] and kept[3]:
        shape += [spec.queries, spec.keys]
        block = [plan.block_q, plan.block_k]
    else:
        shape += [1, spec.queries if kept[2] else spec.keys]
        block = [1, plan.block_q if kept[2] else plan.block_k]
    inputs = _inputs(plan, operands, d_out, lse, delta, at, query_block, key_block)
    sums = {
        (True, True): (plan.block_k, plan.block_q),
        (True, False): (1, plan.block_q),
        (False, True): (plan.block_k, 1),
    }[kept[2], kept[3]]
    result: jax.Array = pl.pallas_call(
        functools.partial(_bias_kernel, plan, order, sum(kept), list(inputs), kinds.shape),
        out_shape=jax.ShapeDtypeStruct(shape, jnp.float32),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=tuple(sizes[axis] for axis in order),
            in_specs=[spec_ for _, spec_ in inputs.values()],
            out_specs=pl.BlockSpec((None, None, *block), result_block),
            scratch_shapes=[pltpu.VMEM(sums, jnp.float32)],
        ),
        compiler_params=compiler_params(4, 4 - sum(kept), plan.vmem_bytes),
        interpret=plan.interpret,
        name="rtx_jax_attention_bias_gradient",
    )(kinds.reshape(-1), row_numbers(spec, operands), *(array for array, _ in inputs.values()))
    if kept[3]:
        return result
    if spec.bias[2] == 1:
        result = jnp.sum(result, -1, keepdims=True)
    return jnp.swapaxes(result, 2, 3)


def _bias_kernel(
    plan: Plan,
    order: Sequence[int],
    kept: int,
    names: Sequence[str],
    groups: tuple[int, ...],
    kinds: Ref,
    numbers: Ref,
    *rest: Ref,
) -> None:
    spec = plan.spec
    refs = dict(zip(names, rest, strict=False))
    result, sums = rest[len(names) :]
    steps = [pl.program_id(axis) for axis in range(4)]
    b, n, i, j = (steps[order.index(axis)] for axis in range(4))
    inner = range(kept, 4)
    first = functools.reduce(jnp.logical_and, [steps[axis] == 0 for axis in inner], jnp.bool_(True))
    last = functools.reduce(
        jnp.logical_and, [steps[axis] == pl.num_programs(axis) - 1 for axis in inner], jnp.bool_(True)
    )
    group = (b if groups[0] > 1 else 0) * groups[1] + (key_head(plan, n) if groups[1] > 1 else 0)
    kind = kinds[(group * groups[2] + i) * groups[3] + j]
    place = Place.of(numbers, spec.batch, b, i, j)

    @pl.when(first)
    def start() -> None:
        sums[...] = jnp.zeros_like(sums)

    def add_part(part: jax.Array) -> None:
        d_scores = _tile(plan, refs, part, place).d_scores
        if sums.shape[1] == 1:
            d_scores = jnp.sum(d_scores, 1, keepdims=True)
        if sums.shape[0] == 1:
            sums[...] += jnp.sum(d_scores, 0, keepdims=True)
        else:
            sums[part_keys(plan, part), :] += d_scores

    @pl.when(kind == MASKED)
    def add() -> None:
        for_parts(plan, add_part, unroll=False)

    @pl.when(last)
    def finish() -> None:
        if sums.shape[0] == 1:
            result[...] = sums[...]
        elif sums.shape[1] == 1:
            wide = jnp.broadcast_to(sums[...], (plan.block_k, 128))
            result[...] = jnp.transpose(wide)[:1, :]
        else:
            result[...] = jnp.transpose(sums[...])
