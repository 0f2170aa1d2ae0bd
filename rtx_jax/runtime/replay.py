"""`ReplayGraph`: a graph of the NumPy runtime, a recording that runs step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from ..core.host_recorder import Draw, HostTape
from ..errors import OutOfMemory, ShapeMismatch
from .client import Client
from .graph import Graph
from .memory_plan import MemoryPlan
from .recording import is_recording, traced
from .view import BufferView

__all__ = ["ReplayGraph", "Target"]

Target: TypeAlias = "BufferView | np.ndarray"
"""Memory that a launch writes, or that it reads as an operand."""


class ReplayGraph(Graph):
    """A recording, and where its leaves and results are.

    Parameters
    ----------
    client
        The client; its lock is held while a launch runs.
    tape
        The recording.
    operands
        The memory of the first leaves.
    results
        For each output its memory and the slot of its value.
    """

    def __init__(
        self, client: Client, tape: HostTape, operands: Sequence[Target], results: Sequence[tuple[Target, int]]
    ) -> None:
        self.client, self.tape = client, tape
        self.operands, self.results = list(operands), list(results)
        self.steps = tuple(tape.recording.steps)
        self._dead = _last_uses(tape, [slot for _, slot in results])

    def memory(self) -> MemoryPlan:
        """Return what a launch takes: every step's result, until the last step that reads it."""
        live = peak = 0
        sizes = self.tape.sizes
        at = 0
        for step, dead in zip(self.steps, self._dead, strict=True):
            live += sum(sizes[at : at + step.results])
            peak = max(peak, live)
            live -= sum(sizes[slot] for slot in dead)
            at += step.results
        written = sum(target.nbytes for target, _ in self.results)
        leaves = self.tape.recording.leaves
        others = sum(getattr(leaf, "nbytes", 0) for leaf in leaves[len(self.operands) :])
        args = sum(x.nbytes for x in self.operands) + others
        return MemoryPlan(args=args, outputs=written, alias=written, temp=peak)

    def launch(self) -> None:
        """Run once."""
        if is_recording():
            raise traced("launch")
        with self.client.lock:
            operands = [_memory(x) for x in self.operands]
            targets = [_memory(target) for target, _ in self.results]
            try:
                found = self._run(operands)
                found = [_apart(value, targets, i) for i, value in enumerate(found)]
            except MemoryError as error:
                if isinstance(error, OutOfMemory):
                    raise
                raise OutOfMemory("launch", got=str(error), remedy="Free buffers, or use smaller pieces.") from error
            for i, (value, target) in enumerate(zip(found, targets, strict=True)):
                if value.shape != target.shape or value.dtype != target.dtype:
                    raise ShapeMismatch(
                        "launch",
                        f"outputs[{i}]",
                        got=f"{value.dtype}{list(value.shape)}",
                        wanted=f"{target.dtype}{list(target.shape)}, as when it was captured",
                        expected=target.shape,
                        got_shape=value.shape,
                    )
            for view, _ in self.results:
                if isinstance(view, BufferView):
                    view.buffer._settle()
            for value, memory in zip(found, targets, strict=True):
                memory[...] = value

    def _run(self, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        recording = self.tape.recording
        leaves = [*operands, *[_now(leaf) for leaf in recording.leaves[len(operands) :]]]
        # The slots of the leaves are negative: they are read from the end, backwards.
        values: list[object] = [None] * recording.size
        values.extend(reversed(leaves))
        at = 0
        with np.errstate(all="ignore"):
            for step, dead in zip(self.steps, self._dead, strict=True):
                result = step.fn(*[None if slot is None else values[slot] for slot in step.operands])
                if step.results == 1:
                    values[at] = result
                else:
                    values[at : at + step.results] = result  # type: ignore[call-overload]
                at += step.results
                for slot in dead:
                    values[slot] = None
        return [np.asarray(values[slot]) for _, slot in self.results]


def _last_uses(tape: HostTape, kept: Sequence[int]) -> list[list[int]]:
    """Return for each step the slots in memory of their own that nothing reads after it."""
    steps, roots = tape.recording.steps, tape.roots
    last: dict[int, int] = {}
    at = 0
    for number, step in enumerate(steps):
        for slot in (*range(at, at + step.results), *[slot for slot in step.operands if slot is not None]):
            root = roots[slot] if slot >= 0 else slot
            last[slot] = last[root] = number
        at += step.results
    for slot in kept:
        for name in (slot, roots[slot] if slot >= 0 else slot):
            last.pop(name, None)
    dead: list[list[int]] = [[] for _ in steps]
    for slot, number in last.items():
        if slot >= 0:
            dead[number].append(slot)
    return dead


def _memory(target: Target) -> np.ndarray:
    """Return the elements where they are."""
    if isinstance(target, np.ndarray):
        return target
    storage = target.buffer._check("launch")
    assert isinstance(storage, np.ndarray)
    flat = storage.reshape(-1).view(np.uint8)
    return flat[target.offset : target.offset + target.nbytes].view(target.dtype).reshape(target.shape)


def _now(leaf: object) -> object:
    return leaf.next_key() if isinstance(leaf, Draw) else leaf


def _apart(value: np.ndarray, targets: Sequence[np.ndarray], position: int) -> np.ndarray:
    """Return a result in memory that writing the other outputs does not change."""
    if any(np.may_share_memory(value, target) for i, target in enumerate(targets) if i != position):
        return value.copy()
    return value
