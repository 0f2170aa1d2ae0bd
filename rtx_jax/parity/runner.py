"""Runs the table: every operation in every dtype and mode, or a pairwise cover of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np

from .bounds import bound_for
from .case import Case, Mode, Operation
from .face import Face
from .faults import Fault
from .gradients import Slopes, compare_gradients, differentiable
from .judge import Verdict, compare
from .modes import Ran, calls_of, run_mode
from .operands import applies, dtype_named
from .plan import Cell
from .results import Failure, Outcome, histogram
from .snippet import program, smallest
from .ulp import Values

__all__ = ["run_cell", "run_operation"]

_MOST_NUMBERS = 64


def run_operation(
    face: Face, operation: Operation, cells: Sequence[Cell], fault: Fault | None = None
) -> Iterator[Outcome]:
    """Run an operation in each of the cells, and yield an outcome for each."""
    for cell in cells:
        yield run_cell(face, operation, cell, fault)


def run_cell(face: Face, operation: Operation, cell: Cell, fault: Fault | None = None) -> Outcome:
    """Run an operation in one dtype and mode."""
    start = time.perf_counter()
    dtype = dtype_named(cell.dtype)
    bound = bound_for(operation.name, dtype, cell.mode)
    if not face.supports(dtype):
        return Outcome(operation.name, cell.dtype, cell.mode, "unsupported", limit=bound.limit)
    cases = _cases(operation, dtype, cell)
    ran = run_mode(face, operation, cell.mode, calls_of(operation, dtype, cases), dtype, fault)
    errors, failure, raised = [], None, False
    for one in ran:
        if one.error is not None or one.right is None:
            raised = True
            text = f"raised {type(one.error).__name__}: {str(one.error).splitlines()[0] if str(one.error) else ''}"
            failure = failure or _failure(operation, cell.mode, one, one.call.operands, text, "a result")
            continue
        if isinstance(one.right, Slopes):
            active = [one.call.operands[i] for i in differentiable(one.call.case, one.call.operands, dtype)]
            verdict = compare_gradients(dtype, active, one.leaves, one.right)
        else:
            verdict = compare(operation, dtype, one.leaves, one.right, same_dtype=face.same_dtype)
        errors.append(verdict.errors)
        if verdict.worst > bound.limit and failure is None:
            failure = _wrong(face, operation, cell.mode, one, verdict, dtype, bound.limit, fault)
    every = np.concatenate([np.zeros(0), *errors])
    status = "error" if raised else "failed" if failure else "passed"
    return Outcome(
        operation.name,
        cell.dtype,
        cell.mode,
        status,
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


def _cases(operation: Operation, dtype: np.dtype, cell: Cell) -> list[Case]:
    return [
        case for case in operation.cases if applies(case, dtype) and (cell.edges is None or case.edge in cell.edges)
    ]


def _wrong(
    face: Face,
    operation: Operation,
    mode: Mode,
    ran: Ran,
    verdict: Verdict,
    dtype: np.dtype,
    limit: float,
    fault: Fault | None,
) -> Failure:
    if verdict.problem:
        return _failure(operation, mode, ran, ran.call.operands, f"got {verdict.problem}", "")
    where = f" of result {verdict.leaf}" if len(ran.leaves) > 1 else ""
    at = f" at {verdict.place}{where}" if verdict.place or where else ""
    distance = f"{verdict.worst:.3g} ULP away, the bound is {limit:g}"
    what = f"got {verdict.got}, wanted {verdict.wanted}{at}: {distance}"
    operands = ran.call.operands
    if operation.elementwise and mode != "grad":
        operands = smallest(operands, verdict.place, ran.leaves[0].shape)
    return _failure(operation, mode, ran, operands, what, f"{verdict.got}|{verdict.wanted}")


def _failure(operation: Operation, mode: Mode, ran: Ran, operands: Sequence[Values], what: str, pair: str) -> Failure:
    got, _, wanted = pair.partition("|")
    code = program(operation, operands, ran.call.params, mode, got or what, wanted or "the reference's")
    return Failure(ran.call.case.edge, what, code)
