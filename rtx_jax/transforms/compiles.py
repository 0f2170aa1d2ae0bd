"""explain_compiles: what was compiled, when, and what in the arguments made it necessary."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

import jax

__all__ = ["CompileEvent", "CompileReport", "explain_compiles", "note_trace"]

_COMPILED = "/jax/core/compile/backend_compile_duration"


@dataclass(frozen=True, slots=True)
class CompileEvent:
    """One trace or one compilation.

    Attributes
    ----------
    kind
        ``"trace"`` for a function of `rtx_jax.jit`, ``"compile"`` for anything that XLA compiled.
    name
        The function or operation.
    at_s
        Seconds since the report began.
    duration_s
        How long XLA took; 0 for a trace.
    reason
        For a trace: what differs from the nearest signature traced before.
    """

    kind: str
    name: str
    at_s: float
    duration_s: float
    reason: str

    def __str__(self) -> str:
        took = f" in {self.duration_s * 1e3:.1f} ms" if self.kind == "compile" else ""
        return f"{self.at_s:8.3f} s  {self.kind:7} {self.name}{took}" + (f": {self.reason}" if self.reason else "")


@dataclass(slots=True)
class CompileReport:
    """What happened while `explain_compiles` was active."""

    events: list[CompileEvent] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    @property
    def traces(self) -> list[CompileEvent]:
        """The traces of functions of `rtx_jax.jit`."""
        return [event for event in self.events if event.kind == "trace"]

    @property
    def compiles(self) -> list[CompileEvent]:
        """The compilations of XLA."""
        return [event for event in self.events if event.kind == "compile"]

    def __str__(self) -> str:
        if not self.events:
            return "nothing was compiled"
        return "\n".join(str(event) for event in self.events)


_reports: list[CompileReport] = []
_lock = threading.Lock()
_listening = False


@contextlib.contextmanager
def explain_compiles() -> Iterator[CompileReport]:
    """Report what is traced and compiled in the body, in any thread.

    Examples
    --------
    >>> import rtx_jax as xp
    >>> double = xp.jit(lambda x: x * 2)
    >>> y = double(xp.zeros(3))
    >>> with xp.explain_compiles() as report:
    ...     y = double(xp.zeros(4))
    >>> print(report.traces[0].reason)
    x: shape (3,) -> (4,)
    """
    global _listening
    report = CompileReport()
    with _lock:
        if not _listening:
            # JAX has no public way to take a listener back, so there is one, added on first use.
            jax.monitoring.register_event_duration_secs_listener(_heard)
            _listening = True
        _reports.append(report)
    try:
        yield report
    finally:
        with _lock:
            _reports.remove(report)


def _heard(event: str, duration_secs: float, **details: str | int) -> None:
    if event == _COMPILED and _reports:
        _note("compile", str(details.get("fun_name", "a function")), duration_secs, "")


def _note(kind: str, name: str, duration_s: float, reason: str) -> None:
    now = time.perf_counter()
    for report in list(_reports):
        report.events.append(CompileEvent(kind, name, now - report.started, duration_s, reason))


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature in words: what the structure is, and a description for each argument leaf and static value."""

    structure: object
    leaves: tuple[tuple[str, str], ...]
    context: Hashable

    def difference(self, other: Signature) -> list[str]:
        """Say what is new in `self` against `other`."""
        if self.structure != other.structure or len(self.leaves) != len(other.leaves):
            return [f"structure of the arguments: {other.structure} -> {self.structure}"]
        changes = []
        for (label, now), (_, before) in zip(self.leaves, other.leaves, strict=True):
            if now != before:
                changes.append(f"{label}: {_changed(before, now)}")
        if not changes and self.context != other.context:
            changes.append("settings of JAX or rtx_jax (x64, precision, default dtype, mesh)")
        return changes or ["a captured Array has another shape or dtype, or another name reaches it"]


def _changed(before: str, now: str) -> str:
    """Describe a change of ``"dtype float32 shape (3,)"`` by the part that differs."""
    old, new = before.split("; "), now.split("; ")
    if len(old) != len(new):
        return f"{before} -> {now}"
    parts = []
    for was, is_ in zip(old, new, strict=True):
        if was != is_:
            parts.append(f"{was} -> {is_.partition(' ')[2] if was.partition(' ')[0] == is_.partition(' ')[0] else is_}")
    return ", ".join(parts)


def note_trace(name: str, signature: Signature, before: Sequence[Signature]) -> None:
    """Record the trace of a function of `jit`, with the smallest difference from what was traced before."""
    if _reports:
        reasons: list[list[str]] = sorted((signature.difference(other) for other in before), key=len)
        reason = "; ".join(reasons[0]) if reasons else "first call"
        _note("trace", name, 0.0, reason)
