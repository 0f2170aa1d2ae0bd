"""Checks of parameters that choose: one word of several, yes or no."""

from __future__ import annotations

from collections.abc import Container, Sequence

import numpy as np

from ..errors import InvalidArgument

__all__ = ["flag", "implementation", "is_one_of"]


def is_one_of(value: object, words: Container[str]) -> bool:
    """Tell whether `value` is a word of `words`; an array, which compares element by element, is none."""
    return isinstance(value, str) and value in words


def implementation(operation: str, value: object, words: Sequence[str]) -> str:
    """Return the parameter `implementation` of a kernel, one of `words`.

    Raises
    ------
    InvalidArgument
        It is none of them.
    """
    if isinstance(value, str) and value in words:
        return value
    raise InvalidArgument(
        operation,
        "implementation",
        got=repr(value),
        wanted=", ".join(map(repr, words)),
        arg="implementation",
        reason="unknown implementation",
    )


def flag(operation: str, argument: str, value: object) -> bool:
    """Return a parameter that is True or False.

    Raises
    ------
    InvalidArgument
        It is neither a bool of the host nor 0 or 1: an array, or a value that is not known while tracing.
    """
    if value is True or value is False:
        return value is True
    if isinstance(value, (np.bool_, int, np.integer)) and value in (0, 1):
        return bool(value)
    raise InvalidArgument(
        operation,
        argument,
        got=f"{value!r} ({type(value).__name__})",
        wanted="True or False",
        remedy="Give a bool of the host: it decides what is compiled.",
        arg=argument,
        reason="not a bool",
    )
