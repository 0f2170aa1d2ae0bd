"""Writes to slices of any length by functions that are compiled for powers of two only.

A value that is the same along a slice may be written twice: two overlapping pieces, each as long as the greatest
power of two in the length, cover the slice. So a loop over growing slices of a large array, or of any array on a
device that the host does not see, compiles a function per doubling instead of one per length.
"""

from __future__ import annotations

import jax
import numpy as np

from . import dtypes as _d
from . import index_table as _t
from .index_key import Key
from .scatter import write_function

__all__ = ["write_twice"]

_writes: _t.Table[_t.Pair] = _t.Table()


def write_twice(d: jax.Array, key: Key, value: jax.Array | np.ndarray, ndim: int) -> _t.Planned | None:
    """Return how to write a value along the one slice of a key, or None where this does not apply.

    Parameters
    ----------
    d
        The array.
    key
        The parsed key.
    value
        The value, which fits the key.
    ndim
        Number of axes of ``d[key]``.
    """
    slices = [i for i, item in enumerate(key.plan) if isinstance(item, tuple)]
    if len(slices) != 1 or any(item in ("a", "t", "f") for item in key.plan):
        return None
    (place,) = slices
    item = key.plan[place]
    assert isinstance(item, tuple)
    count, step = item
    after = ndim - 1 - sum(part != "i" for part in key.plan[:place])
    varies = value.ndim > after and value.shape[value.ndim - 1 - after] != 1
    if varies or count < 2:
        return None
    length = 1 << (count.bit_length() - 1)
    plan = (*key.plan[:place], (length, step), *key.plan[place + 1 :])
    table_key = plan, d.shape, d.dtype
    pair = _writes.functions.get(table_key)
    if pair is None:
        write = write_function(plan, 0, True, True)

        def write_both(x: jax.Array, value: jax.Array, *starts: jax.Array) -> jax.Array:
            half = len(starts) // 2
            return write(write(x, value, *starts[:half]), value, *starts[half:])

        pair = _t.compile_pair(write_both)
        _writes.add(table_key, pair)
    number = sum(part == "i" or isinstance(part, tuple) for part in key.plan[:place])
    second = list(key.starts)
    second[number] += (count - length) * abs(step)
    wide = d.dtype in _d.WIDE or value.dtype in _d.WIDE or max(d.shape) >= 2**31
    return *pair, (value, *_t.start_operands(d, [*key.starts, *second])), wide
