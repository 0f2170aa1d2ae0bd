"""Runs the table: every operation in every dtype and mode, or a pairwise cover of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np

from .bounds import Bound, bound_for
from .case import Case, Mode, Operation
from .face import Face
from .faults import Fault
from .gradients import Slopes, compare_gradients, differentiable
from .judge import Verdict, compare
from .modes import Call, Ran, calls_of, run_mode
from .operands import applies, dtype_named
from .plan import Cell
from .results import Failure, Outcome, histogram
from .snippet import program, smallest

__all__ = ["run_calls", "run_cell", "run_operation"]


def run_operation(
    face: Face, operation: Operation, cells: Sequence[Cell], fault: Fault | None = None
) -> Iterator[Outcome]:
    """Run an operation in each of the cells, and yield an outcome for each."""
    for cell in cells:
        yield run_cell(face, operation, cell, fault)


def run_cell(face: Face, operation: Operation, cell: Cell, fault: Fault | None = None) -> Outcome:
    """Run an operation in one dtype and mode."""
    dtype = dtype_named(cell.dtype)
    bound = bound_for(operation.name, dtype, cell.mode)
    if not face.supports(dtype):
        return Outcome(operation.name, cell.dtype, cell.mode, "unsupported", limit=bound.limit)
    return run_calls(
        face, operation, cell.mode, calls_of(operation, dtype, _cases(operation, dtype, cell)), dtype, bound, fault
    )


def run_calls(
    face: Face,
    operation: Operation,
    mode: Mode,
    calls: list[Call],
    dtype: np.dtype,
    bound: Bound,
    fault: Fault | None = None,
) -> Outcome:
    """Run calls in one mode and compare what they give."""
    start = time.perf_counter()
    ran = run_mode(face, operation, mode, calls, dtype, fault)
    errors, failure, raised = [], None, False
    for one in ran:
        if one.error is not None or one.right is None:
            raised = True
            failure = failure or _raised(operation, mode, one)
            continue
        verdict = _verdict(face, operation, one, dtype)
        errors.append(verdict.errors)
        if verdict.worst > bound.limit and failure is None:
            failure = _wrong(operation, mode, one, verdict, bound.limit)
    every = np.concatenate([np.zeros(0), *errors])
    return Outcome(
        operation.name,
        dtype.name,
        mode,
        "error" if raised else "failed" if failure else "passed",
        len(ran),
        int(every.size),
        float(every.max()) if every.size else 0.0,
        float(np.median(every)) if every.size else 0.0,
        bound.limit,
        bound.measured,
        histogram(every),
        tuple(dict.fromkeys(one.call.case.edge for one in ran)),
        time.perf_counter() - start,
        failure,
    )


def _verdict(face: Face, operation: Operation, ran: Ran, dtype: np.dtype) -> Verdict:
    if isinstance(ran.right, Slopes):
        active = [ran.call.operands[i] for i in differentiable(ran.call.case, ran.call.operands, dtype)]
        return compare_gradients(dtype, active, ran.leaves, ran.right)
    assert ran.right is not None
    return compare(operation, dtype, ran.leaves, ran.right, same_dtype=face.same_dtype)


def _cases(operation: Operation, dtype: np.dtype, cell: Cell) -> list[Case]:
    return [
        case for case in operation.cases if applies(case, dtype) and (cell.edges is None or case.edge in cell.edges)
    ]


def _raised(operation: Operation, mode: Mode, ran: Ran) -> Failure:
    lines = str(ran.error).splitlines() or [""]
    what = f"raised {type(ran.error).__name__}: {lines[0]}"
    return Failure(ran.call.case.edge, what, program(operation, ran.call.operands, ran.call.params, mode, what))


def _wrong(operation: Operation, mode: Mode, ran: Ran, verdict: Verdict, limit: float) -> Failure:
    operands = ran.call.operands
    if verdict.problem:
        what = f"got {verdict.problem}"
    else:
        leaf = f" of result {verdict.leaf}" if len(ran.leaves) > 1 else ""
        at = f" at {verdict.place}{leaf}" if verdict.place or leaf else ""
        distance = f"{verdict.worst:.3g} ULP away, the bound is {limit:g}"
        what = f"got {verdict.got}, wanted {verdict.wanted}{at}: {distance}"
        if operation.elementwise and mode != "grad":
            operands = smallest(operands, verdict.place, ran.leaves[verdict.leaf].shape)
    return Failure(ran.call.case.edge, what, program(operation, operands, ran.call.params, mode, what))
