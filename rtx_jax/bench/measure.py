"""Measure contenders on problems, and record where."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Sequence
from importlib import metadata
from pathlib import Path

import jax
import numpy as np

from .._compat import is_x64, x64
from ..core.devices import default_device, resolve
from .contender import OURS, Contender, Problem, Ready, compiled
from .results import Measurement, Report
from .timing import Times, alternate, ratio

__all__ = ["device_of", "environment", "measure", "measure_all"]

_PACKAGES = ("jax", "jaxlib", "numpy", "torch", "tokamax", "libtpu", "jax-cuda12-plugin", "jax-cuda13-plugin")


def measure_all(
    operation: str,
    bound: str,
    problems: Iterable[Problem],
    contenders: Sequence[Contender],
    device: jax.Device,
    *,
    rounds: int = 7,
    settings: dict[str, object],
    progress: Callable[[str], None] = lambda text: None,
) -> Report:
    """Measure every contender on every problem.

    Parameters
    ----------
    operation, bound, settings
        As in `Report`.
    problems, contenders
        What to compute, and who.
    device
        Where.
    rounds
        Loops of each contender.
    progress
        Told what comes next.
    """
    measurements: list[Measurement] = []
    # Full float32 products for the peers too; ours ask for them themselves.
    wide = x64(settings.get("dtype") == "float64" or is_x64())
    with jax.default_device(device), jax.default_matmul_precision("highest"), wide:
        for problem in problems:
            progress(f"{problem.variant} {problem.direction} {problem.length}")
            measurements += measure(problem, contenders, device, bound=bound, rounds=rounds)
    return Report(operation, bound, environment(device), settings, measurements)


def measure(
    problem: Problem, contenders: Sequence[Contender], device: jax.Device, /, *, bound: str, rounds: int
) -> list[Measurement]:
    """Measure the contenders on one problem, in turn with the yardstick."""
    ready: dict[str, Ready] = {}
    notes: dict[str, str] = {}
    for contender in contenders:
        # A peer may fail in any way, which is a result of the benchmark. Ours may not.
        try:
            ready[contender.name] = contender.prepare(problem, device)
            ready[contender.name].call()
        except Exception as error:
            if contender.name.startswith(OURS):
                raise
            ready.pop(contender.name, None)
            notes[contender.name] = _reason(error)
    yardstick, work = _yardstick(problem, bound, device)
    times = alternate({**{name: each.call for name, each in ready.items()}, "": yardstick.call}, rounds=rounds)
    rate = work / times[""].best
    measurements = [
        _measurement(problem, contender.name, ready, times, bound, rate)
        if contender.name in ready
        else _blank(problem, contender.name, notes[contender.name])
        for contender in contenders
    ]
    name = "matrix product" if bound == "arithmetic" else "copy"
    last = Measurement(
        problem.operation, problem.variant, problem.direction, problem.length, name, times[""].best * 1e3,
        times[""].median * 1e3, work if bound == "arithmetic" else 0.0, work if bound == "memory" else 0.0, 1.0,
        note="yardstick",
    )  # fmt: skip
    return [*measurements, last]


def _measurement(
    problem: Problem, name: str, ready: dict[str, Ready], times: dict[str, Times], bound: str, rate: float
) -> Measurement:
    took = times[name]
    work = problem.flops if bound == "arithmetic" else problem.moved_bytes
    return Measurement(
        problem.operation,
        problem.variant,
        problem.direction,
        problem.length,
        name,
        took.best * 1e3,
        took.median * 1e3,
        problem.flops,
        problem.moved_bytes,
        work / took.best / rate,
        ratio(took, times[OURS]) if OURS in times else None,
        ready[name].temp_bytes,
        problem.error(ready[name].results()),
    )


def _blank(problem: Problem, name: str, note: str) -> Measurement:
    return Measurement(problem.operation, problem.variant, problem.direction, problem.length, name, note=note)


def _reason(error: Exception) -> str:
    """The first sentence of an error, short enough for a table."""
    text = (str(error) or type(error).__name__).strip().splitlines()[0]
    return text if len(text) <= 120 else f"{text[:117]}..."


def _yardstick(problem: Problem, bound: str, device: jax.Device) -> tuple[Ready, float]:
    """A product of square matrices, or a pass over as many bytes; and its work: FLOP, or bytes read and written."""
    dtype = next(iter(problem.operands.values())).dtype
    on_cpu = device.platform == "cpu"
    if bound == "arithmetic":
        # No larger than the problem where that would take long, and large enough to reach the rate of the device.
        side = min(max(round((problem.flops / 2) ** (1 / 3) / 256) * 256, 512), 2048) if on_cpu else 8192
        square = np.full((side, side), 0.5, dtype)
        return compiled(lambda left, right: left @ right, (square, square), device), 2.0 * side**3
    array = np.ones(max(int(problem.moved_bytes / 2 / dtype.itemsize), 1), dtype)
    # A program that only copies is one memcpy on a CPU; one that negates is split among the cores.
    return compiled(lambda x: -x, (array,), device), 2.0 * array.nbytes


def device_of(name: str | None, operation: str, /) -> jax.Device:
    """Return the device of that name, JAX's default without one.

    Raises
    ------
    BackendUnavailable, InvalidArgument
        There is no such device, or no such name.
    """
    placement = default_device() if name is None else resolve(name, operation)
    assert isinstance(placement, jax.Device)  # a name is never a sharding
    return placement


def environment(device: jax.Device, /) -> dict[str, object]:
    """Return what figures depend on: device, processor, versions, commit."""
    return {
        "device": device.device_kind,
        "platform": device.platform,
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "rtx_jax": _version("rtx-jax"),
        **{name: version for name in _PACKAGES if (version := _version(name))},
        "commit": _commit(),
    }


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _commit() -> str:
    """The commit of a checkout; empty for an installed package."""
    folder = Path(__file__).resolve().parent.parent.parent
    if not (folder / ".git").exists():
        return ""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
