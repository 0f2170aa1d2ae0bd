"""checked: run a function with checks that also work under compilation, and get the error as a value."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import jax

from ..core.handle import tracing
from ..errors import IndexOutOfBounds, InvalidArgument
from .compiled import jit
from .scope import Scope, entered
from .trees import Spec, Tree, pack, pack_result, unpack, unpack_result, wide_tree

__all__ = ["CheckedError", "checked"]

if TYPE_CHECKING:
    from jax.experimental import checkify

_CHECKS = {"index": "index_checks", "nan": "nan_checks", "division": "div_checks"}


class CheckedError:
    """What the checks of one call found; a tree, so it may leave a compiled function."""

    __slots__ = ("_error",)

    def __init__(self, error: checkify.Error) -> None:
        self._error = error

    def get(self) -> str | None:
        """Return the first error in words, or None."""
        message: str | None = self._error.get()
        return None if message is None else message.split("\n")[0].strip()

    def throw(self) -> None:
        """Raise the first error, if there is one.

        Raises
        ------
        IndexOutOfBounds
            An index was out of range.
        ZeroDivisionError
            A division by zero.
        FloatingPointError
            An operation made a NaN.
        """
        message = self.get()
        if message is None:
            return
        if "out-of-bounds" in message or "out of bounds" in message:
            raise IndexOutOfBounds("checked", got=message, wanted="indices in range", index=message, size="")
        if "division by zero" in message:
            raise ZeroDivisionError(message)
        raise FloatingPointError(message)

    def __bool__(self) -> bool:
        return self.get() is not None

    def __repr__(self) -> str:
        return f"CheckedError({self.get()!r})"


jax.tree_util.register_pytree_node(
    CheckedError, lambda error: ((error._error,), None), lambda _, children: CheckedError(children[0])
)


def checked(
    fn: Callable[..., object], *, errors: Iterable[str] = ("index", "nan", "division")
) -> Callable[..., tuple[CheckedError, object]]:
    """Return a function that also returns what went wrong: ``error, value = checked(fn)(*args)``.

    Parameters
    ----------
    errors
        What to look for: ``"index"`` (out of range), ``"nan"`` (an operation makes a NaN), ``"division"`` (by zero).

    Returns
    -------
    callable
        Takes the arguments of `fn`; returns a `CheckedError` and the value. ``error.throw()`` raises.

    Notes
    -----
    Works inside of `jit`; called eagerly, the function is compiled. A write to an argument stays inside.

    Examples
    --------
    >>> import rtx_jax as xp
    >>> error, value = xp.checked(lambda x, i: x[i])(xp.zeros(3), xp.asarray([5]))
    >>> bool(error)
    True
    """
    wanted = tuple(errors)
    for name in wanted:
        if name not in _CHECKS:
            raise InvalidArgument(
                "checked", "errors", got=repr(name), wanted=", ".join(_CHECKS), arg="errors", reason="unknown check"
            )
    from jax.experimental import checkify  # it loads much else, so only where it is used

    kinds: frozenset[type] = functools.reduce(
        lambda sets, name: sets | getattr(checkify, _CHECKS[name]), wanted, frozenset()
    )

    def traced(*args: object, **kwargs: object) -> tuple[CheckedError, object]:
        raw, spec = pack((args, kwargs), operation="checked")
        result: list[Spec] = []

        def body(values: Tree) -> Tree:
            with Scope("checked").running():
                inner, named = unpack(values, spec)
                out, out_spec = pack_result(fn(*inner, **named))
                result.append(out_spec)
                return out

        with entered(wide_tree(args, kwargs)):
            error, out = checkify.checkify(body, errors=kinds)(raw)
            return CheckedError(error), unpack_result(out, result[-1])

    compiled = jit(functools.wraps(fn)(traced))

    @functools.wraps(fn)
    def wrapped(*args: object, **kwargs: object) -> tuple[CheckedError, object]:
        return compiled(*args, **kwargs) if tracing.settle() else traced(*args, **kwargs)

    return wrapped
