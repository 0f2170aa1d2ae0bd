"""How much of a copy to the host hides behind compute.

A pipeline of steps, each of which runs a captured graph into one of two buffers and copies that buffer to the host, in
place of the last step's copy:

    graph.launch(); copy = runtime.copy_from_device_async(output, into=memory)

Its time is compared with that of the launches alone and that of blocking copies alone: if the two overlap, the pipeline
takes about as long as the longer of them. The same pipeline with a bare thread that copies other memory, in place of
the runtime's copy, shows what the machine can hide at all: on a host that takes a core that is free. All are timed in
turn in one process, and each figure is the least of the rounds.

    python benchmarks/runtime.py
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from _common import Report, arguments, verdict

import rtx_jax as xp
from rtx_jax.backend import NumpyBackend
from rtx_jax.runtime import Buffer, CapturedGraph, JaxRuntime, NumpyRuntime, PendingCopy, Runtime

GOAL = 1.2
STEPS = 16
BYTES = 1 << 26
ROW = 1 << 15  # few enough elements to be computed by one thread
B = NumpyBackend()

# How much longer the compute of a step takes than its copy.
SHARES = {"compute longer": 2.0, "as long": 1.0, "copy longer": 0.5}


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Two graphs that write into a buffer each, and memory of the host for the copies."""

    runtime: Runtime
    graphs: tuple[CapturedGraph, ...]
    outputs: tuple[Buffer, ...]
    memory: tuple[np.ndarray, ...]
    other: np.ndarray

    def compute(self) -> None:
        """Launch all steps, and wait."""
        for i in range(STEPS):
            self.graphs[i % 2].launch()
        self.runtime.synchronize()

    def copy(self) -> None:
        """Copy all steps, one after the other."""
        for i in range(STEPS):
            self.runtime.copy_from_device(self.outputs[i % 2], self.memory[i % 2])

    def both(self) -> None:
        """Launch a step while the copy of the step before is on its way."""
        copies: list[PendingCopy] = []
        for i in range(STEPS):
            if i > 1:
                copies[i - 2].result()  # the memory and the buffer are free again
            self.graphs[i % 2].launch()
            copies.append(self.runtime.copy_from_device_async(self.outputs[i % 2], into=self.memory[i % 2]))
        for copy in copies[-2:]:
            copy.result()

    def bare(self) -> None:
        """Launch a step while a thread copies memory that nobody else uses."""
        threads: list[threading.Thread] = []
        for i in range(STEPS):
            if i > 1:
                threads[i - 2].join()
            self.graphs[i % 2].launch()
            target, source = self.memory[i % 2].ctypes.data, self.other.ctypes.data
            threads.append(threading.Thread(target=ctypes.memmove, args=(target, source, BYTES)))
            threads[i].start()
        for thread in threads[-2:]:
            thread.join()
        self.runtime.synchronize()


def on_jax(work: int, value: xp.Array) -> xp.Array:
    return xp.fori_loop(0, work, lambda _, x: xp.sin(x) + 1, value)


def on_numpy(work: int, value: np.ndarray) -> np.ndarray:
    for _ in range(work):
        value = B.add(B.sin(value), B.full((1,), 1.0))
    return value


def pipeline(runtime: Runtime, work: int) -> Pipeline:
    """Return a pipeline whose steps compute `work` sines of a row of a buffer, and copy all of the buffer."""
    compute = on_numpy if runtime.name() == "numpy" else on_jax
    outputs = tuple(runtime.allocate(BYTES) for _ in range(2))
    rows = [buffer.view("float32", (ROW,)) for buffer in outputs]
    graphs = tuple(
        runtime.capture(lambda a, out: out.write(compute(work, a)), inputs=[row], outputs=[row])  # type: ignore[operator]
        for row in rows
    )
    memory = tuple(np.ones(BYTES, np.uint8) for _ in range(2))
    return Pipeline(runtime, graphs, outputs, memory, np.ones(BYTES, np.uint8))


def seconds(fn: Callable[[], None]) -> float:
    """Return the time of one call."""
    start = time.perf_counter()
    fn()
    return time.perf_counter() - start


def measure(runtime: Runtime, share: float, rounds: int) -> tuple[float, float, float, float]:
    """Return the least times of compute, of copies, of both, and of the bare form, in milliseconds a step."""
    probe = pipeline(runtime, 8)
    probe.compute(), probe.copy()
    each = min(seconds(probe.compute) for _ in range(3)) / 8
    copied = min(seconds(probe.copy) for _ in range(3))
    found = pipeline(runtime, max(1, round(share * copied / each)))
    sides = (found.compute, found.copy, found.both, found.bare)
    for side in sides:
        side()
    times = [[seconds(side) for side in sides] for _ in range(rounds)]
    return tuple(min(column) / STEPS * 1e3 for column in zip(*times, strict=True))  # type: ignore[return-value]


def main() -> None:
    options = arguments(__doc__.splitlines()[0]).parse_args()
    report = Report("runtime", options.output)
    rounds = max(3, options.rounds // 4)
    met = True
    for runtime in (JaxRuntime(), NumpyRuntime()):
        for case, share in SHARES.items():
            compute, copy, both, bare = measure(runtime, share, rounds)
            longer = max(compute, copy)
            print(f"{runtime!r} {case}: compute {compute:.2f} ms, copy {copy:.2f} ms, pipeline {both:.2f} ms a step")
            met &= verdict(f"pipeline / the longer (with a bare thread: {bare / longer:.2f})", both / longer, GOAL)
            fields = {"compute_ms": compute, "copy_ms": copy, "pipeline_ms": both, "bare_ms": bare}
            name = f"{runtime.name()}, {case}"
            report.add(name, ratio=both / longer, bare_ratio=bare / longer, bytes=BYTES, **fields)
    report.save()
    raise SystemExit(not met)


if __name__ == "__main__":
    main()
