"""rtx-jax parity: does this device compute right?"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import jax
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from .._cache import enable_compilation_cache
from ..backend.select import backend_of
from ..core.devices import resolve
from ..errors import InvalidArgument
from ..parity import Outcome, Report, Summary, run, write_html
from ..parity.faults import parse
from ..parity.ulp import is_inexact_name

__all__ = ["parity"]

_MOST_FAILURES = 20
# A worker takes about a gigabyte.
_MOST_JOBS = 8
_STYLES = {"passed": "green", "unsupported": "dim"}


def parity(
    *,
    device: str | None,
    backend: str | None,
    operations: Sequence[str],
    dtypes: Sequence[str],
    quick: bool,
    isolate: bool,
    timeout_s: float,
    jobs: int | None,
    faults: Sequence[str],
    json_file: Path | None,
    html_file: Path | None,
    console: Console | None = None,
) -> bool:
    """Run the table of operations, print the report and write its files.

    Parameters
    ----------
    device
        Where; the default device without it.
    backend
        Name of the backend or stack that is judged alone; None judges the namespace and the device's backend.
    operations, dtypes
        Names to run; all without any.
    quick, isolate, timeout_s
        As in `rtx_jax.parity.run`.
    jobs
        Processes that share the operations. None takes one for each core where the device is the CPU and many
        operations run, and otherwise 1: several processes do not share an accelerator's memory well.
    faults
        Faults to plant, each ``NAME=FAULT``.
    json_file, html_file
        Where to write the report too.

    Returns
    -------
    bool
        Whether every bound is kept.

    Raises
    ------
    InvalidArgument
        An option is wrong, or a file cannot be written. Nothing has been computed then.
    BackendUnavailable
        There is no such device.
    """
    console = console or Console()
    for option, path in (("--json", json_file), ("--html", html_file)):
        if path is not None and not path.absolute().parent.is_dir():
            raise InvalidArgument(
                "rtx-jax parity", option, got=path, wanted="a file in a folder that exists", arg=option,
                reason="no such folder",
            )  # fmt: skip
    planted = dict(parse(text) for text in faults)
    enable_compilation_cache()
    columns = (SpinnerColumn(), TextColumn("{task.description:<32}"), BarColumn(), MofNCompleteColumn(),
               TimeElapsedColumn())  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        report = run(
            device=device,
            backend=None if backend is None else backend_of(backend),
            operations=operations,
            dtypes=dtypes,
            quick=quick,
            isolate=isolate,
            timeout_s=timeout_s,
            jobs=_jobs(device, operations) if jobs is None else jobs,
            faults=planted,
            progress=lambda done, total, name: bar.update(task, completed=done, total=total, description=name),
        )
    _show(console, report)
    if json_file is not None:
        json_file.write_text(json.dumps(report.as_dict(), indent=1), encoding="utf-8")
        console.print(f"Report: [bold]{escape(str(json_file))}[/bold]")
    if html_file is not None:
        write_html(report, html_file)
        console.print(f"Page: [bold]{escape(str(html_file))}[/bold]")
    return report.passed


def _jobs(device: str | None, operations: Sequence[str]) -> int:
    if 0 < len(operations) < 20:
        return 1
    platform = jax.default_backend() if device is None else getattr(resolve(device, "parity"), "platform", "")
    return min(os.cpu_count() or 1, _MOST_JOBS) if platform == "cpu" else 1


def _show(console: Console, report: Report) -> None:
    console.print(f"[bold]Parity of {escape(report.stack)} on {escape(report.device)}[/bold]")
    console.print(", ".join(f"{name} {number}" for name, number in report.versions.items()))
    if not report.outcomes:
        console.print("[bold red]Nothing ran: no such operation has that dtype.[/bold red]")
        return
    console.print(_table(report.summaries()))
    groups: dict[str, list[Outcome]] = {}
    for outcome in report.failures:
        groups.setdefault(outcome.operation, []).append(outcome)
    for number, group in enumerate(groups.values()):
        if number == _MOST_FAILURES:
            console.print(f"... and in {len(groups) - number} more operations: {', '.join(list(groups)[number:])}")
            break
        _show_failures(console, group)
    numbers = sum(outcome.elements for outcome in report.outcomes)
    facts = f"{len(report.operations)} operations, {len(report.outcomes):,} outcomes, {numbers:,} numbers"
    facts += f", {report.seconds:.0f} s"
    if report.passed:
        console.print(f"[green]Every bound is kept: {facts}.[/green]")
    else:
        console.print(f"[bold red]{len(report.failures)} outcomes are not right: {facts}.[/bold red]")


def _table(summaries: Sequence[Summary]) -> Table:
    """A row for each operation and floating-point dtype; the dtypes without rounding share one where all is well."""
    title = "Distance from the exact value in units in the last place"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("Operation", no_wrap=True)
    table.add_column("dtype", no_wrap=True)
    for heading in ("max", "median", "bound", "measured"):
        table.add_column(heading, justify="right", no_wrap=True, min_width=8)
    table.add_column("", no_wrap=True)
    exact: dict[str, list[Summary]] = {}
    for summary in summaries:
        if not is_inexact_name(summary.dtype) and summary.status == "passed" and summary.max_ulp == 0:
            exact.setdefault(summary.operation, []).append(summary)
    last = ""
    for summary in summaries:
        name = escape(summary.operation) if summary.operation != last else ""
        alike = exact.get(summary.operation, [])
        if summary in alike:
            if summary is not alike[0]:
                continue
            dtypes = summary.dtype if len(alike) == 1 else f"{len(alike)} exact dtypes"
            table.add_row(name, dtypes, "0", "0", "0", "0", "[green]passed[/green]")
        else:
            style = _STYLES.get(summary.status, "bold red")
            where = f": {', '.join(summary.failing)}" if summary.failing else ""
            numbers = (summary.max_ulp, summary.median_ulp, summary.limit, summary.measured)
            ran = summary.status in ("passed", "failed", "error")
            texts = [f"{number:.3g}" for number in numbers] if ran else [""] * 4
            table.add_row(name, summary.dtype, *texts, f"[{style}]{summary.status}{where}[/{style}]")
        last = summary.operation
    return table


def _show_failures(console: Console, group: Sequence[Outcome]) -> None:
    """Show the first wrong result of an operation, and where there are others."""
    outcome = group[0]
    head = f"{outcome.operation} {outcome.dtype} {outcome.mode}: {outcome.status}"
    console.print(f"[bold red]{escape(head)}[/bold red]")
    if outcome.failure is not None:
        text = f"  {outcome.failure.edge}: {outcome.failure.what}"
        console.print(escape(text), highlight=False, soft_wrap=True)
        code = "\n".join(f"    {line}" for line in outcome.failure.code.splitlines())
        console.print(escape(code), highlight=False, soft_wrap=True)
    if len(group) > 1:
        others = ", ".join(f"{other.dtype} {other.mode} {other.status}" for other in group[1:])
        console.print(f"  also {others}", style="dim", highlight=False)
