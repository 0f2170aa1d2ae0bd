"""Checks of attention of few queries to a cache, contiguous or in pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from ..errors import BroadcastError, InvalidArgument, ShapeMismatch, UnsupportedDType
from .attention import Operand, Window, layout_of, window_of
from .choices import flag
from .elementwise import DRAWN, FLOAT8, floating
from .linear import precision as precision_of
from .parameters import integer, number, positive, whole
from .shape import rank

__all__ = ["DecodeSizes", "decode", "decode_window"]

_QUANTIZED = {np.dtype(np.int8), *FLOAT8} - {np.dtype(ml_dtypes.float8_e8m0fnu)}


@dataclass(frozen=True, slots=True)
class DecodeSizes:
    """Sizes and parameters of one call, in normal form.

    Attributes
    ----------
    batch, queries, keys
        B, T, and S, the capacity of the cache.
    heads, key_heads, size, value_size
        N, K, H, and the head size of values.
    page, pages
        Positions of a page and the number of pages; 0 in a contiguous cache.
    scale, softcap, window, precision, splits
        As `rtx_jax.kernels.decode.decode_attention` has them, with causality in the window.
    """

    batch: int
    queries: int
    keys: int
    heads: int
    key_heads: int
    size: int
    value_size: int
    page: int
    pages: int
    scale: float
    softcap: float | None
    window: Window
    precision: str
    splits: int | None


def decode(
    operation: str,
    operands: Mapping[str, Operand | None],
    *,
    causal: object,
    window: object,
    softcap: object,
    scale: object,
    layout: object,
    precision: object,
    splits: object,
) -> DecodeSizes:
    """Check the operands and parameters of decode attention.

    Parameters
    ----------
    operation
        ``"decode_attention"``, or ``"paged_attention"`` with its operand `block_table`.
    operands
        By the names of the parameters, `key_pages` and `value_pages` as `key` and `value`; those not given are absent.

    Raises
    ------
    InvalidDimension
        An operand has another number of axes.
    ShapeMismatch
        Sizes do not fit; the key heads do not divide the query heads.
    BroadcastError
        A scale does not broadcast to the cache without its last axis.
    UnsupportedDType
        Queries are not float64, float32, bfloat16 or float16, a cache is neither that nor int8 nor float8, lengths,
        offsets or the table are not integers, or scales or sinks are not floating.
    InvalidArgument
        A parameter is out of range or unknown.
    """
    layout = layout_of(operation, layout)
    paged = operation == "paged_attention"
    names = {"query": "query", "key": "key_pages" if paged else "key", "value": "value_pages" if paged else "value"}
    shapes = []
    for field, name in names.items():
        shape, dtype = _given(operands, field)
        if dtype not in DRAWN and (field == "query" or dtype not in _QUANTIZED):
            wanted = "float32, bfloat16, float16 or float64" + (", or int8 or float8" if field != "query" else "")
            raise UnsupportedDType(operation, name, got=dtype.name, wanted=wanted, dtype=dtype, op=operation)
        rank(operation, shape, 4, name)
        shapes.append(shape if layout == "BTNH" else (shape[0], shape[2], shape[1], shape[3]))
    (b, t, n, h), (kb, s, k, kh), (vb, vs, vk, vh) = shapes
    lead = kb if paged else b
    if (kb, kh) != (lead, h):
        _mismatch(operation, names["key"], operands["key"], f"the batch size {b} and the head size {h} of query")
    if (vb, vs, vk) != (kb, s, k):
        _mismatch(operation, names["value"], operands["value"], f"{kb}, {s} and {k} as {names['key']} has them")
    if (n and not k) or (k and n % k):
        _mismatch(operation, names["key"], operands["key"], f"a number of heads that divides the {n} of query")
    keys, page, pages = s, 0, 0
    if paged:
        page, pages = s, kb
        table = operands["block_table"]
        shape, dtype = _given(operands, "block_table")
        integer(operation, dtype, "block_table")
        rank(operation, shape, 2, "block_table")
        if shape[0] != b:
            _mismatch(operation, "block_table", table, f"{b} rows, one for each of query")
        if page < 1:
            _mismatch(operation, names["key"], operands["key"], "pages of at least one position")
        if pages < 1 and shape[1]:
            _mismatch(operation, names["key"], operands["key"], "at least one page, as the table has columns")
        keys = shape[1] * page
    for name in ("key_lengths", "q_offset"):
        _of_rows(operation, name, operands.get(name), b, k)
    _vector(operation, "query_lengths", operands.get("query_lengths"), b, "row of the batch")
    _vector(operation, "sinks", operands.get("sinks"), n, "query head", floats=True)
    lead = pages if paged else b
    full = (lead, s, k) if layout == "BTNH" else (lead, k, s)
    for name in ("key_scale", "value_scale"):
        _scale(operation, name, operands.get(name), full)
    left, right = decode_window(operation, window)
    return DecodeSizes(
        batch=b,
        queries=t,
        keys=keys,
        heads=n,
        key_heads=k,
        size=h,
        value_size=vh,
        page=page,
        pages=pages,
        scale=(h**-0.5 if h else 1.0) if scale is None else number(operation, "scale", scale),
        softcap=None if softcap is None else positive(operation, "softcap", softcap),
        window=(left, 0 if flag(operation, "causal", causal) else right),
        precision=precision_of(operation, precision),
        splits=None if splits is None else whole(operation, "splits", splits, 1),
    )


def decode_window(operation: str, window: object) -> Window:
    """Return the keys to the left and right that a query sees, as `rtx_jax.checks.attention.window_of`."""
    try:
        return window_of(window)
    except InvalidArgument as error:
        raise error.renamed(operation) from error.__cause__


def _given(operands: Mapping[str, Operand | None], name: str) -> Operand:
    found = operands[name]
    assert found is not None
    return found


def _mismatch(operation: str, name: str, operand: Operand | None, wanted: str) -> None:
    assert operand is not None
    raise ShapeMismatch(
        operation, name, got=f"shape {operand[0]}", wanted=wanted, expected=wanted, got_shape=operand[0]
    )


def _of_rows(operation: str, name: str, operand: Operand | None, b: int, k: int) -> None:
    """Check what is one number for each row of the batch, or for each key head of each."""
    if operand is None:
        return
    shape, dtype = operand
    integer(operation, dtype, name)
    if shape not in ((b,), (b, k)) and not (name == "q_offset" and shape == ()):
        raise ShapeMismatch(
            operation,
            name,
            got=f"shape {shape}",
            wanted=f"({b},), one for each row of the batch, or ({b}, {k}), one for each key head of each",
            expected=(b,),
            got_shape=shape,
        )


def _vector(operation: str, name: str, operand: Operand | None, size: int, what: str, *, floats: bool = False) -> None:
    if operand is None:
        return
    shape, dtype = operand
    (floating if floats else integer)(operation, dtype, name)
    if shape != (size,):
        wanted = f"({size},), one for each {what}"
        raise ShapeMismatch(operation, name, got=f"shape {shape}", wanted=wanted, expected=(size,), got_shape=shape)


def _scale(operation: str, name: str, operand: Operand | None, full: tuple[int, ...]) -> None:
    if operand is None:
        return
    shape, dtype = operand
    floating(operation, dtype, name)
    if len(shape) > 3 or any(a not in (1, f) for a, f in zip(shape[::-1], full[::-1], strict=False)):
        raise BroadcastError(
            operation,
            name,
            got=f"shape {shape}",
            wanted=f"a shape that broadcasts to {full}: that of the cache without the head size",
            lhs=shape,
            rhs=full,
        )
