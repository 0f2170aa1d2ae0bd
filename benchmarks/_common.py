"""What the benchmarks share: interleaved timing, ratios, the record of the machine, JSON lines and a plot.

Both sides of a comparison run in one process, loop after loop in turn, so that a machine that slows down slows both.
The ratio is the median over the rounds of (time of ours / time of theirs in the same round).
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import timeit
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: a statement, as a user would write it, and the names that it reads.

    Parameters
    ----------
    statement
        Python source; it is compiled into the timing loop, so that no call is added to it.
    names
        The global names of the statement.
    setup
        Source that runs once before each loop, outside the timed part.
    around
        Makes the context in which each loop runs (entered outside the timed part).
    """

    statement: str
    names: Mapping[str, object]
    setup: str = "pass"
    around: Callable[[], AbstractContextManager[object]] = nullcontext


@dataclass(frozen=True, slots=True)
class Comparison:
    """Median times of both sides in microseconds a call; medians of the ratios and differences of the rounds."""

    ours_us: float
    theirs_us: float
    ratio: float
    difference_us: float
    rounds: int
    calls: int


def compare(ours: Side, theirs: Side, *, rounds: int = 41, round_ms: float = 1.0, warm_up: int = 5) -> Comparison:
    """Time two statements in turn.

    Parameters
    ----------
    ours, theirs
        The two sides.
    rounds
        How many loops each side runs; the order within a round alternates.
    round_ms
        About how long one loop of the slower side lasts, in milliseconds. At least one call is made.
    warm_up
        Calls of each side before the first loop, for compilation and caches.

    Returns
    -------
    Comparison
        Times in microseconds a call.
    """
    timers = [timeit.Timer(side.statement, side.setup, globals=dict(side.names)) for side in (ours, theirs)]
    sides = (ours, theirs)
    for side, timer in zip(sides, timers, strict=True):
        with side.around():
            timer.timeit(warm_up)
    single = 0.0
    for side, timer in zip(sides, timers, strict=True):
        with side.around():
            single = max(single, min(timer.timeit(3) / 3 for _ in range(3)))
    calls = max(1, min(100_000, int(round_ms * 1e-3 / single)))
    times: tuple[list[float], list[float]] = ([], [])
    gc.collect()
    for index in range(rounds):
        for which in (0, 1) if index % 2 == 0 else (1, 0):
            with sides[which].around():
                times[which].append(timers[which].timeit(calls) / calls * 1e6)
    ratio = statistics.median(a / b for a, b in zip(*times, strict=True))
    difference = statistics.median(a - b for a, b in zip(*times, strict=True))
    return Comparison(statistics.median(times[0]), statistics.median(times[1]), ratio, difference, rounds, calls)


def geometric_mean(values: Iterable[float]) -> float:
    """Geometric mean of positive numbers; NaN of none."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def environment() -> dict[str, object]:
    """What a figure depends on: versions, device, processor, commit. Starts the default device."""
    import jax

    device = jax.devices()[0]
    return {
        "record": "environment",
        "python": platform.python_version(),
        "rtx_jax": _version("rtx_jax"),
        "jax": _version("jax"),
        "jaxlib": _version("jaxlib"),
        "numpy": _version("numpy"),
        "platform": device.platform,
        "device": device.device_kind,
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "commit": _git("rev-parse", "HEAD"),
        "changed": bool(_git("status", "--porcelain")),
    }


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "source tree"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _git(*arguments: str) -> str:
    try:
        return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


class Report:
    """Collects records of one benchmark and writes them as JSON lines.

    Parameters
    ----------
    name
        Stem of the files: ``<name>.jsonl`` and ``<name>.png``.
    folder
        Where they go; it is made.
    """

    def __init__(self, name: str, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.data_path = folder / f"{name}.jsonl"
        self.plot_path = folder / f"{name}.png"
        self._records: list[Mapping[str, object]] = [environment()]

    def add(self, case: str, measured: Comparison | None = None, **fields: object) -> None:
        """Keep one record: the name of the case, its comparison and further fields."""
        record: dict[str, object] = {"record": self.name, "case": case, **fields}
        if measured is not None:
            record |= asdict(measured)
        self._records.append(record)

    def save(self) -> None:
        """Write the JSON lines and say where they are."""
        with self.data_path.open("w") as stream:
            for record in self._records:
                stream.write(json.dumps(record) + "\n")
        print(f"written: {self.data_path}")


def verdict(label: str, value: float, limit: float, *, unit: str = "") -> bool:
    """Print a figure beside its goal; True where the goal is met."""
    met = value <= limit
    print(f"{'ok  ' if met else 'MISS'} {label}: {value:.3g}{unit} (goal: at most {limit:g}{unit})")
    return met


def plot_ratios(
    path: Path,
    title: str,
    ratios: Mapping[str, float],
    *,
    groups: Mapping[str, str] | None = None,
    goals: Sequence[tuple[str, float]] = (),
    label: str = "time of rtx_jax / time of jax.numpy",
) -> None:
    """Draw one horizontal bar for each case, sorted, with the goals as lines.

    Parameters
    ----------
    path
        The PNG to write.
    title
        Title of the plot.
    ratios
        Case to ratio.
    groups
        Case to the group that gives the bar its colour.
    goals
        Names and values of the lines.
    label
        Text of the horizontal axis, which is logarithmic.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = sorted(ratios, key=lambda name: ratios[name])
    order = list(dict.fromkeys((groups or {}).values()))
    palette = pyplot.get_cmap("tab20")
    colours = [palette(order.index(groups[name]) % 20) if groups else "tab:blue" for name in names]
    figure, axes = pyplot.subplots(figsize=(9, max(3.0, 1.2 + 0.17 * len(names))), layout="constrained")
    axes.barh(names, [ratios[name] for name in names], color=colours)
    axes.set_xscale("log")
    axes.set_xlabel(label)
    axes.set_title(title)
    axes.tick_params(axis="y", labelsize=7)
    axes.margins(y=0.005)
    axes.axvline(1.0, color="black", linewidth=0.8)
    for (name, value), colour in zip(goals, ("tab:green", "tab:red", "tab:orange", "tab:purple"), strict=False):
        axes.axvline(value, color=colour, linestyle="--", linewidth=0.9, label=f"{name}: {value:g}")
    if groups:
        for index, group in enumerate(order):
            axes.barh([names[0]], [0], color=palette(index % 20), label=group)
    if goals or groups:
        axes.legend(fontsize=7, loc="lower right")
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
    print(f"written: {path}")


def arguments(description: str) -> argparse.ArgumentParser:
    """The parser that all benchmarks share: where the files go and how many rounds are timed."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "results", help="folder of the results")
    parser.add_argument("--rounds", type=int, default=41, help="loops of each side; the median counts")
    return parser


def fresh_process(source: str) -> float:
    """Run Python source in a new interpreter and return the number that it prints last."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    result = subprocess.run([sys.executable, "-c", source], check=True, capture_output=True, text=True, env=environment)
    return float(result.stdout.split()[-1])
