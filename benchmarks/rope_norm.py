"""How near to the speed of a copy are rope and the norms? In shares of the rate of a copy in the same run.

    python benchmarks/rope_norm.py [--rounds 21] [--length 8192] [--only rope] [--output benchmarks/results]

Each case is compared, in turn, with the smallest program that moves the same bytes: a copy where one array is read and
one written, a sum of two arrays where two are read. A share of 1 is that rate. On a GPU or TPU the arrays are bfloat16
and larger, and cases with a kernel run it. Writes ``rope_norm.jsonl`` and ``rope_norm.png``; the exit status is 1 where
a goal is missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from _common import Report, Side, arguments, compare, plot_ratios

from rtx_jax.kernels.norm import layer_norm, rms_norm
from rtx_jax.kernels.rope import rope, rope_frequencies
from rtx_jax.kernels.swiglu import swiglu

HEADS, SIZE = 8, 64
# Shares of the rate of a copy: of a processor for rope alone, of a Hopper GPU for rope and the backward passes.
GOAL_CPU, GOAL_GPU = 0.7, 0.85


@dataclass(frozen=True, slots=True)
class Case:
    """One program, its operands, the arrays that the copy reads, and the goal where there is one."""

    name: str
    fn: Callable[..., object]
    operands: tuple[jax.Array, ...]
    moved: tuple[jax.Array, ...]
    goal: float | None = None


def cases(length: int) -> Iterator[Case]:
    """Every case for the default device."""
    gpu = jax.default_backend() == "gpu"
    dtypes = [jnp.bfloat16] if jax.default_backend() != "cpu" else [jnp.float32, jnp.bfloat16]
    rng = np.random.default_rng(0)
    for dtype in dtypes:
        full = dtype == jnp.float32

        def array(*shape: int, dtype: object = dtype) -> jax.Array:
            return jnp.asarray(rng.standard_normal(shape, dtype=np.float32), dtype)

        tag = np.dtype(dtype).name
        x, way = array(1, length, HEADS, SIZE), array(1, length, HEADS, SIZE)
        cos, sin = (jnp.asarray(t, jnp.float32) for t in rope_frequencies(SIZE).tables(length))
        for layout in ("half", "interleaved"):
            goal = GOAL_GPU if gpu else GOAL_CPU if layout == "half" and full else None

            def turn(x: jax.Array, cos: jax.Array, sin: jax.Array, layout: str = layout) -> jax.Array:
                return rope(x, cos, sin, layout=layout)

            def back(way: jax.Array, cos: jax.Array, sin: jax.Array, layout: str = layout) -> object:
                return jax.vjp(lambda still: rope(still, cos, sin, layout=layout), jnp.zeros_like(way))[1](way)

            yield Case(f"rope {layout} {tag}", turn, (x, cos, sin), (x,), goal)
            yield Case(f"rope {layout} backward {tag}", back, (way, cos, sin), (way,), goal)
        rows, seed = array(length // 2, 1024), array(length // 2, 1024)
        weight = jnp.ones(1024, jnp.float32)
        goal = GOAL_GPU if gpu else None
        for norm in (rms_norm, layer_norm):

            def slopes(x: jax.Array, weight: jax.Array, seed: jax.Array, norm: Callable[..., object] = norm) -> object:
                return jax.vjp(norm, x, weight)[1](seed)

            yield Case(f"{norm.__name__} {tag}", norm, (rows, weight), (rows,))
            yield Case(f"{norm.__name__} backward {tag}", slopes, (rows, weight, seed), (rows, seed), goal)
        yield Case(f"swiglu {tag}", swiglu, (rows, seed), (rows, seed))


def moves(*arrays: jax.Array) -> jax.Array:
    """Read the arrays and write one."""
    return arrays[0] + arrays[1] if len(arrays) == 2 else arrays[0] * 2


def side(fn: Callable[..., object], operands: tuple[jax.Array, ...]) -> Side:
    """A compiled call that is waited for."""
    return Side("wait(fn(*operands))", {"wait": jax.block_until_ready, "fn": jax.jit(fn), "operands": operands})


def main() -> int:
    """Run, print, write."""
    parser = arguments(__doc__.splitlines()[0])
    parser.set_defaults(rounds=21)
    parser.add_argument("--length", type=int, default=None, help="positions; half as many rows of 1024 for the norms")
    parser.add_argument("--only", default="", help="cases whose name contains this text")
    options = parser.parse_args()
    length = options.length or (8192 if jax.default_backend() == "cpu" else 1 << 17)
    report, ratios, met = Report("rope_norm", options.output), {}, True
    for case in cases(length):
        if options.only not in case.name:
            continue
        measured = compare(side(case.fn, case.operands), side(moves, case.moved), rounds=options.rounds, warm_up=2)
        share = 1 / measured.ratio
        read = sum(x.nbytes for x in case.moved) + case.moved[0].nbytes
        report.add(case.name, measured, share=share, goal=case.goal, copy_gb_s=read / measured.theirs_us / 1e3)
        ok = case.goal is None or share >= case.goal
        met &= ok
        said = "" if case.goal is None else f" (goal: at least {case.goal})"
        print(f"{'ok  ' if ok else 'MISS'} {case.name}: {measured.ours_us:.0f} us, {share:.2f} of a copy's rate{said}")
        ratios[case.name] = measured.ratio
    report.save()
    if ratios:
        plot_ratios(report.plot_path, "Rope and norms against a copy", ratios, label="time / time of moving the bytes")
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
