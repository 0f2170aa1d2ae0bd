"""Lengths that the cache, or the call, has no room for; where their values can be read."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import numpy as np

from ... import _config
from ..._compat import ArrayImpl
from ...core.index_checks import checks_on
from ...errors import IndexOutOfBounds

__all__ = ["check_lengths"]


def check_lengths(
    operation: str,
    lengths: Mapping[str, object],
    query: tuple[int, ...],
    key: tuple[int, ...],
    table: tuple[int, ...] | None,
    layout: str,
) -> None:
    """Check what `key_lengths` and `query_lengths` hold, where that is known and the setting `check_bounds` says so.

    Parameters
    ----------
    lengths
        The operands of these names that there are. Those of a trace, and of other processes, are not read.
    query, key, table
        Shapes of the queries, the keys or their pages, and the block table. Shapes that do not fit say nothing here.
    layout
        ``"BTNH"`` or ``"BNTH"``.

    Raises
    ------
    IndexOutOfBounds
        A length is negative, or beyond the capacity of the cache or the number of queries.
    """
    positions = 2 if layout == "BNTH" else 1
    if len(query) != 4 or len(key) != 4 or (table is not None and len(table) != 2):
        return
    capacity = key[positions] if table is None else table[1] * key[positions]
    for name, most in (("key_lengths", capacity), ("query_lengths", query[positions])):
        numbers = lengths.get(name)
        if numbers is None or not _is_readable(numbers):
            continue
        host = np.asarray(numbers)
        if not host.size or host.dtype.kind not in "iu":
            continue
        low, high = int(np.minimum.reduce(host, axis=None)), int(np.maximum.reduce(host, axis=None))
        if low < 0 or high > most:
            wrong = high if high > most else low
            what = "positions of the cache" if name == "key_lengths" else "queries"
            raise IndexOutOfBounds(
                operation,
                name,
                got=wrong,
                wanted=f"0 to {most}, the {what}",
                remedy="Grow the cache, or drop what is oldest." if name == "key_lengths" and wrong > 0 else "",
                index=wrong,
                size=most,
            )


def _is_readable(numbers: object) -> bool:
    if isinstance(numbers, np.ndarray):
        return _config.check_bounds() is not False
    if type(numbers) is not ArrayImpl:
        return False
    array: jax.Array = numbers
    return checks_on(array) and array.is_fully_addressable
