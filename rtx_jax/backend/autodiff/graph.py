"""From the graph that tensors lead to, to the program that is differentiated."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final, NamedTuple, TypeAlias

import jax

from ..._compat import ArrayImpl
from ...core.dtypes import REAL_FLOATING, WIDE
from ...core.recorder import Node, Ref, Step
from ...errors import BackwardError

__all__ = ["FLOATING", "FREED", "Graph", "free", "is_wide", "linearize"]

FREED: Final[tuple[object, ...]] = (object(),)
"""Operands of a node that a backward pass has used up."""

FLOATING: Final = REAL_FLOATING
"""The dtypes of tensors that have gradients."""

_Steps: TypeAlias = "tuple[tuple[Callable[..., object], bool, tuple[int | None, ...], int], ...]"


class Graph(NamedTuple):
    """A straight-line program, and what it is applied to.

    Attributes
    ----------
    steps, size
        As in `rtx_jax.core.recorder`: calls with slots of operands, and how many results they have together.
    leaves
        What comes from outside, in the order of slots ``-1, -2, ...``: `Leaf`, results of calls outside of the graph
        as `Ref`, tensors and vectors of the host.
    slots
        Where the roots are.
    nodes
        The nodes behind the steps.
    """

    steps: _Steps
    size: int
    leaves: list[object]
    slots: tuple[int, ...]
    nodes: list[Node]

    @property
    def key(self) -> Hashable:
        """What tells its programs apart: the calls and how they hang together, but not shapes or values."""
        return self.steps, self.slots

    def full_steps(self) -> tuple[Step, ...]:
        """Return the steps for `rtx_jax.core.recorder.run_steps`."""
        return tuple([Step(*step) for step in self.steps])


def linearize(roots: Sequence[object], operation: str, since: int = -1) -> Graph:
    """Return the graph of some roots, with nothing that they do not need.

    Parameters
    ----------
    roots
        `Ref` or `Leaf` of tracked tensors, or tensors that nothing is known of.
    operation
        What errors name.
    since
        Nodes with a smaller serial are outside.

    Raises
    ------
    BackwardError
        A backward pass has freed a part of it.
    """
    found: dict[int, Node] = {}
    pending = [root.node for root in roots if type(root) is Ref and root.node.serial >= since]
    while pending:
        node = pending.pop()
        if node.serial in found:
            continue
        found[node.serial] = node
        for x in node.operands:
            if type(x) is Ref:
                before = x.node
                if before.serial >= since and before.serial not in found:
                    pending.append(before)
    nodes = [found[serial] for serial in sorted(found)]

    leaves: list[object] = []
    outside: dict[int, int] = {}  # slots by the identity of what comes from outside
    inside: dict[int, int] = {}  # slot of the first result of a node

    def slot_of(x: object) -> int | None:
        if x is None:
            return None
        if type(x) is Ref:
            first = inside.get(x.node.serial)
            if first is not None:
                return first + x.position
        slot = outside.get(id(x))
        if slot is None:
            leaves.append(x)
            slot = outside[id(x)] = -len(leaves)
        return slot

    steps, size = [], 0
    for node in nodes:
        operands = node.operands
        if operands is FREED:
            raise BackwardError(
                operation,
                "",
                got="a graph that an earlier backward pass has freed",
                wanted="one backward pass over each part of a graph",
                remedy="Call the earlier backward with retain=True, or compute the tensor again.",
            )
        steps.append((node.fn, node.wide, tuple([slot_of(x) for x in operands]), node.results))
        inside[node.serial] = size
        size += node.results
    slots = tuple([slot_of(root) for root in roots])
    return Graph(tuple(steps), size, leaves, slots, nodes)  # type: ignore[arg-type]


def free(graph: Graph) -> None:
    """Let go of what the nodes of a graph hold; another pass over them is an error."""
    for node in graph.nodes:
        node.operands = FREED


def is_wide(graph: Graph, values: Sequence[object]) -> bool:
    """Tell whether 64-bit types take part."""
    for value in values:
        if type(value) is ArrayImpl:
            if value.dtype in WIDE:
                return True
        elif any(getattr(leaf, "dtype", None) in WIDE for leaf in jax.tree.leaves(value)):
            return True
    return any(step[1] for step in graph.steps)
