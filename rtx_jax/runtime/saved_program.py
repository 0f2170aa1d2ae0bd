"""Compiled graphs in files: the compiled program for this device, and the program for several platforms."""

from __future__ import annotations

import importlib.metadata
import pickle
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.export
import numpy as np

from .._array import Array, wrap
from .._compat import Exported, exported_of, unwritten_cache
from ..core import devices as core_devices
from ..core.handle import Handle, data_of
from ..core.host import place
from ..core.op import raise_translated
from ..core.random import Stream
from ..errors import BackendLimitation, InvalidArgument
from ..transforms.scope import entered
from .buffer import Buffer
from .client import Client
from .compiled_graph import CompiledGraph, Source
from .files import Archive, damaged
from .graph import CapturedGraph, Operand
from .jax_client import JaxClient
from .jax_runtime import JaxRuntime
from .memory_plan import MemoryPlan
from .slots import Slot
from .view import as_dtype

__all__ = ["get_compiled", "put_executable", "put_program"]

_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


# -- to a file


def put_executable(archive: Archive, graph: CompiledGraph) -> None:
    """Put the compiled program into a file.

    Raises
    ------
    BackendLimitation
        The platform cannot serialize it, or it calls back into Python.
    """
    from jax.experimental import serialize_executable

    _put_operands(archive, graph)
    device = _device(graph)
    try:
        if graph.payload is None:
            payload, _, _ = serialize_executable.serialize(_serializable(graph, archive.facts, device))
        else:
            payload = graph.payload
    except (ValueError, TypeError, AttributeError, NotImplementedError, jax.errors.JaxRuntimeError) as error:
        raise _limitation("save", "a graph whose compiled program cannot be serialized", error) from error
    archive.parts["executable"] = payload
    archive.facts["made_on"] = _fingerprint(device)


def _serializable(graph: CompiledGraph, facts: dict[str, Any], device: jax.Device) -> jax.stages.Compiled:
    """Return the compiled program in a form that is whole when it is serialized.

    A program that came from JAX's compilation cache on disk lacks its functions when it is serialized again. One with
    a name of its own is not found there.
    """
    if jax.config.jax_compilation_cache_dir is None:  # type: ignore[attr-defined]
        return graph.compiled  # type: ignore[return-value]
    with unwritten_cache():
        return _compiled(f"{graph.name}_{uuid.uuid4().hex}", graph.function, facts, device)


def put_program(archive: Archive, graph: CompiledGraph, platforms: Sequence[str] | None) -> None:
    """Put the program, not compiled, into a file.

    Parameters
    ----------
    platforms
        What it shall run on; None for the graph's own platform, where a program that cannot be exported is left out.

    Raises
    ------
    BackendLimitation
        It cannot be exported.
    InvalidArgument
        There is no such platform.
    """
    _put_operands(archive, graph)
    wanted = [_device(graph).platform] if platforms is None else [_platform(x) for x in platforms]
    if not wanted:
        _platform("")
    try:
        with entered(graph.wide):
            avals = [jax.ShapeDtypeStruct(x["shape"], as_dtype(x["dtype"], "save")) for x in archive.facts["sources"]]
            jitted = jax.jit(graph.function, keep_unused=True)
            exported = jax.export.export(jitted, platforms=_lowered(wanted))(*avals)
    except Exception as error:  # rules of lowering raise anything
        if platforms is None:
            archive.facts["not_exported"] = str(error).split("\n")[0]
            return
        raise _limitation("export", f"a graph that cannot be exported for {', '.join(wanted)}", error) from error
    archive.parts["program"] = exported.mlir_module_serialized
    archive.facts["program"] = {
        "platforms": list(exported.platforms),
        "calling_convention": exported.calling_convention_version,
        "results": [{"dtype": x.dtype.name, "shape": list(x.shape)} for x in exported.out_avals],
        "has_platform_index": exported.uses_global_constants,
        "kept": list(exported.module_kept_var_idx),
    }


def _put_operands(archive: Archive, graph: CompiledGraph) -> None:
    """Say where the operands come from, and keep the values of those that belong to the graph."""
    if "sources" in archive.facts:
        return
    archive.facts.update(kind="jax", donors=graph.donors, wide=graph.wide)
    sources = archive.facts["sources"] = []
    for i, source in enumerate(graph.sources):
        if isinstance(source, Slot):
            shape, dtype = source.shape, source.dtype
            kind: dict[str, Any] = {"kind": "buffer", "nbytes": source.buffer.nbytes}
        elif source is None or isinstance(source, Stream):
            kind, shape, dtype = {"kind": "key"}, (2,), np.dtype(np.uint32)
        else:
            data = data_of(source) if isinstance(source, Handle) else source
            if len(data.devices()) > 1:
                raise _limitation("save", "a graph on several devices", None)
            kind, shape, dtype = {"kind": "array"}, data.shape, data.dtype
            if i in graph.kept:
                kind["value"] = archive.put(np.asarray(data))
        sources.append({**kind, "shape": list(shape), "dtype": dtype.name})


def _device(graph: CompiledGraph) -> jax.Device:
    if isinstance(graph.client, JaxClient):
        return graph.client.jax_device
    for source in graph.sources:
        if isinstance(source, Handle):
            return next(iter(data_of(source).devices()))
    return core_devices.default_device()


def _fingerprint(device: jax.Device) -> dict[str, Any]:
    """Return what a compiled program depends on."""
    return {
        "jax": jax.__version__,
        "jaxlib": importlib.metadata.version("jaxlib"),
        "platform": device.platform,
        "kind": device.device_kind,
        "compiler": device.client.platform_version,
        "processor": _processor() if device.platform == "cpu" else "",
        "id": device.id,
    }


def _processor() -> str:
    """Return what tells processors apart whose instructions differ."""
    import hashlib
    import platform

    text = f"{platform.machine()} {platform.processor()}"
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            text += next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:  # another system
        text += platform.version()
    return hashlib.sha256(text.encode()).hexdigest()


def _platform(name: str) -> str:
    if name not in _PLATFORMS:
        raise InvalidArgument(
            "export",
            "platforms",
            got=repr(name),
            wanted=", ".join(_PLATFORMS),
            arg="platforms",
            reason="no such platform",
        )
    return name


def _lowered(platforms: Sequence[str]) -> list[str]:
    """Return the platforms as they are named in lowering, once each."""
    return list(dict.fromkeys("cuda" if x == "gpu" else x for x in platforms))


def _limitation(operation: str, got: str, error: Exception | None) -> BackendLimitation:
    reason = "" if error is None else str(error).split("\n")[0]
    return BackendLimitation(
        operation,
        got=got,
        wanted="a graph on one device, of operations that have a form in a file",
        remedy=reason,
        backend="",
        reason=reason or got,
    )


# -- from a file


def get_compiled(archive: Archive, client: Client | None, is_trusted: bool) -> CapturedGraph:
    """Return a graph from a file, with new memory."""
    facts = archive.facts
    if client is None:
        client = JaxRuntime().default_client()
    if not isinstance(client, JaxClient):
        raise BackendLimitation(
            "load",
            "client",
            got=f"a compiled graph for {client.device}",
            wanted="the client of a JaxRuntime",
            backend=client.device.kind,
            reason="a compiled graph",
        )
    sources = [_source(archive, named, client) for named in facts["sources"]]
    donors, wide = facts["donors"], facts["wide"]
    payload: bytes | None = None
    function: Callable[..., Sequence[jax.Array]] | None = None
    if "program" in archive.parts:
        function = _function(archive)
    made_on = facts.get("made_on")
    here = _fingerprint(client.jax_device)
    if is_trusted and "executable" in archive.parts and made_on == here:
        compiled = _loaded(archive, client)
        payload = archive.parts["executable"]
    elif function is not None:
        compiled = _recompiled(archive, function, client)
    else:
        different = [key for key, value in here.items() if (made_on or {}).get(key) != value]
        raise BackendLimitation(
            "load",
            "path",
            got=f"a compiled program alone, as the graph could not be exported ({facts.get('not_exported')})",
            wanted="is_trusted=True" if not different else f"the device and version of the file ({different} differ)",
            remedy="Capture the function here.",
            backend=client.device.kind,
            reason="nothing that can be compiled here",
        )
    graph = CompiledGraph(
        facts["name"], function or compiled, compiled, sources, donors, client, wide, _kept(facts), payload
    )
    inputs = [_operand(sources, x) for x in facts["inputs"]]
    outputs = [_operand(sources, x) for x in facts["outputs"]]
    plan = MemoryPlan.of(compiled, client.device.kind)
    return CapturedGraph(graph, inputs, outputs, plan, facts["name"], tuple(outputs))


def _kept(facts: dict[str, Any]) -> frozenset[int]:
    return frozenset(i for i, x in enumerate(facts["sources"]) if "value" in x)


def _source(archive: Archive, named: dict[str, Any], client: JaxClient) -> Source:
    kind, shape, dtype = named["kind"], tuple(named["shape"]), as_dtype(named["dtype"], "load")
    if kind == "key":
        return None
    if kind == "buffer":
        return Slot(client.allocator.allocate(named["nbytes"]), dtype, shape)
    if kind != "array":
        raise damaged(archive.path, f"an operand of kind {kind!r}")
    host = archive.get(named["value"]) if "value" in named else np.zeros(shape, dtype)
    if (host.shape, host.dtype) != (shape, dtype):
        raise damaged(archive.path, "a value of another shape than its operand")
    if client.jax_device == core_devices.default_device():
        return wrap(place(host))
    return wrap(core_devices.place(place(host), client.jax_device))


def _operand(sources: Sequence[Source], named: dict[str, Any]) -> Operand:
    source = sources[named["source"]]
    if isinstance(source, Slot):
        buffer: Buffer = source.buffer
        return buffer.view(named["dtype"], named["shape"], offset=named["offset"])
    assert isinstance(source, Array)
    return source


def _function(archive: Archive) -> Callable[..., Sequence[jax.Array]]:
    """Return the program of the file as a traceable function."""
    facts = archive.facts
    exported: Exported = exported_of(
        facts["name"],
        archive.parts["program"],
        _avals(facts["sources"]),
        _avals(facts["program"]["results"]),
        platforms=facts["program"]["platforms"],
        calling_convention=facts["program"]["calling_convention"],
        kept=facts["program"]["kept"],
        uses_global_constants=facts["program"]["has_platform_index"],
    )

    def program(*operands: jax.Array) -> Sequence[jax.Array]:
        results: Sequence[jax.Array] = exported.call(*operands)
        return results

    return program


def _avals(named: Sequence[dict[str, Any]]) -> list[jax.core.ShapedArray]:
    return [jax.core.ShapedArray(tuple(x["shape"]), as_dtype(x["dtype"], "load")) for x in named]


def _recompiled(
    archive: Archive, function: Callable[..., Sequence[jax.Array]], client: JaxClient
) -> jax.stages.Compiled:
    known = archive.facts["program"]["platforms"]
    if client.jax_device.platform not in known and client.device.kind not in known:
        raise BackendLimitation(
            "load",
            "client",
            got=f"a device of {client.device.kind}",
            wanted=f"one of {', '.join(known)}, for which the file is",
            remedy="Export the graph for that platform too.",
            backend=client.device.kind,
            reason="a file for other platforms",
        )
    try:
        return _compiled(archive.facts["name"], function, archive.facts, client.jax_device)
    except Exception as error:
        if "deserialize" in str(error):
            raise damaged(archive.path, f"the program: {error}") from error
        raise_translated("load", error)


def _compiled(
    name: str, function: Callable[..., Sequence[jax.Array]], facts: dict[str, Any], device: jax.Device
) -> jax.stages.Compiled:
    """Compile the program of a graph for a device."""
    sharding = jax.sharding.SingleDeviceSharding(device)
    avals = [
        jax.ShapeDtypeStruct(tuple(x["shape"]), as_dtype(x["dtype"], "load"), sharding=sharding)
        for x in facts["sources"]
    ]

    def program(*operands: jax.Array) -> Sequence[jax.Array]:
        return function(*operands)

    program.__name__ = program.__qualname__ = name
    with entered(facts["wide"]):
        jitted = jax.jit(program, donate_argnums=tuple(range(facts["donors"])), keep_unused=True)
        return jitted.lower(*avals).compile()


def _loaded(archive: Archive, client: JaxClient) -> jax.stages.Compiled:
    from jax.experimental import serialize_executable

    in_tree = jax.tree.structure(((0,) * len(archive.facts["sources"]), {}))
    out_tree = jax.tree.structure([0] * archive.facts["donors"])
    device = client.jax_device
    try:
        compiled: jax.stages.Compiled = serialize_executable.deserialize_and_load(
            archive.parts["executable"], in_tree, out_tree, device.client, [device]
        )
    except (pickle.UnpicklingError, EOFError, ValueError, KeyError, jax.errors.JaxRuntimeError) as error:
        raise damaged(archive.path, f"the compiled program: {error}") from error
    return compiled
