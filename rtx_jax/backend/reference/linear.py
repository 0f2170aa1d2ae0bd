"""Affine maps and tables of vectors."""

from __future__ import annotations

import numpy as np

from ...checks import linear as check
from ...checks.index import integers
from ...checks.shape import rank
from .index import gather
from .rounding import narrow, wide

__all__ = ["embedding", "linear"]


def linear(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None, /, *, precision: str | None = None
) -> np.ndarray:
    """Return ``x @ weight.T + bias``, `weight` of (outputs, inputs), rounded once."""
    _, dtype = check.linear(
        x.shape,
        x.dtype,
        weight.shape,
        weight.dtype,
        None if bias is None else bias.shape,
        None if bias is None else bias.dtype,
    )
    with np.errstate(all="ignore"):
        out = np.matmul(wide(narrow(x, dtype)), wide(narrow(weight, dtype)).T)
        return narrow(out if bias is None else out + wide(bias), dtype)


def embedding(indices: np.ndarray, weight: np.ndarray, /, *, mode: str = "error") -> np.ndarray:
    """Return the rows of `weight` at `indices` of any shape: ``(*indices.shape, weight.shape[1])``."""
    integers("embedding", indices.dtype)
    rank("embedding", weight.shape, 2, "weight")
    return gather("embedding", weight, indices.reshape(-1), mode).reshape(*indices.shape, weight.shape[1])
