"""Which implementation of the norms' backward pass runs: one table of what each can do, and where it comes first."""

from __future__ import annotations

import functools

import jax

from ..formula import Arrays, Implementation, Request
from ..words import chosen
from . import xla
from .spec import NormSpec

__all__ = ["IMPLEMENTATIONS", "choose", "implementation"]

IMPLEMENTATIONS = ("auto", "xla")


def implementation(operation: str, word: object) -> str:
    """Return the word for an implementation, or raise InvalidArgument."""
    return chosen(operation, word, IMPLEMENTATIONS)


def choose(request: Request, *, spec: NormSpec, words: str) -> Implementation | None:
    """Return the kernel for a backward pass, or None for the plain form."""
    del words
    if not request.backward:
        return None
    if request.target.platform == "cpu" and not request.partitioned:
        return functools.partial(_by_blocks, spec=spec, wanted=request.wanted)
    return None


def _by_blocks(*arrays: jax.Array, spec: NormSpec, wanted: tuple[bool, ...]) -> Arrays:
    n = len(wanted)
    return xla.backward_by_blocks(arrays[:n], arrays[n:], wanted, spec=spec)
