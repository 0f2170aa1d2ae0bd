"""Files of captured graphs: a zip archive of ``graph.json``, the values that belong to the graph, and its program."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._version import __version__
from ..errors import BackendLimitation, FormatError
from .client import Client
from .compiled_graph import CompiledGraph
from .graph import CapturedGraph, Graph, Operand
from .numpy_client import NumpyClient
from .numpy_runtime import NumpyRuntime
from .replay import ReplayGraph
from .slots import Slot
from .view import BufferView, as_dtype

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Archive", "export", "load", "save"]

_FORMAT = "rtx_jax captured graph"
_VERSION = 1


class Archive:
    """The contents of a file.

    Attributes
    ----------
    facts
        What ``graph.json`` says.
    parts
        The other members by name.
    """

    def __init__(self, facts: dict[str, Any], parts: dict[str, bytes]) -> None:
        self.facts, self.parts = facts, parts
        self.path = ""

    def put(self, value: np.ndarray) -> dict[str, Any]:
        """Keep an array; return what names it."""
        name = f"values/{sum(key.startswith('values/') for key in self.parts)}"
        self.parts[name] = np.ascontiguousarray(value).tobytes()
        return {"member": name, "dtype": value.dtype.name, "shape": list(value.shape)}

    def get(self, named: Mapping[str, Any]) -> np.ndarray:
        """Return an array that `put` kept."""
        try:
            array = np.frombuffer(self.parts[named["member"]], as_dtype(named["dtype"], "load"))
            return array.reshape(named["shape"]).copy()
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(self.path, f"the array {named!r}") from error

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file; a failure leaves no half of it."""
        target = Path(path)
        partial = target.with_name(target.name + ".partial")
        try:
            with zipfile.ZipFile(partial, "w") as archive:
                archive.writestr("graph.json", json.dumps(self.facts, indent=1))
                for name, data in self.parts.items():
                    archive.writestr(name, data)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Archive:
        """Return the contents of a file.

        Raises
        ------
        FormatError
            It is no file of a captured graph, or a newer one.
        """
        try:
            with zipfile.ZipFile(path) as archive:
                parts = {name: archive.read(name) for name in archive.namelist()}
            facts = json.loads(parts.pop("graph.json"))
        except (zipfile.BadZipFile, KeyError, ValueError) as error:
            raise damaged(path, str(error)) from error
        if not isinstance(facts, dict) or facts.get("format") != _FORMAT:
            raise damaged(path, "no graph.json of this format")
        if facts.get("version") != _VERSION:
            raise FormatError(
                "load",
                "path",
                got=f"version {facts.get('version')} of the format, written by rtx_jax {facts.get('rtx_jax')}",
                wanted=f"version {_VERSION}",
                remedy="Load it with that version of rtx_jax.",
            )
        found = Archive(facts, parts)
        found.path = os.fspath(path)
        return found


def damaged(path: str | os.PathLike[str], what: str) -> FormatError:
    """Return the error for a file that is not as it should be."""
    return FormatError(
        "load", "path", got=f"{os.fspath(path)}: {what}", wanted="a file that CapturedGraph.save or export wrote"
    )


def save(captured: CapturedGraph, path: str | os.PathLike[str]) -> None:
    """Write a graph for this kind of device; see `CapturedGraph.save`."""
    archive = _begin(captured)
    if isinstance(captured.graph, ReplayGraph):
        from .saved_replay import put_replay

        put_replay(archive, captured.graph)
    else:
        from .saved_program import put_executable, put_program

        graph = _compiled(captured.graph)
        put_executable(archive, graph)
        put_program(archive, graph, None)
    archive.write(path)


def export(captured: CapturedGraph, path: str | os.PathLike[str], platforms: Sequence[str]) -> None:
    """Write a graph for several platforms; see `CapturedGraph.export`."""
    if isinstance(captured.graph, ReplayGraph):
        raise BackendLimitation(
            "export",
            "platforms",
            got="a graph of the NumPy runtime",
            wanted="a graph of a JaxRuntime",
            remedy="Capture the function there, or use save.",
            backend="numpy",
            reason="a graph of NumPy's functions",
        )
    from .saved_program import put_program

    archive = _begin(captured)
    put_program(archive, _compiled(captured.graph), platforms)
    archive.write(path)


def load(path: str | os.PathLike[str], client: Client | None, is_trusted: bool) -> CapturedGraph:
    """Return a graph from a file; see `CapturedGraph.load`."""
    archive = Archive.read(path)
    try:
        if archive.facts["kind"] == "numpy":
            from .saved_replay import get_replay

            if client is not None and not isinstance(client, NumpyClient):
                raise BackendLimitation(
                    "load",
                    "client",
                    got=f"a graph of the NumPy runtime for {client.device}",
                    wanted="the client of NumpyRuntime()",
                    backend=client.device.kind,
                    reason="a graph of NumPy's functions",
                )
            return get_replay(archive, client or NumpyRuntime().default_client())
        from .saved_program import get_compiled

        return get_compiled(archive, client, is_trusted)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise damaged(path, f"{type(error).__name__}: {error}") from error


def _begin(captured: CapturedGraph) -> Archive:
    """Return an archive with what a file says of inputs and outputs, whatever runs the graph."""
    graph = captured.graph
    sources = list(graph.operands) if isinstance(graph, ReplayGraph) else list(_compiled(graph).sources)
    facts = {
        "format": _FORMAT,
        "version": _VERSION,
        "rtx_jax": __version__,
        "name": captured.name,
        "inputs": [_described(x, sources) for x in captured.inputs],
        "outputs": [_described(x, sources) for x in captured.outputs],
    }
    return Archive(facts, {})


def _compiled(graph: Graph) -> CompiledGraph:
    assert isinstance(graph, CompiledGraph)
    return graph


def _described(operand: Operand, sources: Sequence[object]) -> dict[str, Any]:
    """Return which operand of the graph an input or output is; for a view of a buffer, which part of it."""
    if not isinstance(operand, BufferView):
        return {"source": next(i for i, x in enumerate(sources) if x is operand)}
    return {
        "source": next(i for i, x in enumerate(sources) if _holds(x, operand)),
        "dtype": operand.dtype.name,
        "shape": list(operand.shape),
        "offset": operand.offset,
    }


def _holds(source: object, view: BufferView) -> bool:
    """Whether an operand of a graph is a view, or for a compiled graph the whole buffer that it is a view of."""
    if isinstance(source, BufferView):
        same = (source.offset, source.dtype, source.shape) == (view.offset, view.dtype, view.shape)
        return source.buffer is view.buffer and same
    return isinstance(source, Slot) and source.buffer is view.buffer
