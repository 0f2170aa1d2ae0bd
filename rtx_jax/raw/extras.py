"""Functions beyond the standard on raw arrays: comparison within a tolerance, and padding."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core.dtypes import INEXACT, float32, float64, real_of
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
        out = (a == b) | (near & jnp.isfinite(a) & jnp.isfinite(b))
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
        options["end_values"] = values
    elif mode in ("maximum", "mean", "median", "minimum"):
        options["stat_length"] = stat_length
    elif mode in ("reflect", "symmetric"):
        options["reflect_type"] = reflect_type
    compute = float32 if accumulator(x.dtype) != x.dtype and mode in ("linear_ramp", "mean", "median") else x.dtype
    try:
        with enter(x.dtype):
            out = jnp.pad(cast(x, compute), pad_width, mode, **options)  # type: ignore[arg-type]
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
