"""What a function that is being recorded as a whole reads from outside."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from types import TracebackType

from ...core.recorder import Node
from .tensor import Leaf, TrackedTensor

__all__ = ["Trace", "note", "state"]


class _State(threading.local):
    traces: tuple[Trace, ...] = ()
    """The functions that this thread is recording, the innermost last."""


state = _State()


class Trace:
    """One function that is being recorded, in the backend of one level; a context manager.

    Attributes
    ----------
    since
        Nodes with a smaller serial were there before.
    captured
        Tensors from outside that calls read, by the identity of their sources.
    """

    __slots__ = ("captured", "level", "since")

    def __init__(self, level: int) -> None:
        self.level = level
        self.since = Node(_nothing, False, ()).serial
        self.captured: dict[int, TrackedTensor] = {}

    def __enter__(self) -> Trace:
        state.traces = (*state.traces, self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        state.traces = state.traces[:-1]

    def note(self, tensors: Iterable[TrackedTensor]) -> None:
        """Keep those tensors that are from outside."""
        for x in tensors:
            source = x._source
            if type(source) is Leaf or source.node.serial < self.since:  # type: ignore[union-attr]
                self.captured[id(source)] = x


def note(level: int, tensors: Iterable[TrackedTensor]) -> None:
    """Tell the innermost recorded function of a level which tensors a call reads."""
    for trace in reversed(state.traces):
        if trace.level == level:
            trace.note(tensors)
            return


def _nothing() -> None:
    """Stand in for a function in a node that only counts."""
