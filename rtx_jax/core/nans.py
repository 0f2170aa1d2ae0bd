"""Looking for NaN in raw arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["has_nan"]


def has_nan(values: Sequence[object]) -> bool:
    """Whether any of some raw arrays or numbers holds a NaN; the values are fetched to the host."""
    return any(
        np.isnan(np.asarray(value)).any() for value in values if getattr(value, "dtype", np.dtype(bool)).kind in "fcV"
    )
