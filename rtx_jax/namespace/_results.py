"""What the faces of reductions, searches and decompositions share: the dtypes that a result takes by default."""

from __future__ import annotations

import jax
import numpy as np

from .._array import Array, call1
from .._compat import ArrayImpl
from ..core.dispatch import Op, lift
from ..core.dtypes import INEXACT, UNSIGNED, bool_, default_float, default_int, uint32, uint64
from ..core.dtypes import as_dtype as as_dtype
from ..core.handle import facts_of
from ..core.lazy import Lazy
from ..raw._kinds import cast

__all__ = ["dtype_of", "float_or_none", "floating", "index_dtype", "place_of", "sum_dtype"]

_cast = Op("astype", lambda x, *, dtype: cast(x, dtype), ("dtype",))


def place_of(x: object, /) -> jax.Array | Lazy | None:
    """Return the raw array of an operand, which tells the device whose defaults apply; None for host input."""
    if type(x) is Array:
        data: jax.Array = x._data
        return data if type(data) is ArrayImpl else facts_of(x)
    return x if isinstance(x, jax.Array) else None


def index_dtype(x: object, /) -> np.dtype:
    """Return the dtype of indices and counts: the default integer of the operand's device."""
    return default_int(place_of(x))


def dtype_of(x: object, operation: str) -> np.dtype:
    """Return the dtype of an operand, also of a Python scalar."""
    try:
        dtype: np.dtype = x.dtype  # type: ignore[attr-defined]
    except AttributeError:
        return lift(x, None, operation).dtype
    return dtype


def sum_dtype(x: object, operation: str) -> np.dtype | None:
    """Return the dtype of sums and products: None for floats, which keep theirs, else at least the default integer."""
    dtype = x.dtype if type(x) is Array else dtype_of(x, operation)
    if dtype in INEXACT:
        return None
    default = index_dtype(x)
    if dtype == bool_:
        return default
    if dtype.itemsize >= default.itemsize:
        return dtype
    if dtype in UNSIGNED:
        return uint64 if default.itemsize == 8 else uint32
    return default


def float_or_none(x: object, operation: str) -> np.dtype | None:
    """Return None for a floating operand, else the default float of its device."""
    dtype = x.dtype if type(x) is Array else dtype_of(x, operation)
    return None if dtype in INEXACT else default_float(place_of(x))


def floating(x: Array, operation: str) -> Array:
    """Return a floating operand as it is, any other one as the default float of its device."""
    if type(x) is Array and x.dtype in INEXACT:
        return x
    dtype = float_or_none(x, operation)
    return x if dtype is None else call1(_cast, x, dtype)
