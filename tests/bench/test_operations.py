"""Each operation's problems are solved rightly by each contender that is here."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

from rtx_jax.bench import OPERATIONS, Request, run
from rtx_jax.bench.attention import normal_form, problems
from rtx_jax.bench.attention_exact import exact
from rtx_jax.errors import BackendUnavailable, InvalidArgument, UnsupportedDType

CASES = [
    (name, variant, direction)
    for name, operation in OPERATIONS.items()
    for variant in operation.variants
    for direction in operation.directions
]
# Small, of two rows and two query heads for each key head.
SMALL = Request(
    "",
    lengths=(130,),
    batch=2,
    heads=4,
    key_heads=2,
    size=16,
    width=48,
    vocabulary=200,
    window=40,
    device="cpu",
    rounds=1,
)


@pytest.mark.parametrize(("name", "variant", "direction"), CASES)
def test_all_agree_with_float64(name: str, variant: str, direction: str) -> None:
    report = run(dataclasses.replace(SMALL, operation=name, variants=(variant,), directions=(direction,)))
    ran = [item for item in report.measurements if item.best_ms is not None]
    assert {"rtx_jax", "jax.nn" if name in ("attention", "decode") else "jax.numpy"} < {item.contender for item in ran}
    for item in ran:
        if item.note != "yardstick":
            assert item.error is not None
            assert item.error < 2e-5, item.contender
            assert item.share is not None and item.share > 0
    for item in report.measurements:
        # A peer that is here has to run: only what is not installed or not this device's may be absent.
        absent = ("no package", "No module named", "wanted an NVIDIA GPU")
        assert item.best_ms is not None or any(words in item.note for words in absent), item.note


@pytest.mark.parametrize("name", OPERATIONS)
def test_bfloat16(name: str) -> None:
    report = run(dataclasses.replace(SMALL, operation=name, dtype="bfloat16", directions=("forward",)))
    errors = [item.error for item in report.measurements if item.best_ms is not None and not item.note]
    assert all(error is not None and 0 < error < 0.02 for error in errors)


def test_float64_is_computed_in_float64() -> None:
    report = run(dataclasses.replace(SMALL, operation="attention", dtype="float64", directions=("forward",)))
    ours = report.measurements[0]
    assert ours.error is not None and ours.error < 1e-13
    assert not jax.config.jax_enable_x64  # type: ignore[attr-defined]


def test_figures_along_lengths() -> None:
    request = dataclasses.replace(SMALL, operation="attention", lengths=(64, 128), variants=("causal", "full"))
    made = {
        (problem.variant, problem.length): problem
        for problem in problems(dataclasses.replace(request, directions=("forward",)))
    }
    # Four operations for each pair and element: two products, each a multiplication and an addition.
    assert made["full", 128].flops == 4 * 16 * 2 * 4 * 128 * 128
    assert made["causal", 64].flops == 4 * 16 * 2 * 4 * (64 * 65 // 2)


def test_pairs_under_a_window_and_in_segments() -> None:
    request = dataclasses.replace(
        SMALL, operation="attention", lengths=(100,), variants=("window", "segments"), directions=("forward",)
    )
    window, segments = problems(request)
    pairs = sum(1 for t in range(100) for s in range(100) if 0 <= t - s <= 40)
    assert window.flops == 4 * 16 * 8 * pairs
    assert segments.flops == 4 * 16 * 8 * 4 * 25**2


def test_the_normal_form_is_that_of_the_face() -> None:
    from rtx_jax.kernels.attention import flash_attention

    request = dataclasses.replace(
        SMALL, operation="attention", variants=("causal", "window", "segments", "bias"), directions=("forward",)
    )
    for problem in problems(request):
        spec, operands = normal_form(problem)
        jaxpr = jax.make_jaxpr(
            lambda q, k, v, bias, ids, problem=problem: flash_attention(
                q,
                k,
                v,
                bias=bias,
                segment_ids=ids,
                causal=problem.variant in ("causal", "window"),
                window=(40, 0) if problem.variant == "window" else None,
            )
        )(operands.query, operands.key, operands.value, operands.bias, operands.segment_ids)
        assert spec == _spec_in(jaxpr.jaxpr)


def _spec_in(jaxpr: object) -> object:
    """The specification that the primitive in a jaxpr has, also within calls."""
    for eqn in jaxpr.eqns:  # type: ignore[attr-defined]
        if "call" in eqn.params and hasattr(eqn.params["call"], "spec"):
            return eqn.params["call"].spec
        for value in eqn.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns") and (found := _spec_in(inner)) is not None:
                return found
    return None


def test_the_exact_gradients_are_those_of_differences() -> None:
    rng = np.random.default_rng(3)
    query, key, value = (rng.standard_normal(shape) for shape in ((5, 2, 3), (6, 3), (6, 4)))
    d_out, bias = rng.standard_normal((5, 2, 4)), rng.standard_normal((2, 5, 6))
    seen = np.arange(5)[:, None] + 1 >= np.arange(6)

    def loss(query: np.ndarray, key: np.ndarray, value: np.ndarray) -> float:
        return float((result(query, key, value).out * d_out).sum())

    def result(query: np.ndarray, key: np.ndarray, value: np.ndarray) -> object:
        return exact(query, key, value, d_out, visible=lambda start, stop: seen[start:stop], bias=bias)

    got = result(query, key, value)
    scores = np.einsum("tgh,sh->gts", query, key) / np.sqrt(3) + bias
    weights = np.exp(scores) * seen
    weights /= weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(got.out, np.einsum("gts,sv->tgv", weights, value), rtol=1e-13)
    operands = [query, key, value]
    for position, gradient in enumerate((got.d_query, got.d_key, got.d_value)):
        for index in np.ndindex(operands[position].shape):
            moved = []
            for step in (1e-5, -1e-5):
                shifted = [operand.copy() for operand in operands]
                shifted[position][index] += step
                moved.append(loss(*shifted))
            assert gradient[index] == pytest.approx((moved[0] - moved[1]) / 2e-5, abs=1e-8)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"operation": "sums"}, InvalidArgument, "got 'sums', wanted one of attention"),
        ({"variants": ("sideways",)}, InvalidArgument, "--variant: got 'sideways', wanted one of causal"),
        ({"directions": ("up",)}, InvalidArgument, "--direction: got 'up', wanted one of forward, backward"),
        ({"lengths": (0,)}, InvalidArgument, "--length: got 0, wanted a positive number"),
        ({"heads": 0}, InvalidArgument, "--heads: got 0, wanted a positive number"),
        ({"key_heads": 3}, InvalidArgument, "--key-heads: got 3, wanted a divisor of 4 heads"),
        ({"window": -1}, InvalidArgument, "--window: got -1, wanted at least 0"),
        ({"dtype": "int32"}, InvalidArgument, "--dtype: got int32, wanted float16"),
        ({"dtype": "float31"}, UnsupportedDType, "float31"),
        ({"device": "abacus"}, InvalidArgument, "abacus"),
        ({"device": "cuda:7"}, BackendUnavailable, "cuda"),
    ],
)
def test_what_cannot_be_measured(change: dict[str, object], error: type[Exception], message: str) -> None:
    request = dataclasses.replace(SMALL, operation="attention")
    with pytest.raises(error, match=message):
        run(dataclasses.replace(request, **change))  # type: ignore[arg-type]


def test_as_many_key_heads_as_query_heads_without_them() -> None:
    assert Request("attention", heads=2).key_heads == 2
    assert dataclasses.replace(SMALL, heads=8).key_heads == 2
