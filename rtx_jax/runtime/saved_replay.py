"""Graphs of the NumPy runtime in files: the steps by name, with their static arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..backend import NumpyBackend
from ..backend.device import Device
from ..backend.operations import OPERATIONS
from ..core.host_functions import HOST_CALLS, Into
from ..core.host_recorder import Draw, HostCall, HostTape, OperationCall, Place
from ..errors import BackendLimitation
from .buffer import Buffer
from .client import Client
from .files import Archive, damaged
from .graph import CapturedGraph, Operand
from .replay import ReplayGraph, Target
from .view import BufferView, as_dtype

__all__ = ["get_replay", "put_replay"]

# What a step of a file may call besides ufuncs. Everything here computes arrays from arrays and has no other effect.
_FUNCTIONS = frozenset(
    f"numpy.{name}"
    for name in """all amax amin any append argmax argmin argpartition argsort around array_equal array_split
    astype atleast_1d atleast_2d atleast_3d average block broadcast_arrays broadcast_to choose clip column_stack
    concatenate convolve copy corrcoef correlate count_nonzero cov cross cumprod cumsum cumulative_prod
    cumulative_sum diag diagflat diagonal diff digitize dot dsplit dstack ediff1d einsum empty_like expand_dims
    flip fliplr flipud full_like gradient hsplit hstack i0 imag inner insert interp isclose isin isneginf isposinf
    kron lexsort matrix_transpose max mean median min moveaxis nan_to_num nanargmax nanargmin nancumprod nancumsum
    nanmax nanmean nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum nanvar ones_like outer pad
    partition percentile permute_dims polyval prod ptp quantile ravel real real_if_close repeat reshape resize roll
    rollaxis rot90 round searchsorted select sinc sort split squeeze stack std sum swapaxes take take_along_axis
    tensordot tile trace transpose trapezoid tril triu unstack unwrap vander var vdot vsplit vstack where
    zeros_like
    fft.fft fft.ifft fft.rfft fft.irfft fft.fft2 fft.ifft2 fft.fftn fft.ifftn fft.rfft2 fft.irfft2 fft.rfftn
    fft.irfftn fft.hfft fft.ihfft fft.fftshift fft.ifftshift
    linalg.cholesky linalg.cond linalg.cross linalg.det linalg.diagonal linalg.eig linalg.eigh linalg.eigvals
    linalg.eigvalsh linalg.inv linalg.lstsq linalg.matmul linalg.matrix_norm linalg.matrix_power linalg.matrix_rank
    linalg.matrix_transpose linalg.multi_dot linalg.norm linalg.outer linalg.pinv linalg.qr linalg.slogdet
    linalg.solve linalg.svd linalg.svdvals linalg.tensordot linalg.tensorinv linalg.tensorsolve linalg.trace
    linalg.vecdot linalg.vector_norm""".split()
)
_METHODS = ("reduce", "accumulate", "reduceat", "outer")


# -- to a file


def put_replay(archive: Archive, graph: ReplayGraph) -> None:
    """Put a recording into a file.

    Raises
    ------
    BackendLimitation
        A step has no name in a file.
    """
    recording = graph.tape.recording
    buffers = list({id(x.buffer): x.buffer for x in graph.operands if isinstance(x, BufferView)})
    archive.facts.update(
        kind="numpy",
        operands=[_put_operand(x, buffers) for x in graph.operands],
        leaves=[_put_leaf(archive, leaf) for leaf in recording.leaves[len(graph.operands) :]],
        steps=[
            {**_put_call(archive, step.fn), "operands": list(step.operands), "results": step.results}
            for step in recording.steps
        ],
        sizes=graph.tape.sizes,
        roots=graph.tape.roots,
        results=[slot for _, slot in graph.results],
    )


def _put_operand(operand: Target, buffers: Sequence[int]) -> dict[str, Any]:
    found: dict[str, Any] = {"buffer": None, "dtype": operand.dtype.name, "shape": list(operand.shape)}
    if isinstance(operand, BufferView):
        number = buffers.index(id(operand.buffer))
        found.update(buffer=number, nbytes=operand.buffer.nbytes, offset=operand.offset)
    return found


def _put_leaf(archive: Archive, leaf: object) -> dict[str, Any]:
    if isinstance(leaf, Draw):
        return {"draw": True}
    if isinstance(leaf, np.ndarray | np.generic | bool | int | float | complex):
        return archive.put(np.asarray(leaf))
    raise _nameless(type(leaf).__name__)


def _put_call(archive: Archive, fn: object) -> dict[str, Any]:
    if isinstance(fn, OperationCall) and isinstance(fn.backend, NumpyBackend):
        return {"operation": fn.operation, "params": [_put(archive, x) for x in fn.params]}
    if isinstance(fn, HostCall) and _function(fn.name) is not None:
        return {
            "function": fn.name,
            "arguments": [_put(archive, x) for x in fn.arguments],
            "keywords": {key: _put(archive, value) for key, value in fn.keywords.items()},
            "is_unpacked": fn.is_unpacked,
        }
    raise _nameless(getattr(fn, "name", type(fn).__name__))


def _put(archive: Archive, value: object) -> object:
    """Return a static argument as JSON."""
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, Place):
        return {"place": value.number}
    if type(value) is float:
        return {"float": value.hex()}
    if type(value) is complex:
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if type(value) is tuple:
        return {"tuple": [_put(archive, x) for x in value]}
    if type(value) is list:
        return {"list": [_put(archive, x) for x in value]}
    if type(value) is dict:
        return {"dict": [[_put(archive, k), _put(archive, v)] for k, v in value.items()]}
    if type(value) is slice:
        return {"slice": [_put(archive, x) for x in (value.start, value.stop, value.step)]}
    if value is Ellipsis:
        return {"ellipsis": True}
    if isinstance(value, Device):
        return {"device": str(value)}
    if isinstance(value, np.dtype):
        return {"dtype": value.name}
    if isinstance(value, type) and issubclass(value, np.generic | bool | int | float | complex):
        return {"dtype": np.dtype(value).name}
    if isinstance(value, np.generic):
        return {"scalar": archive.put(np.asarray(value))}
    raise _nameless(f"an argument of type {type(value).__name__}")


def _nameless(what: str) -> BackendLimitation:
    return BackendLimitation(
        "save",
        got=f"a graph with {what}",
        wanted="functions of NumPy, operations of NumpyBackend, and numbers",
        backend="numpy",
        reason=f"{what} has no form in a file",
    )


def _function(name: str) -> Callable[..., object] | None:
    """Return what a step calls, or None where a file may not name it."""
    if name in HOST_CALLS:
        return HOST_CALLS[name]
    first, _, rest = name.partition(".")
    if first != "numpy":
        return None
    into = rest.endswith(".into")
    parts = rest.removesuffix(".into").split(".")
    found: Any = getattr(np, parts[0], None)
    if isinstance(found, np.ufunc):
        if len(parts) == 2 and parts[1] in _METHODS:
            found = getattr(found, parts[1])
        elif len(parts) != 1:
            return None
        return Into(found) if into else found
    if name not in _FUNCTIONS:
        return None
    found = functools.reduce(getattr, parts, np)
    return found  # type: ignore[no-any-return]


# -- from a file


def get_replay(archive: Archive, client: Client) -> CapturedGraph:
    """Return a graph from a file, with new memory."""
    facts = archive.facts
    buffers: dict[int, Buffer] = {}
    operands = [_get_operand(named, client, buffers) for named in facts["operands"]]
    tape = HostTape()
    for operand in operands:
        tape.recording.leaf(np.empty(operand.shape, operand.dtype))
    for named in facts["leaves"]:
        tape.recording.leaf(Draw(_next_key) if "draw" in named else archive.get(named))
    for step in facts["steps"]:
        tape.recording.add(_get_call(archive, step), False, tuple(step["operands"]), step["results"])
    tape.sizes, tape.roots, tape.is_open = facts["sizes"], facts["roots"], False
    _check(archive, tape)
    inputs = [_view(operands, x) for x in facts["inputs"]]
    outputs = [_view(operands, x) for x in facts["outputs"]]
    graph = ReplayGraph(client, tape, operands, list(zip(outputs, facts["results"], strict=True)))  # type: ignore[arg-type]
    return CapturedGraph(graph, inputs, outputs, graph.memory(), facts["name"], tuple(outputs))


def _get_operand(named: Mapping[str, Any], client: Client, buffers: dict[int, Buffer]) -> Target:
    dtype, shape = as_dtype(named["dtype"], "load"), tuple(named["shape"])
    if named["buffer"] is None:
        return np.zeros(shape, dtype)
    buffer = buffers.get(named["buffer"])
    if buffer is None:
        buffer = buffers[named["buffer"]] = client.allocator.allocate(named["nbytes"])
    return buffer.view(dtype, shape, offset=named["offset"])


def _view(operands: Sequence[Target], named: Mapping[str, Any]) -> Operand:
    operand: Operand = operands[named["source"]]
    return operand


def _next_key() -> np.ndarray:
    return NumpyBackend()._next_key("rand")


def _get_call(archive: Archive, named: Mapping[str, Any]) -> Callable[..., object]:
    if "operation" in named:
        if named["operation"] not in OPERATIONS:
            raise damaged(archive.path, f"the operation {named['operation']!r}")
        params = tuple([_get(archive, x) for x in named["params"]])
        return OperationCall(NumpyBackend(), named["operation"], params)
    function = _function(named["function"])
    if function is None:
        raise damaged(archive.path, f"the function {named['function']!r}")
    return HostCall(
        named["function"],
        function,
        [_get(archive, x) for x in named["arguments"]],
        {key: _get(archive, value) for key, value in named["keywords"].items()},
        named["is_unpacked"],
    )


def _get(archive: Archive, value: object) -> Any:
    """Return a static argument from JSON."""
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "place":
        return Place(inner)
    if kind == "float":
        return float.fromhex(inner)
    if kind == "complex":
        return complex(*map(float.fromhex, inner))
    if kind == "ellipsis":
        return Ellipsis
    if kind == "device":
        return Device.of(inner)
    if kind == "dtype":
        return as_dtype(inner, "load")
    if kind == "scalar":
        return archive.get(inner)[()]
    if kind == "dict":
        return {_get(archive, k): _get(archive, v) for k, v in inner}
    parts = [_get(archive, x) for x in inner]
    makers: dict[str, Callable[[list[object]], object]] = {
        "tuple": tuple,
        "list": list,
        "slice": lambda found: slice(*found),
    }
    if kind not in makers:
        raise damaged(archive.path, f"an argument of kind {kind!r}")
    return makers[kind](parts)


def _check(archive: Archive, tape: HostTape) -> None:
    """Raise FormatError unless each step reads what is there before it."""
    leaves, at = len(tape.recording.leaves), 0
    for step in tape.recording.steps:
        for slot in step.operands:
            if slot is not None and not -leaves <= slot < at:
                raise damaged(archive.path, f"a step that reads slot {slot}")
        at += step.results
    if len(tape.sizes) != at or len(tape.roots) != at or any(not -leaves <= x < at for x in archive.facts["results"]):
        raise damaged(archive.path, "results that no step makes")
