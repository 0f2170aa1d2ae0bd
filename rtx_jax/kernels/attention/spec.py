"""What one call of attention asks for, in normal form: the seam between the face and the implementations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np

__all__ = ["AttentionSpec", "Gradients", "Operands"]


class Operands(NamedTuple):
    """The arrays of one call, checked; None where not given.

    Attributes
    ----------
    query, key, value
        In the layout of the specification: ``(B, T, N, H)``, ``(B, S, K, H)``, ``(B, S, K, Hv)`` for ``"BTNH"``;
        ``(B, N, T, H)``, ``(B, K, S, H)``, ``(B, K, S, Hv)`` for ``"BNTH"``.
    mask
        Bool of four axes, each that of ``(B, N, T, S)`` or 1; True lets a query see a key.
    bias
        Floating, of four axes as `mask`; added to the scores after `softcap`. Minus infinity hides.
    segment_ids, key_segment_ids
        int32 ``(B, T)`` and ``(B, S)``, both or neither.
    query_lengths, key_lengths
        int32 ``(B,)``.
    sinks
        Floating ``(N,)``: a logit of each head that takes weight and gives no value.
    q_offset
        int32 ``(B,)``, where the specification's is None and the mask needs a diagonal.
    """

    query: jax.Array
    key: jax.Array
    value: jax.Array
    mask: jax.Array | None = None
    bias: jax.Array | None = None
    segment_ids: jax.Array | None = None
    key_segment_ids: jax.Array | None = None
    query_lengths: jax.Array | None = None
    key_lengths: jax.Array | None = None
    sinks: jax.Array | None = None
    q_offset: jax.Array | None = None


class Gradients(NamedTuple):
    """Cotangents of the operands that have any, in their shapes and dtypes; None where not asked for."""

    query: jax.Array
    key: jax.Array
    value: jax.Array
    bias: jax.Array | None = None
    sinks: jax.Array | None = None


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    """The static part of one call; hashable, so it is a parameter of primitives and a key of caches.

    Attributes
    ----------
    batch, queries, keys
        B, T, S.
    heads, key_heads
        N and K; K divides N, and query head n reads key head ``n // (N // K)``.
    size, value_size
        H of queries and keys, and Hv of values.
    dtype
        Of queries, keys, values and the result. Statistics and sums are float32, of float64 float64.
    layout
        ``"BTNH"`` or ``"BNTH"``.
    scale
        Factor of the products.
    softcap
        Scores become ``softcap * tanh(scores / softcap)`` before the bias; None for none.
    window
        Keys to the left and to the right of the diagonal that a query sees, None for all. Causal attention is a
        right side of 0: the normal form has no other word for it.
    q_offset
        Query t has its diagonal at key ``t + q_offset``. None where it is an operand.
    mask, bias
        Their shapes, four axes, or None.
    bias_dtype, sinks_dtype
        Of these operands, or None without them.
    segments, query_lengths, key_lengths
        Whether the operand is there.
    precision
        Of float32 products: ``"highest"``, ``"high"`` or ``"default"``.
    nan_safe
        Whether NaN and infinity in a value reach only the queries that see it, at some cost.
    fast
        Whether the exponential may be a polynomial of 2e-6 relative error.
    """

    batch: int
    queries: int
    keys: int
    heads: int
    key_heads: int
    size: int
    value_size: int
    dtype: np.dtype
    layout: str = "BTNH"
    scale: float = 1.0
    softcap: float | None = None
    window: tuple[int | None, int | None] = (None, None)
    q_offset: int | None = 0
    mask: tuple[int, int, int, int] | None = None
    bias: tuple[int, int, int, int] | None = None
    bias_dtype: np.dtype | None = None
    sinks_dtype: np.dtype | None = None
    segments: bool = False
    query_lengths: bool = False
    key_lengths: bool = False
    precision: str = "highest"
    nan_safe: bool = False
    fast: bool = False

    @property
    def causal(self) -> bool:
        """Whether no query sees past its diagonal."""
        return self.window[1] == 0

    @property
    def group(self) -> int:
        """Query heads of one key head."""
        return self.heads // max(self.key_heads, 1)

    @property
    def accumulator(self) -> np.dtype:
        """The dtype of statistics and sums."""
        return np.dtype(np.float64 if self.dtype == np.float64 else np.float32)
