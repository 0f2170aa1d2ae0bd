"""Scopes: what a transform knows while it traces a function, and what a read or write of an outside Array means.

A handle remembers the trace that it was made in. A handle from outside of the running trace is read through the
scopes, outermost first: a `JitScope` turns it into a hidden operand, every other scope passes it on as it is. It is
written through the innermost scope: only a `JitScope` in its own trace allows that. A value written under a trace
lives in the scope, never in the handle, so that no tracer can stay there, whatever the function raises.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import cast

import jax
import numpy as np
from jax import lax

from .._array import Array
from .._compat import (
    current_trace,
    hidden_operand,
    in_trace,
    is_x64,
    restore_x64,
    swap_x64,
    trace_parent,
)
from ..core.dtypes import WIDE
from ..core.handle import Handle, held, tracing
from ..core.random import Stream, fold_in
from ..errors import RngUnderTrace

__all__ = ["JitScope", "Operand", "Scope", "StepScope", "entered"]


# How many transforms have x64 saved in this thread.
class _Transforms(threading.local):
    depth: int = 0


_transforms = _Transforms()


@contextlib.contextmanager
def entered(wide: bool) -> Iterator[None]:
    """Run a transform with x64 on where `wide`; leave x64 as it was, whatever a scope inside has switched on.

    A function of narrow arguments may use 64-bit types inside. Its rules of differentiation and lowering then run
    after it, and would truncate with x64 off, so leaving the function's scope switches it on.
    """
    previous = swap_x64(wide or is_x64())
    _transforms.depth += 1
    try:
        yield
    finally:
        _transforms.depth -= 1
        restore_x64(previous)


class Scope:
    """A transform that takes outside Arrays as constants and refuses writes to them."""

    __slots__ = ("_keys", "inner", "kind", "parent", "trace", "wide")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.parent: Scope | None = None
        self.trace: object | None = None
        self.wide = False
        self.inner: list[object] = []
        self._keys: dict[int, list[object]] = {}

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Enter the scope inside of the function that is being traced."""
        stack = tracing.scopes
        self.parent = stack[-1] if stack else None  # type: ignore[assignment]
        self.trace = current_trace()
        for scope in stack:
            scope.inner.append(self.trace)  # type: ignore[attr-defined]
        tracing.push(self)
        try:
            yield
        finally:
            tracing.pop()
            self.trace = None
            self.inner.clear()
            self._keys.clear()
            if self.parent is not None:
                self.parent.wide = self.parent.wide or self.wide
            if self.wide and _transforms.depth:
                swap_x64(True)  # what follows belongs to the same transform, which restores it; see `entered`

    def contains(self, handle: Handle) -> bool:
        """Whether a handle was made in the trace of this scope or in one inside of it."""
        mark: object | None = handle._owned
        if mark is True or mark is False:
            return False
        if mark is current_trace():
            return True
        while mark is not None:
            # The traces of shard_map do not name the trace around them, so scopes inside of this one tell it theirs.
            if mark is self.trace or mark in self.inner:
                return True
            mark = trace_parent(mark)
        return False

    def lift(self, handle: Handle, data: jax.Array) -> jax.Array:
        """Return what stands for `handle` in the running trace, and note whether 64-bit types take part."""
        if data.dtype in WIDE:
            self.wide = True
        return data if self.parent is None else self.parent.lift(handle, data)

    def allow_write(self, handle: Handle) -> bool:
        """Refuse: only `jit` carries out writes to Arrays from outside."""
        return current_trace() is self.trace and self.contains(handle)

    def allow_take(self, handle: Handle) -> bool:
        """Tell whether a handle was made in the running trace, or in a finished one inside of it."""
        return current_trace() is self.trace and self.contains(handle)

    def store(self, handle: Handle, data: jax.Array) -> None:
        """Rebind a handle that a finished inner trace has left behind."""
        handle._data = data
        handle._owned = self.trace

    # -- random keys

    def random_key(self, stream: object) -> jax.Array:
        """Return data of a fresh key of `stream`, different for each call, row of `vmap` and step of a loop.

        Raises
        ------
        RngUnderTrace
            Under a trace of plain JAX inside of this scope: nothing tells its rows or steps apart.
        """
        if current_trace() is not self.trace:
            raise RngUnderTrace(
                "random",
                got=f"a draw under a transform of plain JAX inside of {self.kind}",
                wanted="a transform of rtx_jax, which gives each row and step a key of its own",
                remedy="Use rtx_jax's transform of the same name, or pass key= to the draw.",
            )
        return self._next_key(cast(Stream, stream))

    def _next_key(self, stream: Stream) -> jax.Array:
        # In the trace of this scope: the key serves later draws too, which may come from another inner trace.
        with in_trace(self.trace):
            known = self._keys.get(id(stream))
            if known is None:
                known = self._keys[id(stream)] = [stream, self._base_key(stream), 0]
            known[2] += 1  # type: ignore[operator]
            return fold_in(known[1], known[2])  # type: ignore[arg-type]

    def _base_key(self, stream: Stream) -> jax.Array:
        """Return a key from the scope around this one, or a new one from the stream itself."""
        if self.parent is not None:
            return self.parent._next_key(stream)
        with jax.ensure_compile_time_eval():
            return stream.draw_data()


class StepScope(Scope):
    """A scope whose function runs many times: the key depends on `step`, an index that differs between the runs."""

    __slots__ = ("step",)

    def __init__(self, kind: str, step: Callable[[], jax.Array]) -> None:
        super().__init__(kind)
        self.step = step

    def _base_key(self, stream: Stream) -> jax.Array:
        return fold_in(super()._base_key(stream), lax.convert_element_type(self.step(), np.uint32))


class Operand:
    """A captured handle: the tracer that stands for it and the value that it has now in the trace."""

    __slots__ = ("aval", "handle", "index", "local", "value", "written")

    def __init__(self, handle: Handle, value: jax.Array, index: int, local: Array | None = None) -> None:
        self.handle, self.value, self.index, self.local = handle, value, index, local
        self.aval: object = jax.typeof(value)
        self.written = False


class JitScope(Scope):
    """The trace of a compiled function: outside Arrays become hidden operands and writes to them outputs."""

    __slots__ = ("operands", "streams")

    def __init__(self) -> None:
        super().__init__("jit")
        self.operands: dict[int, Operand] = {}
        self.streams: list[Stream] = []

    def release(self) -> None:
        """Let go of the tracers when the function has returned."""
        for operand in self.operands.values():
            operand.value = None  # type: ignore[assignment]
            if operand.local is not None:
                operand.local._data = None

    def add_argument(self, handle: Handle, local: Array, index: int) -> None:
        """Let `local` stand for an argument, also where the function reaches the caller's handle by itself."""
        self.operands[id(handle)] = Operand(handle, local._data, index, local)

    def lift(self, handle: Handle, data: jax.Array) -> jax.Array:
        """Return the hidden operand of this or an outer compiled function that stands for `handle`."""
        operand = self.operands.get(id(handle))
        if operand is not None:
            return operand.value if operand.local is None else held(operand.local)
        if self.trace is None or current_trace() is None or self.contains(handle):
            return data
        if self.parent is not None:
            data = self.parent.lift(handle, data)
        index = len(self.operands)
        value = hidden_operand(self.trace, jax.typeof(data), index)
        self.operands[id(handle)] = Operand(handle, value, index)
        return value

    def allow_write(self, handle: Handle) -> bool:
        """Capture the handle; a write in a trace inside of the function's own one is refused."""
        if current_trace() is not self.trace:
            return False
        if not self.contains(handle):
            self.lift(handle, held(handle))
        return True

    def store(self, handle: Handle, data: jax.Array) -> None:
        """Keep the new value; the caller of the compiled function stores it in the handle."""
        operand = self.operands.get(id(handle))
        if operand is None:
            super().store(handle, data)
        elif operand.local is not None:
            operand.local._data = data
        else:
            operand.value = data
            operand.written = True

    def _base_key(self, stream: Stream) -> jax.Array:
        # Indices of captured handles count up from 0, those of streams down from -1.
        self.streams.append(stream)
        return hidden_operand(self.trace, jax.core.ShapedArray((2,), np.dtype(np.uint32)), -len(self.streams))
