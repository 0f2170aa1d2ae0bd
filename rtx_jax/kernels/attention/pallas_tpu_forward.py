"""The forward pass on TPU: FlashAttention-2 (arXiv:2307.08691, algorithm 1) over a list of tiles."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
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

__all__ = ["attend"]

# Rows of the scratch of statistics: running maximum, sum of weights, whether any key was seen, and the sum of weights
# times scores below the maximum.
_M, _L, _SEEN, _BELOW = 0, 1, 2, 3


def attend(plan: Plan, operands: Operands, *, entropy: bool = False) -> tuple[jax.Array, ...]:
    """Return the attention, laid out as the plan says, the log-sum-exp ``(B, N, T)`` and, if wanted, the entropy."""
    spec = plan.spec
    tiles = list_tiles(tile_kinds(spec, operands, plan.block_q, plan.block_k), by_keys=False)

    def at(b: Scalar, n: Scalar, step: Scalar, codes: Ref, counts: Ref, *_: Ref) -> tuple[Any, Any, Any, Any]:
        i, j, _kind = entry(tiles, codes, counts, group_of(tiles, b, key_head(plan, n)), step)
        return b, n, i, j

    def query_block(*where: Any) -> Indices:
        b, n, i, _ = at(*where)
        return b, n, i

    def key_block(*where: Any) -> Indices:
        b, n, _, j = at(*where)
        return b, key_head(plan, n), j

    inputs = {
        "query": (operands.query, rows_spec(plan, plan.block_q, spec.size, query_block)),
        "key": (operands.key, rows_spec(plan, plan.block_k, spec.size, key_block)),
        "value": (operands.value, rows_spec(plan, plan.block_k, spec.value_size, key_block)),
        **side_inputs(plan, operands, at),
    }
    scalars = [jnp.asarray(tiles.codes), jnp.asarray(tiles.counts), row_numbers(spec, operands)]
    if operands.sinks is not None:
        scalars.append(operands.sinks.astype(jnp.float32))
    lead = (spec.batch, spec.queries, spec.heads * spec.value_size)
    shape = lead if plan.flat else (spec.batch, spec.heads, spec.queries, spec.value_size)
    sums = pltpu.VMEM((spec.value_size, plan.block_q), jnp.float32)
    vectors = 2 if entropy else 1
    out, *rows = pl.pallas_call(
        functools.partial(_kernel, plan, tiles, list(inputs), vectors),
        out_shape=[
            jax.ShapeDtypeStruct(shape, spec.dtype),
            *[jax.ShapeDtypeStruct((spec.batch, spec.heads, 1, spec.queries), jnp.float32)] * vectors,
        ],
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=len(scalars),
            grid=(spec.batch, spec.heads, tiles.steps),
            in_specs=[block for _, block in inputs.values()],
            out_specs=[
                rows_spec(plan, plan.block_q, spec.value_size, query_block),
                *[vector_spec(1, plan.block_q, query_block)] * vectors,
            ],
            scratch_shapes=[pltpu.VMEM((8, plan.block_q), jnp.float32), *([sums] * (3 if spec.nan_safe else 1))],
        ),
        compiler_params=compiler_params(3, 1, plan.vmem_bytes),
        interpret=plan.interpret,
        name="rtx_jax_attention_forward",
    )(*scalars, *(array for array, _ in inputs.values()))
    return out, *(row[:, :, 0, :] for row in rows)


def _kernel(
    plan: Plan, tiles: TileList, names: Sequence[str], vectors: int, codes: Ref, counts: Ref, numbers: Ref, *rest: Ref
) -> None:
    spec = plan.spec
    sinks, rest = (rest[0], rest[1:]) if spec.sinks_dtype is not None else (None, rest)
    refs = dict(zip(names, rest, strict=False))
    out, *rows = rest[len(names) : len(names) + 1 + vectors]
    stats, acc, *infinite = rest[len(names) + 1 + vectors :]
    add_part = functools.partial(_add, plan, refs, stats, acc, infinite, vectors > 1)
    b, n, step = (pl.program_id(axis) for axis in range(3))
    group = group_of(tiles, b, key_head(plan, n))
    count = counts[group]
    i, j, kind = entry(tiles, codes, counts, group, step)
    before, _, _ = entry(tiles, codes, counts, group, jnp.maximum(step - 1, 0))
    after, _, _ = entry(tiles, codes, counts, group, step + 1)
    active = step < count
    place = Place.of(numbers, spec.batch, b, i, j)

    @pl.when(active & ((step == 0) | (before != i)))
    def start() -> None:
        stats[...] = jnp.zeros_like(stats)
        stats[_M : _M + 1, :] = jnp.full((1, plan.block_q), -math.inf, jnp.float32)
        for sums in (acc, *infinite):
            sums[...] = jnp.zeros_like(sums)

    @pl.when(active & (kind == PLAIN))
    def whole() -> None:
        for_parts(plan, lambda part: add_part(part, None), unroll=True)

    @pl.when(active & (kind == MASKED))
    def cut() -> None:
        def add(part: jax.Array) -> None:
            pl.when(part_touched(plan, place, part))(lambda: add_part(part, place))

        for_parts(plan, add, unroll=False)

    @pl.when(active & ((step == count - 1) | (after != i)))
    def finish() -> None:
        _finish(plan, None if sinks is None else sinks[n], stats, acc, infinite, out, rows)


def _add(
    plan: Plan,
    refs: dict[str, Ref],
    stats: Ref,
    acc: Ref,
    infinite: Sequence[Ref],
    entropy: bool,
    part: jax.Array,
    place: Place | None,
) -> None:
    """Take one part of a tile into the sums; `place` is None where every query sees every key."""
    keys = part_keys(plan, part)
    scores = contract(plan, refs["key"][keys, :], refs["query"][...], (1, 1))
    if not plan.raw:
        scores, _ = shape_scores(plan, scores)
    value = refs["value"][keys, :]
    keep = None
    if place is not None:
        bias = tile_bias(plan, refs, part)
        keep = tile_keep(plan, refs, place, part, bias)
        if bias is not None:
            scores = scores + bias
        scores = jnp.where(keep, scores, -math.inf)
    old = stats[_M : _M + 1, :]
    m = jnp.maximum(old, jnp.max(scores, 0, keepdims=True))
    level = jnp.where(m == -math.inf, 0.0, m)
    weights = jnp.exp2((scores - level) * plan.exponent)
    rescale = jnp.exp2((old - level) * plan.exponent)
    if entropy:
        # A weight of 0 takes nothing, whatever its score.
        below = jnp.where(weights > 0.0, weights * (scores - level), 0.0)
        shifted = stats[_BELOW : _BELOW + 1, :] + (old - level) * stats[_L : _L + 1, :]
        kept = jnp.where(rescale > 0.0, shifted * rescale, 0.0)
        stats[_BELOW : _BELOW + 1, :] = kept + jnp.sum(below, 0, keepdims=True)
    stats[_M : _M + 1, :] = m
    stats[_L : _L + 1, :] = stats[_L : _L + 1, :] * rescale + jnp.sum(weights, 0, keepdims=True)
    if keep is None:
        stats[_SEEN : _SEEN + 1, :] = jnp.ones((1, plan.block_q), jnp.float32)
    else:
        shown = jnp.where(keep, 1.0, 0.0)
        stats[_SEEN : _SEEN + 1, :] = jnp.maximum(stats[_SEEN : _SEEN + 1, :], jnp.max(shown, 0, keepdims=True))
        if not plan.spec.nan_safe:
            # What no query of the block sees counts nothing, not even as 0 times NaN.
            wide = value.astype(jnp.float32)
            value = jnp.where(jnp.max(shown, 1, keepdims=True) > 0.0, wide, 0.0).astype(value.dtype)
    if plan.spec.nan_safe:
        _add_infinite(plan, value, keep, infinite)
        value = finite(value)
    acc[...] = acc[...] * rescale + contract(plan, value, weights.astype(value.dtype), (0, 0))


def _add_infinite(plan: Plan, value: jax.Array, keep: jax.Array | None, infinite: Sequence[Ref]) -> None:
    """Count, for each query, the values it sees that are not below and not above every number."""
    wide = value.astype(jnp.float32)
    marks = [jnp.where(inside, 0.0, 1.0) for inside in (wide < math.inf, wide > -math.inf)]

    @pl.when(jnp.max(jnp.maximum(*marks)) > 0.0)
    def count() -> None:
        shape = (plan.compute, plan.block_q)
        seen = jnp.ones(shape, jnp.float32) if keep is None else jnp.where(keep, 1.0, 0.0)
        for sums, mark in zip(infinite, marks, strict=True):
            sums[...] += lax.dot_general(
                mark.astype(jnp.bfloat16),
                seen.astype(jnp.bfloat16),
                (((0,), (0,)), ((), ())),
                preferred_element_type=jnp.float32,
            )


def _finish(
    plan: Plan, sink: jax.Array | None, stats: Ref, acc: Ref, infinite: Sequence[Ref], out: Ref, rows: Sequence[Ref]
) -> None:
    m = stats[_M : _M + 1, :] * plan.unit
    total = stats[_L : _L + 1, :]
    empty = stats[_SEEN : _SEEN + 1, :] == 0.0
    share = None
    if sink is None:
        # Only where every key that is seen has a score of minus infinity is the sum 0.
        top = jnp.where((total == 0.0) & ~empty, math.nan, m)
        factor = 1.0 / total
    else:
        top = jnp.maximum(m, sink)
        share = jnp.exp2((m - top) * LOG2E)
        total = total * share + jnp.exp2((sink - top) * LOG2E)
        factor = share / total
    log_total = jnp.log(total)
    rows[0][...] = jnp.where(empty, -math.inf, top + log_total)
    if len(rows) > 1:
        # The log-sum-exp less the mean score; a sink has a weight but no score here.
        level = 0.0 if sink is None else top - jnp.where(share == 0.0, 0.0, m * stats[_L : _L + 1, :] * factor)
        entropy = log_total + level - stats[_BELOW : _BELOW + 1, :] * (factor * plan.unit)
        rows[1][...] = jnp.where(empty, 0.0, entropy)
    result = acc[...] * factor
    if infinite:
        up, down = (sums[...] > 0.0 for sums in infinite)
        # NaN counts as both.
        result += jnp.where(up, math.inf, 0.0) + jnp.where(down, -math.inf, 0.0)
    out[...] = jnp.transpose(jnp.where(empty, 0.0, result)).astype(out.dtype)
