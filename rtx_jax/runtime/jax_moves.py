"""Compiled copies between arrays that serve as memory: the target is donated, so it keeps its place.

The storage that changes comes in a list, to which what replaces it is appended within the call that donates it: Ctrl-C
raises when a call returns, before its result has a name, and donated memory is gone by then.

A storage is a vector of some unit (`units`); positions count its elements, or its bytes. A copy whose length
is not the whole of a storage is made in pieces of powers of two, so that copies of all lengths need few compilations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._compat import x64
from ..core.dtypes import WIDE
from .client import Storage
from .strided import Layout
from .units import as_units, elements

__all__ = ["clone", "gather", "load", "move", "pieces", "put", "retype", "store", "view"]

_MAX_INT32 = 2**31 - 1


def pieces(length: int, *wholes: int, backwards: bool = False) -> Iterator[tuple[int, int]]:
    """Yield (start, length) of pieces that make `length`: one where it is one of `wholes`, else powers of two.

    With `backwards` the last comes first, as copies to a later place of the same memory need it.
    """
    if length in wholes:
        yield 0, length
        return
    found = []
    start = 0
    for bit in range(length.bit_length() - 1, -1, -1):
        if length >> bit & 1:
            found.append((start, 1 << bit))
            start += 1 << bit
    yield from reversed(found) if backwards else found


def _index(*values: int, limit: int) -> tuple[np.integer, ...]:
    kind = np.int32 if limit <= _MAX_INT32 else np.int64
    return tuple([kind(value) for value in values])


def _wide(*arrays: jax.Array) -> bool:
    return any(x.dtype in WIDE or x.size > _MAX_INT32 for x in arrays)


def _bytes_of(x: jax.Array) -> jax.Array:
    return x if x.dtype == np.uint8 else x.view(jnp.uint8)


def _window(flat: jax.Array, first: jax.Array, count: int) -> jax.Array:
    return lax.dynamic_slice(flat, (first,), (count,))


def _span(start: int, nbytes: int, storage: jax.Array) -> tuple[int, int, int]:
    """Return the elements that hold a range of bytes: the first, how many, and the bytes of the first to skip."""
    item = storage.dtype.itemsize
    count = min(storage.size, -(-nbytes // item) + (item > 1))
    first = min(start // item, storage.size - count)
    return first, count, start - first * item


def _last(cell: list[Storage]) -> jax.Array:
    storage = cell[-1]
    assert isinstance(storage, jax.Array)
    return storage


def _donate(cell: list[Storage], fn: Callable[..., jax.Array], *operands: object) -> None:
    """Append what a call makes of the last storage, which it donates, and of operands."""
    cell.extend(map(fn, (cell[-1],), *[(operand,) for operand in operands]))


# --- from the host ---------------------------------------------------------------------------------------------------


@partial(jax.jit, donate_argnums=0)
def _put(target: jax.Array, piece: jax.Array, first: jax.Array) -> jax.Array:
    return lax.dynamic_update_slice(target, piece, (first,))


@partial(jax.jit, donate_argnums=0, static_argnames="count")
def _put_bytes(target: jax.Array, piece: jax.Array, first: jax.Array, skip: jax.Array, *, count: int) -> jax.Array:
    inner = lax.dynamic_update_slice(_bytes_of(_window(target, first, count)), piece, (skip,))
    return lax.dynamic_update_slice(target, inner.view(target.dtype), (first,))


def store(cell: list[Storage], start: int, data: np.ndarray) -> None:
    """Write `data`, private ``uint8`` memory, from byte `start` on."""
    target = _last(cell)
    size, total, item = target.size, target.nbytes, target.dtype.itemsize
    with x64(_wide(target)):
        if start % item == 0 and data.size % item == 0:
            typed = data.view(target.dtype)
            for at, length in pieces(typed.size, size):
                _donate(cell, _put, typed[at : at + length], *_index(start // item + at, limit=size))
            return
        for at, length in pieces(data.size, total):
            first, count, skip = _span(start + at, length, target)
            index = _index(first, skip, limit=size)
            _donate(cell, partial(_put_bytes, count=count), data[at : at + length], *index)


# --- to the host -----------------------------------------------------------------------------------------------------


@partial(jax.jit, static_argnames="count")
def _take(source: jax.Array, first: jax.Array, *, count: int) -> jax.Array:
    return _window(source, first, count)


def load(source: jax.Array, start: int, out: np.ndarray) -> None:
    """Copy bytes from `start` on into `out`, ``uint8``."""
    if out.size == source.nbytes:
        # Of another object on the same memory: an array keeps the copy that it gave to the host.
        out[...] = _on_host(source.addressable_data(0))
        return
    with x64(_wide(source)):
        for at, length in pieces(out.size, source.nbytes):
            first, count, skip = _span(start + at, length, source)
            found = _on_host(_take(source, *_index(first, limit=source.size), count=count))
            out[at : at + length] = found[skip : skip + length]


def _on_host(x: jax.Array) -> np.ndarray:
    return np.ascontiguousarray(np.asarray(x)).reshape(-1).view(np.uint8)


# --- on the device ---------------------------------------------------------------------------------------------------


def _move(target: jax.Array, source: jax.Array | None, starts: tuple[jax.Array, jax.Array], *, count: int) -> jax.Array:
    piece = _window(target if source is None else source, starts[0], count)
    return lax.dynamic_update_slice(target, piece, (starts[1],))


def _move_bytes(
    target: jax.Array,
    source: jax.Array | None,
    starts: tuple[jax.Array, jax.Array, jax.Array, jax.Array],
    *,
    counts: tuple[int, int, int],
) -> jax.Array:
    from_first, from_skip, to_first, to_skip = starts
    from_count, to_count, nbytes = counts
    taken = _window(target if source is None else source, from_first, from_count)
    piece = _window(_bytes_of(taken), from_skip, nbytes)
    inner = lax.dynamic_update_slice(_bytes_of(_window(target, to_first, to_count)), piece, (to_skip,))
    return lax.dynamic_update_slice(target, inner.view(target.dtype), (to_first,))


_move_jit: Callable[..., jax.Array] = jax.jit(_move, donate_argnums=0, static_argnames="count")
_move_bytes_jit: Callable[..., jax.Array] = jax.jit(_move_bytes, donate_argnums=0, static_argnames="counts")


def move(source: jax.Array, start: int, cell: list[Storage], target_start: int, nbytes: int) -> None:
    """Write bytes of `source`, which may be the storage that changes; ranges may overlap."""
    target = _last(cell)
    same = source is target
    size, total, dtype, item = target.size, target.nbytes, target.dtype, target.dtype.itemsize
    backwards = same and target_start > start
    limit = max(source.nbytes, total)
    other = None if same else source
    with x64(_wide(source, target) or limit > _MAX_INT32):
        if source.dtype == dtype and not (start % item or target_start % item or nbytes % item):
            for at, length in pieces(nbytes // item, size, source.size, backwards=backwards):
                index = _index(start // item + at, target_start // item + at, limit=limit)
                _donate(cell, partial(_move_jit, count=length), other, index)
            return
        for at, length in pieces(nbytes, total, source.nbytes, backwards=backwards):
            first, count, skip = _span(start + at, length, source)
            to_first, to_count, to_skip = _span(target_start + at, length, target)
            index = _index(first, skip, to_first, to_skip, limit=limit)
            _donate(cell, partial(_move_bytes_jit, counts=(count, to_count, length)), other, index)


@jax.jit
def _clone(x: jax.Array) -> jax.Array:
    return x


def clone(x: jax.Array) -> jax.Array:
    """Return a copy in memory of its own."""
    with x64(_wide(x)):
        copied: jax.Array = _clone(x)
        return copied


@partial(jax.jit, static_argnames="dtype")
def _retype(x: jax.Array, *, dtype: np.dtype) -> jax.Array:
    return _bytes_of(x).view(dtype)


def retype(x: jax.Array, dtype: np.dtype) -> jax.Array:
    """Return the same bytes as elements of another dtype, in memory of its own."""
    with x64(_wide(x) or dtype in WIDE):
        found: jax.Array = _retype(x, dtype=dtype)
        return found


@partial(jax.jit, static_argnames="unit")
def _flat(x: jax.Array, *, unit: np.dtype) -> jax.Array:
    return as_units(x.reshape(-1), unit)


def put(x: jax.Array, cell: list[Storage], start: int) -> None:
    """Write the elements of an array of the device from byte `start` on."""
    unit = _last(cell).dtype
    if x.nbytes % unit.itemsize:
        unit = np.dtype(np.uint8)
    with x64(_wide(x) or unit in WIDE):
        flat: jax.Array = _flat(x, unit=unit)
    move(flat, 0, cell, start, x.nbytes)


@partial(jax.jit, static_argnames=("dtype", "shape", "offset"))
def _view(x: jax.Array, *, dtype: np.dtype, shape: tuple[int, ...], offset: int) -> jax.Array:
    return elements(x, dtype, offset, math.prod(shape) * dtype.itemsize).reshape(shape)


def view(x: jax.Array, dtype: np.dtype, shape: tuple[int, ...], offset: int) -> jax.Array:
    """Return bytes of a storage as an array, in memory of its own."""
    with x64(_wide(x) or dtype in WIDE):
        found: jax.Array = _view(x, dtype=dtype, shape=shape, offset=offset)
        return found


# --- strided ---------------------------------------------------------------------------------------------------------


@partial(jax.jit, static_argnames=("shape", "item_bytes"))
def _gather(
    source: jax.Array, start: jax.Array, strides: jax.Array, *, shape: tuple[int, ...], item_bytes: int | None
) -> jax.Array:
    flat = source if item_bytes is None else _bytes_of(source)
    position = start
    for axis, length in enumerate(shape):
        if length > 1:
            position = position + lax.broadcasted_iota(strides.dtype, shape, axis) * strides[axis]
    places = jnp.broadcast_to(position, shape).reshape(-1, 1)
    numbers = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(), start_index_map=(0,))
    mode = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    return lax.gather(flat, places, numbers, (item_bytes or 1,), mode=mode).reshape(-1)


def gather(source: jax.Array, layout: Layout) -> jax.Array:
    """Return the elements of a layout side by side, in the source's dtype where that has their size, else as bytes."""
    item = layout.item_bytes
    typed = source.dtype.itemsize == item and layout.offset_bytes % item == 0
    unit = item if typed else 1
    kind = np.int32 if source.nbytes <= _MAX_INT32 else np.int64
    start = kind(layout.offset_bytes // unit)
    strides = np.array([stride * (item // unit) for stride in layout.strides], kind)
    with x64(_wide(source) or kind is np.int64):
        found: jax.Array = _gather(source, start, strides, shape=layout.shape, item_bytes=None if typed else item)
        return found
