"""How fast are the Hopper kernels? On an H100 or H200, against cuDNN and, where it is installed, tokamax.

    python benchmarks/hopper.py [--rounds 9] [--only checks attention pairs rows] [--output benchmarks/results]
    python benchmarks/hopper.py --dry

First every feature is compared with the oracle in float32 on the card itself. Then bfloat16 attention with 16384
tokens and 2048 channels is timed for heads of 64, 128 and 256, lengths from 2048 to 16384, causal and full, forward
and with gradients (the backward figure is the difference of the two); attention with a bias and a mask; and RoPE and
the gradients of the norms against a copy. All sides of a comparison run in turn in this process. Writes
``hopper.jsonl`` with the card, the versions, every time and every goal. ``--dry`` runs all of it on any machine,
tiny, the kernels interpreted: its times mean nothing.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from _common import Report, arguments, geometric_mean, verdict

from rtx_jax.bench import Request, run
from rtx_jax.bench.timing import Times, alternate
from rtx_jax.kernels.attention import pallas_mosaic_gpu, reference
from rtx_jax.kernels.attention.spec import AttentionSpec, Operands

PARTS = ("checks", "attention", "pairs", "rows")
PACKAGES = ("jax-cuda12-plugin", "jax-cuda13-plugin", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13", "tokamax")
TOKENS, CHANNELS = 16384, 2048
LAUNCHES = 10
"""Programs started before one is waited for, so that the host's time does not count."""
BF16 = np.dtype(jnp.bfloat16)
# Shares of the better peer's speed: geometric mean and worst of the forward pass, mean of the backward pass.
FORWARD, WORST, BACKWARD = 0.93, 0.85, 0.80
PAIRS, ROWS = 2.0, 0.85

FEATURES: dict[str, dict[str, Any]] = {
    "whole": {},
    "causal": {"window": (None, 0)},
    "window": {"window": (70, 5), "layout": "BNTH"},
    "key heads": {"heads": 4, "window": (None, 0)},
    "offsets": {"q_offset": None, "window": (None, 0)},
    "lengths": {"query_lengths": True, "key_lengths": True, "window": (None, 0)},
    "segments": {"segments": True, "window": (None, 0)},
    "softcap": {"softcap": 2.0},
    "sinks": {"sinks_dtype": np.dtype(np.float32)},
    "mask": {"mask": (2, 2, 300, 333)},
    "mask of keys": {"mask": (2, 1, 1, 333)},
    "bias": {"bias": (2, 2, 300, 333), "bias_dtype": np.dtype(np.float32)},
    "bias of heads": {"bias": (1, 2, 1, 333), "bias_dtype": BF16},
    "bias of rows": {"bias": (1, 2, 300, 1), "bias_dtype": BF16},
    "value size": {"value_size": 40},
    "float16": {"dtype": np.dtype(np.float16), "window": (None, 0)},
}


@dataclass(frozen=True)
class Contender:
    """Somebody who computes attention: result alone, and gradients with it."""

    name: str
    forward: Callable[..., object]
    both: Callable[..., object]


def random_operands(spec: AttentionSpec, seed: int = 0) -> Operands:
    """Operands of a call, on the device."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> jax.Array:
        return jnp.asarray(rng.standard_normal(shape, dtype=np.float32), spec.dtype)

    def head(length: int, heads: int, size: int) -> jax.Array:
        middle = (length, heads) if spec.layout == "BTNH" else (heads, length)
        return normal(spec.batch, *middle, size)

    def row(there: bool, low: int, high: int, *shape: int) -> jax.Array | None:
        return jnp.asarray(rng.integers(low, high, (spec.batch, *shape)), jnp.int32) if there else None

    segments = [row(spec.segments, 0, 4, n) for n in (spec.queries, spec.keys)]
    return Operands(
        head(spec.queries, spec.heads, spec.size),
        head(spec.keys, spec.key_heads, spec.size),
        head(spec.keys, spec.key_heads, spec.value_size),
        None if spec.mask is None else jnp.asarray(rng.random(spec.mask) < 0.7),
        None if spec.bias is None else normal(*spec.bias).astype(spec.bias_dtype),
        *(None if x is None else jnp.sort(x, axis=1) for x in segments),
        row(spec.query_lengths, 1, spec.queries + 1),
        row(spec.key_lengths, 1, spec.keys + 1),
        None if spec.sinks_dtype is None else jnp.asarray(rng.standard_normal(spec.heads), spec.sinks_dtype),
        row(spec.q_offset is None, 0, spec.keys),
    )


# --- checks ---------------------------------------------------------------------------------------------------------


def checks(report: Report, dry: bool) -> bool:
    """Compare every feature with the oracle, for three sizes of heads."""
    good = True
    sizes = (16,) if dry else (32, 64, 96, 128, 192, 256)
    for size in sizes:
        for name, change in list(FEATURES.items())[:: 8 if dry else 1]:
            given = {"value_size": size, "q_offset": 33, **change}
            spec = AttentionSpec(
                2, 300, 333, given.pop("heads", 2), 2, size, given.pop("value_size"), given.pop("dtype", BF16),
                scale=size**-0.5, **given,
            )  # fmt: skip
            errors = feature_errors(spec, dry)
            bound = 2 * float(jnp.finfo(spec.dtype).eps)
            worst = max(errors.values())
            met = all(error <= (1e-5 if which == "lse" else bound) for which, error in errors.items())
            good &= met
            print(f"{'ok  ' if met else 'MISS'} {name}, heads of {size}: error {worst:.2g} (at most {bound:.2g})")
            report.add("check", feature=name, size=size, errors=errors, met=met)
    return good


def feature_errors(spec: AttentionSpec, dry: bool) -> dict[str, float]:
    """Errors of result, log-sum-exp and gradients, relative to the largest number and at least 1."""
    operands = random_operands(spec)
    rng = np.random.default_rng(1)
    d_out = jnp.asarray(rng.standard_normal((*operands.query.shape[:-1], spec.value_size)), spec.dtype)
    d_lse = jnp.asarray(rng.standard_normal((spec.batch, spec.heads, spec.queries)), jnp.float32)
    wanted = {"bias": spec.bias is not None, "sinks": spec.sinks_dtype is not None}

    def all_of(module: Any, spec: AttentionSpec, interpret: bool) -> Callable[..., dict[str, jax.Array]]:
        def both(operands: Operands, d_out: jax.Array, d_lse: jax.Array) -> dict[str, jax.Array]:
            out, lse = module.forward(spec, operands, interpret=interpret)
            found = module.backward(spec, operands, out, lse, d_out, d_lse, **wanted, interpret=interpret)
            return {"out": out, "lse": lse, **{k: v for k, v in found._asdict().items() if v is not None}}

        return jax.jit(both)

    def wide(x: Any) -> Any:
        return x.astype(jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else x

    f32 = np.dtype(np.float32)
    exact_spec = replace(spec, dtype=f32, bias_dtype=None if spec.bias_dtype is None else f32)
    got = all_of(pallas_mosaic_gpu, spec, dry)(operands, d_out, d_lse)
    with jax.default_matmul_precision("highest"):
        want = all_of(reference, exact_spec, False)(jax.tree.map(wide, operands), wide(d_out), d_lse)
    errors = {}
    for name, exact in want.items():
        a, b = (np.asarray(x, np.float64) for x in (got[name], exact))
        finite = np.isfinite(b)
        if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
            errors[name] = float("inf")
            continue
        scale = max(1.0, float(np.abs(b[finite]).max(initial=0)))
        errors[name] = float(np.abs(a[finite] - b[finite]).max(initial=0)) / scale
    return errors


# --- attention ------------------------------------------------------------------------------------------------------


def ours(spec: AttentionSpec, dry: bool) -> Contender:
    """The kernels, without a choice around them."""

    def forward(operands: Operands, d_out: jax.Array) -> jax.Array:
        return pallas_mosaic_gpu.forward(spec, operands, interpret=dry)[0]

    def both(operands: Operands, d_out: jax.Array) -> object:
        out, lse = pallas_mosaic_gpu.forward(spec, operands, interpret=dry)
        zero = jnp.zeros_like(lse)
        return out, pallas_mosaic_gpu.backward(spec, operands, out, lse, d_out, zero, interpret=dry)

    return Contender("rtx_jax", forward, both)


def peer(name: str, attention: Callable[..., jax.Array], spec: AttentionSpec) -> Contender:
    """An implementation with the arguments of `jax.nn.dot_product_attention`."""

    def forward(operands: Operands, d_out: jax.Array) -> jax.Array:
        return attention(
            operands.query, operands.key, operands.value, bias=operands.bias, mask=operands.mask,
            scale=spec.scale, is_causal=spec.causal,
        )  # fmt: skip

    def both(operands: Operands, d_out: jax.Array) -> object:
        def of(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
            return forward(operands._replace(query=query, key=key, value=value), d_out)

        out, pull = jax.vjp(of, operands.query, operands.key, operands.value)
        return out, pull(d_out)

    return Contender(name, forward, both)


def peers(spec: AttentionSpec, dry: bool) -> list[Contender]:
    """CuDNN, or XLA in a dry run, and tokamax where it is installed."""
    implementation = "xla" if dry else "cudnn"

    def by_jax(*args: Any, **options: Any) -> jax.Array:
        return jax.nn.dot_product_attention(*args, **options, implementation=implementation)

    found = [peer("jax.nn" if dry else "cuDNN", by_jax, spec)]
    if importlib.util.find_spec("tokamax") is not None and not dry:
        tokamax = importlib.import_module("tokamax")
        found.append(peer("tokamax", tokamax.dot_product_attention, spec))
    return found


def timed(spec: AttentionSpec, dry: bool, rounds: int) -> dict[str, dict[str, float]]:
    """Best times in milliseconds of each contender: forward, with gradients, and the difference."""
    operands = random_operands(spec)
    d_out = jnp.ones((*operands.query.shape[:-1], spec.value_size), spec.dtype)
    calls: dict[str, Callable[[], object]] = {}
    for contender in (ours(spec, dry), *peers(spec, dry)):
        for direction in ("forward", "both"):
            program = jax.jit(getattr(contender, direction))
            try:
                jax.block_until_ready(program(operands, d_out))
            except Exception as error:  # a peer may refuse a case; ours may not
                if contender.name == "rtx_jax":
                    raise
                print(f"     {contender.name}, {direction}: {str(error).splitlines()[0][:90]}")
                continue
            calls[f"{contender.name}/{direction}"] = launches(program, (operands, d_out), 1 if dry else LAUNCHES)
    times = alternate(calls, rounds=rounds)
    found: dict[str, dict[str, float]] = {}
    for name, took in times.items():
        contender_name, direction = name.split("/")
        found.setdefault(contender_name, {})[direction] = milliseconds(took, 1 if dry else LAUNCHES)
    for each in found.values():
        if "both" in each and "forward" in each:
            each["backward"] = each["both"] - each["forward"]
    return found


def launches(program: Callable[..., object], arguments: Sequence[object], count: int) -> Callable[[], object]:
    """A call that starts a program several times and waits for the last."""

    def call() -> object:
        result: object = None
        for _ in range(count):
            result = program(*arguments)
        return jax.block_until_ready(result)

    return call


def milliseconds(took: Times, count: int) -> float:
    """The best time of one program."""
    return took.best * 1e3 / count


def shares(found: dict[str, dict[str, float]], direction: str) -> float:
    """Our speed as a share of the better peer's; NaN without one."""
    best = min(
        (times[direction] for name, times in found.items() if name != "rtx_jax" and direction in times), default=0
    )
    return best / found["rtx_jax"][direction] if best > 0 else float("nan")


def attention_specs(dry: bool) -> Iterator[AttentionSpec]:
    """The shapes of the comparison."""
    for size in (16,) if dry else (64, 128, 256):
        for length in (128,) if dry else (2048, 4096, 8192, 16384):
            for window in ((None, None), (None, 0)):
                batch, heads = (1, 1) if dry else (TOKENS // length, CHANNELS // size)
                yield AttentionSpec(
                    batch, length, length, heads, heads, size, size, BF16, scale=size**-0.5, window=window
                )


def attention(report: Report, dry: bool, rounds: int) -> bool:
    """Time attention without bias and mask."""
    of: dict[str, list[float]] = {"forward": [], "backward": []}
    for spec in attention_specs(dry):
        found = timed(spec, dry, rounds)
        flops = 4.0 * spec.batch * spec.heads * spec.queries * spec.keys * spec.size / (2 if spec.causal else 1)
        what = f"heads of {spec.size}, {spec.queries} tokens, {'causal' if spec.causal else 'full'}"
        for name, times in found.items():
            rates = {d: flops * (1 if d == "forward" else 2.5) / times[d] / 1e9 for d in of if times.get(d, 0) > 0}
            text = ", ".join(f"{d} {times[d]:.3f} ms ({rate:.0f} TFLOP/s)" for d, rate in rates.items())
            print(f"     {what}, {name}: {text}")
            report.add(
                "attention", size=spec.size, length=spec.queries, causal=spec.causal, contender=name,
                ms=times, tflops=rates,
            )  # fmt: skip
        of["forward"].append(shares(found, "forward"))
        if spec.size <= 128:
            of["backward"].append(shares(found, "backward"))
    known = {direction: [x for x in values if np.isfinite(x) and x > 0] for direction, values in of.items()}
    met = True
    for label, value, goal in (
        ("forward, geometric mean", geometric_mean(known["forward"]), FORWARD),
        ("forward, worst", min(known["forward"], default=float("nan")), WORST),
        ("backward, heads of 64 and 128, geometric mean", geometric_mean(known["backward"]), BACKWARD),
    ):
        met &= verdict(f"time against the better peer, {label}", 1 / value, 1 / goal)
        report.add("goal", label=label, share=value, goal=goal)
    return met


def pairs(report: Report, dry: bool, rounds: int) -> bool:
    """Time attention with a bias and a mask, which cuDNN reads as one table of scores."""
    met = True
    for size in (16,) if dry else (32, 64):
        batch, heads, length = (1, 1, 128) if dry else (32, 4, 1024)
        spec = AttentionSpec(
            batch, length, length, heads, heads, size, size, BF16, scale=size**-0.5,
            bias=(batch, heads, length, length), bias_dtype=BF16, mask=(batch, 1, length, length),
        )  # fmt: skip
        found = timed(spec, dry, rounds)
        for name, times in found.items():
            report.add("pairs", size=size, contender=name, ms=times)
            print(f"     bias and mask, heads of {size}, {name}: {times}")
        share = shares(found, "forward")
        met &= verdict(f"time against cuDNN with bias and mask, heads of {size}", 1 / share, 1 / PAIRS)
        report.add("goal", label=f"bias and mask, heads of {size}", share=share, goal=PAIRS)
    return met


# --- rows -----------------------------------------------------------------------------------------------------------


def rows(report: Report, dry: bool, rounds: int) -> bool:
    """Time RoPE and the gradients of the norms as shares of the rate of a copy."""
    met = True
    for operation, variants in (("rope", ("half-split",)), ("norm", ("rms_norm", "layer_norm"))):
        request = Request(
            operation,
            lengths=(64,) if dry else (16384,),
            variants=variants,
            directions=("backward",),
            heads=2 if dry else 16,
            key_heads=2 if dry else 16,
            size=64 if dry else 128,
            width=128 if dry else 4096,
            dtype="bfloat16",
            implementations=("auto" if dry else "pallas_mosaic_gpu",),
            rounds=rounds,
        )
        for measured in run(request).measurements:
            report.add("rows", operation=operation, variant=measured.variant, contender=measured.contender,
                       ms=measured.best_ms, share=measured.share)  # fmt: skip
            if measured.contender.startswith("rtx_jax"):
                share = measured.share or float("nan")
                label = f"{operation}, {measured.variant}, backward"
                met &= verdict(f"time against a copy, {label}", 1 / share, 1 / ROWS)
                report.add("goal", label=label, share=share, goal=ROWS)
    return met


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="parts to run")
    parser.add_argument("--dry", action="store_true", help="run tiny cases on any machine, the kernels interpreted")
    parser.set_defaults(rounds=9)
    options = parser.parse_args()
    device = jax.devices()[0]
    if not options.dry and not any(card in device.device_kind for card in ("H100", "H200", "H800", "GH200")):
        sys.exit(f"needs an H100 or H200, and this is {device.device_kind}; --dry tries the script anywhere")
    rounds = 1 if options.dry else options.rounds
    report = Report("hopper-dry" if options.dry else "hopper", options.output)
    installed = {name for distribution in metadata.distributions() if (name := distribution.metadata["Name"])}
    report.add("versions", **{name: metadata.version(name) for name in PACKAGES if name in installed})
    met = True
    if "checks" in options.only:
        met &= checks(report, options.dry)
    if "attention" in options.only:
        met &= attention(report, options.dry, rounds)
    if "pairs" in options.only:
        met &= pairs(report, options.dry, rounds)
    if "rows" in options.only:
        met &= rows(report, options.dry, rounds)
    report.save()
    print("all goals met" if met else "some goals missed")


if __name__ == "__main__":
    main()
