"""custom_vjp, custom_jvp, checkpoint: functions with derivative rules or memory policies of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import AutogradError, InvalidArgument
from .scope import Scope, entered
from .trees import Spec, Tree, pack, pack_result, unpack, unpack_result, wide_tree

__all__ = ["CustomJvp", "CustomVjp", "checkpoint", "custom_jvp", "custom_vjp"]


class _Custom:
    """What both kinds share: which arguments are differentiated, and x64 around everything."""

    operation = ""

    def __init__(self, fn: Callable[..., object], nondiff_argnums: Sequence[int]) -> None:
        functools.update_wrapper(self, fn, updated=())  # type: ignore[arg-type]
        self.fn = fn
        self.nondiff_argnums = tuple(nondiff_argnums)

    def _split(self, args: Sequence[object]) -> tuple[list[object], list[object]]:
        fixed = [args[i] for i in self.nondiff_argnums]
        return fixed, [arg for i, arg in enumerate(args) if i not in self.nondiff_argnums]

    def _merge(self, fixed: Sequence[object], rest: Sequence[object]) -> list[object]:
        merged = list(rest)
        for i, value in sorted(zip(self.nondiff_argnums, fixed, strict=True)):
            merged.insert(i, value)
        return merged

    def _missing(self, name: str) -> AutogradError:
        return AutogradError(
            self.operation,
            got=f"a call of {self.fn!r} without a rule",
            wanted="a derivative rule",
            remedy=f"Define it with {name} first.",
        )


class CustomVjp(_Custom):
    """A function with its own reverse-mode rule; made by `custom_vjp`."""

    operation = "custom_vjp"
    paths_through = ("fn", "forward", "backward")

    def __init__(self, fn: Callable[..., object], nondiff_argnums: Sequence[int] = ()) -> None:
        super().__init__(fn, nondiff_argnums)
        self.forward: Callable[..., object] | None = None
        self.backward: Callable[..., object] | None = None

    def defvjp(self, fwd: Callable[..., object], bwd: Callable[..., object]) -> None:
        """Set the rule.

        Parameters
        ----------
        fwd
            Takes the arguments of the function; returns ``(value, residuals)``.
        bwd
            Takes the arguments in `nondiff_argnums`, the residuals and the cotangent of the value; returns a tuple
            with a cotangent for each differentiated argument, or None for zero.
        """
        self.forward, self.backward = fwd, bwd

    def __call__(self, *args: object) -> object:
        forward, backward = self.forward, self.backward
        if forward is None or backward is None:
            raise self._missing("defvjp")
        fixed, rest = self._split(args)
        wide = wide_tree(args)
        specs: dict[str, Spec] = {}
        raw, inputs = pack(tuple(rest), operation=self.operation)

        def primal(*values: object) -> Tree:
            with entered(wide), Scope(self.operation).running():
                out, specs["out"] = pack_result(self.fn(*self._merge(fixed, unpack(values, inputs))))
                return out

        def fwd(*values: object) -> tuple[Tree, Tree]:
            with entered(wide), Scope(self.operation).running():
                pair: Any = forward(*self._merge(fixed, unpack(values, inputs)))
                out, residuals = pair
                packed, specs["out"] = pack_result(out)
                kept, specs["residuals"] = pack(residuals)
                return packed, kept

        def bwd(residuals: Tree, cotangent: Tree) -> tuple[object, ...]:
            with entered(wide), Scope(self.operation).running():
                parts = backward(*fixed, unpack(residuals, specs["residuals"]), unpack(cotangent, specs["out"]))
                if not isinstance(parts, tuple) or len(parts) != len(rest):
                    raise InvalidArgument(
                        self.operation,
                        "bwd",
                        got=f"a result of type {type(parts).__name__}",
                        wanted=f"a tuple of {len(rest)} cotangents",
                        arg="bwd",
                        reason="one cotangent for each argument",
                    )
                return tuple(_cotangent(part, like) for part, like in zip(parts, raw, strict=True))

        with entered(wide):
            rule = jax.custom_vjp(primal)
            rule.defvjp(fwd, bwd)
            return unpack_result(rule(*raw), specs["out"])


def _cotangent(part: object, like: Tree) -> Tree:
    """Return the raw cotangent of one argument; None stands for zero, as do integer arguments' cotangents."""
    if part is None:
        return None
    packed, _ = pack(part)
    return jax.tree.map(
        lambda value, model: (
            value if value is None or not hasattr(model, "dtype") else jnp.asarray(value, _tangent(model))
        ),
        packed,
        like,
    )


def _tangent(model: jax.Array) -> np.dtype:
    return model.dtype if model.dtype.kind in "fcV" else jax.dtypes.float0


class CustomJvp(_Custom):
    """A function with its own forward-mode rule, from which reverse mode follows; made by `custom_jvp`."""

    operation = "custom_jvp"
    paths_through = ("fn", "rule")

    def __init__(self, fn: Callable[..., object], nondiff_argnums: Sequence[int] = ()) -> None:
        super().__init__(fn, nondiff_argnums)
        self.rule: Callable[..., object] | None = None

    def defjvp(self, jvp: Callable[..., object]) -> Callable[..., object]:
        """Set the rule, and return it, so that this serves as a decorator.

        Parameters
        ----------
        jvp
            Takes the arguments in `nondiff_argnums`, a tuple of primals and a tuple of tangents; returns
            ``(value, tangent)`` and is linear in the tangents.
        """
        self.rule = jvp
        return jvp

    def __call__(self, *args: object) -> object:
        rule = self.rule
        if rule is None:
            raise self._missing("defjvp")
        fixed, rest = self._split(args)
        wide = wide_tree(args)
        specs: dict[str, Spec] = {}
        raw, inputs = pack(tuple(rest), operation=self.operation)

        def primal(*values: object) -> Tree:
            with entered(wide), Scope(self.operation).running():
                out, specs["out"] = pack_result(self.fn(*self._merge(fixed, unpack(values, inputs))))
                return out

        def jvp(primals: tuple[object, ...], tangents: tuple[object, ...]) -> tuple[Tree, Tree]:
            with entered(wide), Scope(self.operation).running():
                pair: Any = rule(*fixed, unpack(primals, inputs), unpack(tangents, inputs))
                value, tangent = pair
                packed, specs["out"] = pack_result(value)
                direction, _ = pack_result(tangent)
                return packed, jax.tree.map(
                    lambda part, model: jnp.asarray(part, model.dtype) if hasattr(part, "dtype") else part,
                    direction,
                    packed,
                )

        with entered(wide):
            function = jax.custom_jvp(primal)
            function.defjvp(jvp)
            return unpack_result(function(*raw), specs["out"])


def custom_vjp(fn: Callable[..., object], *, nondiff_argnums: Sequence[int] = ()) -> CustomVjp:
    """Give a function its own reverse-mode rule; set it with ``defvjp``.

    Parameters
    ----------
    nondiff_argnums
        Positions of arguments that are not differentiated; they may be any object.
    """
    return CustomVjp(fn, nondiff_argnums)


def custom_jvp(fn: Callable[..., object], *, nondiff_argnums: Sequence[int] = ()) -> CustomJvp:
    """Give a function its own forward-mode rule; set it with ``defjvp``.

    Parameters
    ----------
    nondiff_argnums
        Positions of arguments that are not differentiated; they may be any object.
    """
    return CustomJvp(fn, nondiff_argnums)


def checkpoint(
    fn: Callable[..., object],
    *,
    prevent_cse: bool = True,
    policy: Callable[..., bool] | None = None,
    static_argnums: int | Iterable[int] = (),
) -> Callable[..., object]:
    """Return a function that differentiates with less memory: its intermediate values are computed again.

    Parameters
    ----------
    prevent_cse
        Whether the compiler is kept from merging the second computation with the first; not needed inside of `scan`.
    policy
        Which values are kept all the same; see ``jax.checkpoint_policies``.
    static_argnums
        Positions of arguments that are Python values.

    Notes
    -----
    Captured Arrays are constants, writes to arguments stay inside, and draws from the global generator are the same
    in both computations.
    """
    fixed_positions = {static_argnums} if isinstance(static_argnums, int) else set(static_argnums)

    @functools.wraps(fn)
    def wrapped(*args: object, **kwargs: object) -> object:
        count = len(args)
        fixed = {i % count: args[i] for i in fixed_positions if -count <= i < count}
        dynamic = tuple(arg for i, arg in enumerate(args) if i not in fixed)
        wide = wide_tree(dynamic, kwargs)
        specs: dict[str, Spec] = {}
        raw, inputs = pack((dynamic, kwargs), operation="checkpoint")

        def body(values: Tree) -> Tree:
            with Scope("checkpoint").running():
                rest, keywords = unpack(values, inputs)
                remaining = iter(rest)
                merged = [fixed[i] if i in fixed else next(remaining) for i in range(count)]
                out, specs["out"] = pack_result(fn(*merged, **keywords))
                return out

        with entered(wide):
            out = jax.checkpoint(body, prevent_cse=prevent_cse, policy=policy)(raw)
            return unpack_result(out, specs["out"])

    return wrapped
