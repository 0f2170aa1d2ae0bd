"""Norms on raw arrays.

Statistics are taken and applied in float32 (float64 of float64) and the result is rounded once, so float16 does not
overflow. The variance is that of the centred values (Chan, Golub and LeVeque 1983), centred twice: the mean of large
values is off by a rounding, which would be as large as the deviations.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import lax

from ..checks import norm as _check
from ..checks.choices import flag
from ..kernels.norm import layer_norm as _layer_norm
from ..kernels.norm import rms_norm as _rms_norm
from ..raw._kinds import accumulator, cast

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"]


def _centred(x: jax.Array, axes: tuple[int, ...]) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the mean of `x` along axes, the distances from it, and their mean square; axes are kept."""
    mean = jnp.mean(x, axes, keepdims=True)
    rest = x - mean
    # What rounding left of the mean; its derivative is zero.
    off = lax.stop_gradient(jnp.mean(rest, axes, keepdims=True))
    rest = rest - off
    mean = jnp.where(lax.is_finite(off), mean + off, mean)  # of an infinite mean nothing is left to correct
    return mean, rest, jnp.mean(rest * rest, axes, keepdims=True)


def _affine(x: jax.Array, weight: jax.Array | None, bias: jax.Array | None, shape: tuple[int, ...]) -> jax.Array:
    if weight is not None:
        x = x * cast(weight, x.dtype).reshape(shape)
    return x if bias is None else x + cast(bias, x.dtype).reshape(shape)


def _check_affine(operation: str, size: int, what: str, **vectors: jax.Array | None) -> None:
    for name, vector in vectors.items():
        if vector is not None:
            _check.affine(operation, size, what, vector.shape, vector.dtype, name)


def layer_norm(
    x: jax.Array,
    weight: jax.Array | None = None,
    bias: jax.Array | None = None,
    residual: jax.Array | None = None,
    *,
    eps: float = 1e-5,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Return ``(x - mean) / sqrt(variance + eps) * weight + bias`` along the last axis (Ba et al. 2016).

    With `residual` the norm of the sum of the two, and the sum.
    """
    return (
        _layer_norm(x, weight, bias, eps=eps)
        if residual is None
        else _layer_norm(x, weight, bias, eps=eps, residual=residual)
    )


def rms_norm(
    x: jax.Array, weight: jax.Array | None = None, residual: jax.Array | None = None, *, eps: float = 1e-6
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Return ``x / sqrt(mean(x**2) + eps) * weight`` along the last axis (Zhang and Sennrich 2019).

    With `residual` the norm of the sum of the two, and the sum.
    """
    return _rms_norm(x, weight, eps=eps) if residual is None else _rms_norm(x, weight, eps=eps, residual=residual)


def group_norm(
    x: jax.Array,
    weight: jax.Array | None = None,
    bias: jax.Array | None = None,
    *,
    num_groups: int,
    eps: float = 1e-5,
) -> jax.Array:
    """Return `x` normalized over each group of channels (axis 1) and all axes behind it (Wu and He 2018)."""
    groups = _check.group_norm(x.shape, x.dtype, num_groups)
    _check_affine("group_norm", x.shape[1], "channel", weight=weight, bias=bias)
    return _grouped(x, weight, bias, groups, _check.eps("group_norm", eps))


def instance_norm(
    x: jax.Array, weight: jax.Array | None = None, bias: jax.Array | None = None, *, eps: float = 1e-5
) -> jax.Array:
    """Return `x` normalized over the axes behind each channel, axis 1 (Ulyanov et al. 2016)."""
    size = _check.channels("instance_norm", x.shape, x.dtype)
    _check_affine("instance_norm", size, "channel", weight=weight, bias=bias)
    return _grouped(x, weight, bias, size, _check.eps("instance_norm", eps))


def _grouped(x: jax.Array, weight: jax.Array | None, bias: jax.Array | None, groups: int, small: float) -> jax.Array:
    if not x.size:
        return x
    wide = cast(x, accumulator(x.dtype)).reshape(x.shape[0], groups, -1)
    _, rest, variance = _centred(wide, (-1,))
    scaled = (rest * lax.rsqrt(variance + small)).reshape(x.shape)
    return cast(_affine(scaled, weight, bias, (1, -1, *(1,) * (x.ndim - 2))), x.dtype)


def batch_norm(
    x: jax.Array,
    running_mean: jax.Array | None = None,
    running_var: jax.Array | None = None,
    weight: jax.Array | None = None,
    bias: jax.Array | None = None,
    *,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> jax.Array | tuple[jax.Array, jax.Array, jax.Array]:
    """Return `x` normalized for each channel, axis 1 (Ioffe and Szegedy 2015).

    By the running statistics; while training by those of the batch, and then the new running mean and variance (with
    the divisor n - 1) are returned too, or those of the batch where there are none to update.
    """
    given = (running_mean is not None) + (running_var is not None)
    size, rate = _check.batch_norm(
        x.shape,
        x.dtype,
        training=flag("batch_norm", "training", training),
        momentum=momentum,
        has_statistics=given == 2 or (training and not given),
    )
    _check_affine(
        "batch_norm", size, "channel", running_mean=running_mean, running_var=running_var, weight=weight, bias=bias
    )
    small = _check.eps("batch_norm", eps)
    work = accumulator(x.dtype)
    wide = cast(x, work)
    shape = (1, -1, *(1,) * (x.ndim - 2))
    if not training:
        assert running_mean is not None and running_var is not None
        rest = wide - cast(running_mean, work).reshape(shape)
        scale = lax.rsqrt(cast(running_var, work) + small).reshape(shape)
        return cast(_affine(rest * scale, weight, bias, shape), x.dtype)
    axes = (0, *range(2, x.ndim))
    mean, rest, variance = _centred(wide, axes)
    out = cast(_affine(rest * lax.rsqrt(variance + small), weight, bias, shape), x.dtype)
    n = math.prod(x.shape[a] for a in axes)
    mean, variance = mean.reshape(-1), variance.reshape(-1) * (n / (n - 1))
    if running_mean is None or running_var is None:
        return out, lax.stop_gradient(mean), lax.stop_gradient(variance)
    return out, _moved(running_mean, mean, rate), _moved(running_var, variance, rate)


def _moved(running: jax.Array, new: jax.Array, rate: float) -> jax.Array:
    """Return the running statistic after a step towards the batch's; no gradient passes."""
    old = cast(running, new.dtype)
    return cast(lax.stop_gradient(old + rate * (new - old)), running.dtype)
