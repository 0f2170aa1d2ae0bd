"""Structures and programs of fusion: what was recorded, as a path in a tree, and how a path is run.

Each step of recording goes down one edge of a tree that all recordings share: an edge for a leaf of some shape and
dtype, an edge for a call of a function on some slots. So the place in the tree is the structure of what was recorded,
known without hashing it, and shapes and dtypes of results are inferred once per edge. A place keeps one `Program` for
each set of results that somebody still wants.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from itertools import starmap
from typing import NamedTuple

import jax
import numpy as np

from .. import _config
from .._compat import X64_UNSET, is_x64, restore_x64, swap_x64
from .dtypes import WIDE
from .op import translate
from .recorder import Step, result_facts

__all__ = [
    "CAP",
    "Fact",
    "Failure",
    "Place",
    "Program",
    "Unrecordable",
    "clear",
    "extend",
    "leaf_place",
    "root",
    "set_twin",
]

CAP = 512
"""Steps after which a recording is run even if nobody needs a value."""

_MAX_PLACES = 1 << 16
_MAX_COMPILED = 512
_MAX_VARIANTS = 4


class Unrecordable(Exception):
    """The call cannot be part of a program: its results are no arrays."""


class Failure:
    """Stands for a value whose computation raised."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error


class Fact:
    """Shape, dtype and slot of a value of a program, and whether it is committed to its device."""

    __slots__ = ("aval", "committed", "dtype", "ndim", "shape", "size", "slot")

    def __init__(self, aval: jax.ShapeDtypeStruct, slot: int, committed: bool) -> None:
        self.aval, self.slot, self.committed = aval, slot, committed
        self.shape: tuple[int, ...] = aval.shape
        self.dtype: np.dtype = aval.dtype
        self.ndim = len(aval.shape)
        self.size = math.prod(aval.shape)


class Place:
    """A place in the tree of structures.

    Attributes
    ----------
    next
        Places one edge further: by ``(fn, *slots)`` for a call, by the facts of the array for a leaf.
    parent, step, leaf
        The edge that leads here: a step, or the facts of a leaf.
    committed
        Whether that leaf is committed to its device.
    facts, alone
        Facts of the results of the step, and whether it returns one by itself.
    fact
        Facts of that one; None where a recording must do more than to go on.
    size, leaves, steps
        Numbers of result slots, leaves and steps on the path from the root.
    wide
        Whether 64-bit types take part.
    programs
        By the slots whose values are wanted.
    """

    __slots__ = (
        "alone",
        "committed",
        "fact",
        "facts",
        "leaf",
        "leaves",
        "next",
        "parent",
        "programs",
        "size",
        "step",
        "steps",
        "wide",
    )

    def __init__(self, parent: Place | None) -> None:
        self.next: dict[Hashable, Place] = {}
        self.parent = parent
        self.step: Step | None = None
        self.leaf: object = None
        self.committed = False
        self.alone = False
        self.fact: Fact | None = None
        self.facts: tuple[Fact, ...] = ()
        self.programs: dict[tuple[int, ...], Program] = {}
        if parent is None:
            self.size = self.leaves = self.steps = 0
            self.wide = False
        else:
            self.size, self.leaves, self.steps, self.wide = parent.size, parent.leaves, parent.steps, parent.wide

    def path(self) -> tuple[list[Step], list[object]]:
        """Return the steps and the facts of the leaves from the root to here."""
        steps: list[Step] = []
        leaves: list[object] = []
        place: Place | None = self
        while place is not None:
            if place.step is not None:
                steps.append(place.step)
            elif place.leaf is not None:
                leaves.append(place.leaf)
            place = place.parent
        return steps[::-1], leaves[::-1]


class _Tree:
    """The tree of all structures; begun anew when it has grown too large."""

    __slots__ = ("count", "root")

    def __init__(self) -> None:
        self.root, self.count = Place(None), 0


_tree = _Tree()


def root() -> Place:
    """Return the place of an empty recording."""
    return _tree.root


def _grow(parent: Place) -> Place:
    _tree.count += 1
    if _tree.count > _MAX_PLACES:
        clear_places()
    return Place(parent)


def clear_places() -> None:
    """Begin a new tree; open recordings go on in the old one."""
    _tree.root, _tree.count = Place(None), 0


def leaf_place(parent: Place, key: Hashable, value: object) -> Place:
    """Return the place behind a new leaf, where no such leaf was recorded before."""
    place = _grow(parent)
    place.leaves += 1
    leaves = jax.tree.leaves(value)
    place.committed = any(getattr(leaf, "committed", False) for leaf in leaves)
    place.leaf = (
        jax.ShapeDtypeStruct(value.shape, value.dtype, weak_type=bool(getattr(value, "weak_type", False)))
        if isinstance(value, jax.Array | np.ndarray)
        else jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), value)
    )
    place.wide = place.wide or any(leaf.dtype in WIDE for leaf in leaves)
    parent.next[key] = place
    return place


def extend(parent: Place, fn: Callable[..., object], wide: bool, slots: tuple[int | None, ...]) -> Place:
    """Return the place behind a call that was not recorded here before.

    Raises
    ------
    Unrecordable
        Its results are no arrays.
    Exception
        What the function raises for operands of these shapes and dtypes.
    """
    known = parent.next.get((fn, *slots))
    if known is not None:
        return known
    avals, committed = _avals_at(parent, slots)
    found = result_facts(fn, wide, *avals)
    several = isinstance(found, tuple | list)
    results: Sequence[object] = found if several else (found,)  # type: ignore[assignment]
    if not results or not all(isinstance(x, jax.ShapeDtypeStruct) for x in results):
        raise Unrecordable
    place = _grow(parent)
    place.step = Step(fn, wide, slots, len(results))
    facts = tuple([Fact(aval, place.size + i, committed) for i, aval in enumerate(results)])  # type: ignore[arg-type]
    place.size += len(results)
    place.steps += 1
    place.facts, place.alone = facts, not several
    place.fact = facts[0] if place.alone and place.steps < CAP else None
    place.wide = place.wide or wide or any(fact.dtype in WIDE for fact in facts)
    parent.next[(fn, *slots)] = place
    return place


def _avals_at(place: Place, slots: Sequence[int | None]) -> tuple[list[object], bool]:
    """Return the abstract values of slots, found on the way back to the root, and whether one is committed."""
    found: dict[int, object] = {}
    committed = False
    wanted = {slot for slot in slots if slot is not None}
    at: Place | None = place
    while at is not None and len(found) < len(wanted):
        if at.step is not None:
            for fact in at.facts:
                if fact.slot in wanted:
                    found[fact.slot] = fact.aval
                    committed = committed or fact.committed
        elif at.leaf is not None and -at.leaves in wanted:
            found[-at.leaves] = at.leaf
            committed = committed or at.committed
        at = at.parent
    return [None if slot is None else found[slot] for slot in slots], committed


# --- running ---------------------------------------------------------------------------------------------------------

_twins: dict[Callable[..., object], Callable[..., object]] = {}


def set_twin(fn: Callable[..., object], donating: Callable[..., object]) -> None:
    """Tell of a function that does the same as `fn` and may put its result into the memory of its first operand."""
    _twins[fn] = donating


class _Piece(NamedTuple):
    """A step as it is run by itself: what it reads, and which values nobody needs after it."""

    fn: Callable[..., object]
    twin: Callable[..., object] | None
    wide: bool
    operands: tuple[int | None, ...]
    at: int
    results: int
    last: tuple[int, ...]


class Program:
    """What computes the wanted values of a structure: by pieces at first, compiled whole once it has recurred.

    Parameters
    ----------
    place
        The structure.
    wanted
        Slots of the values that are returned.
    """

    __slots__ = (
        "alike",
        "compiled",
        "count",
        "facts",
        "leaves",
        "needed",
        "operations",
        "pieces",
        "size",
        "wanted",
        "wide",
    )

    def __init__(self, place: Place, wanted: tuple[int, ...]) -> None:
        steps, self.leaves = place.path()
        self.wanted, self.wide, self.size = wanted, place.wide, place.size
        self.count = 0
        self.compiled: dict[tuple[int, ...], Callable[..., object]] = {}
        self.pieces = _pieces(steps, wanted)
        self.operations = len(self.pieces)
        self.needed = {slot for piece in self.pieces for slot in piece.operands if slot is not None and slot < 0}
        every: dict[int, Fact] = {}
        committed = False
        at: Place | None = place
        while at is not None:
            every.update({fact.slot: fact for fact in at.facts})
            committed = committed or at.committed
            at = at.parent
        self.facts = [(every[slot].shape, every[slot].dtype) for slot in wanted]
        # All results of one compiled call are committed if one of its operands is.
        self.alike = all(every[slot].committed == committed for slot in wanted)

    def fitting(self, candidates: Sequence[int]) -> tuple[int, ...]:
        """Return those leaves (by number) of candidates for donation that a result can take the memory of."""
        free = list(self.facts)
        chosen = []
        for number in candidates:
            leaf = self.leaves[number]
            fact = (leaf.shape, leaf.dtype)  # type: ignore[attr-defined]
            if -number - 1 in self.needed and fact in free:
                free.remove(fact)
                chosen.append(number)
        return tuple(chosen)

    def whole(self, donated: tuple[int, ...]) -> tuple[Callable[..., object], bool]:
        """Return the program compiled as a whole (on its first call), and whether it is new."""
        found = self.compiled.get(donated)
        if found is not None:
            return found, False
        if donated and len(self.compiled) >= _MAX_VARIANTS:
            return self.whole(())
        with _lock:
            built = self.compiled[donated] = jax.jit(_whole(self, is_x64()), donate_argnums=donated)
            _kept[id(built)] = self
            while len(_kept) > _MAX_COMPILED:
                _, oldest = _kept.popitem(last=False)
                oldest.compiled.clear()
        return built, True

    def run_whole(self, fn: Callable[..., object], leaves: Sequence[object]) -> Sequence[object]:
        """Run what `whole` returned."""
        # A call that Ctrl-C interrupts must not lose results whose operands were donated: see `update` of handles.
        results: list[Sequence[object]] = []
        if not self.wide:
            results.extend(starmap(fn, (leaves,)))  # type: ignore[arg-type]
            return results[0]
        previous = X64_UNSET
        try:
            previous = swap_x64(True)
            results.extend(starmap(fn, (leaves,)))  # type: ignore[arg-type]
        finally:
            restore_x64(previous)
        return results[0]

    def run_pieces(
        self, leaves: Sequence[object], owned: frozenset[int] = frozenset(), taken: frozenset[int] = frozenset()
    ) -> list[object]:
        """Run step by step; a value that cannot be computed is a `Failure`.

        Parameters
        ----------
        owned
            Slots of leaves whose memory may be reused.
        taken
            Those of them that were given up to a call, which reuses their memory.
        """
        values: list[object] = [None] * self.size
        values.extend(reversed(leaves))
        reuse = _config.donation()
        for fn, twin, wide, operands, at, results, last in self.pieces:
            arrays = [None if slot is None else values[slot] for slot in operands]
            first = operands[0] if operands else None
            if twin is not None and reuse and first in last and (first >= 0 or first in owned):
                fn = twin
            elif taken and not taken.isdisjoint(last):
                fn = _donating(fn, wide, arrays, operands, taken.intersection(last))
            for slot in last:
                values[slot] = None
            result = _call(fn, wide, arrays)
            arrays.clear()
            if results == 1 and not isinstance(result, tuple | list):
                values[at] = result
            elif type(result) is Failure:
                values[at : at + results] = [result] * results
            else:
                values[at : at + results] = result  # type: ignore[call-overload]
        return [values[slot] for slot in self.wanted]


def _donating(
    fn: Callable[..., object],
    wide: bool,
    arrays: Sequence[object],
    operands: tuple[int | None, ...],
    free: frozenset[int],
) -> Callable[..., object]:
    """Return the form of a call that puts its results into the memory of operands that nobody needs after it."""
    from .ownership import donating

    places = tuple([i for i, slot in enumerate(operands) if slot in free and operands.count(slot) == 1])
    wide = wide or any(getattr(x, "dtype", None) in WIDE for x in arrays)
    try:
        return donating(fn, wide, arrays, places) if places else fn
    except Exception:
        return fn  # the call itself tells what is wrong


def _call(fn: Callable[..., object], wide: bool, operands: list[object]) -> object:
    previous = X64_UNSET
    for x in operands:
        if type(x) is Failure:
            return x
    try:
        if wide or any(getattr(x, "dtype", None) in WIDE for x in operands):
            previous = swap_x64(True)
        return fn(*operands)
    except Exception as error:
        mapped = translate(getattr(fn, "__name__", "fusion"), error)
        if mapped is not error:
            mapped.__cause__ = error
        return Failure(mapped)
    finally:
        restore_x64(previous)


def _pieces(steps: Sequence[Step], wanted: Sequence[int]) -> list[_Piece]:
    """Return what has to be run for the wanted slots, with the last use of each value."""
    starts = []
    at = 0
    for step in steps:
        starts.append(at)
        at += step.results
    needed = set(wanted)
    pieces = []
    for step, at in zip(reversed(steps), reversed(starts), strict=True):
        if needed.isdisjoint(range(at, at + step.results)):
            continue
        used = {slot for slot in step.operands if slot is not None}
        last = used - needed
        needed |= used
        first = step.operands[0] if step.operands else None
        alone = first in last and step.operands.count(first) == 1
        pieces.append(
            _Piece(
                step.fn, _twins.get(step.fn) if alone else None, step.wide, step.operands, at, step.results, tuple(last)
            )
        )
    return pieces[::-1]


def _whole(program: Program, ambient: bool) -> Callable[..., list[object]]:
    """Return a program as one traceable function of its leaves, each step under the x64 state that it has alone."""
    pieces, size, wanted = program.pieces, program.size, program.wanted

    def fused(*leaves: object) -> list[object]:
        values: list[object] = [None] * size
        values.extend(reversed(leaves))
        for fn, _, wide, operands, at, results, _ in pieces:
            taken = [None if slot is None else values[slot] for slot in operands]
            previous = X64_UNSET
            try:
                is_wide = wide or any(leaf.dtype in WIDE for leaf in jax.tree.leaves(taken))
                previous = swap_x64(is_wide or ambient)
                result = fn(*taken)
            finally:
                restore_x64(previous)
            if results == 1 and not isinstance(result, tuple | list):
                values[at] = result
            else:
                values[at : at + results] = result  # type: ignore[call-overload]
        return [values[slot] for slot in wanted]

    return fused


_kept: OrderedDict[int, Program] = OrderedDict()
_lock = threading.Lock()


def clear() -> None:
    """Forget every structure and program."""
    clear_places()
    with _lock:
        for program in _kept.values():
            program.compiled.clear()
        _kept.clear()
