"""What does a launch of a captured graph cost, beside the bare call of its compiled program?

    python benchmarks/launch.py [--rounds 41] [--output benchmarks/results]

Both sides run one program, compiled ahead of time, which writes into the memory of its output. The bare side is the
call of ``jax.jit(f, donate_argnums=0).lower(...).compile()`` alone, which checks nothing, keeps no count and must not
be called from two threads. A graph may read and write buffers or Arrays. The goal is at most three times the bare call.
For scale, the same chain of operations is timed op by op through the backend. Writes ``launch.jsonl``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
from _common import Report, Side, arguments, compare, verdict

import rtx_jax as xp
from rtx_jax.backend import CpuBackend
from rtx_jax.runtime import CapturedGraph, JaxRuntime, Output, capture

GOAL = 3.0
SIZE = 8
B = CpuBackend()
RUNTIME = JaxRuntime("cpu")


def add(a: jax.Array, b: jax.Array) -> jax.Array:
    """One operation."""
    return B.add(a, b)


def chain(a: jax.Array, b: jax.Array) -> jax.Array:
    """Twelve operations."""
    for _ in range(4):
        a = B.mul(B.add(a, b), b)
        a = B.tanh(a)
    return a


class Bare:
    """The program, compiled ahead of time, and its operands."""

    def __init__(self, fn: Callable[[jax.Array, jax.Array], jax.Array]) -> None:
        values = [jax.numpy.full(SIZE, i, np.float32) for i in range(3)]
        program = jax.jit(lambda out, a, b: fn(a, b), donate_argnums=0, keep_unused=True)
        self.compiled = program.lower(*values).compile()
        self.out, self.a, self.b = values


def on_buffers(fn: Callable[[jax.Array, jax.Array], jax.Array]) -> CapturedGraph:
    """Return a graph of the function on buffers."""
    a, b, c = (RUNTIME.allocate(4 * SIZE).view("float32", (SIZE,)) for _ in range(3))
    a.write(1)
    b.write(2)

    def into(a: xp.Array, b: xp.Array, out: Output[xp.Array]) -> None:
        out.write(fn(a.jax, b.jax))

    return RUNTIME.capture(into, inputs=[a, b], outputs=[c])


def on_arrays(fn: Callable[[jax.Array, jax.Array], jax.Array]) -> CapturedGraph:
    """Return a graph of the function on Arrays."""
    a, b = (xp.full(SIZE, i, dtype=xp.float32) for i in (1, 2))
    return capture(lambda a, b: xp.asarray(fn(a.jax, b.jax)), a, b)


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison: what is captured, and on what."""

    name: str
    fn: Callable[[jax.Array, jax.Array], jax.Array]
    make: Callable[[Callable[[jax.Array, jax.Array], jax.Array]], CapturedGraph]


ROWS = (
    Row("c = a + b on buffers", add, on_buffers),
    Row("c = a + b on Arrays", add, on_arrays),
    Row("12 operations on buffers", chain, on_buffers),
    Row("12 operations on Arrays", chain, on_arrays),
)


def check_result(graph: CapturedGraph, bare: Bare, fn: Callable[[jax.Array, jax.Array], jax.Array]) -> None:
    """Check that a launch writes what the function returns.

    Raises
    ------
    AssertionError
        It does not.
    """
    graph.launch()
    (out,) = graph.outputs
    found = np.asarray(out) if isinstance(out, xp.Array) else out.read()  # type: ignore[union-attr]
    np.testing.assert_allclose(found, np.asarray(fn(bare.a, bare.b)), rtol=1e-6)


def main() -> int:
    """Run, print, write; the exit status is 1 where a goal is missed."""
    options = arguments(__doc__.splitlines()[0]).parse_args()
    report = Report("launch", options.output)
    met = []
    for row in ROWS:
        graph, bare = row.make(row.fn), Bare(row.fn)
        check_result(graph, bare, row.fn)
        found = compare(
            Side("launch()", {"launch": graph.launch}),
            Side("bare.out = bare.compiled(bare.out, bare.a, bare.b)", {"bare": bare}),
            rounds=options.rounds,
        )
        report.add(row.name, found, goal=GOAL)
        label = f"{row.name}: launch over the bare call ({found.ours_us:.1f} and {found.theirs_us:.1f} us)"
        met.append(verdict(label, found.ratio, GOAL))
    graph, bare = on_buffers(chain), Bare(chain)
    eager = compare(
        Side("launch()", {"launch": graph.launch}),
        Side("chain(bare.a, bare.b)", {"chain": chain, "bare": bare}),
        rounds=options.rounds,
    )
    report.add("12 operations: launch over op by op", eager)
    times = f"{eager.ours_us:.1f} and {eager.theirs_us:.1f} us"
    print(f"     12 operations: launch over op by op ({times}): {eager.ratio:.3g}")
    report.save()
    return 0 if all(met) else 1


if __name__ == "__main__":
    raise SystemExit(main())
