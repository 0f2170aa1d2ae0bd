"""From a traced function to a compiled program that writes into given memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import jax
import jax.numpy as jnp

from .._array import Array, wrap
from .._compat import apply_jaxpr
from ..core.handle import Handle, data_of
from ..core.op import raise_translated
from ..core.random import Stream
from ..transforms.program import Program
from ..transforms.scope import entered
from .client import Client
from .compiled_graph import CompiledGraph, Source
from .memory_plan import MemoryPlan
from .slots import Slot, slots_of
from .view import BufferView

__all__ = ["Builder"]


class Builder:
    """Makes the compiled graph of a traced program.

    Parameters
    ----------
    operands
        For each operand of the program what it is: a view of a buffer, an Array, or where a key comes from.
    writes
        Which output of the program is the new value of which operand.
    fresh
        Outputs that belong to no operand; each gets an Array of its own, see `destinations`.
    client
        Whose buffers there are; None for none.
    received
        How many of the operands the function receives; it reaches the others by itself.
    """

    def __init__(
        self,
        name: str,
        program: Program,
        operands: Sequence[Source | BufferView],
        writes: dict[int, int],
        fresh: Sequence[int],
        client: Client | None,
        received: int,
    ) -> None:
        self.name, self.program, self.client, self.received = name, program, client, received
        self.wide = program.wide
        views = [(i, x) for i, x in enumerate(operands) if isinstance(x, BufferView)]
        self.slots = slots_of(views)
        others = [i for i, x in enumerate(operands) if not isinstance(x, BufferView)]
        self.writes, self.fresh, self.operands = writes, list(fresh), list(operands)
        # Written ones first, as they are donated: buffers, Arrays, new Arrays; then what is only read.
        self.written_slots = [x for x in self.slots if any(i in writes for i, _ in x.views)]
        self.read_slots = [x for x in self.slots if x not in self.written_slots]
        self.written = [i for i in others if i in writes]
        self.read = [i for i in others if i not in writes]
        self.constants = [i for i, x in enumerate(program.closed.consts) if isinstance(x, jax.Array)]
        self.destinations: list[Array] = []

    def function(self) -> Callable[..., list[jax.Array]]:
        """Return the program over the operands in their order for the compiler."""
        closed, constants = self.program.closed, self.constants
        slots, count = [*self.written_slots, *self.read_slots], len(self.operands)
        written_slots, written, read_, fresh = self.written_slots, self.written, self.read, self.fresh
        writes = self.writes

        def program(*given: jax.Array) -> list[jax.Array]:
            rest = iter(given)
            values: list[jax.Array | None] = [None] * count
            stores = {id(x): next(rest) for x in written_slots}
            for i in written:
                values[i] = next(rest)
            for _ in fresh:
                next(rest)
            stores.update((id(x), next(rest)) for x in self.read_slots)
            for i in read_:
                values[i] = next(rest)
            consts = list(closed.consts)
            for i in constants:
                consts[i] = next(rest)
            for slot in slots:
                for i, view in slot.views:
                    values[i] = slot.take(stores[id(slot)], view)
            results = apply_jaxpr(closed, consts, values)
            news = []
            for slot in written_slots:
                store = stores[id(slot)]
                for i, view in slot.views:
                    if i in writes:
                        store = slot.put(store, view, results[writes[i]])
                news.append(store)
            return [*news, *[results[writes[i]] for i in written], *[results[i] for i in fresh]]

        program.__name__ = program.__qualname__ = self.name
        return program

    def compile(self, max_temp_bytes: int | None) -> tuple[CompiledGraph, MemoryPlan]:
        """Return the compiled graph and what it takes."""
        function = self.function()
        head: list[Source] = [*self.written_slots]
        head += [cast(Source, self.operands[i]) for i in self.written]
        tail: list[Source] = [*self.read_slots]
        tail += [cast(Source, self.operands[i]) for i in self.read]
        tail += [self.program.closed.consts[i] for i in self.constants]
        avals = self.program.closed.out_avals
        new = [jax.ShapeDtypeStruct(avals[i].shape, avals[i].dtype) for i in self.fresh]
        donors = len(head) + len(new)
        try:
            with entered(self.wide):
                before, after = [_abstract(x) for x in head], [_abstract(x) for x in tail]
                new = _placed(function, [*before, *new, *after], len(before), new)
                jitted = jax.jit(
                    function,
                    donate_argnums=tuple(range(donors)),
                    keep_unused=True,
                    out_shardings=_shardings([*before, *new]),
                )
                compiled = jitted.lower(*before, *new, *after).compile()
                plan = MemoryPlan.of(compiled, jax.default_backend())
                plan.check(max_temp_bytes)
                if new:
                    self.destinations = [wrap(x) for x in _zeros(new, compiled, len(head))]
        except Exception as error:
            raise_translated("capture", error)
        graph = CompiledGraph(
            self.name,
            function,
            compiled,
            [*head, *self.destinations, *tail],
            donors,
            self.client,
            self.wide,
            self._kept(len(head), len(new), len(self.read_slots)),
        )
        return graph, plan

    def _kept(self, head: int, new: int, read_slots: int) -> frozenset[int]:
        """Return the places of the Arrays that the function reads without receiving them, and of constants."""
        start = head - len(self.written)
        kept = [start + k for k, i in enumerate(self.written) if i >= self.received]
        start = head + new + read_slots
        kept += [start + k for k, i in enumerate(self.read) if i >= self.received]
        start += len(self.read)
        return frozenset((*kept, *range(start, start + len(self.constants))))


def _abstract(source: Source) -> jax.ShapeDtypeStruct:
    """Return what the compiler is told of an operand: where it lies, if that is a choice of the user's."""
    if source is None or isinstance(source, Stream):
        return jax.ShapeDtypeStruct((2,), jnp.uint32)
    if isinstance(source, Slot):
        with source.buffer.client.lock:
            data = source.read()
    else:
        data = data_of(source) if isinstance(source, Handle) else source
    return jax.ShapeDtypeStruct(data.shape, data.dtype, sharding=data.sharding if data.committed else None)


def _spread(operand: jax.ShapeDtypeStruct) -> bool:
    return operand.sharding is not None and len(operand.sharding.device_set) > 1


def _placed(
    function: Callable[..., list[jax.Array]],
    operands: Sequence[jax.ShapeDtypeStruct],
    first: int,
    new: Sequence[jax.ShapeDtypeStruct],
) -> list[jax.ShapeDtypeStruct]:
    """Return the new outputs with their shardings, which only the compiler knows where operands are spread."""
    if not new or not any(map(_spread, operands)):
        return list(new)
    shardings = jax.jit(function, keep_unused=True).lower(*operands).compile().output_shardings
    return [jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=shardings[first + i]) for i, x in enumerate(new)]


def _shardings(written: Sequence[jax.ShapeDtypeStruct]) -> list[object] | None:
    """Return the shardings of the results where they must be told: those of the memory that they are written to."""
    return [x.sharding for x in written] if any(map(_spread, written)) else None


def _zeros(new: Sequence[jax.ShapeDtypeStruct], compiled: jax.stages.Compiled, first: int) -> list[jax.Array]:
    """Return the memory of the new outputs, made by a compiled call, as only such memory is written in place."""
    shardings = compiled.output_shardings[first:]

    def zeros() -> list[jax.Array]:
        return [jnp.zeros(x.shape, x.dtype) for x in new]

    made: list[jax.Array] = jax.jit(zeros, out_shardings=list(shardings))()
    return made
