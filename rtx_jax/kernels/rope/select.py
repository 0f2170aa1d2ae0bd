"""Which implementation turns: one table of what each can do, and where it is the first choice."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType

import jax

from ...checks import choices
from ..choice import Candidate
from ..choice import choose as _choose
from ..formula import Arrays, Implementation, Request
from . import pallas_mosaic_gpu, pallas_tpu, xla
from .shape import TurnShape

__all__ = ["IMPLEMENTATIONS", "choose", "implementation"]

IMPLEMENTATIONS = ("auto", "xla", pallas_tpu.NAME, pallas_mosaic_gpu.NAME)


def implementation(word: object) -> str:
    """Return the word for an implementation, or raise InvalidArgument."""
    return choices.implementation("rope", word, IMPLEMENTATIONS)


def choose(request: Request, *, layout: str, words: str, aliased: bool) -> Implementation | None:
    """Return the kernel for a rotation, or None for the plain form.

    A gradient of `x` is a turn the other way. On TPU ``"auto"`` leaves heads of less than 128 channels to XLA: it
    lays them out with positions beside each other, and a kernel would have to have them moved twice.
    """
    x, cos = request.operands[:2]
    if request.backward and not request.wanted[0]:
        return None
    shape, dtype, target = TurnShape.of(x.shape, cos.shape), x.dtype, request.target

    def run(module: ModuleType) -> Implementation:
        turn = functools.partial(module.turn, layout=layout, shape=shape, aliased=aliased and not request.backward)
        if request.backward:
            return functools.partial(_back, turn=turn, wanted=request.wanted, layout=layout)
        return functools.partial(_forth, turn=turn)

    kernels: tuple[Candidate[Implementation | None], ...] = (
        Candidate(
            pallas_tpu.NAME,
            run(pallas_tpu),
            pallas_tpu.unsupported(shape, dtype, target),
            considered=target.platform == "tpu" and x.shape[-1] % 128 == 0,
        ),
        Candidate(
            pallas_mosaic_gpu.NAME,
            run(pallas_mosaic_gpu),
            pallas_mosaic_gpu.unsupported(shape, dtype, layout, target),
            considered=target.capability == (9, 0),
        ),
        Candidate("xla", None, plain=True),
    )
    kernel = _choose("rope", words, target, kernels, partitioned=request.partitioned)
    if kernel is None and aliased and not request.backward and shape is not None and not request.partitioned:
        return functools.partial(_forth, turn=functools.partial(xla.turn_by_blocks, layout=layout, shape=shape))
    return kernel


def _forth(x: jax.Array, cos: jax.Array, sin: jax.Array, *, turn: Callable[..., jax.Array]) -> Arrays:
    return (turn(x, cos, sin),)


def _back(
    x: jax.Array,
    cos: jax.Array,
    sin: jax.Array,
    cotangent: jax.Array,
    *,
    turn: Callable[..., jax.Array],
    wanted: tuple[bool, ...],
    layout: str,
) -> Arrays:
    tables = xla.backward(x, cos, sin, cotangent, (False, *wanted[1:]), layout=layout)
    return (turn(cotangent, cos, -sin), *tables)
