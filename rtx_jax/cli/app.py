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


# Options that bench and tune share.
Lengths = Annotated[
    list[int] | None, typer.Option(help="Length of the sequence or cache, tokens of a loss. Repeat it for several.")
]
Variants = Annotated[
    list[str] | None,
    typer.Option(help="attention: causal, full, window, segments, bias; ... Repeat it for several."),
]
OperandDType = Annotated[str, typer.Option(help="Of the operands: float32, bfloat16, float16 or float64.")]
Batch = Annotated[int | None, typer.Option(help="Rows of the batch; 1 without it.")]
Heads = Annotated[int | None, typer.Option(help="Query heads; 8 without it.")]
KeyHeads = Annotated[int | None, typer.Option(help="Key heads; as many as query heads without it.")]
HeadSize = Annotated[int | None, typer.Option(help="Elements of a head; 64 without it.")]
Vocabulary = Annotated[int | None, typer.Option(help="Classes (cross-entropy); 32768 without it.")]
Window = Annotated[
    int | None, typer.Option(help="Keys that a query sees to its left, in the variant window; 512 without it.")
]
Where = Annotated[str | None, typer.Option(help="Where: cpu, cuda:1, tpu, ... JAX's default without it.")]


@app.command()
def bench(
    operation: Annotated[str, typer.Argument(help="attention, rope, norm, decode or cross-entropy.")],
    length: Lengths = None,
    variant: Variants = None,
    direction: Annotated[
        list[str] | None, typer.Option(help="forward; or backward, together with forward. Both without it.")
    ] = None,
    dtype: OperandDType = "float32",
    batch: Batch = None,
    heads: Heads = None,
    key_heads: KeyHeads = None,
    size: HeadSize = None,
    width: Annotated[
        int | None, typer.Option(help="Elements of a hidden state (norm, cross-entropy); 1024 without it.")
    ] = None,
    vocabulary: Vocabulary = None,
    window: Window = None,
    implementation: Annotated[
        list[str] | None, typer.Option(help="Of ours: auto, xla, pallas_triton, ... Each is timed by itself.")
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Time ours with the polynomial exponential too.")] = False,
    device: Where = None,
    rounds: Annotated[int, typer.Option(min=1, max=1000, help="Loops of each contender.")] = 7,
    json: Annotated[Path | None, typer.Option(help="Write all figures here too.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a plot against length here (PNG).")] = None,
) -> None:
    """Time ours against jax.nn, cuDNN, tokamax and torch, as far as they are here, in turn in one run.

    With rates, the share of the measured rate of products or copies, memory, and the error against float64.
    """
    from ..bench.operations import find
    from .bench import bench as run
    from .requests import request_of

    found = find(operation)
    request = request_of(
        f"rtx-jax bench {operation}",
        operation,
        ("dtype", *found.parameters, *found.choices),
        lengths=length,
        variants=variant,
        directions=direction,
        rounds=rounds,
        device=device,
        options={
            "dtype": dtype,
            "batch": batch,
            "heads": heads,
            "key_heads": key_heads,
            "size": size,
            "width": width,
            "vocabulary": vocabulary,
            "window": window,
            "implementations": implementation or None,
            "fast": fast,
        },
    )
    run(request, json_file=json, plot_file=plot)


@app.command()
def tune(
    operation: Annotated[str, typer.Argument(help="attention, decode or cross-entropy.")] = "attention",
    length: Lengths = None,
    variant: Variants = None,
    direction: Annotated[list[str] | None, typer.Option(help="forward or backward. Both without it.")] = None,
    dtype: OperandDType = "float32",
    batch: Batch = None,
    heads: Heads = None,
    key_heads: KeyHeads = None,
    size: HeadSize = None,
    width: Annotated[
        int | None, typer.Option(help="Elements of a hidden state (cross-entropy); 1024 without it.")
    ] = None,
    vocabulary: Vocabulary = None,
    window: Window = None,
    implementation: Annotated[
        list[str] | None, typer.Option(help="xla, pallas_triton, ...; the one that would run here without it.")
    ] = None,
    device: Where = None,
    rounds: Annotated[int, typer.Option(min=1, max=1000, help="Loops of each candidate.")] = 7,
    show: Annotated[bool, typer.Option("--show", help="Print what is stored, and measure nothing.")] = False,
    forget: Annotated[bool, typer.Option("--forget", help="Remove what is stored, and measure nothing.")] = False,
) -> None:
    """Measure the block sizes of an operation on this device, and keep those that beat the defaults.

    They are kept in the user's cache (RTX_JAX_CACHE_DIR), for this kind of device and calls of this class, and are used
    from then on.
    """
    from ..bench.tuner import tunable
    from . import tune as command
    from .requests import request_of

    if show:
        command.show()
        return
    if forget:
        command.forget()
        return
    found = tunable(operation)
    request = request_of(
        "rtx-jax tune",
        operation,
        ("dtype", *found.parameters, *(name for name in found.choices if name != "fast")),
        lengths=length,
        variants=variant,
        directions=direction,
        rounds=rounds,
        device=device,
        options={
            "dtype": dtype,
            "batch": batch,
            "heads": heads,
            "key_heads": key_heads,
            "size": size,
            "width": width,
            "vocabulary": vocabulary,
            "window": window,
            "implementations": implementation or None,
        },
    )
    command.measure(request)
