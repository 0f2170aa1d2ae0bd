"""The choice among the implementations of a formula, and the refusal of one that cannot."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import BackendLimitation, FallbackWarning
from .formula import Implementation, Request

__all__ = ["Candidate", "pick"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """An implementation for a request.

    Attributes
    ----------
    word
        Its name.
    platform
        The only platform where ``"auto"`` considers it.
    reasons
        Why it cannot do the request; empty where it can.
    run
        The kernel.
    preferred
        Whether ``"auto"`` takes it; where it does not, plain XLA is as fast.
    """

    word: str
    platform: str
    reasons: Sequence[str]
    run: Implementation
    preferred: bool = True


def pick(operation: str, word: str, request: Request, candidates: Sequence[Candidate]) -> Implementation | None:
    """Return the kernel for a request, or None for the plain form.

    Raises
    ------
    BackendLimitation
        The one that `word` names cannot do it; the text has every reason.
    """
    if word == "xla":
        return None
    divided = [
        "XLA divides the arrays among devices, which it cannot do with a kernel; call it inside of jax.shard_map"
    ]
    divided = divided if request.partitioned else []
    if word != "auto":
        (named,) = (c for c in candidates if c.word == word)
        reasons = [*named.reasons, *divided]
        if reasons:
            raise BackendLimitation(
                operation,
                "implementation",
                got=f"{word!r}, which cannot: {'; '.join(reasons)}",
                wanted="one that can",
                remedy='Pass implementation="auto".',
                backend=word,
                reason="; ".join(reasons),
            )
        return named.run
    refused = []
    for candidate in candidates:
        if candidate.platform == request.target.platform and candidate.preferred:
            reasons = [*candidate.reasons, *divided]
            if not reasons:
                return candidate.run
            refused.append((candidate.word, tuple(reasons)))
    if refused:
        _notice(operation, tuple(refused))
    return None


@functools.lru_cache(maxsize=256)
def _notice(operation: str, refused: tuple[tuple[str, tuple[str, ...]], ...]) -> None:
    reasons = "; ".join(f"{word}: {', '.join(why)}" for word, why in refused)
    text = f"{operation} runs as plain XLA, as no kernel can run it ({reasons})"
    warnings.warn(FallbackWarning(text), stacklevel=2)
