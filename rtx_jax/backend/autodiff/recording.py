"""A function that is run once, on tensors that stand for its arguments, and what came of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import jax
import numpy as np
from jax.tree_util import PyTreeDef

from ...checks import parameters
from ...core.handle import Handle
from ...core.recorder import Ref
from ...errors import BackwardError, InvalidArgument, ShapeMismatch, UnsupportedDType
from ...quant import QTensor
from ..core import Call, Tensor
from ..wrapper import Wrapper
from . import programs
from .graph import FLOATING, Graph, is_wide, linearize
from .tensor import Leaf, TrackedTensor
from .tracing import Trace

__all__ = ["Recorded", "RecordingMethods", "Tree", "is_tensor"]

Tree: TypeAlias = object
"""Tensors in nested tuples, lists and dictionaries, or one tensor."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One run of a function on tensors that stand for its arguments.

    Attributes
    ----------
    graph
        From the results back to what stands for the arguments, and to what the function read from outside.
    operands
        What the leaves of the graph are to the caller.
    places
        Which leaves the arguments are, in their order.
    trees, tree
        Structures of the arguments, and of the result.
    results, aux
        The tensors of the result, and what came beside it.
    """

    graph: Graph
    operands: tuple[object, ...]
    places: tuple[int, ...]
    trees: list[PyTreeDef]
    tree: PyTreeDef
    results: list[Tensor]
    aux: object


class RecordingMethods(Wrapper[Tensor]):
    """How the functions of `FunctionalMethods` record a function, and run a derivative of what it did."""

    _level: int

    def _is_tracked(self, x: object) -> bool:
        return type(x) is TrackedTensor and x._level == self._level

    def _run_checkpointed(self, fn: Callable[..., Tree], args: Sequence[object]) -> Tree:
        leaves, tree = jax.tree.flatten(args, is_leaf=is_tensor)
        stand_ins: dict[int, object] = {}
        inside = [self._stand_in(x, stand_ins) if self._is_tracked(x) else x for x in leaves]
        with Trace(self._level) as trace:
            results, result_tree = jax.tree.flatten(fn(*jax.tree.unflatten(tree, inside)), is_leaf=is_tensor)
        return jax.tree.unflatten(
            result_tree, self._outside("checkpoint", results, trace, stand_ins, programs.checkpointed)
        )

    def _record(
        self, operation: str, fn: Callable[..., object], args: Sequence[object], nums: Sequence[int], has_aux: bool
    ) -> Recorded:
        """Run a function on tensors that stand for its arguments at `nums`."""
        check_function(operation, fn)
        stand_ins: dict[int, object] = {}
        inside, moving, trees = list(args), [], []
        for i in nums:
            leaves, tree = jax.tree.flatten(args[i], is_leaf=is_tensor)
            made = [self._stand_in(self._checked_leaf(operation, x), stand_ins) for x in leaves]
            inside[i] = jax.tree.unflatten(tree, made)
            moving += made
            trees.append(tree)
        with Trace(self._level) as trace:
            out = fn(*inside)
        aux: object = None
        if has_aux:
            if not isinstance(out, tuple) or len(out) != 2:
                raise InvalidArgument(
                    operation,
                    "fn",
                    got=f"a result of type {type(out).__name__}",
                    wanted="a pair (value, aux), because has_aux is True",
                    arg="fn",
                    reason="no pair",
                )
            out, aux = out
            beside, aux_tree = jax.tree.flatten(aux, is_leaf=is_tensor)
            aux = jax.tree.unflatten(aux_tree, self._outside(operation, beside, trace, stand_ins, programs.plain))
        results, tree = jax.tree.flatten(out, is_leaf=is_tensor)
        for x in results:
            _check_result(operation, x)
        graph = self._graph(operation, results, trace)
        positions = {id(leaf): i for i, leaf in enumerate(graph.leaves)}
        for x in moving:  # those that the results do not depend on have a derivative too
            if id(x._source) not in positions:
                positions[id(x._source)] = len(graph.leaves)
                graph.leaves.append(x._source)
        return Recorded(
            graph,
            self._seen_outside(operation, graph, trace, stand_ins),
            tuple([positions[id(x._source)] for x in moving]),
            trees,
            tree,
            self._outside(operation, results, trace, stand_ins, programs.plain),  # type: ignore[arg-type]
            aux,
        )

    def _stand_in(self, x: object, stand_ins: dict[int, object]) -> TrackedTensor:
        leaf = Leaf(x._value if self._is_tracked(x) else x)  # type: ignore[attr-defined, arg-type]
        stand_ins[id(leaf)] = x
        return TrackedTensor(leaf.value, leaf, self._level, leaf.id)

    def _checked_leaf(self, operation: str, x: object) -> Tensor:
        return cast("Tensor", x) if self._is_tracked(x) else self._floating_value(operation, x)

    @abstractmethod
    def _floating_value(self, operation: str, x: object) -> Tensor:
        """Return a tensor without a graph as the inner backend takes it."""

    @abstractmethod
    def _linked(self, call: Call, tracked: list[tuple[int, TrackedTensor]], value: object) -> object:
        """Return results of a call as tensors that lead back to its tracked operands."""

    def _graph(self, operation: str, results: Sequence[object], trace: Trace) -> Graph:
        tracked = [x for x in results if self._is_tracked(x)]
        trace.note(tracked)  # type: ignore[arg-type]
        roots = [x._source if self._is_tracked(x) else x for x in results]  # type: ignore[attr-defined]
        return linearize(roots, operation, trace.since)

    def _seen_outside(
        self, operation: str, graph: Graph, trace: Trace, stand_ins: dict[int, object]
    ) -> tuple[object, ...]:
        """Return what the leaves of a graph are to the caller of a function."""
        found: list[object] = []
        for leaf in graph.leaves:
            if id(leaf) in stand_ins:
                found.append(stand_ins[id(leaf)])
            elif id(leaf) in trace.captured:
                found.append(trace.captured[id(leaf)])
            elif type(leaf) is Leaf:
                found.append(TrackedTensor(leaf.value, leaf, self._level, leaf.id))
            elif isinstance(leaf, Ref):
                raise BackwardError(
                    operation,
                    "fn",
                    got="a function that computes with tracked tensors of the caller in another thread",
                    wanted="tensors as arguments, or use in one thread",
                )
            else:
                found.append(leaf)
        return tuple(found)

    def _derived(
        self, operation: str, program: programs.Program, recorded: Recorded, more: Sequence[object] = ()
    ) -> list[Tensor]:
        """Run a program on the operands of a graph; the results are tracked where the operands are."""
        operands = (*recorded.operands, *more)
        found = self._make(operation, (program, is_wide(recorded.graph, operands), operands))
        return list(found) if isinstance(found, tuple | list) else [cast("Tensor", found)]

    def _outside(
        self,
        operation: str,
        values: Sequence[object],
        trace: Trace,
        stand_ins: dict[int, object],
        program: Callable[[Graph], programs.Program],
    ) -> list[object]:
        """Return values that a function computed, with the caller's tensors in place of those that stood for them."""
        places = [i for i, x in enumerate(values) if self._is_tracked(x)]
        if not places:
            return list(values)
        inner = [cast("TrackedTensor", values[i]) for i in places]
        graph = self._graph(operation, inner, trace)
        operands = self._seen_outside(operation, graph, trace, stand_ins)
        outer = [x._value for x in inner]
        tracked = [(i, x) for i, x in enumerate(operands) if self._is_tracked(x)]
        if tracked:
            raw = tuple([x._value if self._is_tracked(x) else x for x in operands])  # type: ignore[attr-defined]
            call = program(graph), is_wide(graph, raw), raw
            value = outer[0] if len(outer) == 1 else tuple(outer)
            linked = self._linked(call, tracked, value)  # type: ignore[arg-type]
            outer = list(linked) if isinstance(linked, tuple) else [linked]  # type: ignore[list-item]
        found = list(values)
        for i, x in zip(places, outer, strict=True):
            found[i] = x
        return found

    def _along(
        self, operation: str, fn: Callable[..., object], primals: Sequence[Tree], tangents: Sequence[Tree]
    ) -> tuple[Recorded, list[object]]:
        for name, value in (("primals", primals), ("tangents", tangents)):
            if not isinstance(value, tuple | list) or len(value) != len(primals):
                raise InvalidArgument(
                    operation,
                    name,
                    got=type(value).__name__ if not isinstance(value, tuple | list) else f"{len(value)} trees",
                    wanted="a tuple with one tree for each argument",
                    remedy="" if isinstance(value, tuple | list) else "Write (x,) for one.",
                    arg=name,
                    reason="not one for each argument",
                )
        recorded = self._record(operation, fn, primals, range(len(primals)), False)
        given: list[object] = []
        for primal, tangent, tree in zip(primals, tangents, recorded.trees, strict=True):
            like = [(x.shape, x.dtype) for x in jax.tree.leaves(primal, is_leaf=is_tensor)]
            given += self._matching(operation, "tangents", tangent, tree, like)
        return recorded, given

    def _matching(
        self,
        operation: str,
        name: str,
        value: Tree,
        tree: PyTreeDef,
        like: Sequence[tuple[tuple[int, ...], np.dtype]],
    ) -> list[object]:
        """Return the tensors of a tree that must be like another."""
        leaves, found = jax.tree.flatten(value, is_leaf=is_tensor)
        if found != tree:
            raise InvalidArgument(
                operation, name, got=str(found), wanted=str(tree), arg=name, reason="another structure"
            )
        given: list[object] = []
        for leaf, (shape, dtype) in zip(leaves, like, strict=True):
            x = self._checked_leaf(operation, leaf)
            given.append(x)
            if x.shape != shape or x.dtype != dtype:
                raise ShapeMismatch(
                    operation,
                    name,
                    got=f"{x.dtype.name}{list(x.shape)}",
                    wanted=f"{dtype.name}{list(shape)}",
                    expected=shape,
                    got_shape=x.shape,
                )
        return given


def check_function(operation: str, fn: object) -> None:
    """Raise InvalidArgument for what is no function."""
    parameters.function(
        operation, "fn", fn, wanted="a function of tensors", remedy="Gradients of a tensor are backward(t)."
    )


def is_tensor(x: object) -> bool:
    """Tell what is a tensor here, and a tree to JAX."""
    return isinstance(x, QTensor | Handle)


def _check_result(operation: str, x: object) -> None:
    dtype = getattr(x, "dtype", None)
    if not isinstance(dtype, np.dtype) or isinstance(x, np.ndarray | np.generic):
        raise InvalidArgument(
            operation,
            "fn",
            got=f"a function whose result has a {type(x).__name__}",
            wanted="results that are tensors",
            remedy="Return what else there is through has_aux.",
            arg="fn",
            reason="no tensor",
        )
    if dtype not in FLOATING:
        raise UnsupportedDType(
            operation,
            "fn",
            got=f"a function whose result is {dtype.name}",
            wanted="a real floating result",
            dtype=dtype,
            op=operation,
        )
