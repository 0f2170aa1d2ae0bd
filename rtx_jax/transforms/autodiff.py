"""grad, vjp, jvp, Jacobians: differentiation of functions of Arrays.

Captured Arrays are constants of their current value, writes to arguments stay inside, writes to captured Arrays are
refused. The whole transform, the backward pass included, runs with 64-bit types on where the function uses them:
with plain ``jax.grad`` the backward pass would silently lose precision there.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import jax
import numpy as np
from jax import lax

from .._array import Array
from ..core.handle import share
from ..errors import InvalidArgument, ShapeMismatch, UnsupportedDType
from .scope import Scope, entered
from .trees import NUMBER, Spec, Tree, flatten, pack, pack_result, unpack, unpack_result, wide_tree, wrap_tree

__all__ = ["grad", "hessian", "jacfwd", "jacobian", "jacrev", "jvp", "linearize", "value_and_grad", "vjp"]

Argnums = int | Sequence[int]


class _Packed:
    """A function of raw trees around a function of Arrays, for one call of a transform."""

    def __init__(
        self,
        operation: str,
        fn: Callable[..., object],
        args: Sequence[object],
        kwargs: dict[str, object],
        argnums: Sequence[int],
        has_aux: bool = False,
    ) -> None:
        self.operation, self.fn, self.has_aux = operation, fn, has_aux
        self.wide = wide_tree(args, kwargs)
        self.specs: list[Spec] = []
        self.args: list[object] = []
        for i, arg in enumerate(args):
            raw, spec = pack(arg, numbers=i in argnums, operation=operation, argument=f"number {i}")
            self.args.append(raw)
            self.specs.append(spec)
        self.kwargs, self.kwargs_spec = pack(kwargs, numbers=False)
        self.result: Spec | None = None
        self.aux: Spec | None = None

    def __call__(self, *raw: object) -> object:
        """Run the function under a scope."""
        scope = Scope(self.operation)
        with scope.running():
            args = [unpack(value, spec) for value, spec in zip(raw, self.specs, strict=True)]
            kwargs = unpack(self.kwargs, self.kwargs_spec)
            out = self.fn(*args, **kwargs)
            if self.has_aux:
                if not isinstance(out, tuple) or len(out) != 2:
                    raise InvalidArgument(
                        self.operation,
                        "fn",
                        got=f"a result of type {type(out).__name__}",
                        wanted="a pair (value, aux), because has_aux is True",
                        arg="fn",
                        reason="no pair",
                    )
                out, aux = out
                packed_aux, self.aux = pack_result(aux)
            value, self.result = pack_result(out)
        self.wide = self.wide or scope.wide
        return (value, packed_aux) if self.has_aux else value

    def scalar(self, *raw: object) -> object:
        """Run the function and insist on a scalar result, returned as an array."""
        out = self(*raw)
        value = out[0] if self.has_aux else out  # type: ignore[index]
        if not isinstance(value, jax.Array | bool | int | float | complex | np.generic) or np.shape(value):
            shown = f"shape {value.shape}" if isinstance(value, jax.Array) else f"type {type(value).__name__}"
            raise ShapeMismatch(
                self.operation,
                "fn",
                got=f"a function whose result has {shown}",
                wanted="a scalar",
                remedy="Sum the result, or use jacobian.",
                expected=(),
                got_shape=getattr(value, "shape", None),
            )
        return out

    def x64(self) -> AbstractContextManager[None]:
        """Enter x64 where the function uses 64-bit types."""
        return entered(self.wide)


def _positions(operation: str, argnums: Argnums, count: int) -> tuple[int, ...]:
    nums = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for num in nums:
        if not isinstance(num, int) or not -count <= num < count:
            raise InvalidArgument(
                operation,
                "argnums",
                got=argnums,
                wanted=f"positions of the {count} positional arguments",
                arg="argnums",
                reason="no such argument",
            )
    return tuple(num % count for num in nums)


def _check_kinds(operation: str, raw: Sequence[object], argnums: Sequence[int], allow_int: bool) -> None:
    for i in argnums:
        for leaf in jax.tree.leaves(raw[i]):
            dtype = getattr(leaf, "dtype", np.dtype(type(leaf)) if isinstance(leaf, bool | int) else None)
            if dtype is not None and dtype.kind in "biu" and not allow_int:
                raise UnsupportedDType(
                    operation,
                    f"number {i}",
                    got=f"dtype {dtype}",
                    wanted="real or complex numbers",
                    remedy="Convert it with astype, or leave it out of argnums.",
                    dtype=dtype,
                    op=operation,
                )


@contextlib.contextmanager
def _kinds_checked(operation: str) -> Iterator[None]:
    """Give JAX's refusal of complex results, and of real ones with ``holomorphic=True``, a type and a remedy."""
    try:
        yield
    except TypeError as error:
        if type(error) is not TypeError or "holomorphic" not in str(error):
            raise
        found = re.search(r"got (\w+)", str(error))
        raise UnsupportedDType(
            operation,
            "fn",
            got=f"an argument or result of dtype {found[1]}" if found else str(error),
            wanted="real ones, or with holomorphic=True complex ones",
            remedy="Take the real part or the magnitude of the result, or set holomorphic to what the function is.",
            dtype=found[1] if found else "",
            op=operation,
        ) from error


def value_and_grad(
    fn: Callable[..., object],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., tuple[object, object]]:
    """Return a function that computes ``fn`` and its gradient.

    Parameters
    ----------
    fn
        Returns a scalar, or ``(scalar, aux)`` with `has_aux`.
    argnums
        Which positional arguments to differentiate; with a sequence the gradient is a tuple.
    has_aux
        Whether `fn` returns a pair whose second part is not differentiated.
    holomorphic
        Whether `fn` is promised to be holomorphic; arguments are complex then.
    allow_int
        Whether integer arguments are allowed; their gradients have JAX's dtype ``float0``.

    Returns
    -------
    callable
        Takes the arguments of `fn`; returns ``(value, gradient)`` or ``((value, aux), gradient)``. The gradient has
        the structure of the arguments.

    Raises
    ------
    ShapeMismatch
        The result is not a scalar.
    UnsupportedDType
        An argument to differentiate holds integers.
    TracedMutation
        `fn` writes to an Array that it did not receive.
    """

    @functools.wraps(fn)
    def wrapped(*args: object, **kwargs: object) -> tuple[object, object]:
        nums = _positions("grad", argnums, len(args))
        packed = _Packed("grad", fn, args, kwargs, nums, has_aux)
        _check_kinds("grad", packed.args, nums, allow_int)
        chosen = nums[0] if isinstance(argnums, int) else nums
        with packed.x64(), _kinds_checked("grad"):
            out, gradient = jax.value_and_grad(
                packed.scalar, chosen, has_aux=has_aux, holomorphic=holomorphic, allow_int=allow_int
            )(*packed.args)
            if isinstance(argnums, int):
                gradient = unpack_result(gradient, packed.specs[chosen])  # type: ignore[index]
            else:
                gradient = tuple(unpack_result(part, packed.specs[i]) for part, i in zip(gradient, nums, strict=True))
            if has_aux:
                value, aux = out
                return (_result(value, packed.result), _result(aux, packed.aux)), gradient
            return _result(out, packed.result), gradient

    return wrapped


def _result(tree: Tree, spec: Spec | None) -> Tree:
    return tree if spec is None else unpack_result(tree, spec)


def grad(
    fn: Callable[..., object],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., object]:
    """Return a function that computes the gradient of ``fn``; see `value_and_grad`.

    Returns
    -------
    callable
        Takes the arguments of `fn`; returns the gradient, or ``(gradient, aux)`` with `has_aux`.

    Examples
    --------
    >>> import rtx_jax as xp
    >>> xp.grad(lambda x: xp.sum(x**2))(xp.asarray([1.0, 3.0]))
    Array([2., 6.])
    """
    both = value_and_grad(fn, argnums, has_aux, holomorphic=holomorphic, allow_int=allow_int)

    @functools.wraps(fn)
    def wrapped(*args: object, **kwargs: object) -> object:
        out, gradient = both(*args, **kwargs)
        return (gradient, out[1]) if has_aux else gradient  # type: ignore[index]

    return wrapped


def _jacobian(
    operation: str,
    transform: Callable[..., Callable[..., object]],
    fn: Callable[..., object],
    argnums: Argnums,
    has_aux: bool,
    holomorphic: bool,
) -> Callable[..., object]:
    @functools.wraps(fn)
    def wrapped(*args: object, **kwargs: object) -> object:
        nums = _positions(operation, argnums, len(args))
        packed = _Packed(operation, fn, args, kwargs, nums, has_aux)
        _check_kinds(operation, packed.args, nums, False)
        chosen = nums[0] if isinstance(argnums, int) else nums
        with packed.x64(), _kinds_checked(operation):
            out: Any = transform(packed, chosen, has_aux=has_aux, holomorphic=holomorphic)(*packed.args)
            if has_aux:
                matrix, aux = out
                return wrap_tree(matrix), _result(aux, packed.aux)
            return wrap_tree(out)

    return wrapped


def jacfwd(
    fn: Callable[..., object], argnums: Argnums = 0, has_aux: bool = False, *, holomorphic: bool = False
) -> Callable[..., object]:
    """Return a function that computes the Jacobian of ``fn`` by forward mode: for more outputs than inputs.

    Returns
    -------
    callable
        Takes the arguments of `fn`; returns a tree with the structure of the result of `fn` whose leaves are trees
        with the structure of the argument, of Arrays of shape ``result.shape + argument.shape``.
    """
    return _jacobian("jacfwd", jax.jacfwd, fn, argnums, has_aux, holomorphic)


def jacrev(
    fn: Callable[..., object], argnums: Argnums = 0, has_aux: bool = False, *, holomorphic: bool = False
) -> Callable[..., object]:
    """Return a function that computes the Jacobian of ``fn`` by reverse mode: for more inputs than outputs.

    Returns
    -------
    callable
        As that of `jacfwd`.
    """
    return _jacobian("jacrev", jax.jacrev, fn, argnums, has_aux, holomorphic)


jacobian = jacrev


def hessian(
    fn: Callable[..., object], argnums: Argnums = 0, has_aux: bool = False, *, holomorphic: bool = False
) -> Callable[..., object]:
    """Return a function that computes the Hessian of ``fn``, by forward over reverse mode.

    Returns
    -------
    callable
        Takes the arguments of `fn`; for one Array of shape s returns an Array of shape ``result.shape + s + s``.
    """
    return _jacobian("hessian", jax.hessian, fn, argnums, has_aux, holomorphic)


def jvp(
    fn: Callable[..., object], primals: Sequence[object], tangents: Sequence[object], has_aux: bool = False
) -> tuple[object, ...]:
    """Compute ``fn(*primals)`` and its directional derivative along `tangents`.

    Returns
    -------
    tuple
        ``(value, derivative)``, or ``(value, derivative, aux)`` with `has_aux`.
    """
    packed = _Packed("jvp", fn, primals, {}, range(len(primals)), has_aux)
    packed.wide = packed.wide or wide_tree(tangents)
    _check_kinds("jvp", packed.args, range(len(primals)), False)
    with packed.x64():
        directions = _like("jvp", "tangents", list(tangents), list(packed.args))
        out = jax.jvp(packed, packed.args, directions, has_aux=has_aux)
        value, derivative = (_result(part, packed.result) for part in out[:2])
        return (value, derivative, _result(out[2], packed.aux)) if has_aux else (value, derivative)


def linearize(fn: Callable[..., object], *primals: object) -> tuple[object, Callable[..., object]]:
    """Compute ``fn(*primals)`` and return it with the linear map of its derivative there.

    Returns
    -------
    value, derivative
        ``derivative(*tangents)`` costs no second evaluation of `fn`.
    """
    packed = _keeping("linearize", fn, primals)
    with packed.x64():
        out, linear = jax.linearize(packed, *packed.args)
        value = _result(out, packed.result)

    def derivative(*tangents: object) -> object:
        with packed.x64():
            return _result(linear(*_like("linearize", "tangents", list(tangents), list(packed.args))), packed.result)

    return value, derivative


def vjp(fn: Callable[..., object], *primals: object, has_aux: bool = False) -> tuple[object, ...]:
    """Compute ``fn(*primals)`` and return it with the pullback of its derivative there.

    Returns
    -------
    value, pullback
        And ``aux`` with `has_aux`. ``pullback(cotangent)`` takes a tree like the value and returns a tuple of trees
        like the primals.
    """
    packed = _keeping("vjp", fn, primals, has_aux)
    with packed.x64():
        result: Any = jax.vjp(packed, *packed.args, has_aux=has_aux)  # type: ignore[call-overload]
        out, pull, *aux = result
        value = _result(out, packed.result)

    def pullback(cotangent: object) -> tuple[object, ...]:
        with packed.x64():
            parts = pull(_like("vjp", "cotangent", cotangent, out))
            return tuple(unpack_result(part, spec) for part, spec in zip(parts, packed.specs, strict=True))

    return (value, pullback, _result(aux[0], packed.aux)) if has_aux else (value, pullback)


def _keeping(operation: str, fn: Callable[..., object], primals: Sequence[object], has_aux: bool = False) -> _Packed:
    """Pack the arguments of a transform whose result keeps them: a later write to them must copy."""
    for leaf in flatten(list(primals))[0]:
        if type(leaf) is Array:
            share(leaf)
    packed = _Packed(operation, fn, primals, {}, range(len(primals)), has_aux)
    _check_kinds(operation, packed.args, range(len(primals)), False)
    return packed


def _like(operation: str, argument: str, tree: Tree, model: Tree) -> Tree:
    """Return a raw tree with the structure of `model`; numbers take the dtype of their counterpart.

    Raises
    ------
    ShapeMismatch
        The structures or the shapes differ.
    """
    raw, spec = pack(tree)
    treedef: Any = jax.tree.structure(model)
    if spec.treedef != treedef:
        raise ShapeMismatch(
            operation,
            argument,
            got=f"a tree of structure {spec.treedef}",
            wanted=str(treedef),
            expected=treedef,
            got_shape=spec.treedef,
        )
    leaves = []
    for kind, leaf, like in zip(spec.kinds, jax.tree.leaves(raw), jax.tree.leaves(model), strict=True):
        dtype = like.dtype if hasattr(like, "dtype") else None
        if kind == NUMBER and dtype is not None:
            leaf = np.asarray(leaf, dtype)
        elif dtype is not None and dtype.kind in "fcV" and getattr(leaf, "dtype", dtype) != dtype:
            leaf = lax.convert_element_type(leaf, dtype)
        if np.shape(leaf) != np.shape(like):
            raise ShapeMismatch(
                operation,
                argument,
                got=f"shape {np.shape(leaf)}",
                wanted=f"shape {np.shape(like)}",
                expected=np.shape(like),
                got_shape=np.shape(leaf),
            )
        leaves.append(leaf)
    return treedef.unflatten(leaves)
