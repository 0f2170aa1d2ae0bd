"""Decode attention by its definition, in float64 with NumPy: one query after the other, the keys that it sees."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

__all__ = ["Case", "attend"]


def attend(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    *,
    lengths: np.ndarray | None = None,
    query_lengths: np.ndarray | None = None,
    offset: np.ndarray | None = None,
    causal: bool = True,
    window: tuple[int | None, int | None] = (None, None),
    softcap: float | None = None,
    sinks: np.ndarray | None = None,
    scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the result (B, T, N, Hv) and the log-sum-exp (B, N, T), for operands (B, T, N, H), (B, S, K, H)."""
    b, t, n, h = query.shape
    s, k = key.shape[1:3]
    query, key, value = (np.asarray(x, np.float64) for x in (query, key, value))
    out, lse = np.zeros((b, t, n, value.shape[-1])), np.full((b, n, t), -math.inf)

    def per_head(x: np.ndarray | None, row: int, head: int) -> int | None:
        if x is None:
            return None
        return int(x[row] if np.ndim(x) == 1 else x[row, head])

    for row, i, head in np.ndindex(b, t, n):
        kept = head // (n // k)
        length = per_head(lengths, row, kept)
        length = s if length is None else length
        queries = t if query_lengths is None else int(query_lengths[row])
        if i >= queries:
            continue
        start = per_head(offset, row, kept)
        diagonal = i + (length - queries if start is None else start)
        at = np.arange(s)
        sees = at < length
        left, right = window
        right = 0 if causal else right
        if left is not None:
            sees &= at >= diagonal - left
        if right is not None:
            sees &= at <= diagonal + right
        if not sees.any():
            continue
        scores = key[row, sees, kept] @ query[row, i, head] * (1 / math.sqrt(h) if scale is None else scale)
        if softcap is not None:
            scores = softcap * np.tanh(scores / softcap)
        logits = scores if sinks is None else np.append(scores, np.float64(sinks[head]))
        top = logits.max()
        total = np.exp(logits - top).sum()
        out[row, i, head] = np.exp(scores - top) / total @ value[row, sees, kept]
        lse[row, head, i] = top + math.log(total)
    return out, lse


@dataclass(frozen=True)
class Case:
    """Sizes and features of one call.

    Attributes
    ----------
    t, n, k, h, hv, s
        Sizes; three rows of the batch, of lengths s, about a third of it, and 0.
    page
        Positions of a page; 0 for a contiguous cache.
    quantized
        dtype of the cache, or an empty text.
    scales
        ``"position"``, ``"head"`` or ``"all"``: what shares a scale of a quantized cache.
    options
        Further parameters, `offset` and `sinks` among them.
    """

    t: int = 2
    n: int = 4
    k: int = 2
    h: int = 16
    hv: int = 24
    s: int = 129
    dtype: str = "float32"
    layout: str = "BTNH"
    page: int = 0
    quantized: str = ""
    scales: str = "position"
    per_head: bool = False
    options: dict[str, object] = field(default_factory=dict)

    def build(self, seed: int = 0) -> tuple[list[np.ndarray], dict[str, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Return the operands by position and by name, and what the oracle makes of them."""
        draw = np.random.default_rng(seed)
        b, dtype = 3, np.dtype(getattr(ml_dtypes, self.dtype, self.dtype))
        query = draw.normal(size=(b, self.t, self.n, self.h)).astype(dtype)
        lengths = np.array([self.s, self.s // 3 + 1, 0], np.int32)
        if self.per_head:
            lengths = np.stack([lengths, np.roll(lengths, 1)], 1)
        if self.page:
            entries = -(-self.s // self.page)
            table = draw.permutation(b * entries + 2)[: b * entries].reshape(b, entries).astype(np.int32)
            lead = (b * entries + 2, self.page, self.k)
        else:
            table, lead = None, (b, self.s, self.k)
        names = {"key_lengths": lengths}
        caches, exact = [], []
        for name, size in (("key", self.h), ("value", self.hv)):
            cache = draw.normal(size=(*lead, size)).astype(np.float32)
            if not self.quantized:
                cache = cache.astype(dtype)
                exact.append(cache.astype(np.float64))
            else:
                top = 127 if self.quantized == "int8" else 100
                axes = {"position": (3,), "head": (0, 1, 3), "all": (0, 1, 2, 3)}[self.scales]
                scale = (np.abs(cache).max(axes, keepdims=True)[..., 0] / top).astype(np.float32)
                cache = cache / scale[..., None]
                cache = np.round(cache) if self.quantized == "int8" else cache
                cache = cache.astype(getattr(ml_dtypes, self.quantized, self.quantized))
                exact.append(cache.astype(np.float64) * scale[..., None])
                names[f"{name}_scale"] = scale
            caches.append(cache)
        if table is not None:
            exact = [x[table].reshape(b, -1, *x.shape[2:]) for x in exact]
        options = dict(self.options)
        expected = attend(query, *exact, lengths=lengths, **options)  # type: ignore[arg-type]
        for theirs, ours in (("offset", "q_offset"), ("query_lengths", "query_lengths"), ("sinks", "sinks")):
            if theirs in options:
                names[ours] = np.asarray(options.pop(theirs))
        arrays = [query, *caches]
        if self.layout == "BNTH":
            arrays = [x.swapaxes(1, 2) for x in arrays]
            names = {n: x.swapaxes(1, 2) if n.endswith("scale") else x for n, x in names.items()}
            expected = expected[0].swapaxes(1, 2), expected[1]
        if table is not None:
            arrays.append(table)
        return arrays, names, expected

    def parameters(self) -> dict[str, object]:
        """Return the static parameters of the call."""
        static = {n: x for n, x in self.options.items() if n not in ("offset", "query_lengths", "sinks")}
        return {**static, "layout": self.layout, "return_lse": True}
