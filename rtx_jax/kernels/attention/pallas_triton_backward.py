"""The backward pass on Triton: one kernel for the queries, one for keys and values, one for the bias.

Each recomputes the weights from the log-sum-exp (FlashAttention-2, arXiv:2307.08691, algorithm 2) and owns what it
writes, so nothing is added across programs and two runs agree to the bit. The kernel for keys and values works on
transposed tiles, whose products need no transposition.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from .. import _triton as triton
from .pallas_triton_operands import Operand, named_operands, seen_whole, tile_bounds
from .pallas_triton_spans import Head, least, run_spans
from .pallas_triton_tiles import LOG2_E, View
from .spec import AttentionSpec, Gradients, Operands

__all__ = ["run"]

# Programs that fill the largest cards about twice; with fewer key heads, their query heads are taken apart.
_ENOUGH = 256


def run(
    spec: AttentionSpec,
    operands: Operands,
    out: jax.Array,
    lse: jax.Array,
    d_out: jax.Array,
    d_lse: jax.Array,
    bias: bool,
    sinks: bool,
    rows: int,
    columns: int,
    warps: int,
    stages: int,
    interpret: bool,
) -> Gradients:
    """Return the gradients by tiles of `rows` queries and `columns` keys."""
    empty = lse == -jnp.inf
    if _may_be_empty(spec):
        # A row that sees nothing has no gradient, whatever is asked of it.
        by_query = jnp.transpose(empty, (0, 2, 1)) if spec.layout == "BTNH" else empty
        d_out = jnp.where(by_query[..., None], jnp.zeros_like(d_out), d_out)
        d_lse = jnp.where(empty, 0.0, d_lse)
    products = jnp.sum(out.astype(np.float32) * d_out.astype(np.float32), axis=-1)
    delta = (jnp.transpose(products, (0, 2, 1)) if spec.layout == "BTNH" else products) - d_lse
    given = named_operands(spec, operands, rows, columns)
    # With a log-sum-exp of plus infinity every weight is 0, as it should be in a row without keys.
    for name, x in (("lse", jnp.where(empty, jnp.inf, lse)), ("delta", delta)):
        given[name] = x, seen_whole(spec, "lse", x.shape, rows, columns)
    given["d_out"] = d_out, seen_whole(spec, "out", d_out.shape, rows, columns)
    by_row = {**given, **tile_bounds(spec, operands, rows, columns, "row")}
    by_column = {**given, **tile_bounds(spec, operands, rows, columns, "column")}
    shape = (rows, columns, warps, stages, interpret)
    d_key, d_value = _of_keys(spec, operands, by_column, *shape)
    return Gradients(
        _of_queries(spec, operands, by_row, *shape),
        d_key,
        d_value,
        _of_bias(spec, operands, by_row, *shape) if bias else None,
        _of_sinks(spec, operands, lse, delta) if sinks else None,
    )


Given = dict[str, Operand]


def _may_be_empty(spec: AttentionSpec) -> bool:
    """Whether some query may see no key, as far as the call's static part tells."""
    if spec.segments or spec.mask is not None or spec.bias is not None or spec.query_lengths or spec.key_lengths:
        return True
    left, right = spec.window
    if left is None and right is None:
        return False
    if spec.q_offset is None:
        return True
    ends_early = right is not None and spec.q_offset + right < 0
    return ends_early or (left is not None and spec.queries - 1 + spec.q_offset - left >= spec.keys)


def _weights(
    view: View,
    head: Head,
    t: jax.Array,
    s: jax.Array,
    products: jax.Array,
    lse: jax.Array,
    positions: bool,
    across: bool,
) -> tuple[jax.Array, jax.Array | None, jax.Array | None]:
    """Return the weights of a tile, which keys are seen, and the slope of the scores by the products."""
    scores, slope = view.scored(products, head, t, s, across)
    weights = jnp.exp2((scores - (lse[None, :] if across else lse[:, None])) * LOG2_E)
    keep = view.keep(head, t, s, positions, across)
    if keep is None:
        return weights, keep, slope
    # The slope at a NaN that is hidden is NaN too.
    return jnp.where(keep, weights, 0.0), keep, None if slope is None else jnp.where(keep, slope, 0.0)


def _slopes(
    weights: jax.Array, keep: jax.Array | None, d_weights: jax.Array, delta: jax.Array, across: bool
) -> jax.Array:
    """Return the derivative by the scores, 0 where hidden."""
    d_scores = weights * (d_weights - (delta[None, :] if across else delta[:, None]))
    # A hidden value may be NaN, and so then is its derivative by the weight.
    return d_scores if keep is None else jnp.where(keep, d_scores, 0.0)


def _finite(x: jax.Array, checked: bool) -> jax.Array:
    """Return `x` with 0 for NaN and infinity, if `checked`: their weight is NaN where they are seen."""
    return jnp.where(jnp.abs(x.astype(np.float32)) < jnp.inf, x, jnp.zeros_like(x)) if checked else x


def _of_queries(
    spec: AttentionSpec,
    operands: Operands,
    given: Given,
    rows: int,
    columns: int,
    warps: int,
    stages: int,
    interpret: bool,
) -> jax.Array:
    names = [*given, "d_query"]
    tiles = triton.blocks_of(spec.queries, rows)

    def kernel(*refs: jax.Array) -> None:
        view = View(spec, rows, columns, dict(zip(names, refs, strict=True)))
        index = pl.program_id(0)
        if spec.window[1] is not None:
            index = tiles - 1 - index
        head = view.head(pl.program_id(2), pl.program_id(1))
        t = index * rows
        query = view.row_matrix("query", head, t)
        d_out = view.row_matrix("d_out", head, t)
        lse, delta = view.row("lse", head, t, other=np.inf), view.row("delta", head, t)
        seen = view.keys_seen(head, t, least(t + rows, head.queries))

        def step(tile: jax.Array, acc: jax.Array, positions: bool) -> jax.Array:
            s = tile * columns
            key = view.column_matrix("key", head, s, seen if positions else None)
            products = triton.dot(query, key, across=True, precision=spec.precision)
            weights, keep, slope = _weights(view, head, t, s, products, lse, positions, across=False)
            value = view.column_matrix("value", head, s, seen if positions else None)
            d_weights = triton.dot(d_out, value, across=True, precision=spec.precision)
            d_scores = _slopes(weights, keep, d_weights, delta, across=False)
            if slope is not None:
                d_scores = d_scores * slope
            key = _finite(key, keep is not None)
            return acc + triton.dot(d_scores.astype(key.dtype), key, precision=spec.precision)

        acc = jnp.zeros((rows, view.refs["d_query"].shape[-1]), np.float32)
        acc = run_spans(view, view.spans_of_row(head, index), step, acc)
        view.write("d_query", head.batch, head.query, t, acc * spec.scale, spec.size, spec.queries)

    like = operands.query
    (d_query,) = triton.call(
        kernel,
        triton.Launch((tiles, spec.heads, spec.batch), warps, stages),
        list(given.values()),
        [(jax.ShapeDtypeStruct(like.shape, like.dtype), seen_whole(spec, "query", like.shape, rows, columns))],
        name="rtx_attention_backward_query",
        interpret=interpret,
    )
    return d_query


def _of_keys(
    spec: AttentionSpec,
    operands: Operands,
    given: Given,
    rows: int,
    columns: int,
    warps: int,
    stages: int,
    interpret: bool,
) -> tuple[jax.Array, jax.Array]:
    names = [*given, "d_key", "d_value"]
    tiles = triton.blocks_of(spec.keys, columns)
    # Query heads that one program adds up.
    together = spec.group if tiles * spec.key_heads * spec.batch >= _ENOUGH else 1
    parts = spec.group // together

    def kernel(*refs: jax.Array) -> None:
        view = View(spec, rows, columns, dict(zip(names, refs, strict=True)))
        index, part, batch = pl.program_id(0), pl.program_id(1), pl.program_id(2)
        first = part * together
        head = view.head(batch, first)
        s = index * columns
        key = view.column_matrix("key", head, s, (0, head.keys))
        value = view.column_matrix("value", head, s, (0, head.keys))

        def of_head(number: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            head = view.head(batch, first + number)

            def step(
                tile: jax.Array, carry: tuple[jax.Array, jax.Array], positions: bool
            ) -> tuple[jax.Array, jax.Array]:
                d_key, d_value = carry
                t = tile * rows
                query = view.row_matrix("query", head, t)
                d_out = view.row_matrix("d_out", head, t)
                lse, delta = view.row("lse", head, t, other=np.inf), view.row("delta", head, t)
                products = triton.dot(key, query, across=True, precision=spec.precision)
                weights, keep, slope = _weights(view, head, t, s, products, lse, positions, across=True)
                d_value = d_value + triton.dot(weights.astype(d_out.dtype), d_out, precision=spec.precision)
                d_weights = triton.dot(value, d_out, across=True, precision=spec.precision)
                d_scores = _slopes(weights, keep, d_weights, delta, across=True)
                if slope is not None:
                    d_scores = d_scores * slope
                query = _finite(query, keep is not None)
                return d_key + triton.dot(d_scores.astype(query.dtype), query, precision=spec.precision), d_value

            return run_spans(view, view.spans_of_column(head, index), step, carry)

        carry = (jnp.zeros(key.shape, np.float32), jnp.zeros(value.shape, np.float32))
        if together == 1:
            d_key, d_value = of_head(first - first, carry)
        else:
            d_key, d_value = lax.fori_loop(np.int32(0), np.int32(together), of_head, carry)
        there = (s + lax.iota(np.int32, columns) < head.keys)[:, None]
        view.write("d_key", batch, part, s, jnp.where(there, d_key * spec.scale, 0.0), spec.size, spec.keys)
        view.write("d_value", batch, part, s, jnp.where(there, d_value, 0.0), spec.value_size, spec.keys)

    axis = 2 if spec.layout == "BTNH" else 1
    results = []
    for name, x in (("key", operands.key), ("value", operands.value)):
        shape = (*x.shape[:axis], spec.heads // together, *x.shape[axis + 1 :])
        dtype = x.dtype if parts == 1 else np.dtype(np.float32)
        results.append((jax.ShapeDtypeStruct(shape, dtype), seen_whole(spec, name, shape, rows, columns)))
    found = triton.call(
        kernel,
        triton.Launch((tiles, spec.heads // together, spec.batch), warps, stages),
        list(given.values()),
        results,
        name="rtx_attention_backward_key_value",
        interpret=interpret,
    )
    d_key, d_value = (
        x
        if parts == 1
        else jnp.sum(x.reshape(*x.shape[:axis], spec.key_heads, parts, *x.shape[axis + 1 :]), axis=axis + 1)
        for x in found
    )
    return d_key.astype(operands.key.dtype), d_value.astype(operands.value.dtype)


def _of_bias(
    spec: AttentionSpec,
    operands: Operands,
    given: Given,
    rows: int,
    columns: int,
    warps: int,
    stages: int,
    interpret: bool,
) -> jax.Array:
    """Return the gradient of the bias: each program owns a tile of it, and walks over what the bias is shared by."""
    assert operands.bias is not None
    names = [*given, "d_bias"]
    shape = operands.bias.shape
    tiles = (triton.blocks_of(spec.queries, rows), triton.blocks_of(spec.keys, columns))
    walks = [count if size == 1 else 1 for size, count in zip(shape, (spec.batch, spec.heads, *tiles), strict=True)]

    def kernel(*refs: jax.Array) -> None:
        view = View(spec, rows, columns, dict(zip(names, refs, strict=True)))
        entry = pl.program_id(2)
        start = (
            lax.div(entry, np.int32(shape[1])),
            lax.rem(entry, np.int32(shape[1])),
            pl.program_id(0),
            pl.program_id(1),
        )

        def over(axis: int, at: tuple[jax.Array, ...], acc: jax.Array) -> jax.Array:
            if axis == 4:
                return _add_if_touched(view, view.head(at[0], at[1]), at[2], at[3], acc)
            if walks[axis] == 1:
                return over(axis + 1, (*at, start[axis]), acc)

            def step(i: jax.Array, acc: jax.Array) -> jax.Array:
                return over(axis + 1, (*at, i), acc)

            walked: jax.Array = lax.fori_loop(np.int32(0), np.int32(walks[axis]), step, acc)
            return walked

        acc = over(0, (), jnp.zeros((rows, columns), np.float32))
        ref = view.refs["d_bias"]
        index: list[object] = [start[0], start[1]]
        kept: list[jax.Array] = []
        for axis, (count, size) in enumerate(((rows, spec.queries), (columns, spec.keys))):
            if shape[2 + axis] == 1:
                acc = jnp.sum(acc, axis=axis, keepdims=True)
                index.append(pl.ds(0, 1))
                continue
            at = start[2 + axis] * count
            index.append(pl.ds(at, count))
            if size % count:
                inside = at + lax.iota(np.int32, count) < size
                kept.append(inside[:, None] if axis == 0 else inside[None, :])
        mask = None
        for x in kept:
            mask = x if mask is None else mask & x
        triton.store(
            ref.at[tuple(index)],
            acc.astype(ref.dtype),
            mask=None if mask is None else jnp.broadcast_to(mask, acc.shape),
        )

    like = operands.bias
    (d_bias,) = triton.call(
        kernel,
        triton.Launch(
            (tiles[0] if shape[2] > 1 else 1, tiles[1] if shape[3] > 1 else 1, shape[0] * shape[1]), warps, stages
        ),
        list(given.values()),
        [(jax.ShapeDtypeStruct(shape, like.dtype), seen_whole(spec, "bias", shape, rows, columns))],
        name="rtx_attention_backward_bias",
        interpret=interpret,
    )
    return d_bias


def _add_if_touched(view: View, head: Head, row: jax.Array, column: jax.Array, acc: jax.Array) -> jax.Array:
    """Add what `_add_tile` does, unless no query of the tile sees a key of it."""

    def add(acc: jax.Array) -> jax.Array:
        return _add_tile(view, head, row * view.rows, column * view.columns, acc)

    spec = view.spec
    if spec.window == (None, None) and not (spec.segments or spec.query_lengths or spec.key_lengths):
        return add(acc)
    spans = view.spans_of_row(head, row)
    touched: jax.Array = lax.cond((column >= spans.first) & (column < spans.last), add, lambda acc: acc, acc)
    return touched


def _add_tile(view: View, head: Head, t: jax.Array, s: jax.Array, acc: jax.Array) -> jax.Array:
    """Add the derivative by the scores, after the cap, of one tile."""
    precision = view.spec.precision
    seen = view.keys_seen(head, t, least(t + view.rows, head.queries))
    query, d_out = view.row_matrix("query", head, t), view.row_matrix("d_out", head, t)
    key, value = view.column_matrix("key", head, s, seen), view.column_matrix("value", head, s, seen)
    products = triton.dot(query, key, across=True, precision=precision)
    weights, keep, _ = _weights(view, head, t, s, products, view.row("lse", head, t, other=np.inf), True, across=False)
    d_weights = triton.dot(d_out, value, across=True, precision=precision)
    return acc + _slopes(weights, keep, d_weights, view.row("delta", head, t), across=False)


def _of_sinks(spec: AttentionSpec, operands: Operands, lse: jax.Array, delta: jax.Array) -> jax.Array:
    """Return the gradient of the sinks, which are keys of value 0 that every query sees."""
    assert operands.sinks is not None
    sinks = operands.sinks.astype(np.float32)[None, :, None]
    empty = lse == -jnp.inf
    weights = jnp.where(empty, 0.0, jnp.exp(sinks - jnp.where(empty, 0.0, lse)))
    return -jnp.sum(weights * jnp.where(empty, 0.0, delta), axis=(0, 2)).astype(operands.sinks.dtype)
