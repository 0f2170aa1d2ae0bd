"""Compares what an operation returned with what is right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.dtypes import complex_of, real_of
from .case import Operation, Params
from .operands import widest
from .ulp import Values, flushed, is_floating, is_inexact, ulp_error

__all__ = ["Verdict", "compare", "flatten", "references"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one call compares.

    Attributes
    ----------
    errors
        The distance of every number from the exact value, flat.
    problem
        What makes a comparison of numbers impossible: another structure, shape or dtype; or ``""``.
    leaf, place
        The result and its element that is furthest away.
    got, wanted
        The values there.
    """

    errors: NDArray[np.float64]
    problem: str = ""
    leaf: int = 0
    place: tuple[int, ...] = ()
    got: str = ""
    wanted: str = ""

    @property
    def worst(self) -> float:
        """The largest distance; infinity where the comparison was impossible."""
        if self.problem:
            return float("inf")
        return float(self.errors.max()) if self.errors.size else 0.0


def flatten(result: object, /) -> list[object]:
    """Return the arrays of a result in order: of a tuple, a list, a named tuple, or the one that it is."""
    if isinstance(result, tuple | list):
        return [leaf for item in result for leaf in flatten(item)]
    if isinstance(result, Mapping):
        return [leaf for key in sorted(result) for leaf in flatten(result[key])]
    return [result]


@dataclass(frozen=True, slots=True)
class Reference:
    """What is right: the leaves, their units, and both again for operands without subnormal numbers."""

    leaves: list[Values]
    scales: list[NDArray[np.float64] | None]
    flushed: list[Values] | None


def references(operation: Operation, operands: Sequence[Values], params: Params, /) -> Reference:
    """Compute what is right for one call."""
    wide = [_wide(operation, x) for x in operands]
    leaves = _expected(operation, wide, params)
    low = [flushed(x) for x in operands]
    other = None
    if any(a is not b for a, b in zip(low, operands, strict=True)):
        other = _expected(operation, [_wide(operation, x) for x in low], params)
    return Reference(leaves, _scales(operation, wide, params, leaves), other)


def _wide(operation: Operation, x: Values) -> Values:
    return x if operation.native else np.asarray(x.astype(widest(x.dtype)))


def _expected(operation: Operation, operands: list[Values], params: Params) -> list[Values]:
    with np.errstate(all="ignore"):
        leaves = flatten(operation.expected(*operands, **params))
        if operation.canonical is not None:
            leaves = operation.canonical([np.asarray(leaf) for leaf in leaves])
    return [np.asarray(leaf) for leaf in leaves]


def _scales(
    operation: Operation, operands: list[Values], params: Params, leaves: list[Values]
) -> list[NDArray[np.float64] | None]:
    if operation.scale == "value":
        return [np.full(leaf.shape, operation.floor) if operation.floor else None for leaf in leaves]
    if operation.scale == "absolute":
        sizes = [np.asarray(np.abs(x)) if x.dtype.kind in "fc" else x for x in operands]
        with np.errstate(all="ignore"):
            bounds = flatten(operation.expected(*sizes, **params))
        return [np.abs(np.asarray(bound)).astype(np.float64) for bound in bounds]
    return [_largest(leaf) for leaf in leaves]


def _largest(leaf: Values) -> NDArray[np.float64] | None:
    if leaf.dtype.kind not in "fc" or leaf.size == 0:
        return None
    size = np.abs(leaf).astype(np.float64)
    finite = size[np.isfinite(size)]
    return np.full(leaf.shape, finite.max() if finite.size else 0.0)


def result_dtype(operation: Operation, tested: np.dtype, leaf: Values, /) -> np.dtype:
    """Return the dtype that a result has to have, from the reference's and the one under test."""
    if operation.typed or leaf.dtype.kind in "biuUV":
        return leaf.dtype
    if leaf.dtype.kind == "c":
        return complex_of(tested) if is_inexact(tested) else np.dtype(np.complex128)
    if leaf.dtype.kind == "f":
        if not is_inexact(tested):
            return np.dtype(np.float64)
        return real_of(tested) if tested.kind == "c" else tested
    return leaf.dtype


def compare(
    operation: Operation,
    tested: np.dtype,
    got: Sequence[Values],
    right: Reference,
    /,
    *,
    same_dtype: Callable[[np.dtype, np.dtype], bool] = np.dtype.__eq__,
) -> Verdict:
    """Compare the leaves of a result with the reference.

    Parameters
    ----------
    operation
        The operation.
    tested
        The dtype under test.
    got
        The leaves of the result on the host.
    right
        What is right.
    same_dtype
        Whether a dtype stands for the wanted one on the device.
    """
    if len(got) != len(right.leaves):
        return _impossible(f"{len(got)} arrays, wanted {len(right.leaves)}")
    for leaf, (value, wanted) in enumerate(zip(got, right.leaves, strict=True)):
        dtype = result_dtype(operation, tested, wanted)
        which = f"result {leaf} of " if len(got) > 1 else ""
        if value.shape != wanted.shape:
            return _impossible(f"{which}shape {value.shape}, wanted {wanted.shape}")
        if value.dtype.kind + dtype.kind != "UU" and not same_dtype(value.dtype, dtype):
            return _impossible(f"{which}dtype {value.dtype}, wanted {dtype}")
    if operation.canonical is not None:
        got = [np.asarray(leaf) for leaf in operation.canonical(list(got))]
    verdicts = []
    for leaf, value in enumerate(got):
        # Formulas of complex numbers differ at infinities and zeros; only moving numbers around has to keep them.
        strict = value.dtype.kind != "c" or (operation.signed_zeros and not operation.elementwise)
        signed = strict and operation.signed_zeros
        errors = ulp_error(
            value, right.leaves[leaf], scale=right.scales[leaf], signed_zeros=signed, by_component=strict
        )
        if right.flushed is not None and right.flushed[leaf].shape == value.shape:
            again = ulp_error(value, right.flushed[leaf], signed_zeros=signed, by_component=strict)
            errors = np.minimum(errors, again)
        verdicts.append(_worst_of(leaf, value, right.leaves[leaf], errors))
    if not verdicts:
        return Verdict(np.zeros(0))
    worst = max(verdicts, key=lambda verdict: verdict.worst)
    every = np.concatenate([verdict.errors for verdict in verdicts])
    return Verdict(every, "", worst.leaf, worst.place, worst.got, worst.wanted)


def _impossible(problem: str) -> Verdict:
    return Verdict(np.array([np.inf]), problem)


def _worst_of(leaf: int, value: Values, wanted: Values, errors: NDArray[np.float64]) -> Verdict:
    if errors.size == 0:
        return Verdict(errors.ravel())
    place = np.unravel_index(int(np.argmax(errors)), errors.shape)
    index = tuple(int(i) for i in place)
    return Verdict(errors.ravel(), "", leaf, index, _number(value[index]), _number(wanted[index]))


def _number(x: object) -> str:
    if isinstance(x, np.generic) and is_floating(x.dtype) and x.dtype.kind == "V":
        return str(float(x))
    return str(x)
