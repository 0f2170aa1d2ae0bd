"""Gradients of the reference by central differences in float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .case import Operation, Params
from .judge import flatten
from .ulp import Values, is_floating

__all__ = ["differentiable", "reference_gradients", "weights_for"]

# Central differences of the sixth order: the error of a step h is about h**6 / 140, that of rounding about 1e-16 / h.
_STEP = 2.0**-7
_WEIGHTS = {-3: -1 / 60, -2: 9 / 60, -1: -45 / 60, 1: 45 / 60, 2: -9 / 60, 3: 1 / 60}


def differentiable(operands: Sequence[Values], tested: np.dtype, /) -> list[int]:
    """Return the places of the operands that a gradient is taken of."""
    return [i for i, x in enumerate(operands) if x.dtype == tested and is_floating(tested)]


def weights_for(leaf: Values, place: int, /) -> NDArray[np.float64]:
    """Return what a result is weighted with, so that every element counts differently; dtypes of 8 bits hold it."""
    count = leaf.size
    pattern = np.array([1.0, -0.5, 0.75, 1.5, -1.25, 0.5, -0.875])
    return np.resize(np.roll(pattern, -place), count).reshape(leaf.shape)


def reference_gradients(
    operation: Operation, operands: Sequence[Values], params: Params, active: Sequence[int], /
) -> list[NDArray[np.float64]]:
    """Return the gradient of the weighted sum of all results with respect to the operands at `active`, float64."""
    wide = [np.asarray(x.astype(np.float64)) if is_floating(x.dtype) else x for x in operands]

    def loss(values: list[Values]) -> float:
        with np.errstate(all="ignore"):
            leaves = [np.asarray(leaf) for leaf in flatten(operation.expected(*values, **params))]
        return sum(
            float(np.sum(leaf * weights_for(leaf, place)))
            for place, leaf in enumerate(leaves)
            if leaf.dtype.kind == "f"
        )

    found = []
    for place in active:
        x = wide[place]
        gradient = np.zeros(x.shape)
        for index in np.ndindex(x.shape):
            # A power of two, so that the points are exact.
            step = _STEP * 2.0 ** np.round(np.log2(max(abs(float(x[index])), 0.25)))
            for multiple, weight in _WEIGHTS.items():
                moved = np.array(x)
                moved[index] = x[index] + multiple * step
                gradient[index] += weight * loss([*wide[:place], moved, *wide[place + 1 :]]) / step
        found.append(gradient)
    return found

