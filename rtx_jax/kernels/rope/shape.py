"""How an array and its tables lie beside each other, in the one form that the kernels take."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["TurnShape", "largest_divisor"]


@dataclass(frozen=True, slots=True)
class TurnShape:
    """`x` as (outer, repeats, rows, heads, channels), of which the tables have (outer, rows, pairs).

    Attributes
    ----------
    outer, rows
        Axes that the tables have.
    repeats, heads
        Axes that they do not have: each table row serves `heads` neighbours, and again each of `repeats`.
    channels, pairs
        All channels, and the pairs of the leading ones that turn.
    """

    outer: int
    repeats: int
    rows: int
    heads: int
    channels: int
    pairs: int

    @classmethod
    def of(cls, shape: tuple[int, ...], table: tuple[int, ...]) -> TurnShape | None:
        """Return the form of arrays of equal rank; None where the axes alternate too often."""
        groups: list[tuple[bool, int]] = []
        for size, own in zip(shape[:-1], table[:-1], strict=True):
            if size == 1:
                continue
            has = own != 1
            if groups and groups[-1][0] == has:
                groups[-1] = has, groups[-1][1] * size
            else:
                groups.append((has, size))
        sizes, wanted = [1, 1, 1, 1], (True, False, True, False)
        # From behind, so that a lone group of table rows becomes `rows` and lies beside the channels.
        place = 3
        for has, size in reversed(groups):
            while place >= 0 and wanted[place] != has:
                place -= 1
            if place < 0:
                return None
            sizes[place] = size
            place -= 1
        outer, repeats, rows, heads = sizes
        return cls(outer, repeats, rows, heads, shape[-1], table[-1])

    @property
    def full(self) -> tuple[int, int, int, int, int]:
        """The shape of `x`."""
        return self.outer, self.repeats, self.rows, self.heads, self.channels

    @property
    def size(self) -> int:
        """How many elements `x` has."""
        return math.prod(self.full)


def largest_divisor(size: int, most: int, multiple: int = 1) -> int | None:
    """Return the largest divisor of `size` up to `most` that is a multiple of `multiple`; None where there is none."""
    return next((d for d in range(min(most, size), 0, -1) if size % d == 0 and d % multiple == 0), None)
