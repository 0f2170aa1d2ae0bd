"""Capture: a function of inputs and outputs becomes a graph, on any runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from .._array import Array
from ..checks.parameters import function as check_function
from ..errors import DeviceMismatch, InvalidArgument
from .buffer import Buffer
from .capture_jax import capture, trace_into
from .capture_numpy import record_into
from .client import Client
from .graph import CapturedGraph, Operand
from .memory_plan import check_limit
from .numpy_client import NumpyClient
from .operands import Operands
from .view import BufferView

__all__ = ["Captured", "capture", "capture_graph_into"]

Captured: TypeAlias = "Buffer | BufferView | Array | np.ndarray"
"""What a captured function reads and writes: see `capture_graph_into`."""


def capture_graph_into(
    client: Client,
    inputs: Sequence[Captured],
    outputs: Sequence[Captured],
    fn: Callable[..., object],
    /,
    *,
    max_temp_bytes: int | None = None,
) -> CapturedGraph:
    """Capture ``fn(*inputs, *outputs)`` as a graph that writes into the memory of the outputs.

    Parameters
    ----------
    client
        The client of the device.
    inputs, outputs
        Views of buffers of the client (`Buffer.view`), buffers (their bytes), Arrays, or on the NumPy runtime NumPy
        arrays. One that is both an input and an output is state: the function reads what the last launch wrote.
        Outputs must not overlap.
    fn
        Called once, with a value for each input and an `Output` for each output. On a device of JAX values are Arrays:
        it may use the namespace, `nn`, and the operations of a backend of that platform. On the NumPy runtime they
        are `HostValue`: it may use NumPy's functions and operators, and the operations of `NumpyBackend`. What it
        returns is dropped. Arrays that it reads without receiving them are read at each launch.
    max_temp_bytes
        The most that intermediate values may take; None for no limit.

    Returns
    -------
    CapturedGraph
        Nothing has been written yet.

    Raises
    ------
    InvalidArgument
        The function leaves an output alone, writes an input, or the operands overlap or are no sequences.
    ShapeMismatch
        It writes a value of another shape or dtype to an output.
    OutOfMemory
        The intermediate values take more than `max_temp_bytes`. Nothing has run.
    AllocatorFrozen
        The function allocates a buffer.
    UseAfterFree
        A buffer was freed.
    DeviceMismatch
        A buffer belongs to another client.
    Exception
        Whatever the function raises. The runtime is as it was before.

    Examples
    --------
    >>> from rtx_jax.runtime import JaxRuntime, capture_graph_into
    >>> runtime = JaxRuntime("cpu")
    >>> a, b, c = (runtime.allocate(8).view("float32", (2,)) for _ in range(3))
    >>> graph = capture_graph_into(runtime.default_client(), [a, b], [c], lambda a, b, c: c.write(a + b))
    >>> a.write([1, 2])
    >>> b.write([10, 20])
    >>> graph.launch()
    >>> c.read()
    array([11., 22.], dtype=float32)
    """
    check_function("capture", "fn", fn)
    check_limit(max_temp_bytes)
    for argument, given in (("inputs", inputs), ("outputs", outputs)):
        if not isinstance(given, Sequence):
            raise InvalidArgument(
                "capture",
                argument,
                got=f"an object of type {type(given).__name__}",
                wanted="a sequence of views, buffers and Arrays",
                remedy="Write [x] for one.",
                arg=argument,
                reason="not a sequence",
            )
    operands = Operands(
        [_operand(client, x, f"inputs[{i}]") for i, x in enumerate(inputs)],
        [_operand(client, x, f"outputs[{i}]") for i, x in enumerate(outputs)],
    )
    into = record_into if isinstance(client, NumpyClient) else trace_into
    return into(client, operands, fn, max_temp_bytes)


def _operand(client: Client, given: Captured, label: str) -> Operand:
    """Return an input or output as a view of a buffer of this client, or an array that can be written."""
    if isinstance(given, Buffer):
        given = given.view("uint8")
    if isinstance(given, BufferView):
        given.buffer._check("capture")
        if given.buffer.client is not client:
            raise DeviceMismatch(
                "capture",
                label,
                got=f"a buffer on {given.buffer.client.device}",
                wanted=f"one on {client.device}",
                remedy="Capture on the device of the buffer: runtime.capture(..., device=buffer.client.device).",
                devices=(str(given.buffer.client.device), str(client.device)),
            )
        return given
    ours = np.ndarray if isinstance(client, NumpyClient) else Array
    if isinstance(given, ours):
        return given
    raise InvalidArgument(
        "capture",
        label,
        got=f"an object of type {type(given).__name__}",
        wanted=f"a view of a buffer on {client.device}, or {'a NumPy array' if ours is np.ndarray else 'an Array'}",
        remedy="Use buffer.view(dtype, shape)." if ours is np.ndarray else "Use buffer.view(dtype, shape), or asarray.",
        arg=label,
        reason="nothing that a launch can read anew",
    )
