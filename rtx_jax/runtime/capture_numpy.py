"""Capture on the NumPy runtime: the function runs once on recorded values, and its calls become the steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..core.host_recorder import HostTape, HostValue, taping
from .client import Client
from .graph import CapturedGraph
from .operands import Operands
from .output import Output, check_written
from .recording import is_recording, traced
from .replay import ReplayGraph, _memory

__all__ = ["record_into"]


def record_into(
    client: Client, operands: Operands, fn: Callable[..., object], max_temp_bytes: int | None
) -> CapturedGraph:
    """Capture ``fn(*inputs, *outputs)``; see `capture_graph_into`."""
    if is_recording():
        raise traced("capture")
    with client.lock:
        examples = [_memory(x).copy() for x in operands.distinct]  # type: ignore[arg-type]
    with client.allocator.frozen("capture"), taping() as tape:
        values = [tape.leaf(x, x) for x in examples]
        slots = [value.slot for value in values]
        outputs: list[Output[HostValue]] = [
            _RecordedOutput(values[place], i, tape) for i, place in enumerate(operands.output_places)
        ]
        fn(*[values[place] for place in operands.input_places], *outputs)
    check_written(outputs)
    operands.check_writes([i for i, value in enumerate(values) if value.slot != slots[i]])
    results = [(x, output.value.slot) for x, output in zip(operands.outputs, outputs, strict=True)]
    graph = ReplayGraph(client, tape, operands.distinct, results)  # type: ignore[arg-type]
    plan = graph.memory()
    plan.check(max_temp_bytes)
    name = getattr(fn, "__name__", type(fn).__name__)
    return CapturedGraph(graph, operands.inputs, operands.outputs, plan, name)


class _RecordedOutput(Output[HostValue]):
    """An output whose value is recorded."""

    __slots__ = ("_tape",)

    def __init__(self, value: HostValue, position: int, tape: HostTape) -> None:
        super().__init__(value, position)
        self._tape = tape

    def _store(self, value: object) -> None:
        if isinstance(value, bool | int | float | complex) and not isinstance(value, np.generic):
            value = np.asarray(value, self.dtype)
        if not isinstance(value, HostValue):
            value = self._tape.leaf(np.asarray(value))
        self._check(value.shape, value.dtype)
        self.value.rebind(value)
