"""The recorder: calls of the engine as a program that is compiled as a whole.

A `Recording` is a straight-line program: leaves (values from outside) and steps (calls of the engine's compiled
functions), each in the order of recording. Its structure, which is the steps and the shapes and dtypes of the leaves
but none of their values, is the key under which programs are compiled. Python scalars and the starts of index keys
are leaves too, so that a loop over them is one program.

Fusion records a program as it is written and runs it when a value is needed; captured graphs keep one and launch it
again; automatic differentiation keeps `Node` objects, of which it makes a program when gradients are asked for.

A slot names a value of a program: ``0, 1, ...`` are the results of the steps, ``-1, -2, ...`` the leaves.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

import jax
import numpy as np

from .._compat import X64_UNSET, restore_x64, swap_x64, x64
from .dtypes import WIDE

__all__ = ["Facts", "Node", "Recording", "Ref", "Step", "cached", "clear", "facts_of", "result_facts", "run_steps"]

_F = TypeVar("_F", bound=Callable[..., object])

Facts: TypeAlias = Hashable
"""Shape and dtype of a leaf; for a tree of arrays its structure and those of its arrays."""

_MAX_PROGRAMS = 512
_MAX_FACTS = 8192


class Step(NamedTuple):
    """One call: ``fn(*[values[slot] for slot in operands])``.

    Attributes
    ----------
    fn
        A traceable function of raw arrays with a stable identity, such as a compiled variant of an `Op`.
    wide
        Whether it needs x64 whatever its operands are.
    operands
        Slots; None where an operand is absent.
    results
        How many values it returns; they take as many slots.
    """

    fn: Callable[..., object]
    wide: bool
    operands: tuple[int | None, ...]
    results: int


class Recording:
    """A straight-line program under construction.

    Attributes
    ----------
    leaves
        Values from outside: raw arrays, or trees of them.
    steps
        The calls, in order.
    """

    __slots__ = ("_leaf_slots", "leaves", "size", "steps")

    def __init__(self) -> None:
        self.leaves: list[object] = []
        self.steps: list[Step] = []
        self.size = 0  # slots of results so far
        self._leaf_slots: dict[int, int] = {}

    def leaf(self, value: object) -> int:
        """Return the slot of a value from outside; the same object has one slot."""
        slot = self._leaf_slots.get(id(value))
        if slot is None:
            self.leaves.append(value)
            slot = self._leaf_slots[id(value)] = -len(self.leaves)
        return slot

    def add(self, fn: Callable[..., object], wide: bool, operands: tuple[int | None, ...], results: int = 1) -> int:
        """Append a step; return the slot of its first result."""
        self.steps.append(Step(fn, wide, operands, results))
        slot = self.size
        self.size += results
        return slot

    def structure(self) -> Hashable:
        """Return what programs are told apart by: the steps, and the facts of the leaves."""
        return tuple(self.steps), tuple([facts_of(leaf) for leaf in self.leaves])

    def is_wide(self) -> bool:
        """Tell whether 64-bit types take part."""
        return any(step.wide for step in self.steps) or any(
            leaf.dtype in WIDE for value in self.leaves for leaf in jax.tree.leaves(value)
        )

    def program(self) -> Callable[[Sequence[object]], list[object]]:
        """Return the program as a pure function from the leaves to the values of all result slots."""
        steps, size = tuple(self.steps), self.size

        def run(leaves: Sequence[object]) -> list[object]:
            return run_steps(steps, size, leaves)

        return run


def run_steps(steps: Sequence[Step], size: int, leaves: Sequence[object]) -> list[object]:
    """Run steps one by one, eagerly or under a trace; return the values of all result slots."""
    # The slots of the leaves are negative: they are read from the end, backwards.
    values: list[object] = [None] * size
    values.extend(reversed(leaves))
    at = 0
    for fn, wide, operands, results in steps:
        taken = [None if slot is None else values[slot] for slot in operands]
        previous = X64_UNSET
        try:
            if wide or any(getattr(x, "dtype", None) in WIDE for x in taken):
                previous = swap_x64(True)
            result = fn(*taken)
        finally:
            restore_x64(previous)
        if results == 1:
            values[at] = result
        else:
            values[at : at + results] = result  # type: ignore[call-overload]
        at += results
    return values[:size]


# --- shapes and dtypes -----------------------------------------------------------------------------------------------


def facts_of(value: object) -> Facts:
    """Return the facts of a leaf."""
    if isinstance(value, jax.Array | np.ndarray):
        return value.shape, value.dtype
    leaves, tree = jax.tree.flatten(value)
    return tree, tuple([(leaf.shape, leaf.dtype) for leaf in leaves])


_facts: dict[Hashable, object] = {}


def result_facts(fn: Callable[..., object], wide: bool, *operands: object) -> object:
    """Return the shapes and dtypes that a call returns, without running it.

    Parameters
    ----------
    operands
        Arrays, or what has their shape and dtype; None where one is absent.

    Returns
    -------
    A `jax.ShapeDtypeStruct`, or a sequence of them.
    """
    key = (fn, *[_abstract_key(x) for x in operands])
    found = _facts.get(key)
    if found is None:
        with x64(wide or any(leaf.dtype in WIDE for leaf in jax.tree.leaves(operands))):
            found = jax.eval_shape(fn, *operands)
        if len(_facts) >= _MAX_FACTS:
            _facts.clear()
        _facts[key] = found
    return found


def _abstract_key(value: object) -> Hashable:
    if value is None or isinstance(value, jax.ShapeDtypeStruct):
        return value
    if isinstance(value, jax.Array):
        return value.shape, value.dtype, value.weak_type
    return facts_of(value)


# --- programs by structure -------------------------------------------------------------------------------------------

_programs: OrderedDict[Hashable, Callable[..., object]] = OrderedDict()
_lock = threading.Lock()


def cached(key: Hashable, build: Callable[[], _F]) -> _F:
    """Return the compiled program under a key, built where there is none; the least recently used are forgotten."""
    with _lock:
        found = _programs.get(key)
        if found is not None:
            _programs.move_to_end(key)
            return found  # type: ignore[return-value]
    built = build()
    with _lock:
        _programs[key] = built
        while len(_programs) > _MAX_PROGRAMS:
            _programs.popitem(last=False)
    return built


def clear() -> None:
    """Forget every program and every result of shape inference."""
    with _lock:
        _programs.clear()
    _facts.clear()


# --- graphs ----------------------------------------------------------------------------------------------------------

_serials = itertools.count()


class Node:
    """A call whose operands are results of other nodes or values from outside; it keeps them alive.

    Attributes
    ----------
    fn, wide, results
        As in `Step`.
    operands
        `Ref` for results of other nodes; everything else is a value from outside, None an absent operand.
    serial
        Counts up in the order of creation, so it sorts nodes topologically.
    """

    __slots__ = ("__weakref__", "fn", "operands", "results", "serial", "wide")

    def __init__(self, fn: Callable[..., object], wide: bool, operands: tuple[object, ...], results: int = 1) -> None:
        self.fn, self.wide, self.operands, self.results = fn, wide, operands, results
        self.serial = next(_serials)


class Ref(NamedTuple):
    """One result of a node."""

    node: Node
    position: int = 0
