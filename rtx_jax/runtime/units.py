"""Units: what the storage of a buffer on a device of JAX is a vector of.

A buffer may hold any bytes. A program that copies values of some dtypes changes bytes that are no usual numbers: XLA's
CPU computes in float32 where it has no bfloat16, which makes signalling NaNs quiet, and its complex numbers flush parts
that are subnormal. So a storage is of integers or of float32 and float64, which are copied bit by bit, and everything
else is made of these where it is needed.
"""

from __future__ import annotations

import jax
import numpy as np
from jax import lax

from ..core.dtypes import COMPLEX, FLOAT8, bfloat16, bool_, float16, real_of, uint8, uint16

__all__ = ["as_units", "elements", "put_elements", "unit_of"]

_UNITS: dict[np.dtype, np.dtype] = {
    bool_: uint8,
    **dict.fromkeys(FLOAT8, uint8),
    float16: uint16,
    bfloat16: uint16,
    **{dtype: real_of(dtype) for dtype in COMPLEX},
}


def unit_of(dtype: np.dtype) -> np.dtype:
    """Return the dtype of the storage that serves views of `dtype` best."""
    return _UNITS.get(dtype, dtype)


def elements(storage: jax.Array, dtype: np.dtype, offset: int, nbytes: int) -> jax.Array:
    """Return bytes of a storage, from `offset` on, as a vector of `dtype`; to be traced."""
    item = storage.dtype.itemsize
    if offset % item or nbytes % item:
        storage, item = storage.view(np.uint8), 1
    found = lax.slice(storage, (offset // item,), ((offset + nbytes) // item,))
    return found if found.dtype == dtype else found.view(dtype)


def put_elements(storage: jax.Array, values: jax.Array, offset: int) -> jax.Array:
    """Return the storage with the bytes of a vector from `offset` on; to be traced."""
    unit = storage.dtype
    if offset % unit.itemsize or values.nbytes % unit.itemsize:
        return lax.dynamic_update_slice(storage.view(np.uint8), as_units(values, uint8), (offset,)).view(unit)
    return lax.dynamic_update_slice(storage, as_units(values, unit), (offset // unit.itemsize,))


def as_units(values: jax.Array, unit: np.dtype) -> jax.Array:
    """Return the bytes of a vector as units; to be traced."""
    return values if values.dtype == unit else values.view(unit)
