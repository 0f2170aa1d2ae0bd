"""Keys with one boolean mask: nothing of a write depends on how many elements are True."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from ..errors import BroadcastError
from . import dtypes as _d
from . import index_table as _t
from .index_key import IndexArray, Plan, check_mask, lay_out, parse_basic
from .scatter import check_value, masked_function

__all__ = ["MaskKey", "check_count", "masked_set", "plan_mask", "read_mask", "split_mask", "whole_mask"]

_GET, _SET = "x[key]", "x[key] = value"
_reads: _t.Table[_t.Function] = _t.Table()
_writes: _t.Table[_t.Pair] = _t.Table()
# From this size on, the positions of the True elements are found first: NumPy reads a random mask slowly.
_FIND_FIRST = 1000


class MaskKey(NamedTuple):
    """A key of one mask and otherwise integers, slices, None and Ellipsis."""

    mask: IndexArray
    plan: Plan
    """The key with a whole axis for each axis of the mask."""
    starts: list[int]
    position: int
    """Axis of ``x[plan]`` at which the mask begins."""
    part_shape: tuple[int, ...]
    """Shape of ``x[plan]``."""
    parts: list[object]
    """The whole key for NumPy."""

    @property
    def before(self) -> tuple[int, ...]:
        """Sizes of the result's axes before that of the selected elements."""
        return self.part_shape[: self.position]

    @property
    def after(self) -> tuple[int, ...]:
        """Sizes of the result's axes after that of the selected elements."""
        return self.part_shape[self.position + self.mask.ndim :]

    def value_count(self, shape: tuple[int, ...]) -> int | None:
        """Return how many elements a value of this shape brings; None when it is the same for all."""
        axis = len(shape) - 1 - len(self.after)
        return None if axis < 0 or shape[axis] == 1 else shape[axis]


def whole_mask(key: object) -> IndexArray | None:
    """Return the mask if the key is nothing but one mask with axes."""
    if type(key) is tuple and len(key) == 1:
        key = key[0]
    if isinstance(key, jax.Array | np.ndarray) and key.ndim and key.dtype == bool:
        return key
    return None


def _is_mask(part: object) -> bool:
    if not isinstance(part, jax.Array | np.ndarray) or part.dtype != bool:
        return False
    return part.ndim > 0 or isinstance(part, Tracer)


def _plain_part(part: object) -> object:
    part = getattr(part, "_data", part)
    if isinstance(part, np.integer) or (isinstance(part, np.ndarray) and not part.ndim and part.dtype.kind in "iu"):
        return int(part)
    return part


def split_mask(key: object, shape: tuple[int, ...], value_ndim: int, operation: str) -> MaskKey | None:
    """Return the parts of a key with exactly one mask that selects from whole axes; None for any other key.

    Parameters
    ----------
    key
        Raw.
    shape
        Shape of the indexed array.
    value_ndim
        Axes of the value. NumPy moves the selected axis to the front when an integer stands apart from the mask,
        which matters for values with axes only.
    operation
        Name for errors.
    """
    parts = [_plain_part(part) for part in (key if type(key) is tuple else (key,))]
    at = [i for i, part in enumerate(parts) if _is_mask(part)]
    if len(at) != 1:
        return None
    (place,) = at
    mask = parts[place]
    assert isinstance(mask, jax.Array | np.ndarray)
    rank = mask.ndim
    used = rank + sum(type(part) is int or type(part) is slice for part in parts)
    replaced = (*parts[:place], *(slice(None),) * rank, *parts[place + 1 :])
    parsed = parse_basic(replaced, shape, operation)
    if parsed is None:
        return None
    plan, starts = parsed
    advanced = [i for i, part in enumerate(parts) if type(part) is int or i == place]
    if value_ndim and advanced[-1] - advanced[0] + 1 != len(advanced):
        return None
    first = sum(len(shape) - used if part is Ellipsis else 1 for part in parts[:place])
    axis = sum(item != "n" for item in plan[:first])
    check_mask(mask, shape[axis : axis + rank], operation)
    if mask.shape != shape[axis : axis + rank]:
        return None  # an empty mask, which selects nothing
    position = sum(item != "i" for item in plan[:first])
    return MaskKey(mask, plan, starts, position, lay_out(plan, shape, [], operation).shape, parts)


def masked_set(key: MaskKey, value: IndexArray) -> Callable[..., jax.Array]:
    """Return the function of ``(x, value, mask, *starts)`` that writes a value of this shape."""
    counted = key.value_count(value.shape) is not None
    return masked_function(key.plan, key.position, key.mask.ndim, counted=counted)


def check_count(key: MaskKey, value: IndexArray, operation: str) -> None:
    """Raise BroadcastError unless the value brings one element for each True one; waits for the mask."""
    brought = key.value_count(value.shape)
    if brought is None:
        return
    count = int(np.count_nonzero(np.asarray(key.mask)))
    if brought != count:
        raise BroadcastError(
            operation,
            "value",
            got=f"shape {value.shape}",
            wanted=f"a shape that broadcasts to {(*key.before, count, *key.after)}",
            lhs=value.shape,
            rhs=(*key.before, count, *key.after),
        )


def read_mask(d: jax.Array, mask: IndexArray) -> jax.Array:
    """Return ``d[mask]`` for a mask with axes. On CPU through the host's views: nothing is compiled per count."""
    check_mask(mask, d.shape[: mask.ndim], _GET)
    if _t.on_host(d) and _t.same_place(d, (mask,)):
        view, chosen = np.asarray(d), np.asarray(mask)
        if mask.size < _FIND_FIRST or mask.shape != d.shape[: mask.ndim]:
            return _t.place(view[chosen], d)
        flat = view.reshape(mask.size, *d.shape[mask.ndim :])
        return _t.place(np.take(flat, np.flatnonzero(chosen), axis=0), d)
    rank, rest = mask.ndim, d.shape[mask.ndim :]
    if mask.shape != d.shape[:rank]:
        mask = np.zeros(d.shape[:rank], bool)  # an empty mask, which selects nothing
    count = int(jnp.count_nonzero(mask))
    wide = d.dtype in _d.WIDE
    padded = 1 << (count - 1).bit_length() if count > 1 else count

    def find(x: jax.Array, mask: jax.Array) -> jax.Array:
        (places,) = jnp.nonzero(mask.reshape(-1), size=padded, fill_value=0)
        return x.reshape(mask.size, *rest).at[places].get(mode="promise_in_bounds")

    table_key = "find", padded, rank, rest
    compiled = _reads.functions.get(table_key)
    if compiled is None:
        compiled = jax.jit(find)
        _reads.add(table_key, compiled)
    found = _t.call(compiled, wide, d, mask)
    if count == padded:
        return found
    compiled = _reads.functions.get(("cut", count))
    if compiled is None:
        compiled = jax.jit(lambda x: lax.slice_in_dim(x, 0, count))
        _reads.add(("cut", count), compiled)
    return _t.call(compiled, wide, found)


def plan_mask(d: jax.Array, key: MaskKey, value: IndexArray) -> _t.Planned:
    """Return how to write where a mask is True; see `rtx_jax.core.indexing.plan_set`."""
    counted = key.value_count(value.shape) is not None
    family = d.shape, d.dtype
    host = _t.on_host(d) and _t.same_place(d, (value, key.mask))
    target = (*key.before, value.shape[-1 - len(key.after)] if counted else 1, *key.after)
    check_value(value.shape, value.dtype, target, d.dtype)
    table_key = key.plan, key.position, key.mask.ndim, counted, family
    pair = _writes.functions.get(table_key)
    if pair is None:
        if host and d.nbytes <= _t.limits.write_bytes and _writes.defer(table_key, family, _t.limits.writes):
            return *_t.write_on_host(key.parts, len(target)), (value,), False
        pair = _t.compile_pair(masked_function(key.plan, key.position, key.mask.ndim, counted=counted))
        _writes.add(table_key, pair)
    if counted and host:
        value = _pad(value, len(key.after))
    mask = np.array(key.mask) if isinstance(key.mask, np.ndarray) else key.mask
    wide = d.dtype in _d.WIDE or value.dtype in _d.WIDE
    return *pair, (value, mask, *_t.start_operands(d, key.starts)), wide


def _pad(value: IndexArray, after: int) -> IndexArray:
    """Return a value with its count padded to a power of two, so that few counts are compiled."""
    axis = value.ndim - 1 - after
    count = value.shape[axis]
    extra = (1 << (count - 1).bit_length()) - count if count else 0
    if not extra:
        return value
    return np.pad(np.asarray(value), [(0, extra if i == axis else 0) for i in range(value.ndim)])
