"""Runs the cases of one operation in one dtype: one by one, in one compiled program, mapped, and differentiated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .case import TESTED, Case, Mode, Operation, Params
from .face import Face, Trees
from .faults import Fault, spoil, strike
from .gradients import Slopes, differentiable, slopes, weights_for
from .judge import Reference, flatten, references
from .operands import make
from .ulp import Values, is_floating

__all__ = ["Call", "Ran", "calls_of", "run_mode"]

# Edges at which a gradient is taken: away from kinks and from numbers that have none.
_SMOOTH = ("normal", "0-d", "size 1", "empty")
ROWS = 2
"""Rows of a mapped call: the case itself, and its operands the other way round."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call with everything materialised.

    Attributes
    ----------
    case
        What it comes from.
    operands
        On the host, in the dtype under test.
    params
        With the dtype under test in place of its mark.
    """

    case: Case
    operands: list[Values]
    params: Params


@dataclass(frozen=True, slots=True)
class Ran:
    """What a call gave: the leaves on the host with what is right, or the error that it raised."""

    call: Call
    leaves: list[Values]
    right: Reference | Slopes | None
    error: Exception | None = None


def calls_of(operation: Operation, dtype: np.dtype, cases: Sequence[Case], /) -> list[Call]:
    """Return the calls of these cases."""
    return [Call(case, make(case, dtype, operation.name), _with_dtype(case.params, dtype)) for case in cases]


def _with_dtype(params: Params, dtype: np.dtype) -> Params:
    return {name: dtype if value is TESTED else value for name, value in params.items()}


def run_mode(
    face: Face, operation: Operation, mode: Mode, calls: list[Call], dtype: np.dtype, fault: Fault | None = None
) -> list[Ran]:
    """Run calls in a mode; a call that raises is found and reported by itself."""
    if mode == "eager":
        return [_alone(face, operation, mode, call, dtype, fault) for call in calls]
    if mode == "grad":
        calls = [call for call in calls if _is_smooth(call, dtype)]
    if not calls:
        return []
    try:
        return _RUNNERS[mode](face, operation, calls, dtype, fault)
    except Exception as error:
        if len(calls) == 1:
            return [Ran(calls[0], [], None, error)]
        return [_alone(face, operation, mode, call, dtype, fault) for call in calls]


def _alone(face: Face, operation: Operation, mode: Mode, call: Call, dtype: np.dtype, fault: Fault | None) -> Ran:
    try:
        return _RUNNERS[mode](face, operation, [call], dtype, fault)[0]
    except Exception as error:
        return Ran(call, [], None, error)


def _is_smooth(call: Call, dtype: np.dtype) -> bool:
    packed = any(operand.values in ("points", "left", "right") for operand in call.case.operands)
    return call.case.edge in _SMOOTH and not packed and bool(differentiable(call.case, call.operands, dtype))


def _read(face: Face, leaves: Sequence[object], fault: Fault | None) -> list[Values]:
    return spoil([face.get(leaf) for leaf in leaves], fault)


def _eager(face: Face, operation: Operation, calls: list[Call], dtype: np.dtype, fault: Fault | None) -> list[Ran]:
    strike(fault)
    found = []
    for call in calls:
        out = operation.call(*(face.put(x) for x in call.operands), **call.params)
        leaves = _read(face, flatten(out), fault)
        found.append(Ran(call, leaves, references(operation, call.operands, call.params)))
    return found


def _jit(face: Face, operation: Operation, calls: list[Call], dtype: np.dtype, fault: Fault | None) -> list[Ran]:
    strike(fault)

    def program(trees: Trees) -> Trees:
        return [flatten(operation.call(*x, **call.params)) for x, call in zip(trees, calls, strict=True)]

    results = face.jit(program)([[face.put(x) for x in call.operands] for call in calls])
    return [
        Ran(call, _read(face, leaves, fault), references(operation, call.operands, call.params))
        for call, leaves in zip(calls, results, strict=True)
    ]


def _vmap(face: Face, operation: Operation, calls: list[Call], dtype: np.dtype, fault: Fault | None) -> list[Ran]:
    strike(fault)
    calls = [call for call in calls if call.operands]
    rows = [[call, _reversed(call)] for call in calls]

    def one(params: Params) -> Callable[..., list[object]]:
        return lambda *x: flatten(operation.call(*x, **params))

    def program(trees: Trees) -> Trees:
        return [face.vmap(one(call.params), x) for x, call in zip(trees, calls, strict=True)]

    stacked = [[face.put(np.stack(pair)) for pair in zip(*(row.operands for row in two), strict=True)] for two in rows]
    results = face.jit(program)(stacked)
    found = []
    for two, leaves in zip(rows, results, strict=True):
        read = [face.get(leaf) for leaf in leaves]
        for place, call in enumerate(two):
            row = spoil([leaf[place] for leaf in read], fault)
            found.append(Ran(call, row, references(operation, call.operands, call.params)))
    return found


def _reversed(call: Call) -> Call:
    """The same call with other values where their order is free."""
    operands = [
        x[::-1].copy() if x.ndim and operand.values in ("normal", "positive", "unit") else x
        for x, operand in zip(call.operands, call.case.operands, strict=True)
    ]
    return Call(call.case, operands, call.params)


def _grad(face: Face, operation: Operation, calls: list[Call], dtype: np.dtype, fault: Fault | None) -> list[Ran]:
    strike(fault)
    active = [differentiable(call.case, call.operands, dtype) for call in calls]

    def loss(trees: Trees) -> object:
        total: object = 0
        for x, call, places in zip(trees, calls, active, strict=True):
            operands: list[object] = [face.put(value) for value in call.operands]
            for place, value in zip(places, x, strict=True):
                operands[place] = value
            for number, leaf in enumerate(flatten(operation.call(*operands, **call.params))):
                if is_floating(np.dtype(leaf.dtype)):  # type: ignore[attr-defined]
                    weights = weights_for(leaf.shape, number)  # type: ignore[attr-defined]
                    total = total + face.weighted(leaf, face.put(weights.astype(leaf.dtype)))  # type: ignore
        return total

    results = face.grad(loss)(
        [[face.put(call.operands[place]) for place in places] for call, places in zip(calls, active, strict=True)]
    )
    return [
        Ran(call, _read(face, leaves, fault), slopes(operation, call.operands, call.params, places))
        for call, leaves, places in zip(calls, results, active, strict=True)
    ]


_RUNNERS: dict[Mode, Callable[[Face, Operation, list[Call], np.dtype, Fault | None], list[Ran]]] = {
    "eager": _eager,
    "jit": _jit,
    "vmap": _vmap,
    "grad": _grad,
}
