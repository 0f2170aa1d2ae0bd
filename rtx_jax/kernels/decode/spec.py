"""What one call of decode attention asks for, in normal form: the seam between the faces and the implementations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["DecodeOperands", "DecodeSpec", "Partial", "is_quantized", "whole_only"]

_PLAIN = ("float64", "float32", "bfloat16", "float16")


class DecodeOperands(NamedTuple):
    """The arrays of one call, checked; None where not given. R = T N / K rows of queries share a key head.

    Attributes
    ----------
    query
        (B, K, R, H): row ``t * (N // K) + g`` is query t of query head ``k * (N // K) + g``.
    key, value
        The cache. (B, S, K, H) and (B, S, K, Hv) in layout ``"BTNH"``, (B, K, S, H) and (B, K, S, Hv) in ``"BNTH"``.
        In pages (P, page, K, H) or (P, K, page, H), and so on.
    lengths, offsets
        int32 (B, K). Key positions from the length on are hidden; query t has its diagonal at ``t + offset``.
    table
        int32 (B, M): the page of each run of positions. Each entry that is needed names a page.
    factor
        (B, K, R), of the accumulator's dtype: what the products are multiplied by, instead of the scale.
    key_scale, value_scale
        Floating, of the shape of the cache without its last axis: what keys and values are multiplied by.
    sinks
        (B, K, R), of the accumulator's dtype: a logit of each row that takes weight and gives no value.
    """

    query: jax.Array
    key: jax.Array
    value: jax.Array
    lengths: jax.Array
    offsets: jax.Array
    table: jax.Array | None = None
    factor: jax.Array | None = None
    key_scale: jax.Array | None = None
    value_scale: jax.Array | None = None
    sinks: jax.Array | None = None


class Partial(NamedTuple):
    """Softmax over a part of the keys, with a leading axis of parts.

    Attributes
    ----------
    acc
        (parts, B, K, R, Hv): sums of values, by weights ``exp(score - m)``.
    m, total
        (parts, B, K, R): the greatest score, -infinity where the part shows the row no key, and the sum of weights.
    """

    acc: jax.Array
    m: jax.Array
    total: jax.Array


def is_quantized(dtype: np.dtype) -> bool:
    """Whether numbers of this dtype in a cache are exact in every floating dtype of queries: int8 and float8."""
    return dtype.name not in _PLAIN


@dataclass(frozen=True, slots=True)
class DecodeSpec:
    """The static part of one call; hashable.

    Attributes
    ----------
    batch, queries, keys
        B, T, and S: the capacity of the cache, in pages M times their size.
    heads, key_heads
        N and K.
    size, value_size
        H and Hv.
    dtype, key_dtype, value_dtype
        Of queries and the result, of keys, of values.
    layout
        ``"BTNH"`` or ``"BNTH"``.
    scale
        Factor of the products, where there is no operand for it.
    softcap
        Scores become ``softcap * tanh(scores / softcap)``; None for none.
    window
        Keys to the left and to the right of the diagonal that a query sees; None for all.
    page, pages
        Positions of a page, and P; 0 in a contiguous cache.
    per_head
        Whether lengths or offsets differ between the key heads of a row.
    precision
        Of float32 products: ``"highest"``, ``"high"`` or ``"default"``.
    splits
        Parts that the keys are split into; None leaves it to the implementation.
    """

    batch: int
    queries: int
    keys: int
    heads: int
    key_heads: int
    size: int
    value_size: int
    dtype: np.dtype
    key_dtype: np.dtype
    value_dtype: np.dtype
    layout: str = "BTNH"
    scale: float = 1.0
    softcap: float | None = None
    window: tuple[int | None, int | None] = (None, None)
    page: int = 0
    pages: int = 0
    per_head: bool = False
    precision: str = "highest"
    splits: int | None = None

    @property
    def group(self) -> int:
        """Query heads of one key head."""
        return self.heads // max(self.key_heads, 1)

    @property
    def rows(self) -> int:
        """R: rows of queries that share a key head."""
        return self.queries * self.group

    @property
    def accumulator(self) -> np.dtype:
        """The dtype of scores, statistics and sums."""
        wide = np.dtype(np.float64) in (self.dtype, self.key_dtype, self.value_dtype)
        return np.dtype(np.float64 if wide else np.float32)

    @property
    def factors(self) -> np.dtype:
        """The dtype of the factors of products on matrix units: the narrowest that holds queries and cache exactly."""
        plain = {x for x in (self.dtype, self.key_dtype, self.value_dtype) if not is_quantized(x)}
        return plain.pop() if len(plain) == 1 else np.dtype(jnp.result_type(*plain))


def whole_only(spec: DecodeSpec) -> list[str]:
    """Return why an implementation that does not split the keys cannot do a call."""
    nothing = 0 in (spec.batch, spec.queries, spec.keys, spec.heads, spec.size, spec.value_size)
    return (
        []
        if nothing or spec.splits in (None, 1)
        else [f"it does not split the keys, and splits={spec.splits} is for GPUs"]
    )
