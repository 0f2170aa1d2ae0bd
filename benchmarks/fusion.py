"""Does eager code run as one kernel? A chain of twelve operations, recorded, against eager ``jax.numpy`` and one jit.

    python benchmarks/fusion.py [--rounds 21] [--output benchmarks/results]

The chain is elementwise, on 8 and on 5,000,000 float32 elements, written once for the namespace, inside of
`rtx_jax.fusion`, and once for a backend, ``fusion<cpu>``. Each statement waits for its result, so nothing is fused
across statements. Writes ``fusion.jsonl`` and ``fusion.png``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from _common import Report, Side, arguments, compare, plot_ratios, verdict

import rtx_jax
from rtx_jax.backend import Fusion, auto_select


@dataclass(frozen=True, slots=True)
class Case:
    """A size, the other side, and the most that ours may take of its time."""

    size: int
    theirs: str
    goal: float


CASES = (
    Case(8, "eager jax.numpy", 0.35),
    Case(5_000_000, "eager jax.numpy", 1 / 3),
    Case(5_000_000, "one jitted function", 1.3),
)


def by_namespace(xp: object, x: object, y: object) -> object:
    """Twelve elementwise operations of an array namespace."""
    a = (x + y) * x - y  # type: ignore[operator]
    b = xp.maximum(a, x) * 0.5 + xp.abs(y)  # type: ignore[attr-defined]
    return xp.sqrt(b * b + 1.0) * y - a  # type: ignore[attr-defined]


def by_backend(B: Fusion, half: object, one: object, x: object, y: object) -> object:
    """Return the same by the methods of a backend."""
    a = B.sub(B.mul(B.add(x, y), x), y)
    b = B.add(B.mul(B.maximum(a, x), half), B.abs(y))
    return B.sub(B.mul(B.sqrt(B.add(B.mul(b, b), one)), y), a)


def names_of(size: int) -> dict[str, object]:
    """The operands and functions that the statements name."""
    random = np.random.default_rng(0)
    x, y = (random.standard_normal(size, np.float32) for _ in range(2))
    jx, jy = jnp.asarray(x), jnp.asarray(y)
    return {
        "namespace": by_namespace,
        "backend": by_backend,
        "xp": rtx_jax,
        "jnp": jnp,
        "B": Fusion(auto_select()),
        "half": jnp.full((), 0.5, np.float32),
        "one": jnp.full((), 1.0, np.float32),
        "x": rtx_jax.asarray(x),
        "y": rtx_jax.asarray(y),
        "jx": jx,
        "jy": jy,
        "jitted": jax.jit(lambda x, y: by_namespace(jnp, x, y)),
    }


FACES: dict[str, tuple[str, Callable[[], AbstractContextManager[object]]]] = {
    "rtx_jax.fusion": ("namespace(xp, x, y).block_until_ready()", rtx_jax.fusion),
    "Fusion(B)": ("backend(B, half, one, jx, jy).block_until_ready()", nullcontext),
}
STATEMENTS = {
    "eager jax.numpy": "namespace(jnp, jx, jy).block_until_ready()",
    "one jitted function": "jitted(jx, jy).block_until_ready()",
}


def main() -> int:
    """Run, print, write; the exit status is 1 where a goal is missed."""
    parser = arguments(__doc__.splitlines()[0])
    parser.set_defaults(rounds=21)
    options = parser.parse_args()
    report = Report("fusion", options.output)
    met: list[bool] = []
    ratios: dict[str, float] = {}
    names = {size: names_of(size) for size in {case.size for case in CASES}}
    for case in CASES:
        for face, (statement, around) in FACES.items():
            ours = Side(statement, names[case.size], around=around)
            theirs = Side(STATEMENTS[case.theirs], names[case.size])
            result = compare(ours, theirs, rounds=options.rounds, round_ms=25.0)
            label = f"{face}, {case.size:,} elements, against {case.theirs}"
            ratios[label] = result.ratio
            report.add(label, result, goal=case.goal)
            met.append(
                verdict(f"{label} ({result.ours_us:.4g} us, {result.theirs_us:.4g} us)", result.ratio, case.goal)
            )
    report.save()
    plot_ratios(
        report.plot_path,
        "A chain of twelve operations, recorded and run as one",
        ratios,
        goals=[("8 elements", 0.35), ("5M elements, against one jit", 1.3)],
        label="time of ours / time of theirs",
    )
    return 0 if all(met) else 1


if __name__ == "__main__":
    raise SystemExit(main())
