"""Checks of attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..errors import BroadcastError, InvalidArgument, ShapeMismatch, UnsupportedDType
from .choices import is_one_of
from .elementwise import floating, kind_of
from .parameters import integer, number, positive, whole
from .shape import rank

__all__ = ["LAYOUTS", "Operand", "Sizes", "attention", "layout_of", "window_of"]

LAYOUTS = ("BTNH", "BNTH")

Operand = tuple[tuple[int, ...], np.dtype]
"""The shape and dtype of an operand."""

Window = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes and parameters of one call of attention, in normal form.

    Attributes
    ----------
    batch, queries, keys
        B, T, S.
    heads, key_heads
        Query heads N, and key/value heads K, which divide N.
    size, value_size
        Head size H of queries and keys, and that of values.
    scale
        Factor of the scores.
    softcap
        Bound of the scores, or None.
    window
        Keys to the left and to the right of the diagonal that a query sees; None for all.
    """

    batch: int
    queries: int
    keys: int
    heads: int
    key_heads: int
    size: int
    value_size: int
    scale: float
    softcap: float | None
    window: Window


def attention(
    operands: Mapping[str, Operand | None],
    *,
    layout: object,
    window: object,
    softcap: object,
    scale: object,
) -> Sizes:
    """Check the operands and parameters of attention.

    Parameters
    ----------
    operands
        By the names that `rtx_jax.ops.attention` gives them; those not given are None or absent.

    Raises
    ------
    InvalidDimension
        An operand has another number of axes.
    ShapeMismatch
        Sizes do not fit; the key heads do not divide the query heads.
    BroadcastError
        The mask or the bias does not broadcast to (B, N, T, S).
    UnsupportedDType
        Queries, keys, values or bias are not real floating, a mask is neither bool nor that, or lengths or segments
        are not integers.
    InvalidArgument
        A parameter is out of range or unknown.
    """
    layout = layout_of("attention", layout)
    shapes = []
    for name in ("query", "key", "value"):
        shape, dtype = operands[name]  # type: ignore[misc]
        floating("attention", dtype, name)
        rank("attention", shape, 4, name)
        shapes.append(shape if layout == "BTNH" else (shape[0], shape[2], shape[1], shape[3]))
    (b, t, n, h), (kb, s, k, kh), (vb, vs, vk, vh) = shapes
    if (kb, kh) != (b, h):
        raise _sizes("key", operands, f"the batch size {b} and the head size {h} of query", (b, s, k, h))
    if (vb, vs, vk) != (b, s, k):
        raise _sizes("value", operands, f"batch size {b}, {s} positions and {k} heads, as key", (b, s, k, vh))
    if (n and not k) or (k and n % k):
        raise _sizes("key", operands, f"a number of heads that divides the {n} of query", (b, s, n, h))
    for name in ("mask", "bias"):
        _scores(name, operands.get(name), (b, n, t, s))
    _vector("sinks", operands.get("sinks"), n, "query head", floats=True)
    for name in ("query_lengths", "key_lengths"):
        _vector(name, operands.get(name), b, "row of the batch")
    _segments(operands, b, t, s)
    offset = operands.get("q_offset")
    if offset is not None:
        integer("attention", offset[1], "q_offset")
        if offset[0]:
            _vector("q_offset", offset, b, "row of the batch")
    return Sizes(
        b,
        t,
        s,
        n,
        k,
        h,
        vh,
        (h**-0.5 if h else 1.0) if scale is None else number("attention", "scale", scale),
        None if softcap is None else positive("attention", "softcap", softcap),
        window_of(window),
    )


def _sizes(name: str, operands: Mapping[str, Operand | None], wanted: str, expected: object) -> ShapeMismatch:
    query, operand = operands["query"], operands[name]
    assert query is not None and operand is not None
    return ShapeMismatch(
        "attention",
        name,
        got=f"shape {operand[0]} for query of shape {query[0]}",
        wanted=wanted,
        expected=expected,
        got_shape=operand[0],
    )


def _scores(name: str, operand: Operand | None, full: tuple[int, ...]) -> None:
    if operand is None:
        return
    shape, dtype = operand
    kind = kind_of(dtype)
    if kind != "floating" and not (name == "mask" and kind == "bool"):
        wanted = "bool (True keeps), or a floating-point bias" if name == "mask" else "a floating-point dtype"
        raise UnsupportedDType("attention", name, got=dtype.name, wanted=wanted, dtype=dtype, op="attention")
    fits = len(shape) <= 4 and all(a in (1, f) for a, f in zip(shape[::-1], full[::-1], strict=False))
    if not fits:
        raise BroadcastError(
            "attention",
            name,
            got=f"shape {shape}",
            wanted=f"a shape that broadcasts to {full}: batch, query heads, queries, keys",
            lhs=shape,
            rhs=full,
        )


def _vector(name: str, operand: Operand | None, size: int, what: str, *, floats: bool = False) -> None:
    if operand is None:
        return
    shape, dtype = operand
    if floats:
        floating("attention", dtype, name)
    else:
        integer("attention", dtype, name)
    if shape != (size,):
        raise ShapeMismatch(
            "attention",
            name,
            got=f"shape {shape}",
            wanted=f"({size},), one for each {what}",
            expected=(size,),
            got_shape=shape,
        )


def _segments(operands: Mapping[str, Operand | None], b: int, t: int, s: int) -> None:
    own, keys = operands.get("segment_ids"), operands.get("key_segment_ids")
    if own is None and keys is None:
        return
    if own is None or (keys is None and t != s):
        raise InvalidArgument(
            "attention",
            "segment_ids",
            got=f"one array for {t} queries and {s} keys",
            wanted="segments of the queries and of the keys",
            arg="segment_ids",
            reason="one side is missing",
        )
    for name, operand, length in (("segment_ids", own, t), ("key_segment_ids", keys, s)):
        if operand is None:
            continue
        integer("attention", operand[1], name)
        if operand[0] != (b, length):
            raise ShapeMismatch(
                "attention",
                name,
                got=f"shape {operand[0]}",
                wanted=f"{(b, length)}, a segment for each position",
                expected=(b, length),
                got_shape=operand[0],
            )


def layout_of(operation: str, layout: object) -> str:
    """Return the word of a layout, or raise InvalidArgument."""
    if is_one_of(layout, LAYOUTS):
        return str(layout)
    wanted = " or ".join(map(repr, LAYOUTS))
    raise InvalidArgument(operation, "layout", got=repr(layout), wanted=wanted, arg="layout", reason="unknown layout")


def window_of(window: object) -> Window:
    """Return the keys to the left and right that a query sees, None for all; one number means both sides.

    Raises
    ------
    InvalidArgument
        It is not a pair of integers of at least 0 or None.
    """
    if window is None:
        return None, None
    sides = window if isinstance(window, (tuple, list)) else (window, window)
    if len(sides) != 2:
        raise InvalidArgument(
            "attention",
            "window",
            got=repr(window),
            wanted="two sizes (left, right), each 0 or more, or None for no bound",
            arg="window",
            reason="not a pair",
        )
    left, right = (None if side is None else whole("attention", "window", side, 0) for side in sides)
    return left, right
