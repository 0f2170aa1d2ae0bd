"""Devices that are not here, and what compiling or lowering for them gives.

    program = h200().compile(function, aval(2, 1024, 8, 64), ...)
    assert "mosaic_gpu_v2" in program.kernels
    assert program.temp_bytes < 1 << 20

`h200()` and `tpu("v5e")` compile wholly and skip the test, naming the tool, where it is not installed; `gfx942()` and
`metal()` lower only, need nothing, and so run everywhere.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental import topologies
from jax.sharding import AbstractMesh, SingleDeviceSharding

from rtx_jax._compat import abstract_device

__all__ = ["DEVICES", "AbsentDevice", "Program", "aval", "gfx942", "h200", "metal", "tpu"]

CONFIGURATIONS = Path(__file__).parent / "targets"
# Custom calls by which compilers manage buffers and shardings: no kernels.
_NO_KERNELS = ("AllocateBuffer", "ConcatBitcast", "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape")
_SPILL_OPTION = "xla_gpu_fail_ptx_compilation_on_register_spilling"


@dataclass(frozen=True)
class Program:
    """What a compiler, or a lowering, says of one function on one device.

    Attributes
    ----------
    text
        Optimized HLO of a compiled program, StableHLO of a lowered one.
    kernels
        Targets of the custom calls in the text, in order, each once: ``"tpu_custom_call"``, ``"mosaic_gpu_v2"``,
        ``"__gpu$xla.gpu.triton"``, ``"__cudnn$..."``. What only manages buffers is left out.
    argument_bytes, output_bytes, temp_bytes
        Of the memory analysis; None of a lowered program.
    cost
        The cost analysis; empty where the compiler has none.
    spills
        Whether any kernel spills registers; None where no tool tells.
    resources
        What ptxas says of each Mosaic kernel, if it was compiled for the first time in this process: one line with
        stack and spills, one with registers, of each.
    """

    text: str
    kernels: tuple[str, ...]
    argument_bytes: int | None = None
    output_bytes: int | None = None
    temp_bytes: int | None = None
    cost: dict[str, float] | None = None
    spills: bool | None = None
    resources: tuple[str, ...] = ()

    @property
    def spilled_bytes(self) -> int:
        """What each thread of the Mosaic kernels writes of its registers to memory, all kernels together."""
        return sum(int(n) for line in self.resources for n in re.findall(r"frame, (\d+) bytes spill stores", line))


@dataclass(frozen=True)
class AbsentDevice:
    """One target.

    Attributes
    ----------
    name
        As in the table of the documentation.
    platform, kind, cores
        Platform for lowering; the device kind that Pallas sees, and how many cores it has.
    topology
        Name for `jax.experimental.topologies`; None where there is nothing to compile with.
    """

    name: str
    platform: str
    kind: str
    cores: int | None
    topology: str | None = None

    @property
    def missing(self) -> str:
        """The tool that must be installed, or an empty text."""
        if self.platform == "tpu" and importlib.util.find_spec("libtpu") is None:
            return "needs libtpu (pip install libtpu)"
        if self.platform == "cuda":
            plugins = importlib.util.find_spec("jax_plugins")
            folders = list(plugins.submodule_search_locations or ()) if plugins else []
            if not any(path.is_dir() for folder in folders for path in Path(folder).glob("xla_cuda*")):
                return "needs the CUDA plugin (pip install --no-deps jax-cuda13-plugin jax-cuda13-pjrt)"
            if _ptxas() is None:
                return "needs ptxas (pip install nvidia-cuda-nvcc)"
        return ""

    @contextlib.contextmanager
    def here(self) -> Iterator[None]:
        """Run the body, a trace or a lowering, as if for this device."""
        if self.platform in ("cuda", "rocm", "tpu"):
            platform = "tpu" if self.platform == "tpu" else "gpu"
            mesh = AbstractMesh((), (), abstract_device=abstract_device(self.kind, self.cores, platform))
            with jax.sharding.use_abstract_mesh(mesh):
                yield
        else:
            yield

    def lower(self, function: Callable[..., object], /, *avals: object) -> Program:
        """Lower `function` for arguments of these shapes and dtypes (pytrees of `jax.ShapeDtypeStruct` or arrays)."""
        with self.here(), _wide(avals):
            text = jax.jit(function).trace(*avals).lower(lowering_platforms=(self.platform,)).as_text()
        return Program(text, _kernels(r"stablehlo\.custom_call @([^\s(]+)", text))

    def compile(
        self, function: Callable[..., object], /, *avals: object, donate: int | tuple[int, ...] = ()
    ) -> Program:
        """Compile `function` for arguments of these shapes and dtypes, of which those at `donate` are given away."""
        placed = jax.tree.map(self._place, avals)
        with self.here(), _wide(avals), _uncached():
            lowered = jax.jit(function, donate_argnums=donate).lower(*placed)
            spills: bool | None = None
            resources: list[str] = []
            if self.platform == "cuda":
                with _ptxas_report(resources):
                    try:
                        compiled = lowered.compile(compiler_options={_SPILL_OPTION: True})
                        spills = False
                    except jax.errors.JaxRuntimeError as error:
                        if "register spilling" not in str(error):
                            raise
                        spills = True
                        compiled = lowered.compile()
                spills = spills or any(re.search(r"[1-9]\d* bytes spill", line) for line in resources)
            else:
                compiled = lowered.compile()
        text = compiled.as_text() or ""
        memory: Any = compiled.memory_analysis()
        return Program(
            text,
            _kernels(r'custom_call_target="([^"]+)"', text),
            argument_bytes=memory.argument_size_in_bytes,
            output_bytes=memory.output_size_in_bytes,
            temp_bytes=memory.temp_size_in_bytes,
            cost=dict(compiled.cost_analysis() or {}),
            spills=spills,
            resources=tuple(resources),
        )

    @property
    def device(self) -> Any:
        """The first device of the topology."""
        return _topology(self).devices[0]

    def _place(self, leaf: Any) -> jax.ShapeDtypeStruct:
        sharding = getattr(leaf, "sharding", None) if isinstance(leaf, jax.ShapeDtypeStruct) else None
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding or SingleDeviceSharding(self.device))


H200 = AbsentDevice("H200", "cuda", "NVIDIA H200", 132, "1x1x1")
TPU = {
    "v5e": AbsentDevice("TPU v5e", "tpu", "TPU v5 lite", 1, "v5e:2x2"),
    "v5p": AbsentDevice("TPU v5p", "tpu", "TPU v5", 1, "v5p:2x2x1"),
    "v6e": AbsentDevice("TPU v6e", "tpu", "TPU v6 lite", 1, "v6e:2x2"),
}
GFX942 = AbsentDevice("gfx942", "rocm", "gfx942", 304)
METAL = AbsentDevice("Metal", "METAL", "", None)
DEVICES = (H200, *TPU.values(), GFX942, METAL)


def h200() -> AbsentDevice:
    """An NVIDIA H200: full compilation."""
    return _ready(H200)


def tpu(generation: str, /) -> AbsentDevice:
    """A TPU, ``"v5e"``, ``"v5p"`` or ``"v6e"``: full compilation."""
    return _ready(TPU[generation])


def gfx942() -> AbsentDevice:
    """An AMD MI300X: lowering."""
    return GFX942


def metal() -> AbsentDevice:
    """An Apple GPU: lowering, of plain XLA alone."""
    return METAL


def aval(*shape: int, dtype: Any = np.float32) -> jax.ShapeDtypeStruct:
    """A shape and a dtype."""
    return jax.ShapeDtypeStruct(shape, np.dtype(dtype))


def _ready(device: AbsentDevice) -> AbsentDevice:
    if device.missing:
        pytest.skip(f"{device.name}: {device.missing}")
    return device


@functools.cache
def _topology(device: AbsentDevice) -> Any:
    if device.platform == "cuda":
        # XLA looks for the program on PATH; the one of the Python package is not on it.
        ptxas = _ptxas()
        assert ptxas is not None
        os.environ["PATH"] = os.pathsep.join((os.path.dirname(ptxas), os.environ.get("PATH", "")))
        configuration = (CONFIGURATIONS / f"{device.name.lower()}.txtpb").read_text(encoding="utf-8")
        return topologies.get_topology_desc("", platform="cuda", target_config=configuration, topology=device.topology)
    # libtpu would ask the metadata server of Google Cloud, and wait; and it allows one process a machine at a time.
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    return topologies.get_topology_desc(platform="tpu", topology_name=device.topology)


def _ptxas() -> str | None:
    """The program on PATH, or that of NVIDIA's Python package."""
    found = shutil.which("ptxas")
    package = importlib.util.find_spec("nvidia")
    for folder in list(package.submodule_search_locations or ()) if package else []:
        for path in sorted(Path(folder).glob("*/bin/ptxas")):
            found = found or str(path)
    return found


def _kernels(pattern: str, text: str) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(re.findall(pattern, text)) if name not in _NO_KERNELS)


def _wide(avals: object) -> contextlib.AbstractContextManager[object]:
    """64-bit types where an argument has them."""
    wide = any(leaf.dtype.itemsize >= 8 for leaf in jax.tree.leaves(avals) if leaf.dtype.kind in "fiuc")
    return jax.enable_x64(True) if wide else contextlib.nullcontext()


@contextlib.contextmanager
def _uncached() -> Iterator[None]:
    """Keep what no device here can load out of the compilation cache."""
    enabled = jax.config.jax_enable_compilation_cache
    jax.config.update("jax_enable_compilation_cache", False)
    try:
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", enabled)


@contextlib.contextmanager
def _ptxas_report(lines: list[str]) -> Iterator[None]:
    """Collect what Mosaic GPU's run of ptxas prints to the process's standard output."""
    previous = os.environ.get("MOSAIC_GPU_DUMP_PTXAS")
    os.environ["MOSAIC_GPU_DUMP_PTXAS"] = "1"
    saved = os.dup(1)
    try:
        with tempfile.TemporaryFile() as stream:
            os.dup2(stream.fileno(), 1)
            try:
                yield
            finally:
                os.dup2(saved, 1)
                stream.seek(0)
                printed = stream.read().decode(errors="replace")
                lines += [line.strip() for line in printed.splitlines() if "bytes spill" in line or "registers" in line]
    finally:
        os.close(saved)
        if previous is None:
            del os.environ["MOSAIC_GPU_DUMP_PTXAS"]
        else:
            os.environ["MOSAIC_GPU_DUMP_PTXAS"] = previous
