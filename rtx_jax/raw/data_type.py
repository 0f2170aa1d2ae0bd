"""Casts on raw arrays."""

from __future__ import annotations

import jax
import numpy as np
from jax import lax

from ..core.dtypes import COMPLEX, bool_
from ..errors import DTypeMismatch

__all__ = ["astype"]


def astype(x: jax.Array, *, dtype: np.dtype) -> jax.Array:
    """Return `x` as `dtype`: floats saturate on their way to integers and NaN becomes 0; no complex to real."""
    if x.dtype in COMPLEX and dtype not in COMPLEX and dtype != bool_:
        raise DTypeMismatch(
            "astype",
            "dtype",
            got=f"{dtype.name} for an array of dtype {x.dtype.name}",
            wanted="a complex dtype or bool",
            remedy="Take xp.real, xp.imag or xp.abs of the array first.",
        )
    if x.dtype in COMPLEX and dtype == bool_:
        return lax.ne(x, lax.full_like(x, 0))  # lax would look at the real component alone
    return lax.convert_element_type(x, dtype)
