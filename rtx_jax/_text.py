"""How an Array reads when it is printed: as NumPy's, with the dtype where it is not the usual one."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
from jax.core import Tracer

__all__ = ["text"]

# The dtypes that NumPy's own text does not name either.
_USUAL = frozenset(("float64", "int64", "bool", "complex128"))


def text(data: jax.Array, form: Callable[[object], str]) -> str:
    """Return the text of an array; `form` is ``str`` or ``repr``."""
    if isinstance(data, Tracer):
        return f"Array(shape={data.shape}, dtype={data.dtype}, traced)"
    if data.is_deleted():
        return f"Array(shape={data.shape}, dtype={data.dtype}, deleted)"
    if not data.is_fully_addressable:
        return f"Array(shape={data.shape}, dtype={data.dtype}, sharding={data.sharding})"
    value = np.asarray(data)
    if form is str:
        return str(value)
    body = np.array2string(value, separator=", ", prefix="Array(")
    shape = "" if value.size or value.shape == (0,) else f", shape={value.shape}"
    dtype = "" if value.size and value.dtype.name in _USUAL else f", dtype={value.dtype.name}"
    return f"Array({body}{shape}{dtype})"
