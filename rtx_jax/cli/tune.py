"""rtx-jax tune: which block sizes are the fastest here?"""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..bench import Request, Trial, tune
from ..kernels import tuning
from .figures import print_figures

__all__ = ["forget", "measure", "show"]


def measure(request: Request, *, console: Console | None = None) -> list[Trial]:
    """Measure, store what is faster than the defaults, and print what was found.

    Raises
    ------
    InvalidArgument
        An option is wrong, or the file cannot be written.
    BackendUnavailable
        There is no such device.
    BackendLimitation
        An implementation that was asked for cannot run one of the calls.
    """
    console = console or Console()
    columns = (SpinnerColumn(), TextColumn("{task.description:<60}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        trials = list(tune(request, progress=lambda text: bar.update(task, description=text)))
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("Kernel", "Class", "Tried", "Default ms", "Best ms", "Stored"):
        table.add_column(heading, justify="right" if heading in ("Tried", "Default ms", "Best ms") else "left")
    for trial in trials:
        first, *_ = trial.times_ms.values()
        stored = "the default stays" if trial.entry is None else _sizes(trial.entry)
        table.add_row(
            trial.kernel,
            trial.shapes,
            str(len(trial.times_ms)),
            f"{first:,.3f}",
            f"{min(trial.times_ms.values()):,.3f}",
            escape(stored),
            style="dim" if trial.entry is None else "",
        )
    print_figures(console, table)
    if any(trial.entry for trial in trials):
        console.print(f"Stored in [bold]{escape(str(tuning.file()))}[/bold]")
    return trials


def show(console: Console | None = None) -> None:
    """Print what the file holds."""
    console = console or Console()
    entries = tuning.entries()
    if not entries:
        console.print(f"Nothing is stored in {escape(str(tuning.file()))}: all kernels take their default blocks.")
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title=escape(str(tuning.file())), title_justify="left")
    for heading in ("Kernel", "Device", "Class", "Blocks", "Default ms", "ms"):
        table.add_column(heading, justify="right" if heading.endswith("ms") else "left")
    for entry in entries:
        times = (entry.default_microseconds, entry.microseconds)
        texts = (entry.kernel, entry.kind, entry.shapes, _sizes(entry))
        table.add_row(*map(escape, texts), *(f"{time / 1e3:,.3f}" for time in times))
    print_figures(console, table)


def forget(console: Console | None = None) -> None:
    """Remove what is stored."""
    console = console or Console()
    count = len(tuning.entries())
    tuning.forget()
    console.print(f"Removed {count} {'entry' if count == 1 else 'entries'}: all kernels take their default blocks.")


def _sizes(entry: tuning.Entry) -> str:
    return ", ".join(f"{name} {size}" for name, size in entry.blocks.items())
