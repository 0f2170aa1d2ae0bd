"""Attention on raw arrays: the plain form, which holds all scores at once.

Scores, softmax and sums are formed in float32 (float64 of float64) and the result is rounded once. What a query does
not see never reaches it: hidden NaN and infinities change neither results nor gradients.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._compat import guard_dot
from ..checks import attention as _check
from ..checks import linear as _linear
from ..checks.choices import flag
from ..core.dtypes import bool_, float32, float64
from ..raw._kinds import cast

__all__ = ["attention"]

# b: batch, t: queries, s: keys, k: key heads, g: query heads of one key head, h: head size.
_SCORES = {"BTNH": "btkgh,bskh->bkgts", "BNTH": "bkgth,bksh->bkgts"}
_VALUES = {"BTNH": "bkgts,bskh->btkgh", "BNTH": "bkgts,bksh->bkgth"}


def attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    mask: jax.Array | None = None,
    bias: jax.Array | None = None,
    segment_ids: jax.Array | None = None,
    key_segment_ids: jax.Array | None = None,
    query_lengths: jax.Array | None = None,
    key_lengths: jax.Array | None = None,
    sinks: jax.Array | None = None,
    q_offset: jax.Array | int | None = None,
    *,
    causal: bool = False,
    window: int | tuple[int | None, int | None] | None = None,
    softcap: float | None = None,
    scale: float | None = None,
    layout: str = "BTNH",
    return_lse: bool = False,
    precision: str | None = None,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Return ``softmax(query @ key.T * scale + bias) @ value`` over the keys that each query sees.

    `rtx_jax.nn.attention` says what the parameters mean; `key_segment_ids` are those of the keys where they differ
    from those of the queries, and a floating `mask` is added to the bias. `precision` is that of float32 products.
    """
    arrays = {
        "query": query,
        "key": key,
        "value": value,
        "mask": mask,
        "bias": bias,
        "segment_ids": segment_ids,
        "key_segment_ids": key_segment_ids,
        "query_lengths": query_lengths,
        "key_lengths": key_lengths,
        "sinks": sinks,
        "q_offset": None if isinstance(q_offset, int) else q_offset,
    }
    sizes = _check.attention(
        {name: None if x is None else (x.shape, np.dtype(x.dtype)) for name, x in arrays.items()},
        layout=layout,
        window=window,
        softcap=softcap,
        scale=scale,
    )
    exactness = _linear.precision("attention", precision)
    work = float64 if float64 in (query.dtype, key.dtype, value.dtype) else float32
    heads = (sizes.key_heads, sizes.heads // max(sizes.key_heads, 1))
    grouped = _grouped_query(query, heads, layout)
    if mask is not None and mask.dtype != bool_:
        bias = cast(mask, work) if bias is None else cast(mask, work) + cast(bias, work)
        mask = None
    if bias is not None:
        bias = cast(_grouped_scores(bias, heads), work)
    hidden_by = [] if bias is None else [bias > -jnp.inf]
    if mask is not None:
        hidden_by.append(_grouped_scores(mask, heads))
    hidden_by += _positions(sizes, causal, q_offset, query_lengths, key_lengths)
    if segment_ids is not None:
        other = segment_ids if key_segment_ids is None else key_segment_ids
        hidden_by.append(segment_ids[:, None, None, :, None] == other[:, None, None, None, :])
    keep = functools.reduce(jnp.logical_and, hidden_by) if hidden_by else None

    full = (sizes.batch, *heads, sizes.queries, sizes.keys)
    if 0 in full:
        out = lax.full((*query.shape[:-1], sizes.value_size), 0, query.dtype)
        empty = lax.full(full[:-1], -np.inf, work)
        return (out, _like_query(empty, query, layout)) if flag("attention", "return_lse", return_lse) else out
    scores = guard_dot(_product(_SCORES[layout], exactness, cast(grouped, work), cast(key, work))) * sizes.scale
    if sizes.softcap is not None:
        scores = sizes.softcap * lax.tanh(scores / sizes.softcap)
    if bias is not None:
        scores = scores + bias
    if keep is not None:
        # First of all, so that nothing of a hidden key is left.
        scores = jnp.where(keep, scores, -jnp.inf)
    weights, lse = _softmax(scores, keep, None if sinks is None else cast(sinks, work).reshape(1, *heads, 1, 1))
    out = _weighted(_VALUES[layout], exactness, weights, cast(value, work), keep)
    out = cast(out, query.dtype).reshape(*query.shape[:-1], sizes.value_size)
    return (out, _like_query(lse, query, layout)) if flag("attention", "return_lse", return_lse) else out


def _grouped_query(query: jax.Array, heads: tuple[int, int], layout: str) -> jax.Array:
    b, x, y, h = query.shape
    return query.reshape(b, x, *heads, h) if layout == "BTNH" else query.reshape(b, *heads, y, h)


def _grouped_scores(x: jax.Array, heads: tuple[int, int]) -> jax.Array:
    """Return what broadcasts to (B, N, T, S) with the axis of heads split, as the scores are."""
    x = x.reshape((1,) * (4 - x.ndim) + x.shape)
    return x.reshape(x.shape[0], *((1, 1) if x.shape[1] == 1 else heads), *x.shape[2:])


def _like_query(x: jax.Array, query: jax.Array, layout: str) -> jax.Array:
    """Return one number for each query and head, in the order of the axes of `query`."""
    x = x.reshape(x.shape[0], x.shape[1] * x.shape[2], x.shape[-1])
    return lax.transpose(x, (0, 2, 1)) if layout == "BTNH" else x


def _positions(
    sizes: _check.Sizes,
    causal: bool,
    q_offset: jax.Array | int | None,
    query_lengths: jax.Array | None,
    key_lengths: jax.Array | None,
) -> list[jax.Array]:
    """Return which keys each query sees by lengths, causality and window."""
    # Made on the device: a table of T times S would be a constant of the program.
    t = lax.broadcasted_iota(np.int32, (sizes.queries, 1), 0)
    s = lax.broadcasted_iota(np.int32, (1, sizes.keys), 1)
    rows = [
        None if n is None else cast(n, np.dtype(np.int32)).reshape(-1, 1, 1, 1, 1) for n in (query_lengths, key_lengths)
    ]
    seen = [at < n for at, n in zip((t, s), rows, strict=True) if n is not None]
    left, right = sizes.window
    if flag("attention", "causal", causal):
        right = 0
    if left is None and right is None:
        return seen
    offset: jax.Array | int
    if q_offset is None:
        queries, keys = (n if row is None else row for n, row in zip((sizes.queries, sizes.keys), rows, strict=True))
        offset = keys - queries
    elif isinstance(q_offset, int):
        offset = q_offset
    else:
        offset = cast(q_offset, np.dtype(np.int32)).reshape(-1, 1, 1, 1, 1)
    diagonal = t + offset
    if left is not None:
        seen.append(s >= diagonal - left)
    if right is not None:
        seen.append(s <= diagonal + right)
    return seen


def _softmax(scores: jax.Array, keep: jax.Array | None, sinks: jax.Array | None) -> tuple[jax.Array, jax.Array]:
    """Return the weights of the keys, 0 in a row that sees none, and the log-sum-exp, -infinity there."""
    top = lax.stop_gradient(jnp.max(scores, -1, keepdims=True))
    if sinks is not None:
        top = jnp.maximum(top, lax.stop_gradient(sinks))
    if keep is None:
        powers = jnp.exp(scores - top)
        total = jnp.sum(powers, -1, keepdims=True)
        if sinks is not None:
            total = total + jnp.exp(sinks - top)
        return powers / total, (top + jnp.log(total))[..., 0]
    empty = jnp.broadcast_to(~jnp.any(keep, -1, keepdims=True), top.shape)
    top = jnp.where(empty, lax.full_like(top, 0), top)
    powers = jnp.exp(scores - top)
    total = jnp.sum(powers, -1, keepdims=True)
    if sinks is not None:
        total = total + jnp.exp(sinks - top)
    total = jnp.where(empty, lax.full_like(total, 1), total)
    # Beside a NaN that is seen, a hidden key still counts nothing.
    weights = jnp.where(keep, powers / total, lax.full_like(powers, 0))
    return weights, jnp.where(empty, -jnp.inf, top + jnp.log(total))[..., 0]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _product(spec: str, precision: str, a: jax.Array, b: jax.Array) -> jax.Array:
    """Products of queries and keys. A derivative of 0 by one of them stays 0 beside a NaN in the other."""
    product: jax.Array = jnp.einsum(spec, a, b, precision=precision)
    return product


@_product.defjvp
def _product_jvp(
    spec: str, precision: str, primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (a, b), (da, db) = primals, tangents
    einsum = functools.partial(jnp.einsum, spec, precision=precision)
    return _product(spec, precision, a, b), einsum(da, _finite(b)) + einsum(_finite(a), db)


def _finite(x: jax.Array) -> jax.Array:
    return jnp.where(lax.is_finite(x), x, lax.full_like(x, 0))


def _weighted(spec: str, precision: str, weights: jax.Array, value: jax.Array, keep: jax.Array | None) -> jax.Array:
    """Return the sums of values by weight, where what is hidden may be NaN or infinite."""
    einsum = functools.partial(jnp.einsum, spec, precision=precision)
    if keep is None:
        plain: jax.Array = guard_dot(einsum(weights, value))
        return plain
    out = guard_dot(einsum(weights, _finite(value)))

    def none(value: jax.Array) -> jax.Array:
        return lax.full_like(out, 0)

    def what_is_seen(value: jax.Array) -> jax.Array:
        sees = cast(jnp.broadcast_to(keep, weights.shape), value.dtype)
        nan, up, down = (
            einsum(sees, cast(which, value.dtype)) > 0
            for which in (jnp.isnan(value), value == jnp.inf, value == -jnp.inf)
        )
        infinite = jnp.where(up, jnp.inf, jnp.where(down, -jnp.inf, lax.full_like(out, 0)))
        return jnp.where(nan | (up & down), jnp.nan, infinite)

    value = lax.stop_gradient(value)
    seen: jax.Array = lax.cond(jnp.all(lax.is_finite(value)), none, what_is_seen, value)
    return out + seen
