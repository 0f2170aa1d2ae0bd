"""What does it cost to read and write parts of an array? Against the same key on jax.numpy, whose writes copy.

    python benchmarks/indexing.py [--rounds 41] [--output benchmarks/results]

Arrays of 8 elements and of 10 million, loops over growing slices, and the peak memory of writes to a large array.
Writes ``indexing.jsonl`` and ``indexing.png``.
"""

from __future__ import annotations

import statistics
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from _common import Comparison, Report, Side, arguments, compare, fresh_process, plot_ratios, verdict

import rtx_jax

LARGE = 10_000_000
LENGTHS = 500
GROWING_MS = 3.0
LARGE_TO_SMALL = 2.0


@dataclass(frozen=True, slots=True)
class Case:
    """A statement of ours, that of jax.numpy, and the goal of the ratio where there is one."""

    name: str
    ours: str
    theirs: str
    goal: float | None = None


CASES = (
    Case("x[i]", "x[3]", "x[3]", 0.35),
    Case("x[i:j]", "x[2:5]", "x[2:5]", 0.5),
    Case("x[i] = v", "x[3] = 1.5", "x.at[3].set(1.5)", 0.08),
    Case("x[i] = y", "x[3] = y", "x.at[3].set(y)", 0.08),
    Case("x[i:j] = v", "x[2:5] = 1.5", "x.at[2:5].set(1.5)"),
    Case("x[::-2]", "x[::-2]", "x[::-2]"),
    Case("x[None, i:j]", "x[None, 2:5]", "x[None, 2:5]"),
    Case("x[idx]", "x[idx]", "x[idx]"),
    Case("x[idx] = v", "x[idx] = 1.5", "x.at[idx].set(1.5)"),
    Case("x[mask]", "x[mask]", "x[mask]"),
    Case("x[mask] = v", "x[mask] = 1.5", "x.at[mask].set(1.5)"),
    Case("x[mask] = w", "x[mask] = w", "x.at[mask].set(w)"),
)


def names_of(namespace: object, dtype: str, size: int) -> dict[str, object]:
    """The arrays that the statements read, of one namespace."""
    host = {
        "x": np.arange(size, dtype=dtype),
        "y": np.asarray(2.5, dtype),
        "w": np.arange(4, dtype=dtype),
        "idx": np.array([5, 1, 3], "int32"),
        "mask": np.arange(size) % (size // 4) == 0,
    }
    with jax.enable_x64(True):
        return {name: namespace.asarray(value) for name, value in host.items()}


def around(dtype: str) -> AbstractContextManager[object]:
    """JAX's default settings for 32-bit types; 64-bit ones need x64 on the side of jax.numpy."""
    return jax.enable_x64(True) if dtype.endswith("64") else nullcontext()


def measure(case: Case, dtype: str, size: int, rounds: int) -> Comparison:
    """Time one case on both namespaces, after enough calls that what recurs is compiled."""
    ours = Side(case.ours, names_of(rtx_jax, dtype, size))
    theirs = Side(case.theirs, names_of(jnp, dtype, size), around=lambda: around(dtype))
    return compare(ours, theirs, rounds=rounds, warm_up=40)


def growing_ms(dtype: str, *, write: bool) -> float:
    """Milliseconds for each length of a loop over ``x[:n]`` for 500 lengths; median of five loops."""
    x = rtx_jax.asarray(np.arange(10_000, dtype=dtype))
    times = []
    for _ in range(5):
        start = time.perf_counter()
        for n in range(1, LENGTHS + 1):
            if write:
                x[:n] = n
            else:
                x[:n]
        x.block_until_ready()
        times.append((time.perf_counter() - start) * 1e3 / LENGTHS)
    return statistics.median(times)


_PEAK = """
import resource, sys
import numpy as np
import rtx_jax as xp
x = xp.zeros({size}, dtype=xp.float32) + 1
x[0] = 1.5
x.block_until_ready()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for i in range(200):
    x[i] = 1.5
    x[i : i + 10] = 2.5
x.block_until_ready()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def view_keeps_values() -> bool:
    """Tell whether a NumPy view that was taken before a write keeps its values."""
    x = rtx_jax.zeros(LARGE, dtype=rtx_jax.float32) + 1
    x[0] = 2.0
    view = np.asarray(x)
    x[0] = 3.0
    return bool(view[0] == 2.0 and float(x[0]) == 3.0)


def main() -> int:
    """Run, print, write; the exit status is 1 where a goal is missed."""
    options = arguments(__doc__.splitlines()[0]).parse_args()
    report = Report("indexing", options.output)
    met: list[bool] = []
    ratios: dict[str, float] = {}
    groups: dict[str, str] = {}
    for dtype in ("float32", "float64"):
        for case in CASES:
            result = measure(case, dtype, 8, options.rounds)
            name = f"{case.name}, {dtype}"
            ratios[name], groups[name] = result.ratio, dtype
            report.add(name, result, goal=case.goal)
            print(f"  {result.ratio:6.3f}  {result.ours_us:8.2f} us against {result.theirs_us:9.2f} us  {name}")
            if case.goal is not None:
                met.append(verdict(name, result.ratio, case.goal))
    for case in CASES[:4]:
        small = Side(case.ours, names_of(rtx_jax, "float32", 8))
        large = Side(case.ours, names_of(rtx_jax, "float32", LARGE))
        result = compare(large, small, rounds=options.rounds, warm_up=40)
        report.add(f"{case.name}, 10M elements against 8", result, goal=LARGE_TO_SMALL)
        met.append(verdict(f"{case.name}, 10M elements against 8", result.ratio, LARGE_TO_SMALL))
    for dtype in ("float32", "float64"):
        for write in (False, True):
            name = f"x[:n]{' = n' if write else ''} for {LENGTHS} lengths, {dtype}"
            value = growing_ms(dtype, write=write)
            report.add(name, ms_per_length=value, goal=GROWING_MS)
            met.append(verdict(name, value, GROWING_MS, unit=" ms"))
    grown_mb = fresh_process(_PEAK.format(size=LARGE)) / 1024
    report.add("growth of peak memory over 400 writes to 40 MB", mb=grown_mb)
    met.append(verdict("growth of peak memory over 400 writes to 40 MB", grown_mb, 20.0, unit=" MB"))
    kept = view_keeps_values()
    report.add("a NumPy view keeps its values", kept=kept)
    met.append(verdict("NumPy views that change", float(not kept), 0.0))
    report.save()
    plot_ratios(
        report.plot_path, "Reading and writing parts of 8 elements", ratios, groups=groups, goals=[("x[i] = v", 0.08)]
    )
    return 0 if all(met) else 1


if __name__ == "__main__":
    raise SystemExit(main())
