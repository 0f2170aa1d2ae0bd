"""Measure which block sizes are the fastest here."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import jax

from .._compat import is_x64, x64
from ..core.devices import platform_of
from ..errors import InvalidArgument, RtxError
from ..kernels import tuning
from ..kernels.target import target_of
from .contender import Ready
from .measure import device_of
from .operations import OPERATIONS, Operation
from .request import Request, check
from .timing import alternate
from .tuned_calls import TUNABLE, Call

__all__ = ["Trial", "candidates", "tunable", "tune"]

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


def tunable(name: str, /) -> Operation:
    """Return the operation of a name, one with block sizes.

    Raises
    ------
    InvalidArgument
        There is none.
    """
    if name in TUNABLE:
        return OPERATIONS[name]
    raise InvalidArgument(
        "rtx-jax tune", "operation", got=repr(name), wanted=", ".join(map(repr, TUNABLE)), arg="operation",
        reason="no block sizes",
    )  # fmt: skip


def tune(request: Request, /, *, progress: Callable[[str], None] = lambda text: None) -> Iterator[Trial]:
    """Measure the candidates of each kernel that `request` leads to, and store what is faster than the defaults.

    Parameters
    ----------
    request
        Which calls: of the operation ``"attention"``, ``"decode"`` or ``"cross-entropy"``.
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
    operation = tunable(request.operation)
    request = dataclasses.replace(
        request,
        lengths=tuple(request.lengths) or operation.lengths,
        variants=tuple(request.variants) or operation.variants[:1],
        directions=tuple(request.directions) or operation.directions,
    )
    check(request, variants=operation.variants, directions=operation.directions)
    device = device_of(request.device, "rtx-jax tune")
    return _trials(request, device, progress)


def _trials(request: Request, device: jax.Device, progress: Callable[[str], None]) -> Iterator[Trial]:
    target = target_of(platform_of(device), device.device_kind)
    for call in TUNABLE[request.operation](request, target):
        progress(f"{call.kernel} {call.shapes}")
        with jax.default_device(device), x64(call.wide or is_x64()):
            yield _trial(call, target.kind or target.platform, device, request.rounds)


def _trial(call: Call, kind: str, device: jax.Device, rounds: int) -> Trial:
    ready: dict[str, Ready] = {}
    blocks: dict[str, dict[str, int]] = {}
    for number, candidate in enumerate(candidates(call.default, call.direction)):
        sizes = tuning.block_sizes(candidate)
        name = ", ".join(f"{key} {value}" for key, value in sizes.items())
        # Too much shared memory, or a shape that the compiler refuses: no candidate then. The default must run.
        try:
            ready[name] = call.ready(candidate, device)
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
        entry = tuning.Entry(call.kernel, kind, call.shapes, changed, times_ms[best] * 1e3, times_ms[first] * 1e3)
        tuning.store(entry)
    return Trial(entry, call.kernel, call.shapes, blocks[first], times_ms)
