"""The rotation in plain XLA, at the speed of a copy on CPU, with its backward pass."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...raw._kinds import accumulator, cast
from .shape import TurnShape, largest_divisor

__all__ = ["backward", "turn", "turn_by_blocks"]

# Of one block of `turn_by_blocks`: much less than an array that would be turned in place, much more than a step costs.
_BLOCK_ELEMENTS = 2**18


def turn(x: jax.Array, cos: jax.Array, sin: jax.Array, *, layout: str) -> jax.Array:
    """Return `x` with the pairs of its leading channels turned.

    Parameters
    ----------
    x
        Channels last.
    cos, sin
        Of the rank of `x`, each axis that of `x` or 1, the last one the number of pairs.
    layout
        ``"half"`` or ``"interleaved"``.
    """
    form = _by_padding if x.dtype.itemsize >= 4 else _by_stacking
    return form(x, cos, sin, layout)


def _parts(x: jax.Array, pairs: int, layout: str) -> tuple[jax.Array, jax.Array]:
    if layout == "half":
        return x[..., :pairs], x[..., pairs : 2 * pairs]
    return x[..., : 2 * pairs : 2], x[..., 1 : 2 * pairs : 2]


def _by_padding(x: jax.Array, cos: jax.Array, sin: jax.Array, layout: str) -> jax.Array:
    # Adding -0 changes nothing, so a sum of padded parts puts them side by side. XLA's CPU code for it splits the
    # loop over channels and runs at 0.9 to 1.0 of a copy; concatenating the parts runs at 0.2, stacking them at 0.5.
    pairs, size = cos.shape[-1], x.shape[-1]
    width = 2 * pairs
    first, second = _parts(x, pairs, layout)
    cos, sin = cast(cos, x.dtype), cast(sin, x.dtype)
    a, b = first * cos - second * sin, second * cos + first * sin
    places: list[tuple[int, int, int]]
    if layout == "half":
        places = [(0, size - pairs, 0), (pairs, size - width, 0)]
    else:
        places = [(0, size - width + 1, 1), (1, size - width, 1)]
    out = _placed(a, places[0]) + _placed(b, places[1])
    return out if width == size else out + _placed(x[..., width:], (width, 0, 0))


def _placed(x: jax.Array, place: tuple[int, int, int]) -> jax.Array:
    return lax.pad(x, np.array(-0.0, x.dtype), [(0, 0, 0)] * (x.ndim - 1) + [place])


def _by_stacking(x: jax.Array, cos: jax.Array, sin: jax.Array, layout: str) -> jax.Array:
    # Of 16-bit floats the sum of padded parts is not vectorized, and a stack is the fastest form.
    work = accumulator(x.dtype)
    pairs = cos.shape[-1]
    width = 2 * pairs
    axis = x.ndim - 1 if layout == "half" else x.ndim
    shape = (*x.shape[:-1], 2, pairs) if layout == "half" else (*x.shape[:-1], pairs, 2)
    both = x[..., :width].reshape(shape)
    first, second = (cast(lax.index_in_dim(both, i, axis, keepdims=False), work) for i in (0, 1))
    cos, sin = cast(cos, work), cast(sin, work)
    a, b = first * cos - second * sin, second * cos + first * sin
    out = jnp.stack([cast(a, x.dtype), cast(b, x.dtype)], axis).reshape(*x.shape[:-1], width)
    return out if width == x.shape[-1] else lax.concatenate([out, x[..., width:]], x.ndim - 1)


def turn_by_blocks(x: jax.Array, cos: jax.Array, sin: jax.Array, *, layout: str, shape: TurnShape) -> jax.Array:
    """Return what `turn` does, one block of rows after the other, each written over the rows it came from.

    One pass over the whole cannot run in the memory of `x`, of which each channel is read for two.
    """
    rows = largest_divisor(shape.rows, max(_BLOCK_ELEMENTS // (shape.heads * shape.channels), 1))
    assert rows is not None
    blocks = shape.rows // rows
    tables = [t.reshape(shape.outer, shape.rows, 1, shape.pairs) for t in (cos, sin)]

    def step(number: jax.Array, held: jax.Array) -> jax.Array:
        block, group = number % blocks, number // blocks
        outer, repeat = group // shape.repeats, group % shape.repeats
        zero = jnp.zeros_like(number)
        place = (outer, repeat, block * rows, zero, zero)
        part = lax.dynamic_slice(held, place, (1, 1, rows, shape.heads, shape.channels))[0, 0]
        own = [lax.dynamic_slice(t, (outer, block * rows, zero, zero), (1, rows, 1, shape.pairs))[0] for t in tables]
        turned = turn(part, *own, layout=layout)
        return lax.dynamic_update_slice(held, turned[None, None], place)

    count = np.int32(shape.outer * shape.repeats * blocks)
    out: jax.Array = lax.fori_loop(np.int32(0), count, step, x.reshape(shape.full))
    return out.reshape(x.shape)


def backward(
    x: jax.Array, cos: jax.Array, sin: jax.Array, cotangent: jax.Array, wanted: tuple[bool, ...], *, layout: str
) -> tuple[jax.Array, ...]:
    """Return the cotangents of those of `x`, `cos` and `sin` that are wanted: of `x` a turn the other way."""
    found = []
    if wanted[0]:
        found.append(turn(cotangent, cos, -sin, layout=layout))
    if any(wanted[1:]):
        work = accumulator(x.dtype)
        pairs = cos.shape[-1]
        first, second = _parts(cast(x, work), pairs, layout)
        a, b = _parts(cast(cotangent, work), pairs, layout)
        for table, product in ((cos, a * first + b * second), (sin, b * first - a * second)):
            if wanted[1 if table is cos else 2]:
                shared = [i for i in range(x.ndim - 1) if table.shape[i] == 1 != product.shape[i]]
                found.append(cast(product.sum(shared, keepdims=True) if shared else product, table.dtype))
    return tuple(found)
