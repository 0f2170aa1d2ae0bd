"""rtx-jax bench: how fast is it here, and against what else could be called?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..bench import Measurement, Report, Request, draw, run
from ..bench.contender import require
from ..errors import InvalidArgument
from .figures import print_figures

__all__ = ["bench"]


def bench(
    request: Request, *, json_file: Path | None, plot_file: Path | None, console: Console | None = None
) -> Report:
    """Measure, print the table and write the files.

    Parameters
    ----------
    request
        What to measure.
    json_file, plot_file
        Where to write the report and the plot.

    Raises
    ------
    InvalidArgument
        An option is wrong, or a file cannot be written. Nothing has been measured then.
    BackendUnavailable
        There is no such device.
    FeatureRequired
        A plot is asked for, and matplotlib is not installed.
    """
    console = console or Console()
    for option, path in (("--json", json_file), ("--plot", plot_file)):
        if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
            raise InvalidArgument(
                "rtx-jax bench", option, got=path, wanted="a file in a folder that exists", arg=option,
                reason="no such folder",
            )  # fmt: skip
    if plot_file is not None:
        _check_plot(plot_file)
    columns = (SpinnerColumn(), TextColumn("{task.description:<40}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        report = run(request, progress=lambda text: bar.update(task, description=text))
    _show(console, report)
    if json_file is not None:
        json_file.write_text(json.dumps(report.as_dict(), indent=1), encoding="utf-8")
        console.print(f"Report: [bold]{escape(str(json_file))}[/bold]")
    if plot_file is not None:
        plot_file.write_bytes(draw(report))
        console.print(f"Plot: [bold]{escape(str(plot_file))}[/bold]")
    return report


def _check_plot(path: Path) -> None:
    require("matplotlib")
    if path.suffix.lower() != ".png":
        raise InvalidArgument(
            "rtx-jax bench",
            "--plot",
            got=path,
            wanted="a file that ends in .png",
            arg="--plot",
            reason="another format",
        )


def _show(console: Console, report: Report) -> None:
    where = report.environment["device"]
    processor = f", {report.environment['processor']}" if report.environment["platform"] == "cpu" else ""
    console.print(f"[bold]{escape(report.operation)} on {escape(f'{where}{processor}')}[/bold]")
    versions = [
        f"{name} {report.environment[name]}" for name in ("jax", "torch", "tokamax") if name in report.environment
    ]
    asked = [f"{name} {value}" for name, value in report.settings.items()]
    console.print(escape(", ".join([*versions, *asked])), highlight=False)
    print_figures(console, _table(report))
    absent: dict[str, list[str]] = {}
    for item in report.measurements:
        if item.best_ms is None:
            absent.setdefault(f"{item.contender}: {item.note}", []).append(f"{item.variant} {item.direction}")
    for text, where_absent in absent.items():
        console.print(f"[dim]did not run: {escape(text)} ({', '.join(dict.fromkeys(where_absent))})[/dim]")


def _table(report: Report) -> Table:
    yardstick = "of product" if report.bound == "arithmetic" else "of copy"
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=0)
    for heading in ("Problem", "Length", "Who", "ms", "ours is", "TFLOP/s", "GB/s", yardstick, "temp MiB", "error"):
        table.add_column(heading, justify="left" if heading in ("Problem", "Who") else "right")
    last: tuple[str, int] | None = None
    for item in report.measurements:
        if item.best_ms is None:
            continue
        problem = (f"{item.variant} {item.direction}", item.length)
        head = (problem[0], f"{item.length:,}") if problem != last else ("", "")
        if last is not None and problem != last:
            table.add_section()
        style = "bold" if item.contender.startswith("rtx_jax") else "dim" if item.note else ""
        table.add_row(*head, *_cells(item), style=style)
        last = problem
    return table


def _cells(item: Measurement) -> Sequence[str]:
    return (
        item.contender,
        f"{item.best_ms:,.3f}",
        "" if item.slower is None or item.contender == "rtx_jax" else f"{item.slower:.2f}x",
        *(
            "" if rate is None else f"{rate:,.3f}" if rate < 10 else f"{rate:,.1f}"
            for rate in (item.tflops, item.gbytes)
        ),
        "" if item.share is None or item.note else f"{item.share:.0%}",
        "" if item.temp_bytes is None else f"{item.temp_bytes / 2**20:,.1f}",
        "" if item.error is None else f"{item.error:.1e}",
    )
