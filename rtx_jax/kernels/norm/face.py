"""`rms_norm` and `layer_norm`: checks, the residual sum, and the norm as a formula with kernels."""

from __future__ import annotations

import functools
from typing import overload

import jax

from ...checks import norm as _check
from ...errors import DTypeMismatch, ShapeMismatch
from ...raw._kinds import enter
from ..formula import Arrays, Formula, call
from ..operands import arrays
from . import select, xla
from .spec import NormSpec

__all__ = ["layer_norm", "rms_norm"]


@overload
def rms_norm(
    x: jax.Array,
    weight: jax.Array | None = ...,
    *,
    eps: float = ...,
    residual: None = ...,
    implementation: str = ...,
) -> jax.Array: ...


@overload
def rms_norm(
    x: jax.Array, weight: jax.Array | None = ..., *, eps: float = ..., residual: jax.Array, implementation: str = ...
) -> tuple[jax.Array, jax.Array]: ...


def rms_norm(
    x: jax.Array,
    weight: jax.Array | None = None,
    *,
    eps: float = 1e-6,
    residual: jax.Array | None = None,
    implementation: str = "auto",
) -> jax.Array | tuple[jax.Array, jax.Array]:
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
    implementation
        Of the backward pass: ``"auto"``, ``"xla"``, ``"pallas_tpu"`` or ``"pallas_mosaic_gpu"``. The forward pass is
        plain XLA everywhere, which is at memory speed.

    Returns
    -------
    jax.Array or tuple
        Shape and dtype of `x`; with `residual` the norm of the sum, and the sum.

    Raises
    ------
    InvalidDimension
        `x` has no axis.
    ShapeMismatch
        The weight has not the shape (D,), or `residual` not that of `x`.
    UnsupportedDType
        An operand is not real floating.
    DTypeMismatch
        `residual` has another dtype than `x`.
    InvalidArgument
        `eps` is negative or not a finite number, the implementation is unknown, or an operand is no array of JAX or
        NumPy.
    BackendLimitation
        The implementation that was asked for cannot do it; the text has every reason.

    Notes
    -----
    Statistics are taken and applied in float32 (float64 of float64) and the result is rounded once. Differentiable in
    every mode, any number of times; `x` and the weight are all that is kept for the backward pass, which adds up the
    weight's cotangent in a fixed order.
    """
    return _norm("rms_norm", x, weight, None, eps, residual, implementation)


@overload
def layer_norm(
    x: jax.Array,
    weight: jax.Array | None = ...,
    bias: jax.Array | None = ...,
    *,
    eps: float = ...,
    residual: None = ...,
    implementation: str = ...,
) -> jax.Array: ...


@overload
def layer_norm(
    x: jax.Array,
    weight: jax.Array | None = ...,
    bias: jax.Array | None = ...,
    *,
    eps: float = ...,
    residual: jax.Array,
    implementation: str = ...,
) -> tuple[jax.Array, jax.Array]: ...


def layer_norm(
    x: jax.Array,
    weight: jax.Array | None = None,
    bias: jax.Array | None = None,
    *,
    eps: float = 1e-5,
    residual: jax.Array | None = None,
    implementation: str = "auto",
) -> jax.Array | tuple[jax.Array, jax.Array]:
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
    implementation
        See `rms_norm`.

    Returns
    -------
    jax.Array or tuple
        See `rms_norm`.

    Raises
    ------
    InvalidDimension, ShapeMismatch, UnsupportedDType, DTypeMismatch, InvalidArgument, BackendLimitation
        See `rms_norm`.

    Notes
    -----
    See `rms_norm`. The variance is that of values that were centred twice, so that deviations beside a large mean are
    right.
    """
    return _norm("layer_norm", x, weight, bias, eps, residual, implementation)


def _norm(
    operation: str,
    x: jax.Array,
    weight: jax.Array | None,
    bias: jax.Array | None,
    eps: float,
    residual: jax.Array | None,
    implementation: str,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    words = select.implementation(operation, implementation)
    arrays(operation, ("x",), x=x, weight=weight, bias=bias, residual=residual)
    size = _check.last_axis(operation, x.shape, x.dtype)
    for name, vector in (("weight", weight), ("bias", bias)):
        if vector is not None:
            _check.affine(operation, size, "element of the last axis", vector.shape, vector.dtype, name)
    if residual is not None:
        _check_residual(operation, x, residual)
    small = _check.eps(operation, eps)
    if not x.size:
        return x if residual is None else (x, x)
    spec = NormSpec(operation == "layer_norm", weight is not None, bias is not None, small, residual is not None)
    vectors = tuple(v for v in (weight, bias) if v is not None)
    with enter(x.dtype):
        out = _run((x, residual), vectors, spec=spec, words=words)
    return out[0] if residual is None else (out[0], out[1])


def _check_residual(operation: str, x: jax.Array, residual: jax.Array) -> None:
    if residual.shape != x.shape:
        raise ShapeMismatch(
            operation,
            "residual",
            got=f"shape {residual.shape}",
            wanted=f"{x.shape}, as x",
            expected=x.shape,
            got_shape=residual.shape,
        )
    if residual.dtype != x.dtype:
        raise DTypeMismatch(operation, "residual", got=residual.dtype.name, wanted=f"{x.dtype.name}, as x")


@functools.partial(jax.jit, static_argnames=("spec", "words"), inline=True)
def _run(
    sums: tuple[jax.Array, jax.Array | None], vectors: tuple[jax.Array, ...], *, spec: NormSpec, words: str
) -> Arrays:
    x, residual = sums
    return call(_formula(spec, words), x if residual is None else x + residual, *vectors)


@functools.cache
def _formula(spec: NormSpec, words: str) -> Formula:
    def backward(operands: Arrays, kept: Arrays, cotangents: Arrays, wanted: tuple[bool, ...]) -> Arrays:
        del kept
        return xla.backward(operands, cotangents, wanted, spec=spec)

    operands = 1 + spec.weight + spec.bias
    name = "layer_norm" if spec.centred else "rms_norm"
    choose = functools.partial(select.choose, spec=spec, words=words)
    return Formula(name, functools.partial(xla.forward, spec=spec), backward, (True,) * operands, 0, choose, _fold)


def _fold(operands: Arrays, batched: tuple[bool, ...]) -> Arrays | None:
    """Let the batch be one more leading axis of `x`, unless a weight or bias differs within it."""
    return operands if batched[0] and not any(batched[1:]) else None
