"""The measured number of words that the loss takes at once."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import jax

from .. import tuning
from ..formula import Arrays, Implementation, Request
from ..target import Target
from . import xla
from .xla import LossSpec

__all__ = ["Blocks", "choose", "default_blocks", "kernel_name", "shape_class", "with_words"]

# Logits that are held at once: 64 MiB of float32.
_HELD = 2**24


@dataclass(frozen=True, slots=True)
class Blocks:
    """The size of one step.

    Attributes
    ----------
    words
        Of the vocabulary that are taken at once.
    """

    words: int


def default_blocks(tokens: int, size: int) -> Blocks:
    """Return as many words as keep the logits that are held in bounds, at most the vocabulary."""
    return Blocks(min(max(_HELD // max(tokens, 1) // 128 * 128, 128), size))


def kernel_name(direction: str, /) -> str:
    """Return the name in the file of measured sizes, as ``"cross_entropy.xla.forward"``."""
    return f"cross_entropy.xla.{direction}"


def shape_class(hidden: jax.core.ShapedArray, weight: jax.core.ShapedArray, spec: LossSpec, /) -> str:
    """Name what the best block of a call depends on, from the shapes ``(T, D)`` and ``(V, D)``."""
    extras = ["bias" if spec.bias else "", "softcap" if spec.softcap is not None else ""]
    tokens, width = hidden.shape
    return tuning.shape_class(hidden.dtype.name, *extras, tokens=tokens, width=width, vocabulary=weight.shape[0])


def choose(request: Request, *, spec: LossSpec) -> Implementation | None:
    """Return the loss, or its backward pass, with the measured block; None where nothing was measured."""
    hidden, weight = request.operands[:2]
    direction = "backward" if request.backward else "forward"
    blocks = _tuned(request.target, direction, shape_class(hidden, weight, spec), Blocks(spec.block))
    if blocks is None:
        return None
    spec = with_words(spec, blocks, weight.shape[0])
    if not request.backward:
        return functools.partial(xla.forward, spec=spec)
    return functools.partial(_backward, spec=spec, wanted=request.wanted)


def with_words(spec: LossSpec, blocks: Blocks, size: int, /) -> LossSpec:
    """Return the static part of a call with other blocks, made to fit the vocabulary."""
    return replace(spec, block=min(blocks.words, size))


def _tuned(target: Target, direction: str, shapes: str, default: Blocks) -> Blocks | None:
    kernel, kind = kernel_name(direction), target.kind or target.platform
    return tuning.tuned(kernel, kind, shapes, default) if tuning.has(kernel, kind, shapes) else None


def _backward(*arrays: jax.Array, spec: LossSpec, wanted: tuple[bool, ...]) -> Arrays:
    end = 3 + spec.bias
    return xla.backward(arrays[:end], arrays[end : end + 1], arrays[end + 1 :], wanted, spec=spec)
