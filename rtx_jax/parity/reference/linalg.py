"""Linear algebra: NumPy's functions, and one choice where several results are right."""

from __future__ import annotations

import numpy as np

from ..ulp import Values

__all__ = [
    "by_phase",
    "cross",
    "eigen_by_size",
    "eigen_sorted",
    "einsum",
    "matrix_norm",
    "positive_diagonal",
    "same_columns",
    "trace",
    "vector_norm",
]


def _wide(leaf: object) -> Values:
    return np.asarray(leaf)


def _turned(columns: Values, by: Values) -> Values:
    """Turn each column so that the element of `by` that belongs to it becomes positive."""
    size = np.abs(by)
    phase = np.where(size == 0, 1, by / np.where(size == 0, 1, size))
    return (columns * np.conj(phase)[..., None, :]).astype(columns.dtype)


def positive_diagonal(leaves: list[object]) -> list[object]:
    """Of Q and R, the ones whose R has a positive diagonal."""
    q, r = map(_wide, leaves)
    count = min(r.shape[-2:])
    diagonal = np.diagonal(r, axis1=-2, axis2=-1)
    full = np.ones((*diagonal.shape[:-1], q.shape[-1]), q.dtype)
    full[..., :count] = diagonal
    turned_q = _turned(q, full)
    size = np.abs(full)
    phase = np.where(size == 0, 1, full / np.where(size == 0, 1, size))
    rows = (np.conj(phase)[..., : r.shape[-2], None] * r).astype(r.dtype)
    # Columns of Q beyond the rank are any complement.
    turned_q[..., count:] = 0
    return [turned_q, rows]


def _largest_of_columns(x: Values) -> Values:
    places = np.argmax(np.round(np.abs(x).astype(np.float64), 3), axis=-2)
    return np.take_along_axis(x, places[..., None, :], -2)[..., 0, :]


def same_columns(leaves: list[object]) -> list[object]:
    """Of singular vectors, the ones whose left column has a positive largest element."""
    u, s, vh = map(_wide, leaves)
    count = s.shape[-1]
    by = _largest_of_columns(u)
    left = _turned(u, by)
    size = np.abs(by)
    phase = np.where(size == 0, 1, by / np.where(size == 0, 1, size))[..., :count]
    right = vh.copy()
    right[..., :count, :] = (phase[..., :, None] * vh[..., :count, :]).astype(vh.dtype)
    left[..., count:] = 0
    right[..., count:, :] = 0
    return [left, s, right]


def by_phase(leaves: list[object]) -> list[object]:
    """Of eigenvectors, the ones whose largest element is positive."""
    values, vectors = map(_wide, leaves)
    return [values, _turned(vectors, _largest_of_columns(vectors))]


def _order(values: Values) -> Values:
    return np.lexsort(
        (np.round(values.imag.astype(np.float64), 3), np.round(values.real.astype(np.float64), 3)), axis=-1
    )


def eigen_sorted(leaves: list[object]) -> list[object]:
    """Eigenvalues in order of their components."""
    (values,) = map(_wide, leaves)
    return [np.take_along_axis(values, _order(values), -1)]


def eigen_by_size(leaves: list[object]) -> list[object]:
    """Eigenvalues and eigenvectors in order, the vectors with a positive largest element."""
    values, vectors = map(_wide, leaves)
    order = _order(values)
    return by_phase([np.take_along_axis(values, order, -1), np.take_along_axis(vectors, order[..., None, :], -1)])


def cross(x1: Values, x2: Values, /, *, axis: int) -> Values:
    """Cross product of three-dimensional vectors."""
    a, b = np.moveaxis(x1, axis, -1), np.moveaxis(x2, axis, -1)
    a, b = np.broadcast_arrays(a, b)
    parts = [a[..., i] * b[..., j] - a[..., j] * b[..., i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return np.moveaxis(np.stack(parts, axis=-1).astype(a.dtype), -1, axis)


def trace(x: Values, /, *, offset: int) -> Values:
    """Sum along a diagonal."""
    return np.asarray(np.trace(x, offset=offset, axis1=-2, axis2=-1))


def einsum(*operands: Values, subscripts: str) -> Values:
    """Sum of products."""
    return np.asarray(np.einsum(subscripts, *operands))


def vector_norm(x: Values, /, *, axis: int | None, keepdims: bool, ord: float) -> Values:
    """Norm of the numbers of each lane."""
    return np.asarray(np.linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=ord))  # type: ignore[arg-type]


def matrix_norm(x: Values, /, *, keepdims: bool, ord: float | str) -> Values:
    """Norm of each matrix."""
    return np.asarray(np.linalg.matrix_norm(x, keepdims=keepdims, ord=ord))  # type: ignore[arg-type]
