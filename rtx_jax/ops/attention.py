"""Attention on raw arrays: the kernels' face with the masks, segments and log-sum-exp of `rtx_jax.nn.attention`."""

from __future__ import annotations

import jax
import numpy as np
from jax import lax

from ..checks import attention as _check
from ..checks.choices import flag
from ..core.dtypes import bool_, float32, float64
from ..errors import RtxError
from ..kernels.attention import flash_attention
from ..raw._kinds import cast, of_rank

__all__ = ["attention"]


def attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    mask: jax.Array | None = None,
    bias: jax.Array | None = None,
    segment_ids: jax.Array | None = None,
    key_segment_ids: jax.Array | None = None,
    query_lengths: jax.Array | None = None,
    key_lengths: jax.Array | None = None,
    sinks: jax.Array | None = None,
    q_offset: jax.Array | int | None = None,
    *,
    causal: bool = False,
    window: int | tuple[int | None, int | None] | None = None,
    softcap: float | None = None,
    scale: float | None = None,
    layout: str = "BTNH",
    return_lse: bool = False,
    precision: str | None = None,
    implementation: str = "auto",
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Return ``softmax(query @ key.T * scale + bias) @ value`` over the keys that each query sees.

    `rtx_jax.nn.attention` says what the parameters mean; `key_segment_ids` are those of the keys where they differ
    from those of the queries, and a floating `mask` is added to the bias. `precision` is that of float32 products.
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
    _check.attention(
        {name: None if x is None else (x.shape, np.dtype(x.dtype)) for name, x in arrays.items()},
        layout=layout,
        window=window,
        softcap=softcap,
        scale=scale,
    )
    if mask is not None and mask.dtype != bool_:
        work = float64 if float64 in (query.dtype, key.dtype, value.dtype) else float32
        bias = cast(mask, work) if bias is None else of_rank(cast(mask, work), 4) + of_rank(cast(bias, work), 4)
        mask = None
    try:
        found = flash_attention(
            query,
            key,
            value,
            mask=mask,
            bias=bias,
            causal=causal,
            q_offset=q_offset,
            window=window,
            segment_ids=_pair(segment_ids, key_segment_ids),
            query_lengths=query_lengths,
            key_lengths=key_lengths,
            softcap=softcap,
            sinks=sinks,
            scale=scale,
            layout=layout,
            return_lse=flag("attention", "return_lse", return_lse),
            # Where an implementation keeps NaN and infinities of values from the queries that do not see them.
            nan_safe=None,
            precision=precision,
            implementation=implementation,
        )
    except RtxError as error:
        raise error.renamed("attention") from None
    if not isinstance(found, tuple):
        return found
    out, lse = found
    return out, lax.transpose(lse, (0, 2, 1)) if layout == "BTNH" else lse


def _pair(own: jax.Array | None, keys: jax.Array | None) -> jax.Array | tuple[jax.Array, jax.Array] | None:
    return own if own is None or keys is None else (own, keys)
