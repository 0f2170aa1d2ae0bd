"""Writes to a temporary: ``x[a][b] = v`` changes a copy that nothing else refers to, and is worth a warning."""

from __future__ import annotations

import dis
import sys
import types
import warnings

from .errors import ChainedAssignmentWarning

__all__ = ["TEMPORARY", "warn_if_chained"]

_STORES = {dis.opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in dis.opmap}
_counts: list[int] = []


class _Probe:
    def __setitem__(self, key: int, value: object) -> None:
        _counts.append(sys.getrefcount(self))


def _temporary_count() -> int:
    _Probe()[0] = None
    named = _Probe()
    named[0] = None
    temporary, held = _counts
    return temporary if held > temporary else 0


TEMPORARY = _temporary_count()
"""What getrefcount tells in `__setitem__` of an object that nothing else refers to; 0 when it cannot tell."""


def warn_if_chained(frame: types.FrameType) -> None:
    """Warn when `frame` is at ``x[key] = value``; a call of ``x.__setitem__`` counts references differently."""
    if frame.f_code.co_code[frame.f_lasti] in _STORES:
        warnings.warn(
            "a write to a temporary Array has no effect: x[a][b] = v writes to the copy x[a]. "
            "Write x[a, b] = v in one statement.",
            ChainedAssignmentWarning,
            stacklevel=3,
        )
