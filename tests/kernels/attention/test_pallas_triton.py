"""The Triton kernels in interpret mode, against the formula in float64; one case for each feature."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rtx_jax.errors import InvalidArgument
from rtx_jax.kernels import _triton
from rtx_jax.kernels.attention import pallas_triton, pallas_triton_backward
from rtx_jax.kernels.attention.pallas_triton import Blocks
from rtx_jax.kernels.attention.pallas_triton_operands import tile_bounds
from rtx_jax.kernels.attention.pallas_triton_spans import Grid, Head
from rtx_jax.kernels.attention.spec import AttentionSpec, Gradients, Operands
from rtx_jax.kernels.target import Target
from tests.kernels.attention.cover import FEATURES, pairwise, spec_of
from tests.kernels.attention.dense import attend, random_operands, seen_keys

TILES = Blocks(16, 16)
# Compiling the interpreted kernels for speed would take longer than running them.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
CUDA = Target("cuda", "NVIDIA L4", (8, 9))
F32 = np.dtype(np.float32)
BASE = AttentionSpec(2, 37, 45, 2, 2, 8, 8, F32, scale=0.4, q_offset=8)

CASES: dict[str, dict[str, Any]] = {
    "whole tiles": {"queries": 32, "keys": 32, "size": 16, "value_size": 16},
    "short": {"queries": 7, "keys": 7, "q_offset": 0, "window": (None, 0)},
    "causal": {"window": (None, 0)},
    "causal, more queries": {"queries": 45, "keys": 20, "q_offset": -25, "window": (None, 0)},
    "window": {"window": (17, 3), "layout": "BNTH"},
    "left window": {"window": (20, None), "q_offset": 0},
    "key heads, value size": {"heads": 6, "value_size": 5, "window": (None, 0)},
    "one key head": {"heads": 3, "key_heads": 1, "layout": "BNTH"},
    "mask": {"mask": (2, 2, 37, 45)},
    "mask of keys": {"mask": (1, 1, 1, 45), "window": (None, 0)},
    "mask of queries": {"mask": (2, 1, 37, 1)},
    "bias": {"bias": (2, 2, 37, 45), "bias_dtype": F32},
    "bias of heads": {"bias": (1, 2, 1, 45), "bias_dtype": F32, "window": (None, 0)},
    "bias of rows": {"bias": (2, 1, 37, 1), "bias_dtype": F32},
    "bias of all": {"bias": (1, 1, 1, 1), "bias_dtype": F32},
    "segments": {"segments": True, "window": (None, 0)},
    "lengths": {"query_lengths": True, "key_lengths": True, "window": (None, 0)},
    "offsets": {"q_offset": None, "window": (9, 0), "key_lengths": True},
    "softcap": {"softcap": 1.5, "window": (None, 0)},
    "sinks": {"sinks_dtype": F32, "window": (None, 0)},
    "negative scale": {"scale": -0.3},
    "all": {
        "layout": "BNTH",
        "key_heads": 1,
        "value_size": 12,
        "window": (30, 2),
        "softcap": 2.0,
        "mask": (1, 2, 37, 45),
        "bias": (2, 1, 37, 45),
        "bias_dtype": F32,
        "segments": True,
        "query_lengths": True,
        "key_lengths": True,
        "sinks_dtype": F32,
        "q_offset": None,
    },
}


@functools.cache
def compiled(spec: AttentionSpec, blocks: Blocks) -> Any:
    """The results and all gradients as one program."""

    def both(operands: Operands, d_out: jax.Array, d_lse: jax.Array) -> tuple[jax.Array, jax.Array, Gradients]:
        out, lse = pallas_triton.forward(spec, operands, blocks=blocks, interpret=True)
        gradients = pallas_triton.backward(
            spec,
            operands,
            out,
            lse,
            d_out,
            d_lse,
            bias=spec.bias is not None,
            sinks=spec.sinks_dtype is not None,
            blocks=blocks,
            interpret=True,
        )
        return out, lse, gradients

    return jax.jit(both, compiler_options=QUICK)


def typed(spec: AttentionSpec, operands: Operands) -> Operands:
    kinds = {"f": spec.dtype, "i": np.int32, "b": bool}

    def cast(name: str, x: np.ndarray | None) -> Any:
        given = {"bias": spec.bias_dtype, "sinks": spec.sinks_dtype}.get(name)
        return None if x is None else jnp.asarray(x, given or kinds[np.asarray(x).dtype.kind])

    return Operands(*map(cast, Operands._fields, operands))


def made(spec: AttentionSpec, seed: int = 0) -> tuple[Operands, np.ndarray, np.ndarray]:
    """Operands of a call, and cotangents of its results."""
    rng = np.random.default_rng(seed)
    operands = typed(spec, random_operands(spec, rng))
    d_out = rng.standard_normal((*operands.query.shape[:-1], spec.value_size))
    return operands, d_out, rng.standard_normal((spec.batch, spec.heads, spec.queries))


def run(
    spec: AttentionSpec, operands: Operands, d_out: np.ndarray, d_lse: np.ndarray, blocks: Blocks = TILES
) -> dict[str, np.ndarray]:
    out, lse, gradients = compiled(spec, blocks)(operands, jnp.asarray(d_out, spec.dtype), jnp.asarray(d_lse, F32))
    found = {"out": out, "lse": lse, **gradients._asdict()}
    assert out.dtype == spec.dtype and lse.dtype == F32
    for name, gradient in gradients._asdict().items():
        operand = getattr(operands, name)
        assert gradient is None or (gradient.shape, gradient.dtype) == (operand.shape, operand.dtype)
    return {name: np.asarray(x, np.float64) for name, x in found.items() if x is not None}


def exactly(spec: AttentionSpec, operands: Operands, d_out: np.ndarray, d_lse: np.ndarray) -> dict[str, np.ndarray]:
    found = dataclasses.asdict(attend(spec, operands, d_out, d_lse))
    return {name: x for name, x in found.items() if x is not None}


def assert_close(got: dict[str, np.ndarray], want: dict[str, np.ndarray], bound: float) -> None:
    assert got.keys() == want.keys()
    for name, exact in want.items():
        assert got[name].shape == exact.shape, name
        finite = np.isfinite(exact)
        np.testing.assert_array_equal(got[name][~finite], exact[~finite], err_msg=name)
        scale = max(1.0, np.abs(exact[finite]).max(initial=0))
        np.testing.assert_allclose(got[name][finite], exact[finite], rtol=0, atol=bound * scale, err_msg=name)


@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients(name: str) -> None:
    spec = dataclasses.replace(BASE, **CASES[name])
    assert pallas_triton.unsupported(spec, CUDA) == []
    operands, d_out, d_lse = made(spec)
    # Measured: 7e-7 of the greatest value.
    assert_close(run(spec, operands, d_out, d_lse), exactly(spec, operands, d_out, d_lse), 5e-6)


COVER = pairwise({**FEATURES, "dtype": ["float32"], "nan_safe": [False]})


@pytest.mark.slow
@pytest.mark.parametrize("case", COVER, ids=lambda case: "-".join(str(x).replace(" ", "") for x in case.values()))
def test_every_pair_of_features(case: dict[str, object]) -> None:
    spec = spec_of(case)
    operands, d_out, d_lse = made(spec, COVER.index(case))
    blocks = TILES if case["tiles"] == "many" else Blocks(128, 64)
    # Measured: 9e-7 of the greatest value.
    assert_close(run(spec, operands, d_out, d_lse, blocks), exactly(spec, operands, d_out, d_lse), 5e-6)


def test_a_tile_of_the_default_size() -> None:
    spec = dataclasses.replace(BASE, queries=129, keys=129, q_offset=0, window=(None, 0), batch=1)
    operands, d_out, d_lse = made(spec)
    blocks = pallas_triton.default_blocks(spec)
    assert_close(run(spec, operands, d_out, d_lse, blocks), exactly(spec, operands, d_out, d_lse), 5e-6)


def test_query_heads_that_one_program_adds_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pallas_triton_backward, "_ENOUGH", 1)
    spec = dataclasses.replace(BASE, heads=6, window=(None, 0), scale=0.41)
    operands, d_out, d_lse = made(spec)
    assert_close(run(spec, operands, d_out, d_lse), exactly(spec, operands, d_out, d_lse), 5e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_an_error_of_rounding_alone(dtype: str) -> None:
    spec = dataclasses.replace(BASE, dtype=jnp.dtype(dtype), window=(None, 0))
    operands, d_out, d_lse = made(spec)
    d_out = np.asarray(jnp.asarray(d_out, dtype), np.float64)
    got, want = run(spec, operands, d_out, d_lse), exactly(spec, operands, d_out, d_lse)
    for name in ("out", "query", "key", "value"):
        rounded = np.asarray(jnp.asarray(want[name], dtype), np.float64)
        # Weights and their derivatives are rounded too, before they are multiplied: measured 2.4.
        assert np.abs(got[name] - want[name]).max() <= 4 * np.abs(rounded - want[name]).max(), name
    np.testing.assert_allclose(got["lse"], want["lse"], atol=1e-5)


def test_8_bits_are_read_as_they_are() -> None:
    spec = dataclasses.replace(BASE, dtype=jnp.dtype("float8_e4m3fn"))
    operands, d_out, d_lse = made(spec)
    d_out = np.asarray(jnp.asarray(d_out, spec.dtype), np.float64)
    got, want = run(spec, operands, d_out, d_lse), exactly(spec, operands, d_out, d_lse)
    np.testing.assert_allclose(got["lse"], want["lse"], atol=1e-5)
    # The result has 3 bits after the first; the weights have 7.
    np.testing.assert_allclose(got["out"], want["out"], atol=2**-4)


def test_two_runs_agree_to_the_bit() -> None:
    spec = dataclasses.replace(BASE, **CASES["all"])
    operands, d_out, d_lse = made(spec)
    first, second = run(spec, operands, d_out, d_lse), run(spec, operands, d_out, d_lse)
    for name, x in first.items():
        np.testing.assert_array_equal(x, second[name], err_msg=name)


HIDING: dict[str, dict[str, Any]] = {
    "lengths": CASES["lengths"],
    "window": {"queries": 20, "q_offset": 0, "window": (3, 4)},
    "segments": CASES["segments"],
    "mask": CASES["mask of keys"],
    "bias": {"bias": (1, 1, 37, 45), "bias_dtype": F32},
    "mask beside a softcap": {**CASES["mask of keys"], "softcap": 2.0},
}


@pytest.mark.parametrize("name", HIDING)
def test_what_nobody_sees_may_hold_anything(name: str) -> None:
    spec = dataclasses.replace(BASE, **HIDING[name])
    operands, d_out, d_lse = made(spec, seed=3)
    if name == "segments":
        operands = operands._replace(key_segment_ids=operands.key_segment_ids.at[:, 5:9].set(7))
    if name == "bias":
        operands = operands._replace(bias=operands.bias.at[:, :, :, 5:9].set(-jnp.inf))
    seen = seen_keys(spec, operands)
    unseen_keys, unseen_queries = ~seen.any((1, 2)), ~seen.any(3)
    assert unseen_keys.any()
    want = run(spec, operands, d_out, d_lse)
    poison = jnp.asarray(unseen_keys)[:, :, None, None]
    rows = jnp.asarray(unseen_queries.all(1))[:, :, None, None]
    poisoned = operands._replace(
        query=jnp.where(rows, jnp.nan, operands.query),
        key=jnp.where(poison, jnp.nan, operands.key),
        value=jnp.where(poison, jnp.inf, operands.value),
    )
    d_out = np.where(unseen_queries.swapaxes(1, 2)[..., None], np.nan, d_out)
    got = run(spec, poisoned, d_out, np.where(unseen_queries, np.nan, d_lse))
    for part, x in want.items():
        np.testing.assert_array_equal(got[part], x, err_msg=part)


def test_nan_in_a_key_reaches_those_who_see_it() -> None:
    spec = dataclasses.replace(BASE, window=(None, 0))
    operands, d_out, d_lse = made(spec)
    clean = run(spec, operands, d_out, d_lse)
    got = run(spec, operands._replace(key=operands.key.at[0, 30, 1].set(jnp.nan)), d_out, d_lse)
    sees = seen_keys(spec, operands)[0, 1, :, 30]
    assert 0 < sees.sum() < spec.queries
    for part in ("out", "query"):
        assert np.isnan(got[part][0, sees, 1]).all()
        np.testing.assert_array_equal(got[part][0, ~sees, 1], clean[part][0, ~sees, 1])
        np.testing.assert_array_equal(got[part][1], clean[part][1])
    assert np.isnan(got["lse"][0, 1, sees]).all()


def test_a_value_of_nan_reaches_its_own_head_alone() -> None:
    operands, d_out, d_lse = made(BASE)
    clean = run(BASE, operands, d_out, d_lse)
    got = run(BASE, operands._replace(value=operands.value.at[0, 30, 1, 3].set(jnp.nan)), d_out, d_lse)
    assert np.isnan(got["out"][0, :, 1, 3]).all()
    np.testing.assert_array_equal(got["out"][0, :, 0], clean["out"][0, :, 0])
    np.testing.assert_array_equal(got["lse"], clean["lse"])


@pytest.mark.parametrize("logit", [1e4, 3e38])
def test_extreme_scores(logit: float) -> None:
    spec = dataclasses.replace(BASE, scale=1.0, size=1, value_size=1)
    operands, d_out, d_lse = made(spec)
    signs = np.where(np.arange(spec.keys) % 3 == 0, 1.0, -1.0)[None, :, None, None]
    operands = operands._replace(
        query=jnp.ones_like(operands.query), key=jnp.asarray(np.broadcast_to(logit * signs, operands.key.shape), F32)
    )
    got, want = run(spec, operands, d_out, d_lse), exactly(spec, operands, d_out, d_lse)
    np.testing.assert_allclose(got["out"], want["out"], atol=1e-6)
    np.testing.assert_allclose(got["lse"], want["lse"], rtol=1e-6)
    if logit < 1e5:
        # exp(score - lse) has lost as many digits as the log-sum-exp has.
        np.testing.assert_allclose(got["value"], want["value"], atol=2e-3)
    assert np.isfinite(got["value"]).all()


def test_equal_scores_give_the_mean() -> None:
    operands, d_out, d_lse = made(BASE)
    operands = operands._replace(key=jnp.zeros_like(operands.key))
    got = run(BASE, operands, d_out, d_lse)
    mean = np.asarray(operands.value, np.float64).mean(1, keepdims=True)
    np.testing.assert_allclose(got["out"], np.broadcast_to(mean, got["out"].shape), atol=1e-6)
    np.testing.assert_allclose(got["lse"], np.log(45), rtol=1e-6)


def test_infinities_that_are_seen() -> None:
    spec = dataclasses.replace(BASE, window=(None, 0))
    operands, d_out, d_lse = made(spec)
    down = jnp.full_like(operands.key[0, :, 0], -jnp.inf)
    operands = operands._replace(query=jnp.ones_like(operands.query), key=operands.key.at[0, :, 0].set(down))
    got = run(spec, operands, d_out, d_lse)
    # Every score is minus infinity and none of them hidden: 0 / 0.
    assert np.isnan(got["out"][0, :, 0]).all()
    one = operands._replace(key=made(spec)[0].key.at[0, 3, 0].set(-jnp.inf))
    got = run(spec, one, d_out, d_lse)
    hidden = dataclasses.replace(spec, mask=(2, 2, 37, 45))
    mask = jnp.ones((2, 2, 37, 45), bool).at[0, 0, :, 3].set(False)
    want = exactly(hidden, one._replace(key=made(spec)[0].key, mask=mask), d_out, d_lse)
    np.testing.assert_allclose(got["out"], want["out"], atol=1e-6)


@pytest.mark.parametrize("window", [(None, None), (None, 0), (5, 2), (0, 0), (30, None)])
@pytest.mark.parametrize("offset", [-20, 0, 9])
def test_tiles_are_touched_where_something_is_seen(window: tuple[int | None, int | None], offset: int) -> None:
    spec = dataclasses.replace(BASE, window=window, q_offset=offset, batch=1, heads=1, key_heads=1)
    seen = seen_keys(spec, Operands(*[None] * 3))[0, 0]  # type: ignore[arg-type]
    zero = jnp.int32(0)
    for queries, keys in ((37, 45), (20, 13), (0, 45), (37, 0)):
        spec_lengths = dataclasses.replace(spec, query_lengths=queries < 37, key_lengths=keys < 45)
        grid = Grid(spec_lengths, 16, 8)
        head = Head(zero, zero, zero, offset, jnp.int32(queries), jnp.int32(keys))
        there = seen & (np.arange(37) < queries)[:, None] & (np.arange(45) < keys)
        padded = np.zeros((48, 48), bool)
        padded[:37, :45] = there
        tiles = padded.reshape(3, 16, 6, 8).swapaxes(1, 2)
        some = tiles.any((2, 3))
        for i in range(3):
            spans = grid.spans_of_row(head, jnp.int32(i))
            first, plain, rest, last = (int(x) for x in dataclasses.astuple(spans))
            touched = np.flatnonzero(some[i])
            assert list(range(first, last)) == list(range(touched[0], touched[-1] + 1) if touched.size else ())
            rows = [t for t in range(16) if 16 * i + t < queries]
            for j in range(plain, rest):
                assert tiles[i, j][rows].all()
        for j in range(6):
            spans = grid.spans_of_column(head, jnp.int32(j))
            first, plain, rest, last = (int(x) for x in dataclasses.astuple(spans))
            touched = np.flatnonzero(some[:, j])
            assert list(range(first, last)) == list(range(touched[0], touched[-1] + 1) if touched.size else ())
            for i in range(plain, rest):
                inside = padded[16 * i : min(16 * i + 16, queries), 8 * j : min(8 * j + 8, keys)]
                assert inside.all()


def test_segments_bound_the_tiles() -> None:
    spec = dataclasses.replace(BASE, queries=64, keys=64, segments=True)
    ids = np.repeat([[0, 1, 2, 3], [0, 0, 0, 5]], 16, axis=1).astype(np.int32)
    operands = Operands(*[None] * 3, segment_ids=jnp.asarray(ids), key_segment_ids=jnp.asarray(ids))  # type: ignore[arg-type]
    rows = tile_bounds(spec, operands, 16, 8, "row")
    np.testing.assert_array_equal(rows["row_first"][0], [[0, 2, 4, 6], [0, 0, 0, 6]])
    np.testing.assert_array_equal(rows["row_last"][0], [[2, 4, 6, 8], [6, 6, 6, 8]])
    columns = tile_bounds(spec, operands, 16, 8, "column")
    np.testing.assert_array_equal(columns["column_last"][0], [[1, 1, 2, 2, 3, 3, 4, 4], [3, 3, 3, 3, 3, 3, 4, 4]])


@pytest.mark.parametrize(
    ("change", "target", "reason"),
    [
        ({}, Target("cpu"), "not for cpu"),
        ({}, Target("cuda", "Tesla T4", (7, 5)), "needs compute capability 8.0 or newer, this device has 7.5"),
        ({"dtype": np.dtype(np.float64)}, CUDA, "dtype float64"),
        ({"dtype": jnp.dtype("float8_e4m3fn")}, Target("cuda", "NVIDIA A100", (8, 0)), "needs compute capability 8.9"),
        ({"dtype": jnp.dtype("float8_e4m3b11fnuz")}, CUDA, "of 8 bits, float8_e4m3fn and float8_e5m2"),
        ({"size": 264}, CUDA, "head size 264: at most 256"),
        ({"value_size": 192}, CUDA, "float32 products of highest precision"),
        ({"queries": 0}, CUDA, "an axis has no elements"),
        ({"nan_safe": True}, CUDA, "nan_safe"),
        ({"mask": (1, 1, 65536, 40000)}, CUDA, "more than 2**31 elements"),
    ],
)
def test_what_it_cannot_do_has_a_reason(change: dict[str, Any], target: Target, reason: str) -> None:
    (found,) = pallas_triton.unsupported(dataclasses.replace(BASE, **change), target)
    assert reason in found


def test_a_jax_without_the_backend_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_triton, "is_available", lambda: False)
    assert pallas_triton.unsupported(BASE, CUDA) == [f"JAX {jax.__version__} has no Pallas on Triton"]


def test_rocm_is_taken() -> None:
    assert pallas_triton.unsupported(BASE, Target("rocm", "gfx942")) == []


@pytest.mark.parametrize("change", [{"query": 48}, {"key": 8}, {"warps": 3}, {"stages": 0}])
def test_blocks_of_no_tile(change: dict[str, int]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(change))):
        Blocks(**change)
