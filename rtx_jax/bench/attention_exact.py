"""Attention and its gradients in float64 on the host, by blocks of rows, for one key head."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Exact", "exact"]

_ROWS = 512

Float = NDArray[np.float64]
Rows = Callable[[int, int], NDArray[np.bool_]]


class Exact(NamedTuple):
    """Results for the query heads of one key head: ``(T, G, Hv)``, ``(T, G, H)``, ``(S, H)``, ``(S, Hv)``."""

    out: Float
    d_query: Float
    d_key: Float
    d_value: Float


def exact(
    query: Float, key: Float, value: Float, d_out: Float, /, *, visible: Rows, bias: Float | None = None
) -> Exact:
    """Return softmax attention and its gradients.

    Parameters
    ----------
    query, key, value
        ``(T, G, H)``, ``(S, H)``, ``(S, Hv)``, where G query heads share the key head.
    d_out
        Cotangent of the result, ``(T, G, Hv)``.
    visible
        Gives, for the first and the last query of a block, which keys its queries see: ``(rows, S)``.
    bias
        ``(G, T, S)``, added to the scores.

    Notes
    -----
    The formulas are those of Dao et al., FlashAttention, appendix B; every row sees a key here.
    """
    scale = query.shape[-1] ** -0.5
    out, d_query = np.empty(d_out.shape), np.empty(query.shape)
    d_key, d_value = np.zeros(key.shape), np.zeros(value.shape)
    for start in range(0, query.shape[0], _ROWS):
        stop = min(start + _ROWS, query.shape[0])
        seen = visible(start, stop)
        for head in range(query.shape[1]):
            rows, d_rows = query[start:stop, head], d_out[start:stop, head]
            scores = scale * (rows @ key.T)
            if bias is not None:
                scores += bias[head, start:stop]
            scores = np.where(seen, scores, -np.inf)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            weights /= weights.sum(axis=1, keepdims=True)
            out[start:stop, head] = weights @ value
            d_value += weights.T @ d_rows
            d_weights = d_rows @ value.T
            d_scores = weights * (d_weights - (d_weights * weights).sum(axis=1, keepdims=True))
            d_query[start:stop, head] = scale * (d_scores @ key)
            d_key += scale * (d_scores.T @ rows)
    return Exact(out, d_query, d_key, d_value)
