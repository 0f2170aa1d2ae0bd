"""Gradients of the reference by central differences in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .case import Case, Operation, Params
from .judge import Verdict, flatten
from .ulp import Values, format_of, is_floating, spacing

__all__ = ["Slopes", "compare_gradients", "differentiable", "slopes", "weights_for"]

# Of the sixth order: the error of a step h is about h**6 / 140, that of rounding about 1e-16 / h.
_STEP = 2.0**-7
_SIXTH = np.array([-1, 9, -45, 45, -9, 1]) / 60
_FOURTH = np.array([0, 1, -8, 8, -1, 0]) / 12
_OFFSETS = (-3, -2, -1, 1, 2, 3)
# Where the two orders differ by more, there is a kink within the steps.
_SMOOTH = 1e-6
# So many differences for one call: its elements, or sums of them.
_MOST = 24
# Below this, a gradient is judged by its absolute error.
_LEAST = 2.0**-4


@dataclass(frozen=True, slots=True)
class Slopes:
    """Directional derivatives of a call.

    Attributes
    ----------
    directions
        For each derivative, the sign of each element of each operand that is differentiated, 0 where it stays.
    values
        The derivatives; NaN at a kink.
    """

    directions: list[list[NDArray[np.float64]]]
    values: NDArray[np.float64]


def differentiable(case: Case, operands: Sequence[Values], tested: np.dtype, /) -> list[int]:
    """Return the places of the operands that a gradient is taken of."""
    return [
        i
        for i, (x, operand) in enumerate(zip(operands, case.operands, strict=True))
        if x.dtype == tested and is_floating(tested) and not operand.is_constant
    ]


def weights_for(shape: tuple[int, ...], place: int, /) -> NDArray[np.float64]:
    """Return what a result is weighted with, so that elements count differently; dtypes of 8 bits hold the numbers."""
    pattern = np.roll(np.array([1.0, -0.5, 0.75, 1.5, -1.25, 0.5, -0.875]), -place)
    return np.resize(pattern, shape)


def slopes(operation: Operation, operands: Sequence[Values], params: Params, active: Sequence[int], /) -> Slopes:
    """Return derivatives of the weighted sum of all results along directions that cover every element once."""
    wide = [np.asarray(x.astype(np.float64)) if is_floating(x.dtype) else x for x in operands]
    total = sum(wide[place].size for place in active)
    count = min(total, _MOST)
    directions = [_direction(wide, active, number, count) for number in range(count)]
    found = [_slope(operation, wide, params, active, direction) for direction in directions]
    return Slopes(directions, np.array(found, np.float64))


def _direction(operands: Sequence[Values], active: Sequence[int], number: int, count: int) -> list[NDArray[np.float64]]:
    """Every `count`-th element, with signs that alternate."""
    start, found = 0, []
    for place in active:
        size = operands[place].size
        index = np.arange(start, start + size)
        signs = np.where(index % count == number, 1.0 - 2.0 * (index // count % 2), 0.0)
        found.append(signs.reshape(operands[place].shape))
        start += size
    return found


def _slope(
    operation: Operation,
    operands: Sequence[Values],
    params: Params,
    active: Sequence[int],
    direction: list[NDArray[np.float64]],
) -> float:
    sizes = [abs(float(v)) for place, d in zip(active, direction, strict=True) for v in operands[place][d != 0]]
    # A power of two, so that the points are exact; small where a number is, for the logarithm's sake.
    step = _STEP * 2.0 ** np.floor(np.log2(min(max(min(sizes), 2.0**-4), 1.0)))
    samples = np.empty(len(_OFFSETS))
    for number, multiple in enumerate(_OFFSETS):
        moved = list(operands)
        for place, d in zip(active, direction, strict=True):
            moved[place] = np.asarray(operands[place] + multiple * step * d)
        samples[number] = _loss(operation, moved, params)
    sixth, fourth = float(_SIXTH @ samples) / step, float(_FOURTH @ samples) / step
    return sixth if abs(sixth - fourth) <= _SMOOTH * max(1.0, abs(sixth)) else float("nan")


def _loss(operation: Operation, operands: Sequence[Values], params: Params) -> float:
    with np.errstate(all="ignore"):
        leaves = [np.asarray(leaf) for leaf in flatten(operation.expected(*operands, **params))]
        return sum(
            float(np.sum(leaf * weights_for(leaf.shape, number)))
            for number, leaf in enumerate(leaves)
            if leaf.dtype.kind == "f"
        )


def compare_gradients(tested: np.dtype, operands: Sequence[Values], got: Sequence[Values], right: Slopes, /) -> Verdict:
    """Compare gradients of the operands with derivatives of the reference.

    The unit is the spacing of the dtype at the largest derivative of the call. Derivatives at kinks do not count.
    """
    for value, x in zip(got, operands, strict=True):
        if value.shape != x.shape or value.dtype != tested:
            return Verdict(np.array([np.inf]), f"a gradient {value.dtype}{value.shape}, wanted {tested}{x.shape}")
    wide = [value.astype(np.float64) for value in got]
    sums = np.array(
        [sum(float(np.sum(g * d)) for g, d in zip(wide, direction, strict=True)) for direction in right.directions]
    )
    smooth = ~np.isnan(right.values)
    if not smooth.any():
        return Verdict(np.zeros(0))
    exact, sums = right.values[smooth], sums[smooth]
    sizes = [np.abs(exact).max(), _LEAST, *(np.abs(g).max() for g in wide if g.size)]
    scale = np.asarray(max(size for size in sizes if np.isfinite(size)))
    with np.errstate(invalid="ignore"):
        errors = np.nan_to_num(np.abs(sums - exact) / spacing(scale, format_of(tested)), nan=np.inf)
    place = int(np.argmax(errors))
    return Verdict(errors, "", 0, (place,), f"a slope of {sums[place]:.9g}", f"{exact[place]:.9g}")
