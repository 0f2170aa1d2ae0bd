"""rtx-jax demo: one scikit-learn pipeline on NumPy and on rtx_jax, side by side."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from .dataset import Dataset, digits, read_csv
from .picture import check_writable, draw, write
from .workload import Outcome, Workload, run

__all__ = ["Comparison", "demo", "widest"]

_REFERENCE = "numpy"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One step on both namespaces.

    Attributes
    ----------
    reference, tried
        The outcome on NumPy and on the other namespace.
    tolerance
        How far the scores may be apart, as a part of the score where that is above 1.
    """

    reference: Outcome
    tried: Outcome
    tolerance: float

    @property
    def agrees(self) -> bool:
        """Whether the scores are within the tolerance; a NaN is not."""
        expected = self.reference.score
        return abs(self.tried.score - expected) <= self.tolerance * max(1.0, abs(expected))


def demo(
    *,
    source: Path | None,
    target: str | None,
    device: str | None,
    dtype: str | None,
    output: Path,
    repeats: int,
    namespace: str = "rtx_jax",
    console: Console | None = None,
) -> bool:
    """Run the pipeline on both namespaces, print the tables and write the picture.

    Parameters
    ----------
    source, target
        A CSV file and the column to predict; the handwritten digits without them.
    device, dtype
        Where and in which precision `namespace` runs; its defaults without them.
    output
        The PNG to write.
    repeats
        Calls of each step after the first, at least 1.
    namespace
        The module that is compared with NumPy.

    Returns
    -------
    bool
        Whether all scores agree.

    Raises
    ------
    InvalidArgument, FormatError
        The file, the column or the place for the picture is not usable. Nothing has been computed then.
    BackendUnavailable
        There is no such device.
    """
    console = console or Console()
    check_writable(output)
    xp = importlib.import_module(namespace)
    placed = _prepare(namespace, device)
    data = digits() if source is None and target is None else read_csv(_given(source), target)
    dtype = dtype or widest(namespace, placed)

    reference = Workload(data, importlib.import_module(_REFERENCE), dtype)
    tried = Workload(data, xp, dtype, placed)
    where = device or str(xp.__array_namespace_info__().default_device())
    console.print(_headline(data, namespace, where, dtype))
    outcomes = _outcomes(console, ((_REFERENCE, reference), (namespace, tried)), repeats)
    # In float32 rounding may move one test row over a boundary.
    tolerance = 1e-6 if dtype == "float64" else max(5e-3, 1.5 / len(tried.truth))
    comparisons = [Comparison(*pair, tolerance) for pair in zip(outcomes[_REFERENCE], outcomes[namespace], strict=True)]
    console.print(_scores(comparisons, namespace))
    console.print(_times(comparisons, namespace))

    write(draw(data, tried, comparisons, namespace=namespace, where=f"{where}, {dtype}"), output)
    console.print(f"Picture: [bold]{escape(str(output))}[/bold]")
    differing = [c.tried.step for c in comparisons if not c.agrees]
    if differing:
        console.print(f"[bold red]The scores disagree in: {', '.join(differing)}[/bold red]")
    else:
        console.print(f"[green]All scores agree within {tolerance:.1g}.[/green]")
    return not differing


def _prepare(namespace: str, device: str | None) -> object:
    """Turn the cache on and look the device up, where the namespace is ours."""
    if namespace != "rtx_jax":
        return device
    from .._cache import enable_compilation_cache
    from ..core.devices import resolve

    enable_compilation_cache()
    return resolve(device, "rtx-jax demo")


def widest(namespace: str, device: object) -> str:
    """Return the name of the floating-point type that `namespace` takes by default on `device`."""
    xp = importlib.import_module(namespace)
    floating = xp.__array_namespace_info__().default_dtypes(device=device)["real floating"]
    return "float32" if floating == xp.float32 else "float64"


def _given(source: Path | None) -> Path:
    if source is None:
        from ..errors import InvalidArgument

        raise InvalidArgument(
            "rtx-jax demo",
            "--target",
            got="a target without a file",
            wanted="--input FILE --target COLUMN",
            arg="--target",
            reason="no file",
        )
    return source


def _headline(data: Dataset, namespace: str, where: str, dtype: str) -> str:
    rows, columns = data.features.shape
    kind = f"{len(data.classes)} classes" if data.classes else "a quantity to predict"
    return (
        f"[bold]scikit-learn on NumPy and on {namespace}[/bold] ({where}, {dtype})\n"
        f"{escape(data.name)}: {rows:,} rows, {columns} columns, {kind}"
    )


def _outcomes(console: Console, workloads: tuple[tuple[str, Workload], ...], repeats: int) -> dict[str, list[Outcome]]:
    found: dict[str, list[Outcome]] = {name: [] for name, _ in workloads}
    columns = (SpinnerColumn(), TextColumn("{task.description:<38}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=sum(len(workload.steps()) for _, workload in workloads))
        for name, workload in workloads:
            steps = workload.steps()
            progress.update(task, description=f"{name}: {steps[0][1]}")
            for number, outcome in enumerate(run(workload, repeats), start=1):
                found[name].append(outcome)
                following = steps[number][1] if number < len(steps) else "done"
                progress.update(task, advance=1, description=f"{name}: {following}")
    return found


def _scores(comparisons: list[Comparison], namespace: str) -> Table:
    table = Table(title="Scores", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("Estimator", no_wrap=True)
    table.add_column("Score", no_wrap=True)
    for heading in ("NumPy", namespace):
        table.add_column(heading, justify="right")
    table.add_column("Agree", justify="center")
    for comparison in comparisons:
        table.add_row(
            comparison.tried.estimator,
            comparison.tried.metric,
            f"{comparison.reference.score:.6f}",
            f"{comparison.tried.score:.6f}",
            "[green]yes[/green]" if comparison.agrees else "[bold red]no[/bold red]",
        )
    return table


def _times(comparisons: list[Comparison], namespace: str) -> Table:
    title = "Times in milliseconds: the first call, and the median of those after it"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("Estimator", no_wrap=True)
    for name in ("NumPy", namespace):
        table.add_column(f"{name}\nfirst", justify="right")
        table.add_column(f"{name}\nthen", justify="right")
    table.add_column("then /\nNumPy's", justify="right")
    for comparison in comparisons:
        reference, tried = comparison.reference, comparison.tried
        table.add_row(
            tried.estimator,
            *(f"{1e3 * s:,.1f}" for s in (reference.first_s, reference.steady_s, tried.first_s, tried.steady_s)),
            f"{tried.steady_s / reference.steady_s:.2f}",
        )
    return table
