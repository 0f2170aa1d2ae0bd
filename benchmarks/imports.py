"""What does start-up cost? ``import rtx_jax`` against ``import jax``, and the first array of each.

    python benchmarks/imports.py [--rounds 15] [--output benchmarks/results]

Every figure comes from a fresh process; the processes of both sides take turns. Writes ``imports.jsonl``.
"""

from __future__ import annotations

import statistics

from _common import Report, arguments, fresh_process, verdict

IMPORT_GOAL_MS = 50.0
FIRST_ARRAY_GOAL_MS = 100.0

_IMPORT = """
import time
start = time.perf_counter()
import {module}
print((time.perf_counter() - start) * 1e3)
"""

_FIRST_ARRAY = """
import time
import {module} as xp
start = time.perf_counter()
first = xp.zeros(3)
{wait}
print((time.perf_counter() - start) * 1e3)
"""

QUESTIONS = {
    "import": (
        _IMPORT.format(module="rtx_jax"),
        _IMPORT.format(module="jax"),
        IMPORT_GOAL_MS,
    ),
    "first zeros(3)": (
        _FIRST_ARRAY.format(module="rtx_jax", wait="first.jax.block_until_ready()"),
        _FIRST_ARRAY.format(module="jax.numpy", wait="first.block_until_ready()"),
        FIRST_ARRAY_GOAL_MS,
    ),
}


def main() -> int:
    """Run, print, write; the exit status is 1 where a goal is missed."""
    parser = arguments(__doc__.splitlines()[0])
    parser.set_defaults(rounds=15)
    options = parser.parse_args()
    report = Report("imports", options.output)
    met = []
    for question, (ours, theirs, limit_ms) in QUESTIONS.items():
        times: tuple[list[float], list[float]] = ([], [])
        fresh_process(ours), fresh_process(theirs)  # bytecode is written and the files are in memory
        for _ in range(options.rounds):
            times[0].append(fresh_process(ours))
            times[1].append(fresh_process(theirs))
        own_ms, other_ms = (statistics.median(side) for side in times)
        difference_ms = statistics.median(a - b for a, b in zip(*times, strict=True))
        print(f"{question}: rtx_jax {own_ms:.0f} ms, jax {other_ms:.0f} ms, ratio {own_ms / other_ms:.2f}")
        met.append(verdict(f"{question}, more than jax", difference_ms, limit_ms, unit=" ms"))
        report.add(
            question,
            ours_ms=own_ms,
            theirs_ms=other_ms,
            ratio=own_ms / other_ms,
            difference_ms=difference_ms,
            rounds=options.rounds,
            goal_ms=limit_ms,
        )
    report.save()
    return 0 if all(met) else 1


if __name__ == "__main__":
    raise SystemExit(main())
