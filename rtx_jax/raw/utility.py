"""Utility functions of the standard on raw arrays."""

from __future__ import annotations

import jax
from jax import lax

from ..core.axes import normalize_axes, normalize_axis
from ..core.dtypes import bool_
from ..errors import InvalidArgument, InvalidDimension, ShapeMismatch
from ._kinds import cast, enter
from .manipulation import join
from .operands import common_dtype

__all__ = ["all", "any", "diff"]


def _truth(x: jax.Array) -> jax.Array:
    return x if x.dtype == bool_ else lax.ne(x, lax.full_like(x, 0))


def _kept(out: jax.Array, x: jax.Array, axes: tuple[int, ...], keepdims: bool) -> jax.Array:
    if not keepdims:
        return out
    return lax.reshape(out, tuple(1 if i in axes else n for i, n in enumerate(x.shape)))


def all(x: jax.Array, *, axis: int | tuple[int, ...] | None, keepdims: bool) -> jax.Array:
    """Whether every element along the axes is true; NaN is true, an empty axis gives true."""
    axes = normalize_axes(axis, x.ndim, "all")
    return _kept(lax.reduce_and(_truth(x), axes), x, axes, keepdims)


def any(x: jax.Array, *, axis: int | tuple[int, ...] | None, keepdims: bool) -> jax.Array:
    """Whether some element along the axes is true; NaN is true, an empty axis gives false."""
    axes = normalize_axes(axis, x.ndim, "any")
    return _kept(lax.reduce_or(_truth(x), axes), x, axes, keepdims)


def diff(x: jax.Array, *edges: jax.Array, axis: int, n: int, prepend: bool, append: bool) -> jax.Array:
    """Differences of neighbours along an axis, `n` times; bool arrays give where neighbours differ.

    `edges` holds what to put before and after, as far as `prepend` and `append` say so.
    """
    if n < 0:
        raise InvalidArgument("diff", "n", got=n, wanted="0 or more", arg="n", reason="negative")
    if x.ndim == 0:
        raise InvalidDimension("diff", "x", got="an array without axes", wanted="one axis or more", dim=0, ndim=0)
    dimension = normalize_axis(axis, x.ndim, "diff")
    if edges:
        parts = [*edges[:prepend], x, *edges[prepend:]]
        names = ["prepend"] * prepend + ["x"] + ["append"] * append
        dtype = common_dtype("diff", *parts)
        with enter(dtype):
            fitted = [cast(_edge(p, x, dimension, name), dtype) for p, name in zip(parts, names, strict=True)]
            x = join(fitted, dimension)
    with enter(x.dtype):
        return _differences(x, dimension, n)


def _differences(x: jax.Array, dimension: int, n: int) -> jax.Array:
    for _ in range(n):
        size = x.shape[dimension]
        if size == 0:
            break
        upper = lax.slice_in_dim(x, 1, size, axis=dimension)
        lower = lax.slice_in_dim(x, 0, size - 1, axis=dimension)
        x = lax.ne(upper, lower) if x.dtype == bool_ else lax.sub(upper, lower)
    return x


def _edge(part: jax.Array, x: jax.Array, dimension: int, name: str) -> jax.Array:
    if part is x:
        return x
    shape = list(x.shape)
    if part.ndim == 0:
        shape[dimension] = 1
        return lax.broadcast(part, shape)
    shape[dimension] = part.shape[dimension] if part.ndim == x.ndim else -1
    if list(part.shape) != shape:
        raise ShapeMismatch(
            "diff",
            name,
            got=f"shape {part.shape}",
            wanted=f"the shape of x, {x.shape}, beside axis {dimension}",
            expected=x.shape,
            got_shape=part.shape,
        )
    return part
