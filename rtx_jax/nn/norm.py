"""Norms.

Statistics are taken in float32 (float64 of float64) and the result is rounded once, so that float16 does not overflow;
of values around 10,000 with deviations of 0.01 the deviations are still right. Squares are formed there, so float32 and
bfloat16 values beyond 1e19 overflow, as in the formula. The result has the dtype of `x`.
"""

from __future__ import annotations

from typing import Literal, overload

from .._array import Array
from ..checks.choices import flag
from ..checks.elementwise import scalar
from ..checks.norm import eps as eps_of
from ..checks.parameters import whole
from ..ops import norm as _ops
from ._call import call, optional

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"]

_layer_norm = optional("layer_norm", _ops.layer_norm, ("eps",))
_rms_norm = optional("rms_norm", _ops.rms_norm, ("eps",))
_group_norm = optional("group_norm", _ops.group_norm, ("num_groups", "eps"))
_instance_norm = optional("instance_norm", _ops.instance_norm, ("eps",))
_batch_norm = optional("batch_norm", _ops.batch_norm, ("training", "momentum", "eps"))


@overload
def layer_norm(
    x: Array,
    /,
    weight: Array | None = ...,
    bias: Array | None = ...,
    *,
    eps: float = ...,
    residual: None = ...,
) -> Array: ...


@overload
def layer_norm(
    x: Array, /, weight: Array | None = ..., bias: Array | None = ..., *, eps: float = ..., residual: Array
) -> tuple[Array, Array]: ...


def layer_norm(
    x: Array,
    /,
    weight: Array | None = None,
    bias: Array | None = None,
    *,
    eps: float = 1e-5,
    residual: Array | None = None,
) -> Array | tuple[Array, Array]:
    """Return ``(x - mean) / sqrt(variance + eps) * weight + bias`` along the last axis (Ba et al. 2016).

    Parameters
    ----------
    x
        Real floating, shape (..., D).
    weight, bias
        Shape (D,); 1 and 0 when left out.
    eps
        Added to the variance, whose divisor is D; 0 or more.
    residual
        Added to `x` first; of its shape and dtype. The sum is returned too.

    Returns
    -------
    Array or tuple of Arrays
        Shape and dtype of `x`; with `residual` the norm of the sum, and the sum.

    Raises
    ------
    InvalidDimension
        `x` has no axis.
    ShapeMismatch
        A parameter has not the shape (D,), or `residual` not that of `x`.
    DTypeMismatch
        `residual` has another dtype than `x`.
    UnsupportedDType
        An operand is not real floating.
    InvalidArgument
        `eps` is negative or not a finite number.
    """
    operands = {"x": x, "weight": weight, "bias": bias, "residual": residual}
    return call(_layer_norm, operands, eps_of("layer_norm", eps))  # type: ignore[return-value]


@overload
def rms_norm(x: Array, /, weight: Array | None = ..., *, eps: float = ..., residual: None = ...) -> Array: ...


@overload
def rms_norm(x: Array, /, weight: Array | None = ..., *, eps: float = ..., residual: Array) -> tuple[Array, Array]: ...


def rms_norm(
    x: Array, /, weight: Array | None = None, *, eps: float = 1e-6, residual: Array | None = None
) -> Array | tuple[Array, Array]:
    """Return ``x / sqrt(mean(x**2) + eps) * weight`` along the last axis (Zhang and Sennrich 2019).

    Parameters
    ----------
    x
        Real floating, shape (..., D).
    weight
        Shape (D,); 1 when left out.
    eps
        Added to the mean square; 0 or more.
    residual
        Added to `x` first; of its shape and dtype. The sum is returned too.

    Returns
    -------
    Array or tuple of Arrays
        Shape and dtype of `x`; with `residual` the norm of the sum, and the sum.

    Raises
    ------
    InvalidDimension
        `x` has no axis.
    ShapeMismatch
        The weight has not the shape (D,), or `residual` not that of `x`.
    DTypeMismatch
        `residual` has another dtype than `x`.
    UnsupportedDType
        An operand is not real floating.
    InvalidArgument
        `eps` is negative or not a finite number.
    """
    return call(_rms_norm, {"x": x, "weight": weight, "residual": residual}, eps_of("rms_norm", eps))  # type: ignore[return-value]


def group_norm(
    x: Array, /, num_groups: int, weight: Array | None = None, bias: Array | None = None, *, eps: float = 1e-5
) -> Array:
    """Return `x` normalized over each group of channels and all axes behind them (Wu and He 2018).

    Parameters
    ----------
    x
        Real floating, shape (B, C, ...).
    num_groups
        Number of groups; it divides C. Neighbouring channels form a group.
    weight, bias
        Shape (C,); 1 and 0 when left out.
    eps
        Added to the variance, whose divisor is the number of elements; 0 or more.

    Returns
    -------
    Array
        Shape and dtype of `x`.

    Raises
    ------
    InvalidDimension
        `x` has fewer than two axes.
    InvalidArgument
        The groups do not divide the channels, or `eps` is negative or not a finite number.
    ShapeMismatch
        A parameter has not the shape (C,).
    UnsupportedDType
        An operand is not real floating.
    """
    groups = whole("group_norm", "num_groups", num_groups, 1)
    operands = {"x": x, "weight": weight, "bias": bias}
    return call(_group_norm, operands, groups, eps_of("group_norm", eps))  # type: ignore[return-value]


def instance_norm(x: Array, /, weight: Array | None = None, bias: Array | None = None, *, eps: float = 1e-5) -> Array:
    """Return `x` normalized over the axes behind each channel (Ulyanov et al. 2016).

    Parameters
    ----------
    x
        Real floating, shape (B, C, ...).
    weight, bias
        Shape (C,); 1 and 0 when left out.
    eps
        Added to the variance, whose divisor is the number of elements; 0 or more.

    Returns
    -------
    Array
        Shape and dtype of `x`.

    Raises
    ------
    InvalidDimension
        `x` has fewer than two axes.
    ShapeMismatch
        A parameter has not the shape (C,).
    UnsupportedDType
        An operand is not real floating.
    InvalidArgument
        `eps` is negative or not a finite number.
    """
    operands = {"x": x, "weight": weight, "bias": bias}
    return call(_instance_norm, operands, eps_of("instance_norm", eps))  # type: ignore[return-value]


@overload
def batch_norm(
    x: Array,
    /,
    running_mean: Array | None = ...,
    running_var: Array | None = ...,
    weight: Array | None = ...,
    bias: Array | None = ...,
    *,
    training: Literal[False] = ...,
    momentum: float = ...,
    eps: float = ...,
) -> Array: ...


@overload
def batch_norm(
    x: Array,
    /,
    running_mean: Array | None = ...,
    running_var: Array | None = ...,
    weight: Array | None = ...,
    bias: Array | None = ...,
    *,
    training: Literal[True],
    momentum: float = ...,
    eps: float = ...,
) -> tuple[Array, Array, Array]: ...


def batch_norm(
    x: Array,
    /,
    running_mean: Array | None = None,
    running_var: Array | None = None,
    weight: Array | None = None,
    bias: Array | None = None,
    *,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Array | tuple[Array, Array, Array]:
    """Return `x` normalized for each channel (Ioffe and Szegedy 2015).

    Parameters
    ----------
    x
        Real floating, shape (B, C, ...).
    running_mean, running_var
        Shape (C,): the statistics that are used when not training, and moved towards those of the batch when
        training. They may both be left out while training.
    weight, bias
        Shape (C,); 1 and 0 when left out.
    training
        Normalize by the statistics of the batch, and return the new running statistics too.
    momentum
        Weight of the batch in the new running statistics, 0 to 1.
    eps
        Added to the variance; 0 or more.

    Returns
    -------
    Array or tuple of Arrays
        The result of the shape and dtype of `x`; while training ``(result, running_mean, running_var)``. The batch is
        normalized by its variance with divisor n, the running variance has the divisor n - 1. No gradient passes
        through the running statistics.

    Raises
    ------
    InvalidDimension
        `x` has fewer than two axes.
    ShapeMismatch
        A parameter or statistic has not the shape (C,).
    InvalidArgument
        There are no statistics to use, training has fewer than two values in a channel, `momentum` is not in 0..1,
        or `eps` is negative.
    UnsupportedDType
        An operand is not real floating.
    """
    operands = {"x": x, "running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    rate = scalar("batch_norm", "momentum", momentum)
    return call(_batch_norm, operands, flag("batch_norm", "training", training), rate, eps_of("batch_norm", eps))  # type: ignore[return-value]
