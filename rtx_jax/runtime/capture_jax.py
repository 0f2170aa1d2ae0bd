"""Capture on devices of JAX: the function is traced once and compiled, its outputs in given memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import numpy as np

from .._array import Array, lift, wrap, wrap_shared
from ..checks.parameters import function as check_function
from ..core.handle import Handle, data_of, rebind, tracing
from ..transforms.compiled import take_apart
from ..transforms.program import Call, Program, trace
from ..transforms.scope import entered
from ..transforms.trees import ARRAY, NUMBER, PLAIN, flatten, needs_x64, strengthen
from .client import Client
from .compile import Builder
from .compiled_graph import Source
from .graph import CapturedGraph, Operand
from .memory_plan import check_limit
from .operands import Operands
from .output import Output, check_written
from .recording import traced
from .view import BufferView

__all__ = ["capture", "trace_into"]


def capture(fn: Callable[..., object], /, *examples: object, max_temp_bytes: int | None = None) -> CapturedGraph:
    """Capture a function of Arrays, to be launched on the Arrays themselves.

    Parameters
    ----------
    fn
        The function. It is traced once; what it may hold is what `rtx_jax.jit` takes.
    *examples
        Its arguments: trees of Arrays, plain arrays, NumPy arrays and numbers. An Array stays the graph's input: each
        launch reads what it holds then. Everything else is copied into Arrays, which are among the graph's ``inputs``.
    max_temp_bytes
        The most that intermediate values may take; None for no limit.

    Returns
    -------
    CapturedGraph
        Its ``result`` is what `fn` returned, as Arrays that each launch writes in place, and which are zero before the
        first. Arrays that `fn` writes, arguments or not, are written by each launch. Arrays that it reads without
        receiving them are read at each launch, and a draw from a generator is a new one. Nothing has run yet.

    Raises
    ------
    OutOfMemory
        The intermediate values take more than `max_temp_bytes`.
    UnsupportedDType
        An argument is no array or number.
    ConcretizationError
        The function asks for a value, as in ``if x > 0``, or JAX is tracing.

    Examples
    --------
    >>> import rtx_jax as xp
    >>> from rtx_jax.runtime import capture
    >>> total, x = xp.zeros(2), xp.asarray([1.0, 2.0])
    >>> def step(x):
    ...     total[...] += x
    >>> graph = capture(step, x)
    >>> graph.launch()
    >>> x[0] = 5.0
    >>> graph.launch()
    >>> total
    Array([6., 4.])
    """
    if tracing.active and not tracing.settle():
        raise traced("capture")
    check_function("capture", "fn", fn)
    check_limit(max_temp_bytes)
    name = _name(fn)
    leaves, tree = flatten((examples, {}))
    with entered(needs_x64(leaves)):
        call = take_apart(name, leaves, tree, None)
        program, found = trace(fn, name, call, frozenset())
    handles = [_new_input(program, call, i) if x is None else x for i, x in enumerate(call.handles)]
    operands: list[Source | BufferView] = [*handles, *_hidden(program, found)]
    writes = {**dict(program.argument_writes), **_hidden_writes(program, len(handles))}
    fresh = sorted({output for kind, output in program.result if kind in ("new", "plain")})
    builder = Builder(name, program, operands, writes, fresh, None, len(handles))
    graph, plan = builder.compile(max_temp_bytes)
    result = _result(program, dict(zip(fresh, builder.destinations, strict=True)), handles, found)
    written = [operands[i] for i in writes]
    outputs = {id(x): x for x in (*flatten(result)[0], *written) if isinstance(x, Array)}
    return CapturedGraph(graph, handles, list(outputs.values()), plan, name, result)


def trace_into(
    client: Client, operands: Operands, fn: Callable[..., object], max_temp_bytes: int | None
) -> CapturedGraph:
    """Capture ``fn(*inputs, *outputs)``; see `capture_graph_into`."""
    if tracing.active and not tracing.settle():
        raise traced("capture")
    name = _name(fn)
    outputs: list[Output[Array]] = []

    def run(*arrays: Array) -> None:
        outputs[:] = [_ArrayOutput(arrays[place], i) for i, place in enumerate(operands.output_places)]
        fn(*[arrays[place] for place in operands.input_places], *outputs)

    call = _call(operands.distinct)
    with entered(needs_x64(call.handles)), client.allocator.frozen("capture"):
        program, found = trace(run, name, call, frozenset())
    check_written(outputs)
    operands.check_writes([place for place, _ in program.argument_writes])
    count = len(operands.distinct)
    given: list[Source | BufferView] = [*operands.distinct, *_hidden(program, found)]  # type: ignore[list-item]
    writes = {**dict(program.argument_writes), **_hidden_writes(program, count)}
    graph, plan = Builder(name, program, given, writes, [], client, count).compile(max_temp_bytes)
    return CapturedGraph(graph, operands.inputs, operands.outputs, plan, name)


class _ArrayOutput(Output[Array]):
    """An output whose value is an Array of the trace."""

    __slots__ = ()

    def _store(self, value: object) -> None:
        if isinstance(value, bool | int | float | complex):
            data = lift(value, self.dtype)
        else:
            data = strengthen(lift(getattr(value, "jax", value), None, "capture", f"outputs[{self.position}]"))
        self._check(data.shape, data.dtype)
        rebind(self.value, data, "capture")


def _call(operands: Sequence[Operand]) -> Call:
    """Return the operands as those of a trace; a view of a buffer is known by its type alone."""
    handles: list[Array | None] = []
    data: list[object] = []
    for operand in operands:
        if isinstance(operand, BufferView):
            handle = object.__new__(Array)
            handle._data = jax.ShapeDtypeStruct(operand.shape, operand.dtype)
            handle._owned = False
            data.append(handle._data)
        else:
            assert isinstance(operand, Array)
            handle = operand
            data.append(data_of(handle))
        handles.append(handle)
    return Call(
        rebuild=lambda values: (tuple(values), {}),
        slots=list(range(len(handles))),
        kinds=[ARRAY] * len(handles),
        operands=data,
        handles=handles,
    )


def _new_input(program: Program, call: Call, i: int) -> Array:
    """Return an Array for an argument that was none."""
    data = call.operands[i]
    if call.kinds[i] == NUMBER:
        return wrap(lift(np.asarray(data, program.closed.in_avals[i].dtype)))
    assert isinstance(data, jax.Array)
    return wrap_shared(data) if call.kinds[i] == PLAIN else wrap(data)


def _hidden(program: Program, found: Sequence[Handle | None]) -> list[Source]:
    """Return where the operands come from that the function does not receive."""
    return [program.streams[-1 - index] if index < 0 else found[index] for index in program.hidden]


def _hidden_writes(program: Program, start: int) -> dict[int, int]:
    """Return for each Array that is written without being received its operand, and the output."""
    place = {index: start + i for i, index in enumerate(program.hidden)}
    return {place[index]: output for index, output in program.captured_writes}


def _result(
    program: Program, made: dict[int, Array], handles: Sequence[Array], found: Sequence[Handle | None]
) -> object:
    """Return what the function returned, as the Arrays that the launches write."""
    leaves: list[object] = []
    for kind, value in program.result:
        if kind in ("new", "plain"):
            leaves.append(made[value])
        elif kind == "argument":
            leaves.append(handles[value])
        elif kind == "captured":
            leaves.append(found[value])
        elif kind == "same":
            leaves.append(leaves[value])
        else:
            leaves.append(program.values[value])
    return program.out_tree.unflatten(leaves)


def _name(fn: Callable[..., object]) -> str:
    return getattr(fn, "__name__", type(fn).__name__)
