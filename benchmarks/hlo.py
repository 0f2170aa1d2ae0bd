"""Does a program under jit cost anything? Optimized HLO of ten programs, written with rtx_jax and with plain JAX.

    python benchmarks/hlo.py [--only scan] [--show] [--output benchmarks/results]

Both are traced with the same x64 state and the same matmul precision, in float32 and float64; names, metadata and
source locations are stripped before the texts are compared. Writes ``hlo.jsonl``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from _common import Report, arguments

import rtx_jax as xp


@dataclass(frozen=True, slots=True)
class Program:
    """One program in two spellings, and the shapes of its operands (int32 for those named in `integers`)."""

    ours: Callable[..., object]
    theirs: Callable[..., object]
    shapes: tuple[tuple[int, ...], ...]
    integers: tuple[int, ...] = ()
    wide: bool = False  # the result is int64, so that 64-bit types are on for float32 too


def _chain(ns: object) -> Callable[..., object]:
    return lambda x, y: ns.tanh(x * 2.0 + y) / (1.0 + ns.exp(-x)) - ns.abs(y)


def _matmul_softmax(ns: object) -> Callable[..., object]:
    def program(a: object, b: object) -> object:
        scores = a @ b
        weights = ns.exp(scores - ns.max(scores, axis=-1, keepdims=True))
        return weights / ns.sum(weights, axis=-1, keepdims=True)

    return program


def _layer_norm(ns: object) -> Callable[..., object]:
    def program(x: object, scale: object, shift: object) -> object:
        centred = x - ns.mean(x, axis=-1, keepdims=True)
        variance = ns.mean(centred * centred, axis=-1, keepdims=True)
        return centred / ns.sqrt(variance + 1e-5) * scale + shift

    return program


def _update_ours(x: xp.Array, i: xp.Array, v: xp.Array) -> xp.Array:
    x[i] = v
    return x


def _update_theirs(x: jax.Array, i: jax.Array, v: jax.Array) -> jax.Array:
    # The index is known to be a vector of positions: negative ones count from the end, others out of range are dropped.
    return x.at[i].set(v)


def _masked_ours(x: xp.Array) -> xp.Array:
    x[x < 0.0] = 0.0
    return x


def _masked_theirs(x: jax.Array) -> jax.Array:
    return jnp.where(x < 0.0, jnp.zeros((), x.dtype), x)


def _scan(scan: Callable[..., object], ns: object) -> Callable[..., object]:
    return lambda start, rows: scan(lambda carry, row: (carry * 0.5 + row, ns.sum(carry)), start, rows)


def _while(loop: Callable[..., object], ns: object) -> Callable[..., object]:
    return lambda x: loop(lambda v: ns.sum(v) > 1.0, lambda v: v * 0.5, x)


def _argsort(ns: object) -> Callable[..., object]:
    return lambda x: ns.argsort(x, axis=-1)


def _convolution(ns: object) -> Callable[..., object]:
    return lambda x, taps: ns.sum(ns.stack([x[k : k + 61] * taps[k] for k in range(4)]), axis=0)


def _loss(ns: object) -> Callable[..., object]:
    return lambda w, x, y: ns.mean((ns.tanh(x @ w) - y) ** 2)


PROGRAMS: dict[str, Program] = {
    "elementwise chain": Program(_chain(xp), _chain(jnp), ((64, 64), (64, 64))),
    "matmul and softmax": Program(_matmul_softmax(xp), _matmul_softmax(jnp), ((32, 16), (16, 32))),
    "layer norm": Program(_layer_norm(xp), _layer_norm(jnp), ((32, 64), (64,), (64,))),
    "computed-index update": Program(_update_ours, _update_theirs, ((64,), (8,), (8,)), integers=(1,)),
    "scan": Program(_scan(xp.scan, xp), _scan(jax.lax.scan, jnp), ((16,), (10, 16))),
    "while": Program(_while(xp.while_loop, xp), _while(jax.lax.while_loop, jnp), ((16,),)),
    "argsort": Program(_argsort(xp), _argsort(jnp), ((8, 32),), wide=True),
    "masked update": Program(_masked_ours, _masked_theirs, ((64,),)),
    "convolution": Program(_convolution(xp), _convolution(jnp), ((64,), (4,))),
    "gradient": Program(xp.grad(_loss(xp)), jax.grad(_loss(jnp)), ((16, 4), (32, 16), (32, 4))),
}


def operands(program: Program, dtype: str) -> list[np.ndarray]:
    """Operands of a program; positions are in range."""
    generator = np.random.default_rng(0)
    return [
        generator.integers(0, 8, shape).astype(np.int32)
        if index in program.integers
        else generator.standard_normal(shape).astype(dtype)
        for index, shape in enumerate(program.shapes)
    ]


def optimized(function: Callable[..., object], values: list[object]) -> str:
    """The optimized HLO of a function of arrays."""
    return jax.jit(function).lower(*values).compile().as_text()


def stripped(text: str) -> str:
    """HLO without names, metadata and locations: two programs that differ in nothing else become equal."""
    lines = [line for line in text.splitlines() if not line.startswith("HloModule")]
    joined = "\n".join(
        line for line in lines if line.endswith(("{", "}")) and not re.match(r"\d+ [{\"]", line) or " = " in line
    )
    joined = re.sub(r", metadata=\{(?:[^{}]|\{[^{}]*\})*\}", "", joined)
    joined = re.sub(r"\b[A-Za-z_][\w.]*(?=: )", "arg", joined)
    names: dict[str, str] = {}
    return re.sub(r"%[\w.\-]+", lambda match: names.setdefault(match.group(), f"%{len(names)}"), joined)


def compare_program(program: Program, dtype: str) -> tuple[str, str]:
    """The stripped HLO of both spellings."""
    values = operands(program, dtype)
    with jax.enable_x64(dtype == "float64" or program.wide), jax.default_matmul_precision("highest"):
        ours = optimized(program.ours, [xp.asarray(value) for value in values])
        theirs = optimized(program.theirs, [jnp.asarray(value) for value in values])
    return stripped(ours), stripped(theirs)


def main() -> int:
    """Compare, print, write; the exit status is 1 where a program differs."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="programs whose name contains this text")
    parser.add_argument("--show", action="store_true", help="print the lines that differ")
    options = parser.parse_args()
    report = Report("hlo", options.output)
    different = 0
    for name, program in PROGRAMS.items():
        if options.only not in name:
            continue
        for dtype in ("float32", "float64"):
            ours, theirs = compare_program(program, dtype)
            different += ours != theirs
            print(f"{'ok  ' if ours == theirs else 'MISS'} {name}, {dtype}: {len(ours.splitlines())} lines of HLO")
            report.add(name, dtype=dtype, equal=ours == theirs, lines=len(ours.splitlines()))
            if options.show and ours != theirs:
                print(
                    "\n".join(difflib.unified_diff(theirs.splitlines(), ours.splitlines(), "jax", "rtx_jax", "", "", 0))
                )
    report.save()
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main())
