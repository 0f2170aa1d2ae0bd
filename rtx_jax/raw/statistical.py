"""Statistical functions of the standard on raw arrays.

Floats below 32 bits are summed and multiplied in float32 and rounded once. ``dtype`` is the dtype of the result, or
None for the dtype of the operand; the face resolves it for integers, whose result depends on the device's default.
"""

from __future__ import annotations

import builtins
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.axes import normalize_axes, normalize_axis
from ..core.dtypes import COMPLEX, KIND, bool_, real_of
from ..errors import DTypeMismatch, InvalidArgument, InvalidDimension
from ._kinds import accumulator, cast
from .extremes import greatest, least

__all__ = ["cumulative_prod", "cumulative_sum", "max", "mean", "min", "prod", "std", "sum", "var"]

Axis = int | tuple[int, ...] | None


def _target(operation: str, x: jax.Array, dtype: np.dtype | None) -> np.dtype:
    out = x.dtype if dtype is None else dtype
    if x.dtype in COMPLEX and out not in COMPLEX:
        raise DTypeMismatch(
            operation,
            "dtype",
            got=f"{out.name} for an array of {x.dtype.name}",
            wanted="a complex dtype",
            remedy="Take xp.real first to drop the imaginary part.",
        )
    return out


def _nonempty(operation: str, x: jax.Array, axes: tuple[int, ...]) -> None:
    if not builtins.all(x.shape[a] for a in axes):
        raise InvalidArgument(
            operation,
            "x",
            got=f"shape {x.shape}, reduced over the axes {axes}",
            wanted="at least one element to choose from",
            arg="x",
            reason="empty reduction",
        )


def sum(x: jax.Array, *, axis: Axis, dtype: np.dtype | None, keepdims: bool) -> jax.Array:
    """Sum over axes."""
    out = _target("sum", x, dtype)
    axes = normalize_axes(axis, x.ndim, "sum")
    total = jnp.sum(cast(x, out), axis=axes, dtype=accumulator(out), keepdims=keepdims)
    return cast(total, out)


def prod(x: jax.Array, *, axis: Axis, dtype: np.dtype | None, keepdims: bool) -> jax.Array:
    """Multiply over axes."""
    out = _target("prod", x, dtype)
    axes = normalize_axes(axis, x.ndim, "prod")
    total = jnp.prod(cast(x, out), axis=axes, dtype=accumulator(out), keepdims=keepdims)
    return cast(total, out)


def max(x: jax.Array, *, axis: Axis, keepdims: bool) -> jax.Array:
    """Return the greatest element; NaN if one is NaN. Equal elements share the gradient."""
    axes = normalize_axes(axis, x.ndim, "max")
    _nonempty("max", x, axes)
    if x.dtype in COMPLEX:
        return _nan_if_any_is(x, jnp.max(x, axis=axes, keepdims=keepdims), axes, keepdims)
    return greatest(x, axes, keepdims)


def min(x: jax.Array, *, axis: Axis, keepdims: bool) -> jax.Array:
    """Return the least element; NaN if one is NaN. Equal elements share the gradient."""
    axes = normalize_axes(axis, x.ndim, "min")
    _nonempty("min", x, axes)
    if x.dtype in COMPLEX:
        return _nan_if_any_is(x, jnp.min(x, axis=axes, keepdims=keepdims), axes, keepdims)
    return least(x, axes, keepdims)


def _nan_if_any_is(x: jax.Array, chosen: jax.Array, axes: tuple[int, ...], keepdims: bool) -> jax.Array:
    # The lexicographic order of complex numbers passes over an element whose imaginary part alone is NaN.
    nan = jnp.any(jnp.isnan(x), axis=axes, keepdims=keepdims)
    return jnp.where(nan, jnp.asarray(complex(math.nan, math.nan), x.dtype), chosen)


def _count(x: jax.Array, axes: tuple[int, ...]) -> int:
    return math.prod(x.shape[a] for a in axes)


def mean(x: jax.Array, *, axis: Axis, dtype: np.dtype | None, keepdims: bool) -> jax.Array:
    """Average over axes; NaN where there is nothing to average."""
    out = x.dtype if dtype is None else dtype
    axes = normalize_axes(axis, x.ndim, "mean")
    if out in COMPLEX:
        # A complex division would mix an infinite part into the other one.
        total = jnp.sum(x, axis=axes, dtype=out, keepdims=keepdims)
        count = jnp.asarray(_count(x, axes), real_of(out))
        return lax.complex(lax.real(total) / count, lax.imag(total) / count)
    return cast(jnp.mean(x, axis=axes, dtype=accumulator(out), keepdims=keepdims), out)


def var(x: jax.Array, *, axis: Axis, correction: float, dtype: np.dtype | None, keepdims: bool) -> jax.Array:
    """Mean squared distance from the mean, with divisor ``M - correction``; NaN if that is not positive."""
    return _spread("var", x, axis, correction, dtype, keepdims)


def std(x: jax.Array, *, axis: Axis, correction: float, dtype: np.dtype | None, keepdims: bool) -> jax.Array:
    """Square root of `var`."""
    return _spread("std", x, axis, correction, dtype, keepdims)


def _spread(
    operation: str, x: jax.Array, axis: Axis, correction: float, dtype: np.dtype | None, keepdims: bool
) -> jax.Array:
    out = real_of(x.dtype) if dtype is None else dtype
    axes = normalize_axes(axis, x.ndim, operation)
    acc = accumulator(out)
    if x.dtype not in COMPLEX:
        x = cast(x, acc)
    call = jnp.var if operation == "var" else jnp.std
    result = cast(call(x, axis=axes, correction=correction, keepdims=keepdims), out)
    if not _count(x, axes) - correction > 0:
        # Stated here, as JAX and NumPy have both changed their minds about it.
        return jnp.full(result.shape, math.nan, out)
    return result


def cumulative_sum(x: jax.Array, *, axis: int | None, dtype: np.dtype | None, include_initial: bool) -> jax.Array:
    """Sums of the leading elements along an axis."""
    return _cumulative("cumulative_sum", x, axis, dtype, include_initial)


def cumulative_prod(x: jax.Array, *, axis: int | None, dtype: np.dtype | None, include_initial: bool) -> jax.Array:
    """Products of the leading elements along an axis."""
    return _cumulative("cumulative_prod", x, axis, dtype, include_initial)


def _cumulative(
    operation: str, x: jax.Array, axis: int | None, dtype: np.dtype | None, include_initial: bool
) -> jax.Array:
    out = _target(operation, x, dtype)
    if out == bool_:
        raise DTypeMismatch(operation, "dtype", got=KIND[out], wanted="a numeric dtype")
    if not x.ndim:
        x = x.reshape(1)
    if axis is None:
        if x.ndim > 1:
            raise InvalidDimension(
                operation,
                "axis",
                got=f"None for an array of shape {x.shape}",
                wanted=f"{-x.ndim}..{x.ndim - 1}",
                dim=x.ndim,
                ndim=1,
            )
        axis = 0
    dimension = normalize_axis(axis, x.ndim, operation)
    acc = accumulator(out)
    run = lax.cumsum if operation == "cumulative_sum" else lax.cumprod
    result = cast(run(cast(cast(x, out), acc), axis=dimension), out)
    if include_initial:
        shape = list(x.shape)
        shape[dimension] = 1
        start = jnp.full(shape, 0 if operation == "cumulative_sum" else 1, out)
        result = lax.concatenate([start, result], dimension)
    return result
