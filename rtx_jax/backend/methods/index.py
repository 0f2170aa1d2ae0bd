"""Methods that read rows by their numbers, and add into them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from ...checks import index as check
from ...checks import shape as shapes
from ...errors import InvalidArgument
from ..core import BackendCore, T

__all__ = ["IndexMethods"]

Indices: TypeAlias = "Sequence[int] | np.ndarray"


class IndexMethods(BackendCore[T]):
    """Rows by number.

    Indices of the host (a list, a tuple, a range, a NumPy vector) are checked before anything runs, at no cost to the
    device. Those of a tensor are checked where its values can be read; where they cannot, because a function is being
    traced, `mode` says what happens.
    """

    def index_select(self, x: T, indices: Indices | T, /, *, mode: str = "error") -> T:
        """Return rows of the first axis.

        Parameters
        ----------
        x
            ``(R, ...)``.
        indices
            ``(N,)`` row numbers in ``0..R-1``; they may repeat, and be none.
        mode
            For an index out of range: ``"error"`` raises (while tracing: a row of NaN, the least integer or False,
            and the error from `rtx_jax.checked`), ``"clip"`` takes the nearest row, ``"fill"`` gives that row of NaN.

        Returns
        -------
        Tensor
            ``(N, ...)``.

        Raises
        ------
        IndexOutOfBounds
            An index is negative or not below R; the text has both numbers.
        InvalidDimension
            `x` has no axis.
        InvalidArgument
            Indices are not integers, or `mode` is unknown.
        """
        check.mode_of("index_select", mode)
        shape = self._rows("index_select", x)
        return self._apply("index_select", (x, self._indices("index_select", indices, shape[0], mode)), (mode,))

    def index_add(
        self,
        x: T,
        indices: Indices | T,
        num_rows: int,
        /,
        *,
        deterministic: bool | None = None,
        mode: str = "error",
    ) -> T:
        """Add rows into a tensor of zeros.

        Parameters
        ----------
        x
            ``(N, ...)``.
        indices
            ``(N,)`` row numbers in ``0..num_rows-1``, where each row of `x` goes; rows that meet are summed, in
            float32 for floats below 32 bits.
        num_rows
            Rows of the result, 0 or more.
        deterministic
            True: the order of summation is fixed, so that results repeat bit for bit on every device. None and False
            take the fastest way, which repeats on CPU.
        mode
            For an index out of range: ``"error"`` raises (while tracing: drops the row, with the error from
            `rtx_jax.checked`), ``"clip"`` adds to the nearest row, ``"fill"`` drops.

        Returns
        -------
        Tensor
            ``(num_rows, ...)``; rows that no index names are 0.

        Raises
        ------
        ShapeMismatch
            There is not one index for each row of `x`.
        IndexOutOfBounds
            An index is negative or not below `num_rows`.
        InvalidArgument
            `num_rows` is negative, indices are not integers, or `mode` is unknown.
        """
        check.mode_of("index_add", mode)
        shape = self._rows("index_add", x)
        rows = shapes.as_int("index_add", "num_rows", num_rows)
        if rows < 0:
            raise InvalidArgument(
                "index_add", "num_rows", got=rows, wanted="0 or more", arg="num_rows", reason="negative size"
            )
        found = self._indices("index_add", indices, rows, mode)
        shapes.rank("index_add", found.shape, 1, "indices")
        check.index_add_rows("index_add", shape, found.shape[0])
        return self._apply("index_add", (x, found), (rows, bool(deterministic), mode))

    def embedding(self, indices: Indices | T, weight: T, /, *, mode: str = "error") -> T:
        """Return rows of a table for indices of any shape.

        Parameters
        ----------
        indices
            Integers in ``0..R-1``, any shape.
        weight
            ``(R, D)``.
        mode
            See `index_select`.

        Returns
        -------
        Tensor
            ``(*indices.shape, D)``.

        Raises
        ------
        IndexOutOfBounds
            An index is negative or not below R.
        InvalidDimension
            `weight` is not a matrix.
        """
        check.mode_of("embedding", mode)
        shape = self._rows("embedding", weight)
        shapes.rank("embedding", shape, 2, "weight")
        found = self._indices("embedding", indices, shape[0], mode, flat=False)
        return self._apply("embedding", (found, weight), (mode,))

    def _rows(self, operation: str, x: T) -> tuple[int, ...]:
        try:
            shape = x.shape
        except AttributeError:
            raise self._not_a_tensor(operation, x) from None
        shapes.rank_at_least(operation, shape, 1)
        return shape

    def _indices(self, operation: str, indices: Indices | T, size: int, mode: str, flat: bool = True) -> np.ndarray | T:
        """Return checked indices: those of the host as int64 in their own memory, those of a tensor as they are."""
        values = self._index_values(indices)
        if values is None:
            tensor: T = indices  # type: ignore[assignment]
            check.integers(operation, tensor.dtype)
            if flat:
                shapes.rank(operation, tensor.shape, 1, "indices")
            return tensor
        found = check.host_indices(operation, values, flat)
        if mode == "error":
            check.in_range(operation, found, size)
        return found if values is indices else indices  # type: ignore[return-value]

    def _index_values(self, indices: Indices | T) -> Indices | None:
        """Return indices that can be read here and now, or None for a tensor whose values are not known."""
        if isinstance(indices, (np.ndarray, Sequence)):
            return indices
        try:
            return np.asarray(self._function("to_data")(indices))
        except Exception:
            return None
