"""Problems that users of JAX and of other libraries reported in public, as tests: attention, RoPE, norms.

Each test covers the kind, not only the input of the report. Expected values are literals or float64 formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import nn
from tests.ops.attention_oracle import attend


def both_ways(function: Callable[..., xp.Array], *operands: object) -> Iterator[np.ndarray]:
    """The result of a function, eager and under jit."""
    arrays = [xp.asarray(x) for x in operands]
    yield np.asarray(function(*arrays))
    yield np.asarray(xp.jit(function)(*arrays))


def qkv(t: int = 4, s: int = 4, n: int = 2, k: int = 2, b: int = 1) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in ((b, t, n, 4), (b, s, k, 4), (b, s, k, 4))]


def close(got: np.ndarray, want: np.ndarray, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=tolerance, atol=tolerance / 10)


# A row without a visible key: pytorch/pytorch#103963, patrick-kidger/equinox#274, ml-explore/mlx#2395


def test_a_query_that_sees_no_key_is_zero() -> None:
    q, k, v = qkv()
    mask = np.ones((1, 1, 4, 4), bool)
    mask[:, :, 1] = False
    low = np.where(mask, 0, -np.inf).astype(np.float32)
    want, _ = attend(q, k, v, mask=mask)
    for got in both_ways(lambda q, k, v, m: nn.attention(q, k, v, mask=m), q, k, v, mask):
        close(got, want)
        assert (got[0, 1] == 0).all()
    for got in both_ways(lambda q, k, v, b: nn.attention(q, k, v, bias=b), q, k, v, low):
        close(got, want)


# Causal with fewer queries than keys: pytorch/pytorch#103082, pytorch/executorch#22426, onnx/onnx#8068


@pytest.mark.parametrize(("t", "s"), [(1, 16), (2, 5), (5, 5), (5, 2)])
def test_the_last_query_is_at_the_last_key(t: int, s: int) -> None:
    q, k, v = qkv(t, s)
    keep = np.tril(np.ones((t, s), bool), s - t)
    want, _ = attend(q, k, v, mask=keep)
    for got in both_ways(lambda q, k, v: nn.attention(q, k, v, causal=True), q, k, v):
        close(got, want)
    if t == 1:
        close(np.asarray(nn.attention(*map(xp.asarray, (q, k, v)), causal=True)), attend(q, k, v)[0])


# Key lengths without query lengths: jax-ml/jax#23349, jax-ml/jax#23415


@pytest.mark.parametrize("lengths", [[2, 4], [0, 4], [0, 0]])
def test_padding_of_keys_is_not_seen(lengths: list[int]) -> None:
    q, k, v = qkv(b=2)
    want, _ = attend(q, k, v, key_lengths=np.array(lengths))
    for row, length in enumerate(lengths):
        k[row, length:], v[row, length:] = np.nan, np.nan
    for got in both_ways(lambda q, k, v, n: nn.attention(q, k, v, key_lengths=n), q, k, v, np.array(lengths)):
        close(got, want)


# A window without a mask: jax-ml/jax#32300, jax-ml/jax#32357, jax-ml/jax#39576


@pytest.mark.parametrize("window", [(1, 0), (0, 0), (2, 1)])
def test_a_window_is_a_band(window: tuple[int | None, int | None]) -> None:
    q, k, v = qkv(6, 6)
    for got in both_ways(lambda q, k, v: nn.attention(q, k, v, window=window), q, k, v):
        close(got, attend(q, k, v, window=window)[0])
        if window == (0, 0):
            close(got, v.astype(np.float64))


# Grouped heads: onnx/onnx#7274, ekzhang/jax-js#180, apple/axlearn#842


@pytest.mark.parametrize(("n", "k"), [(4, 2), (6, 2), (4, 1)])
def test_key_heads_are_repeated_not_tiled(n: int, k: int) -> None:
    q, key, _ = qkv(n=n, k=k)
    value = np.broadcast_to(np.arange(k, dtype=np.float32)[:, None], (1, 4, k, 4))
    want = np.broadcast_to(np.repeat(np.arange(k), n // k)[:, None], (1, 4, n, 4))
    for got in both_ways(nn.attention, q, key, value):
        close(got, want)
    heads_first = [np.ascontiguousarray(np.swapaxes(x, 1, 2)) for x in (q, key, value)]
    for got in both_ways(lambda *a: nn.attention(*a, layout="BNTH"), *heads_first):
        close(got, np.swapaxes(want, 1, 2))


# Log-sum-exp of an empty row: Dao-AILab/flash-attention#978, pytorch/pytorch#134650, pytorch/pytorch#181645


def test_log_sum_exp_is_natural_and_merges() -> None:
    q, k, v = qkv(2, 2, 1, 1)
    mask = np.array([[True, True], [False, False]])
    for got in both_ways(lambda q, k, v: nn.attention(q, k, v, mask=xp.asarray(mask), return_lse=True)[1], q, k, v):
        close(got[0, 0], attend(q, k, v)[1][0, 0])
        assert got[0, 1, 0] == -np.inf
    # Two halves of the keys, merged by their weights, are the whole.
    q, k, v = qkv(3, 6)
    halves = [(xp.asarray(k[:, at]), xp.asarray(v[:, at])) for at in (slice(0, 2), slice(2, 6))]
    parts = [nn.attention(xp.asarray(q), *half, return_lse=True) for half in halves]
    total = xp.logaddexp(parts[0][1], parts[1][1])
    merged = sum(out * xp.exp(lse - total)[..., None] for out, lse in parts)
    close(np.asarray(merged), attend(q, k, v)[0])


# The two pairings of RoPE: vllm-project/vllm-metal#44, baidu/ERNIE-Image#6


def test_pairs_of_channels_are_put_back_where_they_were() -> None:
    cos, sin = nn.rope_tables(4, 8)
    x = np.arange(8, dtype=np.float32).reshape(1, 1, 1, 8)
    unit = np.eye(4, dtype=np.float32)
    c, s = math.cos(1), math.sin(1)
    wants = {
        "half": [[c, 0, s, 0], [0, math.cos(0.01), 0, math.sin(0.01)]],
        "interleaved": [[c, s, 0, 0], [-s, c, 0, 0]],
    }
    for layout, want in wants.items():
        run = lambda x, p: nn.rope(x, cos, sin, positions=p, layout=layout)  # noqa: B023, E731
        for got in both_ways(run, x, np.array([0])):
            np.testing.assert_array_equal(got, x)
        small = nn.rope_tables(2, 4)
        run = lambda x, p: nn.rope(x, *small, positions=p, layout=layout)  # noqa: B023, E731
        for got in both_ways(run, unit[:2, None, None], np.array([1])):
            close(got[:, 0, 0], np.array(want))


# Partial rotation: pie-project/pie#603, AI-Hypercomputer/maxtext#4742


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_partial_rotation_has_frequencies_of_its_own(layout: str) -> None:
    x = np.random.default_rng(3).standard_normal((1, 6, 1, 16)).astype(np.float32)
    positions = np.array([0, 1, 7, 100, 700, 2355])
    angle = positions[:, None] * np.array([1.0, 1e-2])
    first, second = ([0, 1], [2, 3]) if layout == "half" else ([0, 2], [1, 3])
    wide = x[0, :, 0].astype(np.float64)
    want = wide.copy()
    want[:, first] = wide[:, first] * np.cos(angle) - wide[:, second] * np.sin(angle)
    want[:, second] = wide[:, second] * np.cos(angle) + wide[:, first] * np.sin(angle)
    tables = nn.rope_tables(2356, 4)
    run = lambda x, p: nn.rope(x, *tables, positions=p, layout=layout, rotary_dim=4)  # noqa: E731
    for got in both_ways(run, x, positions):
        close(got[0, :, 0], want)
        np.testing.assert_array_equal(got[..., 4:], x[..., 4:])


# Left padding: unslothai/unsloth#4078, ml-explore/mlx-lm#1906


def test_left_padding_changes_neither_positions_nor_result() -> None:
    x = np.random.default_rng(5).standard_normal((1, 3, 1, 8)).astype(np.float32)
    cos, sin = nn.rope_tables(5, 8)

    def run(x: xp.Array, positions: xp.Array, keep: xp.Array) -> xp.Array:
        turned = nn.rope(x, cos, sin, positions=positions)
        return nn.attention(turned, turned, x, causal=True, mask=keep)

    alone = np.asarray(run(xp.asarray(x), xp.asarray([[0, 1, 2]]), xp.asarray(np.ones((1, 1, 1, 3), bool))))
    for junk in (9.0, np.nan):
        padded = np.concatenate([np.full((1, 2, 1, 8), junk, np.float32), x], 1)
        keep = np.array([0, 0, 1, 1, 1], bool).reshape(1, 1, 1, 5)
        for got in both_ways(run, padded, np.array([[0, 0, 0, 1, 2]]), keep):
            close(got[:, 2:], alone)
            np.testing.assert_array_equal(got[:, :2], 0)


# Variance beside a large mean: jax-ml/jax#33496, tracel-ai/burn#5607, google/flax#1491


@pytest.mark.parametrize("mean", [0.0, 100.0, 1000.0, 10000.0])
def test_layer_norm_beside_a_large_mean(mean: float) -> None:
    x = (np.float32(mean) + np.arange(16, dtype=np.float32) * np.float32(1e-2)).astype(np.float32)
    wide = x.astype(np.float64)
    want = (wide - wide.mean()) / np.sqrt(wide.var() + 1e-5)
    for got in both_ways(lambda x: nn.layer_norm(x, eps=1e-5), x):
        close(got, want)


# Squares in float16: pytorch/pytorch#134106, nntrainer/nntrainer#3935


@pytest.mark.parametrize(("value", "eps"), [(300.0, 1e-6), (6e4, 1e-6), (1e-4, 1e-12), (6e-8, 1e-20)])
def test_rms_norm_of_float16(value: float, eps: float) -> None:
    x = np.full((2, 512), value, np.float16)
    wide = x.astype(np.float64)
    want = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + eps)
    for got in both_ways(lambda x: nn.rms_norm(x, eps=eps), x):
        assert got.dtype == np.float16
        close(got, want, 1e-3)


# Gradient of a masked softmax: jax-ml/jax#17117


def test_a_masked_logit_has_no_gradient_however_large() -> None:
    x, seen = xp.asarray([1.0, 1.0, 100.0]), xp.asarray([True, True, False])
    for fn, want in ((nn.softmax, [0.25, -0.25, 0.0]), (nn.log_softmax, [0.5, -0.5, 0.0])):
        slope = xp.grad(lambda x: fn(xp.where(seen, x, -xp.inf))[0])(x)  # noqa: B023
        close(np.asarray(slope), np.array(want))


# An input changed by its norm: GeeeekExplorer/nano-vllm#170


@pytest.mark.parametrize("fn", [nn.rms_norm, nn.layer_norm, nn.softmax, nn.relu, lambda x: nn.dropout(x, 0.0)])
def test_a_write_to_a_result_does_not_reach_the_input(fn: Callable[[xp.Array], xp.Array]) -> None:
    x = xp.asarray([[3.0, 4.0]])
    out = fn(x)
    out[0, 0] = 99.0
    x[0, 1] = 5.0
    np.testing.assert_array_equal(np.asarray(x), [[3.0, 5.0]])
    assert float(out[0, 0]) == 99.0 and float(out[0, 1]) != 5.0
