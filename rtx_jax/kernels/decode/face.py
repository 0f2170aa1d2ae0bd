"""The faces of decode attention on raw arrays: checks, the normal form, one compiled call."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._compat import ArrayImpl, x64
from ...checks.choices import flag
from ...checks.decode import decode as _check
from ...checks.decode import decode_window
from ..distances import FAR, Distances, offset_operand
from ..operands import check_array
from . import select
from .lengths import check_lengths
from .primitive import decode
from .ranges import row_range, row_ranges, union_range
from .spec import DecodeOperands, DecodeSpec

__all__ = ["decode_attention", "paged_attention"]

_Program: TypeAlias = Callable[[Mapping[str, jax.Array]], jax.Array | tuple[jax.Array, jax.Array]]

_NEEDED = ("query", "key", "value", "block_table")


def decode_attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    key_lengths: jax.Array | None = None,
    query_lengths: jax.Array | None = None,
    key_scale: jax.Array | None = None,
    value_scale: jax.Array | None = None,
    sinks: jax.Array | None = None,
    q_offset: jax.Array | int | None = None,
    *,
    causal: bool = True,
    window: int | tuple[int | None, int | None] | None = None,
    softcap: float | None = None,
    scale: float | None = None,
    layout: str = "BTNH",
    return_lse: bool = False,
    precision: str | None = None,
    splits: int | None = None,
    implementation: str = "auto",
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Return the attention of few queries to a long cache of keys and values.

    Parameters
    ----------
    query
        (B, T, N, H), or (B, N, T, H) in layout ``"BNTH"``: float32, bfloat16, float16 or float64. T is 1 in plain
        decoding, a few in speculative decoding; each key head serves ``N // K`` neighbouring query heads.
    key, value
        The cache, (B, S, K, H) and (B, S, K, Hv), or (B, K, S, H) and (B, K, S, Hv): dtypes as `query`, or int8 or
        float8, which are widened in the kernel and never copied whole.
    key_lengths
        Integers (B,): how many slots of each row are filled; the rest may hold anything, NaN included. (B, K) where
        heads keep different numbers of keys. All S by default.
    query_lengths
        Integers (B,): queries beyond them give 0.
    key_scale, value_scale
        What a quantized cache is multiplied by: floating, of a shape that broadcasts to that of the cache without its
        last axis. A scalar is one scale for everything, (K,) or (K, 1) one for each head as the layout has it.
    sinks
        (N,): a logit of each query head that takes weight and gives no value.
    q_offset
        Query t has its diagonal at key ``t + q_offset``. Integer, (B,) or (B, K). By default the queries are the last
        of the sequence: the length of the keys less that of the queries.
    causal
        Whether no query sees past its diagonal. Nothing to a single query at the end.
    window
        Keys to the left and to the right of the diagonal that a query sees; one number for both, None for all.
    softcap
        Scores become ``softcap * tanh(scores / softcap)``.
    scale
        Factor of the products, ``1 / sqrt(H)`` by default.
    layout
        ``"BTNH"`` or ``"BNTH"``.
    return_lse
        Return the log-sum-exp of the scores too.
    precision
        Of float32 products: ``"highest"``, ``"high"`` or ``"default"``, the device's own. None is the first.
    splits
        Into how many parts a GPU splits the keys of a head, so that few heads keep it busy; None lets it choose. What
        does not split refuses more than one.
    implementation
        ``"auto"``, or one by name: ``"reference"``, ``"xla"``, ``"pallas_triton"``, ``"pallas_tpu"``.

    Returns
    -------
    jax.Array or tuple of jax.Arrays
        (B, T, N, Hv) or (B, N, T, Hv), of the dtype of `query`. A query that sees no key gives 0. With `return_lse`
        also (B, N, T) in float32 (float64 of float64); -infinity for a query that sees no key.

    Raises
    ------
    InvalidDimension
        An operand has another number of axes.
    ShapeMismatch
        Sizes do not fit, or the key heads do not divide the query heads.
    BroadcastError
        A scale does not broadcast to the cache without its last axis.
    UnsupportedDType
        An operand has a dtype of another kind.
    InvalidArgument
        A parameter is out of range or unknown.
    IndexOutOfBounds
        A length is negative, or beyond the cache or the queries; where lengths are read. That is on CPU, and as
        `rtx_jax.check_bounds` says. Traced ones are not: the diagonal is where they say, what is not there is hidden.
    BackendLimitation
        The implementation that was asked for cannot do it on this device; all reasons are listed.

    Notes
    -----
    Time and traffic follow the keys that are seen, not the capacity of the cache. The result equals that of
    `flash_attention` with the same lengths. A NaN in a key reaches only queries that see it; one in a value may reach
    the other queries of its row. Differentiable in every mode, by the plain form, in O(S) memory for each query; vmap
    makes one larger call. Under `jax.jit` over several devices give the sharding by `jax.shard_map`, or plain XLA runs.
    """
    arrays = {
        "query": query,
        "key": key,
        "value": value,
        "key_lengths": key_lengths,
        "query_lengths": query_lengths,
        "key_scale": key_scale,
        "value_scale": value_scale,
        "sinks": sinks,
    }
    return _call(
        "decode_attention",
        arrays,
        q_offset,
        causal=causal,
        window=window,
        softcap=softcap,
        scale=scale,
        layout=layout,
        return_lse=return_lse,
        precision=precision,
        splits=splits,
        implementation=implementation,
    )


def paged_attention(
    query: jax.Array,
    key_pages: jax.Array,
    value_pages: jax.Array,
    block_table: jax.Array,
    key_lengths: jax.Array | None = None,
    query_lengths: jax.Array | None = None,
    key_scale: jax.Array | None = None,
    value_scale: jax.Array | None = None,
    sinks: jax.Array | None = None,
    q_offset: jax.Array | int | None = None,
    *,
    causal: bool = True,
    window: int | tuple[int | None, int | None] | None = None,
    softcap: float | None = None,
    scale: float | None = None,
    layout: str = "BTNH",
    return_lse: bool = False,
    precision: str | None = None,
    splits: int | None = None,
    implementation: str = "auto",
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Return the attention of few queries to a cache that lies in pages, which sequences share and need not fill.

    Parameters
    ----------
    query
        (B, T, N, H), or (B, N, T, H) in layout ``"BNTH"``, as in `decode_attention`.
    key_pages, value_pages
        (P, page, K, H) and (P, page, K, Hv), or (P, K, page, H) and (P, K, page, Hv): P pages of the cache.
    block_table
        Integers (B, M): which page holds positions ``m * page`` to ``(m + 1) * page - 1`` of each row. Entries for
        positions that no query sees may be anything.
    key_lengths
        Integers (B,) or (B, K): positions of each row that are filled. All ``M * page`` by default.
    query_lengths, sinks, q_offset
        As in `decode_attention`.
    key_scale, value_scale
        As in `decode_attention`; they broadcast to the pages without the last axis, (P, page, K) or (P, K, page).
    causal, window, softcap, scale, layout, return_lse, precision, splits, implementation
        As in `decode_attention`.

    Returns
    -------
    jax.Array or tuple of jax.Arrays
        As of `decode_attention`. A row whose table names a page that does not exist, where a query needs it, gives
        NaN.

    Raises
    ------
    InvalidDimension, ShapeMismatch, BroadcastError, UnsupportedDType, InvalidArgument, IndexOutOfBounds
        As `decode_attention`.
    BackendLimitation
        As `decode_attention`.

    Notes
    -----
    As `decode_attention`. No page is copied but on its way into the kernel. The layout of vLLM's caches is ``"BTNH"``.
    """
    arrays = {
        "query": query,
        "key": key_pages,
        "value": value_pages,
        "block_table": block_table,
        "key_lengths": key_lengths,
        "query_lengths": query_lengths,
        "key_scale": key_scale,
        "value_scale": value_scale,
        "sinks": sinks,
    }
    return _call(
        "paged_attention",
        arrays,
        q_offset,
        causal=causal,
        window=window,
        softcap=softcap,
        scale=scale,
        layout=layout,
        return_lse=return_lse,
        precision=precision,
        splits=splits,
        implementation=implementation,
    )


def _call(
    operation: str,
    arrays: dict[str, jax.Array | None],
    q_offset: jax.Array | int | None,
    *,
    causal: bool,
    window: int | tuple[int | None, int | None] | None,
    softcap: float | None,
    scale: float | None,
    layout: str,
    return_lse: bool,
    precision: str | None,
    splits: int | None,
    implementation: str,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    sides = decode_window(operation, window)
    if isinstance(q_offset, int):
        # An operand, so that the next step of a decoding loop needs no new program.
        q_offset = np.int32(offset_operand(operation, q_offset, sides))  # type: ignore[assignment]
    arrays["q_offset"] = q_offset  # type: ignore[assignment]
    given = {name: x for name, x in arrays.items() if x is not None}
    for name, x in arrays.items():
        if type(x) is not ArrayImpl and (x is not None or name in _NEEDED):
            pages = name in ("key", "value") and operation == "paged_attention"
            check_array(operation, f"{name}_pages" if pages else name, x)
    signature = tuple([(name, x.shape, x.dtype) for name, x in given.items()])
    static = (causal, sides, softcap, scale, layout, return_lse, precision, splits, implementation)
    try:
        run = _plan(operation, signature, *static)
    except TypeError:  # what cannot be a key is refused there
        run = _plan.__wrapped__(operation, signature, *static)
    if "key_lengths" in given or "query_lengths" in given:
        table = given["block_table"].shape if "block_table" in given else None
        check_lengths(operation, given, given["query"].shape, given["key"].shape, table, layout)
    return run(given)


@functools.lru_cache(maxsize=1024, typed=True)
def _plan(
    operation: str,
    signature: tuple[tuple[str, tuple[int, ...], np.dtype], ...],
    causal: object,
    window: object,
    softcap: object,
    scale: object,
    layout: str,
    return_lse: object,
    precision: object,
    splits: object,
    implementation: object,
) -> _Program:
    """Check a call and return its program; the checks cost more than the call of a program that is known."""
    operands = {name: (shape, dtype) for name, shape, dtype in signature}
    sizes = _check(
        operation,
        operands,
        causal=causal,
        window=window,
        softcap=softcap,
        scale=scale,
        layout=layout,
        precision=precision,
        splits=splits,
    )
    distances = Distances(*sizes.window, sizes.queries, sizes.keys)
    spec = DecodeSpec(
        batch=sizes.batch,
        queries=sizes.queries,
        keys=sizes.keys,
        heads=sizes.heads,
        key_heads=sizes.key_heads,
        size=sizes.size,
        value_size=sizes.value_size,
        dtype=operands["query"][1],
        key_dtype=operands["key"][1],
        value_dtype=operands["value"][1],
        layout=layout,
        scale=sizes.scale,
        softcap=sizes.softcap,
        window=distances.sides,
        page=sizes.page,
        pages=sizes.pages,
        per_head=any(len(operands[name][0]) == 2 for name in ("key_lengths", "q_offset") if name in operands),
        precision=sizes.precision,
        splits=sizes.splits,
    )
    word, with_lse = select.check(operation, implementation), flag(operation, "return_lse", return_lse)
    program: _Program = jax.jit(functools.partial(_run, spec, distances, word, with_lse))
    if spec.accumulator.itemsize < 8:
        return program

    def wide(arrays: Mapping[str, jax.Array]) -> jax.Array | tuple[jax.Array, jax.Array]:
        with x64():
            return program(arrays)

    return wide


def _run(
    spec: DecodeSpec, distances: Distances, implementation: str, return_lse: bool, arrays: Mapping[str, jax.Array]
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Bring the operands into the normal form, run, and bring the results into the layout of the query."""
    work = spec.accumulator
    heads = (spec.batch, spec.key_heads)
    lengths = _by_head(heads, arrays.get("key_lengths"), spec.keys)
    queries = _by_head(heads, arrays.get("query_lengths"), spec.queries)
    offsets = distances.offset(arrays["q_offset"] if "q_offset" in arrays else lengths - queries)
    offsets = _by_head(heads, offsets, 0)
    if "query_lengths" in arrays:
        # What only queries see that are not there is seen by none.
        last = jnp.clip(queries, 0, spec.queries) - 1
        lengths = jnp.where(last < 0, 0, row_range(spec, lengths, offsets, last)[1])
    key_factor, key_scale = _scale(spec, arrays.get("key_scale"))
    value_factor, value_scale = _scale(spec, arrays.get("value_scale"))
    # A query that sees no key gives 0 beside a scale of NaN too.
    sees = functools.reduce(operator.lt, row_ranges(spec, lengths, offsets))
    factor = None
    if key_factor is not None:
        factor = jnp.where(sees, key_factor * jnp.asarray(spec.scale, work), 0)
    sinks = None
    if "sinks" in arrays:
        grouped = arrays["sinks"].astype(work).reshape(1, spec.key_heads, 1, spec.group)
        sinks = jnp.broadcast_to(grouped, (*heads, spec.queries, spec.group)).reshape(*heads, spec.rows)
    table, missing = _table(spec, arrays.get("block_table"), lengths, offsets)
    operands = DecodeOperands(
        query=_rows(spec, arrays["query"]),
        key=arrays["key"],
        value=arrays["value"],
        lengths=lengths,
        offsets=offsets,
        table=table,
        factor=factor,
        key_scale=key_scale,
        value_scale=value_scale,
        sinks=sinks,
    )
    out, lse = decode(spec, operands, implementation)
    if value_factor is not None:
        out = out * jnp.where(sees, value_factor, 0)[..., None]
    if missing is not None:
        out, lse = (jnp.where(jnp.expand_dims(missing, tuple(range(1, x.ndim))), jnp.nan, x) for x in (out, lse))
    if "query_lengths" in arrays:
        t = lax.broadcasted_iota(np.int32, (1, 1, spec.rows), 2) // max(spec.group, 1)
        there = t < queries[..., None]
        out, lse = jnp.where(there[..., None], out, 0), jnp.where(there, lse, -jnp.inf)
    out = _unrows(spec, out.astype(spec.dtype), spec.layout)
    return (out, _unrows(spec, lse[..., None], "BNTH")[..., 0]) if return_lse else out


def _by_head(heads: tuple[int, int], x: jax.Array | None, default: int) -> jax.Array:
    """Return numbers of rows as int32 (B, K)."""
    if x is None:
        return jnp.full(heads, default, np.int32)
    limits = jnp.iinfo(x.dtype)
    x = jnp.clip(x, max(-FAR, int(limits.min)), min(FAR, int(limits.max))).astype(np.int32)
    return jnp.broadcast_to(x[:, None] if x.ndim == 1 else x, heads)


def _rows(spec: DecodeSpec, query: jax.Array) -> jax.Array:
    """Return queries as (B, K, R, H)."""
    b, t, k, g = spec.batch, spec.queries, spec.key_heads, spec.group
    if spec.layout == "BTNH":
        split = jnp.moveaxis(query.reshape(b, t, k, g, spec.size), 2, 1)
    else:
        split = jnp.swapaxes(query.reshape(b, k, g, t, spec.size), 2, 3)
    return split.reshape(b, k, spec.rows, spec.size)


def _unrows(spec: DecodeSpec, x: jax.Array, layout: str) -> jax.Array:
    """Return rows (B, K, R, x) in a layout of queries."""
    b, t, k, g = spec.batch, spec.queries, spec.key_heads, spec.group
    split = x.reshape(b, k, t, g, x.shape[-1])
    if layout == "BTNH":
        return jnp.moveaxis(split, 1, 2).reshape(b, t, spec.heads, x.shape[-1])
    return jnp.swapaxes(split, 2, 3).reshape(b, spec.heads, t, x.shape[-1])


def _scale(spec: DecodeSpec, scale: jax.Array | None) -> tuple[jax.Array | None, jax.Array | None]:
    """Return a scale as a factor (B, K, 1) where positions share it, else as an array like the cache."""
    if scale is None:
        return None, None
    scale = scale.reshape((1,) * (3 - scale.ndim) + scale.shape)
    by_position = spec.layout == "BTNH"
    positions, heads = (1, 2) if by_position else (2, 1)
    if scale.shape[positions] == 1 and not (spec.page and scale.shape[0] > 1):
        factor = jnp.squeeze(scale, positions)
        return jnp.broadcast_to(factor, (spec.batch, spec.key_heads))[..., None].astype(spec.accumulator), None
    lead, length = (spec.pages, spec.page) if spec.page else (spec.batch, spec.keys)
    shape = [lead, length, length]
    shape[heads] = spec.key_heads
    return None, jnp.broadcast_to(scale, shape)


def _table(
    spec: DecodeSpec, table: jax.Array | None, lengths: jax.Array, offsets: jax.Array
) -> tuple[jax.Array | None, jax.Array | None]:
    """Return the table with every entry a page, and which rows (B,) need an entry that is none."""
    if table is None:
        return None, None
    first, stop = (x[..., None] for x in union_range(spec, lengths, offsets))
    begin = lax.broadcasted_iota(np.int32, (1, 1, table.shape[1]), 2) * np.int32(spec.page)
    needed = jnp.any((begin < stop) & (begin + spec.page > first) & (first < stop), 1)
    known = (table >= 0) & (table < spec.pages)
    return jnp.where(known, table, 0).astype(np.int32), jnp.any(needed & ~known, 1)
