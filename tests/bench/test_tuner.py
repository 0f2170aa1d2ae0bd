"""Block sizes are measured, stored where they win, and taken by the next call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rtx_jax.bench import Request, Trial, decode, tune, tuner
from rtx_jax.bench.timing import Times
from rtx_jax.bench.tuner import candidates
from rtx_jax.errors import BackendLimitation, InvalidArgument
from rtx_jax.kernels import tuning
from rtx_jax.kernels.attention import flash_attention, xla
from rtx_jax.kernels.attention.pallas_triton import Blocks as TritonBlocks
from rtx_jax.kernels.cross_entropy import cross_entropy
from rtx_jax.kernels.decode import decode_attention
from rtx_jax.kernels.decode import select as decode_select
from rtx_jax.kernels.decode import tuned as decode_tuned
from rtx_jax.kernels.target import Target

SMALL = Request("attention", lengths=(64,), heads=2, key_heads=2, size=8, device="cpu", rounds=1)


@dataclass(frozen=True)
class Blocks:
    query: int = 8
    key: int = 4
    depth: int = 2
    batch: int = 1


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("RTX_JAX_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three candidates: each has to be compiled."""

    def three(blocks: xla.Blocks, direction: str) -> list[xla.Blocks]:
        return [blocks, replace(blocks, query=32, key=128), replace(blocks, query=128)]

    monkeypatch.setattr(tuner, "candidates", three)


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch, few: None) -> dict[str, float]:
    """Seconds by the candidate's words, instead of a clock; 1 where nothing is said."""
    given: dict[str, float] = {}

    def alternate(calls: Mapping[str, Callable[[], object]], *, rounds: int) -> dict[str, Times]:
        assert rounds == 1
        return {name: Times((given.get(name, 1.0),), 1) for name in calls}

    monkeypatch.setattr(tuner, "alternate", alternate)
    return given


def small(**change: object) -> list[Trial]:
    return list(tune(replace(SMALL, **change)))  # type: ignore[arg-type]


def test_candidates_are_neighbours_in_every_direction() -> None:
    found = candidates(Blocks(), "forward")
    assert found[0] == Blocks()
    pairs = {(each.query, each.key) for each in found if each.depth == 2}  # type: ignore[attr-defined]
    assert pairs == {(q, k) for q in (4, 8, 16) for k in (2, 4, 8)}
    assert {each.depth for each in found if (each.query, each.key) == (8, 4)} == {1, 2, 4}  # type: ignore[attr-defined]
    assert {each.batch for each in found} == {1}  # type: ignore[attr-defined]
    assert len(found) == len(set(found)) == 11


def test_candidates_that_the_kernel_refuses_are_left_out() -> None:
    found = candidates(TritonBlocks(16, 16, 1, 1), "backward")
    assert all(each.query >= 16 and each.warps >= 1 for each in found)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class BothWays:
    key: int = 8
    gradient_key: int = 16


def test_candidates_of_one_direction_keep_the_other() -> None:
    assert candidates(BothWays(), "forward") == [BothWays(), BothWays(4), BothWays(16)]
    assert candidates(BothWays(), "backward") == [BothWays(), BothWays(8, 8), BothWays(8, 32)]


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_faster_candidate_is_stored_and_taken(
    seconds: dict[str, float], monkeypatch: pytest.MonkeyPatch, direction: str
) -> None:
    seconds["query 32, key 128, batch 1, heads 2"] = 0.5
    (trial,) = small(directions=(direction,))
    assert trial.default == {"query": 64, "key": 64, "batch": 1, "heads": 2}
    assert trial.entry is not None
    assert trial.entry.blocks == {"query": 32, "key": 128}
    assert (trial.entry.microseconds, trial.entry.default_microseconds) == (0.5e6, 1e6)
    assert tuning.entries() == [trial.entry]

    taken: list[object] = []
    original = getattr(xla, direction)

    def spy(*arguments: object, blocks: object = None, **others: object) -> object:
        taken.append(blocks)
        return original(*arguments, blocks=blocks, **others)

    monkeypatch.setattr(xla, direction, spy)
    x = jnp.ones((1, 64, 2, 8))
    jax.clear_caches()
    jax.grad(lambda x: jnp.sum(flash_attention(x, x, x, causal=True, implementation="xla")))(x)  # type: ignore[arg-type]
    (blocks,) = set(taken)
    assert isinstance(blocks, xla.Blocks)
    assert (blocks.query, blocks.key) == (32, 128)


def test_the_default_stays_where_nothing_is_clearly_faster(seconds: dict[str, float]) -> None:
    seconds["query 32, key 128, batch 1, heads 2"] = 0.99
    (trial,) = small(directions=("forward",))
    assert trial.entry is None
    assert tuning.entries() == []
    assert len(trial.times_ms) == 3


def test_a_candidate_that_does_not_compile_is_no_candidate(
    seconds: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = xla.forward

    def forward(*arguments: object, blocks: xla.Blocks, **others: object) -> object:
        if blocks.query > 64:
            raise ValueError("too much shared memory")
        return original(*arguments, blocks=blocks, **others)  # type: ignore[arg-type]

    monkeypatch.setattr(xla, "forward", forward)
    (trial,) = small(directions=("forward",))
    assert len(trial.times_ms) == 2


def test_real_times_of_both_directions(few: None) -> None:
    trials = small(variants=("segments",))
    assert [trial.kernel for trial in trials] == ["attention.xla.forward", "attention.xla.backward"]
    assert all(time > 0 for trial in trials for time in trial.times_ms.values())


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"operation": "rope"}, InvalidArgument, "got 'rope', wanted 'attention'"),
        ({"implementations": ("reference",)}, BackendLimitation, "wanted one with block sizes"),
        ({"implementations": ("pallas_triton",)}, BackendLimitation, "pallas_triton"),
        ({"implementations": ("abacus",)}, InvalidArgument, "abacus"),
        ({"variants": ("sideways",)}, InvalidArgument, "sideways"),
    ],
)
def test_what_cannot_be_tuned(change: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        small(**change)


def test_blocks_of_decode(monkeypatch: pytest.MonkeyPatch) -> None:
    def alternate(calls: Mapping[str, Callable[[], object]], *, rounds: int) -> dict[str, Times]:
        for call in calls.values():
            call()
        return {name: Times((0.5 if name == "key 32" else 1.0,), rounds) for name in calls}

    monkeypatch.setattr(tuner, "alternate", alternate)
    trials = small(operation="decode", variants=("contiguous", "paged", "int8"), directions=())
    assert [trial.kernel for trial in trials] == ["decode.xla.forward"] * 3
    first, paged, quantized = trials
    assert first.default == {"key": 64} and first.entry is not None and first.entry.blocks == {"key": 32}
    assert "page=64" in paged.shapes and quantized.shapes.startswith("float32 int8 ")
    # The next call takes the loop over blocks that the default does not need.
    cache = jnp.ones((1, 64, 2, 8))
    text = jax.jit(decode_attention).lower(cache[:, :1], cache, cache).as_text()
    assert "stablehlo.while" in text
    tuning.forget()
    assert "stablehlo.while" not in jax.jit(lambda *x: decode_attention(*x)).lower(cache[:, :1], cache, cache).as_text()


def test_parts_that_the_caller_chose_are_kept() -> None:
    (problem,) = decode.problems(replace(SMALL, operation="decode", variants=("contiguous",)))
    spec, _ = decode.normal_form(problem)
    target, shapes = Target("cuda", "NVIDIA H200", (9, 0)), decode_tuned.shape_class(spec)
    tuning.store(tuning.Entry("decode.pallas_triton.forward", "NVIDIA H200", shapes, {"splits": 7}, 1.0, 2.0))
    module = decode_select.load("pallas_triton")
    blocks = decode_tuned.tuned_blocks(module, spec, target)
    assert blocks is not None and tuning.block_sizes(blocks)["splits"] == 7
    assert decode_tuned.tuned_blocks(module, replace(spec, splits=2), target) is None


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_blocks_of_the_loss(monkeypatch: pytest.MonkeyPatch, direction: str) -> None:
    def alternate(calls: Mapping[str, Callable[[], object]], *, rounds: int) -> dict[str, Times]:
        return {name: Times((0.5 if name == "words 50" else 1.0,), rounds) for name in calls}

    monkeypatch.setattr(tuner, "alternate", alternate)
    (trial,) = small(operation="cross-entropy", variants=(), directions=(direction,), width=16, vocabulary=100)
    assert trial.default == {"words": 100}
    assert trial.entry is not None and trial.entry.blocks == {"words": 50}
    hidden, weight, labels = jnp.ones((64, 16)), jnp.ones((100, 16)), jnp.zeros(64, jnp.int32)

    def lowered(**options: object) -> str:
        def loss(hidden: jax.Array, weight: jax.Array) -> jax.Array:
            return cross_entropy(hidden, weight, labels, **options)  # type: ignore[arg-type]

        return jax.jit(loss if direction == "forward" else jax.grad(loss, (0, 1))).lower(hidden, weight).as_text()

    assert "tensor<64x50xf32>" in lowered()
    # Not where the caller gives a block.
    assert "tensor<64x50xf32>" not in lowered(block=100)


def test_the_loss_with_measured_blocks_is_the_same() -> None:
    rng = np.random.default_rng(0)
    hidden, weight, bias = (jnp.asarray(rng.standard_normal(shape), jnp.float32) for shape in ((7, 4), (11, 4), (11,)))
    labels = jnp.asarray(rng.integers(0, 11, 7), jnp.int32)

    def loss(hidden: jax.Array, weight: jax.Array, bias: jax.Array, block: int | None = None) -> jax.Array:
        return cross_entropy(hidden, weight, labels, bias=bias, block=block)

    want = jax.value_and_grad(lambda *x: loss(*x, block=11), (0, 1, 2))(hidden, weight, bias)
    shapes = "float32 bias tokens=8 width=4 vocabulary=16"
    for way in ("forward", "backward"):
        tuning.store(
            tuning.Entry(f"cross_entropy.xla.{way}", jax.devices()[0].device_kind, shapes, {"words": 4}, 1.0, 2.0)
        )
    got = jax.jit(jax.value_and_grad(loss, (0, 1, 2)))
    text = got.lower(hidden, weight, bias).as_text()
    assert "tensor<7x4xf32>" in text and "tensor<7x11xf32>" not in text
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-6), got(hidden, weight, bias), want)
