"""Operations on handles that were given up with ``take``: which memory they may use, and the calls that use it.

An operation marks every handle that it was given as dead (`spend`), and runs the form of its compiled call that
donates what nobody else can see and what fits a result (`donating`). All else is as without ``take``.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence

import jax
import numpy as np

from .. import _config
from .._compat import ArrayImpl, has_gil, x64
from .handle import COUNTED, MOVED, Given, Handle, giving, is_local, moved

__all__ = ["donating", "is_exclusive", "is_given", "spend", "use_up"]

_MAX_FORMS = 2048
_GIL = has_gil()
_getrefcount = sys.getrefcount


def is_given(x: object) -> bool:
    """Tell whether an operand is a handle that an operation uses up."""
    return isinstance(x, Handle) and type(x._data) is Given


def spend(operands: Sequence[object], places: Iterable[int], arrays: list[object], operation: str) -> tuple[int, ...]:
    """Use up the handles at some places of the operands; return the places of arrays that nobody else can see.

    Parameters
    ----------
    operands, places
        All operands, and where the handles are that were given up.
    arrays
        The raw arrays of the operands. The caller keeps no other reference to them.

    Raises
    ------
    UseAfterMove
        One handle is at two places.
    """
    candidates: list[int] = []
    for i in places:
        handle = operands[i]
        assert isinstance(handle, Handle)
        if use_up(handle, operation) and is_exclusive(handle):
            candidates.append(i)
    if not (_GIL and _config.donation()) or _config.debug_nans():
        return ()
    return tuple([i for i in candidates if type(arrays[i]) is ArrayImpl and _getrefcount(arrays[i]) <= _ALONE])


def use_up(handle: Handle, operation: str) -> bool:
    """Mark a handle as dead that was given to an operation; False where it belongs to another trace, and stays.

    Raises
    ------
    UseAfterMove
        It is dead already.
    """
    if handle._data is not MOVED and not is_local(handle):
        return False
    with giving:
        cell = handle._data
        if type(cell) is not Given:
            raise moved(operation)
        handle._data = MOVED
        cell.data = MOVED  # frames of the call still hold the cell
    return True


def is_exclusive(handle: Handle) -> bool:
    """Tell whether references to the array of a handle tell who else has its memory."""
    return handle._owned is True or handle._owned is COUNTED


def _calibrate() -> int:
    """What getrefcount tells in `spend` of an array that only the list of arrays holds."""
    arrays = [object()]
    return [_getrefcount(arrays[i]) for i in [0]][0]


_ALONE = _calibrate()


def donating(
    compiled: Callable[..., object], wide: bool, arrays: Sequence[object], free: tuple[int, ...]
) -> Callable[..., object]:
    """Return the form of a compiled call that may put its results into the memory of the operands at `free`.

    Only operands are donated that have the shape and dtype of a result; others die with their last reference.
    """
    facts = tuple([None if x is None else (x.shape, x.dtype) for x in arrays])  # type: ignore[attr-defined]
    return _form(compiled, wide, facts, free)


@functools.lru_cache(maxsize=_MAX_FORMS)
def _form(
    compiled: Callable[..., object],
    wide: bool,
    facts: tuple[tuple[tuple[int, ...], np.dtype] | None, ...],
    free: tuple[int, ...],
) -> Callable[..., object]:
    with x64(wide):
        shapes = [None if fact is None else jax.ShapeDtypeStruct(*fact) for fact in facts]
        results = [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(jax.eval_shape(compiled, *shapes))]
    places = []
    for i in free:
        if facts[i] in results:
            results.remove(facts[i])  # type: ignore[arg-type]
            places.append(i)
    if not places:
        return compiled

    def call(*operands: jax.Array) -> object:
        return compiled(*operands)

    call.__name__ = call.__qualname__ = getattr(compiled, "__name__", "call")
    return jax.jit(call, donate_argnums=tuple(places))


def clear() -> None:
    """Forget the donating forms of compiled calls."""
    _form.cache_clear()
