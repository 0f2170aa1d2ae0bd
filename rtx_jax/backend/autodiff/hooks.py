"""Hooks: what is done with the gradients of every backward pass before the caller gets them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ...errors import InvalidArgument
from .gradient_map import GradientMap

__all__ = ["GradientHook", "Hook", "Hooks"]

GradientHook: TypeAlias = "Callable[[GradientMap], GradientMap | None]"
"""Gets the gradients of a backward pass; changes them in place, or returns others."""


class Hook:
    """A registered hook, for its removal; also a context manager that removes it."""

    __slots__ = ("_hooks", "fn")

    def __init__(self, hooks: list[Hook], fn: GradientHook) -> None:
        self._hooks, self.fn = hooks, fn

    def remove(self) -> None:
        """Take the hook away; once more does nothing."""
        self._hooks[:] = [hook for hook in self._hooks if hook is not self]

    def __enter__(self) -> Hook:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class Hooks:
    """The hooks of one backend, in the order in which they run."""

    __slots__ = ("_hooks",)

    def __init__(self) -> None:
        self._hooks: list[Hook] = []

    def add(self, fn: GradientHook) -> Hook:
        """Register a hook."""
        if not callable(fn):
            raise InvalidArgument(
                "register_hook",
                "hook",
                got=type(fn).__name__,
                wanted="a function of a GradientMap",
                arg="hook",
                reason="not callable",
            )
        hook = Hook(self._hooks, fn)
        self._hooks.append(hook)
        return hook

    def run(self, gradients: GradientMap) -> GradientMap:
        """Return what the hooks make of the gradients."""
        for hook in tuple(self._hooks):
            changed = hook.fn(gradients)
            if changed is not None:
                if not isinstance(changed, GradientMap):
                    raise InvalidArgument(
                        "backward",
                        "hook",
                        got=f"a hook that returned {type(changed).__name__}",
                        wanted="a GradientMap, or None where it changed the one it got",
                        arg="hook",
                        reason="not a GradientMap",
                    )
                gradients = changed
        return gradients
