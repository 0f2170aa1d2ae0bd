"""Products of matrices, formed in wide precision and rounded once; those of integers wrap around."""

from __future__ import annotations

import numpy as np

from ...checks import shape as check
from ...checks.elementwise import common_dtype
from .rounding import narrow, wide

__all__ = ["bmm", "matmul"]


def _product(name: str, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    dtype = common_dtype(name, lhs.dtype, rhs.dtype)
    with np.errstate(all="ignore"):
        return narrow(np.matmul(wide(narrow(lhs, dtype)), wide(narrow(rhs, dtype))), dtype)


def matmul(lhs: np.ndarray, rhs: np.ndarray, /, *, precision: str | None = None) -> np.ndarray:
    """Return the product of two matrices; zeros where the inner size is 0. `precision` changes nothing here."""
    check.matmul("matmul", lhs.shape, rhs.shape)
    return _product("matmul", lhs, rhs)


def bmm(lhs: np.ndarray, rhs: np.ndarray, /, *, precision: str | None = None) -> np.ndarray:
    """Return the products of two equally long batches of matrices."""
    check.bmm("bmm", lhs.shape, rhs.shape)
    return _product("bmm", lhs, rhs)
