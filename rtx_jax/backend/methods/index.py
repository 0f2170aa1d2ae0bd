"""Methods that read rows by their numbers, and add into them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

import numpy as np

from ...checks import index as check
from ...checks import shape as shapes
from ...checks.choices import flag
from ...errors import InvalidArgument, UseAfterMove
from ..core import T
from .elementwise import ElementwiseMethods

__all__ = ["IndexMethods"]

Indices: TypeAlias = "Sequence[int] | np.ndarray"

_SHORT = 64
_MAX_KEPT = 1024
_kept: dict[tuple[object, ...], np.ndarray] = {}


class IndexMethods(ElementwiseMethods[T]):
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
        UnsupportedDType
            `x` is not integers or real floating.
        """
        check.mode_of("index_add", mode)
        self._numeric("index_add", x)
        shape = self._rows("index_add", x)
        rows = shapes.as_int("index_add", "num_rows", num_rows)
        if rows < 0:
            raise InvalidArgument(
                "index_add", "num_rows", got=rows, wanted="0 or more", arg="num_rows", reason="negative size"
            )
        found = self._indices("index_add", indices, rows, mode)
        shapes.rank("index_add", found.shape, 1, "indices")
        check.index_add_rows("index_add", shape, found.shape[0])
        return self._apply(
            "index_add",
            (x, found),
            (rows, deterministic is not None and flag("index_add", "deterministic", deterministic), mode),
        )

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
        except UseAfterMove as error:
            raise error.renamed(operation) from None
        except AttributeError:
            raise self._not_a_tensor(operation, x) from None
        shapes.rank_at_least(operation, shape, 1)
        return shape

    def _indices(self, operation: str, indices: Indices | T, size: int, mode: str, flat: bool = True) -> np.ndarray | T:
        """Return checked indices: those of the host as int64 in their own memory, those of a tensor as they are."""
        if type(indices) is list or type(indices) is tuple:
            if len(indices) <= _SHORT:
                key = tuple(indices), tuple(map(type, indices)), size, mode, flat
                return self._short(key, lambda: self._of_host(operation, indices, size, mode, flat))
            return self._of_host(operation, indices, size, mode, flat)
        if isinstance(indices, np.ndarray) or not hasattr(indices, "dtype"):
            return self._of_host(operation, cast("Indices", indices), size, mode, flat)
        tensor = cast("T", indices)
        if tensor.dtype.kind not in "iu":
            check.integers(operation, tensor.dtype)
        if flat and tensor.ndim != 1:
            shapes.rank(operation, tensor.shape, 1, "indices")
        if mode == "error":
            values = self._index_values(tensor)
            if values is not None:
                check.in_range(operation, values, size)
        return tensor

    @staticmethod
    def _of_host(operation: str, indices: Indices, size: int, mode: str, flat: bool) -> np.ndarray:
        found = check.host_indices(operation, indices, flat)
        if mode == "error":
            check.in_range(operation, found, size)
        return found

    @staticmethod
    def _short(key: tuple[object, ...], make: Callable[[], np.ndarray]) -> np.ndarray:
        """Return a short list of indices as one array that is kept, and that nobody may write to."""
        try:
            found = _kept.get(key)
        except TypeError:
            return make()
        if found is None:
            found = make()
            found.setflags(write=False)
            if len(_kept) >= _MAX_KEPT:
                _kept.clear()
            _kept[key] = found
        return found

    def _index_values(self, indices: T) -> np.ndarray | None:
        """Return the values of a tensor of indices, or None where they cannot be read here and now."""
        return np.asarray(self._function("to_data")(indices))
