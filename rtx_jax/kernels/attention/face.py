"""The one signature of attention on raw arrays."""

from __future__ import annotations

import functools
from typing import TypeAlias

import jax
import numpy as np

from ..._compat import ArrayImpl, trace_is_clean, x64
from ...checks import linear as _linear
from ...checks.attention import layout_of
from ...checks.choices import flag
from ...checks.decode import decode_window
from ...checks.parameters import whole
from ...checks.shape import as_int
from ...core.dtypes import WIDE
from ...errors import InvalidArgument
from ..operands import check_array
from . import select
from .plan import Facts, Parameters, Run, plan

__all__ = ["flash_attention"]

Window: TypeAlias = "int | tuple[int | None, int | None] | None"
Segments: TypeAlias = "jax.Array | tuple[jax.Array, jax.Array] | None"

_NAME = "flash_attention"


def flash_attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    *,
    mask: jax.Array | None = None,
    bias: jax.Array | None = None,
    causal: bool = False,
    q_offset: jax.Array | int | None = None,
    window: Window = None,
    segment_ids: Segments = None,
    query_lengths: jax.Array | None = None,
    key_lengths: jax.Array | None = None,
    softcap: float | None = None,
    sinks: jax.Array | None = None,
    scale: float | None = None,
    layout: str = "BTNH",
    return_lse: bool = False,
    return_entropy: bool = False,
    column_scores: int | None = None,
    implementation: str = "auto",
    nan_safe: bool | None = False,
    fast: bool = False,
    precision: str | None = None,
) -> jax.Array | tuple[jax.Array, ...]:
    """Return ``softmax(query @ key.T * scale + bias) @ value`` over the keys that each query sees.

    Parameters
    ----------
    query
        Real floating, ``(B, T, N, H)``, or ``(B, N, T, H)`` in the layout ``"BNTH"``, as all of the three.
    key, value
        ``(B, S, K, H)`` and ``(B, S, K, Hv)``. K divides N: head n of the queries reads head ``n // (N // K)``.
    mask
        Bool that broadcasts to ``(B, N, T, S)``: True lets a query see a key.
    bias
        Floating, broadcasts to ``(B, N, T, S)``; added to the scores after `softcap`. Minus infinity hides.
    causal
        Query t sees the keys up to ``t + q_offset``.
    q_offset
        The position of the first query among the keys; an integer, which is part of the program, or integers of shape
        () or (B,), which are not. None is ``S - T``, of each row the difference of its lengths where these are given:
        the last query sees the last key.
    window
        ``(left, right)``: a query sees that many keys before and after ``t + q_offset``, and that one itself; None for
        no bound, and one number for both sides.
    segment_ids
        Integers (B, T), where T = S, or a pair (B, T), (B, S): a query sees the keys of its own segment. Compared in
        32 bits.
    query_lengths, key_lengths
        Integers (B,): how many positions of each row are there.
    softcap
        Scores become ``softcap * tanh(scores / softcap)``; above 0.
    sinks
        Floating (N,): a logit of each head that takes part in the softmax and gives no value.
    scale
        Factor of the products, ``H ** -0.5`` by default.
    layout
        ``"BTNH"`` or ``"BNTH"``.
    return_lse
        Return the log-sum-exp of each query's scores too.
    return_entropy
        Return the entropy of each query's weights in nats too.
    column_scores
        Return, for so many last queries (of those that are there, with `query_lengths`), the sum of the weights that
        each key gets from them.
    implementation
        ``"auto"``, the fastest that the device has for the call, or one of `IMPLEMENTATIONS`.
    nan_safe
        Whether NaN and infinities in a value reach only the queries that see it. None: where the implementation offers
        it.
    fast
        Whether the exponential may be a polynomial, of 2e-6 relative error.
    precision
        Of float32 products: ``"highest"``, ``"high"`` or ``"default"``, the device's own; None is the first.

    Returns
    -------
    jax.Array or tuple of them
        ``(B, T, N, Hv)`` or ``(B, N, T, Hv)``, of the dtype of `query`. What else is asked for follows in this order:
        the log-sum-exp ``(B, N, T)``, the entropy ``(B, N, T)``, the column scores ``(B, N, S)``, all in float32,
        float64 of float64. A query that sees no key gives 0, -infinity, 0, and no gradient.

    Raises
    ------
    InvalidDimension
        An operand has another number of axes.
    ShapeMismatch
        Sizes do not fit, or the key heads do not divide the query heads.
    BroadcastError
        The mask or the bias does not broadcast to (B, N, T, S).
    UnsupportedDType
        An operand has a dtype of another kind.
    InvalidArgument
        A parameter is out of range, unknown, or not known when the program is made.
    BackendLimitation
        The implementation that is asked for cannot run the call on this device, or none can; with each reason. It is
        raised when the call is compiled.

    Warns
    -----
    FallbackWarning
        No kernel of this device can run the call, so it runs as plain XLA; once for each reason.

    Notes
    -----
    Memory grows with T plus S (but ``"reference"``, with T times S), in each mode of differentiation and of each
    order: grad, jvp, vmap of any operand, and derivatives of derivatives. Operands that have derivatives are the
    query, the key, the value, the bias and the sinks; the results all have.

    Scores, softmax and sums are formed in float32 (float64 of float64). A key that no query sees may hold anything.
    NaN and infinities in a key reach only the queries that see it; in a value they may reach others of the same block,
    unless `nan_safe`. Two runs give the same bits.

    The algorithm is that of Dao et al. 2022 (arXiv:2205.14135) and Dao 2023 (arXiv:2307.08691); the derivatives of
    higher orders are sums over pairs of blocks, as in `rtx_jax.kernels.attention.pairwise`.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from rtx_jax.kernels.attention import flash_attention
    >>> x = jnp.ones((1, 3, 2, 4))
    >>> flash_attention(x, x, x, causal=True).shape
    (1, 3, 2, 4)
    """
    own, other = _segments(segment_ids)
    static_offset = None
    if q_offset is not None and not isinstance(q_offset, (jax.Array, np.ndarray)):
        static_offset, q_offset = as_int(_NAME, "q_offset", q_offset), None
    arrays = (query, key, value, mask, bias, own, other, query_lengths, key_lengths, sinks, q_offset)
    facts = tuple([None if x is None else _facts(i, x) for i, x in enumerate(arrays)])
    if facts[0] is None or facts[1] is None or facts[2] is None:
        _facts([x is None for x in facts].index(True), None)
    chosen = (
        causal,
        static_offset,
        None if window is None else decode_window(_NAME, window),
        softcap,
        scale,
        layout,
        implementation,
        nan_safe,
        fast,
        precision,
        return_lse,
        return_entropy,
        column_scores,
    )
    try:
        runs = _planned(facts, *chosen)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        runs = _planned.__wrapped__(facts, *chosen)
    run = runs[trace_is_clean()]
    given = [x for x in arrays if x is not None]
    if all(fact is None or fact[1] not in WIDE for fact in facts):
        return run(*given)
    with x64():
        return run(*given)


@functools.lru_cache(maxsize=2048, typed=True)
def _planned(
    facts: tuple[Facts, ...],
    causal: object,
    q_offset: int | None,
    window: object,
    softcap: object,
    scale: object,
    layout: object,
    implementation: object,
    nan_safe: object,
    fast: object,
    precision: object,
    return_lse: object,
    return_entropy: object,
    column_scores: object,
) -> tuple[Run, Run]:
    parameters = Parameters(
        causal=flag(_NAME, "causal", causal),
        q_offset=q_offset,
        window=window,
        softcap=softcap,
        scale=scale,
        layout=layout_of(_NAME, layout),
        implementation=select.check_word(_NAME, implementation),
        nan_safe=None if nan_safe is None else flag(_NAME, "nan_safe", nan_safe),
        fast=flag(_NAME, "fast", fast),
        precision=_linear.precision(_NAME, precision),
        return_lse=flag(_NAME, "return_lse", return_lse),
        return_entropy=flag(_NAME, "return_entropy", return_entropy),
        column_scores=None if column_scores is None else whole(_NAME, "column_scores", column_scores, 1),
    )
    return plan(facts, parameters)


_ARGUMENTS = (
    *("query", "key", "value", "mask", "bias", "segment_ids", "segment_ids"),
    *("query_lengths", "key_lengths", "sinks", "q_offset"),
)


def _facts(position: int, x: jax.Array | None) -> tuple[tuple[int, ...], np.dtype]:
    if type(x) is not ArrayImpl:
        check_array(_NAME, _ARGUMENTS[position], x)
    assert x is not None
    return x.shape, x.dtype


def _segments(segment_ids: Segments) -> tuple[jax.Array | None, jax.Array | None]:
    if not isinstance(segment_ids, tuple | list):
        return segment_ids, None
    if len(segment_ids) != 2:
        raise InvalidArgument(
            _NAME,
            "segment_ids",
            got=f"{len(segment_ids)} arrays",
            wanted="one, or two: of the queries and of the keys",
            arg="segment_ids",
            reason="not a pair",
        )
    return segment_ids[0], segment_ids[1]
