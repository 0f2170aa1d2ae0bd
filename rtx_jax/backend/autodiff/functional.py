"""Derivatives of functions of tensors: the face of `Autodiff` without a `backward`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, get_args

import jax
from jax.tree_util import PyTreeDef

from ..._compat import trace_is_clean
from ...checks.choices import flag
from ...errors import InvalidArgument, ShapeMismatch
from ..core import Tensor
from . import programs
from .recording import RecordingMethods, Tree, check_function, is_tensor

__all__ = ["FunctionalMethods", "JacobianMode", "Tree"]

JacobianMode = Literal["reverse", "forward"]
"""By rows (cheap for few outputs) or by columns (cheap for few inputs)."""


class FunctionalMethods(RecordingMethods):
    """Derivatives of functions of tensors.

    A function is run once, on its arguments' values, so it may branch on them; what it computed is compiled as one
    program for each structure. Arguments and results are tensors in nested tuples, lists and dictionaries. Derivatives
    of derivatives come from applying these functions to one another.

    Errors of all methods: `UnsupportedDType` for arguments to differentiate by that are not real floating;
    `ShapeMismatch` for tangents or cotangents of other shapes; `InvalidArgument` for results that are no tensors.
    """

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
        check_function("grad", fn)
        pair = self.value_and_grad(fn, argnums, has_aux)

        def gradient(*args: object) -> Tree:
            value, gradients = pair(*args)
            return (gradients, value[1]) if has_aux else gradients  # type: ignore[index]

        return gradient

    def value_and_grad(
        self, fn: Callable[..., object], /, argnums: int | Sequence[int] = 0, has_aux: bool = False
    ) -> Callable[..., tuple[Tree, Tree]]:
        """Return the function that computes the result of `fn` and its gradient; see `grad`."""
        check_function("value_and_grad", fn)
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
        check_function("jacobian", fn)
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
        check_function("checkpoint", fn)

        def checkpointed(*args: object) -> Tree:
            leaves = jax.tree.leaves(args, is_leaf=is_tensor)
            nums = [i for i, arg in enumerate(args) if any(map(self._is_tracked, jax.tree.leaves(arg)))]
            if not nums and not trace_is_clean() and any(isinstance(x, jax.core.Tracer) for x in leaves):
                return jax.checkpoint(fn)(*args)
            return self._run_checkpointed(fn, args)

        return checkpointed


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
