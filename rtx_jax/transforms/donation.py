"""Donation: a compiled call reuses the memory of what it writes to or is given, where nobody else can see it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax

from .._array import Array
from .._compat import ArrayImpl, has_gil
from ..core.dispatch import raise_translated
from ..core.handle import COUNTED, PENDING, Handle

__all__ = ["Given", "Written", "give_up", "run_donating"]

# A handle that the call writes to, its operand and the output with its new value; a donated operand and its handle.
Written: TypeAlias = tuple[Handle, int, int]
Given: TypeAlias = tuple[Array | None, int]

_copy = jax.jit(lambda x: x)
_GIL = has_gil()
_getrefcount = sys.getrefcount


def run_donating(
    function: Callable[..., list[jax.Array]],
    name: str,
    operands: list[Any],
    written: Sequence[Written],
    given: Sequence[Given],
) -> list[jax.Array]:
    """Call `function`, which donates every operand in `written` and `given`.

    An array that somebody else can see is copied first, which costs what an update out of place would; so there is
    one compiled form for owned and shared Arrays. The handles in `written` have their new values afterwards.
    """
    results: list[list[jax.Array]] = []
    kept = {i for _, i, _ in written}
    candidates: list[tuple[Handle, int]] = [(handle, i) for handle, i, _ in written]
    candidates += [(handle, i) for handle, i in given if handle is not None and i not in kept]
    try:
        for handle, i in candidates:
            if not _take(handle, operands, i):
                operands[i] = _copy(operands[i])
        # Filled inside of one call: Ctrl-C raises before the result of a call has a name; see `update` of handles.
        results.extend(map(function, *zip(operands, strict=True)))
    except Exception as error:
        raise_translated(name, error)
    finally:
        try:
            _leave(results, operands, written, candidates)
        except BaseException:
            _leave(results, operands, written, candidates)  # it was interrupted
            raise
    for owner, i in given:
        if i not in kept:
            _leave_deleted(owner, operands[i])
    return results[0]


def _leave(
    results: Sequence[Sequence[jax.Array]],
    operands: Sequence[Any],
    written: Sequence[Written],
    candidates: Sequence[tuple[Handle, int]],
) -> None:
    """Store the new values, and put back what was taken out of handles that have none; harmless when repeated."""
    if results:
        for handle, _, output in written:
            handle._data = PENDING
            handle._owned = True
            handle._data = results[0][output]
    for handle, i in candidates:
        if handle._data is PENDING:
            handle._data = operands[i]


def give_up(given: Sequence[Given], operands: Sequence[Any], written: Sequence[Written]) -> None:
    """Make donated handles unusable after a call that did not donate, without touching memory others may see."""
    kept = {i for _, i, _ in written}
    for handle, i in given:
        if i not in kept and handle is not None:
            _leave_deleted(handle, _copy(operands[i]))


def _leave_deleted(handle: Handle | None, data: jax.Array) -> None:
    if type(data) is ArrayImpl and not data.is_deleted():
        data.delete()
    if handle is not None:
        handle._data = data
        handle._owned = False


def _take(handle: Handle, operands: list[Any], i: int) -> bool:
    """Take the array out of a handle that owns it alone; False when somebody else can see it."""
    if not (handle._owned is True or handle._owned is COUNTED) or not _GIL or handle._data is not operands[i]:
        return False
    handle._data = PENDING
    if _getrefcount(operands[i]) <= _ALONE:
        return True
    handle._data = operands[i]
    return False


def _calibrate() -> int:
    """What getrefcount tells in `_take` of an array that only the handle and the list of operands held."""
    probe = Handle()
    operands: list[Any] = [object()]
    probe._data = operands[0]
    probe._data = PENDING
    return _getrefcount(operands[0])


_ALONE = _calibrate()
