"""Checks of linear, embedding and dropout."""

from __future__ import annotations

import numpy as np

from ..errors import InvalidArgument, ShapeMismatch
from .choices import is_one_of
from .elementwise import common_dtype, floating, scalar
from .parameters import integer
from .shape import rank, rank_at_least

__all__ = ["PRECISIONS", "dropout", "embedding", "linear", "precision"]

PRECISIONS = ("highest", "high", "default")


def precision(operation: str, value: object) -> str:
    """Return the precision of a float32 product: one of `PRECISIONS`; None is the first.

    Raises
    ------
    InvalidArgument
        It is another word.
    """
    if value is None:
        return "highest"
    if not is_one_of(value, PRECISIONS):
        raise InvalidArgument(
            operation,
            "precision",
            got=repr(value),
            wanted=", ".join(map(repr, PRECISIONS)) + " or None",
            arg="precision",
            reason="unknown precision",
        )
    return str(value)


def linear(
    shape: tuple[int, ...],
    dtype: np.dtype,
    weight_shape: tuple[int, ...],
    weight_dtype: np.dtype,
    bias_shape: tuple[int, ...] | None,
    bias_dtype: np.dtype | None,
) -> tuple[tuple[int, ...], np.dtype]:
    """Return the shape and dtype of ``x @ weight.T + bias``.

    Raises
    ------
    InvalidDimension
        `x` has no axis, `weight` not two, or `bias` not one.
    ShapeMismatch
        The sizes do not fit.
    UnsupportedDType, DTypeMismatch
        An operand is not real floating, or the dtypes do not combine.
    """
    floating("linear", dtype)
    floating("linear", weight_dtype, "weight")
    rank_at_least("linear", shape, 1)
    rank("linear", weight_shape, 2, "weight")
    if shape[-1] != weight_shape[1]:
        raise ShapeMismatch(
            "linear",
            "weight",
            got=f"shape {weight_shape} for x of shape {shape}",
            wanted=f"({weight_shape[0]}, {shape[-1]}): outputs by inputs",
            expected=(weight_shape[0], shape[-1]),
            got_shape=weight_shape,
        )
    out = common_dtype("linear", dtype, weight_dtype)
    if bias_shape is not None and bias_dtype is not None:
        floating("linear", bias_dtype, "bias")
        if bias_shape != weight_shape[:1]:
            raise ShapeMismatch(
                "linear",
                "bias",
                got=f"shape {bias_shape}",
                wanted=f"{weight_shape[:1]}",
                expected=weight_shape[:1],
                got_shape=bias_shape,
            )
    return (*shape[:-1], weight_shape[0]), out


def embedding(dtype: np.dtype, weight_shape: tuple[int, ...]) -> None:
    """Check the operands of embedding: integers, and a table of vectors.

    Raises
    ------
    UnsupportedDType
        The indices are not integers.
    InvalidDimension
        The table has not two axes.
    """
    integer("embedding", dtype, "indices")
    rank("embedding", weight_shape, 2, "weight")


def dropout(dtype: np.dtype, p: object) -> float:
    """Return the probability of a zero, in 0..1.

    Raises
    ------
    InvalidArgument
        It is out of range.
    UnsupportedDType
        The dtype is not real floating.
    """
    floating("dropout", dtype)
    rate = scalar("dropout", "p", p, finite=True)
    if not 0 <= rate <= 1:
        raise InvalidArgument("dropout", "p", got=rate, wanted="0 to 1", arg="p", reason="out of range")
    return rate
