"""The operations that can be measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from types import ModuleType

from ..errors import InvalidArgument
from . import attention, cross_entropy, decode, norm, rope
from .contender import Contender, Problem
from .measure import device_of, measure_all
from .request import Request, check
from .results import Report

__all__ = ["OPERATIONS", "Operation", "find", "run"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation.

    Attributes
    ----------
    bound
        ``"arithmetic"`` or ``"memory"``: whether TFLOP/s or GB/s count.
    lengths
        Where it is measured without others.
    variants, directions
        What there is. The first variant is measured without others, and all directions are.
    problems, contenders
        Make them of a request.
    parameters
        The fields of the request that its problems depend on.
    choices
        The fields that say which of ours take part.
    """

    bound: str
    lengths: Sequence[int]
    variants: Sequence[str]
    directions: Sequence[str]
    problems: Callable[[Request], Iterator[Problem]]
    contenders: Callable[[Request], list[Contender]]
    parameters: Sequence[str]
    choices: Sequence[str]


def _operation(module: ModuleType) -> Operation:
    return Operation(
        module.BOUND,
        module.LENGTHS,
        module.VARIANTS,
        module.DIRECTIONS,
        module.problems,
        module.contenders,
        module.PARAMETERS,
        module.CHOICES,
    )


OPERATIONS: dict[str, Operation] = {
    "attention": _operation(attention),
    "rope": _operation(rope),
    "norm": _operation(norm),
    "decode": _operation(decode),
    "cross-entropy": _operation(cross_entropy),
}


def find(name: str, /) -> Operation:
    """Return the operation of a name.

    Raises
    ------
    InvalidArgument
        There is none.
    """
    if name in OPERATIONS:
        return OPERATIONS[name]
    raise InvalidArgument(
        "rtx-jax bench", "operation", got=repr(name), wanted=f"one of {', '.join(OPERATIONS)}",
        arg="operation", reason="unknown operation",
    )  # fmt: skip


def run(request: Request, /, *, progress: Callable[[str], None] = lambda text: None) -> Report:
    """Measure what `request` asks for.

    Parameters
    ----------
    request
        See `Request`.
    progress
        Told what comes next.

    Raises
    ------
    InvalidArgument
        There is no such operation, variant or direction, or a size is wrong.
    UnsupportedDType
        The dtype is none.
    BackendUnavailable
        There is no such device.
    BackendLimitation
        An implementation that was asked for cannot run one of the problems.
    """
    operation = find(request.operation)
    request = replace(
        request,
        lengths=tuple(request.lengths) or operation.lengths,
        variants=tuple(request.variants) or operation.variants[:1],
        directions=tuple(request.directions) or operation.directions,
    )
    check(request, variants=operation.variants, directions=operation.directions)
    device = device_of(request.device, "rtx-jax bench")
    settings = {name: value for name, value in asdict(request).items() if name in ("dtype", *operation.parameters)}
    return measure_all(
        request.operation,
        operation.bound,
        operation.problems(request),
        operation.contenders(request),
        device,
        rounds=request.rounds,
        settings=settings,
        progress=progress,
    )
