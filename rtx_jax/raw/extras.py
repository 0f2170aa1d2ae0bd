"""Functions beyond the standard on raw arrays: comparison within a tolerance, and padding."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.dtypes import INEXACT, INTEGRAL, float64, real_of
from ..errors import InvalidArgument
from ._kinds import accumulator, cast, enter
from .operands import check_shapes, common_dtype

__all__ = ["allclose", "isclose", "pad"]


def isclose(x1: jax.Array, x2: jax.Array, *, rtol: float, atol: float, equal_nan: bool) -> jax.Array:
    """``|x1 - x2| <= atol + rtol * |x2|`` for finite elements, equality for infinite ones.

    Unlike ``jnp.isclose`` it compares integers in float64, and 16-bit floats in float32, where the tolerances do not
    vanish.
    """
    check_shapes("isclose", x1, x2)
    dtype = common_dtype("isclose", x1, x2)
    dtype = accumulator(dtype) if dtype in INEXACT else float64
    with enter(dtype):
        a, b = cast(x1, dtype), cast(x2, dtype)
        real = real_of(dtype)
        near = jnp.abs(a - b) <= np.array(atol, real) + np.array(rtol, real) * jnp.abs(b)
        out: jax.Array = (a == b) | (near & jnp.isfinite(a) & jnp.isfinite(b))
        return out | (jnp.isnan(a) & jnp.isnan(b)) if equal_nan else out


def allclose(x1: jax.Array, x2: jax.Array, *, rtol: float, atol: float, equal_nan: bool) -> jax.Array:
    """Whether `isclose` holds for all elements."""
    close = isclose(x1, x2, rtol=rtol, atol=atol, equal_nan=equal_nan)
    return lax.reduce_and(close, tuple(range(close.ndim)))


def pad(
    x: jax.Array,
    values: jax.Array,
    *,
    pad_width: tuple[tuple[int, int], ...],
    mode: str,
    stat_length: int | tuple[tuple[int, int], ...] | None,
    reflect_type: str,
) -> jax.Array:
    """Extend each axis at both ends, as ``numpy.pad``; `values` are the constants or the ends of the ramps."""
    if x.ndim == 0:
        return x
    options: dict[str, object] = {}
    if mode == "constant":
        options["constant_values"] = values
    elif mode == "linear_ramp":
        if any(sum(width) and not n for width, n in zip(pad_width, x.shape, strict=True)):
            raise InvalidArgument(
                "pad", "x", got=f"shape {x.shape}", wanted="an edge to begin at", arg="x", reason="empty axis"
            )
        with enter(float64 if x.dtype in INTEGRAL else x.dtype):
            return _ramp(x, values, pad_width)
    elif mode in ("maximum", "mean", "median", "minimum"):
        options["stat_length"] = stat_length
    elif mode in ("reflect", "symmetric"):
        options["reflect_type"] = reflect_type
    compute = accumulator(x.dtype) if mode in ("mean", "median") else x.dtype
    try:
        with enter(x.dtype):
            out = jnp.pad(cast(x, compute), pad_width, mode, **options)
            return cast(out, x.dtype)
    except ValueError as error:
        raise InvalidArgument(
            "pad",
            "pad_width",
            got=f"{pad_width} for shape {x.shape} in mode {mode!r}",
            wanted="widths that the mode can fill",
            remedy=str(error),
            arg="pad_width",
            reason=str(error),
        ) from error


def _ramp(x: jax.Array, ends: jax.Array, widths: tuple[tuple[int, int], ...]) -> jax.Array:
    """Extend each axis by a line from the value at its edge to the end value; integers take the floor, as in NumPy.

    ``jnp.pad`` takes the end values as static arguments only.
    """
    dtype = x.dtype
    compute = float64 if dtype in INTEGRAL else accumulator(dtype)
    ends = jnp.broadcast_to(cast(ends, compute), (x.ndim, 2))
    for axis, (before, after) in enumerate(widths):
        parts = [x]
        for side, width in enumerate((before, after)):
            at = 0 if side == 0 else x.shape[axis] - 1
            edge = cast(lax.slice_in_dim(x, at, at + 1, axis=axis), compute)
            shape = tuple(width if i == axis else 1 for i in range(x.ndim))
            steps = lax.broadcasted_iota(real_of(compute), shape, axis) / np.array(width, real_of(compute))
            line = ends[axis, side] + (edge - ends[axis, side]) * steps
            if dtype in INTEGRAL:
                line = jnp.floor(line)
            if width:
                line = cast(line, dtype)
                parts = [*parts, lax.rev(line, (axis,))] if side else [line, *parts]
        x = lax.concatenate(parts, axis)
    return x
