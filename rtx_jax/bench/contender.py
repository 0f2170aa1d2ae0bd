"""What takes part in a benchmark: a problem, and who solves it."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import TYPE_CHECKING

import jax
import numpy as np
from numpy.typing import NDArray

from ..errors import BackendUnavailable, FeatureRequired, OutOfMemory

if TYPE_CHECKING:
    import torch

__all__ = [
    "OURS",
    "Array",
    "Contender",
    "Problem",
    "Ready",
    "compiled",
    "relative_error",
    "require",
    "torch_device",
    "torch_ready",
    "torch_tensor",
]

Array = NDArray[np.generic]
OURS = "rtx_jax"


@dataclass(frozen=True)
class Problem:
    """One thing to compute.

    Attributes
    ----------
    operation, variant, direction, length
        As in `Measurement`.
    operands
        Host arrays by name.
    flops, moved_bytes
        What it takes at least.
    facts
        Other parameters of the operation, by name.
    error
        The error of results, given in the operation's order and layout; None where the exact ones cost too much.
    """

    operation: str
    variant: str
    direction: str
    length: int
    operands: Mapping[str, Array]
    flops: float
    moved_bytes: float
    facts: Mapping[str, object] = field(default_factory=dict)
    error: Callable[[Sequence[Array]], float | None] = lambda results: None


@dataclass(frozen=True)
class Ready:
    """A contender with its operands in place, compiled where it compiles.

    Attributes
    ----------
    call
        Computes once and waits for the result.
    results
        Computes once and returns host arrays.
    temp_bytes
        As in `Measurement`.
    """

    call: Callable[[], object]
    results: Callable[[], Sequence[Array]]
    temp_bytes: int | None = None


@dataclass(frozen=True)
class Contender:
    """Somebody who can solve problems.

    Attributes
    ----------
    name
        Its column: ``"rtx_jax"``, ``"jax.nn"``, ``"torch"``.
    prepare
        Takes a problem and the device. Raises the reason for which it cannot.
    """

    name: str
    prepare: Callable[[Problem, jax.Device], Ready]


def compiled(function: Callable[..., object], operands: Sequence[Array | jax.Array], device: jax.Device, /) -> Ready:
    """Compile a function of raw arrays, and put its operands on the device.

    Raises
    ------
    OutOfMemory
        The compiled program needs more memory than the device has. It would take the process with it.
    """
    arrays = [jax.device_put(operand, device) for operand in operands]
    program = jax.jit(function).lower(*arrays).compile()
    memory = program.memory_analysis()
    needed = sum((memory.temp_size_in_bytes, memory.output_size_in_bytes)) if memory is not None else 0
    free = _free_bytes(device)
    if free is not None and needed > free:
        raise OutOfMemory(
            "bench", "", got=f"a program that takes {needed / 2**30:.1f} GiB",
            wanted=f"at most {free / 2**30:.1f} GiB, which is free", size=needed,
        )  # fmt: skip

    def results() -> list[Array]:
        return [np.asarray(leaf) for leaf in jax.tree.leaves(program(*arrays))]

    temp_bytes = None if memory is None else int(memory.temp_size_in_bytes)
    return Ready(lambda: jax.block_until_ready(program(*arrays)), results, temp_bytes)


def relative_error(got: Array, exact: NDArray[np.float64], /) -> float:
    """Return the largest deviation, relative to the largest element of what is exact."""
    scale = float(np.max(np.abs(exact), initial=0.0))
    deviation = float(np.max(np.abs(np.asarray(got, np.float64) - exact), initial=0.0))
    return deviation / scale if scale else deviation


def require(package: str, /) -> str:
    """Return the version of an optional package.

    Raises
    ------
    FeatureRequired
        It is not installed.
    """
    if importlib.util.find_spec(package) is None:
        raise FeatureRequired("bench", got=f"no package {package}", remedy=f"pip install {package}", feature=package)
    return metadata.version(package)


def torch_device(device: jax.Device, /) -> torch.device:
    """Return torch's name of a JAX device.

    Raises
    ------
    FeatureRequired
        torch is not installed.
    BackendUnavailable
        This torch has no such device.
    """
    require("torch")
    import torch

    if device.platform == "cpu":
        return torch.device("cpu")
    if device.platform == "gpu" and torch.cuda.is_available():
        return torch.device("cuda", device.local_hardware_id or 0)
    raise BackendUnavailable(
        "bench", "", got=f"torch {torch.__version__}", wanted=f"one that computes on {device.device_kind}",
        backend="torch", reason="no such device",
    )  # fmt: skip


def torch_tensor(array: Array, device: torch.device, /) -> torch.Tensor:
    """Copy a host array to torch."""
    import torch

    if array.dtype.name == "bfloat16":  # from_numpy does not know it
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16).to(device)
    return torch.from_numpy(array.copy()).to(device)


def torch_ready(compute: Callable[[], Sequence[torch.Tensor]], device: torch.device, /) -> Ready:
    """Wrap a torch computation; on a GPU its peak of memory is measured in one call."""
    import torch

    on_gpu = device.type == "cuda"

    def call() -> object:
        result = compute()
        if on_gpu:
            torch.cuda.synchronize(device)
        return result

    def results() -> list[Array]:
        return [tensor.detach().to(torch.float64).cpu().numpy() for tensor in compute()]

    temp_bytes = None
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        temp_bytes = torch.cuda.max_memory_allocated(device) - before
    return Ready(call, results, temp_bytes)


def _free_bytes(device: jax.Device) -> int | None:
    stats = device.memory_stats() or {}
    if "bytes_limit" in stats:
        return int(stats["bytes_limit"]) - int(stats.get("bytes_in_use", 0))
    if device.platform != "cpu":
        return None
    try:
        with open("/proc/meminfo", encoding="ascii") as stream:
            lines = dict(line.split(":", 1) for line in stream)
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):
        names = ("SC_PHYS_PAGES", "SC_PAGE_SIZE")
        return int(os.sysconf(names[0]) * os.sysconf(names[1])) if set(names) <= set(os.sysconf_names) else None
