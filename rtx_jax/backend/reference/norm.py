"""Norms: the statistics in two passes, all of it in wide precision, rounded once."""

from __future__ import annotations

import numpy as np

from ...checks import norm as check
from .rounding import narrow, wide

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"]


def _standardized(x: np.ndarray, eps: float) -> np.ndarray:
    """Return ``(x - mean) / sqrt(variance + eps)`` along the last axis, the variance with divisor n."""
    rest = x - x.mean(-1, keepdims=True)
    standard: np.ndarray = rest / np.sqrt((rest * rest).mean(-1, keepdims=True) + eps)
    return standard


def _affine(x: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray:
    if weight is not None:
        x = x * wide(weight).reshape(shape)
    return x if bias is None else x + wide(bias).reshape(shape)


def _check_affine(operation: str, size: int, what: str, **vectors: np.ndarray | None) -> None:
    for name, vector in vectors.items():
        if vector is not None:
            check.affine(operation, size, what, vector.shape, vector.dtype, name)


def layer_norm(
    x: np.ndarray, weight: np.ndarray | None = None, bias: np.ndarray | None = None, /, *, eps: float = 1e-5
) -> np.ndarray:
    """Return ``(x - mean) / sqrt(variance + eps) * weight + bias`` along the last axis (Ba et al. 2016)."""
    size = check.last_axis("layer_norm", x.shape, x.dtype)
    _check_affine("layer_norm", size, "element of the last axis", weight=weight, bias=bias)
    small = check.eps("layer_norm", eps)
    if not x.size:
        return x.copy()
    with np.errstate(all="ignore"):
        return narrow(_affine(_standardized(wide(x), small), weight, bias, (-1,)), x.dtype)


def rms_norm(x: np.ndarray, weight: np.ndarray | None = None, /, *, eps: float = 1e-6) -> np.ndarray:
    """Return ``x / sqrt(mean(x**2) + eps) * weight`` along the last axis (Zhang and Sennrich 2019)."""
    size = check.last_axis("rms_norm", x.shape, x.dtype)
    _check_affine("rms_norm", size, "element of the last axis", weight=weight)
    small = check.eps("rms_norm", eps)
    if not x.size:
        return x.copy()
    with np.errstate(all="ignore"):
        values = wide(x)
        scaled = values / np.sqrt((values * values).mean(-1, keepdims=True) + small)
        return narrow(_affine(scaled, weight, None, (-1,)), x.dtype)


def group_norm(
    x: np.ndarray,
    weight: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    /,
    *,
    num_groups: int,
    eps: float = 1e-5,
) -> np.ndarray:
    """Return `x` standardized over each group of channels (axis 1) and all axes behind it (Wu and He 2018)."""
    groups = check.group_norm(x.shape, x.dtype, num_groups)
    _check_affine("group_norm", x.shape[1], "channel", weight=weight, bias=bias)
    return _grouped(x, weight, bias, groups, check.eps("group_norm", eps))


def instance_norm(
    x: np.ndarray, weight: np.ndarray | None = None, bias: np.ndarray | None = None, /, *, eps: float = 1e-5
) -> np.ndarray:
    """Return `x` standardized over the axes behind each channel, axis 1 (Ulyanov et al. 2016)."""
    size = check.channels("instance_norm", x.shape, x.dtype)
    _check_affine("instance_norm", size, "channel", weight=weight, bias=bias)
    return _grouped(x, weight, bias, size, check.eps("instance_norm", eps))


def _channel_shape(x: np.ndarray) -> tuple[int, ...]:
    return (-1, *(1,) * (x.ndim - 2))


def _grouped(x: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None, groups: int, eps: float) -> np.ndarray:
    if not x.size:
        return x.copy()
    with np.errstate(all="ignore"):
        standard = _standardized(wide(x).reshape(x.shape[0], groups, -1), eps).reshape(x.shape)
        return narrow(_affine(standard, weight, bias, _channel_shape(x)), x.dtype)


def batch_norm(
    x: np.ndarray,
    running_mean: np.ndarray | None = None,
    running_var: np.ndarray | None = None,
    weight: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    /,
    *,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> np.ndarray | tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return `x` standardized for each channel, axis 1 (Ioffe and Szegedy 2015).

    By the running statistics. While training by those of the batch, the variance with divisor n; then the running
    statistics after a step of `momentum` towards those of the batch, the variance with divisor n - 1, are returned
    too, or those of the batch itself where there are no running ones.
    """
    given = (running_mean is not None) + (running_var is not None)
    size, rate = check.batch_norm(
        x.shape, x.dtype, training=training, momentum=momentum, has_statistics=given == 2 or (training and not given)
    )
    _check_affine(
        "batch_norm", size, "channel", running_mean=running_mean, running_var=running_var, weight=weight, bias=bias
    )
    small = check.eps("batch_norm", eps)
    shape = _channel_shape(x)
    with np.errstate(all="ignore"):
        if not training:
            assert running_mean is not None and running_var is not None
            rest = wide(x) - wide(running_mean).reshape(shape)
            scaled = rest / np.sqrt(wide(running_var) + small).reshape(shape)
            return narrow(_affine(scaled, weight, bias, shape), x.dtype)
        lanes = np.moveaxis(wide(x), 1, 0).reshape(size, -1)
        mean, variance, n = lanes.mean(-1), lanes.var(-1), lanes.shape[-1]
        scaled = (wide(x) - mean.reshape(shape)) / np.sqrt(variance + small).reshape(shape)
        out = narrow(_affine(scaled, weight, bias, shape), x.dtype)
        return out, _moved(running_mean, mean, rate, x), _moved(running_var, variance * (n / (n - 1)), rate, x)


def _moved(running: np.ndarray | None, new: np.ndarray, rate: float, x: np.ndarray) -> np.ndarray:
    if running is None:  # statistics of 16-bit values are float32
        return narrow(new, np.dtype(np.float32) if x.dtype.itemsize < 4 else x.dtype)
    old = wide(running)
    return narrow(old + rate * (new - old), running.dtype)
