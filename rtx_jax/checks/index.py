"""Checks of row indices that the host holds: integers, not negative, in range."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import IndexOutOfBounds, InvalidArgument, ShapeMismatch
from .choices import is_one_of

__all__ = ["MODES", "host_indices", "in_range", "index_add_rows", "integers", "mode_of"]

_UNSIGNED = {np.dtype(f"{kind}{width}"): np.dtype(f"u{width}") for kind in ("i", "u") for width in (1, 2, 4, 8)}
MODES = ("error", "clip", "fill")


def mode_of(operation: str, mode: str) -> str:
    """Return the treatment of indices out of range.

    Raises
    ------
    InvalidArgument
        It is not one of `MODES`.
    """
    if not is_one_of(mode, MODES):
        raise InvalidArgument(
            operation,
            "mode",
            got=repr(mode),
            wanted=", ".join(map(repr, MODES)),
            arg="mode",
            reason="unknown mode",
        )
    return mode


def host_indices(operation: str, indices: Sequence[int] | np.ndarray, flat: bool = True) -> np.ndarray:
    """Return indices as int64 of their own memory; a vector when `flat`.

    Raises
    ------
    InvalidArgument
        They are not integers, or not a flat sequence.
    """
    if isinstance(indices, range):
        found = np.array(indices, np.int64)
    else:
        try:
            found = np.array(indices)
        except (TypeError, ValueError) as error:
            raise _not_indices(operation, type(indices).__name__) from error
    if found.dtype.kind not in "iu" and (found.size or isinstance(indices, np.ndarray)):
        raise _not_indices(operation, f"dtype {found.dtype}")
    if flat and found.ndim != 1:
        raise _not_indices(operation, f"shape {found.shape}")
    if found.dtype == np.uint64 and found.size and found.max() > np.iinfo(np.int64).max:
        raise _out_of_range(operation, int(found.max()), np.iinfo(np.int64).max)
    whole: np.ndarray = found.astype(np.int64)
    return whole


def integers(operation: str, dtype: np.dtype) -> None:
    """Raise InvalidArgument unless a tensor's dtype can number rows."""
    if dtype.kind not in "iu":
        raise _not_indices(operation, f"dtype {dtype.name}")


def _not_indices(operation: str, got: str) -> InvalidArgument:
    return InvalidArgument(operation, "indices", got=got, wanted="integers", arg="indices", reason="not indices")


def _out_of_range(operation: str, index: int, size: int) -> IndexOutOfBounds:
    remedy = "Negative indices are not taken: count rows from the front." if index < 0 else ""
    return IndexOutOfBounds(
        operation,
        "indices",
        got=f"index {index} for {size} rows",
        wanted=f"0..{size - 1}" if size else "no index, as there are no rows",
        remedy=remedy,
        index=index,
        size=size,
    )


def in_range(operation: str, indices: np.ndarray, size: int) -> None:
    """Raise IndexOutOfBounds for the first index that is negative or not below `size`."""
    if not indices.size:
        return
    # Read as unsigned, a negative index is above every size, so one reduction finds both.
    unsigned = _UNSIGNED.get(indices.dtype)
    if unsigned is None or np.maximum.reduce(indices.view(unsigned), axis=None) >= size:
        wrong = (indices < 0) | (indices >= size)
        if wrong.any():
            raise _out_of_range(operation, int(indices[wrong][0]), size)


def index_add_rows(operation: str, shape: tuple[int, ...], count: int) -> None:
    """Raise ShapeMismatch unless there is one index for each row of the tensor."""
    if shape[0] != count:
        raise ShapeMismatch(
            operation,
            "indices",
            got=f"{count} indices for a tensor of shape {shape}",
            wanted=f"one index for each of the {shape[0]} rows",
            expected=(shape[0],),
            got_shape=(count,),
        )
