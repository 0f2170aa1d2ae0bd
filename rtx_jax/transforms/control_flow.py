"""scan, cond, while_loop, ...: control flow on Arrays that stays one computation under tracing.

State goes through the carry or the operands; a body that writes to an Array from outside raises `TracedMutation`.
Called eagerly, each function compiles once for each body (and shape), so pass the same function object every time.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Hashable, Sequence

import jax
import jax.numpy as jnp
from jax import lax

from .._array import Array
from ..checks.parameters import function as check_function
from ..core.handle import tracing
from ..errors import ConcretizationError, DTypeMismatch, IndexOutOfBounds, InvalidArgument
from .compiled import Compiled, jit
from .scope import Scope, StepScope, entered
from .trees import Spec, Tree, pack, unpack, unpack_result, wide_tree

__all__ = ["cond", "fori_loop", "scan", "switch", "while_loop"]

Function = Callable[..., object]

_MAX_COMPILED = 16
_TABLE = "_rtx_jax_compiled"
_others: dict[Hashable, Compiled[..., object]] = {}


class _NeedsStep(BaseException):
    """A body drew a random number, so its loop must number its steps."""


def _no_step() -> jax.Array:
    raise _NeedsStep


def _run(
    kind: str, traced: Function, functions: Sequence[Function], settings: tuple[object, ...], *args: object
) -> object:
    """Call ``traced(functions, settings, *args)``, through a cached compiled function when nothing is traced."""
    if not tracing.settle():
        wide = wide_tree(args)
        with entered(wide):
            return traced(functions, settings, *args)
    key: Hashable
    try:
        table, key = _table(functions[0]), (kind, tuple(functions), settings)
        compiled = table.get(key)
    except TypeError:  # a callable without a hash
        table, key, compiled = {}, (), None
    if compiled is None:

        def run(*operands: object) -> object:
            return traced(functions, settings, *operands)

        run.__name__ = kind
        compiled = jit(run)
        if len(table) >= _MAX_COMPILED:
            table.pop(next(iter(table)), None)
        table[key] = compiled
    return compiled(*args)


def _table(function: Function) -> dict[Hashable, Compiled[..., object]]:
    """Return the compiled loops of a body; they live as long as it does, since they hold what it captures."""
    if not isinstance(function, types.FunctionType):
        return _others
    table: dict[Hashable, Compiled[..., object]] = function.__dict__.setdefault(_TABLE, {})
    return table


def _check_callable(operation: str, **functions: object) -> None:
    for name, function in functions.items():
        check_function(operation, name, function)


def _mismatch(operation: str, argument: str, error: TypeError) -> DTypeMismatch:
    return DTypeMismatch(
        operation,
        argument,
        got=str(error),
        wanted="the same structure, shapes and dtypes on every way through",
        remedy="Convert the start value or the result with astype.",
    )


def scan(
    f: Function,
    init: object,
    xs: object = None,
    length: int | None = None,
    *,
    reverse: bool = False,
    unroll: int = 1,
) -> tuple[object, object]:
    """Run ``carry, y = f(carry, x)`` over the leading axis of `xs`.

    Parameters
    ----------
    f
        Takes the carry and one slice of `xs`; returns the next carry, of the same structure, and a result.
    init
        First carry.
    xs
        Array or tree of Arrays of one leading size; None with `length`.
    length
        Number of steps, needed when `xs` is None.
    reverse
        Whether to begin with the last slice.
    unroll
        Steps per iteration of the compiled loop.

    Returns
    -------
    carry, ys
        The last carry, and the results stacked along a new leading axis.

    Raises
    ------
    DTypeMismatch
        The carry changes its structure, shape or dtype.
    TracedMutation
        `f` writes to an Array that it did not receive.
    """
    _check_callable("scan", f=f)
    return _run("scan", _scan, (f,), (length, bool(reverse), int(unroll)), init, xs)  # type: ignore[return-value]


def _scan(
    functions: Sequence[Function], settings: tuple[object, ...], init: object, xs: object
) -> tuple[object, object]:
    (f,), (length, reverse, unroll) = functions, settings
    carry, carry_spec = pack(init, operation="scan", argument="init")
    slices, slices_spec = pack(xs, operation="scan", argument="xs")
    result: dict[str, Spec] = {}

    def body(state: Tree, x: Tree, step: jax.Array | None) -> tuple[Tree, Tree]:
        with StepScope("scan", _no_step if step is None else lambda: step).running():
            pair = f(unpack(state, carry_spec), unpack(x, slices_spec))
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise InvalidArgument(
                    "scan",
                    "f",
                    got=f"a result of type {type(pair).__name__}",
                    wanted="a pair (carry, y)",
                    arg="f",
                    reason="no pair",
                )
            after, _ = pack(pair[0])
            y, result["y"] = pack(pair[1])
            return after, y

    options = {"length": length, "reverse": reverse, "unroll": unroll}
    try:
        try:
            last, ys = lax.scan(lambda state, x: body(state, x, None), carry, slices, **options)  # type: ignore[arg-type]
        except _NeedsStep:
            count = length if length is not None else jax.tree.leaves(slices)[0].shape[0]
            steps = jnp.arange(count, dtype=jnp.uint32)
            last, ys = lax.scan(lambda state, x: body(state, x[0], x[1]), carry, (slices, steps), **options)  # type: ignore[arg-type]
    except TypeError as error:
        if type(error) is TypeError and "carry" in str(error):
            raise _mismatch("scan", "init", error) from error
        raise
    return unpack_result(last, carry_spec), unpack_result(ys, result["y"])


def while_loop(cond_fun: Function, body_fun: Function, init_val: object) -> object:
    """Run ``value = body_fun(value)`` while ``cond_fun(value)``.

    Parameters
    ----------
    cond_fun
        Takes the value; returns one boolean.
    body_fun
        Takes the value; returns the next one, of the same structure, shapes and dtypes.

    Raises
    ------
    DTypeMismatch
        The value changes its structure, shape or dtype.
    TracedMutation
        A function writes to an Array that it did not receive.

    Notes
    -----
    Not differentiable in reverse mode: use `scan` or `fori_loop` with a known count.
    """
    _check_callable("while_loop", cond_fun=cond_fun, body_fun=body_fun)
    return _run("while_loop", _while, (cond_fun, body_fun), (), init_val)


def _while(functions: Sequence[Function], settings: tuple[object, ...], init: object) -> object:
    cond_fun, body_fun = functions
    start, spec = pack(init, operation="while_loop", argument="init_val")

    def test(state: Tree) -> Tree:
        with Scope("while_loop").running():
            return pack(cond_fun(unpack(state, spec)))[0]

    def body(state: Tree, step: jax.Array | None) -> Tree:
        with StepScope("while_loop", _no_step if step is None else lambda: step).running():
            return pack(body_fun(unpack(state, spec)))[0]

    try:
        try:
            last = lax.while_loop(test, lambda state: body(state, None), start)
        except _NeedsStep:
            _, last = lax.while_loop(
                lambda state: test(state[1]),
                lambda state: (state[0] + jnp.uint32(1), body(state[1], state[0])),
                (jnp.uint32(0), start),
            )
    except TypeError as error:
        if type(error) is TypeError and ("carry" in str(error) or "body_fun" in str(error) or "cond_fun" in str(error)):
            raise _mismatch("while_loop", "init_val", error) from error
        raise
    return unpack_result(last, spec)


def fori_loop(
    lower: int | Array, upper: int | Array, body_fun: Function, init_val: object, *, unroll: int | None = None
) -> object:
    """Run ``value = body_fun(i, value)`` for `i` from `lower` to `upper` - 1.

    Parameters
    ----------
    body_fun
        Takes the index, an Array without axes, and the value; returns the next value.
    unroll
        Steps per iteration; needs bounds that are known while tracing.

    Raises
    ------
    DTypeMismatch
        The value changes its structure, shape or dtype.
    TracedMutation
        `body_fun` writes to an Array that it did not receive.

    Notes
    -----
    Differentiable in reverse mode where both bounds are Python integers.
    """
    _check_callable("fori_loop", body_fun=body_fun)
    if isinstance(lower, int) and isinstance(upper, int) and not tracing.settle():
        return _run("fori_loop", _fori, (body_fun,), (unroll, lower, upper), init_val)
    if unroll is not None:
        return _run("fori_loop", _fori, (body_fun,), (unroll, lower, upper), init_val)
    return _run("fori_loop", _fori_traced, (body_fun,), (), lower, upper, init_val)


def _fori(functions: Sequence[Function], settings: tuple[object, ...], init: object) -> object:
    (body_fun,), (unroll, lower, upper) = functions, settings
    return _fori_raw(body_fun, lower, upper, unroll, init)


def _fori_traced(
    functions: Sequence[Function], settings: tuple[object, ...], lower: object, upper: object, init: object
) -> object:
    low, high = (pack(bound, operation="fori_loop")[0] for bound in (lower, upper))
    dtypes = [bound.dtype for bound in (low, high) if isinstance(bound, jax.Array)]
    if dtypes:
        index = functools.reduce(jnp.promote_types, dtypes)
        low, high = (jnp.asarray(bound, index) for bound in (low, high))
    return _fori_raw(functions[0], low, high, None, init)


def _fori_raw(body_fun: Function, lower: object, upper: object, unroll: object, init: object) -> object:
    start, spec = pack(init, operation="fori_loop", argument="init_val")

    def body(i: jax.Array, state: Tree) -> Tree:
        with StepScope("fori_loop", lambda: i).running():
            return pack(body_fun(Array(i), unpack(state, spec)))[0]

    try:
        last = lax.fori_loop(lower, upper, body, start, unroll=unroll)  # type: ignore[arg-type]
    except TypeError as error:
        if type(error) is TypeError and ("carry" in str(error) or "body_fun" in str(error)):
            raise _mismatch("fori_loop", "init_val", error) from error
        raise
    return unpack_result(last, spec)


def cond(pred: object, true_fun: Function, false_fun: Function, *operands: object) -> object:
    """Run ``true_fun(*operands)`` or ``false_fun(*operands)``.

    Parameters
    ----------
    pred
        One boolean.
    true_fun, false_fun
        Return the same structure, shapes and dtypes.

    Raises
    ------
    DTypeMismatch
        The results of the two functions differ in structure, shape or dtype.
    TracedMutation
        A function writes to an Array that it did not receive.
    """
    _check_callable("cond", true_fun=true_fun, false_fun=false_fun)
    return _run("cond", _cond, (true_fun, false_fun), (), pred, *operands)


def _branch(operation: str, fn: Function, spec: Spec, result: list[Spec]) -> Callable[..., Tree]:
    def run(*values: object) -> Tree:
        with Scope(operation).running():
            out, out_spec = pack(fn(*unpack(values, spec)))
            result.append(out_spec)
            return out

    return run


def _cond(functions: Sequence[Function], settings: tuple[object, ...], pred: object, *operands: object) -> object:
    test, _ = pack(pred, operation="cond", argument="pred")
    raw, spec = pack(operands, operation="cond", argument="operands")
    result: list[Spec] = []
    branches = [_branch("cond", fn, spec, result) for fn in functions]
    try:
        out = lax.cond(test, *branches, *raw)
    except TypeError as error:
        if type(error) is TypeError:
            raise _mismatch("cond", "true_fun and false_fun", error) from error
        raise
    return unpack_result(out, result[0])


def switch(index: object, branches: Sequence[Function], *operands: object) -> object:
    """Run ``branches[index](*operands)``.

    Parameters
    ----------
    index
        One integer.
    branches
        Functions that return the same structure, shapes and dtypes.

    Raises
    ------
    IndexOutOfBounds
        There is no such branch; under tracing the index cannot raise and the nearest branch runs.
    DTypeMismatch
        The results differ in structure, shape or dtype.
    TracedMutation
        A function writes to an Array that it did not receive.
    """
    functions = tuple(branches)
    for i, branch in enumerate(functions):
        _check_callable("switch", **{f"branches[{i}]": branch})
    if not functions:
        raise InvalidArgument("switch", "branches", got="none", wanted="at least one", arg="branches", reason="empty")
    try:
        place = int(index)  # type: ignore[call-overload]
    except (ConcretizationError, jax.errors.ConcretizationTypeError):
        place = 0
    if not 0 <= place < len(functions):
        raise IndexOutOfBounds(
            "switch", "index", got=place, wanted=f"0 to {len(functions) - 1}", index=place, size=len(functions)
        )
    return _run("switch", _switch, functions, (), index, *operands)


def _switch(functions: Sequence[Function], settings: tuple[object, ...], index: object, *operands: object) -> object:
    place, _ = pack(index, operation="switch", argument="index")
    raw, spec = pack(operands, operation="switch", argument="operands")
    result: list[Spec] = []
    try:
        out = lax.switch(place, [_branch("switch", fn, spec, result) for fn in functions], *raw)
    except TypeError as error:
        if type(error) is TypeError:
            raise _mismatch("switch", "branches", error) from error
        raise
    return unpack_result(out, result[0])
