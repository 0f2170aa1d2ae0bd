"""Names that are near a misspelt one."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

__all__ = ["closest"]


def closest(name: str, known: Sequence[str], /) -> str:
    """Return up to three names like `name`, separated by commas."""
    found = difflib.get_close_matches(name, known, 3)
    found += [other for other in known if other.rpartition(".")[2] == name and other not in found]
    return ", ".join(found[:3])
