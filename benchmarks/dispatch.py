"""What does an eager call cost? Every function and operator of the standard against the same call on jax.numpy.

    python benchmarks/dispatch.py [--rounds 41] [--only elementwise] [--output benchmarks/results]

Arrays of 8 elements, JAX's default settings, both sides in one process. Writes ``dispatch.jsonl`` and ``dispatch.png``.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
from _calls import FUNCTIONS, OPERATORS, Call, operands
from _common import Comparison, Report, Side, arguments, compare, geometric_mean, plot_ratios, verdict

import rtx_jax

MEAN_GOAL = 0.70
FUNCTION_GOAL = 1.3
OPERATOR_GOAL = 1.1
OVER_BARE_ADD_US = {"float32": 1.0, "int32": 1.0, "float64": 1.5, "int64": 1.5}


def names_of(namespace: ModuleType) -> dict[str, object]:
    """The global names that the statements read, with arrays of one namespace."""
    arrays = {name: namespace.asarray(value, copy=True) for name, value in operands().items()}
    host = operands()["x"]
    return {"xp": namespace, "np": np, "host": host, "row": namespace.reshape(arrays["x"], (1, 8)), **arrays}


def measure(call: Call, rounds: int) -> Comparison:
    """Time one statement on both namespaces."""
    ours, theirs = (Side(call.statement, names_of(namespace), call.setup) for namespace in (rtx_jax, jnp))
    return compare(ours, theirs, rounds=rounds)


def over_bare_add(dtype: str, rounds: int) -> Comparison:
    """Time ``x + y`` against the cached ``jax.jit(lax.add)`` on the same buffers."""
    x, y = (rtx_jax.asarray(np.asarray(values, dtype)) for values in (range(8), range(8, 16)))
    bare = jax.jit(jax.lax.add)

    def wide() -> AbstractContextManager[object]:
        return jax.enable_x64(True)

    names = {"f": bare, "x": x.jax, "y": y.jax}
    theirs = Side("f(x, y)", names, around=wide) if dtype.endswith("64") else Side("f(x, y)", names)
    return compare(Side("x + y", {"x": x, "y": y}), theirs, rounds=rounds)


def show(title: str, measured: dict[str, Comparison], count: int) -> None:
    """Print the calls with the highest ratios."""
    print(f"\n{title}")
    for name in sorted(measured, key=lambda name: -measured[name].ratio)[:count]:
        result = measured[name]
        print(f"  {result.ratio:6.3f}  {result.ours_us:8.2f} us against {result.theirs_us:8.2f} us  {name}")


def main() -> int:
    """Run, print, write; the exit status is 1 where a goal is missed."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="chapters or calls that contain this text")
    options = parser.parse_args()
    report = Report("dispatch", options.output)
    chapters: dict[str, str] = {}
    functions: dict[str, Comparison] = {}
    operators: dict[str, Comparison] = {}
    for call in [*FUNCTIONS, *OPERATORS]:
        if options.only not in call.chapter and options.only not in call.name:
            continue
        table = operators if call.chapter.endswith("operators") else functions
        table[call.name] = measure(call, options.rounds)
        chapters[call.name] = call.chapter
        report.add(call.name, table[call.name], chapter=call.chapter, statement=call.statement)
    if not functions and not operators:
        parser.error(f"no chapter and no call contains {options.only!r}")
    everything = {**functions, **operators}

    print("means per chapter (geometric)")
    for chapter in dict.fromkeys(chapters.values()):
        ratios = [everything[name].ratio for name, own in chapters.items() if own == chapter]
        print(f"  {geometric_mean(ratios):6.3f}  {chapter} ({len(ratios)})")
    show("slowest functions, by ratio", functions, 12)
    show("slowest operators, by ratio", operators, 8)

    print()
    met = []
    if functions:
        mean = geometric_mean(result.ratio for result in everything.values())
        worst = max(functions, key=lambda name: functions[name].ratio)
        report.add("geometric mean", ratio=mean, goal=MEAN_GOAL)
        met.append(verdict(f"geometric mean of {len(everything)} calls", mean, MEAN_GOAL))
        met.append(verdict(f"worst function, {worst}", functions[worst].ratio, FUNCTION_GOAL))
    if operators:
        worst = max(operators, key=lambda name: operators[name].ratio)
        met.append(verdict(f"worst operator, {worst}", operators[worst].ratio, OPERATOR_GOAL))
    for dtype, limit in OVER_BARE_ADD_US.items():
        result = over_bare_add(dtype, options.rounds)
        report.add(f"x + y over jit(lax.add), {dtype}", result, goal_us=limit)
        met.append(verdict(f"x + y over the bare jit(lax.add), {dtype}", result.difference_us, limit, unit=" us"))
    report.save()
    plot_ratios(
        report.plot_path,
        "Eager calls on 8 elements",
        {name: result.ratio for name, result in everything.items()},
        groups=chapters,
        goals=[("goal of the mean", MEAN_GOAL), ("goal of each", FUNCTION_GOAL)],
    )
    return 0 if all(met) else 1


if __name__ == "__main__":
    raise SystemExit(main())
