"""Indexing of raw arrays: any key NumPy takes is read or written by one compiled call per plan and shape.

`get` reads. `plan_set` returns what `rtx_jax.core.handle.update` needs to write. Keys and values are raw: handles in
them were replaced by their arrays.

A key whose result was not compiled before is served from the host's view of the array on CPU, and compiled when it
recurs, so that a loop over growing slices does not compile one function per length.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
from jax.core import Tracer

from .._compat import X64_UNSET, ArrayImpl, restore_x64, swap_x64
from . import dtypes as _d
from . import index_key as _k
from . import index_table as _t
from .gather import read_function
from .handle import tracing
from .host import SCALARS
from .index_checks import check_bounds, checks_on
from .index_key import Key, lay_out, parse, parse_basic, slice_span
from .index_masks import check_count, plan_mask, read_mask, split_mask, whole_mask
from .index_table import Planned, hot_array_reads, hot_array_writes, hot_reads, hot_writes, local, starts
from .index_traced import get_traced, plan_traced
from .index_twice import write_twice
from .index_values import clear_values, scalar_value, value_operand
from .scatter import check_value, write_function

__all__ = ["Planned", "clear", "get", "plan_set"]

_GET, _SET = "x[key]", "x[key] = value"

_WIDE = _d.WIDE
_reads: _t.Table[_t.Function] = _t.Table()
_writes: _t.Table[_t.Pair] = _t.Table()


def clear() -> None:
    """Forget every compiled index function, interned position and scalar."""
    _t.clear()
    clear_values()


# --- reading ---------------------------------------------------------------------------------------------------------


def get(d: jax.Array, key: object, /) -> jax.Array:
    """Return ``d[key]``; `d` itself when the key selects all of it as it is.

    Parameters
    ----------
    d
        The array, concrete or traced.
    key
        Anything that NumPy takes: integers, slices, Ellipsis, None, integer arrays, masks, and mixes of them.

    Raises
    ------
    IndexOutOfBounds
        An integer is out of range; an index array too, where checks are on and its values are known. Elsewhere a
        read out of range gives NaN, the integer minimum or False.
    InvalidKey, InvalidDimension
        The key does not index an array, or has too many parts.
    DataDependentShape
        A mask is not known while tracing.
    """
    if type(d) is ArrayImpl and not tracing.active and (not d.committed or d.sharding in local):
        kind = type(key)
        shape = d.shape
        if kind is int:
            if shape:
                size = shape[0]
                position: int = key + size if key < 0 else key  # type: ignore[operator,assignment]
                if 0 <= position < size:
                    compiled = hot_reads.get((shape, d.dtype))
                    if compiled is not None:
                        return compiled(d, starts[position])
        elif kind is slice:
            if shape:
                start, count, step = slice_span(key, shape[0], _GET)  # type: ignore[arg-type]
                if step == 1:
                    compiled = hot_reads.get((count, shape, d.dtype))
                    if compiled is not None:
                        return compiled(d, starts[start])
        elif kind is tuple:
            parsed = parse_basic(key, shape, _GET)  # type: ignore[arg-type]
            if parsed is not None:
                compiled = hot_reads.get((parsed[0], shape, d.dtype))
                if compiled is not None:
                    return compiled(d, *[starts[position] for position in parsed[1]])
        elif kind is ArrayImpl:
            entry = hot_array_reads.get((key.shape, key.dtype, shape, d.dtype))  # type: ignore[attr-defined]
            if entry is not None and checks_on(d):
                check_bounds(key, shape[0], 0, _GET)  # type: ignore[arg-type]
                compiled, wide = entry
                if not wide:
                    return compiled(d, key)
                previous = X64_UNSET
                try:
                    previous = swap_x64(True)
                    return compiled(d, key)
                finally:
                    restore_x64(previous)
    return _get_any(d, key)


def _get_any(d: jax.Array, key: object) -> jax.Array:
    if _is_traced(d, key):
        return get_traced(d, key)
    if _t.is_explicit(d):
        return _t.as_explicit(get(_t.as_automatic(d), _t.automatic_key(key)), d)
    mask = whole_mask(key)
    if mask is not None:
        return read_mask(d, mask)
    parsed = parse(key, d.shape, _GET, read_scalars=checks_on(d))
    plan, arrays = parsed.plan, parsed.arrays
    if all(item == ":" for item in plan):
        return d
    checked = check_arrays(d, parsed, _GET)
    if len(plan) > 1 and arrays:
        lay_out(plan, d.shape, [array.shape for array in arrays], _GET)  # the arrays must broadcast
    family = d.shape, d.dtype
    table_key = plan, _describe(arrays), checked, family
    compiled = _reads.functions.get(table_key)
    if compiled is None:
        if checked and _t.on_host(d) and _t.same_place(d, arrays) and _reads.defer(table_key, family, _t.limits.reads):
            return _t.read_on_host(d, parsed.parts)
        compiled = jax.jit(read_function(plan, len(arrays), checked))
        _reads.add(table_key, compiled)
        _heat_read(d, key, plan, arrays, compiled, checked)
    wide = any(array.dtype in _WIDE for array in (d, *arrays)) or max(d.shape, default=0) >= 2**31
    return _t.call(compiled, wide, d, *_t.start_operands(d, parsed.starts), *_index_operands(d, parsed, checked))


def _heat_read(
    d: jax.Array, key: object, plan: _k.Plan, arrays: Sequence[object], compiled: _t.Function, checked: bool
) -> None:
    """Let the fast paths of `get` find a compiled read."""
    if not _t.is_fast(d):
        return
    shape, dtype = d.shape, d.dtype
    if arrays:
        if type(key) is ArrayImpl and checked:
            wide = key.dtype in _WIDE or dtype in _WIDE
            _t.keep(hot_array_reads, (key.shape, key.dtype, shape, dtype), (compiled, wide))
        return
    if "t" in plan or "f" in plan:
        return
    _t.keep(hot_reads, (plan, shape, dtype), compiled)
    short = _short_key(plan, shape, dtype)
    if short is not None:
        _t.keep(hot_reads, short, compiled)


def _short_key(plan: _k.Plan, shape: tuple[int, ...], dtype: np.dtype) -> tuple[object, ...] | None:
    """Return the key of the fast paths for one integer, or one slice of step 1, on the first axis."""
    if not plan or len(plan) != len(shape) or any(item != ":" for item in plan[1:]):
        return None
    first = plan[0]
    if first == "i":
        return shape, dtype
    return (first[0], shape, dtype) if isinstance(first, tuple) and first[1] == 1 else None


# --- writing ---------------------------------------------------------------------------------------------------------


def plan_set(d: jax.Array, key: object, value: object, /) -> Planned:
    """Return how to carry out ``d[key] = value``: two forms of one function, operands, and whether they are 64-bit.

    Returns
    -------
    plain, donating
        Functions of ``(d, *operands)`` that give the new array; the second may reuse the buffer of `d`.
    operands
        The value and what the key brings.
    wide
        True when the call needs x64.

    Raises
    ------
    IndexOutOfBounds, InvalidKey, InvalidDimension, DataDependentShape
        As `get`. An index array that is out of range where that cannot be told writes nothing there.
    BroadcastError
        The value does not fit the key.
    DTypeMismatch
        The value would change its kind: complex into real, real into integer, a number into bool.
    ScalarOverflow
        A Python integer is out of the range of the array's dtype.
    """
    if type(d) is ArrayImpl and not tracing.active and (not d.committed or d.sharding in local):
        shape, dtype = d.shape, d.dtype
        kind = type(value)
        if kind is ArrayImpl:
            operand = value
            wide = dtype in _WIDE or value.dtype in _WIDE  # type: ignore[attr-defined]
        elif kind in SCALARS:
            operand = scalar_value(value, dtype)  # type: ignore[arg-type]
            wide = dtype in _WIDE
        else:
            return _plan_any(d, key, value)
        kind = type(key)
        if kind is int:
            if shape:
                size = shape[0]
                position: int = key + size if key < 0 else key  # type: ignore[operator,assignment]
                if 0 <= position < size:
                    pair = hot_writes.get((shape, dtype))
                    if pair is not None:
                        return pair[0], pair[operand is not d], (operand, starts[position]), wide
        elif kind is slice:
            if shape:
                start, count, step = slice_span(key, shape[0], _SET)  # type: ignore[arg-type]
                if step == 1:
                    pair = hot_writes.get((count, shape, dtype))
                    if pair is not None:
                        return pair[0], pair[operand is not d], (operand, starts[start]), wide
        elif kind is tuple:
            parsed = parse_basic(key, shape, _SET)  # type: ignore[arg-type]
            if parsed is not None:
                pair = hot_writes.get((parsed[0], shape, dtype))
                if pair is not None:
                    operands = (operand, *[starts[position] for position in parsed[1]])
                    return pair[0], pair[operand is not d], operands, wide
        elif kind is ArrayImpl:
            # Masks are here for 0-d values only; values with axes may have to be counted.
            entry = hot_array_writes.get((key.shape, key.dtype, shape, dtype))  # type: ignore[attr-defined]
            if entry is not None:
                pair, wide_key, is_mask = entry
                if operand.ndim == 0 if is_mask else checks_on(d):  # type: ignore[attr-defined]
                    if not is_mask:
                        check_bounds(key, shape[0], 0, _SET)  # type: ignore[arg-type]
                    donating = pair[operand is not d and key is not d]
                    return pair[0], donating, (operand, key), wide or wide_key
        return _plan_any(d, key, operand)
    return _plan_any(d, key, value)


def _plan_any(d: jax.Array, key: object, value: object) -> Planned:
    operand = value_operand(value, d.dtype)
    if _is_traced(d, key, operand):
        write, operands, wide = plan_traced(d, key, operand)
        return write, write, operands, wide
    if _t.is_explicit(d):
        plain, donating, operands, wide = plan_set(_t.as_automatic(d), _t.automatic_key(key), _t.automatic_key(operand))
        return _t.around_explicit(plain), _t.around_explicit(plain), operands, wide
    masked = split_mask(key, d.shape, operand.ndim, _SET)
    if masked is not None:
        check_count(masked, operand, _SET)
        planned = plan_mask(d, masked, operand)
        if operand.ndim == 0 and key is masked.mask and type(key) is ArrayImpl and _t.is_fast(d):
            if len(planned[2]) == 2:  # compiled: the value and the mask
                _t.keep(hot_array_writes, (key.shape, key.dtype, d.shape, d.dtype), (planned[:2], False, True))
    else:
        planned = _plan_key(d, key, operand)
    if any(part is d for part in planned[2]):
        planned = planned[0], planned[0], *planned[2:]
    return planned if _t.on_one_device(d) else _t.keep_sharding(planned)


def _plan_key(d: jax.Array, key: object, operand: jax.Array | np.ndarray) -> Planned:
    parsed = parse(key, d.shape, _SET, read_scalars=checks_on(d))
    plan, arrays = parsed.plan, parsed.arrays
    checked = check_arrays(d, parsed, _SET)
    target = lay_out(plan, d.shape, [array.shape for array in arrays], _SET).shape
    check_value(operand.shape, operand.dtype, target, d.dtype)
    family = d.shape, d.dtype
    ordered = _t.applies_in_order(d)
    table_key = plan, _describe(arrays), checked, ordered, family
    pair = _writes.functions.get(table_key)
    if pair is None:
        served: Planned | None
        if checked and d.nbytes <= _t.limits.write_bytes and _t.on_host(d) and _t.same_place(d, (operand, *arrays)):
            served = *_t.write_on_host(parsed.parts, len(target)), (operand,), False
        else:
            served = write_twice(d, parsed, operand, len(target))
        if served is not None and _writes.defer(table_key, family, _t.limits.writes):
            return served
        write = write_function(plan, len(arrays), checked, ordered)
        pair = _t.compile_pair(write)
        _writes.add(table_key, pair)
        _heat_write(d, key, plan, arrays, pair, checked)
    wide = any(array.dtype in _WIDE for array in (d, operand, *arrays)) or max(d.shape, default=0) >= 2**31
    return *pair, (operand, *_t.start_operands(d, parsed.starts), *_index_operands(d, parsed, checked)), wide


def _heat_write(
    d: jax.Array, key: object, plan: _k.Plan, arrays: Sequence[object], pair: _t.Pair, checked: bool
) -> None:
    """Let the fast paths of `plan_set` find a compiled write."""
    if not _t.is_fast(d):
        return
    family = d.shape, d.dtype
    if arrays:
        if type(key) is ArrayImpl and key.ndim and checked:
            _t.keep(hot_array_writes, (key.shape, key.dtype, *family), (pair, key.dtype in _WIDE, False))
        return
    if "t" in plan or "f" in plan:
        return
    _t.keep(hot_writes, (plan, *family), pair)
    short = _short_key(plan, *family)
    if short is not None:
        _t.keep(hot_writes, short, pair)


# --- index arrays ----------------------------------------------------------------------------------------------------


def check_arrays(d: jax.Array, parsed: Key, operation: str) -> bool:
    """Check the index arrays of a key where checks are on; tell whether all are known to be in range."""
    if not parsed.arrays:
        return True
    if not checks_on(d):
        return False
    arrays = iter(parsed.arrays)
    axis = 0
    for item in parsed.plan:
        if item == "a":
            check_bounds(next(arrays), d.shape[axis], axis, operation)
        axis += item not in ("n", ".", "t", "f")
    return True


def _describe(arrays: Sequence[jax.Array | np.ndarray]) -> tuple[tuple[object, ...], ...]:
    return tuple((array.shape, array.dtype, isinstance(array, np.ndarray)) for array in arrays)


def _index_operands(d: jax.Array, parsed: Key, checked: bool) -> list[object]:
    """Return the index arrays as operands; the host's are copied, as JAX reads them after the call returns."""
    narrow = _d.int32 if checked and max(d.shape, default=0) < 2**31 else None
    return [np.array(array, narrow, order="C") if isinstance(array, np.ndarray) else array for array in parsed.arrays]


def _is_traced(d: jax.Array, key: object, value: object = None) -> bool:
    if type(d) is not ArrayImpl or isinstance(value, Tracer) or (tracing.active and not tracing.settle()):
        return True
    parts = key if type(key) is tuple else (key,)
    return any(isinstance(part, Tracer) or isinstance(getattr(part, "_data", None), Tracer) for part in parts)
