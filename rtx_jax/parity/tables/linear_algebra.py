"""Products of matrices, and the extension `linalg`."""

from __future__ import annotations

import numpy as np

import rtx_jax as xp

from ..case import MODES, Case, Edge, Operand, Operation
from ..reference import linalg as _right
from .build import ALL, COMPLEX, FLOATS, NO_GRAD, NUMERIC, SMALL_FLOATS, case, edges, namespace, shapes

__all__ = ["operations"]

_NAN: tuple[Edge, ...] = ("nan", "inf")
# What LAPACK has.
_LAPACK = ("float32", "float64", *COMPLEX)


def _products() -> tuple[Case, ...]:
    return (
        case("normal", (3, 4), (4, 5)),
        case("normal", (2, 3, 4), (4, 2)),
        case("normal", (4,), (4, 3)),
        case("normal", Operand((2, 96), "unit"), Operand((96, 2), "unit")),
        case("empty", (3, 0), (0, 2)),
        case("size 1", (1, 1), (1, 1)),
        *edges(_NAN, (2, 3), (3, 2)),
    )


def _square(values: str = "matrix", **params: object) -> tuple[Case, ...]:
    return (
        case("normal", Operand((3, 3), values), **params),
        case("normal", Operand((2, 4, 4), values), **params),
        case("empty", Operand((0, 3, 3), values), **params),
        case("size 1", Operand((1, 1), values), **params),
    )


def operations() -> tuple[Operation, ...]:
    """Return the operations of the chapter on linear algebra and of the extension."""
    swapped = (*shapes((2, 3), (2, 3, 4), (0, 3), (1, 1)), *edges(("nan", "inf", "extreme"), (2, 3)))
    solved = (
        case("normal", Operand((3, 3), "matrix"), (3, 2)),
        case("normal", Operand((2, 4, 4), "matrix"), (2, 4, 1)),
        case("normal", Operand((3, 3), "matrix"), (3,)),
        case("empty", Operand((0, 0), "matrix"), (0, 2)),
        case("size 1", Operand((1, 1), "matrix"), (1,)),
    )
    vectors = (
        case("normal", (2, 3), (2, 3), axis=-1),
        case("normal", (3, 2), (3, 1), axis=0),
        case("empty", (0, 3), (0, 3), axis=-1),
        *edges(_NAN, (2, 3), (3,), axis=-1),
    )
    pairs = (
        case("normal", (2, 4), (2, 4), axis=-1),
        case("normal", (3, 2), (3, 1), axis=-2),
        case("empty", (2, 0), (2, 0), axis=-1),
        case("size 1", (1,), (1,), axis=-1),
        *edges(_NAN, (2, 3), (3,), axis=-1),
    )
    contracted = (
        case("normal", (2, 3, 4), (3, 4, 2), axes=2),
        case("normal", (2, 3), (4, 2), axes=((0,), (1,))),
        case("normal", (2,), (3,), axes=0),
        case("empty", (2, 0), (0, 3), axes=1),
        case("size 1", (1,), (1,), axes=1),
        *edges(_NAN, (2, 3), (3, 2), axes=1),
    )
    summed = (
        case("normal", (2, 3), (3, 4), subscripts="ij,jk->ik"),
        case("normal", (2, 3, 3), subscripts="bii->bi"),
        case("normal", (2, 3), (2, 4), (3, 4), subscripts="ij,ik,jk->i"),
        case("empty", (0, 3), (3, 2), subscripts="ij,jk->ik"),
        case("size 1", (1, 1), (1,), subscripts="ij,j->i"),
        *edges(_NAN, (2, 3), (3,), subscripts="ij,j->i"),
    )
    outer = (
        case("normal", (3,), (4,)), case("empty", (0,), (2,)), case("size 1", (1,), (1,)),
        *edges(("nan", "inf"), (2,), (3,)),
    )  # fmt: skip
    diagonals = (
        *shapes((3, 4), (2, 3, 3), (0, 3), (1, 1), offset=0),
        *shapes((4, 3), offset=-1),
        *edges(_NAN, (3, 3), offset=1),
    )
    norms = (
        *(c for order in (2, 1, float("inf"), 0, 3) for c in shapes((3, 4), axis=-1, keepdims=False, ord=order)),
        *shapes((2, 3), (1, 1), (), axis=None, keepdims=False, ord=2),
        *shapes((0, 3), axis=0, keepdims=True, ord=2),
        *edges(_NAN, (2, 3), axis=1, keepdims=False, ord=2),
        *edges(("extreme",), Operand((2, 3), "unit"), axis=1, keepdims=False, ord=float("inf")),
    )
    matrix_norms = tuple(
        c
        for order in ("fro", "nuc", 1, 2, float("inf"), -1)
        for c in (
            case("normal", Operand((2, 3, 4), "matrix"), keepdims=False, ord=order),
            case("size 1", Operand((1, 1), "matrix"), keepdims=True, ord=order),
        )
    )
    tall = (
        case("normal", Operand((4, 3), "matrix"), mode="reduced"),
        case("normal", Operand((2, 3, 4), "matrix"), mode="reduced"),
        case("normal", Operand((4, 3), "matrix"), mode="complete"),
        case("size 1", Operand((1, 1), "matrix"), mode="reduced"),
    )
    factored = (
        case("normal", Operand((4, 3), "matrix"), full_matrices=False),
        case("normal", Operand((2, 3, 4), "matrix"), full_matrices=True),
        case("size 1", Operand((1, 1), "matrix"), full_matrices=False),
    )
    rectangular = (
        case("normal", Operand((4, 3), "matrix")),
        case("normal", Operand((2, 3, 4), "matrix")),
        case("size 1", Operand((1, 1), "matrix")),
    )
    return (
        namespace("matmul", _products(), (*NUMERIC, *SMALL_FLOATS), scale="absolute"),
        namespace("matrix_transpose", swapped, ALL, signed_zeros=True),
        namespace("tensordot", contracted, NUMERIC, scale="absolute"),
        namespace("vecdot", pairs, NUMERIC, scale="absolute"),
        namespace(
            "einsum", summed, NUMERIC, scale="absolute", expected=_right.einsum,
            call=lambda *x, subscripts: xp.einsum(subscripts, *x),
        ),
        *(
            namespace(f"linalg.{name}", cases, dtypes, scale="absolute")
            for name, cases, dtypes in (
                ("matmul", _products()[:3], NUMERIC), ("tensordot", contracted[:2], ("float32", "complex64", "int32")),
                ("vecdot", pairs[:2], ("float32", "complex64", "int32")),
            )
        ),
        namespace("linalg.matrix_transpose", swapped[:3], ("float32", "complex64", "int32")),
        namespace(
            "linalg.cholesky", (*_square("spd", upper=False), *_square("spd", upper=True)[:1]), _LAPACK,
            scale="largest", modes=NO_GRAD,
        ),
        namespace("linalg.cross", vectors, NUMERIC, expected=_right.cross, scale="absolute"),
        namespace("linalg.det", _square(), _LAPACK, scale="largest"),
        namespace("linalg.diagonal", diagonals, ALL, signed_zeros=True,
                  expected=lambda x, *, offset: np.diagonal(x, offset=offset, axis1=-2, axis2=-1)),
        namespace(
            "linalg.eig", _square("turning"), _LAPACK, scale="largest", modes=NO_GRAD, canonical=_right.eigen_by_size,
            expected=lambda x: np.linalg.eig(x.astype(np.complex128)),
        ),
        namespace(
            "linalg.eigvals", _square("turning"), _LAPACK, scale="largest", modes=NO_GRAD,
            canonical=_right.eigen_sorted,
            expected=lambda x: np.linalg.eigvals(x.astype(np.complex128)),
        ),
        namespace(
            "linalg.eigh", _square("spd"), _LAPACK, scale="largest", modes=NO_GRAD, canonical=_right.by_phase,
        ),
        namespace("linalg.eigvalsh", _square("spd"), _LAPACK, scale="largest", modes=NO_GRAD),
        namespace("linalg.inv", _square(), _LAPACK, scale="largest"),
        namespace("linalg.matrix_norm", matrix_norms, _LAPACK, expected=_right.matrix_norm, modes=NO_GRAD),
        namespace(
            "linalg.matrix_power",
            tuple(c for n in (0, 1, 3, -2) for c in _square(n=n)[: 4 if n == 3 else 1]),
            _LAPACK, scale="largest",
            call=lambda x, *, n: xp.linalg.matrix_power(x, n),
            expected=lambda x, *, n: np.linalg.matrix_power(x, n),
        ),
        namespace("linalg.matrix_rank", rectangular, _LAPACK, modes=NO_GRAD),
        namespace("linalg.outer", outer, NUMERIC, signed_zeros=True),
        namespace("linalg.pinv", rectangular, _LAPACK, scale="largest", modes=NO_GRAD),
        namespace("linalg.qr", tall, _LAPACK, scale="largest", modes=NO_GRAD, canonical=_right.positive_diagonal),
        namespace("linalg.slogdet", _square(), _LAPACK, scale="largest"),
        namespace("linalg.solve", solved, _LAPACK, scale="largest", expected=_solve),
        namespace("linalg.svd", factored, _LAPACK, scale="largest", modes=NO_GRAD, canonical=_right.same_columns),
        namespace("linalg.svdvals", rectangular, _LAPACK, scale="largest"),
        namespace("linalg.trace", diagonals, NUMERIC, scale="absolute", expected=_right.trace),
        namespace("linalg.vector_norm", norms, (*FLOATS, *COMPLEX), expected=_right.vector_norm, modes=MODES),
    )  # fmt: skip


def _solve(x1: np.ndarray, x2: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.solve(x1, x2))
