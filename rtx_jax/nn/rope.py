"""Rotary position embedding."""

from __future__ import annotations

import numpy as np

from .._array import Array
from ..core.axes import as_int
from ..core.devices import DeviceLike
from ..core.dtypes import DTypeLike, float32
from ..kernels.rope import Scaling
from ..namespace.creation import asarray
from ..ops.rope import rope as _raw
from ..ops.rope import rope_tables as _tables
from ._call import call, optional

__all__ = ["rope", "rope_tables"]

_rope = optional("rope", _raw, ("layout", "seq_axis", "rotary_dim"))


def rope(
    x: Array,
    cos: Array,
    sin: Array,
    /,
    *,
    positions: Array | None = None,
    layout: str = "half",
    seq_axis: int = 1,
    rotary_dim: int | None = None,
) -> Array:
    """Return `x` with each pair of channels turned by the angle of its position (Su et al. 2021).

    Parameters
    ----------
    x
        Real floating, channels last: (B, T, N, H) as `attention` takes it, or any shape with `seq_axis`.
    cos, sin
        Tables of `rope_tables`: shape (S, H/2), or (S, H) of which the column of the first channel of each pair is
        read. S is T unless `positions` is given.
    positions
        Integers of shape (T,) or (B, T): the rows of the tables; 0 to T - 1 when left out. A position that the tables
        do not have gives NaN, which `rtx_jax.checked` reports.
    layout
        ``"half"`` pairs channel i with i + H/2 (Llama as Hugging Face has it); ``"interleaved"`` pairs channel 2 i
        with 2 i + 1 (the paper).
    seq_axis
        The axis of positions in `x`.
    rotary_dim
        How many of the leading channels are turned, all by default. The tables are for these alone.

    Returns
    -------
    Array
        Shape and dtype of `x`; computed in float32 (float64 of float64) and rounded once.

    Raises
    ------
    ShapeMismatch
        The channels are odd, or the tables or positions do not fit `x`.
    InvalidArgument
        The layout is unknown, or `seq_axis` is the axis of channels.
    InvalidDimension
        There is no such axis.
    UnsupportedDType
        `x` or a table is not real floating, or the positions are not integers.
    """
    operands = {"x": x, "cos": cos, "sin": sin, "positions": positions}
    width = None if rotary_dim is None else as_int(rotary_dim, "rope", "rotary_dim")
    return call(_rope, operands, layout, as_int(seq_axis, "rope", "seq_axis"), width)  # type: ignore[return-value]


def rope_tables(
    length: int,
    dim: int,
    /,
    *,
    base: float = 10000.0,
    scaling: Scaling | None = None,
    dtype: DTypeLike = float32,
    device: DeviceLike | None = None,
) -> tuple[Array, Array]:
    """Return the cosines and sines of ``position * base**(-2 i / dim)`` for `rope`.

    Parameters
    ----------
    length
        Number of positions S.
    dim
        Number of channels that are turned; even.
    base
        Ratio of the longest to the shortest wavelength.
    scaling
        ``LinearScaling``, ``YarnScaling`` or ``Llama3Scaling`` of `rtx_jax.kernels`: how the model was made to read
        further than it was trained.
    dtype
        Floating; the angles are computed in float64 whatever it is.
    device
        Where the tables are made.

    Returns
    -------
    tuple of Arrays
        Two of shape (S, dim/2).

    Raises
    ------
    InvalidArgument
        The length is negative, the number of channels odd, the base not positive, or `scaling` is none.
    """
    cos, sin = (np.asarray(table) for table in _tables(length, dim, base=base, scaling=scaling))
    return asarray(cos, dtype=dtype, device=device), asarray(sin, dtype=dtype, device=device)
