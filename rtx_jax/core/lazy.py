"""Values that are computed when they are needed: the engine of fusion.

Each thread has one open `Tape`: a recording that grows until a value of it is needed. A `Lazy` is one value of a tape.
Running a tape computes the values that somebody still refers to (reference counts tell) and nothing else, so that what
an expression needs in between never gets memory of its own; memory of leaves that nobody else can see is reused for
results. A structure is run by pieces, through the same compiled calls as without fusion, until it has been seen often
enough; then it is compiled whole.

Threads
-------
Only its own thread records on a tape and runs it as a whole. Another thread that needs a value of it computes that one
value from the leaves, under the tape's lock. While a tape runs, its lock is held, and nobody meets a donated leaf.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jax.core import Tracer
from jax.sharding import SingleDeviceSharding

from .. import _config
from .._compat import EAGER_TRACE, ArrayImpl, has_gil, in_trace, running_trace
from ..errors import Internal
from . import fused, leaf_keys
from .fused import Fact, Failure, Place, Program, Unrecordable
from .leaf_keys import key_of, known
from .op import translate

__all__ = [
    "WHOLE_AFTER",
    "FusionStatistics",
    "Lazy",
    "Tape",
    "Unrecordable",
    "clear",
    "disown",
    "flush",
    "enter",
    "fusing",
    "leaf",
    "leave",
    "open_tape",
    "record",
    "resolve",
    "scalar",
    "slot_of",
    "tapes",
    "tree",
    "watch",
]

WHOLE_AFTER = 3
"""How often a structure is run before it is compiled whole, its last time by pieces not counted."""


BYTES = 1 << 29
"""Bytes of leaves that a tape may keep although nobody else refers to them."""


class Lazy:
    """A value that is computed when it is needed; knows its shape and dtype.

    Everything that looks at the elements computes them: printing, ``float`` and its like, NumPy, DLPack. What comes
    out of that is kept. A Lazy never changes.

    Attributes
    ----------
    fact
        Its shape, dtype and slot.
    state
        The tape that it is recorded on; the `jax.Array` once it was computed, or a `Failure`.
    """

    __slots__ = ("__weakref__", "fact", "state")

    fact: Fact
    state: object

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self.fact.shape

    @property
    def dtype(self) -> np.dtype:
        """Type of the elements."""
        return self.fact.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.fact.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        count: int = self.fact.size
        return count

    @property
    def committed(self) -> bool:
        """Whether the value is committed to its device."""
        state = self.state
        return self.fact.committed if type(state) is Tape else resolve(self).committed

    @property
    def sharding(self) -> jax.sharding.Sharding:
        """Where the value is, or will be."""
        state = self.state
        if type(state) is not Tape:
            return resolve(self).sharding
        device = state.device if self.fact.committed else None
        return SingleDeviceSharding(device or jax.local_devices()[0])

    @property
    def device(self) -> jax.Device:
        """Where the value is, or will be."""
        (found,) = self.sharding.device_set
        return found

    @property
    def platform(self) -> str:
        """Platform of the device."""
        return str(self.device.platform)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        count: int = self.fact.size * self.fact.dtype.itemsize
        return count

    @property
    def jax(self) -> jax.Array:
        """The computed array."""
        return resolve(self)

    def block_until_ready(self) -> Lazy:
        """Compute the value and wait for it."""
        resolve(self).block_until_ready()
        return self

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        return np.array(np.asarray(resolve(self)), dtype, copy=copy)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        capsule: object = resolve(self).__dlpack__(  # type: ignore[call-arg]
            stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, number = resolve(self).__dlpack_device__()  # type: ignore[attr-defined]
        return int(kind), int(number)

    def __bool__(self) -> bool:
        return bool(resolve(self))

    def __int__(self) -> int:
        return int(resolve(self).item())

    def __float__(self) -> float:
        return float(resolve(self).item())

    def __complex__(self) -> complex:
        return complex(resolve(self).item())

    def __index__(self) -> int:
        return resolve(self).__index__()

    def __len__(self) -> int:
        return len(resolve(self)) if not self.shape else self.shape[0]

    def item(self) -> bool | int | float | complex:
        """Return the only element as a Python scalar."""
        value: bool | int | float | complex = resolve(self).item()
        return value

    def tolist(self) -> object:
        """Return the values as nested lists of Python scalars."""
        return resolve(self).tolist()

    def __repr__(self) -> str:
        return repr(resolve(self))

    def __format__(self, spec: str) -> str:
        return format(resolve(self), spec)

    def __copy__(self) -> Lazy:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Lazy:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        from .host import unpickle  # which knows Lazy

        return unpickle, (np.asarray(resolve(self)),)


class Tape:
    """What one thread has recorded and not run yet.

    Attributes
    ----------
    place
        The structure so far.
    leaves
        Values from outside; the slot of ``leaves[i]`` is ``-i - 1``.
    owned
        For leaves, by id: True where nobody but the handle that it came from had the array when it was recorded.
    values
        The values of the result slots.
    slots
        Slots of leaves, by id.
    taken
        Slots of leaves that were given up, for the call that they were given to.
    device
        The device that leaves are committed to; None while there is no such leaf.
    bytes, limit
        Bytes of the leaves, and how many of them make it look for memory that it keeps alone.
    given
        Handles that were given up to the call that is being recorded.
    """

    __slots__ = (
        "__weakref__",
        "bytes",
        "device",
        "given",
        "leaves",
        "limit",
        "lock",
        "owned",
        "owner",
        "place",
        "slots",
        "taken",
        "thread",
        "values",
    )

    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        self.owner = threading.get_ident()
        self.lock = threading.Lock()
        self.reset()
        key = id(self)
        tapes[key] = weakref.ref(self, lambda _: tapes.pop(key, None))

    def reset(self) -> None:
        """Begin with nothing recorded."""
        self.place: Place = fused.root()
        self.leaves: list[object] = []
        self.owned: dict[int, bool] = {}
        self.values: list[Lazy] = []
        self.given: list[object] = []
        self.taken: set[int] = set()
        self.bytes = 0
        self.limit = BYTES
        self.device: jax.Device | None = None
        self.slots: dict[int, int] = {}


tapes: dict[int, weakref.ref[Tape]] = {}
"""The tapes of all threads."""


@dataclass(slots=True)
class FusionStatistics:
    """What a `fusion` context has done in its thread; the figures grow until it ends.

    Attributes
    ----------
    recorded
        Operations that were recorded and are done with; those whose results nobody wanted were not run.
    runs
        How often recorded operations were run, for whatever reason.
    grouped
        Operations that ran in a group of two or more.
    fused
        Operations that ran in a program that was compiled whole.
    compiled
        Programs that were compiled whole.
    """

    recorded: int = 0
    runs: int = 0
    grouped: int = 0
    fused: int = 0
    compiled: int = 0


class Thread:
    """What one thread knows.

    Attributes
    ----------
    tape
        Its open tape.
    depth, after, statistics
        How many `fusion` contexts it is in, how often a structure is seen before it is compiled whole, what they count.
    """

    __slots__ = ("after", "depth", "statistics", "tape")

    def __init__(self) -> None:
        self.tape: Tape | None = None
        self.depth = 0
        self.after = WHOLE_AFTER
        self.statistics: tuple[FusionStatistics, ...] = ()


class _Fusing(threading.local):
    """The state of this thread, and the tape on which operations on handles are recorded: None outside of `fusion`."""

    recording: Tape | None = None

    def __init__(self) -> None:
        self.thread = Thread()


fusing = _Fusing()

_new = object.__new__


class _Watch:
    """Whether NaNs may be watched in some context: what is recorded is not looked at."""

    __slots__ = ("nans",)

    def __init__(self) -> None:
        self.nans = False


watch = _Watch()


def _watch_nans() -> None:
    watch.nans = watch.nans or _config.debug_nans()


_config.SETTINGS["debug_nans"].listeners.append(_watch_nans)
_watch_nans()


# --- recording -------------------------------------------------------------------------------------------------------


def open_tape() -> Tape | None:
    """Return the tape of this thread, or None where nothing may be recorded: in a trace, or while NaNs are watched."""
    trace = running_trace.value
    if trace is not EAGER_TRACE and trace is not None:
        return None
    if watch.nans and _config.debug_nans():
        return None
    return fusing.thread.tape or _begin()


def _begin() -> Tape:
    thread = fusing.thread
    tape = thread.tape = Tape(thread)
    if thread.depth:
        fusing.recording = tape
    return tape


def enter(after: int, statistics: FusionStatistics) -> int:
    """Record the operations on handles in this thread from now on; return what `leave` needs."""
    thread = fusing.thread
    before, thread.after = thread.after, after
    thread.statistics = (*thread.statistics, statistics)
    thread.depth += 1
    fusing.recording = thread.tape or _begin()
    return before


def leave(before: int, statistics: FusionStatistics) -> None:
    """End what `enter` began."""
    thread = fusing.thread
    thread.after = before
    thread.statistics = tuple([other for other in thread.statistics if other is not statistics])
    thread.depth -= 1
    if not thread.depth:
        fusing.recording = None


def leaf(tape: Tape, data: jax.Array, owned: bool) -> int:
    """Return the slot of an array from outside.

    Raises
    ------
    Unrecordable
        It is spread over devices, on another one than what was recorded before, or deleted.
    """
    slot = tape.slots.get(id(data))
    if slot is not None:
        if not owned:
            tape.owned.pop(id(data), None)
        return slot
    found = known.get((id(data.aval), id(data.sharding), data.committed))
    if data.is_deleted():
        raise Unrecordable  # running it says what is wrong
    key = key_of(data) if found is None else found[0]
    device = key.device
    if device is not None and device is not tape.device:
        if tape.device is not None:
            raise Unrecordable
        tape.device = device
    place = tape.place
    following = place.next.get(key)
    if following is None:
        following = fused.leaf_place(place, key, data)
    leaves = tape.leaves
    leaves.append(data)
    tape.place = following
    slot = -len(leaves)
    tape.slots[id(data)] = slot
    tape.bytes += key.bytes
    if tape.bytes > tape.limit:
        _retire(tape)
    if owned and _config.donation():
        tape.owned[id(data)] = True
    return slot


def _retire(tape: Tape) -> None:
    """Go on with another tape where this one keeps much memory that nobody else refers to.

    What is recorded from now on computes the values of this one when it needs them.
    """
    leaves = tape.leaves
    dead = sum([leaves[i].nbytes for i in range(len(leaves)) if _getrefcount(leaves[i]) <= _ALONE])  # type: ignore[attr-defined]
    if 2 * dead < BYTES:
        tape.limit = tape.bytes + BYTES
    elif tape.thread.tape is tape:
        tape.thread.tape = None
        _begin()


def scalar(tape: Tape, data: jax.Array) -> int:
    """Return the slot of an interned 0-d operand. Each use has its own, so that equal values are no structure."""
    place = tape.place
    dtype = data.dtype
    following = place.next.get(dtype)
    if following is None:
        following = fused.leaf_place(place, dtype, data)
    leaves = tape.leaves
    leaves.append(data)
    tape.place = following
    return -len(leaves)


def tree(tape: Tape, value: object) -> int:
    """Return the slot of a tree of arrays from outside.

    Raises
    ------
    Unrecordable
        An array of it is a tracer, spread over devices, or on another one than what was recorded before.
    """
    slot = tape.slots.get(id(value))
    if slot is None:
        parts, structure = jax.tree.flatten(value)
        for part in parts:
            if type(part) is not np.ndarray:
                if type(part) is not ArrayImpl:
                    raise Unrecordable
                device = key_of(part).device
                if device is not None and device is not tape.device:
                    if tape.device is not None:
                        raise Unrecordable
                    tape.device = device
        place = tape.place
        key: Hashable = (structure, *[(part.shape, part.dtype, getattr(part, "committed", False)) for part in parts])
        tape.place = place.next.get(key) or fused.leaf_place(place, key, value)
        tape.leaves.append(value)
        slot = tape.slots[id(value)] = -len(tape.leaves)
    return slot


def slot_of(tape: Tape, data: object) -> int:
    """Return the slot of a raw operand: a value of this tape, or a leaf; of host memory the caller gives a copy.

    Raises
    ------
    Unrecordable
        It is a tracer, spread over devices, or on another one than what was recorded before.
    """
    if type(data) is Lazy:
        if data.state is tape:
            return data.fact.slot
        return leaf(tape, resolve(data), False)
    if type(data) is ArrayImpl:
        return leaf(tape, data, False)
    if isinstance(data, Tracer):
        raise Unrecordable
    return tree(tape, data)


def record(tape: Tape, fn: Callable[..., object], wide: bool, slots: tuple[int | None, ...]) -> Lazy | tuple[Lazy, ...]:
    """Append a call to a tape.

    Parameters
    ----------
    fn
        A traceable function of raw arrays with a stable identity.
    wide
        Whether it needs x64 whatever its operands are.
    slots
        Its operands; None where one is absent.

    Returns
    -------
    Its value, or a tuple of them where it returns several.

    Raises
    ------
    Unrecordable
        Its results are no arrays.
    Exception
        What the function raises for operands of these shapes and dtypes.
    """
    place = tape.place
    found = place.next.get((fn, *slots))
    if found is None:
        found = fused.extend(place, fn, wide, slots)
    tape.place = found
    values: list[Lazy] = []
    for fact in found.facts:
        lazy: Lazy = _new(Lazy)
        lazy.fact = fact
        lazy.state = tape
        values.append(lazy)
    tape.values.extend(values)
    if found.steps >= fused.CAP:
        run(tape)
    return values[0] if found.alone else tuple(values)


def disown(data: object) -> None:
    """Let no tape reuse the memory of an array: somebody may have made another array of it."""
    for reference in list(tapes.values()):
        tape = reference()
        if tape is not None:
            tape.owned.pop(id(data), None)


# --- running ---------------------------------------------------------------------------------------------------------


def resolve(lazy: Lazy) -> jax.Array:
    """Return the computed value; compute it, and all else that its tape holds, where that was not done yet.

    Raises
    ------
    Exception
        What the computation raised: each time it is asked for.
    """
    state = lazy.state
    if type(state) is ArrayImpl:
        return state
    if type(state) is Tape:
        if state.owner == threading.get_ident():
            run(state)
        else:
            _run_alone(state, lazy)
        state = lazy.state
    if type(state) is Failure:
        raise state.error.with_traceback(None)
    if not isinstance(state, jax.Array):
        raise Internal("fusion", "x", got="a value that was not computed", remedy="Report this, please.")
    return state


def run(tape: Tape) -> None:
    """Compute what somebody still refers to; the tape is empty afterwards."""
    thread = tape.thread
    current = thread.tape
    thread.tape = fusing.recording = None  # what runs may call back and record: on a tape of its own
    trace = running_trace.value
    done = False
    try:
        if trace is EAGER_TRACE or trace is None:
            with tape.lock:
                _run(tape, thread)
        else:
            with in_trace(None), tape.lock:
                _run(tape, thread)
        done = True
    finally:
        if current is not None and current is not tape:
            thread.tape = current
        elif thread.tape is None:
            thread.tape = tape if done else Tape(thread)
        if thread.depth:
            fusing.recording = thread.tape


def flush() -> None:
    """Run what this thread has recorded."""
    tape = fusing.thread.tape
    if tape is not None:
        run(tape)


def _run(tape: Tape, thread: Thread) -> None:
    place, values, leaves = tape.place, tape.values, tape.leaves
    wanted = tuple(_referred(values)) if _GIL else tuple(range(len(values)))
    if wanted:
        program = place.programs.get(wanted)
        if program is None:
            program = place.programs[wanted] = Program(place, wanted)
        program.count += 1
        candidates: Sequence[int] = ()
        if tape.owned and _GIL:
            candidates = _unseen(leaves, tape.owned)
        results = _results(program, tape, candidates)
        for slot, result in zip(wanted, results, strict=True):
            lazy = values[slot]
            if lazy.state is tape:
                lazy.state = result
        if thread.statistics:
            _count(thread, place.steps, program.operations)
    elif thread.statistics:
        _count(thread, place.steps, 0)
    tape.reset()


def _count(thread: Thread, recorded: int, operations: int) -> None:
    for statistics in thread.statistics:
        statistics.recorded += recorded
        if operations:
            statistics.runs += 1
        if operations > 1:
            statistics.grouped += operations


def _results(program: Program, tape: Tape, candidates: Sequence[int]) -> Sequence[object]:
    thread, leaves = tape.thread, tape.leaves
    if program.count >= thread.after and program.operations > 1 and program.alike:
        donated = program.fitting(candidates) if candidates else ()
        fn, new = program.whole(donated)
        try:
            results = program.run_whole(fn, leaves)
        except Exception as error:
            if any(leaves[number].is_deleted() for number in donated):  # type: ignore[attr-defined]
                return [Failure(translate("fusion", error))] * len(program.wanted)
            # By pieces it is found which values cannot be computed; the others are.
        else:
            for statistics in thread.statistics:
                statistics.compiled += new
                statistics.fused += program.operations
            return results
    owned = frozenset([-number - 1 for number in candidates])
    return program.run_pieces(leaves, owned, owned & tape.taken)


def _run_alone(tape: Tape, lazy: Lazy) -> None:
    """Compute one value of another thread's tape."""
    with in_trace(None), tape.lock:
        if lazy.state is tape:
            (lazy.state,) = Program(tape.place, (lazy.fact.slot,)).run_pieces(list(tape.leaves))


_getrefcount = sys.getrefcount
_GIL = has_gil()


def _referred(values: Sequence[object]) -> list[int]:
    """Return the places of those values that somebody outside of the list refers to."""
    return [i for i in range(len(values)) if _getrefcount(values[i]) > _ALONE]


def _unseen(leaves: Sequence[object], owned: dict[int, bool]) -> list[int]:
    """Return the numbers of the leaves that came from handles of their own and that nobody refers to any more."""
    return [i for i in range(len(leaves)) if id(leaves[i]) in owned and _getrefcount(leaves[i]) <= _ALONE]


def _calibrate() -> int:
    """Return the reference count that `_referred` sees of an object that only the list holds."""
    probe = [object()]
    return [_getrefcount(probe[i]) for i in range(len(probe))][0]


_ALONE = _calibrate()


def clear() -> None:
    """Forget every structure, program and place."""
    leaf_keys.clear()
    fused.clear()
