"""The functions of the JAX backends: the operations' names over `rtx_jax.raw` and `rtx_jax.ops`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Sharding

from ..core.promotion import integer_range
from ..core.random import wrap_key
from ..ops import activation, adaptive_pooling, convolution, index, norm, pooling
from ..ops.attention import attention
from ..ops.extremes import max_dim, min_dim
from ..ops.fold import fold, unfold
from ..ops.interpolate import interpolate
from ..ops.linear import linear
from ..ops.rope import rope
from ..raw import creation, elementwise, elementwise_float, elementwise_real, linear_algebra, random, statistical
from ..raw._kinds import accumulator, cast

__all__ = ["FUNCTIONS", "RUN_TIME"]

RUN_TIME: Mapping[str, tuple[str, ...]] = {"full": ("value",), "gt_scalar": ("v",), "clamp": ("min", "max")}
"""Parameters that the compiled functions take as trailing operands, so that another value compiles nothing."""

# lax.integer_pow multiplies its way up; beyond this its rounding errors add up to more than those of lax.pow.
_MAX_MULTIPLIED = 64


def full(value: jax.Array, *, shape: tuple[int, ...], dtype: np.dtype, sharding: Sharding | None = None) -> jax.Array:
    """Repeat a value."""
    return _spread(lax.broadcast(cast(value, dtype), shape), sharding)


def _spread(x: jax.Array, sharding: Sharding | None) -> jax.Array:
    return x if sharding is None else lax.with_sharding_constraint(x, sharding)


def pow(x: jax.Array, *, exp: float) -> jax.Array:
    """Power with a scalar exponent; by multiplications where that is an integer."""
    wide = cast(x, accumulator(x.dtype))
    if exp.is_integer() and abs(exp) <= _MAX_MULTIPLIED:
        return cast(lax.integer_pow(wide, int(exp)), x.dtype)
    return cast(lax.pow(wide, lax.full_like(wide, exp)), x.dtype)


def clamp(x: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    """Limit to an interval; the derivative at its ends is 1."""
    return elementwise_real.clip(x, low, high)


def gt_scalar(x: jax.Array, v: jax.Array) -> jax.Array:
    """1 where greater, 0 elsewhere."""
    return cast(lax.gt(x, lax.broadcast(v, x.shape)), x.dtype)


def sum(x: jax.Array) -> jax.Array:
    """Sum of everything, (1,)."""
    return _one(statistical.sum(x, axis=None, dtype=x.dtype, keepdims=False))


def sum_dim(x: jax.Array, *, dim: int) -> jax.Array:
    """Sums along an axis."""
    return statistical.sum(x, axis=dim, dtype=x.dtype, keepdims=True)


def mean(x: jax.Array) -> jax.Array:
    """Mean of everything, (1,)."""
    return _one(statistical.mean(x, axis=None, dtype=x.dtype, keepdims=False))


def mean_dim(x: jax.Array, *, dim: int) -> jax.Array:
    """Means along an axis."""
    return statistical.mean(x, axis=dim, dtype=x.dtype, keepdims=True)


def var(x: jax.Array, *, correction: float) -> jax.Array:
    """Variance of everything, (1,)."""
    return _one(statistical.var(x, axis=None, correction=correction, dtype=x.dtype, keepdims=False))


def var_dim(x: jax.Array, *, dim: int, correction: float) -> jax.Array:
    """Variances along an axis."""
    return statistical.var(x, axis=dim, correction=correction, dtype=x.dtype, keepdims=True)


def max(x: jax.Array) -> jax.Array:
    """Greatest element, (1,)."""
    return _one(statistical.max(x, axis=None, keepdims=False))


def min(x: jax.Array) -> jax.Array:
    """Least element, (1,)."""
    return _one(statistical.min(x, axis=None, keepdims=False))


def _one(x: jax.Array) -> jax.Array:
    return lax.reshape(x, (1,))


def reshape(x: jax.Array, *, shape: tuple[int, ...]) -> jax.Array:
    """Another shape of the same elements."""
    return lax.reshape(x, shape)


def permute(x: jax.Array, *, dims: tuple[int, ...]) -> jax.Array:
    """Axes in another order."""
    return lax.transpose(x, dims)


def transpose(x: jax.Array) -> jax.Array:
    """Exchange the last two axes."""
    return jnp.matrix_transpose(x)


def swap_dims(x: jax.Array, *, dim1: int, dim2: int) -> jax.Array:
    """Exchange two axes."""
    return jnp.swapaxes(x, dim1, dim2)


def embedding(indices: jax.Array, weight: jax.Array, *, mode: str) -> jax.Array:
    """Rows of a table at indices of any shape, also at indices that were checked before (``mode="promise"``)."""
    return index.rows(weight, indices, mode)


def rand(key: jax.Array, *, shape: tuple[int, ...], dtype: np.dtype, sharding: Sharding | None = None) -> jax.Array:
    """Uniform values of a key's data."""
    with jax.threefry_partitionable(True):
        return _spread(random.random(wrap_key(key), shape=shape, dtype=dtype), sharding)


def randn(key: jax.Array, *, shape: tuple[int, ...], dtype: np.dtype, sharding: Sharding | None = None) -> jax.Array:
    """Normal values of a key's data."""
    with jax.threefry_partitionable(True):
        return _spread(random.standard_normal(wrap_key(key), shape=shape, dtype=dtype), sharding)


def integer_limits(dtype: np.dtype, low: float, high: float) -> tuple[int, int]:
    """Return the limits of a clamp of integers, within what the dtype holds."""
    least, greatest = integer_range(dtype)
    return tuple(  # type: ignore[return-value]
        least if limit <= least else greatest if limit >= greatest else int(limit) for limit in (low, high)
    )


def integer_bound(dtype: np.dtype, v: float) -> int | bool:
    """Return the integer that ``x > v`` compares with, or the answer where it is the same for all of the dtype."""
    least, greatest = integer_range(dtype)
    if v != v or v >= greatest:
        return False
    return True if v < least else math.floor(v)


FUNCTIONS: Mapping[str, Callable[..., object]] = {
    "full": full,
    "rand": rand,
    "randn": randn,
    "add": elementwise.add,
    "sub": elementwise.subtract,
    "mul": elementwise.multiply,
    "div": elementwise_float.divide,
    "maximum": elementwise.maximum,
    "minimum": elementwise.minimum,
    "neg": elementwise.negative,
    "exp": elementwise_float.exp,
    "log": elementwise_float.log,
    "sqrt": elementwise_float.sqrt,
    "abs": elementwise.abs,
    "sin": elementwise_float.sin,
    "cos": elementwise_float.cos,
    "pow": pow,
    "clamp": clamp,
    "gt_scalar": gt_scalar,
    "cast": creation.cast,
    "relu": activation.relu,
    "sigmoid": activation.sigmoid,
    "tanh": activation.tanh,
    "silu": activation.silu,
    "mish": activation.mish,
    "selu": activation.selu,
    "hard_sigmoid": activation.hard_sigmoid,
    "gelu": activation.gelu,
    "leaky_relu": activation.leaky_relu,
    "elu": activation.elu,
    "celu": activation.celu,
    "softplus": activation.softplus,
    "prelu": activation.prelu,
    "silu_mul": activation.silu_mul,
    "glu": activation.glu,
    "swiglu": activation.swiglu,
    "softmax": activation.softmax,
    "log_softmax": activation.log_softmax,
    "matmul": linear_algebra.matmul,
    "bmm": linear_algebra.matmul,
    "linear": linear,
    "sum": sum,
    "mean": mean,
    "max": max,
    "min": min,
    "var": var,
    "sum_dim": sum_dim,
    "mean_dim": mean_dim,
    "max_dim": max_dim,
    "min_dim": min_dim,
    "var_dim": var_dim,
    "reshape": reshape,
    "permute": permute,
    "transpose": transpose,
    "swap_dims": swap_dims,
    "index_select": index.index_select,
    "index_add": index.index_add,
    "embedding": embedding,
    "layer_norm": norm.layer_norm,
    "rms_norm": norm.rms_norm,
    "group_norm": norm.group_norm,
    "instance_norm": norm.instance_norm,
    "batch_norm": norm.batch_norm,
    "attention": attention,
    "rope": rope,
    "conv1d": convolution.conv1d,
    "conv2d": convolution.conv2d,
    "conv3d": convolution.conv3d,
    "conv_transpose1d": convolution.conv_transpose1d,
    "conv_transpose2d": convolution.conv_transpose2d,
    "conv_transpose3d": convolution.conv_transpose3d,
    "max_pool1d": pooling.max_pool1d,
    "max_pool2d": pooling.max_pool2d,
    "max_pool3d": pooling.max_pool3d,
    "avg_pool1d": pooling.avg_pool1d,
    "avg_pool2d": pooling.avg_pool2d,
    "avg_pool3d": pooling.avg_pool3d,
    "adaptive_avg_pool1d": adaptive_pooling.adaptive_avg_pool1d,
    "adaptive_avg_pool2d": adaptive_pooling.adaptive_avg_pool2d,
    "adaptive_avg_pool3d": adaptive_pooling.adaptive_avg_pool3d,
    "adaptive_max_pool1d": adaptive_pooling.adaptive_max_pool1d,
    "adaptive_max_pool2d": adaptive_pooling.adaptive_max_pool2d,
    "adaptive_max_pool3d": adaptive_pooling.adaptive_max_pool3d,
    "interpolate": interpolate,
    "unfold": unfold,
    "fold": fold,
}
"""Traceable functions of `jax.Array` by operation: ``fn(*operands, *run-time parameters, **static parameters)``."""
