"""Checks of cross-entropy from hidden states."""

from __future__ import annotations

import numpy as np

from ..errors import DTypeMismatch, InvalidArgument, InvalidDimension, ShapeMismatch
from .choices import is_one_of
from .elementwise import floating, scalar
from .parameters import integer, positive, whole

__all__ = ["REDUCTIONS", "operands", "parameters"]

REDUCTIONS = ("mean", "sum", "none")


def operands(
    shape: tuple[int, ...],
    dtype: np.dtype,
    weight_shape: tuple[int, ...],
    weight_dtype: np.dtype,
    labels_shape: tuple[int, ...],
    labels_dtype: np.dtype,
    bias_shape: tuple[int, ...] | None,
    bias_dtype: np.dtype | None,
) -> None:
    """Check the arrays.

    Raises
    ------
    UnsupportedDType
        Hidden states, weights or the bias are not real floating, or the labels not integers.
    InvalidDimension
        The hidden states have no axis.
    ShapeMismatch
        The weights have not the shape (V, D) with a V above 0, the labels not that of the hidden states without their
        last axis, or the bias not (V,).
    DTypeMismatch
        The weights have another dtype than the hidden states.
    """
    floating("cross_entropy", dtype, "hidden")
    floating("cross_entropy", weight_dtype, "weight")
    integer("cross_entropy", labels_dtype, "labels")
    if not shape:
        raise InvalidDimension(
            "cross_entropy", "hidden", got="a scalar", wanted="an axis of features, the last", dim=0, ndim=0
        )
    if len(weight_shape) != 2 or weight_shape[1] != shape[-1] or not weight_shape[0]:
        raise _mismatch("weight", weight_shape, f"(V, {shape[-1]}) for hidden of shape {shape}", ("V", shape[-1]))
    if weight_dtype != dtype:
        raise DTypeMismatch(
            "cross_entropy",
            "weight",
            got=weight_dtype.name,
            wanted=f"{dtype.name}, as hidden",
            remedy="Convert one of them with astype.",
        )
    if labels_shape != shape[:-1]:
        raise _mismatch("labels", labels_shape, f"{shape[:-1]}, one for each row of hidden", shape[:-1])
    if bias_shape is not None:
        assert bias_dtype is not None
        floating("cross_entropy", bias_dtype, "bias")
        if bias_shape != weight_shape[:1]:
            raise _mismatch("bias", bias_shape, f"({weight_shape[0]},), one for each word", weight_shape[:1])


def _mismatch(argument: str, got: tuple[int, ...], wanted: str, expected: object) -> ShapeMismatch:
    return ShapeMismatch("cross_entropy", argument, got=f"shape {got}", wanted=wanted, expected=expected, got_shape=got)


def parameters(
    ignore_index: object, label_smoothing: object, z_loss: object, softcap: object, reduction: object, block: object
) -> tuple[int | None, float, float, float | None, str, int | None]:
    """Return the static parameters in normal form.

    Raises
    ------
    InvalidArgument
        The smoothing is not in 0..1, the z-loss negative, the cap not positive, the reduction unknown, the block not a
        positive integer, or one is no number of the host.
    """
    ignored = None if ignore_index is None else whole("cross_entropy", "ignore_index", ignore_index, -(2**31))
    smoothing = scalar("cross_entropy", "label_smoothing", label_smoothing, finite=True)
    if not 0 <= smoothing <= 1:
        raise InvalidArgument(
            "cross_entropy",
            "label_smoothing",
            got=smoothing,
            wanted="0 to 1",
            arg="label_smoothing",
            reason="out of range",
        )
    penalty = positive("cross_entropy", "z_loss", z_loss, zero=True)
    cap = None if softcap is None else positive("cross_entropy", "softcap", softcap)
    if not is_one_of(reduction, REDUCTIONS):
        raise InvalidArgument(
            "cross_entropy",
            "reduction",
            got=repr(reduction),
            wanted=", ".join(REDUCTIONS),
            arg="reduction",
            reason="unknown reduction",
        )
    rows = None if block is None else whole("cross_entropy", "block", block, 1)
    return ignored, smoothing, penalty, cap, str(reduction), rows
