"""Searching, sorting, sets, indexing, and tests of truth and closeness."""

from __future__ import annotations

import numpy as np

import rtx_jax as xp

from ..case import Case, Edge, Mode, Operand, Operation
from ..reference import searching as _right
from ..ulp import Values
from .build import (
    ALL,
    EAGER,
    FLOATS,
    INDEX,
    NO_GRAD,
    NUMERIC,
    REAL,
    case,
    constants,
    edges,
    namespace,
    shapes,
)

__all__ = ["operations"]

_VALUES: tuple[Edge, ...] = ("nan", "inf", "extreme")


def _along(values: str, *, empty: bool = True, edged: tuple[int, ...] = (3, 4)) -> tuple[Case, ...]:
    """Return the cases of a reduction to positions or truth."""
    out = (
        *shapes((3, 4), (), (1, 1), values=values, axis=None, keepdims=False),
        *shapes((2, 3, 4), values=values, axis=1, keepdims=True),
        *shapes((3, 4), values=values, axis=-1, keepdims=False),
        *edges(_VALUES, Operand(edged, values), axis=0, keepdims=False),
    )
    return out + (
        shapes((0, 3), values=values, axis=0, keepdims=False)
        if empty
        else shapes((3, 0), values=values, axis=0, keepdims=False)
    )


def _sorting() -> tuple[Case, ...]:
    return (
        # Equal numbers are kinks.
        *constants((3, 5), (0, 3), (1, 1), values="few", axis=-1, descending=False, stable=True),
        *shapes((5, 3), values="distinct", axis=0, descending=True, stable=False),
        *constants((2, 3, 4), values="few", axis=1, descending=True, stable=True),
        *edges(_VALUES, Operand((2, 6), "distinct"), axis=-1, descending=False, stable=True),
    )


def _all(x: Values, *, axis: int | None, keepdims: bool) -> Values:
    return np.asarray(np.all(x, axis=axis, keepdims=keepdims))


def _any(x: Values, *, axis: int | None, keepdims: bool) -> Values:
    return np.asarray(np.any(x, axis=axis, keepdims=keepdims))


def _unique_all(x: Values) -> list[Values]:
    values, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    return [values, first, inverse.reshape(x.shape), counts]


def operations() -> tuple[Operation, ...]:
    """Return the operations of searching, sorting, sets, indexing and utility functions."""
    sets = (
        *shapes((3, 4), (0, 3), (), (1, 1), values="few"),
        *edges(_VALUES, Operand((2, 5), "few")),
    )
    near = (
        case("normal", Operand((2, 4), "few"), Operand((2, 4), "few"), rtol=1e-5, atol=1e-8, equal_nan=False),
        case(
            "normal", Operand((2, 1), "offset:3"), Operand((1, 4), "offset:3"), rtol=0.125, atol=0.25, equal_nan=False
        ),
        case("empty", (0, 3), (1, 3), rtol=1e-5, atol=1e-8, equal_nan=False),
        case("0-d", (), (), rtol=1e-5, atol=1e-8, equal_nan=False),
        case("size 1", (1, 1), (1,), rtol=1e-5, atol=1e-8, equal_nan=False),
        *edges(_VALUES, (2, 3), (2, 3), rtol=1e-5, atol=1e-8, equal_nan=True),
    )
    chosen = (
        case("normal", (3, 4), Operand((2, 3), "index:4", INDEX), axis=1),
        case("normal", (3, 4), Operand((5,), "index:3", INDEX), axis=0),
        case("empty", (3, 4), Operand((0,), "index:3", INDEX), axis=0),
        case("size 1", (1,), Operand((1,), "index:1", INDEX), axis=0),
        *edges(_VALUES, (2, 3), Operand((4,), "index:2", INDEX), axis=0),
    )
    along = (
        case("normal", (3, 4), Operand((3, 2), "index:4", INDEX), axis=1),
        case("normal", (3, 4), Operand((5, 4), "index:3", INDEX), axis=0),
        case("empty", (3, 4), Operand((3, 0), "index:4", INDEX), axis=1),
        case("size 1", (1,), Operand((1,), "index:1", INDEX), axis=0),
        *edges(_VALUES, (2, 3), Operand((2, 3), "index:2", INDEX), axis=0),
    )
    where = (
        case("normal", Operand((3, 1), "normal", "bool"), (3, 4), (1, 4)),
        case("empty", Operand((0, 3), "normal", "bool"), (0, 3), (3,)),
        case("0-d", Operand((), "normal", "bool"), (), ()),
        case("size 1", Operand((1,), "normal", "bool"), (1, 1), (1,)),
        *edges(_VALUES, Operand((2, 3), "normal", "bool"), (2, 3), (3,)),
    )
    sought = (
        case("normal", Operand((6,), "sorted"), Operand((2, 4), "distinct"), side="left"),
        case("normal", Operand((6,), "sorted"), Operand((5,), "distinct"), side="right"),
        case("empty", Operand((0,), "sorted"), Operand((3,), "distinct"), side="left"),
        case("0-d", Operand((4,), "sorted"), Operand((), "distinct"), side="left"),
        case("size 1", Operand((1,), "sorted"), Operand((1,), "distinct"), side="left"),
    )
    differences = (
        *shapes((3, 5), (0, 3), (1, 1), axis=-1, n=1),
        *shapes((5, 2), axis=0, n=2),
        *edges(_VALUES, (3, 4), axis=1, n=1),
    )
    truth: tuple[Mode, ...] = NO_GRAD
    return (
        *(namespace(name, _along("distinct", empty=False), REAL, modes=truth) for name in ("argmax", "argmin")),
        namespace("count_nonzero", _along("few"), ALL, expected=_right.count_nonzero, modes=truth),
        namespace(
            "nonzero", (*shapes((3, 4), (0, 3), (1, 1), values="few"), *edges(_VALUES, (2, 3))), ALL, modes=EAGER
        ),
        namespace("searchsorted", sought, REAL, modes=truth),
        namespace("where", where, ALL, signed_zeros=True),
        namespace("argsort", _sorting(), REAL, expected=_right.argsort, modes=truth),
        namespace("sort", _sorting(), REAL, expected=_right.sort),
        namespace(
            "isin",
            (
                case("normal", Operand((3, 4), "few"), Operand((3,), "few"), invert=False),
                case("normal", Operand((5,), "few"), Operand((2, 2), "few"), invert=True),
                case("empty", Operand((3,), "few"), Operand((0,), "few"), invert=False),
                case("0-d", Operand((), "few"), Operand((3,), "few"), invert=False),
                case("size 1", Operand((1,), "few"), Operand((1,), "few"), invert=False),
                *edges(_VALUES, (2, 3), (3,), invert=False),
            ),
            REAL,
            expected=_right.isin,
            modes=truth,
        ),
        namespace("unique_all", sets, REAL, expected=_unique_all, modes=EAGER),
        namespace("unique_counts", sets, REAL, expected=_right.unique_counts, modes=EAGER),
        namespace("unique_inverse", sets, REAL, expected=_right.unique_inverse, modes=EAGER),
        namespace("unique_values", sets, REAL, expected=_right.unique_values, modes=EAGER),
        namespace("take", chosen, ALL),
        namespace("take_along_axis", along, ALL),
        namespace("all", _along("few"), ALL, expected=_all, modes=truth),
        namespace("any", _along("few"), ALL, expected=_any, modes=truth),
        namespace("diff", differences, NUMERIC),
        namespace("isclose", near, FLOATS, modes=truth, expected=_isclose),
        namespace("allclose", near, FLOATS, modes=truth, expected=lambda *x, **p: np.all(_isclose(*x, **p))),
        namespace(
            "Array.__getitem__", _read_cases(), ALL,
            call=lambda x, *positions, key: x[_key(key, positions)],
            expected=lambda x, *positions, key: x[_key(key, positions)],
        ),
        namespace(
            "Array.__setitem__", _written_cases(), ALL, call=_write_array, expected=_write, modes=truth,
        ),
    )  # fmt: skip


def _isclose(x1: Values, x2: Values, *, rtol: float, atol: float, equal_nan: bool) -> Values:
    return np.asarray(np.isclose(x1, x2, rtol=rtol, atol=atol, equal_nan=equal_nan))


_KEYS: dict[str, tuple[object, ...]] = {
    "integer": (1,),
    "slices": (slice(None, None, -1), slice(1, 3)),
    "ellipsis": (Ellipsis, 0),
    "newaxis": (None, slice(0, 2)),
    "nothing": (slice(2, 2),),
}


def _key(name: str, positions: tuple[object, ...]) -> object:
    """Return the key of that name; positions that are operands stand alone."""
    return positions[0] if name == "positions" else _KEYS[name]


def _read_cases() -> tuple[Case, ...]:
    return (
        *(case("normal", (3, 4), key=key) for key in ("integer", "slices", "ellipsis", "newaxis")),
        case("normal", (3, 4), Operand((2, 2), "index:3", INDEX), key="positions"),
        case("empty", (3, 4), key="nothing"),
        case("size 1", (1, 1), key="ellipsis"),
        *edges(_VALUES, (3, 4), key="slices"),
    )


def _written_cases() -> tuple[Case, ...]:
    return (
        case("normal", (3, 4), (4,), key="integer"),
        case("normal", (3, 4), (3, 2), key="slices"),
        case("normal", (3, 4), (3,), key="ellipsis"),
        case("empty", (3, 4), (0, 4), key="nothing"),
        case("size 1", (1, 1), (1,), key="ellipsis"),
        *edges(_VALUES, (3, 4), (4,), key="integer"),
    )


def _write(x: Values, y: Values, *, key: str) -> Values:
    out = x.copy()
    out[_key(key, ())] = y  # type: ignore[call-overload]
    return out


def _write_array(x: xp.Array, y: xp.Array, *, key: str) -> xp.Array:
    out = xp.asarray(x, copy=True)
    out[_key(key, ())] = y  # type: ignore[index]
    return out
