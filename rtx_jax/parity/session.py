"""What a run consists of: the suites of a device, the cells of each operation, and their order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from ..backend import Backend, CpuBackend, CudaBackend, JaxBackend, MetalBackend, RocmBackend, TpuBackend
from ..backend.core import Tensor
from ..checks.parameters import positive, whole
from ..core.devices import DeviceLike, device_name, resolve
from ..errors import InvalidArgument
from ._suggest import closest
from .case import MODES, Mode, Operation
from .face import BackendFace, Face, NamespaceFace, face_of
from .faults import Fault
from .plan import Cell, full_plan, quick_plan
from .results import Outcome, Report
from .runner import run_operation
from .tables import namespace_operations, select
from .tables.backend import backend_operations

__all__ = ["Progress", "Task", "run", "suites", "tasks"]

Progress = Callable[[int, int, str], None]
"""Called with the number of operations done, their number, and the name of the next."""

_BACKENDS: dict[str, type[JaxBackend]] = {
    "cpu": CpuBackend, "cuda": CudaBackend, "rocm": RocmBackend, "tpu": TpuBackend, "metal": MetalBackend
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Task:
    """One operation with the cells to run.

    Attributes
    ----------
    suite
        Which of the suites it belongs to.
    place
        Where it is in that suite's table.
    operation
        The operation.
    cells
        Its dtypes and modes.
    """

    suite: int
    place: int
    operation: Operation
    cells: list[Cell]


def suites(device: DeviceLike | None, backend: Backend[Tensor] | None) -> list[tuple[Face, tuple[Operation, ...]]]:
    """Return the things under test with their tables: the namespace and the backend of a device, or one backend."""
    if backend is not None:
        return [(face_of(backend, device), backend_operations(backend))]
    namespace = NamespaceFace(device)
    own: Backend[Tensor] = _BACKENDS[namespace.platform]()  # type: ignore[assignment]
    placed = BackendFace(own, resolve(device, "parity"))
    return [(namespace, namespace_operations()), (placed, backend_operations(own))]


def tasks(
    found: Sequence[tuple[Face, tuple[Operation, ...]]],
    names: Sequence[str],
    dtypes: Sequence[str],
    modes: Sequence[Mode],
    quick: bool,
) -> list[Task]:
    """Return what to run, in the order of the tables."""
    every = tuple(operation for _, table in found for operation in table)
    wanted = set(select(every, tuple(names)))
    _check("dtype", dtypes, sorted({dtype for operation in every for dtype in operation.dtypes}))
    _check("mode", modes, MODES)
    rows = []
    for suite, (face, table) in enumerate(found):
        can = modes if getattr(face, "is_traceable", True) else [mode for mode in modes if mode == "eager"]
        rows += [(suite, place, operation, can) for place, operation in enumerate(table) if operation in wanted]
    if quick:
        operations = [operation for _, _, operation, _ in rows]
        plans = quick_plan(operations, dtypes, rows[0][3] if rows else modes)
    else:
        plans = [full_plan(operation, dtypes, can) for _, _, operation, can in rows]
    return [Task(*row[:3], cells) for row, cells in zip(rows, plans, strict=True) if cells]


def _check(option: str, given: Sequence[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            near = closest(name, known)
            raise InvalidArgument(
                "parity", option, got=repr(name), wanted=f"one of {', '.join(known)}",
                remedy=f"Did you mean {near}?" if near else "", arg=option, reason=f"no such {option}",
            )  # fmt: skip


def run(
    *,
    device: DeviceLike | None = None,
    backend: Backend[Tensor] | None = None,
    operations: Sequence[str] = (),
    dtypes: Sequence[str] = (),
    modes: Sequence[Mode] = MODES,
    quick: bool = False,
    isolate: bool = False,
    timeout_s: float = 120.0,
    jobs: int = 1,
    faults: Mapping[str, Fault] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Run the table of operations on a device, and compare every result with what is right.

    Parameters
    ----------
    device
        Where: ``"cpu"``, ``"cuda:1"``, ...; None for the default device.
    backend
        Compare this backend alone; None compares the namespace and the backend of the device.
    operations
        Names from the table, such as ``"sin"``, ``"linalg.det"``, ``"backend.softmax"``; all without any.
    dtypes
        Names of dtypes under test; all without any.
    modes
        Some of ``"eager"``, ``"jit"``, ``"vmap"`` and ``"grad"``.
    quick
        Run every operation, but only cells that together cover every pair of dtype, mode and edge.
    isolate
        Run each operation in a process of its own, so that the run goes on where one crashes or hangs.
    timeout_s
        Seconds without a result after which an isolated operation counts as hung.
    jobs
        Processes that share the operations; with more than 1 each operation is isolated.
    faults
        Faults to plant by operation, to check the check: see `rtx_jax.parity.FAULTS`. ``"crash"`` and ``"hang"`` need
        `isolate`.
    progress
        Called before each operation and at the end.

    Returns
    -------
    Report
        An outcome for each operation, dtype and mode.

    Raises
    ------
    InvalidArgument
        There is no such operation, dtype, mode or fault, the time is not above 0, or `jobs` is less than 1.
    BackendUnavailable
        There is no such device.

    Notes
    -----
    float64 and complex128 results of elementwise functions are compared with stored values of more digits, sums with
    ``math.fsum``, everything else with NumPy in float64. The unit is one in the last place of the result's dtype.
    """
    start = time.perf_counter()
    limit = positive("parity", "timeout_s", timeout_s)
    processes = whole("parity", "jobs", jobs, 1)
    isolate = isolate or processes > 1
    faults = dict(faults or {})
    found = suites(device, backend)
    todo = tasks(found, operations, dtypes, modes, quick)
    _check_faults(faults, todo, isolate)
    face = found[0][0]
    if isolate:
        from .isolate import run_isolated

        placed = None if device is None else device_name(resolve(device, "parity"))
        outcomes = tuple(run_isolated(todo, placed, backend, faults, limit, processes, progress))
    else:
        outcomes = tuple(_run_here(found, todo, faults, progress))
    stack = " and ".join(face.name for face, _ in found)
    versions = {name: version(name) for name in ("jax", "jaxlib", "numpy", "ml_dtypes")}
    from .._version import __version__

    return Report(
        face.device, stack, {"rtx_jax": __version__, **versions}, outcomes, time.perf_counter() - start, quick
    )


def _check_faults(faults: Mapping[str, Fault], todo: Sequence[Task], isolate: bool) -> None:
    from .faults import parse

    names = [task.operation.name for task in todo]
    for name, fault in faults.items():
        parse(f"{name}={fault}")
        _check("faults", [name], names)
        if fault in ("crash", "hang") and not isolate:
            raise InvalidArgument(
                "parity", "faults", got=f"{name}={fault} in this process", wanted="isolate=True with it",
                arg="faults", reason="it would end this process",
            )  # fmt: skip


def _run_here(
    found: Sequence[tuple[Face, tuple[Operation, ...]]],
    todo: Sequence[Task],
    faults: Mapping[str, Fault],
    progress: Progress | None,
) -> Iterator[Outcome]:
    for done, task in enumerate(todo):
        if progress:
            progress(done, len(todo), task.operation.name)
        fault = faults.get(task.operation.name)
        yield from run_operation(found[task.suite][0], task.operation, task.cells, fault)
    if progress:
        progress(len(todo), len(todo), "")
