"""The plot of a report: rate, and temporary memory, against length."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .contender import OURS
from .results import Measurement, Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw"]

_INK, _MUTED, _GRID = "#22262b", "#6b7280", "#e5e7eb"
_COLOURS = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#be185d", "#65a30d")


def draw(report: Report, /) -> bytes:
    """Draw one column for each variant and direction: above the rate, below the temporary memory.

    Returns
    -------
    bytes
        A PNG.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = list(dict.fromkeys((item.variant, item.direction) for item in report.measurements))
    names = list(dict.fromkeys(item.contender for item in report.measurements if item.note != "yardstick"))
    figure = Figure(figsize=(max(4.2 * len(columns), 6.0), 7.0), dpi=120, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    device = report.environment.get("processor") or report.environment.get("device")
    where = report.environment.get("device") if report.environment.get("platform") != "cpu" else device
    figure.suptitle(f"{report.operation} on {where}", x=0.01, ha="left", fontsize=13, color=_INK, weight="bold")
    grid = figure.subplots(2, max(len(columns), 1), squeeze=False, sharex="col")
    arithmetic = report.bound == "arithmetic"
    for number, (variant, direction) in enumerate(columns):
        chosen = [item for item in report.measurements if (item.variant, item.direction) == (variant, direction)]
        above, below = grid[0, number], grid[1, number]
        _lines(above, chosen, names, lambda item: item.tflops if arithmetic else item.gbytes)
        _yardstick(above, chosen, arithmetic)
        _lines(below, chosen, names, lambda item: None if item.temp_bytes is None else item.temp_bytes / 2**20)
        above.set_title(f"{variant}, {direction}", loc="left", fontsize=10, color=_INK, weight="bold")
        above.set_ylabel("TFLOP/s" if arithmetic else "GB/s", fontsize=9, color=_MUTED)
        above.set_ylim(bottom=0)
        below.set_ylabel("temporary memory, MiB", fontsize=9, color=_MUTED)
        below.set_yscale("symlog", linthresh=1, base=4)
        below.yaxis.set_major_formatter(lambda value, place: f"{value:,g}")
        below.set_xlabel("length", fontsize=9, color=_MUTED)
        _finish(above, below, sorted({item.length for item in chosen}))
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _lines(
    axes: Axes, items: Sequence[Measurement], names: Sequence[str], height: Callable[[Measurement], float | None]
) -> None:
    for number, name in enumerate(names):
        points = [(item.length, y) for item in items if item.contender == name and (y := height(item)) is not None]
        if points:
            axes.plot(
                *zip(*sorted(points), strict=True),
                marker="o",
                markersize=4,
                linewidth=2.2 if name == OURS else 1.4,
                color=_COLOURS[number % len(_COLOURS)],
                label=name,
            )


def _yardstick(axes: Axes, items: Sequence[Measurement], arithmetic: bool) -> None:
    points = [(item.length, item.tflops if arithmetic else item.gbytes) for item in items if item.note == "yardstick"]
    if points:
        label = "matrix product" if arithmetic else "copy"
        axes.plot(*zip(*sorted(points), strict=True), linestyle="--", linewidth=1.0, color=_MUTED, label=label)


def _finish(above: Axes, below: Axes, lengths: Sequence[int]) -> None:
    for axes in (above, below):
        axes.set_xscale("log", base=2)
        axes.set_xticks(lengths, [f"{length:,}" for length in lengths], fontsize=8)
        axes.minorticks_off()
        axes.grid(color=_GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.tick_params(colors=_MUTED, labelsize=8, length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
    above.legend(fontsize=8, frameon=False)
