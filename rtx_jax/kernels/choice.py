"""The choice among implementations: the first that can, one notice where only plain XLA can, refusals with all reasons.

A folder of kernels says in its `select.py` which there are, in which order, and what each cannot do.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..errors import BackendLimitation, FallbackWarning
from .target import Target

__all__ = ["Candidate", "choose"]

T = TypeVar("T")

_DIVIDED = "XLA divides the arrays among devices, which it cannot do in a kernel: use jax.shard_map"


@dataclass(frozen=True, slots=True)
class Candidate(Generic[T]):
    """An implementation for a call.

    Attributes
    ----------
    word
        Its name.
    choice
        What is returned where it is chosen.
    reasons
        Why it cannot run the call; empty where it can.
    plain
        Whether it is no kernel, but operations of XLA.
    considered
        Whether ``"auto"`` considers it.
    """

    word: str
    choice: T
    reasons: Sequence[str] = ()
    plain: bool = False
    considered: bool = True


def choose(
    operation: str,
    word: str,
    target: Target,
    candidates: Iterable[Candidate[T]],
    *,
    partitioned: bool = False,
    suits: Callable[[T], bool] | None = None,
) -> T:
    """Return the choice of the implementation that runs a call.

    Parameters
    ----------
    operation
        Its name, for errors.
    word
        The implementation that is asked for, or ``"auto"``: the first of those considered that can.
    target
        The device.
    candidates
        In order, the fastest first; no more of them are taken than it needs.
    partitioned
        Whether XLA divides the arrays among devices by itself, which no kernel can follow.
    suits
        What is looked for first among those that can; the first that can is taken where none has it.

    Raises
    ------
    BackendLimitation
        None can; the text has every reason.

    Warns
    -----
    FallbackWarning
        ``"auto"`` takes a plain one because the kernels before it cannot; once for each set of reasons.
    """
    refused: list[tuple[str, tuple[str, ...]]] = []
    able: Candidate[T] | None = None
    for candidate in candidates:
        if not candidate.considered if word == "auto" else candidate.word != word:
            continue
        reasons = (*candidate.reasons, *([_DIVIDED] if partitioned and not candidate.plain else []))
        if reasons:
            refused.append((candidate.word, reasons))
            continue
        if suits is None or suits(candidate.choice):
            able = candidate
            break
        able = able or candidate
    if able is None:
        raise _refusal(operation, word, target, refused)
    if able.plain and refused:
        _notice(operation, target.platform, tuple(refused))
    return able.choice


def _in_words(refused: Sequence[tuple[str, tuple[str, ...]]]) -> str:
    return ". ".join(f"{word}: {'; '.join(reasons)}" for word, reasons in refused)


def _refusal(
    operation: str, word: str, target: Target, refused: Sequence[tuple[str, tuple[str, ...]]]
) -> BackendLimitation:
    reasons = _in_words(refused)
    remedy = "Leave out what they cannot do." if word == "auto" else "Use 'auto', or leave out what it cannot do."
    return BackendLimitation(
        operation,
        "implementation",
        got=f"{word!r} on {target.kind or target.platform or 'an unknown platform'}",
        wanted="one that can run this call",
        remedy=f"{reasons}. {remedy}",
        backend=word,
        reason=reasons,
    )


@functools.lru_cache(maxsize=256)
def _notice(operation: str, platform: str, refused: tuple[tuple[str, tuple[str, ...]], ...]) -> None:
    text = f"{operation} on {platform} runs as plain XLA, as no kernel can run it ({_in_words(refused)})"
    warnings.warn(FallbackWarning(text), stacklevel=2)
