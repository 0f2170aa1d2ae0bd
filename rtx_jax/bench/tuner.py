"""Measure which block sizes are the fastest here."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from .._compat import is_x64, x64
from ..core.devices import platform_of
from ..errors import BackendLimitation, InvalidArgument, RtxError
from ..kernels import tuning
from ..kernels.attention import select
from ..kernels.attention.spec import AttentionSpec, Operands
from ..kernels.attention.tuned import default_blocks, kernel_name, shape_class
from ..kernels.target import Target, target_of
from . import attention
from .contender import Problem, Ready, compiled
from .measure import device_of
from .request import Request, check
from .timing import alternate

__all__ = ["Trial", "candidates", "tune"]

# A gain below this is noise.
_GAIN = 1.02


@dataclass(frozen=True, slots=True)
class Trial:
    """What was found for one kernel, direction and shape class.

    Attributes
    ----------
    entry
        What is stored; None where the defaults stay, and then nothing is stored.
    kernel, shapes
        Of which call.
    default
        The default blocks.
    times_ms
        Milliseconds of each candidate that ran, by its sizes in words, the default first.
    """

    entry: tuning.Entry | None
    kernel: str
    shapes: str
    default: dict[str, int]
    times_ms: dict[str, float]


def candidates(blocks: tuning.Blocks, direction: str, /) -> list[tuning.Blocks]:
    """Return the given blocks and their neighbours, in what the direction depends on.

    Query and key sizes are halved, kept and doubled, in all combinations; every other size is halved and doubled by
    itself. What the dataclass refuses is left out. Names with ``gradient`` in them are sizes of the backward pass, and
    where there are any, the others are those of the forward pass.
    """
    sizes = tuning.block_sizes(blocks)
    gradient = [name for name in sizes if "gradient" in name]
    if gradient:
        sizes = {name: size for name, size in sizes.items() if (name in gradient) == (direction == "backward")}
    main = [name for name in ("query", "key") if name in sizes]
    changes: list[dict[str, int]] = [
        dict(zip(main, values, strict=True))
        for values in itertools.product(*([sizes[name], sizes[name] // 2, sizes[name] * 2] for name in main))
    ]
    # Rows of a batch and heads of a chunk have to divide those of the call.
    for name in sizes:
        if name not in (*main, "batch", "heads"):
            changes += [{name: sizes[name] // 2}, {name: sizes[name] * 2}]
    found: list[tuning.Blocks] = []
    for change in changes:
        if all(size > 0 for size in change.values()):
            try:
                made = dataclasses.replace(blocks, **change)
            except RtxError:
                continue
            if made not in found:
                found.append(made)
    return found


def tune(request: Request, /, *, progress: Callable[[str], None] = lambda text: None) -> Iterator[Trial]:
    """Measure the candidates of each kernel that `request` leads to, and store what is faster than the defaults.

    Parameters
    ----------
    request
        Which calls: of the operation ``"attention"``.
    progress
        Told what comes next.

    Yields
    ------
    Trial
        One for each variant, length, implementation and direction.

    Raises
    ------
    InvalidArgument
        The operation has no block sizes, or a name or size is wrong.
    BackendLimitation
        The implementation cannot run such a call, or has no block sizes.
    """
    if request.operation != "attention":
        raise InvalidArgument(
            "rtx-jax tune", "operation", got=repr(request.operation), wanted="'attention'", arg="operation",
            reason="no block sizes",
        )  # fmt: skip
    request = dataclasses.replace(
        request,
        lengths=tuple(request.lengths) or attention.LENGTHS,
        variants=tuple(request.variants) or attention.VARIANTS[:1],
        directions=tuple(request.directions) or attention.DIRECTIONS,
    )
    check(request, variants=attention.VARIANTS, directions=attention.DIRECTIONS)
    device = device_of(request.device, "rtx-jax tune")
    return _trials(request, device, progress)


def _trials(request: Request, device: jax.Device, progress: Callable[[str], None]) -> Iterator[Trial]:
    target = target_of(platform_of(device), device.device_kind)
    for problem in attention.problems(request):
        spec, operands = attention.normal_form(problem)
        for word in request.implementations:
            module = _module(word, spec, target)
            progress(f"{module.NAME} {problem.variant} {problem.direction} {problem.length}")
            with jax.default_device(device), x64(spec.dtype.itemsize == 8 or is_x64()):
                yield _trial(problem, spec, operands, module, target, device, request.rounds)


def _module(word: str, spec: AttentionSpec, target: Target) -> select.Implementation:
    chosen, _ = select.choose(spec, target, select.check_word("rtx-jax tune", word))
    return chosen


def _trial(
    problem: Problem,
    spec: AttentionSpec,
    operands: Operands,
    module: select.Implementation,
    target: Target,
    device: jax.Device,
    rounds: int,
) -> Trial:
    kernel, shapes = kernel_name(module.NAME, problem.direction), shape_class(spec)
    default = default_blocks(module, spec, problem.direction)
    if default is None:
        raise BackendLimitation(
            "rtx-jax tune", "implementation", got=repr(module.NAME), wanted="one with block sizes",
            backend=module.NAME, reason="it has no block sizes",
        )  # fmt: skip
    ready: dict[str, Ready] = {}
    blocks: dict[str, dict[str, int]] = {}
    for number, candidate in enumerate(candidates(default, problem.direction)):
        sizes = tuning.block_sizes(candidate)
        name = ", ".join(f"{key} {value}" for key, value in sizes.items())
        # Too much shared memory, or a shape that the compiler refuses: no candidate then. The default must run.
        try:
            ready[name] = _ready(problem, spec, operands, module, candidate, device)
            ready[name].call()
        except Exception:
            if number == 0:
                raise
            ready.pop(name, None)
            continue
        blocks[name] = sizes
    times = alternate({name: each.call for name, each in ready.items()}, rounds=rounds)
    first, *_ = times
    best = min(times, key=lambda name: times[name].best)
    times_ms = {name: value.best * 1e3 for name, value in times.items()}
    entry = None
    if times_ms[best] * _GAIN < times_ms[first]:
        changed = {key: value for key, value in blocks[best].items() if value != blocks[first][key]}
        kind = target.kind or target.platform
        entry = tuning.Entry(kernel, kind, shapes, changed, times_ms[best] * 1e3, times_ms[first] * 1e3)
        tuning.store(entry)
    return Trial(entry, kernel, shapes, blocks[first], times_ms)


def _ready(
    problem: Problem,
    spec: AttentionSpec,
    operands: Operands,
    module: select.Implementation,
    blocks: tuning.Blocks,
    device: jax.Device,
) -> Ready:
    """Compile one kernel with these blocks; the backward pass alone, on the result of the default forward pass."""
    names = [name for name, array in operands._asdict().items() if array is not None]
    arrays = [array for array in operands if array is not None]
    if problem.direction == "forward":

        def run(*given: jax.Array) -> tuple[jax.Array, jax.Array]:
            return module.forward(spec, Operands(**dict(zip(names, given, strict=True))), blocks=blocks)

        return compiled(run, arrays, device)

    def pull(out: jax.Array, lse: jax.Array, d_out: jax.Array, *given: jax.Array) -> tuple[jax.Array, ...]:
        found = module.backward(
            spec,
            Operands(**dict(zip(names, given, strict=True))),
            out,
            lse,
            d_out,
            jnp.zeros_like(lse),
            bias=operands.bias is not None,
            blocks=blocks,
        )
        return tuple(array for array in found if array is not None)

    out, lse = _forward(module.NAME, spec, tuple(names))(*arrays)
    return compiled(pull, [out, lse, problem.operands["d_out"], *arrays], device)


@functools.lru_cache(maxsize=1)
def _forward(name: str, spec: AttentionSpec, names: tuple[str, ...]) -> Callable[..., tuple[jax.Array, ...]]:
    """The forward pass with its default blocks, compiled once for all candidates of a backward pass."""
    module = select.module(name)
    return jax.jit(lambda *given: module.forward(spec, Operands(**dict(zip(names, given, strict=True)))))
