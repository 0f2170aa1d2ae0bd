"""Attention and its gradients in float64 NumPy, with all scores at once: what the implementations are compared with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rtx_jax.kernels.attention.spec import AttentionSpec, Operands

__all__ = ["Exact", "attend", "random_operands", "seen_keys"]


@dataclass(frozen=True, slots=True)
class Exact:
    """Results in the layout of the call, and the gradients of ``sum(out * d_out) + sum(lse * d_lse)``."""

    out: np.ndarray
    lse: np.ndarray
    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    bias: np.ndarray | None
    sinks: np.ndarray | None


def seen_keys(spec: AttentionSpec, operands: Operands) -> np.ndarray:
    """Return which keys each query sees, (B, N, T, S)."""
    full = (spec.batch, spec.heads, spec.queries, spec.keys)
    t, s = np.arange(spec.queries)[:, None], np.arange(spec.keys)
    seen = np.ones(full, bool)
    offset = spec.q_offset if operands.q_offset is None else np.asarray(operands.q_offset, int)[:, None, None, None]
    left, right = spec.window
    if left is not None:
        seen &= s >= t + offset - left
    if right is not None:
        seen &= s <= t + offset + right
    if operands.query_lengths is not None:
        seen &= t < np.asarray(operands.query_lengths)[:, None, None, None]
    if operands.key_lengths is not None:
        seen &= s < np.asarray(operands.key_lengths)[:, None, None, None]
    if operands.segment_ids is not None:
        own, other = np.asarray(operands.segment_ids), np.asarray(operands.key_segment_ids)
        seen &= (own[:, :, None] == other[:, None, :])[:, None]
    if operands.mask is not None:
        seen &= np.asarray(operands.mask)
    if operands.bias is not None:
        seen &= np.asarray(operands.bias, np.float64) != -np.inf
    return seen


def attend(spec: AttentionSpec, operands: Operands, d_out: np.ndarray, d_lse: np.ndarray) -> Exact:
    """Return results and gradients; a hidden key has weight 0 and takes part in no sum."""
    by_position = spec.layout == "BTNH"
    swap = (lambda x: x.swapaxes(1, 2)) if by_position else (lambda x: x)
    query, key, value, d_out = (
        swap(np.asarray(x, np.float64)) for x in (operands.query, operands.key, operands.value, d_out)
    )
    key, value = key.repeat(spec.group, 1), value.repeat(spec.group, 1)
    seen = seen_keys(spec, operands)
    scores = query @ key.swapaxes(2, 3) * spec.scale
    slope = spec.scale
    if spec.softcap is not None:
        tanh = np.tanh(scores / spec.softcap)
        scores, slope = spec.softcap * tanh, spec.scale * (1 - tanh**2)
    if operands.bias is not None:
        scores = scores + np.where(seen, np.asarray(operands.bias, np.float64), 0)
    scores = np.where(seen, scores, -np.inf)
    sinks = None if operands.sinks is None else np.asarray(operands.sinks, np.float64)[:, None]
    some = seen.any(-1)
    top = scores.max(-1, initial=-np.inf)
    top = np.where(some, top if sinks is None else np.maximum(top, sinks), 0)
    powers = np.exp(scores - top[..., None])
    total = powers.sum(-1) + (0 if sinks is None else np.exp(sinks - top))
    weights = powers / np.where(some, total, 1)[..., None]
    with np.errstate(divide="ignore"):
        lse = np.where(some, top + np.log(total), -np.inf)
    out = weights @ value
    d_weights = d_out @ value.swapaxes(2, 3)
    pull = np.where(some, (weights * d_weights).sum(-1) - np.asarray(d_lse, np.float64), 0)
    d_scores = weights * (d_weights - pull[..., None])
    d_products = d_scores * slope
    grouped = (spec.batch, spec.key_heads, spec.group, spec.keys, -1)
    d_bias = d_sinks = None
    if spec.bias is not None:
        shared = tuple(axis for axis in range(4) if spec.bias[axis] == 1)
        d_bias = d_scores.sum(shared, keepdims=True)
    if sinks is not None:
        sink_weights = np.where(some, np.exp(sinks - np.where(some, lse, 0)), 0)
        d_sinks = -(sink_weights * pull).sum((0, 2))
    return Exact(
        swap(out),
        lse,
        swap(d_products @ key),
        swap((d_products.swapaxes(2, 3) @ query).reshape(grouped).sum(2)),
        swap((weights.swapaxes(2, 3) @ d_out).reshape(grouped).sum(2)),
        d_bias,
        d_sinks,
    )


def random_operands(spec: AttentionSpec, rng: np.random.Generator) -> Operands:
    """Return operands of a call, in float64 for floating ones."""
    by_position = spec.layout == "BTNH"

    def head(length: int, heads: int, size: int) -> np.ndarray:
        shape = (spec.batch, length, heads, size) if by_position else (spec.batch, heads, length, size)
        return rng.standard_normal(shape)

    bias = None
    if spec.bias is not None:
        bias = np.where(rng.random(spec.bias) < 0.1, -np.inf, rng.standard_normal(spec.bias))
    segments = (None, None)
    if spec.segments:
        segments = tuple(np.sort(rng.integers(0, 3, (spec.batch, n)), 1) for n in (spec.queries, spec.keys))
    return Operands(
        head(spec.queries, spec.heads, spec.size),
        head(spec.keys, spec.key_heads, spec.size),
        head(spec.keys, spec.key_heads, spec.value_size),
        None if spec.mask is None else rng.random(spec.mask) < 0.7,
        bias,
        *segments,
        rng.integers(0, spec.queries + 1, spec.batch) if spec.query_lengths else None,
        rng.integers(0, spec.keys + 1, spec.batch) if spec.key_lengths else None,
        rng.standard_normal(spec.heads) if spec.sinks_dtype is not None else None,
        rng.integers(-2, spec.keys, spec.batch) if spec.q_offset is None else None,
    )
