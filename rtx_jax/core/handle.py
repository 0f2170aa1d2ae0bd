"""Handle: the mutable cell that an Array is, and the rules by which its buffer may be reused.

Ownership
---------
`_owned` is True only when the buffer is the fresh output of one of our compiled calls and nobody else has been
given it. An update of an owning handle donates the buffer, so it runs in place. `_owned` is False when the buffer
was shared or came from outside, `INTERNED` when it is a cached constant, and under a trace it is the trace in
which the handle was made (a write under another trace would leave a tracer in somebody's handle). `COUNTED` means
that only references to this very array tell who else has the buffer: clones of one handle, and what the user gave
to `Array`. A write copies then; an operation that was given the handle donates where the references say "alone".

Giving up
---------
`give` takes the value out of a handle, which is dead from then on (`MOVED`), and returns a handle that holds it as
`Given`: the next operation uses that up, and may put its result into its memory; see `core/ownership.py`. Looking at
a `Given` (its shape, its values) leaves it as it is. Neither state is an `ArrayImpl`, so fast paths pass them on.

Threads
-------
An update first takes the array out of the handle, leaving `PENDING`, and then looks at the reference count of the
array: another thread that read it before holds a reference, and then the update copies instead of donating. A
thread that reads after the exchange finds `PENDING` and waits. So readers pay nothing, and never meet a deleted
buffer. Plain JAX fails, and can hang, when a buffer is donated while another thread uses it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import jax
from jax.core import Tracer

from .. import _config
from .._compat import X64_UNSET, ArrayImpl, current_trace, has_gil, restore_x64, swap_x64, trace_is_clean
from ..errors import Internal, TracedMutation, UseAfterMove
from .lazy import Lazy, disown, resolve, tapes

__all__ = [
    "COUNTED",
    "INTERNED",
    "MOVED",
    "PENDING",
    "Given",
    "Handle",
    "Scope",
    "Tracing",
    "check_write",
    "data_of",
    "facts_of",
    "give",
    "giving",
    "held",
    "is_local",
    "lend",
    "moved",
    "rebind",
    "settled",
    "share",
    "tracing",
    "update",
    "used",
]

_WAIT_LIMIT_S = 120.0


class _Mark:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def __bool__(self) -> bool:
        return False


PENDING = _Mark("PENDING")
INTERNED = _Mark("INTERNED")
COUNTED = _Mark("COUNTED")
MOVED = _Mark("MOVED")


class Given:
    """The value of a handle that was given up, in the handle that the next operation uses up."""

    __slots__ = ("data",)

    def __init__(self, data: object) -> None:
        self.data = data


class Handle:
    """A cell that holds one array. Base of `rtx_jax.Array`, which gives it a face."""

    __slots__ = ("__weakref__", "_data", "_id", "_owned")

    _data: Any  # a jax.Array; a Lazy that fusion has not computed; PENDING for the moment of an update; Given; MOVED
    _owned: object
    _id: int  # set when it is first asked for


_H = TypeVar("_H", bound=Handle)


class Scope(Protocol):
    """What a transform of ours provides while it traces a function; see `rtx_jax.transforms`."""

    def lift(self, handle: Handle, data: jax.Array) -> jax.Array:
        """Return what stands for `handle` in the running trace."""

    def allow_write(self, handle: Handle) -> bool:
        """Prepare a write to a handle made outside of the running trace; False when it must be refused."""

    def store(self, handle: Handle, data: jax.Array) -> None:
        """Keep the new value of such a handle until the trace ends; no tracer may enter the handle."""

    def allow_take(self, handle: Handle) -> bool:
        """Tell whether a handle was made in the running trace, so that it can be given up there."""

    def random_key(self, stream: object) -> jax.Array | None:
        """Return data of a fresh key of a random stream, or None when the scope has no source of keys."""


class Tracing:
    """Whether anything is being traced. `active` is nonzero while a trace may run in some thread.

    `guard` is asked before an eager operation makes an array, by its name and operands; None where all may. Whoever
    sets it raises `active`, so that the fast paths need not look.
    """

    __slots__ = ("_plain", "active", "guard", "local")

    def __init__(self) -> None:
        self.active = 0
        self.guard: Callable[[str, Sequence[object]], None] | None = None
        self.local = threading.local()
        self._plain: set[int] = set()

    @property
    def scopes(self) -> list[Scope]:
        """The transforms of ours that are tracing in this thread, outermost first."""
        try:
            stack: list[Scope] = self.local.stack
        except AttributeError:
            stack = self.local.stack = []
        return stack

    def push(self, scope: Scope) -> None:
        """Enter a transform."""
        self.scopes.append(scope)
        self.active += 1

    def pop(self) -> Scope:
        """Leave a transform."""
        self.active -= 1
        return self.scopes.pop()

    def tracer_seen(self) -> None:
        """Note that JAX itself is tracing in this thread."""
        ident = threading.get_ident()
        if ident not in self._plain:
            self._plain.add(ident)
            self.active += 1

    def settle(self) -> bool:
        """Return True when nothing is being traced in this thread, and forget tracers seen before."""
        if not trace_is_clean():
            return False
        ident = threading.get_ident()
        if ident in self._plain:
            self._plain.discard(ident)
            self.active -= 1
        return True

    def traced(self) -> bool:
        """Return True while something is being traced in this thread; `active` is nonzero under fusion too."""
        return self.active > 0 and not self.settle()

    def mark(self) -> object:
        """The value of `_owned` for a handle made now: True when eager, else the running trace."""
        if self.settle():
            return True
        return current_trace()


tracing = Tracing()


def data_of(handle: Handle) -> jax.Array:
    """Return the array of a handle in any mode: waits for a running update, captures under a transform."""
    data: jax.Array = handle._data
    if type(data) is not ArrayImpl:
        data = held(handle)
    if tracing.active:
        scopes = tracing.scopes
        if scopes:
            return scopes[-1].lift(handle, data)
    return data


def held(handle: Handle) -> jax.Array:
    """Return what a handle holds, as the running trace does not see it: waits for an update, looks into a `Given`.

    Raises
    ------
    UseAfterMove
        The handle was given up.
    """
    data = handle._data
    if data is PENDING:
        data = _wait(handle)
    if type(data) is Given:
        if type(data.data) is Lazy:
            data.data = resolve(data.data)
        data = data.data
    elif type(data) is Lazy:
        if tracing.guard is not None:
            tracing.guard("fusion", ())
        value = resolve(data)
        if handle._data is data:  # no call comes between, so no other thread either
            handle._data = value
        data = value
    if data is MOVED:
        raise moved()
    array: jax.Array = data
    return array


def facts_of(handle: Handle) -> jax.Array | Lazy:
    """Return what tells the shape and dtype of a handle: its array, or a value that is not computed yet."""
    data = handle._data
    if type(data) is Given:
        data = data.data
    return data if type(data) is Lazy else data_of(handle)


def moved(operation: str = "use") -> UseAfterMove:
    """Return the error for a handle that was given up."""
    return UseAfterMove(
        operation,
        "x",
        got="an Array that was given up with take()",
        wanted="an Array that is alive",
        remedy="Use the result of the operation that took it, or give a clone() to that.",
    )


def _wait(handle: Handle) -> object:
    deadline = time.monotonic() + _WAIT_LIMIT_S
    while (data := handle._data) is PENDING:
        if time.monotonic() > deadline:
            raise Internal("read", "x", got="an Array whose update did not end", remedy="Report this, please.")
        time.sleep(0)
    arrived: object = data
    return arrived


def share(handle: Handle) -> jax.Array:
    """Return the array of a handle for somebody else to keep: the handle no longer owns it alone."""
    data = data_of(handle)
    if handle._owned is True or handle._owned is COUNTED:
        handle._owned = False
    if tapes:
        disown(data)
    return data


def lend(handle: Handle) -> jax.Array:
    """Return the array of a handle for somebody who may keep it, but makes no other array of the same memory."""
    data = data_of(handle)
    if handle._owned is True:
        handle._owned = COUNTED
    return data


def used(handle: Handle) -> jax.Array:
    """Return the array of a handle for an operation, which uses up a handle that was given to it."""
    data = data_of(handle)
    if type(handle._data) is Given and is_local(handle):
        handle._data = MOVED
    return data


def settled(handle: _H) -> _H:
    """Return a handle that an operation may read several times: a new one for a handle that was given to it."""
    data = handle._data
    if type(data) is not Given:
        return handle
    plain = object.__new__(type(handle))
    if is_local(handle):
        plain._data, plain._owned = data.data, handle._owned
        handle._data = MOVED
    else:
        plain._data, plain._owned = data_of(handle), tracing.mark()
    return plain


def give(handle: Handle, target: Handle) -> None:
    """Move what a handle holds into `target`, as `Given`; the handle is dead then.

    Raises
    ------
    UseAfterMove
        It was given up before.
    TracedMutation
        A trace runs in which the handle was not made.
    """
    if not is_local(handle):
        raise TracedMutation(
            "take",
            "x",
            got="an Array from outside of the function that is being traced",
            wanted="an Array made inside or received as an argument",
            remedy="Pass it as an argument, or give it up outside.",
        )
    # What is held stays as it is, so that a value that is not computed yet is not asked for.
    while True:
        if handle._data is PENDING:
            _wait(handle)
        with giving:
            data = handle._data
            if data is PENDING:
                continue
            if data is MOVED:
                raise moved("take")
            handle._data = MOVED
        break
    target._data = data if type(data) is Given else Given(data)
    target._owned = handle._owned


giving = threading.Lock()
"""Held while a handle is given up or used up, so that of two threads one gets it."""


def is_local(handle: Handle) -> bool:
    """Tell whether nothing is being traced, or the handle was made in the trace that runs."""
    if tracing.settle() or handle._owned is current_trace():
        return True
    scopes = tracing.scopes
    return bool(scopes) and scopes[-1].allow_take(handle)


def check_write(handle: Handle, operation: str) -> None:
    """Raise TracedMutation when a trace runs that the handle was not made in and that cannot carry the write out."""
    if tracing.settle():
        return
    trace = current_trace()
    if handle._owned is trace:
        return
    scopes = tracing.scopes
    if scopes and scopes[-1].allow_write(handle):
        return
    raise TracedMutation(
        operation,
        "x",
        got="an Array from outside of the function that is being traced",
        wanted="an Array made inside or received as an argument",
        remedy="Pass it as an argument and return the new value, or trace with rtx_jax.jit, which writes back.",
    )


def rebind(handle: Handle, data: jax.Array, operation: str) -> None:
    """Store a new array in a handle under any mode; `data` is the handle's own afterwards."""
    if isinstance(data, Tracer) or tracing.active or not trace_is_clean():
        check_write(handle, operation)
        _store(handle, data)
    else:
        handle._data = data
        handle._owned = True


def _store(handle: Handle, data: jax.Array) -> None:
    """Rebind a handle that `check_write` let pass."""
    mark = tracing.mark()
    if mark is not True and handle._owned is not mark and tracing.scopes:
        tracing.scopes[-1].store(handle, data)
    else:
        handle._data = data
        handle._owned = mark


def _references(handle: Handle) -> int:
    data = handle._data
    handle._data = PENDING
    return sys.getrefcount(data)


def _calibrate() -> int:
    probe = Handle()
    probe._data = object()
    return _references(probe)


# What getrefcount tells for an array that only the handle held, in the very code path of `update`.
_ALONE = _calibrate()
_GIL = has_gil()
_getrefcount = sys.getrefcount


def update(
    handle: Handle,
    plain: Callable[..., jax.Array],
    donating: Callable[..., jax.Array],
    operands: Sequence[object],
    wide: bool,
    operation: str,
) -> None:
    """Replace the array of a handle by ``f(array, *operands)``, in place where nobody else can see the array.

    Parameters
    ----------
    plain, donating
        Two compiled forms of one function; the second donates its first operand. The result has the shape and
        dtype of the first operand.
    operands
        Raw arrays, NumPy scalars or Python scalars. The same array as the handle's own is allowed.
    wide
        Whether 64-bit types take part, so that x64 must be entered.
    operation
        Name for errors.

    Raises
    ------
    TracedMutation
        Under a trace that the handle does not belong to. Nothing has changed then.
    """
    data = handle._data
    if type(data) is Given:  # the write is what it was given to
        handle._data = data = data.data
    if type(data) is not ArrayImpl or (tracing.active and (tracing.scopes or not tracing.settle())):
        _update_traced(handle, plain, operands, wide, operation)
        return
    for operand in operands:
        # A tracer here would run the donating call on somebody's primal value (grad and vmap without jit).
        if type(operand) is not ArrayImpl and isinstance(operand, Tracer):
            _update_traced(handle, plain, operands, wide, operation)
            return
    taken = False
    # Ctrl-C raises when a call returns to the interpreter, before its result has a name, and donated memory is gone
    # by then. So the list is filled inside of one call, and the result is stored by what runs in any case.
    results: list[jax.Array] = []
    previous = X64_UNSET
    try:
        if wide:
            previous = swap_x64(True)
        if handle._owned is True and _GIL:
            taken = True
            handle._data = PENDING
            if _getrefcount(data) <= _ALONE and _config.donation():
                if len(operands) == 1:  # an in-place operator
                    results.extend(map(donating, (data,), operands))
                else:
                    results.extend(map(donating, (data,), *zip(operands, strict=True)))
            else:
                results.append(plain(data, *operands))
        else:
            results.append(plain(data, *operands))
    finally:
        # No call may come before the stores: it could be interrupted, and the handle would stay PENDING.
        if results and results[0].__class__ is ArrayImpl:
            # In this order: a thread that shares the new array between the stores must not be overruled.
            handle._data = PENDING
            handle._owned = True
            handle._data = results[0]
        elif taken:
            handle._data = data
        if wide:
            restore_x64(previous)
    result = results[0]
    if type(result) is ArrayImpl:
        return
    # A trace of plain JAX runs, which nothing told us about before.
    handle._data = data
    handle._owned = False
    tracing.tracer_seen()
    check_write(handle, operation)
    raise Internal(operation, got=type(result).__name__, wanted="jax.Array")


def _update_traced(
    handle: Handle, plain: Callable[..., jax.Array], operands: Sequence[object], wide: bool, operation: str
) -> None:
    if not tracing.settle() or any(isinstance(operand, Tracer) for operand in operands):
        check_write(handle, operation)
    data = data_of(handle)
    previous = X64_UNSET
    try:
        if wide:
            previous = swap_x64(True)
        result = plain(data, *operands)
    finally:
        if wide:
            restore_x64(previous)
    _store(handle, result)
