"""Which implementation turns: one table of what each can do, and where it is the first choice."""

from __future__ import annotations

from ..formula import Implementation, Request
from ..words import chosen

__all__ = ["IMPLEMENTATIONS", "choose", "implementation"]

IMPLEMENTATIONS = ("auto", "xla")


def implementation(word: object) -> str:
    """Return the word for an implementation, or raise InvalidArgument."""
    return chosen("rope", word, IMPLEMENTATIONS)


def choose(request: Request, *, layout: str, words: str, aliased: bool) -> Implementation | None:
    """Return the kernel for a rotation, or None for the plain form."""
    del request, layout, words, aliased
    return None
