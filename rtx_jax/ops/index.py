"""Rows by index on raw arrays: reading them, and adding into them.

Indices count from the front: a negative one is out of range. ``mode`` says what happens to those: ``"error"`` reads
NaN (the integer minimum, False) or drops the value, and `rtx_jax.checked` reports it; ``"fill"`` does the same and is
no error; ``"clip"`` takes the nearest row; ``"promise"`` is for indices that were checked before.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..checks.choices import flag
from ..checks.index import index_add_rows, mode_of
from ..checks.parameters import integer, whole
from ..checks.shape import rank, rank_at_least
from ..core.dtypes import bool_, int32, int64
from ..core.gather import bring_near, missing_value
from ..errors import UnsupportedDType
from ..raw._kinds import accumulator, cast

__all__ = ["index_add", "index_select"]


def index_select(x: jax.Array, indices: jax.Array, *, mode: str = "error") -> jax.Array:
    """Return rows of axis 0 of `x`: shape ``(len(indices), *x.shape[1:])``. The gradient adds up in float32."""
    integer("index_select", indices.dtype, "indices")
    rank("index_select", indices.shape, 1, "indices")
    rank_at_least("index_select", x.shape, 1)
    return rows(x, indices, raw_mode("index_select", mode))


def index_add(
    x: jax.Array, indices: jax.Array, *, num_rows: int, deterministic: bool | None = None, mode: str = "error"
) -> jax.Array:
    """Return zeros of `num_rows` rows with row i of `x` added to row ``indices[i]``; every one counts.

    Floats below 32 bits are added in float32 and rounded once. `deterministic` makes the order of additions, and so
    the bits of the result, the same in each run also where a device adds in parallel.
    """
    integer("index_add", indices.dtype, "indices")
    rank("index_add", indices.shape, 1, "indices")
    if x.dtype == bool_:
        raise UnsupportedDType(
            "index_add", "x", got="bool", wanted="numbers", remedy="Cast it first.", dtype=x.dtype, op="index_add"
        )
    rank_at_least("index_add", x.shape, 1)
    index_add_rows("index_add", x.shape, indices.shape[0])
    size = whole("index_add", "num_rows", num_rows, 0)
    mode = raw_mode("index_add", mode)
    if not size or not x.size:
        return lax.full((size, *x.shape[1:]), 0, x.dtype)
    places, inside = _places(indices, size, mode)
    height = size
    if inside is not None:
        # Into one more row, which is dropped: to put zeros among the values would make a copy of them.
        places, height = jnp.where(inside, places, lax.full_like(places, size)), size + 1
    in_turn = functools.partial(_total, height)
    if deterministic is not None and flag("index_add", "deterministic", deterministic):
        # A CPU adds in the order of the rows anyway.
        total = lax.platform_dependent(places, x, cpu=in_turn, default=functools.partial(_in_order, height))
    else:
        total = in_turn(places, x)
    if height > size:
        total = lax.slice_in_dim(total, 0, size)
    return cast(total, x.dtype)


def raw_mode(operation: str, mode: str) -> str:
    """Return the mode of a raw operation, which has one more than the faces."""
    return mode if mode == "promise" else mode_of(operation, mode)


def rows(x: jax.Array, indices: jax.Array, mode: str) -> jax.Array:
    """Return rows of axis 0 of `x` at indices of any shape: shape ``(*indices.shape, *x.shape[1:])``."""
    size = x.shape[0]
    fill = missing_value(x.dtype)
    shape = (*indices.shape, *x.shape[1:])
    if not size:
        return lax.full(shape, fill, x.dtype)
    places, inside = _places(indices, size, mode)
    read = _read if accumulator(x.dtype) == x.dtype else _read_narrow
    out = read("fill" if mode == "error" else "promise_in_bounds", fill, places, x)
    if inside is None:
        return out
    inside = lax.broadcast_in_dim(inside, shape, tuple(range(indices.ndim)))
    return jnp.where(inside, out, lax.full_like(out, fill))


def _places(indices: jax.Array, size: int, mode: str) -> tuple[jax.Array, jax.Array | None]:
    """Return indices in the width that the axis needs, and for ``"fill"`` which of them are in range."""
    target = int32 if size < 2**31 else int64
    if indices.dtype.itemsize > target.itemsize or indices.dtype.kind == "u":
        indices = bring_near(indices, min(size, int(jnp.iinfo(indices.dtype).max)))
    places = cast(indices, target)
    if mode == "clip":
        return lax.clamp(np.array(0, target), places, np.array(size - 1, target)), None
    if mode == "fill":
        inside = (places >= 0) & (places < size)
        return jnp.where(inside, places, lax.full_like(places, 0)), inside
    return places, None


def _read(mode: str, fill: float, places: jax.Array, x: jax.Array) -> jax.Array:
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(range(places.ndim, places.ndim + x.ndim - 1)),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
    )
    starts = lax.expand_dims(places, (places.ndim,))
    return lax.gather(x, starts, numbers, slice_sizes=(1, *x.shape[1:]), mode=mode, fill_value=fill)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _read_narrow(mode: str, fill: float, places: jax.Array, x: jax.Array) -> jax.Array:
    return _read(mode, fill, places, x)


@_read_narrow.defjvp
def _read_narrow_jvp(
    mode: str, fill: float, primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    # The transpose of this derivative adds in float32: a thousand bfloat16 ones are not 256.
    (places, x), (_, t) = primals, tangents
    wide = _read(mode, 0.0, places, cast(t, accumulator(t.dtype)))
    return _read_narrow(mode, fill, places, x), cast(wide, t.dtype)


# A CPU converts all values before it adds the first; blocks of about this many stay in its cache.
_BLOCK = 640 * 1024


def _total(size: int, places: jax.Array, values: jax.Array) -> jax.Array:
    """Add rows in the order in which they come."""
    if accumulator(values.dtype) == values.dtype or values.size <= 4 * _BLOCK:
        return _scatter(size, places, values)
    total: jax.Array = lax.platform_dependent(
        places, values, cpu=functools.partial(_in_blocks, size), default=functools.partial(_scatter, size)
    )
    return total


def _in_blocks(size: int, places: jax.Array, values: jax.Array) -> jax.Array:
    """Add rows block by block: 1M x 64 bfloat16 take an eighth of the time, and no float32 copy of the values."""
    count = values.shape[0]
    most = max(1, _BLOCK * count // values.size)
    # Blocks that leave no rest need no copy either.
    rows = next((n for n in range(most, most // 8, -1) if count % n == 0), most)
    inner = count // rows * rows

    def add(total: jax.Array, block: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        return _scatter_into(total, *block), None

    total: jax.Array = lax.full((size, *values.shape[1:]), 0, accumulator(values.dtype))
    places_in = lax.slice_in_dim(places, 0, inner).reshape(inner // rows, rows)
    values_in = lax.slice_in_dim(values, 0, inner).reshape(inner // rows, rows, *values.shape[1:])
    total = lax.scan(add, total, (places_in, values_in))[0]
    if inner == count:
        return total
    return _scatter_into(total, lax.slice_in_dim(places, inner, count), lax.slice_in_dim(values, inner, count))


def _scatter(size: int, places: jax.Array, values: jax.Array) -> jax.Array:
    return _scatter_into(lax.full((size, *values.shape[1:]), 0, accumulator(values.dtype)), places, values)


def _scatter_into(total: jax.Array, places: jax.Array, values: jax.Array) -> jax.Array:
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=tuple(range(1, values.ndim)),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
    )
    # Out of range is dropped, and negative is out of range.
    return lax.scatter_add(total, lax.expand_dims(places, (1,)), cast(values, total.dtype), numbers, mode="fill")


def _in_order(size: int, places: jax.Array, values: jax.Array) -> jax.Array:
    """Add rows of equal index by a segmented scan over the rows in order of index, each segment then written once."""
    order = jnp.argsort(places, stable=True)
    places, values = places[order], cast(values[order], accumulator(values.dtype))
    first = jnp.concatenate([jnp.ones((1,), bool), places[1:] != places[:-1]])

    def join(a: tuple[jax.Array, jax.Array], b: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        start = b[0].reshape(-1, *(1,) * (values.ndim - 1))
        return a[0] | b[0], jnp.where(start, b[1], a[1] + b[1])

    _, sums = lax.associative_scan(join, (first, values))
    last = jnp.concatenate([first[1:], jnp.ones((1,), bool)])
    # Rows that end no segment go out of range, where they are dropped.
    return _scatter(size, jnp.where(last, places, lax.full_like(places, size)), sums)
