"""Operands of the Hopper kernels: padded to whole blocks, and free of NaN where nobody looks."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .pallas_mosaic_gpu_tiles import LOG2E, Shape
from .reference import keep
from .spec import AttentionSpec, Operands

__all__ = [
    "hide_queries",
    "kernel_operands",
    "last_queries",
    "pad_rows",
    "padded",
    "seen_keys",
    "segment_blocks",
    "sinks_in_log2",
]


def kernel_operands(
    shape: Shape, operands: Operands, *, backward: bool = False, transposed: bool = False
) -> dict[str, jax.Array]:
    """Return what a kernel takes, by name and in order.

    `transposed` exchanges the axes T and S of mask and bias where they are tiles.

    Keys and values that no query sees, and for the gradients queries past the length of their row, become 0: a hidden
    NaN would survive the product with a weight of 0. So it would where only some queries see it, and for the gradients
    keys become finite: who sees such a key has a NaN for a log-sum-exp, and gets NaN by that. An infinity becomes the
    greatest number, as one that makes a score of minus infinity has no weight.
    """
    spec = shape.spec
    query, key, value = operands.query, operands.key, operands.value
    seen = seen_keys(spec, operands)
    if seen is not None:
        value = jnp.where(seen, value, np.zeros((), value.dtype))
        key = jnp.where(seen, key, np.zeros((), key.dtype)) if backward else key
    key = jnp.nan_to_num(key) if backward and _hides_from_some(spec) else key
    if backward and operands.query_lengths is not None:
        query = hide_queries(spec, query, operands.query_lengths)
    found = {
        "query": padded(spec.layout, query, shape.queries, shape.size),
        "key": padded(spec.layout, key, shape.keys, shape.size),
        "value": padded(spec.layout, value, shape.keys, shape.value_size),
    }
    for name, kind, dtype in (("bias", shape.bias, None), ("mask", shape.mask, np.int8)):
        x = getattr(operands, name)
        if x is not None:
            x = _pair(shape, x, kind, dtype)
            found[name] = x.swapaxes(2, 3) if transposed and kind == "tile" else x
    if operands.segment_ids is not None and operands.key_segment_ids is not None:
        # What padding gets makes no difference: those keys are past the length, those queries are cut off.
        found["segment_ids"] = _pad(operands.segment_ids, 1, shape.queries)
        found["key_segment_ids"] = _pad(operands.key_segment_ids, 1, shape.keys)
    for name in ("q_offset", "key_lengths", "query_lengths"):
        x = getattr(operands, name)
        if x is not None:
            found[name] = lax.convert_element_type(x, jnp.int32)
    return found


def last_queries(spec: AttentionSpec, operands: Operands, count: int) -> tuple[AttentionSpec, Operands]:
    """Return the call of the last `count` queries alone."""
    skipped = spec.queries - count
    axis = 1 if spec.layout == "BTNH" else 2

    def pairs(x: jax.Array | None) -> jax.Array | None:
        return x if x is None or x.shape[2] == 1 else x[:, :, skipped:]

    def shape(x: jax.Array | None) -> tuple[int, int, int, int] | None:
        return None if x is None else (x.shape[0], x.shape[1], x.shape[2], x.shape[3])

    mask, bias = pairs(operands.mask), pairs(operands.bias)
    given = operands._replace(
        query=lax.slice_in_dim(operands.query, skipped, spec.queries, axis=axis),
        mask=mask,
        bias=bias,
        segment_ids=None if operands.segment_ids is None else operands.segment_ids[:, skipped:],
        query_lengths=None if operands.query_lengths is None else operands.query_lengths - skipped,
        q_offset=None if operands.q_offset is None else operands.q_offset + skipped,
    )
    offset = None if spec.q_offset is None else spec.q_offset + skipped
    return replace(spec, queries=count, q_offset=offset, mask=shape(mask), bias=shape(bias)), given


def hide_queries(spec: AttentionSpec, x: jax.Array, lengths: jax.Array) -> jax.Array:
    """Return an array of the queries' layout with 0 past each row's length."""
    inside = lax.broadcasted_iota(np.int32, (1, spec.queries), 1) < lengths[:, None]
    return jnp.where(_beside(spec.layout, inside[:, None]), x, np.zeros((), x.dtype))


def seen_keys(spec: AttentionSpec, operands: Operands) -> jax.Array | None:
    """Return which keys some query sees, to broadcast to the keys; None where every one is seen."""
    static = not (spec.query_lengths or spec.key_lengths or spec.segments or spec.mask) and spec.q_offset is not None
    if static and _all_seen(spec):
        return None
    if spec.segments or spec.mask:
        # One pass over pairs of positions, without heads but for those of the mask.
        pairs = keep(spec, operands._replace(bias=None))
        assert pairs is not None
        pairs = jnp.broadcast_to(pairs, (*pairs.shape[:3], spec.queries, spec.keys))
        return _beside(spec.layout, jnp.any(pairs, (2, 3)))
    rows = 1 if static else spec.batch
    queries = jnp.full((rows,), spec.queries) if operands.query_lengths is None else operands.query_lengths
    keys = jnp.full((rows,), spec.keys) if operands.key_lengths is None else operands.key_lengths
    offset = jnp.full((rows,), spec.q_offset or 0) if operands.q_offset is None else operands.q_offset
    s = lax.broadcasted_iota(np.int32, (1, spec.keys), 1)
    # The queries that see key s are those from s - offset - right to s - offset + left.
    left, right = spec.window
    first = 0 if right is None else jnp.maximum(s - offset[:, None] - right, 0)
    last = (queries - 1)[:, None] if left is None else jnp.minimum(s - offset[:, None] + left, (queries - 1)[:, None])
    return _beside(spec.layout, ((first <= last) & (s < keys[:, None]))[:, None])


def _hides_from_some(spec: AttentionSpec) -> bool:
    """Tell whether a key that one query sees may be hidden from another."""
    tables = spec.mask is not None or spec.bias is not None or spec.segments
    return tables or spec.query_lengths or spec.window != (None, None)


def _all_seen(spec: AttentionSpec) -> bool:
    left, right = spec.window
    assert spec.q_offset is not None
    first_is = left is None or spec.q_offset - left <= 0
    last_is = right is None or spec.queries - 1 + spec.q_offset + right >= spec.keys - 1
    # Between the two there is no gap, as the diagonal advances by one key a query.
    return first_is and last_is


def segment_blocks(query: jax.Array, key: jax.Array, rows: int, columns: int) -> dict[str, jax.Array]:
    """Return from and to which block of ``columns`` keys each tile of ``rows`` queries has segments in common.

    A block counts where the ranges of identifiers overlap, which is exact where sequences lie one after another.
    """
    low, high = (f(query.reshape(len(query), -1, 1, rows), axis=-1) for f in (jnp.min, jnp.max))
    key_low, key_high = (f(key.reshape(len(key), 1, -1, columns), axis=-1) for f in (jnp.min, jnp.max))
    common = (low <= key_high) & (key_low <= high)
    count = common.shape[-1]
    first = jnp.argmax(common, axis=-1)
    last = jnp.where(jnp.any(common, axis=-1), count - jnp.argmax(common[..., ::-1], axis=-1), 0)
    return {"first_block": first.astype(jnp.int32), "last_block": last.astype(jnp.int32)}


def pad_rows(x: jax.Array, queries: int, value: float) -> jax.Array:
    """Return numbers of rows ``(B, N, T)`` filled up with `value`."""
    return jnp.pad(x, ((0, 0), (0, 0), (0, queries - x.shape[2])), constant_values=value)


def padded(layout: str, x: jax.Array, positions: int, size: int) -> jax.Array:
    """Return an operand with its positions and its last axis filled up with 0."""
    return _pad(_pad(x, 1 if layout == "BTNH" else 2, positions), 3, size)


def _pair(shape: Shape, x: jax.Array, kind: str, dtype: type[np.generic] | None) -> jax.Array:
    """Return a mask or bias as a tile; or as ``(B or 1, N or 1, 1, positions)``, in float32 and int32."""
    if kind != "tile":
        dtype = np.int32 if x.dtype == np.bool_ else np.float32
    elif x.dtype == np.float64:
        dtype = np.float32
    x = x if dtype is None else lax.convert_element_type(x, dtype)
    if kind == "tile":
        return _pad(_pad(x, 2, shape.queries), 3, shape.keys)
    if kind == "row":
        return _pad(x.swapaxes(2, 3), 3, shape.queries)
    return _pad(jnp.broadcast_to(x, (*x.shape[:3], shape.spec.keys)), 3, shape.keys)


def _beside(layout: str, x: jax.Array) -> jax.Array:
    """Give a table ``(B, K or 1, S)`` the axes of an operand."""
    return x.swapaxes(1, 2)[..., None] if layout == "BTNH" else x[..., None]


def _pad(x: jax.Array, axis: int, size: int) -> jax.Array:
    missing = size - x.shape[axis]
    return x if missing == 0 else jnp.pad(x, [(0, missing if i == axis else 0) for i in range(x.ndim)])


def sinks_in_log2(sinks: jax.Array) -> jax.Array:
    """Return the sinks in the units of the scores; finite ones stay finite."""
    wide = lax.convert_element_type(sinks, jnp.float32)
    most = np.finfo(np.float32).max
    return jnp.where(jnp.isinf(wide), wide, jnp.clip(wide * np.float32(LOG2E), -most, most))
