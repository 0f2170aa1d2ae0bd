"""What does it cost to add rows into a table? Against ``jax.ops.segment_sum``, which is what JAX offers for it.

    python benchmarks/index_add.py [--rounds 21] [--output benchmarks/results]

1,000,000 rows of 64 elements into 10,000 rows, so that each is hit about a hundred times: called eagerly, as a user
would, and under jit, in float32 and bfloat16, in the deterministic mode, and what is left of a sum of bfloat16 ones.
Writes ``index_add.jsonl`` and ``index_add.png``.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from _common import Comparison, Report, Side, arguments, compare, plot_ratios, verdict

import rtx_jax
from rtx_jax import nn, ops

ROWS, WIDTH, TABLE = 1_000_000, 64, 10_000
ONES = 1000


@dataclass(frozen=True, slots=True)
class Case:
    """A statement of ours and that of JAX, on operands of a dtype, and the goal of the ratio where there is one."""

    name: str
    dtype: str
    ours: str
    theirs: str
    goal: float | None = None


EAGER = f"nn.index_add(x, i, {TABLE}).block_until_ready()"
EAGER_JAX = f"jax.ops.segment_sum(jx, ji, {TABLE}).block_until_ready()"
JITTED, JITTED_JAX = "ours(jx, ji).block_until_ready()", "theirs(jx, ji).block_until_ready()"

CASES = (
    Case("eager, float32", "float32", EAGER, EAGER_JAX, 1.0),
    Case("eager, bfloat16", "bfloat16", EAGER, EAGER_JAX, 1.0),
    # The programs are the same in float32, which is tested below; the ratio shows the noise.
    Case("under jit, float32", "float32", JITTED, JITTED_JAX),
    Case("under jit, bfloat16", "bfloat16", JITTED, JITTED_JAX),
    Case("deterministic under jit, float32", "float32", JITTED.replace("ours", "deterministic"), JITTED_JAX),
)


def names_of(dtype: str) -> dict[str, object]:
    """The operands and functions that the statements name."""
    random = np.random.default_rng(0)
    jx = jnp.asarray(random.standard_normal((ROWS, WIDTH), np.float32), dtype)
    ji = jnp.asarray(random.integers(0, TABLE, ROWS), jnp.int32)
    return {
        "jax": jax,
        "nn": nn,
        "x": rtx_jax.asarray(jx),
        "i": rtx_jax.asarray(ji),
        "jx": jx,
        "ji": ji,
        "ours": jax.jit(functools.partial(ops.index_add, num_rows=TABLE)),
        "deterministic": jax.jit(functools.partial(ops.index_add, num_rows=TABLE, deterministic=True)),
        "theirs": jax.jit(lambda x, i: jax.ops.segment_sum(x, i, TABLE)),
    }


def measure(case: Case, names: dict[str, object], rounds: int) -> Comparison:
    """Time one case on both sides."""
    return compare(Side(case.ours, names), Side(case.theirs, names), rounds=rounds, warm_up=2)


def scatters(names: dict[str, object], function: str) -> list[str]:
    """The lines of an optimized program that compute, without what names their source."""
    text = names[function].lower(names["jx"], names["ji"]).compile().as_text()
    entry = text[text.index("\nENTRY") :]
    lines = [line.split(", metadata=")[0].strip() for line in entry.splitlines()[2:]]
    for part in ("x.1", "i.1", "indices.1"):  # names of the arguments
        lines = [line.replace(f"%{part} ", "%argument ").replace(f"%{part})", "%argument)") for line in lines]
    return lines


def left_of_ones() -> tuple[float, float]:
    """Sum of a thousand bfloat16 ones: ours and JAX's."""
    ones, zeros = jnp.ones((ONES, 1), jnp.bfloat16), jnp.zeros(ONES, jnp.int32)
    ours = nn.index_add(rtx_jax.asarray(ones), rtx_jax.asarray(zeros), 1)
    return float(ours[0, 0]), float(jax.ops.segment_sum(ones, zeros, 1)[0, 0])


def main() -> int:
    """Run, print, write; the exit status is 1 where a goal is missed."""
    parser = arguments(__doc__.splitlines()[0])
    parser.set_defaults(rounds=21)
    options = parser.parse_args()
    report = Report("index_add", options.output)
    met: list[bool] = []
    ratios: dict[str, float] = {}
    for dtype in ("float32", "bfloat16"):
        names = names_of(dtype)
        for case in (case for case in CASES if case.dtype == dtype):
            result = measure(case, names, options.rounds)
            ratios[case.name] = result.ratio
            report.add(case.name, result, dtype=dtype, goal=case.goal)
            label = f"{case.name} ({result.ours_us / 1e3:.3g} ms, segment_sum {result.theirs_us / 1e3:.3g} ms)"
            if case.goal is None:
                print(f"     {label}: {result.ratio:.3g}")
            else:
                met.append(verdict(label, result.ratio, case.goal))
        if dtype == "float32":
            equal = scatters(names, "ours") == scatters(names, "theirs")
            report.add("the program under jit is that of segment_sum", equal=equal)
            met.append(verdict("programs under jit that differ from segment_sum", float(not equal), 0.0))
    own, other = left_of_ones()
    report.add("sum of a thousand bfloat16 ones", ours=own, theirs=other)
    print(f"     sum of a thousand bfloat16 ones: {own:g}, segment_sum {other:g}")
    met.append(verdict("error of a sum of a thousand bfloat16 ones", abs(own - ONES), 0.0))
    report.save()
    plot_ratios(
        report.plot_path,
        "Adding 1M rows of 64 into 10,000 rows",
        ratios,
        goals=[("segment_sum", 1.0)],
        label="time of index_add / time of segment_sum",
    )
    return 0 if all(met) else 1


if __name__ == "__main__":
    raise SystemExit(main())
