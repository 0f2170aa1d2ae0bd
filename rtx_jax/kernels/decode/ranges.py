"""Which keys a row of queries sees: one range each, since a cache hides by length and by distance alone."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ...raw._kinds import of_rank
from .spec import DecodeSpec

__all__ = ["row_range", "row_ranges", "union_range"]


def row_range(
    spec: DecodeSpec, length: jax.Array, offset: jax.Array, query: jax.Array | int
) -> tuple[jax.Array, jax.Array]:
    """Return the first position that query number `query` sees, and the one after the last; empty when not below."""
    first, stop = jnp.zeros_like(length), jnp.minimum(length, spec.keys)
    left, right = spec.window
    if left is not None:
        first = jnp.maximum(offset + query - left, first)
    if right is not None:
        stop = jnp.minimum(stop, offset + query + right + 1)
    shape = jnp.broadcast_shapes(jnp.shape(length), jnp.shape(query))
    return jnp.broadcast_to(first, shape), jnp.broadcast_to(stop, shape)


def union_range(spec: DecodeSpec, length: jax.Array, offset: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the range of all that any query sees."""
    return row_range(spec, length, offset, 0)[0], row_range(spec, length, offset, spec.queries - 1)[1]


def row_ranges(spec: DecodeSpec, lengths: jax.Array, offsets: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the ranges of all rows, each of shape (..., R), for lengths and offsets of shape (...)."""
    query: jax.Array = jnp.repeat(
        jnp.arange(spec.queries, dtype=lengths.dtype), spec.group, total_repeat_length=spec.rows
    )
    return row_range(spec, lengths[..., None], offsets[..., None], of_rank(query, lengths.ndim + 1))
