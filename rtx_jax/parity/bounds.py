"""The bounds: how far a result may be from the exact value, in units in the last place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .case import Mode
from .ulp import is_inexact

__all__ = ["Bound", "bound_for"]


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound and what it rests on.

    Attributes
    ----------
    limit
        The largest distance that passes.
    measured
        The largest distance seen on a CPU.
    """

    limit: float
    measured: float


_EXACT = Bound(0.0, 0.0)
_ROUNDED = Bound(0.51, 0.5)


def bound_for(operation: str, dtype: np.dtype, mode: Mode, /) -> Bound:
    """Return the bound of an operation for a dtype under test and a mode."""
    if not is_inexact(dtype):
        return Bound(4, 0)
    return _ROUNDED
