"""`rope`: checks, tables of the positions, and the rotation as a formula with kernels."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...checks import rope as _check
from ...checks.choices import flag
from ...checks.parameters import axis as _axis
from ...errors import InvalidArgument
from ...raw._kinds import accumulator, cast, enter
from ..formula import Arrays, Formula, call
from ..operands import arrays
from . import select, xla
from .angles import cosines_and_sines, rows
from .frequencies import Frequencies

__all__ = ["rope"]


def rope(
    x: jax.Array,
    cos: jax.Array | None = None,
    sin: jax.Array | None = None,
    positions: jax.Array | None = None,
    *,
    frequencies: Frequencies | None = None,
    layout: str = "half",
    seq_axis: int = 1,
    rotary_dim: int | None = None,
    in_place: bool = False,
    implementation: str = "auto",
) -> jax.Array:
    """Return `x` with each pair of channels turned by the angle of its position (Su et al. 2021, section 3.2).

    Parameters
    ----------
    x
        Real floating, channels last: (B, T, N, H), or any shape with `seq_axis`.
    cos, sin
        Tables of shape (S, H/2), or (S, H) of which the column of the first channel of each pair is read. S is T unless
        `positions` is given. Left out where `frequencies` is given.
    positions
        Integers of shape (T,) or (B, T), which may be traced: the rows of the tables, or what the frequencies are
        multiplied with; 0 to T - 1 when left out. A row that the tables do not have gives NaN.
    frequencies
        Of `rope_frequencies`, instead of tables: any position below 2**31 is exact, none is stored.
    layout
        ``"half"`` pairs channel i with i + H/2, ``"interleaved"`` channel 2 i with 2 i + 1.
    seq_axis
        The axis of positions in `x`.
    rotary_dim
        How many of the leading channels turn; all, or as many as the frequencies have, when left out.
    in_place
        Turn `x` in its own memory, which takes none beside it where `x` is not needed afterwards (donated to `jax.jit`,
        or an intermediate value), and costs a copy where it is. The Hopper kernel does not do it.
    implementation
        ``"auto"``, ``"xla"``, ``"pallas_tpu"`` or ``"pallas_mosaic_gpu"``.

    Returns
    -------
    jax.Array
        Shape and dtype of `x`; computed in float32 (float64 of float64) and rounded once.

    Raises
    ------
    ShapeMismatch
        The channels are odd, or the tables or positions do not fit `x`.
    InvalidArgument
        The layout or implementation is unknown, `seq_axis` is the axis of channels, or there are neither tables nor
        frequencies, or both, or an operand is no array of JAX or NumPy.
    InvalidDimension
        There is no such axis.
    UnsupportedDType
        `x` or a table is not real floating, or the positions are not integers.
    BackendLimitation
        The implementation that was asked for cannot do it; the text has every reason.

    Notes
    -----
    Differentiable in every mode, any number of times, in `x` and the tables; nothing but the tables is kept for the
    gradient of `x`, which is a turn the other way.
    """
    words = select.implementation(implementation)
    aliased = flag("rope", "in_place", in_place)
    arrays("rope", ("x",), x=x, cos=cos, sin=sin, positions=positions)
    if frequencies is not None and not isinstance(frequencies, Frequencies):
        raise InvalidArgument(
            "rope",
            "frequencies",
            got=type(frequencies).__name__,
            wanted="what rope_frequencies returns",
            arg="frequencies",
            reason="not frequencies",
        )
    if (frequencies is None) is (cos is None and sin is None) or (cos is None) is not (sin is None):
        names = {"cos": cos, "sin": sin, "frequencies": frequencies}
        got = " and ".join(name for name, value in names.items() if value is not None) or "neither"
        raise InvalidArgument(
            "rope",
            "cos, sin",
            got=got,
            wanted="cos and sin, or frequencies",
            arg="cos",
            reason="no one source of angles",
        )
    float32 = np.dtype(np.float32)
    where = (None, None) if positions is None else (positions.shape, positions.dtype)
    if cos is not None and sin is not None:
        facts = (cos.shape, cos.dtype, sin.shape, sin.dtype)
        width = rotary_dim
    else:
        assert frequencies is not None
        length = x.shape[_axis("rope", seq_axis, x.ndim, "seq_axis")] if x.ndim else 0
        facts = ((length, len(frequencies.radians)), float32, (length, len(frequencies.radians)), float32)
        width = frequencies.channels if rotary_dim is None else rotary_dim
    form, turned, place, columns = _check.rope(
        x.shape, x.dtype, *facts, *where, layout=layout, seq_axis=seq_axis, rotary_dim=width
    )
    if not x.size or not turned:
        return x
    static = Static(form, place, turned // 2, columns == turned, frequencies, words, aliased)
    with enter(x.dtype):
        out: jax.Array = _run(x, cos, sin, positions, static)
    return out


@dataclass(frozen=True, slots=True)
class Static:
    """The static part of a call: layout, axis of positions, pairs that turn, whether tables have a column for each
    channel, frequencies, word of the implementation, and whether `x` may be overwritten.
    """

    layout: str
    place: int
    pairs: int
    whole: bool
    frequencies: Frequencies | None
    words: str
    aliased: bool


@functools.partial(jax.jit, static_argnums=4, inline=True)
def _run(
    x: jax.Array, cos: jax.Array | None, sin: jax.Array | None, positions: jax.Array | None, static: Static
) -> jax.Array:
    work = accumulator(x.dtype)
    if static.frequencies is not None:
        at = jnp.arange(x.shape[static.place], dtype=np.int32) if positions is None else positions
        tables = cosines_and_sines(at, static.frequencies, work)
    else:
        assert cos is not None and sin is not None
        tables = (_of_positions(cos, positions, work, static), _of_positions(sin, positions, work, static))
    shape = [1] * x.ndim
    shape[static.place], shape[-1] = x.shape[static.place], static.pairs
    if tables[0].ndim == 3:
        shape[0] = tables[0].shape[0]
    formula = _formula(static.layout, static.words, static.aliased)
    return call(formula, x, *(table.reshape(shape) for table in tables))[0]


def _of_positions(table: jax.Array, positions: jax.Array | None, work: np.dtype, static: Static) -> jax.Array:
    """Return the rows of the positions, one column for each pair."""
    if static.whole:
        table = table[:, : static.pairs] if static.layout == "half" else table[:, ::2]
    table = cast(table, work)
    return table if positions is None else rows(table, positions)


@functools.cache
def _formula(layout: str, words: str, aliased: bool) -> Formula:
    def forward(x: jax.Array, cos: jax.Array, sin: jax.Array) -> Arrays:
        return (xla.turn(x, cos, sin, layout=layout),)

    def backward(operands: Arrays, kept: Arrays, cotangents: Arrays, wanted: tuple[bool, ...]) -> Arrays:
        del kept
        x, cos, sin = operands
        return xla.backward(x, cos, sin, cotangents[0], wanted, layout=layout)

    choose = functools.partial(select.choose, layout=layout, words=words, aliased=aliased)
    return Formula("rope", forward, backward, (True, True, True), 0, choose, _fold, (0,))


def _fold(operands: Arrays, batched: tuple[bool, ...]) -> Arrays:
    """Let the batch be one more axis, on which a shared table is broadcast."""
    x, *tables = operands
    if not batched[0]:
        size = next(t.shape[0] for t, b in zip(tables, batched[1:], strict=True) if b)
        x = jnp.broadcast_to(x, (size, *x.shape))
    return (x, *(t if b else lax.expand_dims(t, (0,)) for t, b in zip(tables, batched[1:], strict=True)))
