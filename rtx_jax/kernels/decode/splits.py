"""Softmax in parts: how parts of the keys are merged, and what comes last on every implementation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from .ranges import row_ranges
from .spec import DecodeOperands, DecodeSpec, Partial

__all__ = ["finish", "merge", "safe_top"]


def safe_top(m: jax.Array) -> jax.Array:
    """Return `m`, 0 for -infinity: from there on ``exp(x - m)`` is 0 for all that is hidden, and never NaN for it."""
    return jnp.where(m == -jnp.inf, jnp.zeros_like(m), m)


def merge(parts: Partial) -> Partial:
    """Return the softmax over all parts, without the leading axis. The order of the sums is fixed."""
    if parts.m.shape[0] == 1:
        return Partial(parts.acc[0], parts.m[0], parts.total[0])
    m = jnp.max(parts.m, 0)
    weight = jnp.exp(parts.m - safe_top(m)[None])
    return Partial(jnp.sum(weight[..., None] * parts.acc, 0), m, jnp.sum(weight * parts.total, 0))


def finish(spec: DecodeSpec, operands: DecodeOperands, parts: Partial) -> tuple[jax.Array, jax.Array]:
    """Return the result (B, K, R, Hv) and the log-sum-exp (B, K, R), in the accumulator's dtype.

    A row that sees no key gives 0 and -infinity, with sinks too.
    """
    acc, m, total = merge(parts)
    first, stop = row_ranges(spec, operands.lengths, operands.offsets)
    empty = stop <= first
    m = jnp.where(empty, jnp.zeros_like(m), m)
    if operands.sinks is not None:
        top = jnp.maximum(m, lax.stop_gradient(operands.sinks))
        rescale = jnp.exp(m - safe_top(top))
        acc, total = acc * rescale[..., None], total * rescale + jnp.exp(operands.sinks - safe_top(top))
        m = top
    total = jnp.where(empty, jnp.ones_like(total), total)
    out = jnp.where(empty[..., None], jnp.zeros_like(acc), acc / total[..., None])
    return out, jnp.where(empty, -jnp.inf, m + jnp.log(total))
