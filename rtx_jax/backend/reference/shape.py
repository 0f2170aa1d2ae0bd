"""Created arrays and changes of shape."""

from __future__ import annotations

import numpy as np

from ...checks import shape as check
from .rounding import is_float, narrow

__all__ = ["full", "permute", "reshape", "swap_dims", "transpose"]


def full(*, shape: tuple[int, ...], value: float, dtype: np.dtype, device: object = None) -> np.ndarray:
    """Return an array of one value, rounded to `dtype`."""
    element = narrow(np.asarray(value, np.float64), dtype) if is_float(dtype) else np.asarray(value).astype(dtype)
    return np.full(check.as_shape("full", shape, dtype.itemsize), element)


def reshape(x: np.ndarray, /, *, shape: tuple[int, ...]) -> np.ndarray:
    """Return the elements in row-major order under another shape; one size may be -1."""
    return x.reshape(check.reshape("reshape", x.shape, shape)).copy()


def permute(x: np.ndarray, /, *, dims: tuple[int, ...]) -> np.ndarray:
    """Return the axes in the order `dims`."""
    return np.transpose(x, check.permutation("permute", dims, x.ndim)).copy()


def transpose(x: np.ndarray, /) -> np.ndarray:
    """Return the last two axes exchanged."""
    check.rank_at_least("transpose", x.shape, 2)
    return np.swapaxes(x, -1, -2).copy()


def swap_dims(x: np.ndarray, /, *, dim1: int, dim2: int) -> np.ndarray:
    """Return two axes exchanged; equal ones change nothing."""
    first, second = (check.dim_in("swap_dims", dim, x.ndim, name) for dim, name in ((dim1, "dim1"), (dim2, "dim2")))
    return np.swapaxes(x, first, second).copy()
