"""How fast is blocked attention on this processor? Against PyTorch and `jax.nn`, in time and memory.

    python benchmarks/attention.py [--rounds 9] [--lengths 2048 8192] [--only window] [--output benchmarks/results]

Float32 with 8 heads of size 64, causal, unless a case says otherwise. Each comparison runs both sides in turn; the
figure is the median of the ratios of the rounds. PyTorch is left out where it is not installed. Variants are compared
with the plain causal call, per score that their tiles hold. Memory is what the compiled programs say of their
temporaries. Writes ``attention.jsonl`` and ``attention.png``.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from _common import Comparison, Report, Side, arguments, compare, plot_ratios, verdict

from rtx_jax.kernels.attention import flash_attention
from rtx_jax.kernels.attention.spec import AttentionSpec, Operands
from rtx_jax.kernels.attention.tiles import Tiles, default_blocks

HEADS, SIZE = 8, 64
HAS_TORCH = importlib.util.find_spec("torch") is not None
ATTEND = Callable[..., jax.Array]
MEMORY_LENGTH = 32768

# Times faster than PyTorch, and than `jax.nn` at 2048 and at 8192.
GOALS = {"forward": 1.4, "fast": 1.7, "forward and backward": 1.5, "bfloat16": 2.0}
GOALS_NN = {2048: 4.5, 8192: 7.0}
GOALS_MIB = {"forward": 300, "backward": 700}


def tensors(length: int, dtype: object = jnp.float32, key_heads: int = HEADS) -> list[jax.Array]:
    """Queries, keys, values and a cotangent."""
    rng = np.random.default_rng(0)
    heads = (HEADS, key_heads, key_heads, HEADS)
    return [jnp.asarray(rng.standard_normal((1, length, n, SIZE), dtype=np.float32), dtype) for n in heads]


def with_gradients(attend: ATTEND) -> Callable[..., object]:
    """The call and its derivatives by queries, keys and values."""

    def both(q: jax.Array, k: jax.Array, v: jax.Array, g: jax.Array, *more: jax.Array) -> object:
        out, pull = jax.vjp(lambda q, k, v: attend(q, k, v, *more), q, k, v)
        return out, pull(g)

    return both


def ours(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    return flash_attention(q, k, v, causal=True, implementation="xla")


def fast(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    return flash_attention(q, k, v, causal=True, implementation="xla", fast=True)


def jax_nn(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="xla")


def side(call: Callable[..., object], operands: list[jax.Array]) -> Side:
    """A compiled call as one side of a comparison."""
    return Side("wait(call(*operands))", {"wait": jax.block_until_ready, "call": jax.jit(call), "operands": operands})


def torch_side(operands: list[jax.Array], *, gradients: bool) -> Side:
    """The same call in PyTorch, whose layout is (B, N, T, H)."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    torch.set_num_threads(os.cpu_count() or 1)
    kind = torch.bfloat16 if operands[0].dtype == jnp.bfloat16 else torch.float32
    q, k, v, g = (
        torch.from_numpy(np.array(x.astype(jnp.float32))).to(kind).transpose(1, 2).contiguous() for x in operands
    )

    def forward() -> None:
        with torch.no_grad():
            scaled_dot_product_attention(q, k, v, is_causal=True)

    def both() -> None:
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        scaled_dot_product_attention(*leaves, is_causal=True).backward(g)

    return Side("call()", {"call": both if gradients else forward})


def peers(length: int) -> Iterator[tuple[str, Side, Side, float | None]]:
    """Name, ours, theirs, and how many times faster ours shall be."""
    operands = tensors(length)
    calls: dict[str, tuple[ATTEND, list[jax.Array], bool]] = {
        "forward": (ours, operands[:3], False),
        "fast": (fast, operands[:3], False),
        "forward and backward": (with_gradients(ours), operands, True),
    }
    if HAS_TORCH:
        for name, (call, given, gradients) in calls.items():
            yield f"{name}, torch", side(call, given), torch_side(operands, gradients=gradients), GOALS[name]
        halves = tensors(length, jnp.bfloat16)
        yield "bfloat16, torch", side(ours, halves[:3]), torch_side(halves, gradients=False), GOALS["bfloat16"]
    yield "forward, jax.nn", side(ours, operands[:3]), side(jax_nn, operands[:3]), GOALS_NN.get(length)


def variants(length: int) -> Iterator[tuple[str, AttentionSpec, Operands, ATTEND, float]]:
    """Name, the call for its tiles, its operands, the call, and how many times the time per score may be."""
    q, k, v, _ = tensors(length)
    plain = AttentionSpec(
        1, length, length, HEADS, HEADS, SIZE, SIZE, np.dtype(np.float32), window=(None, 0), q_offset=0
    )
    _, shared_k, shared_v, _ = tensors(length, key_heads=1)

    def attend(**more: object) -> ATTEND:
        return lambda q, k, v, *_: flash_attention(q, k, v, causal=True, implementation="xla", **more)  # type: ignore[arg-type,return-value]

    yield "plain", plain, Operands(q, k, v), attend(), 1.0
    yield "8 heads share a key head", replace(plain, key_heads=1), Operands(q, shared_k, shared_v), attend(), 1.0
    window = min(length // 2, 2048)
    yield f"window of {window}", replace(plain, window=(window, 0)), Operands(q, k, v), attend(window=(window, 0)), 1.2
    ids = jnp.asarray(np.arange(length)[None] // (length // 4), jnp.int32)
    segments = Operands(q, k, v, segment_ids=ids, key_segment_ids=ids)
    yield "4 segments", replace(plain, segments=True), segments, attend(segment_ids=ids), 1.2
    bias = jnp.asarray(np.random.default_rng(1).standard_normal((1, HEADS, length, length), dtype=np.float32))
    dense = replace(plain, bias=bias.shape, bias_dtype=np.dtype(np.float32))

    def biased(q: jax.Array, k: jax.Array, v: jax.Array, bias: jax.Array) -> jax.Array:
        return flash_attention(q, k, v, bias=bias, causal=True, implementation="xla")  # type: ignore[return-value]

    yield "dense bias", dense, Operands(q, k, v, bias=bias), biased, 1.0


def scores_of(spec: AttentionSpec, operands: Operands) -> int:
    """How many scores the tiles of a call hold, of each head."""
    blocks = default_blocks(spec)
    walk = Tiles(spec, operands, blocks).walk()
    tiles = np.asarray(walk.touched).sum() if walk.order is not None else spec.queries * spec.keys
    return int(tiles) * (blocks.query * blocks.key if walk.order is not None else 1)


def temporary_mib(call: Callable[..., object], *shapes: tuple[int, ...]) -> float:
    """Memory of one call beside operands and results, in MiB; nothing is run."""
    given = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    return float(jax.jit(call).lower(*given).compile().memory_analysis().temp_size_in_bytes) / 2**20


def squared_gradients(q: jax.Array, k: jax.Array, v: jax.Array) -> object:
    """A derivative of second order, as a gradient penalty has."""

    def penalty(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        slopes = jax.grad(lambda *a: jnp.sum(ours(*a) ** 2), (0, 1, 2))(q, k, v)
        return sum((jnp.sum(x**2) for x in slopes), start=jnp.zeros(()))

    return jax.grad(penalty, (0, 1, 2))(q, k, v)


def speed(report: Report, lengths: list[int], only: str, rounds: int) -> tuple[list[bool], dict[str, float]]:
    """Compare with the peers."""
    met, ratios = [], {}
    for length in lengths:
        print(f"length {length}")
        for name, mine, theirs, goal in peers(length):
            if only not in name:
                continue
            result: Comparison = compare(mine, theirs, rounds=rounds, warm_up=2)
            ratios[f"{name}, {length}"] = result.ratio
            report.add(name, result, length=length, goal=goal)
            text = f"{name}: {result.ours_us / 1e3:.1f} ms, {1 / result.ratio:.2f} times faster; ratio"
            met.append(verdict(text, result.ratio, np.inf if goal is None else 1 / goal))
    return met, ratios


def cost(report: Report, length: int, only: str, rounds: int) -> list[bool]:
    """Compare variants with the plain call, per score."""
    met = []
    (_, plain, plain_operands, plain_call, _), *others = variants(length)
    given = list(plain_operands[:3])
    for name, spec, operands, call, limit in others:
        if only not in name:
            continue
        extra = [] if operands.bias is None else [operands.bias]
        scores = scores_of(spec, operands) / scores_of(plain, plain_operands)
        for direction, wrap in (("forward", lambda call: call), ("forward and backward", with_gradients)):
            cotangent = [] if direction == "forward" else [operands.query]
            result = compare(
                side(wrap(call), [*operands[:3], *cotangent, *extra]),
                side(wrap(plain_call), [*given, *cotangent]),
                rounds=rounds,
                warm_up=2,
            )
            report.add(name, result, length=length, direction=direction, scores=scores)
            met.append(
                verdict(f"{name}, {direction}, per score", result.ratio / scores, limit if limit == limit else 2)
            )
    return met


def memory(report: Report, only: str) -> list[bool]:
    """Ask the compiler for temporaries, and run a double backward."""
    met = []
    if only in "memory":
        shape = (1, MEMORY_LENGTH, HEADS, SIZE)
        for name, call, count in (("forward", ours, 3), ("backward", with_gradients(ours), 4)):
            found = temporary_mib(call, *[shape] * count)
            report.add(f"memory, {name}", length=MEMORY_LENGTH, mib=found)
            met.append(verdict(f"temporaries, {name}, at {MEMORY_LENGTH}", found, GOALS_MIB[name], unit=" MiB"))
    if only in "double backward":
        found = temporary_mib(squared_gradients, *[(1, 8192, HEADS, SIZE)] * 3)
        slopes = jax.block_until_ready(jax.jit(squared_gradients)(*tensors(8192)[:3]))
        assert all(bool(jnp.isfinite(x).all()) for x in slopes)
        report.add("double backward", length=8192, mib=found)
        # The scores of one head alone take 256 MiB.
        met.append(verdict("temporaries, double backward, at 8192", found, 1024, unit=" MiB"))
    return met


def main() -> int:
    """Run, print, write; the exit status is 1 where a goal is missed."""
    parser = arguments(__doc__.splitlines()[0])
    parser.set_defaults(rounds=9)
    parser.add_argument("--lengths", type=int, nargs="+", default=[2048, 8192], help="queries and keys")
    parser.add_argument("--only", default="", help="cases whose name contains this text")
    options = parser.parse_args()
    report = Report("attention", options.output)
    met, ratios = speed(report, options.lengths, options.only, options.rounds)
    met += cost(report, max(options.lengths), options.only, options.rounds)
    met += memory(report, options.only)
    report.save()
    if ratios:
        plot_ratios(
            report.plot_path, "Attention on this processor", ratios, label="time of rtx_jax / time of the other"
        )
    return 0 if all(met) else 1


if __name__ == "__main__":
    raise SystemExit(main())
