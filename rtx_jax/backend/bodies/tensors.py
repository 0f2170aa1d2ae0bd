"""Default bodies of reductions, shapes, products and rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ..core import Tensor
from .elementwise import flip
from .tools import Body, constant, in_float32

if TYPE_CHECKING:
    from ..base import Backend

__all__ = ["BODIES"]

T = TypeVar("T", bound=Tensor)


def _flat(B: Backend[T], x: T) -> T:
    return B.reshape(x, (math.prod(x.shape),))


def sum(B: Backend[T], x: T) -> T:
    """The sum along the one axis of all elements."""
    return B.sum_dim(_flat(B, x), 0)


def mean(B: Backend[T], x: T) -> T:
    """The mean along the one axis of all elements."""
    return mean_dim(B, _flat(B, x), 0)


def mean_dim(B: Backend[T], x: T, dim: int) -> T:
    """The sum over the number."""
    return B.div(B.sum_dim(x, dim), constant(B, x, float(x.shape[dim])))


def var(B: Backend[T], x: T, correction: float) -> T:
    """The variance along the one axis of all elements."""
    return var_dim(B, _flat(B, x), 0, correction)


def var_dim(B: Backend[T], x: T, dim: int, correction: float) -> T:
    """Two passes; NaN without degrees of freedom."""
    freedom = x.shape[dim] - correction
    rest = B.sub(x, mean_dim(B, x, dim))
    total = B.sum_dim(B.mul(rest, rest), dim)
    return B.mul(total, constant(B, x, 1.0 / freedom if freedom > 0 else math.nan))


def max(B: Backend[T], x: T) -> T:
    """The greatest along the one axis of all elements."""
    return B.max_dim(_flat(B, x), 0)


def min(B: Backend[T], x: T) -> T:
    """The least along the one axis of all elements."""
    return min_dim(B, _flat(B, x), 0)


def min_dim(B: Backend[T], x: T, dim: int) -> T:
    """The greatest in the reversed order."""
    return flip(B, B.max_dim(flip(B, x), dim))


def transpose(B: Backend[T], x: T) -> T:
    """A permutation."""
    return swap_dims(B, x, x.ndim - 2, x.ndim - 1)


def swap_dims(B: Backend[T], x: T, dim1: int, dim2: int) -> T:
    """A permutation."""
    order = list(range(x.ndim))
    order[dim1], order[dim2] = dim2, dim1
    return B.permute(x, order)


def bmm(B: Backend[T], lhs: T, rhs: T, precision: str) -> T:
    """All products, summed: one matrix at a time has no place to go to without a concatenation."""
    batch, m, k = lhs.shape
    products = B.mul(B.reshape(lhs, (batch, m, k, 1)), B.reshape(rhs, (batch, 1, k, rhs.shape[2])))
    return B.reshape(B.sum_dim(products, 2), (batch, m, rhs.shape[2]))


def linear(B: Backend[T], x: T, weight: T, bias: T | None, precision: str) -> T:
    """The product of matrices, then the bias."""
    rows = B.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))
    out = B.reshape(B.matmul(rows, B.permute(weight, (1, 0)), precision=precision), (*x.shape[:-1], weight.shape[0]))
    return out if bias is None else B.add(out, bias)


def embedding(B: Backend[T], indices: T | np.ndarray, weight: T, mode: str) -> T:
    """Rows at the indices laid out flat."""
    shape = (*indices.shape, weight.shape[1])
    flat = indices.reshape(-1) if isinstance(indices, np.ndarray) else B.reshape(indices, (math.prod(indices.shape),))
    return B.reshape(B.index_select(weight, flat, mode=mode), shape)


BODIES: dict[str, Body] = {
    "sum": sum,
    "mean": in_float32(mean),
    "var": in_float32(var),
    "max": max,
    "min": min,
    "mean_dim": in_float32(mean_dim),
    "var_dim": in_float32(var_dim),
    "min_dim": min_dim,
    "transpose": transpose,
    "swap_dims": swap_dims,
    "bmm": in_float32(bmm, common=True),
    "linear": in_float32(linear, common=True),
    "embedding": embedding,
}
