"""Every feature on every implementation, against the definition in float64."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import nn
from rtx_jax.kernels.decode import decode_attention, paged_attention

from .oracle import Case

SINKS = np.array([0.5, -1.0, -np.inf, 2.0], np.float32)

CASES = {
    "one query": Case(t=1, n=2),
    "one query, all heads": Case(t=1, n=4, k=1),
    "few queries": Case(t=3),
    "heads first": Case(layout="BNTH"),
    "few keys": Case(s=7),
    "window": Case(t=3, options={"window": (5, None)}),
    "window on both sides": Case(t=3, layout="BNTH", options={"window": (40, 3), "causal": False}),
    "not causal": Case(t=3, options={"causal": False}),
    "softcap": Case(options={"softcap": 1.5}),
    "sinks": Case(options={"sinks": SINKS}),
    "scale": Case(options={"scale": 0.3}),
    "offset": Case(t=3, options={"offset": np.array([5, 60, 3], np.int32)}),
    "query lengths": Case(t=3, options={"query_lengths": np.array([2, 3, 1], np.int32)}),
    "lengths of heads": Case(per_head=True),
    "lengths of heads, heads first": Case(per_head=True, layout="BNTH"),
    "odd heads and sizes": Case(n=6, k=3, h=5, hv=3),
    "int8": Case(quantized="int8"),
    "int8, heads first": Case(quantized="int8", layout="BNTH"),
    "int8, a scale for each head": Case(quantized="int8", scales="head", options={"softcap": 2.0}),
    "float8, one scale": Case(quantized="float8_e4m3fn", scales="all"),
    "float8": Case(quantized="float8_e5m2"),
    "float8 of another kind": Case(t=1, quantized="float8_e4m3b11fnuz", scales="head"),
    "pages": Case(page=16),
    "small pages": Case(page=4, t=1),
    "pages, heads first": Case(page=16, layout="BNTH", options={"window": (20, None)}),
    "int8 pages": Case(page=16, quantized="int8", options={"sinks": SINKS}),
    "int8 pages, heads first": Case(page=16, quantized="int8", layout="BNTH"),
    "float8 pages, a scale for each head": Case(page=16, quantized="float8_e4m3fn", scales="head"),
    "pages, lengths of heads": Case(page=16, per_head=True),
    "bfloat16": Case(dtype="bfloat16"),
    "int8 under bfloat16": Case(dtype="bfloat16", quantized="int8", page=16),
    "float16": Case(dtype="float16", quantized="int8"),
}
# One case for each feature that a kernel sees; sinks, offsets and lengths of queries are done outside of it.
IN_KERNELS = (
    "one query, all heads",
    "window on both sides",
    "lengths of heads",
    "odd heads and sizes",
    "int8, a scale for each head",
    "float8",
    "pages, heads first",
    "int8 pages",
    "int8 under bfloat16",
)
WITH_ALL_SCORES = ("few queries", "window on both sides", "softcap", "sinks", "int8 pages, heads first", "float16")
SOON = {
    "blocked_xla": tuple(CASES),
    "reference": WITH_ALL_SCORES,
    "interpreted_triton": IN_KERNELS,
    "interpreted_tpu": IN_KERNELS,
}


def crossed() -> list[object]:
    """Every case on every implementation, those that add little as slow ones."""
    return [
        pytest.param(name, word, marks=() if name in soon else pytest.mark.slow)
        for word, soon in SOON.items()
        for name in CASES
        if not (word == "interpreted_tpu" and CASES[name].dtype == "float16")  # TPUs have none
    ]


# Largest error beside 1, of results of about 1: measured 6e-7, 2.8e-3 and 5e-4 on all implementations.
TOLERANCE = {"float32": 2e-6, "bfloat16": 8e-3, "float16": 1e-3}


@pytest.mark.parametrize(("name", "implementation"), crossed())
def test_a_feature(name: str, implementation: str) -> None:
    case = CASES[name]
    arrays, names, (out, lse) = case.build()
    call = paged_attention if case.page else decode_attention
    operands = [jnp.asarray(x) for x in arrays]
    named = {n: jnp.asarray(x) for n, x in names.items()}
    got, got_lse = call(*operands, **named, **case.parameters(), implementation=implementation)
    assert got.dtype == case.dtype and got.shape == out.shape
    assert got_lse.dtype == np.float32 and got_lse.shape == lse.shape
    tolerance = TOLERANCE[case.dtype]
    np.testing.assert_allclose(np.asarray(got, np.float64), out, rtol=tolerance, atol=tolerance)
    # Scores are float32 on every implementation.
    np.testing.assert_allclose(got_lse, lse, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("case", [Case(dtype="float64", page=16, options={"sinks": SINKS})])
def test_float64_is_exact(case: Case) -> None:
    arrays, names, (out, lse) = case.build()
    call = nn.paged_attention if case.page else nn.decode_attention
    operands = [xp.asarray(x) for x in arrays]
    named = {n: xp.asarray(x) for n, x in names.items()}
    got, got_lse = call(*operands, **named, **case.parameters(), implementation="blocked_xla")
    assert got.dtype == got_lse.dtype == np.float64
    np.testing.assert_allclose(np.asarray(got), out, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(np.asarray(got_lse), lse, rtol=1e-13, atol=1e-13)


def test_the_number_of_parts_changes_nothing_but_the_rounding() -> None:
    case = CASES["one query"]
    arrays, names, (out, _) = case.build()
    for splits in (1, 5):
        got, _ = decode_attention(
            *arrays, **names, **case.parameters(), splits=splits, implementation="interpreted_triton"
        )
        np.testing.assert_allclose(got, out, rtol=2e-6, atol=2e-6)


def test_a_long_cache_takes_the_loop_by_itself() -> None:
    draw = np.random.default_rng(0)
    query = draw.normal(size=(2, 1, 2, 8)).astype(np.float32)
    key, value = (draw.normal(size=(2, 9000, 2, 8)).astype(np.float32) for _ in range(2))
    lengths = np.array([9000, 2100], np.int32)
    expected = decode_attention(query, key, value, lengths, implementation="reference")
    text = jax.jit(lambda *x: decode_attention(*x, implementation="xla")).lower(query, key, value, lengths).as_text()
    assert "stablehlo.while" in text
    got = decode_attention(query, key, value, lengths, implementation="xla")
    np.testing.assert_allclose(got, expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("implementation", SOON)
def test_two_runs_are_equal_bit_for_bit(implementation: str) -> None:
    case = CASES["window on both sides"]
    arrays, names, _ = case.build()
    runs = [decode_attention(*arrays, **names, **case.parameters(), implementation=implementation) for _ in range(2)]
    for one, other in zip(*runs, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("shape", [(0, 1, 2), (2, 0, 2), (2, 1, 0)])
def test_empty_operands(shape: tuple[int, int, int]) -> None:
    b, t, n = shape
    query, cache = jnp.ones((b, t, n, 4)), jnp.ones((b, 5, n, 4))
    assert decode_attention(query, cache, cache).shape == (b, t, n, 4)


def test_a_cache_without_slots_gives_zero() -> None:
    out, lse = decode_attention(jnp.ones((2, 1, 4, 8)), jnp.ones((2, 0, 2, 8)), jnp.ones((2, 0, 2, 3)), return_lse=True)
    np.testing.assert_array_equal(out, np.zeros((2, 1, 4, 3)))
    np.testing.assert_array_equal(lse, np.full((2, 4, 1), -np.inf))
