"""`Graph` and `CapturedGraph`: a recorded computation that can be launched again and again."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from .memory_plan import MemoryPlan

if TYPE_CHECKING:
    from .._array import Array
    from .client import Client
    from .view import BufferView

__all__ = ["CapturedGraph", "Graph", "Operand"]

Operand: TypeAlias = "BufferView | Array | np.ndarray"
"""What a graph reads and writes: a typed view of a buffer, an Array, or on the NumPy runtime a NumPy array."""


class Graph(ABC):
    """A computation on fixed operands, ready to run."""

    @abstractmethod
    def launch(self) -> None:
        """Run once: read the inputs as they are now, and write the outputs."""

    def is_replay_capable(self) -> bool:
        """Tell whether `launch` computes anew, as it does wherever a runtime says `supports_graph_capture`."""
        return True


class CapturedGraph:
    """A graph with its inputs and outputs, which it keeps alive.

    `launch` reads the inputs where they are and writes the outputs where they are: new inputs are written into the
    same memory, and the outputs are read from the same memory. It may be called from several threads; one launch runs
    after the other.

    Attributes
    ----------
    graph
        What is launched.
    inputs, outputs
        Views of buffers, or Arrays. An Array that the captured function writes is among the outputs.
    result
        What the function returned to `capture`, as a tree of Arrays that each launch renews; None for
        `capture_graph_into`, and after `load` the tuple of outputs.
    memory
        What a launch takes.
    name
        The name of the function.

    Examples
    --------
    >>> import rtx_jax as xp
    >>> from rtx_jax.runtime import capture
    >>> x = xp.asarray([1.0, 2.0])
    >>> graph = capture(lambda x: x * 2, x)
    >>> graph.launch()
    >>> graph.result
    Array([2., 4.])
    >>> x[...] = 10.0
    >>> graph.launch()
    >>> graph.result
    Array([20., 20.])
    """

    __slots__ = ("__weakref__", "_count", "_lock", "graph", "inputs", "memory", "name", "outputs", "result")

    def __init__(
        self,
        graph: Graph,
        inputs: Sequence[Operand],
        outputs: Sequence[Operand],
        memory: MemoryPlan,
        name: str,
        result: object = None,
    ) -> None:
        self.graph, self.memory, self.name, self.result = graph, memory, name, result
        self.inputs: tuple[Operand, ...] = tuple(inputs)
        self.outputs: tuple[Operand, ...] = tuple(outputs)
        self._count = 0
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return (
            f"<CapturedGraph {self.name}: {len(self.inputs)} inputs, {len(self.outputs)} outputs, "
            f"{self.memory.temp} temporary bytes, launched {self._count} times>"
        )

    def launch(self) -> None:
        """Run the graph once. On a device it returns before the work is done; reading an output waits.

        Raises
        ------
        UseAfterFree, UseAfterMove
            An input or output is gone. The other operands are as they were.
        OutOfMemory
            The device has no room.
        ConcretizationError
            JAX is tracing: inside of a traced function call the captured function itself.
        """
        with self._lock:
            self.graph.launch()
            self._count += 1

    @property
    def launch_count(self) -> int:
        """How many launches there were."""
        return self._count

    def is_replay_capable(self) -> bool:
        """Tell whether `launch` computes anew; it does on every runtime here."""
        return self.graph.is_replay_capable()

    # -- files

    def save(self, path: str | os.PathLike[str], /) -> None:
        """Write the graph to a file, for `load` on this kind of device.

        The file holds the compiled program, and where it can be exported also the program that it was compiled from.
        The current values of Arrays that the function reads without receiving them go into the file; those of inputs
        and outputs do not.

        Raises
        ------
        BackendLimitation
            The graph calls back into Python, lies on several devices, or holds something that has no form in a file.
        """
        from .files import save

        save(self, path)

    def export(
        self, path: str | os.PathLike[str], /, platforms: Sequence[str] = ("cpu", "cuda", "rocm", "tpu")
    ) -> None:
        """Write the graph to one file for several platforms, for `load`, which compiles it for the one that is there.

        Parameters
        ----------
        path
            The file.
        platforms
            Of ``"cpu"``, ``"cuda"``, ``"rocm"`` and ``"tpu"``; they need not be here.

        Raises
        ------
        BackendLimitation
            The graph holds something that cannot be exported, a platform has no implementation of it, or it is of the
            NumPy runtime.
        InvalidArgument
            There is no such platform.
        """
        from .files import export

        export(self, path, platforms)

    @staticmethod
    def load(
        path: str | os.PathLike[str], /, client: Client | None = None, *, is_trusted: bool = False
    ) -> CapturedGraph:
        """Return a graph from a file of `save` or `export`, with new memory for its inputs and outputs.

        Parameters
        ----------
        path
            The file.
        client
            Where it shall run; by default the default device, or the NumPy runtime for its graphs.
        is_trusted
            Whether the compiled program in the file may be run as it is, where it was saved on this kind of device by
            this version of JAX. It is machine code, and reading it can run anything: say so of your own files alone.
            Otherwise the program is compiled here from what else is in the file, and never contains anything but
            operations on arrays.

        Returns
        -------
        CapturedGraph
            Inputs and outputs are zero and have the kinds of the saved ones: views of new buffers, or new Arrays.

        Raises
        ------
        FormatError
            The file is damaged, or none of these.
        BackendLimitation
            It was saved on another kind of device or by another version of JAX, and holds nothing else than the
            compiled program; or it is not for the platform of `client`.
        """
        from .files import load

        return load(path, client, is_trusted)
