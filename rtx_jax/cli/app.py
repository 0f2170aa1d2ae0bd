"""The subcommands and their options."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from .._version import __version__

__all__ = ["app"]

app = typer.Typer(
    name="rtx-jax",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class DTypeName(StrEnum):
    """What ``--dtype`` takes."""

    float32 = "float32"
    float64 = "float64"


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rtx-jax {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """An array API namespace on JAX and XLA."""


@app.command()
def info() -> None:
    """Show versions, platforms and why others are missing, devices, memory, default dtypes and the cache."""
    from .info import show

    show()


@app.command()
def demo(
    input: Annotated[
        Path | None, typer.Option(help="A CSV file with a header; the handwritten digits of scikit-learn without it.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="The column of --input to predict.")] = None,
    device: Annotated[
        str | None, typer.Option(help="Where rtx_jax runs: cpu, cuda:1, tpu, metal, ... JAX's default without it.")
    ] = None,
    dtype: Annotated[
        DTypeName | None, typer.Option(help="Without it, the widest float that the device computes with.")
    ] = None,
    output: Annotated[Path, typer.Option(help="The picture to write.")] = Path("rtx-jax-demo.png"),
    repeats: Annotated[int, typer.Option(min=1, max=1000, help="Calls of each step after the first.")] = 5,
) -> None:
    """Run a scikit-learn pipeline on NumPy and on rtx_jax, and compare scores and times.

    Exits with 1 when the scores disagree.
    """
    from .demo import demo as run

    agreed = run(
        source=input,
        target=target,
        device=device,
        dtype=None if dtype is None else dtype.value,
        output=output,
        repeats=repeats,
    )
    raise typer.Exit(0 if agreed else 1)


@app.command()
def parity(
    device: Annotated[
        str | None, typer.Option(help="What to judge: cpu, cuda:1, tpu, metal, ... JAX's default without it.")
    ] = None,
    backend: Annotated[
        str | None, typer.Option(help="Judge one backend alone, or a stack: numpy, cuda, 'quantized<cpu>', ...")
    ] = None,
    op: Annotated[
        list[str] | None, typer.Option(help="An operation: sin, linalg.det, backend.softmax, ... Several are fine.")
    ] = None,
    dtype: Annotated[list[str] | None, typer.Option(help="A dtype under test. Several are fine.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Every operation, but only a pairwise cover of dtypes, modes and edges.")
    ] = False,
    isolate: Annotated[
        bool, typer.Option("--isolate", help="Each operation in a process of its own, for a device that crashes.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=1.0, help="Seconds after which an isolated operation counts as hung.")
    ] = 120.0,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes that share the operations; as many as fit on a CPU without it.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the report here too.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with the pictures here.")] = None,
    fault: Annotated[
        list[str] | None, typer.Option(hidden=True, help="Plant a fault, to check the check: NAME=sign, NAME=hang, ...")
    ] = None,
) -> None:
    """Compare every operation with what is right, in units in the last place.

    Exits with 1 when a bound is broken.
    """
    from .parity import parity as run

    kept = run(
        device=device,
        backend=backend,
        operations=op or (),
        dtypes=dtype or (),
        quick=quick,
        isolate=isolate,
        timeout_s=timeout,
        jobs=jobs,
        faults=fault or (),
        json_file=json,
        html_file=html,
    )
    raise typer.Exit(0 if kept else 1)
