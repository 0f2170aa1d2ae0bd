"""Attention of few queries to a cache of keys and values."""

from __future__ import annotations

from typing import TypeAlias

from .._array import Array
from .._config import matmul_precision
from ..checks.attention import layout_of
from ..checks.choices import flag
from ..checks.decode import decode_window
from ..checks.parameters import number, positive, whole
from ..kernels import decode as _raw
from ..kernels.decode.lengths import check_lengths
from ..kernels.decode.select import check
from ._call import call, integers, offset, optional

__all__ = ["decode_attention", "paged_attention"]

Window: TypeAlias = "int | tuple[int | None, int | None]"

_PARAMS = (
    "causal",
    "window",
    "softcap",
    "scale",
    "layout",
    "return_lse",
    "precision",
    "splits",
    "implementation",
)
_decode_attention = optional("decode_attention", _raw.decode_attention, _PARAMS)
_paged_attention = optional("paged_attention", _raw.paged_attention, _PARAMS)


def decode_attention(
    query: Array,
    key: Array,
    value: Array,
    /,
    *,
    key_lengths: Array | None = None,
    query_lengths: Array | None = None,
    key_scale: Array | None = None,
    value_scale: Array | None = None,
    sinks: Array | None = None,
    q_offset: Array | int | None = None,
    causal: bool = True,
    window: Window | None = None,
    softcap: float | None = None,
    scale: float | None = None,
    layout: str = "BTNH",
    return_lse: bool = False,
    splits: int | None = None,
    implementation: str = "auto",
) -> Array | tuple[Array, Array]:
    """Attention of few queries to a long cache of keys and values.

    Parameters
    ----------
    query
        Shape (B, T, N, H): float32, bfloat16, float16 or float64. T is 1 in plain decoding, a few in speculative
        decoding.
    key, value
        The cache, (B, S, K, H) and (B, S, K, V); query head n reads key head ``n // (N // K)``. dtypes as `query`, or
        int8 or float8.
    key_lengths
        Integers (B,): how many slots of each row are filled; the rest may hold anything, NaN included. (B, K) where
        heads keep different numbers of keys. All S by default.
    query_lengths
        Integers (B,): queries beyond them give 0.
    key_scale, value_scale
        What a quantized cache is multiplied by: floating, of a shape that broadcasts to that of the cache without its
        last axis.
    sinks
        Shape (N,): a score for each query head that takes part in the softmax without a value.
    q_offset
        Query t has its diagonal at key ``t + q_offset``; an integer, (B,) or (B, K). By default the queries are the
        last of the sequence.
    causal
        Whether no query sees past its diagonal.
    window
        How many keys to the left and to the right of the diagonal a query sees; one number for both, None for all.
    softcap
        Bounds the scores by ``softcap * tanh(scores / softcap)``.
    scale
        Factor of the scores, ``1 / sqrt(H)`` by default.
    layout
        ``"BTNH"``, or ``"BNTH"`` with heads before positions in queries, cache and result.
    return_lse
        Return the logarithms of the sums of exponentials too.
    splits
        Into how many parts a GPU splits the keys of a head; None leaves it to the kernel. What does not split refuses
        more than one.
    implementation
        ``"auto"``, ``"reference"``, ``"xla"``, ``"pallas_triton"`` or ``"pallas_tpu"``.

    Returns
    -------
    Array or tuple of Arrays
        Shape (B, T, N, V), of the dtype of `query`. A query that sees no key gives 0. With `return_lse` also
        (B, N, T) in float32 (float64 of float64); -infinity for a query that sees no key.

    Raises
    ------
    InvalidDimension
        An operand has another number of axes.
    ShapeMismatch
        Sizes do not fit, or the key heads do not divide the query heads.
    BroadcastError
        A scale does not broadcast to the cache without its last axis.
    UnsupportedDType
        An operand has a dtype of another kind.
    InvalidArgument
        A parameter is out of range or unknown.
    IndexOutOfBounds
        A length is negative, or beyond the cache or the queries; where lengths are read. That is on CPU, and as
        `rtx_jax.check_bounds` says. Traced ones are not: the diagonal is where they say, what is not there is hidden.
    BackendLimitation
        The implementation that was asked for cannot do it; all reasons are listed.

    Notes
    -----
    Time and traffic follow the keys that are seen, not the capacity of the cache. A NaN in a key reaches only queries
    that see it; one in a value may reach the other queries of its row. Differentiable in every mode.
    """
    sides = decode_window("decode_attention", window)
    operands = {
        "query": query,
        "key": key,
        "value": value,
        "key_lengths": integers(key_lengths),
        "query_lengths": integers(query_lengths),
        "key_scale": key_scale,
        "value_scale": value_scale,
        "sinks": sinks,
        "q_offset": offset("decode_attention", q_offset, sides),
    }
    static = _static("decode_attention", causal, sides, softcap, scale, layout, return_lse, splits, implementation)
    _check_lengths("decode_attention", operands, query, key, None, layout)
    return call(_decode_attention, operands, *static)  # type: ignore[return-value]


def paged_attention(
    query: Array,
    key_pages: Array,
    value_pages: Array,
    block_table: Array,
    /,
    *,
    key_lengths: Array | None = None,
    query_lengths: Array | None = None,
    key_scale: Array | None = None,
    value_scale: Array | None = None,
    sinks: Array | None = None,
    q_offset: Array | int | None = None,
    causal: bool = True,
    window: Window | None = None,
    softcap: float | None = None,
    scale: float | None = None,
    layout: str = "BTNH",
    return_lse: bool = False,
    splits: int | None = None,
    implementation: str = "auto",
) -> Array | tuple[Array, Array]:
    """Attention of few queries to a cache that lies in pages, which sequences share and need not fill.

    Parameters
    ----------
    query
        Shape (B, T, N, H), as in `decode_attention`.
    key_pages, value_pages
        (P, page, K, H) and (P, page, K, V): P pages of the cache; (P, K, page, H) in layout ``"BNTH"``.
    block_table
        Integers (B, M): which page holds positions ``m * page`` to ``(m + 1) * page - 1`` of each row. Entries for
        positions that no query sees may be anything.
    key_lengths
        Integers (B,) or (B, K): positions of each row that are filled. All ``M * page`` by default.
    query_lengths, sinks, q_offset
        As in `decode_attention`.
    key_scale, value_scale
        As in `decode_attention`; they broadcast to the pages without the last axis.
    causal, window, softcap, scale, layout, return_lse, splits, implementation
        As in `decode_attention`.

    Returns
    -------
    Array or tuple of Arrays
        As of `decode_attention`. A row whose table names a page that does not exist, where a query needs it, gives
        NaN.

    Raises
    ------
    InvalidDimension, ShapeMismatch, BroadcastError, UnsupportedDType, InvalidArgument, IndexOutOfBounds
        As `decode_attention`.
    BackendLimitation
        As `decode_attention`.
    """
    sides = decode_window("paged_attention", window)
    operands = {
        "query": query,
        "key_pages": key_pages,
        "value_pages": value_pages,
        "block_table": block_table,
        "key_lengths": integers(key_lengths),
        "query_lengths": integers(query_lengths),
        "key_scale": key_scale,
        "value_scale": value_scale,
        "sinks": sinks,
        "q_offset": offset("paged_attention", q_offset, sides),
    }
    static = _static("paged_attention", causal, sides, softcap, scale, layout, return_lse, splits, implementation)
    _check_lengths("paged_attention", operands, query, key_pages, block_table, layout)
    return call(_paged_attention, operands, *static)  # type: ignore[return-value]


def _check_lengths(
    operation: str, operands: dict[str, Array | None], query: Array, key: Array, table: Array | None, layout: str
) -> None:
    """Check lengths whose values are there; within the call they are traced."""
    given = {name: x for name in ("key_lengths", "query_lengths") if (x := operands[name]) is not None}
    if given and all(isinstance(x, Array) for x in (query, key)):
        lengths = {name: x._data if isinstance(x, Array) else x for name, x in given.items()}
        shape = table.shape if isinstance(table, Array) else None
        if table is None or shape is not None:
            check_lengths(operation, lengths, query.shape, key.shape, shape, layout)


def _static(
    operation: str,
    causal: bool,
    window: tuple[int | None, int | None],
    softcap: float | None,
    scale: float | None,
    layout: str,
    return_lse: bool,
    splits: int | None,
    implementation: str,
) -> tuple[object, ...]:
    """Return the static parameters in normal form, so that equal calls share a program."""
    return (
        flag(operation, "causal", causal),
        window,
        None if softcap is None else positive(operation, "softcap", softcap),
        None if scale is None else number(operation, "scale", scale),
        layout_of(operation, layout),
        flag(operation, "return_lse", return_lse),
        matmul_precision(),
        None if splits is None else whole(operation, "splits", splits, 1),
        check(operation, implementation),
    )
