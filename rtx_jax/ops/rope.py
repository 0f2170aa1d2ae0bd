"""Rotary position embedding on raw arrays (Su et al. 2021, section 3.2)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..checks import rope as _check
from ..raw._kinds import accumulator, cast
from .index import rows

__all__ = ["rope", "rope_tables"]


def rope(
    x: jax.Array,
    cos: jax.Array,
    sin: jax.Array,
    positions: jax.Array | None = None,
    *,
    layout: str = "half",
    seq_axis: int = -2,
    rotary_dim: int | None = None,
) -> jax.Array:
    """Return `x` with each pair of channels turned by the angle of its position.

    Parameters
    ----------
    x
        Channels last, positions along `seq_axis`.
    cos, sin
        Shape (S, D/2), or (S, D) of which the column of the first channel of each pair is read.
    positions
        Rows of the tables, shape (S,) or (B, S) with B the first axis of `x`; 0 to S - 1 by default. One out of
        range gives NaN.
    layout
        ``"half"`` pairs channel i with i + D/2, ``"interleaved"`` 2 i with 2 i + 1.
    seq_axis
        Axis of the positions.
    rotary_dim
        Number of leading channels that are turned, all by default; the tables are for these.
    """
    words, width, place, columns = _check.rope(
        x.shape,
        x.dtype,
        cos.shape,
        cos.dtype,
        sin.shape,
        sin.dtype,
        None if positions is None else positions.shape,
        None if positions is None else positions.dtype,
        layout=layout,
        seq_axis=seq_axis,
        rotary_dim=rotary_dim,
    )
    half = width // 2
    if columns == width:
        cos, sin = (table[:, :half] if words == "half" else table[:, ::2] for table in (cos, sin))
    work = accumulator(x.dtype)
    c, s = (_placed(table, positions, x.ndim, place, work) for table in (cos, sin))
    turned = cast(x[..., :width], work)
    if words == "half":
        first, second = turned[..., :half], turned[..., half:]
    else:
        first, second = turned[..., ::2], turned[..., 1::2]
    a, b = first * c - second * s, second * c + first * s
    if words == "half":
        out = lax.concatenate([a, b], x.ndim - 1)
    else:
        out = jnp.stack([a, b], -1).reshape(turned.shape)
    out = cast(out, x.dtype)
    return out if width == x.shape[-1] else lax.concatenate([out, x[..., width:]], x.ndim - 1)


def _placed(table: jax.Array, positions: jax.Array | None, ndim: int, place: int, dtype: np.dtype) -> jax.Array:
    """Return the rows of a table with axes that broadcast with those of `x`."""
    shape = [1] * ndim
    if positions is not None:
        table = rows(table, positions, "error")
        if positions.ndim == 2:
            shape[0] = table.shape[0]
    shape[place], shape[-1] = table.shape[-2], table.shape[-1]
    return cast(table, dtype).reshape(shape)


def rope_tables(length: int, dim: int, *, base: float = 10000.0) -> tuple[np.ndarray, np.ndarray]:
    """Return the cosines and sines of ``position * base**(-2 i / dim)``, each float64 of shape (length, dim/2).

    They are made on the host in float64: in float32 the angle of position 100,000 is off by 0.004.
    """
    count, width, scale = _check.tables(length, dim, base)
    angles = np.arange(count)[:, None] * scale ** (-np.arange(0, width, 2) / max(width, 1))
    return np.cos(angles), np.sin(angles)
