"""Which dtypes, modes and edges an operation runs with: all of them, or a pairwise cover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .case import MODES, Edge, Mode, Operation
from .operands import applies, dtype_named

__all__ = ["Cell", "full_plan", "quick_plan"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One dtype and mode of an operation.

    Attributes
    ----------
    dtype, mode
        What to run.
    edges
        The edges whose cases to run; None for all.
    """

    dtype: str
    mode: Mode
    edges: tuple[Edge, ...] | None = None


def full_plan(operation: Operation, dtypes: Sequence[str] = (), modes: Sequence[Mode] = MODES, /) -> list[Cell]:
    """Return every dtype with every mode that the operation has, of those asked for."""
    return [
        Cell(dtype, mode)
        for dtype in operation.dtypes
        if not dtypes or dtype in dtypes
        for mode in MODES
        if mode in modes and mode in operation.modes and (mode != "grad" or _has_gradient(dtype))
    ]


def _has_gradient(dtype: str) -> bool:
    return dtype in ("float16", "bfloat16", "float32", "float64")


def quick_plan(
    operations: Sequence[Operation], dtypes: Sequence[str] = (), modes: Sequence[Mode] = MODES, /
) -> list[list[Cell]]:
    """Return, for each operation, few cells that together cover every pair.

    Each operation meets each of its dtypes, each of its modes and each of its edges; over all operations, each dtype
    meets each mode and each edge, and each mode each edge, wherever an operation has them. A greedy cover: the next
    cell is the one with the most pairs that no cell before it has.
    """
    covered: set[tuple[str, str]] = set()
    plans = []
    for operation in operations:
        cells = full_plan(operation, dtypes, modes)
        own: set[tuple[str, str]] = set()
        edges_of = {cell: _edges(operation, cell) for cell in cells}
        wanted = {part for cell in cells for part in _parts(cell, edges_of[cell])}
        chosen: list[Cell] = []
        while cells and wanted - own:
            left = wanted - own
            best = max(cells, key=lambda cell: _gain(cell, edges_of[cell], left, covered))
            cells.remove(best)
            fresh = edges_of[best]
            edges = tuple(e for e in fresh if ("edge", e) not in own or _new(best, e, covered)) or fresh[:1]
            chosen.append(Cell(best.dtype, best.mode, edges))
            own |= {("dtype", best.dtype), ("mode", best.mode), *(("edge", e) for e in edges)}
            covered |= {(best.dtype, best.mode), *((best.dtype, e) for e in edges), *((best.mode, e) for e in edges)}
        plans.append(chosen)
    return plans


def _edges(operation: Operation, cell: Cell) -> tuple[Edge, ...]:
    dtype = dtype_named(cell.dtype)
    found = dict.fromkeys(case.edge for case in operation.cases if applies(case, dtype))
    if cell.mode == "grad":
        return tuple(edge for edge in found if edge not in ("nan", "inf", "extreme"))
    return tuple(found)


def _parts(cell: Cell, edges: tuple[Edge, ...]) -> list[tuple[str, str]]:
    return [("dtype", cell.dtype), ("mode", cell.mode), *(("edge", edge) for edge in edges)]


def _new(cell: Cell, edge: Edge, covered: set[tuple[str, str]]) -> bool:
    return (cell.dtype, edge) not in covered or (cell.mode, edge) not in covered


def _gain(
    cell: Cell, edges: tuple[Edge, ...], wanted: set[tuple[str, str]], covered: set[tuple[str, str]]
) -> tuple[int, int]:
    parts = _parts(cell, edges)
    pairs = [(cell.dtype, cell.mode), *((a, e) for e in edges for a in (cell.dtype, cell.mode))]
    return sum(part in wanted for part in parts), sum(pair not in covered for pair in pairs)
