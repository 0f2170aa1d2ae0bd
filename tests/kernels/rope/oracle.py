"""Rotation as the product with a complex number, in float64."""

from __future__ import annotations

import numpy as np

__all__ = ["turned"]


def turned(x: np.ndarray, angle: np.ndarray, layout: str) -> np.ndarray:
    """Pairs of the leading channels times ``exp(1j * angle)``; the axes of `angle` broadcast with those of `x`."""
    pairs = angle.shape[-1]
    first = np.arange(pairs) if layout == "half" else np.arange(0, 2 * pairs, 2)
    second = first + (pairs if layout == "half" else 1)
    wide = np.asarray(x, np.float64)
    product = (wide[..., first] + 1j * wide[..., second]) * np.exp(1j * angle)
    out = wide.copy()
    out[..., first], out[..., second] = product.real, product.imag
    return out
