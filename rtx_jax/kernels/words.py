"""The parameter ``implementation`` of the kernels: its words, and the refusal of one that cannot."""

from __future__ import annotations

from collections.abc import Sequence

from ..checks.choices import is_one_of
from ..errors import BackendLimitation, InvalidArgument

__all__ = ["chosen", "refusal"]


def chosen(operation: str, word: object, words: Sequence[str]) -> str:
    """Return the word of an implementation.

    Raises
    ------
    InvalidArgument
        It is none of the words.
    """
    if not is_one_of(word, words):
        raise InvalidArgument(
            operation,
            "implementation",
            got=repr(word),
            wanted=", ".join(words),
            arg="implementation",
            reason="unknown implementation",
        )
    return str(word)


def refusal(operation: str, word: str, reasons: Sequence[str]) -> BackendLimitation:
    """Return the error that an implementation which was asked for cannot do a call, with every reason."""
    return BackendLimitation(
        operation,
        "implementation",
        got=repr(word),
        wanted="; ".join(reasons),
        remedy='Pass implementation="auto" to have one that can.',
        backend=word,
        reason="; ".join(reasons),
    )
