"""Attention."""

from __future__ import annotations

from typing import Literal, TypeAlias, overload

from .._array import Array
from .._config import matmul_precision
from ..checks.attention import layout_of, window_of
from ..checks.choices import flag
from ..checks.parameters import number, positive
from ..errors import InvalidArgument
from ..kernels.attention import check_word
from ..ops.attention import attention as _raw
from ._call import call, integers, offset, optional

__all__ = ["attention"]

Window: TypeAlias = "int | tuple[int | None, int | None]"
Segments: TypeAlias = "Array | tuple[Array, Array]"

_attention = optional(
    "attention",
    _raw,
    ("causal", "window", "softcap", "scale", "layout", "return_lse", "precision", "implementation"),
)


@overload
def attention(
    query: Array,
    key: Array,
    value: Array,
    /,
    *,
    mask: Array | None = ...,
    bias: Array | None = ...,
    causal: bool = ...,
    q_offset: Array | int | None = ...,
    window: Window | None = ...,
    segment_ids: Segments | None = ...,
    query_lengths: Array | None = ...,
    key_lengths: Array | None = ...,
    softcap: float | None = ...,
    sinks: Array | None = ...,
    scale: float | None = ...,
    layout: str = ...,
    return_lse: Literal[False] = ...,
    implementation: str = ...,
) -> Array: ...


@overload
def attention(
    query: Array,
    key: Array,
    value: Array,
    /,
    *,
    mask: Array | None = ...,
    bias: Array | None = ...,
    causal: bool = ...,
    q_offset: Array | int | None = ...,
    window: Window | None = ...,
    segment_ids: Segments | None = ...,
    query_lengths: Array | None = ...,
    key_lengths: Array | None = ...,
    softcap: float | None = ...,
    sinks: Array | None = ...,
    scale: float | None = ...,
    layout: str = ...,
    return_lse: Literal[True],
    implementation: str = ...,
) -> tuple[Array, Array]: ...


def attention(
    query: Array,
    key: Array,
    value: Array,
    /,
    *,
    mask: Array | None = None,
    bias: Array | None = None,
    causal: bool = False,
    q_offset: Array | int | None = None,
    window: Window | None = None,
    segment_ids: Segments | None = None,
    query_lengths: Array | None = None,
    key_lengths: Array | None = None,
    softcap: float | None = None,
    sinks: Array | None = None,
    scale: float | None = None,
    layout: str = "BTNH",
    return_lse: bool = False,
    implementation: str = "auto",
) -> Array | tuple[Array, Array]:
    """Return ``softmax(query @ key.T * scale + bias) @ value`` over the keys that each query sees.

    Parameters
    ----------
    query
        Real floating, shape (B, T, N, H).
    key
        Shape (B, S, K, H); K divides N, and each key head serves N/K neighbouring query heads.
    value
        Shape (B, S, K, V); V may differ from H.
    mask
        Bool that broadcasts to (B, N, T, S): True is seen. A floating mask is added to the scores, like `bias`.
    bias
        Added to the scores; broadcasts to (B, N, T, S). A key with -infinity is not seen.
    causal
        Query t sees no key after ``t + q_offset``.
    q_offset
        The position of the first query among the keys, an integer or integers of shape () or (B,). By default the
        last query is at the last key: ``S - T``, or the difference of the lengths of each row.
    window
        ``(left, right)``: a query sees that many keys before and after ``t + q_offset``, and that one itself; None for
        no bound, and one number for both sides.
    segment_ids
        Integers of shape (B, T), where T is S, or a pair of shapes (B, T) and (B, S): a query sees keys of its own
        segment.
    query_lengths, key_lengths
        Integers of shape (B,): queries and keys beyond them are padding.
    softcap
        Bounds the scores by ``softcap * tanh(scores / softcap)``, before the bias.
    sinks
        Shape (N,): a score for each query head that takes part in the softmax without a value.
    scale
        Factor of the scores, ``1 / sqrt(H)`` by default.
    layout
        The order of the axes of `query`, `key`, `value` and the result: ``"BTNH"``, or ``"BNTH"`` with heads first.
    return_lse
        Return the logarithms of the sums of exponentials too.
    implementation
        ``"auto"``, the fastest that the device has for the call, or one of
        `rtx_jax.kernels.attention.IMPLEMENTATIONS`.

    Returns
    -------
    Array or tuple of Arrays
        Shape (B, T, N, V), of the dtype of `query`. A query that sees no key gives 0, with gradient 0. With
        `return_lse` also the natural logarithm of the sum of ``exp`` of the scores (and the sink), of shape (B, T, N)
        or (B, N, T) as the layout says, in float32 (float64 of float64); -infinity for a query that sees no key.

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
        A parameter is out of range or unknown.
    BackendLimitation
        The implementation that is asked for cannot run the call on this device.

    Warns
    -----
    FallbackWarning
        No kernel of this device can run the call, so it runs as plain XLA; once for each reason.

    Notes
    -----
    Memory grows with T plus S, in each mode of differentiation. Scores, softmax and sums are formed in float32
    (float64 of float64). A query is changed by nothing that it does not see: NaN and infinities there reach neither
    its result nor any gradient through it. What it sees, it shows. The kernels of accelerators promise less of
    values: there NaN may reach the queries of one block, of which one sees it. `rtx_jax.kernels.attention` has more
    results and choices, on `jax.Array`.
    """
    own, other = _segments(segment_ids)
    sides = window_of(window)
    operands = {
        "query": query,
        "key": key,
        "value": value,
        "mask": mask,
        "bias": bias,
        "segment_ids": own,
        "key_segment_ids": other,
        "query_lengths": integers(query_lengths),
        "key_lengths": integers(key_lengths),
        "sinks": sinks,
        "q_offset": offset("attention", q_offset, sides),
    }
    static = (
        flag("attention", "causal", causal),
        sides,
        None if softcap is None else positive("attention", "softcap", softcap),
        None if scale is None else number("attention", "scale", scale),
        layout_of("attention", layout),
        flag("attention", "return_lse", return_lse),
        matmul_precision(),
        check_word("attention", implementation),
    )
    return call(_attention, operands, *static)  # type: ignore[return-value]


def _segments(segment_ids: Segments | None) -> tuple[Array | None, Array | None]:
    if not isinstance(segment_ids, tuple | list):
        return segment_ids, None
    if len(segment_ids) != 2:
        raise InvalidArgument(
            "attention",
            "segment_ids",
            got=f"{len(segment_ids)} arrays",
            wanted="one, or two: of the queries and of the keys",
            arg="segment_ids",
            reason="not a pair",
        )
    return segment_ids[0], segment_ids[1]
