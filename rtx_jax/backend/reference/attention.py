"""Attention, one query at a time: softmax over the keys that it sees, then the sum of their values by weight.

What a query does not see is not looked at, so nothing hidden can reach it.
"""

from __future__ import annotations

import numpy as np

from ...checks import attention as check
from ...checks.linear import precision as check_precision
from .rounding import narrow, wide

__all__ = ["attention"]

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def attention(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    mask: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    segment_ids: np.ndarray | None = None,
    key_segment_ids: np.ndarray | None = None,
    query_lengths: np.ndarray | None = None,
    key_lengths: np.ndarray | None = None,
    sinks: np.ndarray | None = None,
    q_offset: np.ndarray | int | None = None,
    /,
    *,
    causal: bool = False,
    window: int | tuple[int | None, int | None] | None = None,
    softcap: float | None = None,
    scale: float | None = None,
    layout: str = "BTNH",
    return_lse: bool = False,
    precision: str | None = None,
) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
    """Return ``softmax(query @ key.T * scale + bias) @ value`` over the keys that each query sees.

    Parameters
    ----------
    query, key, value
        ``"BTNH"``: (B, T, N, H), (B, S, K, H), (B, S, K, Hv); ``"BNTH"`` has heads before positions. Head n of N
        reads head ``n // (N // K)`` of K.
    mask
        Broadcasts to (B, N, T, S). bool: True keeps. Floating: added to the scores, as `bias` is.
    bias
        Added to the scores after the soft cap; -infinity hides the key.
    segment_ids, key_segment_ids
        (B, T) and (B, S): a query sees keys of its own segment.
    query_lengths, key_lengths
        (B,): positions from these on neither see nor are seen.
    sinks
        (N,): a score of nothing, which takes part in the softmax.
    q_offset
        Query t lies on the diagonal at key ``t + q_offset``; S - T by default, of the lengths where given.
    causal, window
        Keys behind the diagonal are hidden; so are those more than (left, right) away from it.
    softcap
        Scores s become ``softcap * tanh(s / softcap)``.
    scale
        Factor of the scores, ``1 / sqrt(H)`` by default.
    return_lse
        Whether the logarithm of the sum of the exponential functions is returned too, sinks included.

    Returns
    -------
    ndarray
        As `query`, with the head size of `value`; 0 in a row that sees no key, whose log-sum-exp is -infinity.
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
    sizes = check.attention(
        {name: None if x is None else (x.shape, x.dtype) for name, x in arrays.items()},
        layout=layout,
        window=window,
        softcap=softcap,
        scale=scale,
    )
    check_precision("attention", precision)
    q, k, v = (wide(x if layout == "BNTH" else np.swapaxes(x, 1, 2)) for x in (query, key, value))
    full = (sizes.batch, sizes.heads, sizes.queries, sizes.keys)
    sees = _by_position(sizes, causal, query_lengths, key_lengths, q_offset)
    if segment_ids is not None:
        other = segment_ids if key_segment_ids is None else key_segment_ids
        sees = sees & (segment_ids[:, None, :, None] == other[:, None, None, :])
    added = np.zeros(full, q.dtype)
    for term in (mask, bias):
        if term is not None and term.dtype == np.bool_:
            sees = sees & term
        elif term is not None:
            added = added + wide(term)
            sees = sees & ~np.isneginf(wide(term))
    sees = np.broadcast_to(sees, full)

    out = np.zeros((*full[:3], sizes.value_size), np.result_type(q, k, v))
    lse = np.full(full[:3], -np.inf, out.dtype)
    with np.errstate(all="ignore"):
        for b, n, t in np.ndindex(full[:3]):
            keys = np.flatnonzero(sees[b, n, t])
            if not keys.size:
                continue
            group = n // (sizes.heads // sizes.key_heads)
            scores = k[b, group, keys] @ q[b, n, t] * sizes.scale
            if sizes.softcap is not None:
                scores = sizes.softcap * np.tanh(scores / sizes.softcap)
            scores = scores + added[b, n, t, keys]
            top = scores.max() if sinks is None else np.maximum(scores.max(), wide(sinks)[n])
            powers = np.exp(scores - top)
            total = powers.sum() + (0 if sinks is None else np.exp(wide(sinks)[n] - top))
            out[b, n, t] = powers / total @ v[b, group, keys]
            lse[b, n, t] = top + np.log(total)
    result = narrow(out, query.dtype)
    lse = narrow(lse, _FLOAT64 if _FLOAT64 in (query.dtype, key.dtype, value.dtype) else _FLOAT32)
    if layout == "BTNH":
        result, lse = np.swapaxes(result, 1, 2).copy(), np.swapaxes(lse, 1, 2).copy()
    return (result, lse) if return_lse else result


def _by_position(
    sizes: check.Sizes,
    causal: bool,
    query_lengths: np.ndarray | None,
    key_lengths: np.ndarray | None,
    q_offset: np.ndarray | int | None,
) -> np.ndarray:
    """Return which keys each query sees by lengths, causality and window, (B, 1, T, S)."""

    def rows(n: object) -> np.ndarray:
        return np.broadcast_to(np.asarray(n, np.int64), (sizes.batch,)).reshape(-1, 1, 1, 1)

    queries = rows(sizes.queries if query_lengths is None else query_lengths)
    keys = rows(sizes.keys if key_lengths is None else key_lengths)
    t, s = np.arange(sizes.queries)[:, None], np.arange(sizes.keys)[None, :]
    sees = (t < queries) & (s < keys)
    distance = s - (t + (keys - queries if q_offset is None else rows(q_offset)))
    left, right = sizes.window
    if causal:
        right = 0
    if left is not None:
        sees = sees & (distance >= -left)
    if right is not None:
        sees = sees & (distance <= right)
    return sees
