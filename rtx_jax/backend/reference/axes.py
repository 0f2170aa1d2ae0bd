"""Indexing the last axes of an array."""

from __future__ import annotations

from collections.abc import Iterable
from types import EllipsisType
from typing import TypeAlias

import numpy as np

__all__ = ["on_last"]

_Entry: TypeAlias = int | slice | np.ndarray


def on_last(index: Iterable[_Entry], /) -> tuple[_Entry | EllipsisType, ...]:
    """Return the key that applies `index` to the last axes and leaves those before as they are."""
    return (..., *index)
