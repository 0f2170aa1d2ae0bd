"""Derivatives of functions of tensors: the face of `Autodiff` without a `backward`."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, get_args

import jax
import numpy as np
from jax.tree_util import PyTreeDef

from ..._compat import trace_is_clean
from ...checks.choices import flag
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

__all__ = ["FunctionalMethods", "JacobianMode", "Tree"]

Tree: TypeAlias = object
"""Tensors in nested tuples, lists and dictionaries, or one tensor."""

JacobianMode = Literal["reverse", "forward"]
"""By rows (cheap for few outputs) or by columns (cheap for few inputs)."""


@dataclass(frozen=True, slots=True)
class _Recorded:
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


class FunctionalMethods(Wrapper[Tensor]):
    """Derivatives of functions of tensors.

    A function is run once, on its arguments' values, so it may branch on them; what it computed is compiled as one
    program for each structure. Arguments and results are tensors in nested tuples, lists and dictionaries. Derivatives
    of derivatives come from applying these functions to one another.

    Errors of all methods: `UnsupportedDType` for arguments to differentiate by that are not real floating;
    `ShapeMismatch` for tangents or cotangents of other shapes; `InvalidArgument` for results that are no tensors.
    """

    _level: int

    def grad(
        self, fn: Callable[..., object], /, argnums: int | Sequence[int] = 0, has_aux: bool = False
    ) -> Callable[..., Tree]:
        """Return the function that computes the gradient of `fn`.

        Parameters
        ----------
        fn
            Its result has one element: shape ``()`` or ``(1,)`` or such.
        argnums
            Positions of the arguments to differentiate by; an int gives one tree, a sequence a tuple of them.
        has_aux
            `fn` returns a pair, the second of which is returned beside the gradient.

        Raises
        ------
        ShapeMismatch
            When it is called: the result of `fn` has another number of elements than one.
        """
        pair = self.value_and_grad(fn, argnums, has_aux)

        def gradient(*args: object) -> Tree:
            value, gradients = pair(*args)
            return (gradients, value[1]) if has_aux else gradients  # type: ignore[index]

        return gradient

    def value_and_grad(
        self, fn: Callable[..., object], /, argnums: int | Sequence[int] = 0, has_aux: bool = False
    ) -> Callable[..., tuple[Tree, Tree]]:
        """Return the function that computes the result of `fn` and its gradient; see `grad`."""
        beside = flag("value_and_grad", "has_aux", has_aux)

        def both(*args: object) -> tuple[Tree, Tree]:
            nums = _positions("value_and_grad", argnums, len(args))
            recorded = self._record("value_and_grad", fn, args, nums, beside)
            _one_element("value_and_grad", recorded.results)
            found = self._derived("value_and_grad", programs.gradient(recorded.graph, recorded.places), recorded)
            trees = _split(found, recorded.trees)
            value = jax.tree.unflatten(recorded.tree, recorded.results)
            gradients = trees[0] if isinstance(argnums, int) else tuple(trees)
            return ((value, recorded.aux) if beside else value), gradients

        return both

    def vjp(self, fn: Callable[..., object], /, *primals: Tree) -> tuple[Tree, Callable[[Tree], tuple[Tree, ...]]]:
        """Return the result of `fn`, and the function from cotangents of it to those of the arguments.

        Parameters
        ----------
        fn
            Any function of `primals`.
        primals
            Its arguments, all of which are differentiated by.

        Returns
        -------
        tuple
            The result; a function that takes a tree like it, and returns one tree for each argument. It may be called
            many times.
        """
        recorded = self._record("vjp", fn, primals, range(len(primals)), False)
        like = [(x.shape, x.dtype) for x in recorded.results]

        def pull(cotangents: Tree, /) -> tuple[Tree, ...]:
            given = self._matching("vjp", "cotangents", cotangents, recorded.tree, like)
            program = programs.pullback(recorded.graph, recorded.places)
            return tuple(_split(self._derived("vjp", program, recorded, given), recorded.trees))

        return jax.tree.unflatten(recorded.tree, recorded.results), pull

    def jvp(self, fn: Callable[..., object], primals: Sequence[Tree], tangents: Sequence[Tree], /) -> tuple[Tree, Tree]:
        """Return the result of `fn`, and how it changes when its arguments move along `tangents`.

        Parameters
        ----------
        fn
            Any function of the primals.
        primals, tangents
            One tree for each argument; a tangent has the structure, shapes and dtypes of its primal.
        """
        recorded, given = self._along("jvp", fn, primals, tangents)
        found = self._derived("jvp", programs.pushforward(recorded.graph, recorded.places), recorded, given)
        return jax.tree.unflatten(recorded.tree, recorded.results), jax.tree.unflatten(recorded.tree, found)

    def hvp(self, fn: Callable[..., object], primals: Sequence[Tree], tangents: Sequence[Tree], /) -> tuple[Tree, ...]:
        """Return the product of the Hessian of `fn` at `primals` with `tangents`, one tree for each argument.

        Parameters
        ----------
        fn
            Its result has one element.
        primals, tangents
            See `jvp`.

        Notes
        -----
        It costs about as much as two gradients, whatever the size of the Hessian.
        """
        recorded, given = self._along("hvp", fn, primals, tangents)
        _one_element("hvp", recorded.results)
        found = self._derived("hvp", programs.hessian_product(recorded.graph, recorded.places), recorded, given)
        return tuple(_split(found, recorded.trees))

    def jacobian(
        self, fn: Callable[..., object], /, argnums: int | Sequence[int] = 0, mode: JacobianMode = "reverse"
    ) -> Callable[..., Tree]:
        """Return the function that computes the Jacobian of `fn`.

        Parameters
        ----------
        fn
            Any function of tensors.
        argnums
            See `grad`.
        mode
            ``"reverse"`` takes one backward pass for each element of the result, ``"forward"`` one forward pass for
            each of the arguments.

        Returns
        -------
        callable
            Its result is the tree of the results of `fn`, with trees of the arguments in place of their tensors; a
            block has shape ``(*result.shape, *argument.shape)``.
        """
        if mode not in get_args(JacobianMode):
            raise InvalidArgument(
                "jacobian", "mode", got=repr(mode), wanted="'reverse' or 'forward'", arg="mode", reason="no such mode"
            )

        def derivatives(*args: object) -> Tree:
            nums = _positions("jacobian", argnums, len(args))
            recorded = self._record("jacobian", fn, args, nums, False)
            program = programs.jacobian(recorded.graph, recorded.places, mode == "forward")
            blocks = self._derived("jacobian", program, recorded)
            width = len(recorded.places)
            rows = []
            for i in range(len(recorded.results)):
                trees = _split(blocks[i * width : (i + 1) * width], recorded.trees)
                rows.append(trees[0] if isinstance(argnums, int) else tuple(trees))
            return jax.tree.unflatten(recorded.tree, rows)

        return derivatives

    def checkpoint(self, fn: Callable[..., Tree], /) -> Callable[..., Tree]:
        """Return `fn` as a function of which a backward pass keeps only the arguments, and computes the rest again.

        Parameters
        ----------
        fn
            A function of tensors. Random draws in it are made once: what is computed again has the same.

        Notes
        -----
        A backward pass is one compiled program; within it the parts that are not checkpointed keep what their
        derivatives need from their first use to the last.
        """

        def checkpointed(*args: object) -> Tree:
            leaves = jax.tree.leaves(args, is_leaf=_is_tensor)
            nums = [i for i, arg in enumerate(args) if any(map(self._is_tracked, jax.tree.leaves(arg)))]
            if not nums and not trace_is_clean() and any(isinstance(x, jax.core.Tracer) for x in leaves):
                return jax.checkpoint(fn)(*args)
            return self._run_checkpointed(fn, args)

        return checkpointed

    # -- how

    def _is_tracked(self, x: object) -> bool:
        return type(x) is TrackedTensor and x._level == self._level

    def _run_checkpointed(self, fn: Callable[..., Tree], args: Sequence[object]) -> Tree:
        leaves, tree = jax.tree.flatten(args, is_leaf=_is_tensor)
        stand_ins: dict[int, object] = {}
        inside = [self._stand_in(x, stand_ins) if self._is_tracked(x) else x for x in leaves]
        with Trace(self._level) as trace:
            results, result_tree = jax.tree.flatten(fn(*jax.tree.unflatten(tree, inside)), is_leaf=_is_tensor)
        return jax.tree.unflatten(
            result_tree, self._outside("checkpoint", results, trace, stand_ins, programs.checkpointed)
        )

    def _record(
        self, operation: str, fn: Callable[..., object], args: Sequence[object], nums: Sequence[int], has_aux: bool
    ) -> _Recorded:
        """Run a function on tensors that stand for its arguments at `nums`."""
        stand_ins: dict[int, object] = {}
        inside, moving, trees = list(args), [], []
        for i in nums:
            leaves, tree = jax.tree.flatten(args[i], is_leaf=_is_tensor)
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
            beside, aux_tree = jax.tree.flatten(aux, is_leaf=_is_tensor)
            aux = jax.tree.unflatten(aux_tree, self._outside(operation, beside, trace, stand_ins, programs.plain))
        results, tree = jax.tree.flatten(out, is_leaf=_is_tensor)
        for x in results:
            _check_result(operation, x)
        graph = self._graph(operation, results, trace)
        for x in moving:
            if not any(leaf is x._source for leaf in graph.leaves):
                graph.leaves.append(x._source)
        positions = {id(leaf): i for i, leaf in enumerate(graph.leaves)}
        return _Recorded(
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
        self, operation: str, program: programs.Program, recorded: _Recorded, more: Sequence[object] = ()
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
    ) -> tuple[_Recorded, list[object]]:
        for name, value in (("primals", primals), ("tangents", tangents)):
            if not isinstance(value, tuple | list) or len(value) != len(primals):
                raise InvalidArgument(
                    operation,
                    name,
                    got=type(value).__name__ if not isinstance(value, tuple | list) else f"{len(value)} trees",
                    wanted="a tuple with one tree for each argument",
                    arg=name,
                    reason="not one for each argument",
                )
        recorded = self._record(operation, fn, primals, range(len(primals)), False)
        given: list[object] = []
        for primal, tangent, tree in zip(primals, tangents, recorded.trees, strict=True):
            like = [(x.shape, x.dtype) for x in jax.tree.leaves(primal, is_leaf=_is_tensor)]
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
        leaves, found = jax.tree.flatten(value, is_leaf=_is_tensor)
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


def _is_tensor(x: object) -> bool:
    # Trees to JAX, but one tensor here.
    return isinstance(x, QTensor | Handle)


def _positions(operation: str, argnums: int | Sequence[int], count: int) -> tuple[int, ...]:
    nums = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for num in nums:
        if isinstance(num, bool) or not isinstance(num, int) or not -count <= num < count:
            raise InvalidArgument(
                operation,
                "argnums",
                got=argnums,
                wanted=f"positions of the {count} arguments",
                arg="argnums",
                reason="no such argument",
            )
    return tuple([num % count for num in nums])


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


def _one_element(operation: str, results: Sequence[Tensor]) -> None:
    if len(results) != 1 or math.prod(results[0].shape) != 1:
        got = f"shape {results[0].shape}" if len(results) == 1 else f"{len(results)} tensors"
        raise ShapeMismatch(
            operation,
            "fn",
            got=f"a function whose result has {got}",
            wanted="one element",
            remedy="Sum the result, or use vjp or jacobian.",
            expected=(1,),
            got_shape=results[0].shape if len(results) == 1 else None,
        )


def _split(found: Sequence[object], trees: Sequence[PyTreeDef]) -> list[Tree]:
    """Return a flat list as trees."""
    made, at = [], 0
    for tree in trees:
        made.append(jax.tree.unflatten(tree, found[at : at + tree.num_leaves]))
        at += tree.num_leaves
    return made
