"""The forward pass on Triton: one program for each tile of queries, an online softmax over tiles of keys.

FlashAttention-2 (arXiv:2307.08691), algorithm 1, with the maximum of a row kept apart from minus infinity, so that
rows without a key stay exact.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from .. import _triton as triton
from .pallas_triton_operands import named_operands, seen_whole, tile_bounds
from .pallas_triton_spans import Head, least, run_spans
from .pallas_triton_tiles import LOG2_E, View, seen_any
from .spec import AttentionSpec, Operands

__all__ = ["run"]


def run(
    spec: AttentionSpec, operands: Operands, rows: int, columns: int, warps: int, stages: int, interpret: bool
) -> tuple[jax.Array, jax.Array]:
    """Return the attention and the log-sum-exp ``(B, N, T)`` by tiles of `rows` queries and `columns` keys."""
    given = {**named_operands(spec, operands, rows, columns), **tile_bounds(spec, operands, rows, columns, "row")}
    names = [*given, "out", "lse"]
    tiles = triton.blocks_of(spec.queries, rows)

    def kernel(*refs: jax.Array) -> None:
        view = View(spec, rows, columns, dict(zip(names, refs, strict=True)))
        index = pl.program_id(0)
        if spec.window[1] is not None:
            # The longest rows first: a program that starts last should end early.
            index = tiles - 1 - index
        _attend(view, view.head(pl.program_id(2), pl.program_id(1)), index)

    out_shape = (*operands.query.shape[:3], spec.value_size)
    lse_shape = (spec.batch, spec.heads, spec.queries)
    out, lse = triton.call(
        kernel,
        triton.Launch((tiles, spec.heads, spec.batch), warps, stages),
        list(given.values()),
        [
            (jax.ShapeDtypeStruct(out_shape, spec.dtype), seen_whole(spec, "out", out_shape, rows, columns)),
            (jax.ShapeDtypeStruct(lse_shape, np.float32), seen_whole(spec, "lse", lse_shape, rows, columns)),
        ],
        name="rtx_attention_forward",
        interpret=interpret,
    )
    return out, lse


def _attend(view: View, head: Head, index: jax.Array) -> None:
    spec = view.spec
    t = index * view.rows
    query = view.row_matrix("query", head, t)
    # Without a cap or a bias the maximum is that of the bare products, and the scale joins the exponent's.
    bare = spec.softcap is None and spec.bias is None and spec.scale > 0
    unit = spec.scale if bare else 1.0
    seen = view.keys_seen(head, t, least(t + view.rows, head.queries))

    def step(tile: jax.Array, carry: tuple[jax.Array, ...], positions: bool) -> tuple[jax.Array, ...]:
        acc, m, total, *found = carry
        s = tile * view.columns
        key = view.column_matrix("key", head, s, seen if positions else None)
        scores = triton.dot(query, key, across=True, precision=spec.precision)
        if not bare:
            scores, _ = view.scored(scores, head, t, s, across=False)
        keep = view.keep(head, t, s, positions, across=False)
        if keep is not None:
            scores = jnp.where(keep, scores, -jnp.inf)
        top = lax.max(m, jnp.max(scores, axis=1))
        floor = jnp.where(top == -jnp.inf, 0.0, top)
        powers = jnp.exp2((scores - floor[:, None]) * (unit * LOG2_E))
        shrink = jnp.exp2((m - floor) * (unit * LOG2_E))
        value = view.column_matrix("value", head, s, seen if positions else None)
        if keep is not None and view.looks:
            # What no query sees may hold NaN, which a weight of 0 does not undo.
            value = jnp.where(seen_any(keep, 0)[:, None], value, jnp.zeros_like(value))
            found = [found[0] | seen_any(keep, 1)]
        total = total * shrink + jnp.sum(powers, axis=1)
        acc = acc * shrink[:, None] + triton.dot(powers.astype(value.dtype), value, precision=spec.precision)
        return (acc, top, total, *found)

    size = view.refs["out"].shape[-1]
    empty = jnp.full((view.rows,), -jnp.inf, np.float32)
    start: tuple[jax.Array, ...] = (jnp.zeros((view.rows, size), np.float32), empty, jnp.zeros_like(empty))
    if view.looks:
        start = (*start, empty > 0)
    acc, m, total, *found = run_spans(view, view.spans_of_row(head, index), step, start)
    visible = view.rows_that_see(head, t)
    if found:
        visible = visible & found[0]
    m = m * unit
    if spec.sinks_dtype is not None:
        sink = view.number("sinks", head.query).astype(np.float32)
        top = lax.max(m, jnp.broadcast_to(sink, m.shape))
        shrink = jnp.exp2((m - top) * LOG2_E)
        total = total * shrink + jnp.exp2((sink - top) * LOG2_E)
        acc, m = acc * shrink[:, None], top
    out = jnp.where(visible[:, None], acc / total[:, None], 0.0)
    view.write("out", head.batch, head.query, t, out, spec.value_size, spec.queries)
    view.write_row("lse", head, t, jnp.where(visible, m + jnp.log2(total) * math.log(2), -jnp.inf))
