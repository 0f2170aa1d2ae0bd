"""Indexing while tracing: what JAX traces for the same key, so that the compiled program is the same.

Positions are static here, so that a read differentiates as a slice. Index arrays that are not known read as NaN, the
integer minimum or False where they are out of range, and writes there are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from . import dtypes as _d
from .gather import bring_near, missing_value, read_function
from .index_checks import check_bounds, checks_on
from .index_key import IndexArray, Key, lay_out, parse
from .index_masks import MaskKey, masked_set, split_mask
from .index_table import call
from .scatter import fit_value, write_function

__all__ = ["far_brought_near", "get_traced", "plan_traced"]

_GET, _SET = "x[key]", "x[key] = value"


def get_traced(d: jax.Array, key: object) -> jax.Array:
    """Return ``d[key]`` for a traced array or a traced key; see `rtx_jax.core.indexing.get`."""
    parsed = parse(key, d.shape, _GET, read_scalars=True)
    wide = d.dtype in _d.WIDE or any(array.dtype in _d.WIDE for array in parsed.arrays)
    if not parsed.arrays and not any(item in ("t", "f") for item in parsed.plan):
        return call(lambda: d[tuple(parsed.parts)], wide)
    known = _check_known(d, parsed, _GET)
    lay_out(parsed.plan, d.shape, [array.shape for array in parsed.arrays], _GET)  # the arrays must broadcast
    if not _plain(parsed):
        return call(read_function(parsed.plan, len(parsed.arrays), known), wide, d, *_operands(parsed))
    if known:
        return call(lambda: d[tuple(parsed.parts)], wide)
    # JAX fills unsigned integers with their maximum and booleans with True.
    fill = missing_value(d.dtype) if d.dtype in _d.UNSIGNED or d.dtype == _d.bool_ else None
    return call(lambda: d.at[far_brought_near(parsed, d.shape)].get(mode="fill", fill_value=fill), wide)


def plan_traced(
    d: jax.Array, key: object, value: IndexArray
) -> tuple[Callable[..., jax.Array], Sequence[object], bool]:
    """Return the function, its operands after the array, and whether they are 64-bit, for ``d[key] = value``."""
    masked = split_mask(key, d.shape, value.ndim, _SET)
    if masked is not None and isinstance(masked.mask, Tracer):
        return _plan_masked(d, masked, value)
    parsed = parse(key, d.shape, _SET, read_scalars=True)
    plan, arrays = parsed.plan, parsed.arrays
    wide = any(array.dtype in _d.WIDE for array in (d, value, *arrays))
    known = _check_known(d, parsed, _SET)
    target = lay_out(plan, d.shape, [array.shape for array in arrays], _SET).shape
    ordered = jax.default_backend() == "cpu"
    if not _plain(parsed) or (not ordered and any(array.ndim for array in arrays)):
        write = write_function(plan, len(arrays), known, ordered)
        return write, (value, *_operands(parsed)), wide

    def write_as_jax(x: jax.Array, value: jax.Array) -> jax.Array:
        parts = tuple(parsed.parts) if known else far_brought_near(parsed, x.shape)
        return x.at[parts].set(fit_value(jnp.asarray(value), target, x.dtype))

    return write_as_jax, (value,), wide


def _plan_masked(
    d: jax.Array, masked: MaskKey, value: IndexArray
) -> tuple[Callable[..., jax.Array], Sequence[object], bool]:
    wide = d.dtype in _d.WIDE or value.dtype in _d.WIDE
    positions = [np.int32(position) for position in masked.starts]
    return masked_set(masked, value), (value, masked.mask, *positions), wide


def _plain(parsed: Key) -> bool:
    """Tell whether JAX reads this key as NumPy does: no scalar masks, index types that hold every position."""
    return not any(item in ("t", "f") for item in parsed.plan) and all(
        array.dtype in (_d.int32, _d.int64) for array in parsed.arrays
    )


def far_brought_near(parsed: Key, shape: tuple[int, ...]) -> tuple[object, ...]:
    """Return the parts of a key for JAX, which narrows 64-bit indices to 32 bits, where 2**32 + 1 becomes 1."""
    size = axis = 0  # the largest of the indexed axes will do for all of them
    for item in parsed.plan:
        if item == "a":
            size = max(size, shape[axis])
        axis += item not in ("n", ".", "t", "f")
    if size >= 2**31:
        return tuple(parsed.parts)
    near = {id(array): bring_near(array, size) for array in parsed.arrays if array.dtype == _d.int64}  # type: ignore[arg-type]
    return tuple(near.get(id(part), part) for part in parsed.parts)


def _operands(parsed: Key) -> list[object]:
    return [*(np.int32(position) for position in parsed.starts), *parsed.arrays]


def _check_known(d: jax.Array, parsed: Key, operation: str) -> bool:
    """Check the index arrays whose values are known; tell whether all are."""
    known = True
    axis = 0
    arrays = iter(parsed.arrays)
    check = checks_on(d)
    for item in parsed.plan:
        if item == "a":
            array = next(arrays)
            if isinstance(array, Tracer) or not check:
                known = False
            else:
                check_bounds(array, d.shape[axis], axis, operation)
        axis += item not in ("n", ".", "t", "f")
    return known
