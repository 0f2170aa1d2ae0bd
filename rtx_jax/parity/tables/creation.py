"""Creation of Arrays, and dtypes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import rtx_jax as xp

from ..case import TESTED, Edge, Mode, Operand, Operation
from ..operands import dtype_named
from ..reference import conversion
from ..ulp import Values
from .build import ALL, COMPLEX, EAGER, FLOATS, INTEGERS, NO_GRAD, REAL, SMALL_FLOATS, case, edges, namespace, shapes

__all__ = ["operations"]

_EVERY = (*ALL, *SMALL_FLOATS)
_COMPILED: tuple[Mode, ...] = ("eager", "jit")
_SHAPES = ((3, 4), (0, 3), (), (1, 1))


def _blank(leaves: list[object]) -> list[object]:
    """Forget the values, of which nothing is promised."""
    return [np.zeros_like(np.asarray(leaf)) for leaf in leaves]


def _made(name: str) -> Callable[..., Values]:
    """NumPy's function with a dtype that NumPy need not know."""

    def reference(*args: object, dtype: np.dtype, **params: object) -> Values:
        wide = np.complex128 if dtype.kind == "c" else np.float64 if dtype.kind in "fV" else dtype
        return np.asarray(getattr(np, name)(*args, dtype=wide, **params))

    return reference


def _finfo(x: xp.Array) -> list[object]:
    info = xp.finfo(x)
    return [info.bits, info.eps, info.max, info.min, info.smallest_normal]


def _iinfo(x: xp.Array) -> list[object]:
    info = xp.iinfo(x)
    return [info.bits, info.max, info.min]


def _promoted(x: Values) -> str:
    """The standard's table for a dtype beside uint8 and beside float32."""
    return str(np.result_type(x.dtype, np.uint8))


def operations() -> tuple[Operation, ...]:
    """Return the operations of the chapters on creation and on dtypes."""
    grids = shapes((3, 4), (0, 3), (), (1, 1))
    square = (
        *shapes((3, 4), (2, 3, 3), (0, 3), (1, 1), k=0),
        *shapes((4, 3), k=-1),
        *edges(("nan", "inf"), (3, 3), k=1),
    )
    made = tuple(case("empty" if 0 in s else "0-d" if s == () else "normal", shape=s, dtype=TESTED) for s in _SHAPES)
    targets = ("bool", "int8", "uint16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64")
    odd: tuple[tuple[Edge, tuple[int, ...]], ...] = (
        ("empty", (0, 3)), ("0-d", ()), ("size 1", (1, 1)), ("nan", (2, 3)), ("inf", (2, 3)), ("extreme", (2, 3)),
    )  # fmt: skip
    conversions = tuple(case("normal", Operand((8, 16), "points"), to=to) for to in targets) + tuple(
        case(edge, Operand(shape), to="float32") for edge, shape in odd
    )
    ranges = (
        case("normal", start=2, stop=9, step=3, dtype=TESTED),
        case("normal", start=9, stop=2, step=-2, dtype=TESTED),
        case("empty", start=3, stop=3, step=1, dtype=TESTED),
        case("size 1", start=3, stop=4, step=1, dtype=TESTED),
    )
    return (
        namespace(
            "arange", ranges[:1] + ranges[2:], INTEGERS + ("float32", "float64"), modes=_COMPILED,
            call=lambda *, start, stop, step, dtype: xp.arange(start, stop, step, dtype=dtype),
            expected=lambda *, start, stop, step, dtype: np.arange(start, stop, step, dtype=dtype),
        ),
        namespace("array", grids, _EVERY, call=xp.array, expected=np.array, native=True, typed=True, modes=NO_GRAD),
        namespace("asarray", grids, _EVERY, expected=np.asarray, native=True, typed=True, modes=NO_GRAD),
        namespace("empty", made, _EVERY, expected=_made("empty"), canonical=_blank, modes=_COMPILED),
        namespace("empty_like", grids, _EVERY, expected=np.empty_like, canonical=_blank, modes=NO_GRAD),
        namespace(
            "eye",
            (
                case("normal", dtype=TESTED, n_rows=3, n_cols=5, k=1),
                case("normal", dtype=TESTED, n_rows=4, n_cols=None, k=-1),
                case("empty", dtype=TESTED, n_rows=0, n_cols=2, k=0),
                case("size 1", dtype=TESTED, n_rows=1, n_cols=1, k=0),
            ),
            _EVERY,
            call=lambda *, n_rows, n_cols, k, dtype: xp.eye(n_rows, n_cols, k=k, dtype=dtype),
            expected=lambda *, n_rows, n_cols, k, dtype: _made("eye")(n_rows, n_cols, k=k, dtype=dtype),
            modes=_COMPILED,
        ),
        namespace("from_dlpack", grids, REAL + COMPLEX, expected=np.asarray, native=True, typed=True, modes=EAGER),
        namespace(
            "full", tuple(case(c.edge, **c.params, fill_value=3) for c in made), _EVERY[1:],
            expected=_made("full"), modes=_COMPILED,
        ),
        namespace("full_like", shapes((3, 4), (0, 3), (), (1, 1), fill_value=3), _EVERY[1:], modes=NO_GRAD),
        namespace(
            "linspace",
            (
                case("normal", start=-1.0, stop=2.0, num=8, endpoint=True, dtype=TESTED),
                case("normal", start=0.0, stop=1.0, num=7, endpoint=False, dtype=TESTED),
                case("empty", start=0.0, stop=1.0, num=0, endpoint=True, dtype=TESTED),
                case("size 1", start=0.5, stop=1.0, num=1, endpoint=True, dtype=TESTED),
                case("extreme", start=-1e4, stop=1e4, num=5, endpoint=True, dtype=TESTED),
            ),
            ("float16", "float32", "float64"),
            call=lambda *, start, stop, num, endpoint, dtype: xp.linspace(
                start, stop, num, endpoint=endpoint, dtype=dtype
            ),
            expected=lambda *, start, stop, num, endpoint, dtype: np.linspace(start, stop, num, endpoint=endpoint),
            modes=_COMPILED,
            scale="largest",
        ),
        namespace(
            "meshgrid",
            (
                case("normal", (3,), (4,), indexing="xy"),
                case("normal", (3,), (4,), (2,), indexing="ij"),
                case("empty", (0,), (2,), indexing="xy"),
                case("size 1", (1,), (1,), indexing="ij"),
                *edges(("nan", "inf", "extreme"), (3,), (2,), indexing="ij"),
            ),
            ALL,
        ),
        *(namespace(name, made, _EVERY, expected=_made(name), modes=_COMPILED) for name in ("ones", "zeros")),
        *(namespace(name, grids, _EVERY, modes=NO_GRAD) for name in ("ones_like", "zeros_like")),
        *(namespace(name, square, ALL) for name in ("tril", "triu")),
        namespace(
            "astype", conversions, ("bool", *REAL),
            call=lambda x, *, to: xp.astype(x, dtype_named(to)),
            expected=lambda x, *, to: conversion.astype(x, to),
            native=True, typed=True, modes=NO_GRAD,
        ),
        namespace(
            "astype",
            tuple(case("normal", Operand((8, 16), "points"), to=to) for to in ("bool", "complex64", "complex128")),
            COMPLEX,
            call=lambda x, *, to: xp.astype(x, dtype_named(to)),
            expected=lambda x, *, to: conversion.astype(x, to),
            native=True, typed=True, modes=NO_GRAD,
        ),
        namespace(
            "can_cast", tuple(case("normal", (1,), to=to) for to in ("bool", "uint8", "int32", "float32", "complex64")),
            REAL[:8] + ("float32", "float64") + COMPLEX,
            call=lambda x, *, to: xp.can_cast(x, dtype_named(to)),
            expected=lambda x, *, to: np.asarray(_standard_cast(x.dtype, dtype_named(to))),
            native=True, modes=EAGER,
        ),
        namespace(
            "finfo", shapes((1,)), FLOATS + COMPLEX, call=_finfo, expected=conversion.finfo, native=True, typed=True,
            modes=EAGER,
        ),
        namespace(
            "iinfo", shapes((1,)), INTEGERS, call=_iinfo, expected=conversion.iinfo, native=True, typed=True,
            modes=EAGER,
        ),
        namespace(
            "isdtype",
            tuple(
                case("normal", (1,), kind=kind)
                for kind in ("bool", "signed integer", "unsigned integer", "integral", "real floating",
                             "complex floating", "numeric")
            ),
            ("bool", *INTEGERS, "float32", "float64", *COMPLEX),
            call=lambda x, *, kind: xp.isdtype(x.dtype, kind),
            expected=lambda x, *, kind: np.asarray(np.isdtype(x.dtype, kind)),
            native=True, modes=EAGER,
        ),
        namespace(
            "result_type",
            tuple(case("normal", (1,), Operand((1,), dtype=other)) for other in ("uint8", "int32", "float32")),
            INTEGERS[:7] + ("float32", "float64") + COMPLEX,
            expected=lambda x, y: np.asarray(_standard_promotion(x.dtype, y.dtype)),
            native=True, modes=EAGER,
        ),
    )  # fmt: skip


_WITHIN = {"i": "iu", "u": "iu", "f": "fc", "c": "fc", "b": "b"}


def _standard_promotion(a: np.dtype, b: np.dtype) -> str:
    """The standard's result for two kinds that it promotes; beyond it a float beside an integer keeps its dtype."""
    if a.kind in "iu" and b.kind in "fc":
        return b.name
    if b.kind in "iu" and a.kind in "fc":
        return a.name
    return np.result_type(a, b).name


def _standard_cast(a: np.dtype, b: np.dtype) -> bool:
    """Whether the promotion of both is the second."""
    if b.kind not in _WITHIN[a.kind]:
        return a.kind in "iu" and b.kind in "fc" or a.kind == "b"
    return np.result_type(a, b) == b
