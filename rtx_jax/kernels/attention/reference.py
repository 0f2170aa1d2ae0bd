"""Attention with all scores at once: the oracle of the other implementations.

Scores, softmax and sums are formed in float32 (float64 of float64) and the result is rounded once. What a query does
not see never reaches it: hidden NaN and infinities change neither results nor gradients. JAX itself differentiates it.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._compat import guard_dot
from ..target import Target
from . import formulas
from .products import finite, product
from .spec import AttentionSpec, Gradients, Operands

__all__ = ["NAME", "backward", "forward", "keep", "scores", "unsupported"]

NAME = "reference"

# b: batch, t: queries, s: keys, k: key heads, g: query heads of one key head, h: head size.
_SCORES = {"BTNH": "btkgh,bskh->bkgts", "BNTH": "bkgth,bksh->bkgts"}
_VALUES = {"BTNH": "bkgts,bskh->btkgh", "BNTH": "bkgts,bksh->bkgth"}


def unsupported(spec: AttentionSpec, target: Target) -> list[str]:
    """Return why it cannot run this call; it always can."""
    del spec, target
    return []


def forward(
    spec: AttentionSpec, operands: Operands, *, blocks: None = None, interpret: bool = False
) -> tuple[jax.Array, jax.Array]:
    """Return the attention, in the layout and dtype of the queries, and the log-sum-exp ``(B, N, T)``.

    Notes
    -----
    Memory grows with T times S.
    """
    del blocks, interpret
    work = spec.accumulator
    seen = keep(spec, operands)
    sinks = None
    if operands.sinks is not None:
        sinks = lax.convert_element_type(operands.sinks, work).reshape(1, spec.key_heads, spec.group, 1, 1)
    weights, lse = _softmax(scores(spec, operands, seen), seen, sinks)
    value = lax.convert_element_type(operands.value, work)
    out = _weighted(_VALUES[spec.layout], spec.precision, weights, value, seen)
    lead = operands.query.shape[:-1]
    return (
        lax.convert_element_type(out, spec.dtype).reshape(*lead, spec.value_size),
        lse.reshape(spec.batch, spec.heads, spec.queries),
    )


def backward(
    spec: AttentionSpec,
    operands: Operands,
    out: jax.Array,
    lse: jax.Array,
    d_out: jax.Array,
    d_lse: jax.Array,
    *,
    bias: bool = False,
    sinks: bool = False,
    blocks: None = None,
    interpret: bool = False,
) -> Gradients:
    """Return the cotangents of the operands.

    They are JAX's of ``sum P`` and ``sum P v`` with P = exp(score - lse) at a fixed log-sum-exp, in which a sink is
    (see `formulas`).
    """
    del blocks, interpret
    work = spec.accumulator
    seen = keep(spec, operands)
    names = ["query", "key", "value", *(["bias"] if bias else [])]
    rows = (spec.batch, spec.key_heads, spec.group, spec.queries)
    known = lax.stop_gradient(lse).reshape(*rows, 1)
    total = jnp.where(known == -jnp.inf, jnp.inf, known)

    def run(*arrays: jax.Array) -> tuple[jax.Array, jax.Array]:
        given = operands._replace(**dict(zip(names, arrays, strict=True)))
        weights = jnp.exp(scores(spec, given, seen) - total)
        if seen is not None:
            weights = jnp.where(seen, weights, lax.full_like(weights, 0))
        value = finite(lax.convert_element_type(given.value, work))
        return jnp.sum(weights, -1), jnp.einsum(_VALUES[spec.layout], weights, value, precision=spec.precision)

    d_out = lax.convert_element_type(d_out, work)
    share = jnp.sum(lax.convert_element_type(out, work) * d_out, -1)
    if spec.layout == "BTNH":
        share = lax.transpose(share, (0, 2, 1))
    of_rows = d_lse - share
    (_, values), pull = jax.vjp(run, *(getattr(operands, name) for name in names))
    found = dict(zip(names, pull((of_rows.reshape(rows), d_out.reshape(values.shape))), strict=True))
    if sinks and operands.sinks is not None:
        weights = formulas.sink_weights(spec, operands.sinks, lse)
        found["sinks"] = lax.convert_element_type(jnp.sum(weights * of_rows, (0, 2)), operands.sinks.dtype)
    return Gradients(**found)


def keep(spec: AttentionSpec, operands: Operands) -> jax.Array | None:
    """Return which keys each query sees, to broadcast to ``(B, K, N/K, T, S)``; None for all of them."""
    # Made on the device: a table of T times S would be a constant of the program.
    t = lax.broadcasted_iota(np.int32, (1, 1, 1, spec.queries, 1), 3)
    s = lax.broadcasted_iota(np.int32, (1, 1, 1, 1, spec.keys), 4)

    def rows(x: jax.Array) -> jax.Array:
        return x.reshape(-1, 1, 1, 1, 1)

    seen: list[jax.Array] = []
    if operands.query_lengths is not None:
        seen.append(t < rows(operands.query_lengths))
    if operands.key_lengths is not None:
        seen.append(s < rows(operands.key_lengths))
    left, right = spec.window
    if left is not None or right is not None:
        offset = rows(operands.q_offset) if operands.q_offset is not None else spec.q_offset or 0
        diagonal = t + offset
        if left is not None:
            seen.append(s >= diagonal - left)
        if right is not None:
            seen.append(s <= diagonal + right)
    if operands.segment_ids is not None and operands.key_segment_ids is not None:
        seen.append(operands.segment_ids[:, None, None, :, None] == operands.key_segment_ids[:, None, None, None, :])
    if operands.mask is not None:
        seen.append(_grouped(spec, operands.mask))
    if operands.bias is not None:
        # Minus infinity hides, and so does what becomes it in the dtype of the scores.
        seen.append(_grouped(spec, lax.convert_element_type(operands.bias, spec.accumulator)) != -jnp.inf)
    return functools.reduce(jnp.logical_and, seen) if seen else None


def scores(spec: AttentionSpec, operands: Operands, seen: jax.Array | None) -> jax.Array:
    """Return the scores ``(B, K, N/K, T, S)`` in the accumulator's dtype, minus infinity where hidden."""
    work = spec.accumulator
    heads = (spec.key_heads, spec.group)
    b, x, y, h = operands.query.shape
    shape = (b, x, *heads, h) if spec.layout == "BTNH" else (b, *heads, y, h)
    query = lax.convert_element_type(operands.query, work).reshape(shape)
    key = lax.convert_element_type(operands.key, work)
    found = guard_dot(product(_SCORES[spec.layout], spec.precision, query, key)) * spec.scale
    if spec.softcap is not None:
        if seen is not None:
            # The slope at a NaN that is hidden would be NaN.
            found = jnp.where(seen, found, lax.full_like(found, 0))
        found = spec.softcap * lax.tanh(found / spec.softcap)
    if operands.bias is not None:
        found = found + _grouped(spec, lax.convert_element_type(operands.bias, work))
    # First of all, so that nothing of a hidden key is left.
    return found if seen is None else jnp.where(seen, found, -jnp.inf)


def _grouped(spec: AttentionSpec, x: jax.Array) -> jax.Array:
    """Return what broadcasts to (B, N, T, S) with the axis of heads split, as the scores are."""
    heads = (1, 1) if x.shape[1] == 1 else (spec.key_heads, spec.group)
    return x.reshape(x.shape[0], *heads, *x.shape[2:])


def _softmax(scores: jax.Array, seen: jax.Array | None, sinks: jax.Array | None) -> tuple[jax.Array, jax.Array]:
    """Return the weights of the keys, 0 in a row that sees none, and the log-sum-exp, -infinity there."""
    top = lax.stop_gradient(jnp.max(scores, -1, keepdims=True))
    if sinks is not None:
        top = jnp.maximum(top, lax.stop_gradient(sinks))
    if seen is None:
        powers = jnp.exp(scores - top)
        total = jnp.sum(powers, -1, keepdims=True)
        if sinks is not None:
            total = total + jnp.exp(sinks - top)
        return powers / total, (top + jnp.log(total))[..., 0]
    empty = jnp.broadcast_to(~jnp.any(seen, -1, keepdims=True), top.shape)
    top = jnp.where(empty, lax.full_like(top, 0), top)
    powers = jnp.exp(scores - top)
    total = jnp.sum(powers, -1, keepdims=True)
    if sinks is not None:
        total = total + jnp.exp(sinks - top)
    total = jnp.where(empty, lax.full_like(total, 1), total)
    # Beside a NaN that is seen, a hidden key still counts nothing.
    weights = jnp.where(seen, powers / total, lax.full_like(powers, 0))
    return weights, jnp.where(empty, -jnp.inf, top + jnp.log(total))[..., 0]


def _weighted(spec: str, precision: str, weights: jax.Array, value: jax.Array, seen: jax.Array | None) -> jax.Array:
    """Return the sums of values by weight, where what is hidden may be NaN or infinite."""
    einsum = functools.partial(jnp.einsum, spec, precision=precision)
    if seen is None:
        plain: jax.Array = guard_dot(einsum(weights, value))
        return plain
    out = guard_dot(einsum(weights, finite(value)))

    def none(value: jax.Array) -> jax.Array:
        return lax.full_like(out, 0)

    def what_is_seen(value: jax.Array) -> jax.Array:
        sees = lax.convert_element_type(jnp.broadcast_to(seen, weights.shape), value.dtype)
        nan, up, down = (
            einsum(sees, lax.convert_element_type(which, value.dtype)) > 0
            for which in (jnp.isnan(value), value == jnp.inf, value == -jnp.inf)
        )
        infinite = jnp.where(up, jnp.inf, jnp.where(down, -jnp.inf, lax.full_like(out, 0)))
        return jnp.where(nan | (up & down), jnp.nan, infinite)

    value = lax.stop_gradient(value)
    shown: jax.Array = lax.cond(jnp.all(lax.is_finite(value)), none, what_is_seen, value)
    return out + shown
