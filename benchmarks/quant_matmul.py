"""What do products with quantized weights cost, in time, memory and accuracy? Against float32 on the same device.

    python benchmarks/quant_matmul.py [--rounds 15] [--size 4096] [--only int8] [--output benchmarks/results]

Rows of activations by a square weight. Both sides are compiled; float32 has its weight in the faster order for CPUs,
(N, K). Errors are the root mean square of the difference to the float64 product with the original weight, over that of
the product. Writes ``quant_matmul.jsonl`` and ``quant_matmul.png``.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from _common import Comparison, Report, Side, arguments, compare, plot_ratios

from rtx_jax.quant import PerBlock, PerChannel, QTensor, QuantScheme, qmatmul, quantize

ROWS = (1, 4, 16, 64)
GOALS = {1: 2.5, 4: 3.5, 16: 3.5}  # of int8 with activations quantized on the fly, times faster than float32
EACH_ROW = QuantScheme("int8", PerChannel(0))

# Name: the weight's scheme, and that of the activations (None: as they are).
SCHEMES: dict[str, tuple[QuantScheme, QuantScheme | None]] = {
    "int8 x int8": (QuantScheme("int8", PerChannel(0)), EACH_ROW),
    "int4 x int8": (QuantScheme("int4", PerChannel(0)), EACH_ROW),
    "int8": (QuantScheme("int8", PerChannel(0)), None),
    "int8, blocks of 32": (QuantScheme("int8", PerBlock((32,)), "bfloat16"), None),
    "int4": (QuantScheme("int4", PerChannel(0)), None),
    "int4, blocks of 32": (QuantScheme("int4", PerBlock((32,)), "bfloat16"), None),
    "int4, blocks of 32, zero points": (QuantScheme("int4", PerBlock((32,)), "bfloat16", symmetric=False), None),
    "fp8 e4m3": (QuantScheme("fp8_e4m3", PerChannel(0)), None),
    "fp8 e5m2": (QuantScheme("fp8_e5m2", PerChannel(0)), None),
    "fp4 e2m1, blocks of 32, e8m0": (QuantScheme("fp4_e2m1", PerBlock((32,)), "e8m0"), None),
    "fp4 e2m1, blocks of 16, e4m3": (QuantScheme("fp4_e2m1", PerBlock((16,)), "e4m3", True), None),
}


def temporary_bytes(call: object, *operands: object) -> int:
    """Memory of one call beside its operands and its result."""
    return call.lower(*operands).compile().memory_analysis().temp_size_in_bytes


def measure(q: QTensor, activations: QuantScheme | None, x: jax.Array, weight: jax.Array, rounds: int) -> tuple:
    """Time the quantized product of x against the float32 one; return also the call."""
    ours = jax.jit(lambda x, q: qmatmul(x, q.T, activations=activations))
    theirs = jax.jit(lambda x, w: jax.lax.dot_general(x, w, (((1,), (1,)), ((), ()))))
    names = {"x": x, "q": q, "w": weight, "ours": ours, "theirs": theirs}
    statement = "{}(x, {}).block_until_ready()"
    result = compare(
        Side(statement.format("ours", "q"), names), Side(statement.format("theirs", "w"), names), rounds=rounds
    )
    return result, ours


def line(name: str, rows: int, result: Comparison, error: float, temporary: int) -> str:
    return (
        f"  {name:34} {rows:3} rows {result.ours_us / 1e3:8.2f} ms, float32 {result.theirs_us / 1e3:7.2f} ms, "
        f"{1 / result.ratio:5.2f} times faster, error {error:.1e}, {temporary / 2**20:5.1f} MiB beside"
    )


def main() -> int:
    """Run, print, write; the exit status is 1 where a goal is missed."""
    parser = arguments(__doc__.splitlines()[0])
    parser.set_defaults(rounds=15)
    parser.add_argument("--size", type=int, default=4096, help="rows and columns of the weight")
    parser.add_argument("--only", default="", help="schemes whose name contains this text")
    options = parser.parse_args()
    report = Report("quant_matmul", options.output)
    rng = np.random.default_rng(0)
    size = options.size
    host = rng.standard_normal((size, size), dtype=np.float32) / np.sqrt(np.float32(size))
    weight = jnp.asarray(host)
    rows = {count: rng.standard_normal((count, size), dtype=np.float32) for count in ROWS}
    exact = {count: x.astype(np.float64) @ host.T.astype(np.float64) for count, x in rows.items()}
    ratios: dict[str, float] = {}
    met = []
    for name, (scheme, activations) in SCHEMES.items():
        if options.only not in name:
            continue
        q = quantize(weight, scheme)
        print(f"{name}: {q.storage_bytes / 2**20:.1f} MiB at rest, {q.storage_bytes / weight.nbytes:.3f} of float32")
        for count, x in rows.items():
            result, call = measure(q, activations, jnp.asarray(x), weight, options.rounds)
            difference = np.asarray(call(jnp.asarray(x), q)) - exact[count]
            error = float(np.sqrt((difference**2).mean() / (exact[count] ** 2).mean()))
            temporary = temporary_bytes(call, jnp.asarray(x), q)
            print(line(name, count, result, error, temporary))
            ratios[f"{name}, {count} rows"] = result.ratio
            report.add(
                f"{name}, {count} rows",
                result,
                scheme=scheme.to_json(),
                rows=count,
                size=size,
                storage_bytes=q.storage_bytes,
                float32_bytes=weight.nbytes,
                temporary_bytes=temporary,
                relative_error=error,
            )
            if name == "int8 x int8" and count in GOALS:
                faster = 1 / result.ratio
                met.append(faster >= GOALS[count])
                print(f"  {'ok  ' if met[-1] else 'MISS'} {faster:.2f} times faster (goal: at least {GOALS[count]})")
    report.save()
    if ratios:
        plot_ratios(
            report.plot_path,
            f"Quantized {size} x {size} weights",
            ratios,
            groups={name: name.rpartition(", ")[0] for name in ratios},
            label="time / time of float32",
        )
    return 0 if all(met) else 1


if __name__ == "__main__":
    raise SystemExit(main())
