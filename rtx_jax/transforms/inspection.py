"""What a function compiles to: its kernels, what is fused in them, memory, collectives, donations."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import jax

from .._compat import x64
from ..checks.parameters import function as check_function
from ..core.op import raise_translated
from ..errors import BackendLimitation, InvalidArgument
from . import hlo
from .compiled import Compiled, jit
from .trees import wide_tree

__all__ = ["Collective", "Donation", "Inspection", "Kernel", "report_of"]

_ROWS = 40
_WIDTH = 48


@dataclass(frozen=True, slots=True)
class Kernel:
    """One piece of code that the program runs.

    Attributes
    ----------
    name
        XLA's name of it.
    kind
        ``"fusion"``, the one operation that it is, or the target of a custom call.
    operations
        What it computes, in XLA's words: several where operations are fused. Constants and their broadcasts do not
        count.
    result_bytes
        Size of what it writes.
    runs
        How often one call of the program runs it; None in a loop whose count is not known.
    """

    name: str
    kind: str
    operations: tuple[str, ...]
    result_bytes: int
    runs: int | None


@dataclass(frozen=True, slots=True)
class Collective:
    """One exchange between devices.

    Attributes
    ----------
    kind
        ``"all-reduce"``, ``"all-gather"`` and the like.
    result_bytes
        Size of what each device has afterwards.
    runs
        As in `Kernel`.
    """

    kind: str
    result_bytes: int
    runs: int | None


@dataclass(frozen=True, slots=True)
class Donation:
    """An operand whose memory becomes that of a result.

    Attributes
    ----------
    operand
        Its name.
    output
        Place of the result among the results; ``""`` for a single one.
    nbytes
        Size.
    """

    operand: str
    output: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a function compiles to. ``str`` makes a table of it.

    Attributes
    ----------
    name, platform
        Of the function, and of the device that it was compiled for.
    kernels
        What runs, in the order of the compiled program. Bodies of loops and branches count once each.
    collectives, donations
        Exchanges between devices (which are no kernels here); operands whose memory is used again.
    flops, transcendentals, bytes_accessed
        XLA's own count for one call, where it has one: floating-point operations, evaluations of ``exp`` and the like,
        bytes read and written by kernels. Bodies of loops count once.
    argument_bytes, output_bytes, temporary_bytes
        Memory of operands, of results (donated ones included), and of all else at its peak.
    text
        The optimized program.
    """

    name: str
    platform: str
    kernels: tuple[Kernel, ...]
    collectives: tuple[Collective, ...]
    donations: tuple[Donation, ...]
    flops: float | None
    transcendentals: float | None
    bytes_accessed: float | None
    argument_bytes: int | None
    output_bytes: int | None
    temporary_bytes: int | None
    text: str = field(repr=False)

    @property
    def fused_operations(self) -> int:
        """How many operations run in kernels of several."""
        return sum(len(kernel.operations) for kernel in self.kernels if len(kernel.operations) > 1)

    @property
    def donated_bytes(self) -> int:
        """Memory of operands that results are written into."""
        return sum(donation.nbytes for donation in self.donations)

    def __str__(self) -> str:
        fused = sum(len(kernel.operations) > 1 for kernel in self.kernels)
        lines = [
            f"{self.name} on {self.platform}: {_count(len(self.kernels), 'kernel')}, {fused} of several operations "
            f"({self.fused_operations} fused), {_count(len(self.collectives), 'collective')}"
        ]
        rows = [
            (kernel.name, kernel.kind, str(len(kernel.operations)), _runs(kernel.runs), f"{kernel.result_bytes:,}",
             _brief(kernel.operations))
            for kernel in self.kernels[:_ROWS]
        ]  # fmt: skip
        if rows:
            lines += _table(("kernel", "kind", "operations", "runs", "result bytes", "what"), rows)
        if len(self.kernels) > _ROWS:
            lines.append(f"  ... and {len(self.kernels) - _ROWS} more")
        for collective in self.collectives:
            lines.append(
                f"collective {collective.kind}: {collective.result_bytes:,} bytes, {_runs(collective.runs)} runs"
            )
        for given in self.donations:
            lines.append(f"donated {given.operand} -> result {given.output or '0'}: {given.nbytes:,} bytes")
        lines.append(
            f"flops {_number(self.flops)}, transcendentals {_number(self.transcendentals)}, "
            f"bytes accessed {_number(self.bytes_accessed)}"
        )
        lines.append(
            f"bytes of arguments {_number(self.argument_bytes)}, outputs {_number(self.output_bytes)}, "
            f"temporaries {_number(self.temporary_bytes)}"
        )
        return "\n".join(lines)


def report_of(fn: object, args: tuple[object, ...], kwargs: dict[str, object]) -> Inspection:
    """Compile a function for some arguments, and report what it became; see `inspect`."""
    name, compiled = _compile(fn, args, kwargs)
    text = compiled.as_text()
    if text is None:
        raise BackendLimitation(
            "inspect",
            got="an executable without its program, such as one that was loaded from a file",
            wanted="one that was compiled here",
            backend=jax.default_backend(),
            reason="no text",
        )
    module = hlo.parse(text)
    kernels: list[Kernel] = []
    collectives: list[Collective] = []
    for instruction, runs in module.running():
        kind = instruction.opcode.removesuffix("-start")
        if kind in hlo.COLLECTIVES:
            collectives.append(Collective(kind, instruction.result_bytes(), runs))
            continue
        operations = tuple(module.operations(instruction))
        if kind == "custom-call":
            kind = instruction.attribute("custom_call_target") or kind
            operations = (kind,)
        elif kind == "fusion" and len(operations) == 1:  # XLA's cover of a single operation
            kind = operations[0]
        kernels.append(Kernel(instruction.name, kind, operations, instruction.result_bytes(), runs))
    parameters = module.parameters()
    donations = [
        Donation(parameters[i].label or f"operand {i}", output, hlo.bytes_of(parameters[i].shape))
        for output, i in module.aliases
        if i in parameters
    ]
    costs = _costs(compiled)
    memory = compiled.memory_analysis()
    return Inspection(
        name=name,
        platform=_platform(compiled),
        kernels=tuple(kernels),
        collectives=tuple(collectives),
        donations=tuple(donations),
        flops=costs.get("flops"),
        transcendentals=costs.get("transcendentals"),
        bytes_accessed=costs.get("bytes accessed"),
        argument_bytes=None if memory is None else memory.argument_size_in_bytes,
        output_bytes=None if memory is None else memory.output_size_in_bytes,
        temporary_bytes=None if memory is None else memory.temp_size_in_bytes,
        text=text,
    )


def _compile(fn: object, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[str, jax.stages.Compiled]:
    """Return the name of a function and what it compiles to."""
    graph = getattr(fn, "graph", None)  # a captured graph; the runtime is above this layer
    finished = fn if isinstance(fn, jax.stages.Lowered | jax.stages.Compiled) else getattr(graph, "compiled", None)
    if graph is not None and not isinstance(finished, jax.stages.Compiled):
        raise BackendLimitation(
            "inspect",
            got=f"{type(graph).__name__}, which runs without a compiler",
            wanted="a graph that was captured on a JAX runtime",
            backend="numpy",
            reason="no compiled program",
        )
    if isinstance(finished, jax.stages.Lowered | jax.stages.Compiled):
        if args or kwargs:
            raise InvalidArgument(
                "inspect",
                "args",
                got=f"{len(args) + len(kwargs)} arguments for a program that has its shapes already",
                wanted="none",
                arg="args",
                reason="not needed",
            )
        compiled = finished.compile() if isinstance(finished, jax.stages.Lowered) else finished
        return str(getattr(fn, "name", "") or _module_name(compiled)), compiled
    function = check_function("inspect", "fn", fn, wanted="a function, a compiled function, or a captured graph")
    name = getattr(function, "__name__", type(function).__name__)
    lowering = function if isinstance(function, Compiled) or _is_jax_jit(function) else jit(function)
    with x64() if wide_tree(args, kwargs) else contextlib.nullcontext():
        try:
            return name, lowering.lower(*args, **kwargs).compile()  # type: ignore[attr-defined]
        except Exception as error:
            raise_translated(name, error)


def _is_jax_jit(fn: Callable[..., object]) -> bool:
    return hasattr(fn, "lower") and hasattr(fn, "eval_shape")


def _module_name(compiled: jax.stages.Compiled) -> str:
    text = compiled.as_text() or ""
    return text.partition(",")[0].removeprefix("HloModule ").removeprefix("jit_")


def _platform(compiled: jax.stages.Compiled) -> str:
    try:
        shardings = jax.tree.leaves((compiled.input_shardings, compiled.output_shardings))
        return str(next(iter(shardings[0].device_set)).platform)
    except Exception:  # it has neither operands nor results, or does not tell
        return jax.default_backend()


def _costs(compiled: jax.stages.Compiled) -> dict[str, float]:
    found = compiled.cost_analysis()
    if isinstance(found, list):
        found = found[0] if found else None
    return {} if found is None else {key: float(value) for key, value in found.items() if value >= 0}


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _runs(runs: int | None) -> str:
    return "?" if runs is None else str(runs)


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.0f}"


def _brief(operations: Sequence[str]) -> str:
    """The operations of a kernel in one line: each kind once, with its count."""
    counts: dict[str, int] = {}
    for operation in operations:
        counts[operation] = counts.get(operation, 0) + 1
    text = ", ".join(name if count == 1 else f"{count} {name}" for name, count in counts.items())
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    return [
        "  " + "  ".join(cell.rjust(width) if 2 <= i <= 4 else cell.ljust(width)
                         for i, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip()
        for row in (head, *rows)
    ]  # fmt: skip
