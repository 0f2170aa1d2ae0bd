"""Which implementation of the norms' backward pass runs: one table of what each can do, and where it comes first."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax

from ...checks import choices
from ..choice import Candidate
from ..choice import choose as _choose
from ..formula import Arrays, Implementation, Request
from . import pallas_mosaic_gpu, pallas_tpu, xla
from .spec import NormSpec

__all__ = ["IMPLEMENTATIONS", "choose", "implementation"]

IMPLEMENTATIONS = ("auto", "xla", pallas_tpu.NAME, pallas_mosaic_gpu.NAME)


def implementation(operation: str, word: object) -> str:
    """Return the word for an implementation, or raise InvalidArgument."""
    return choices.implementation(operation, word, IMPLEMENTATIONS)


def choose(request: Request, *, spec: NormSpec, words: str) -> Implementation | None:
    """Return the kernel for a backward pass, or None for the plain form.

    The forward pass has no kernel; one that was asked for by name refuses there already, if it will have to.
    """
    if not request.backward and words in ("auto", "xla"):
        return None
    x, target = request.operands[0], request.target
    wanted = request.wanted if request.backward else (True,) * (1 + spec.weight + spec.bias)
    size = x.shape[-1]
    run = functools.partial(_run, spec=spec, wanted=wanted)
    if words == "auto" and target.platform == "cpu" and not request.partitioned:
        return run(xla.backward_by_blocks)
    kernels: tuple[Candidate[Implementation | None], ...] = (
        Candidate(
            pallas_tpu.NAME,
            run(pallas_tpu.backward),
            pallas_tpu.unsupported(size, x.dtype, wanted, target),
            considered=target.platform == "tpu" and wanted[0],
        ),
        Candidate(
            pallas_mosaic_gpu.NAME,
            run(pallas_mosaic_gpu.backward),
            pallas_mosaic_gpu.unsupported(size, x.dtype, spec, wanted, target),
            considered=target.capability == (9, 0) and wanted[0],
        ),
        Candidate("xla", None, plain=True),
    )
    operation = "layer_norm" if spec.centred else "rms_norm"
    kernel = _choose(operation, words, target, kernels, partitioned=request.partitioned)
    return kernel if request.backward else None


def _run(backward: Callable[..., Arrays], *, spec: NormSpec, wanted: tuple[bool, ...]) -> Implementation:
    n = len(wanted)

    def run(*arrays: jax.Array) -> Arrays:
        return backward(arrays[:n], arrays[n:], wanted, spec=spec)

    return run
