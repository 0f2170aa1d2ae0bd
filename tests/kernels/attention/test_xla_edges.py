"""Blocked attention at the edges: NaN and infinities, extreme scores, rows that see nothing, halves, odd sizes."""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from rtx_jax._compat import x64
from rtx_jax.kernels.attention import xla
from rtx_jax.kernels.attention.spec import AttentionSpec, Operands
from rtx_jax.kernels.attention.tiles import Tiles, default_blocks, diagonals, fitting_blocks
from rtx_jax.kernels.target import Target
from tests.kernels.attention.dense import Exact, attend, random_operands, seen_keys

NAN, INF = math.nan, math.inf
F32 = np.dtype(np.float32)
T = 12
PLAIN = AttentionSpec(2, T, T, 2, 1, 4, 3, F32, scale=0.5)
CAUSAL = dataclasses.replace(PLAIN, window=(None, 0))
# Two query blocks and three key blocks, one row and one head at a time.
BLOCKS = xla.Blocks(6, 4, 1, 1)
BAD = (NAN, INF, -INF)


@functools.partial(jax.jit, static_argnums=(0, 1))
def both(
    spec: AttentionSpec, blocks: xla.Blocks | None, operands: Operands, d_out: jax.Array, d_lse: jax.Array
) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array | None, ...]]:
    """Return results and gradients."""
    results = xla.forward(spec, operands, blocks=blocks)
    wanted = {"bias": spec.bias is not None, "sinks": spec.sinks_dtype is not None}
    return results, xla.backward(spec, operands, *results, d_out, d_lse, blocks=blocks, **wanted)


def call(
    spec: AttentionSpec,
    operands: Operands,
    d_out: np.ndarray | None = None,
    d_lse: np.ndarray | None = None,
    blocks: xla.Blocks | None = BLOCKS,
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray | None, ...]]:
    """Run on NumPy operands cast to the call's dtype, with cotangents of 1 by default."""
    shape = (*operands.query.shape[:-1], spec.value_size)
    d_out = np.ones(shape) if d_out is None else d_out
    d_lse = np.zeros((spec.batch, spec.heads, spec.queries)) if d_lse is None else d_lse

    def cast(x: np.ndarray | None) -> np.ndarray | None:
        return None if x is None else x.astype(spec.dtype if x.dtype.kind == "f" else x.dtype)

    with x64(spec.dtype == np.float64):
        got = both(spec, blocks, Operands(*map(cast, operands)), cast(d_out), d_lse.astype(spec.accumulator))
    results, gradients = jax.tree.map(np.array, got)
    return results, tuple(gradients)


def operands_of(spec: AttentionSpec) -> Operands:
    found = random_operands(spec, np.random.default_rng(5))
    return Operands(*(x.astype(np.int32) if x is not None and x.dtype.kind == "i" else x for x in found))


def with_bad(operands: Operands, name: str, at: tuple[object, ...], bad: float) -> Operands:
    spoiled = getattr(operands, name).copy()
    spoiled[at] = bad
    return operands._replace(**{name: spoiled})


HIDING: dict[str, tuple[AttentionSpec, dict[str, np.ndarray]]] = {
    "lengths": (dataclasses.replace(PLAIN, key_lengths=True), {"key_lengths": np.array([5, 5], np.int32)}),
    "window": (dataclasses.replace(PLAIN, window=(None, 0), q_offset=5 - T), {}),
    "segments": (
        dataclasses.replace(PLAIN, segments=True),
        {
            "segment_ids": np.zeros((2, T), np.int32),
            "key_segment_ids": np.repeat(np.where(np.arange(T) < 5, 0, 1)[None], 2, 0).astype(np.int32),
        },
    ),
    "mask": (dataclasses.replace(PLAIN, mask=(1, 1, 1, T)), {"mask": (np.arange(T) < 5)[None, None, None]}),
    "bias": (
        dataclasses.replace(PLAIN, bias=(1, 1, 1, T), bias_dtype=F32),
        {"bias": np.where(np.arange(T) < 5, 0.25, -INF)[None, None, None]},
    ),
    "padded queries": (
        dataclasses.replace(PLAIN, window=(None, 0), query_lengths=True),
        {"query_lengths": np.array([5, 5], np.int32)},
    ),
}


@pytest.mark.parametrize(
    ("by", "nan_safe"), [*((by, False) for by in HIDING), ("mask", True), ("padded queries", True)]
)
def test_a_key_hidden_from_all_may_hold_anything(by: str, nan_safe: bool) -> None:
    spec, extra = HIDING[by]
    spec = dataclasses.replace(spec, nan_safe=nan_safe)
    operands = operands_of(PLAIN)._replace(**extra)
    assert not seen_keys(spec, operands)[..., 5:].any()
    clean = jax.tree.leaves(call(spec, operands))
    for name in ("key", "value"):
        for bad in BAD:
            got = jax.tree.leaves(call(spec, with_bad(operands, name, (slice(None), slice(5, None)), bad)))
            for x, want in zip(got, clean, strict=True):
                np.testing.assert_array_equal(x, want)


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_key_reaches_only_queries_that_see_it(bad: float) -> None:
    # The key of position 7 is seen from there on, in the second of three key blocks.
    operands = operands_of(CAUSAL)
    d_out = np.ones((2, T, 2, 3))
    (out, lse), (d_query, _, _, *_) = call(CAUSAL, operands, d_out)
    (got, got_lse), (d_got, _, d_value, *_) = call(CAUSAL, with_bad(operands, "key", (0, 7, 0, 1), bad), d_out)
    np.testing.assert_array_equal(got[:, :7], out[:, :7])
    np.testing.assert_array_equal(got_lse[..., :7], lse[..., :7])
    np.testing.assert_array_equal(d_got[:, :7], d_query[:, :7])
    np.testing.assert_array_equal(got[1], out[1])
    assert np.isfinite(d_value[1]).all()
    if np.isnan(bad):
        assert np.isnan(got[0, 7:]).all() and np.isnan(got_lse[0, :, 7:]).all() and np.isnan(d_got[0, 7:]).all()


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_value_reaches_only_queries_that_see_it_where_asked(bad: float) -> None:
    spec = dataclasses.replace(CAUSAL, nan_safe=True)
    operands = operands_of(spec)
    d_out = np.ones((2, T, 2, 3))
    d_out[:, 7:] = 0
    (out, lse), gradients = call(spec, operands, d_out)
    (got, got_lse), got_gradients = call(spec, with_bad(operands, "value", (0, 7, 0, 1), bad), d_out)
    want = out.copy()
    want[0, 7:, :, 1] = bad
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(got_lse, lse)
    # Nothing comes back from the queries that see it, so the gradients are what they were.
    for x, same in zip(jax.tree.leaves(got_gradients), jax.tree.leaves(gradients), strict=True):
        np.testing.assert_array_equal(x, same)
    # With infinities of both signs, and beside a NaN, a sum is NaN.
    both_signs = with_bad(with_bad(operands, "value", (0, 2, 0, 1), -INF), "value", (0, 3, 0, 1), INF)
    got = call(spec, both_signs)[0][0]
    assert (
        np.isneginf(got[0, 2, :, 1]).all() and np.isnan(got[0, 3:, :, 1]).all() and np.isfinite(got[0, :, :, 0]).all()
    )


def test_a_bad_query_stays_alone() -> None:
    operands = operands_of(CAUSAL)
    (out, _), (d_query, d_key, d_value, *_) = call(CAUSAL, operands)
    for bad in BAD:
        (got, lse), (d_got, k, v, *_) = call(CAUSAL, with_bad(operands, "query", (0, 7, 0, 1), bad))
        # Plus or minus infinity times the keys is an infinite score somewhere, or NaN.
        assert np.isnan(got[0, 7, 0]).all() and np.isnan(lse[0, 0, 7]) and np.isnan(d_got[0, 7, 0]).all()
        got[0, 7, 0], d_got[0, 7, 0] = out[0, 7, 0], d_query[0, 7, 0]
        np.testing.assert_array_equal(got, out)
        np.testing.assert_array_equal(d_got, d_query)
        # The keys that it sees get NaN, those after it what they had.
        assert np.isnan(k[0, :8]).all() and np.isnan(v[0, :8]).all()
        np.testing.assert_array_equal(k[:, 8:], d_key[:, 8:])
        np.testing.assert_array_equal(v[:, 8:], d_value[:, 8:])


@pytest.mark.parametrize("sinks", [False, True])
def test_scores_of_minus_infinity_are_no_hidden_keys(sinks: bool) -> None:
    # The products overflow: every key that is seen has the score -infinity, whose softmax is NaN.
    spec = dataclasses.replace(CAUSAL, sinks_dtype=F32 if sinks else None)
    operands = operands_of(spec)
    query, key = operands.query.copy(), np.abs(operands.key) + 1
    query[0, 4, 1] = -3e38
    key[0, :, 0] *= 1e3
    (out, lse), _ = call(spec, operands._replace(query=query, key=key))
    if sinks:
        # With a sink the rest has the weight 0.
        np.testing.assert_array_equal(out[0, 4, 1], 0)
        np.testing.assert_allclose(lse[0, 1, 4], operands.sinks[1], rtol=1e-6)
    else:
        assert np.isnan(out[0, 4, 1]).all() and np.isnan(lse[0, 1, 4])
    assert np.isfinite(out[0, 5:]).all() and np.isfinite(out[1]).all()


def test_rows_that_see_nothing() -> None:
    spec = dataclasses.replace(CAUSAL, q_offset=-3, sinks_dtype=F32, bias=(1, 2, T, T), bias_dtype=F32)
    operands = operands_of(spec)
    bias = operands.bias.copy()
    bias[0, 1, 6] = -INF
    operands = operands._replace(bias=bias)
    d_lse = np.ones((2, 2, T))
    d_out = np.full((2, T, 2, 3), 7.0)
    (out, lse), gradients = call(spec, operands, d_out, d_lse)
    np.testing.assert_array_equal(out[:, :3], 0)
    np.testing.assert_array_equal(out[:, 6, 1], 0)
    assert np.isneginf(lse[..., :3]).all() and np.isneginf(lse[:, 1, 6]).all()
    np.testing.assert_array_equal(gradients[0][:, :3], 0)
    np.testing.assert_array_equal(gradients[3][0, 1, 6], 0)
    # Cotangents of theirs that are NaN change nothing.
    d_out[:, :3], d_lse[..., :3] = NAN, NAN
    for x, want in zip(jax.tree.leaves(call(spec, operands, d_out, d_lse)[1]), jax.tree.leaves(gradients), strict=True):
        np.testing.assert_array_equal(x, want)


@pytest.mark.parametrize("size", [1e4, 3e38])
@pytest.mark.parametrize("fast", [False, True])
def test_extreme_scores(size: float, fast: bool) -> None:
    # One product of two numbers each, so that nothing overflows before the softmax.
    spec = AttentionSpec(1, T, T, 1, 1, 1, 2, F32, window=(None, 0), scale=1.0, fast=fast)
    rng = np.random.default_rng(3)
    query, key = np.ones((1, T, 1, 1)), (rng.random((1, T, 1, 1)) * 2 - 1) * size
    operands = Operands(query, key.astype(F32).astype(float), rng.standard_normal((1, T, 1, 2)))
    (out, lse), gradients = call(spec, operands)
    exact = attend(spec, operands, np.ones((1, T, 1, 2)), np.zeros((1, 1, T)))
    np.testing.assert_allclose(out, exact.out, rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(lse, exact.lse, rtol=2e-6)
    assert all(np.isfinite(x).all() for x in gradients[1:3])


@pytest.mark.parametrize("fast", [False, True])
def test_equal_scores_give_the_mean(fast: bool) -> None:
    spec = dataclasses.replace(CAUSAL, fast=fast)
    operands = operands_of(spec)
    operands = operands._replace(query=np.zeros_like(operands.query))
    (out, lse), _ = call(spec, operands)
    seen = np.arange(1, T + 1)
    mean = operands.value.cumsum(1) / seen[:, None, None]
    np.testing.assert_allclose(out, mean.repeat(2, 2), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(lse, np.broadcast_to(np.log(seen), lse.shape), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_halves_are_as_good_as_a_rounded_result(dtype: str) -> None:
    # Results are rounded once, from sums in float32; gradients pass through rounded results once more.
    half = np.dtype(dtype if dtype == "float16" else ml_dtypes.bfloat16)
    spec = AttentionSpec(1, 129, 129, 2, 1, 16, 16, half, scale=0.25, window=(None, 0))
    rng = np.random.default_rng(2)
    operands = Operands(*(x.astype(half) for x in random_operands(spec, rng)[:3]))
    d_out = rng.standard_normal((1, 129, 2, 16)).astype(half)
    got = both(spec, xla.Blocks(64, 48, 1, 1), operands, d_out, np.zeros((1, 2, 129), F32))
    (out, lse), (d_query, d_key, d_value, *_) = got
    exact: Exact = attend(spec, operands, d_out, np.zeros((1, 2, 129)))
    assert out.dtype == d_query.dtype == d_key.dtype == d_value.dtype == half and lse.dtype == F32
    np.testing.assert_allclose(lse, exact.lse, rtol=1e-6)
    for x, want, factor in (
        (out, exact.out, 1.05),
        (d_query, exact.query, 1.5),
        (d_key, exact.key, 1.5),
        (d_value, exact.value, 1.05),
    ):
        error = np.abs(np.asarray(x).astype(np.float64) - want).max()
        assert error <= factor * np.abs(want.astype(half).astype(np.float64) - want).max()


def test_float8_is_multiplied_as_it_is() -> None:
    eighth = np.dtype(ml_dtypes.float8_e4m3fn)
    spec = AttentionSpec(1, 7, 7, 1, 1, 4, 4, eighth)
    operands = Operands(*(x.astype(eighth) for x in random_operands(spec, np.random.default_rng(2))[:3]))
    out, lse = jax.jit(functools.partial(xla.forward, spec))(operands)
    exact = attend(spec, operands, np.zeros((1, 7, 1, 4)), np.zeros((1, 1, 7)))
    assert out.dtype == eighth
    np.testing.assert_allclose(lse, exact.lse, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(out).astype(float), exact.out, rtol=2**-4, atol=2**-10)


def test_nothing_to_attend_to() -> None:
    for batch, queries, keys in ((0, 3, 3), (1, 0, 3), (1, 3, 0)):
        spec = AttentionSpec(batch, queries, keys, 2, 1, 4, 3, F32)
        operands = operands_of(spec)
        (out, lse), gradients = call(spec, operands, blocks=None)
        assert out.shape == (batch, queries, 2, 3) and not out.any()
        assert lse.shape == (batch, 2, queries) and np.isneginf(lse).all()
        for x, like in zip(gradients, operands[:3], strict=False):
            assert x.shape == like.shape and not x.any()


def test_tiles_are_visited_only_where_a_query_sees_a_key() -> None:
    rng = np.random.default_rng(0)
    for window, offset in (((None, 0), 0), ((3, 2), 1), ((0, None), -4)):
        spec = dataclasses.replace(
            PLAIN, window=window, q_offset=None, segments=True, query_lengths=True, key_lengths=True
        )
        operands = operands_of(spec)._replace(
            q_offset=np.array([offset, offset + 1], np.int32),
            query_lengths=np.array([T, 7], np.int32),
            key_lengths=np.array([9, T], np.int32),
            segment_ids=np.sort(rng.integers(0, 2, (2, T)), 1).astype(np.int32),
            key_segment_ids=np.sort(rng.integers(0, 2, (2, T)), 1).astype(np.int32),
        )
        seen = seen_keys(spec, operands)[:, 0].reshape(2, 2, 6, 3, 4).swapaxes(2, 3)
        walk = Tiles(spec, Operands(*(None if x is None else jnp.asarray(x) for x in operands)), BLOCKS).walk()
        for row, i in np.ndindex(2, 2):
            order = np.asarray(walk.order[row, i])
            plain, touched = int(walk.plain[row, i]), int(walk.touched[row, i])
            assert set(np.flatnonzero(seen[row, i].any((1, 2)))) <= set(order[:touched])
            assert set(order[:plain]) == set(np.flatnonzero(seen[row, i].all((1, 2))))


def test_far_offsets_and_wide_windows_do_not_wrap() -> None:
    far = 2**31 - 1
    spec = dataclasses.replace(PLAIN, window=(far, far), q_offset=None)
    found = operands_of(spec)
    operands = found._replace(
        **{name: x.astype(F32) for name, x in found._asdict().items() if name in ("query", "key", "value")}
    )
    run = jax.jit(functools.partial(xla.forward, spec, blocks=BLOCKS))
    for offset in (far, -far, 0):
        exact = dataclasses.replace(spec, q_offset=offset)
        given = operands._replace(q_offset=np.full(2, offset, np.int32))
        want = attend(exact, operands._replace(q_offset=None), np.ones((2, T, 2, 3)), np.zeros((2, 2, T)))
        np.testing.assert_allclose(run(given)[0], want.out, rtol=1e-5, atol=1e-6)
    bounds = [diagonals(dataclasses.replace(spec, q_offset=offset), operands) for offset in (far, -far, 0)]
    assert bounds == [(0, None), (None, 0), (None, None)]
    assert diagonals(dataclasses.replace(spec, window=(5, 5), q_offset=far), operands) == (T, None)
    assert diagonals(dataclasses.replace(spec, window=(5, 5), q_offset=-far), operands) == (None, -T)


@pytest.mark.parametrize("lengths", [(1, 1), (4096, 4096), (8192, 8192), (1000, 70000), (129, 7)])
def test_default_blocks_fit(lengths: tuple[int, int]) -> None:
    for heads, key_heads, window in ((8, 8, (None, 0)), (64, 1, (None, None)), (6, 3, (100, 0)), (25, 25, (511, 512))):
        spec = AttentionSpec(6, *lengths, heads, key_heads, 64, 64, F32, window=window)
        blocks, smaller = default_blocks(spec), default_blocks(spec, "backward")
        assert 1 <= blocks.query <= min(512, lengths[0]) and 1 <= blocks.key <= min(512, lengths[1])
        assert smaller == dataclasses.replace(blocks, batch=smaller.batch, heads=smaller.heads)
        assert smaller.batch * smaller.heads <= blocks.batch * blocks.heads
        assert 6 % blocks.batch == 0 and key_heads % blocks.heads == 0
        assert blocks.batch == 1 or blocks.heads == key_heads
        if lengths[1] > 128:
            assert window != (511, 512) or max(blocks.query, blocks.key) <= 256


def test_blocks_of_another_call_are_made_to_fit() -> None:
    blocks = xla.Blocks(512, 512, 4, 8)
    assert fitting_blocks(PLAIN, blocks) == xla.Blocks(T, T, 2, 1)
    assert fitting_blocks(dataclasses.replace(PLAIN, heads=12, key_heads=12), blocks) == xla.Blocks(T, T, 1, 4)


def test_every_call_is_supported() -> None:
    assert xla.NAME == "xla"
    assert xla.unsupported(PLAIN, Target("cpu")) == []
