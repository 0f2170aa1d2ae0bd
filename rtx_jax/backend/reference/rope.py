"""Rotary position embedding (Su et al. 2021, section 3.2): each pair of channels is a complex number that is turned."""

from __future__ import annotations

import numpy as np

from ...checks import rope as check
from .index import gather
from .rounding import narrow, wide

__all__ = ["rope"]


def rope(
    x: np.ndarray,
    cos: np.ndarray,
    sin: np.ndarray,
    positions: np.ndarray | None = None,
    /,
    *,
    layout: str = "half",
    seq_axis: int = -2,
    rotary_dim: int | None = None,
) -> np.ndarray:
    """Return `x` with each pair of channels turned by the angle of its position.

    Parameters
    ----------
    x
        Channels last, positions along `seq_axis`.
    cos, sin
        Shape (S, D/2), or (S, D) of which the column of the first channel of each pair is read.
    positions
        Rows of the tables, shape (S,) or (B, S) with B the first axis of `x`; 0 to S - 1 by default.
    layout
        ``"half"`` pairs channel i with i + D/2, ``"interleaved"`` 2 i with 2 i + 1.
    seq_axis
        Axis of the positions.
    rotary_dim
        Number of leading channels that are turned, all by default; the tables are for these.
    """
    words, width, place, columns = check.rope(
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
    # Where the first and the second channel of the pairs are.
    first = slice(0, width // 2) if words == "half" else slice(0, width, 2)
    second = slice(width // 2, width) if words == "half" else slice(1, width, 2)
    if columns == width:
        cos, sin = cos[:, first], sin[:, first]
    values = wide(x)
    real, imaginary = values[..., first], values[..., second]
    cosine, sine = wide(_placed(cos, positions, x, place)), wide(_placed(sin, positions, x, place))
    out = values.copy()
    # The complex product, written out: NumPy makes NaN of 1j * infinity.
    with np.errstate(all="ignore"):
        out[..., first] = real * cosine - imaginary * sine
        out[..., second] = real * sine + imaginary * cosine
    return narrow(out, x.dtype)


def _placed(table: np.ndarray, positions: np.ndarray | None, x: np.ndarray, place: int) -> np.ndarray:
    """Return the rows of a table for the positions, with axes that broadcast with those of `x`."""
    shape = [1] * x.ndim
    if positions is not None:
        rows = gather("rope", table, positions.reshape(-1), "error")
        table = rows.reshape(*positions.shape, table.shape[1])
        if positions.ndim == 2:
            shape[0] = table.shape[0]
    shape[place], shape[-1] = table.shape[-2], table.shape[-1]
    return table.reshape(shape)
