"""Norms over the last axis and their gradients in float64."""

from __future__ import annotations

import numpy as np

__all__ = ["gradients", "norm"]


def norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float, centred: bool) -> np.ndarray:
    """The result."""
    x = np.asarray(x, np.float64)
    rest = x - x.mean(-1, keepdims=True) if centred else x
    return rest / np.sqrt((rest * rest).mean(-1, keepdims=True) + eps) * weight + bias


def gradients(
    x: np.ndarray, weight: np.ndarray, seed: np.ndarray, eps: float, centred: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Those of ``sum(norm * seed)`` in `x`, the weight and the bias: by the matrix of derivatives of each row."""
    x, seed = np.asarray(x, np.float64), np.asarray(seed, np.float64)
    size = x.shape[-1]
    rows, seeds = x.reshape(-1, size), seed.reshape(-1, size)
    taken = np.eye(size) - np.full((size, size), 1 / size) if centred else np.eye(size)
    slopes, normal = np.empty_like(rows), np.empty_like(rows)
    for i, row in enumerate(rows):
        rest = taken @ row
        scale = (rest @ rest / size + eps) ** -0.5
        # d(rest * scale) = scale * d rest - rest * scale**3 * (rest . d rest) / size
        jacobian = scale * taken - scale**3 / size * np.outer(rest, rest @ taken)
        slopes[i] = (seeds[i] * weight) @ jacobian
        normal[i] = rest * scale
    return slopes.reshape(x.shape), (seeds * normal).sum(0), seeds.sum(0)
