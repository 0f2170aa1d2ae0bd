"""Rows chosen and summed by index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...checks import index as check
from ...checks.elementwise import kind_of, numeric
from ...checks.shape import rank_at_least
from .reduction import lane_sum
from .rounding import exact, integer_range, narrow

__all__ = ["gather", "index_add", "index_select"]


def _rows(name: str, indices: Sequence[int] | np.ndarray, size: int, mode: str) -> tuple[np.ndarray, np.ndarray]:
    """Return indices that are in range, and which of them were so from the start."""
    rows = check.host_indices(name, indices)
    if check.mode_of(name, mode) == "error":
        check.in_range(name, rows, size)
    valid = (rows >= 0) & (rows < size)
    return (np.clip(rows, 0, max(size - 1, 0)), valid | (mode == "clip"))


def _missing(dtype: np.dtype) -> np.ndarray:
    """Return what a read out of range gives: NaN, the least integer, or False."""
    kind = kind_of(dtype)
    value = integer_range(dtype)[0] if kind == "integer" else False if kind == "bool" else np.nan
    return np.asarray(value).astype(dtype)


def gather(name: str, x: np.ndarray, indices: Sequence[int] | np.ndarray, mode: str) -> np.ndarray:
    """Return rows of axis 0; one out of range is an error, is clipped, or (``"fill"``) is a row of NaN."""
    rows, valid = _rows(name, indices, x.shape[0], mode)
    if not x.shape[0]:
        return np.full((len(rows), *x.shape[1:]), _missing(x.dtype))
    return np.where(valid.reshape(-1, *(1,) * (x.ndim - 1)), x[rows], _missing(x.dtype))


def index_select(x: np.ndarray, indices: Sequence[int] | np.ndarray, /, *, mode: str = "error") -> np.ndarray:
    """Return the rows of axis 0 at `indices`, with repeats: ``(len(indices), *x.shape[1:])``.

    An index out of range is an error, is clipped, or (``"fill"``) gives a row of NaN or of the least integer.
    """
    rank_at_least("index_select", x.shape, 1)
    return gather("index_select", x, indices, mode)


def index_add(
    x: np.ndarray,
    indices: Sequence[int] | np.ndarray,
    /,
    *,
    num_rows: int,
    deterministic: bool | None = None,
    mode: str = "error",
) -> np.ndarray:
    """Return ``(num_rows, *x.shape[1:])``: row r is the sum of the rows of `x` whose index is r, 0 where none is.

    Each sum is exact and rounded once. An index out of range is an error, is clipped, or (``"fill"``) its row dropped.
    """
    numeric("index_add", x.dtype)
    rank_at_least("index_add", x.shape, 1)
    rows, valid = _rows("index_add", indices, num_rows, mode)
    check.index_add_rows("index_add", x.shape, len(rows))
    values = exact(x)[valid]
    order = np.argsort(rows[valid], kind="stable")
    # Row r of the result gets those from edges[r] to edges[r + 1] in this order.
    edges = np.searchsorted(rows[valid][order], np.arange(num_rows + 1))
    taken = [order[start:stop] for start, stop in zip(edges[:-1], edges[1:], strict=True)]
    sums = [lane_sum(np.moveaxis(values[lines], 0, -1)) for lines in taken]
    return narrow(np.stack(sums) if sums else np.zeros((0, *x.shape[1:])), x.dtype)
