"""Statistics."""

from __future__ import annotations

import numpy as np

from ..case import Case, Edge, Operand, Operation
from ..reference import statistical as _right
from ..ulp import Values
from .build import COMPLEX, FLOATS, NUMERIC, REAL, SMALL_FLOATS, case, constants, edges, namespace, shapes

__all__ = ["operations"]

_VALUES: tuple[Edge, ...] = ("nan", "inf", "extreme")


def _lanes(
    values: str = "normal", *, edged: tuple[Edge, ...] = _VALUES, of_one: bool = False, **params: object
) -> tuple[Case, ...]:
    """Cases of a reduction; `of_one` says that one number alone has no gradient."""
    return (
        *shapes((3, 5), values=values, axis=None, keepdims=False, **params),
        *(constants if of_one else shapes)((), (1, 1), values=values, axis=None, keepdims=False, **params),
        *shapes((2, 3, 4), values=values, axis=(0, 2), keepdims=True, **params),
        *shapes((3, 5), values=values, axis=-1, keepdims=False, **params),
        *edges(edged, Operand((3, 4), values), axis=0, keepdims=False, **params),
        *shapes((3, 0), values=values, axis=0, keepdims=False, **params),
    )


def _long(**params: object) -> tuple[Case, ...]:
    """Many numbers that do not cancel, so that a sum in a narrow dtype would stop growing; few for 8 bits."""
    return (case("normal", Operand((2, 96), "unit"), axis=1, keepdims=False, **params),)


def _spread(correction: float) -> tuple[Case, ...]:
    return (
        *_lanes(edged=("nan", "inf"), of_one=True, correction=correction),
        case("normal", Operand((3, 8), "offset:100"), axis=1, keepdims=False, correction=correction),
        case("size 1", Operand((1, 3), "normal", None, True), axis=0, keepdims=False, correction=correction),
    )


def _cumulative() -> tuple[Case, ...]:
    return (
        *shapes((3, 5), (0, 3), (1, 1), axis=-1, include_initial=False),
        *shapes((4, 2), axis=0, include_initial=True),
        *edges(("nan", "inf"), Operand((2, 4)), axis=1, include_initial=False),
    )


def _largest(x: Values, *, axis: object, keepdims: bool) -> Values:
    return np.asarray(np.max(x, axis=axis, keepdims=keepdims))  # type: ignore[call-overload]


def _smallest(x: Values, *, axis: object, keepdims: bool) -> Values:
    return np.asarray(np.min(x, axis=axis, keepdims=keepdims))  # type: ignore[call-overload]


def operations() -> tuple[Operation, ...]:
    """Return the operations of the chapter on statistical functions."""
    empty = (*shapes((0, 3), axis=0, keepdims=False), *_long())
    inexact = (*FLOATS, *COMPLEX)
    extremes = _lanes("distinct")
    products = _lanes("positive", edged=("nan", "inf"))
    spread = (*_spread(0.0), *_spread(1.0))
    return (
        namespace("sum", (*_lanes(), *empty), (*NUMERIC, *SMALL_FLOATS), expected=_right.sum, scale="absolute"),
        namespace("mean", (*_lanes(), *empty), inexact, expected=_right.mean, scale="absolute"),
        namespace("prod", (*products, *empty[:1]), NUMERIC, expected=_right.prod),
        namespace("max", extremes, REAL, expected=_largest),
        namespace("min", extremes, REAL, expected=_smallest),
        namespace("var", spread, FLOATS, expected=_right.var, scale="largest"),
        namespace("std", spread, FLOATS, expected=_right.std, scale="largest"),
        namespace("cumulative_sum", _cumulative(), NUMERIC, expected=_right.cumulative_sum, scale="absolute"),
        namespace("cumulative_prod", _cumulative(), NUMERIC, expected=_right.cumulative_prod),
    )
