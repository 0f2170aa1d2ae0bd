"""Attention one query at a time in float64: only what a query sees is looked at."""

from __future__ import annotations

import numpy as np


def attend(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    mask: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    causal: bool = False,
    q_offset: int | np.ndarray | None = None,
    window: tuple[int | None, int | None] = (None, None),
    segments: tuple[np.ndarray, np.ndarray] | None = None,
    query_lengths: np.ndarray | None = None,
    key_lengths: np.ndarray | None = None,
    softcap: float | None = None,
    sinks: np.ndarray | None = None,
    scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Result (B, T, N, V) and log-sum-exp (B, T, N) of operands (B, T, N, H)."""
    (b, t, n, h), (s, heads) = q.shape, k.shape[1:3]
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    out, lse = np.zeros((b, t, n, v.shape[-1])), np.full((b, t, n), -np.inf)
    scale = h**-0.5 if scale is None else scale
    add = np.zeros((b, n, t, s)) if bias is None else np.broadcast_to(np.asarray(bias, np.float64), (b, n, t, s))
    keep = np.ones((b, n, t, s), bool) if mask is None else np.broadcast_to(mask, (b, n, t, s))
    for i, j, m in np.ndindex(b, t, n):
        queries = t if query_lengths is None else int(query_lengths[i])
        keys = s if key_lengths is None else int(key_lengths[i])
        diagonal = j + (keys - queries if q_offset is None else int(np.broadcast_to(q_offset, (b,))[i]))
        left, right = window
        seen = [
            c
            for c in range(min(s, keys))
            if j < queries
            and keep[i, m, j, c]
            and add[i, m, j, c] != -np.inf
            and not (causal and c > diagonal)
            and not (left is not None and c < diagonal - left)
            and not (right is not None and c > diagonal + right)
            and (segments is None or segments[0][i, j] == segments[1][i, c])
        ]
        if not seen:
            continue
        group = m // (n // heads)
        scores = np.array([q[i, j, m] @ k[i, c, group] for c in seen]) * scale
        if softcap is not None:
            scores = softcap * np.tanh(scores / softcap)
        scores = scores + add[i, m, j, seen]
        every = scores if sinks is None else np.append(scores, sinks[m])
        top = every.max()
        total = np.exp(every - top).sum()
        out[i, j, m] = (np.exp(scores - top) / total) @ v[i, seen, group]
        lse[i, j, m] = top + np.log(total)
    return out, lse
