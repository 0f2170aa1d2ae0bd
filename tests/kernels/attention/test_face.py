"""`flash_attention` on raw arrays: what it takes, its results, and how often it compiles."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rtx_jax._compat import x64
from rtx_jax.kernels.attention import flash_attention, primitives
from rtx_jax.kernels.attention.plan import _positions
from rtx_jax.kernels.attention.spec import AttentionSpec
from rtx_jax.kernels.distances import Distances
from tests.ops.attention_oracle import attend

INF = math.inf
B, T, S, N, K, H, V = 2, 5, 7, 4, 2, 6, 3
_rng = np.random.default_rng(0)
QKV = [_rng.standard_normal(shape) for shape in ((B, T, N, H), (B, S, K, H), (B, S, K, V))]
MASK = _rng.random((B, 1, T, S)) > 0.4
BIAS = _rng.standard_normal((N, 1, S))
SEGMENTS = _rng.integers(0, 2, (B, T)), _rng.integers(0, 2, (B, S))


def f32(*arrays: np.ndarray) -> list[jax.Array]:
    return [jnp.asarray(x, jnp.float32) for x in arrays]


@pytest.mark.parametrize("layout", ["BTNH", "BNTH"])
def test_all_results_in_their_order(layout: str) -> None:
    given = {"mask": MASK, "causal": True, "q_offset": 1, "window": (4, 2), "softcap": 2.0, "scale": 0.7}
    want, want_lse = attend(*QKV, **given, bias=BIAS, segments=SEGMENTS)  # type: ignore[arg-type]
    want_lse = want_lse.transpose(0, 2, 1)
    operands = f32(*QKV)
    if layout == "BNTH":
        operands, want = [jnp.swapaxes(x, 1, 2) for x in operands], want.transpose(0, 2, 1, 3)
    out, lse, entropy, columns = flash_attention(
        *operands,
        **given,  # type: ignore[arg-type]
        bias=jnp.asarray(BIAS, jnp.float32),
        segment_ids=SEGMENTS,  # type: ignore[arg-type]
        layout=layout,
        return_lse=True,
        return_entropy=True,
        column_scores=2,
    )
    np.testing.assert_allclose(out, want, atol=2e-6)
    np.testing.assert_allclose(lse, want_lse, atol=2e-6)
    weights = _weights(given)
    logs = np.log(weights, where=weights > 0, out=np.zeros_like(weights))
    np.testing.assert_allclose(entropy, -np.sum(weights * logs, -1), atol=3e-6)
    np.testing.assert_allclose(columns, weights[:, :, -2:].sum(2), atol=2e-6)
    assert [x.dtype for x in (out, lse, entropy, columns)] == [jnp.float32] * 4


def _weights(given: dict[str, object]) -> np.ndarray:
    """The weight of each key, (B, N, T, S): the attention to values of which each is a unit of its own."""
    units = np.broadcast_to(np.eye(S)[None, :, None], (B, S, K, S))
    out, _ = attend(*QKV[:2], units, **given, bias=BIAS, segments=SEGMENTS)  # type: ignore[arg-type]
    return out.transpose(0, 2, 1, 3)


def test_the_entropy_counts_the_sink_and_columns_the_queries_that_are_there() -> None:
    # By hand: two equal keys and a sink of the same score are thirds; the last query is padding.
    x = jnp.zeros((1, 2, 1, 4))
    _, entropy, columns = flash_attention(
        x, x, x, sinks=jnp.zeros(1), query_lengths=jnp.array([1]), return_entropy=True, column_scores=1
    )
    np.testing.assert_allclose(entropy, [[[math.log(3), 0]]], rtol=1e-6)
    np.testing.assert_allclose(columns, [[[1 / 3, 1 / 3]]], rtol=1e-6)
    assert float(flash_attention(x, x, x, return_entropy=True)[1][0, 0, 0]) == pytest.approx(math.log(2))


@pytest.mark.parametrize(
    ("dtypes", "want"),
    [
        (("bfloat16", "bfloat16", "bfloat16"), "float32"),
        (("float16", "float32", "float32"), "float32"),
        (("float32", "bfloat16", "float16"), "float32"),
        (("float64", "float32", "float32"), "float64"),
        (("float32", "float32", "float64"), "float64"),
    ],
)
def test_dtypes(dtypes: tuple[str, str, str], want: str) -> None:
    with x64():
        operands = [jnp.asarray(x, dtype) for x, dtype in zip(QKV, dtypes, strict=True)]
        out, lse = flash_attention(*operands, causal=True, return_lse=True)
    assert out.dtype == dtypes[0] and lse.dtype == want
    exact, _ = attend(*(np.asarray(x, np.float64) for x in operands), causal=True)
    eps = float(jnp.finfo(dtypes[0]).eps)
    np.testing.assert_allclose(np.asarray(out, np.float64), exact, rtol=0.51 * eps, atol=4e-7 if eps > 1e-10 else 1e-14)


def test_float64_without_the_setting_of_jax() -> None:
    assert not jax.config.jax_enable_x64
    with x64():
        operands = [jnp.asarray(x) for x in QKV]
    out = flash_attention(*operands)
    assert isinstance(out, jax.Array) and out.dtype == np.float64
    np.testing.assert_allclose(out, attend(*QKV)[0], rtol=1e-13)


def test_arrays_of_numpy_are_taken() -> None:
    host = [x.astype(np.float32) for x in QKV]
    out = flash_attention(*host, mask=MASK, key_lengths=np.array([4, 7]))  # type: ignore[arg-type]
    assert isinstance(out, jax.Array)
    want, _ = attend(*QKV, mask=MASK, key_lengths=np.array([4, 7]))
    np.testing.assert_allclose(out, want, atol=2e-6)


def test_integers_of_any_width() -> None:
    with x64():
        lengths = jnp.asarray([2**40, 3], jnp.int64)
        offset = jnp.asarray(-(2**40), jnp.int64)
        ids = jnp.asarray(SEGMENTS[0], jnp.uint8), jnp.asarray(SEGMENTS[1], jnp.int64)
        got = flash_attention(*f32(*QKV), key_lengths=lengths, segment_ids=ids)
        none, lse = flash_attention(*f32(*QKV), causal=True, q_offset=offset, return_lse=True)
    want, _ = attend(*QKV, key_lengths=np.array([7, 3]), segments=SEGMENTS)
    np.testing.assert_allclose(got, want, atol=2e-6)
    np.testing.assert_array_equal(none, 0)
    np.testing.assert_array_equal(lse, -INF)


# What a window and an offset hide is in the specification; a side that hides nothing is not.

SPEC = AttentionSpec(B, T, S, N, K, H, V, np.dtype(np.float32))


@pytest.mark.parametrize(
    ("window", "offset", "want"),
    [
        ((None, None), None, ((None, None), 0)),
        ((None, 0), None, ((None, 0), 2)),
        ((None, 0), S - 1, ((None, None), 0)),
        ((S + 1, 2), None, ((None, 2), 2)),
        ((3, S), 0, ((3, None), 0)),
        ((2**40, 0), 0, ((None, 0), 0)),
        ((None, 2**40), -3, ((None, None), 0)),
        ((0, 0), 2**40, ((0, None), 1 << 29)),
        ((None, 0), -(2**40), ((None, 0), -(1 << 29))),
        ((3, 3), 2**40, ((0, None), 1 << 29)),
    ],
)
def test_the_normal_form_of_a_window(
    window: tuple[int | None, int | None], offset: int | None, want: tuple[object, int]
) -> None:
    def seen(window: tuple[int | None, int | None], offset: int) -> list[bool]:
        left, right = window
        return [
            (left is None or s >= t + offset - left) and (right is None or s <= t + offset + right)
            for t in range(T)
            for s in range(S)
        ]

    named = {"query_lengths": None, "key_lengths": None, "q_offset": None}
    found = _positions(SPEC, Distances(*window, T, S), named, q_offset=offset)  # type: ignore[arg-type]
    assert (found.window, found.q_offset) == want
    assert seen(found.window, found.q_offset or 0) == seen(window, S - T if offset is None else offset)


def test_offsets_far_away() -> None:
    q, k, v = f32(*QKV)
    for offset, seen in ((2**40, True), (-(2**40), False), (2**31 - 1, True)):
        out = flash_attention(q, k, v, causal=True, q_offset=offset)
        want = flash_attention(q, k, v) if seen else jnp.zeros_like(out)
        np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("axis", ["b", "t", "s", "n", "h", "v"])
def test_empty_axes(axis: str) -> None:
    size = {"b": B, "t": T, "s": S, "n": N, "k": K, "h": H, "v": V, axis: 0}
    if axis == "n":
        size["k"] = 0
    q, k, v = (jnp.ones([size[x] for x in axes], jnp.float32) for axes in ("btnh", "bskh", "bskv"))

    def loss(*operands: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        found = flash_attention(*operands, causal=True, return_lse=True, return_entropy=True, column_scores=2)
        return jnp.sum(found[0]), found

    slopes, (out, lse, entropy, columns) = jax.grad(loss, argnums=(0, 1, 2), has_aux=True)(q, k, v)
    assert out.shape == tuple(size[x] for x in "btnv")
    assert lse.shape == entropy.shape == tuple(size[x] for x in "bnt")
    assert columns.shape == tuple(size[x] for x in "bns")
    assert [x.shape for x in slopes] == [x.shape for x in (q, k, v)]
    assert not any(np.isnan(x).any() for x in (out, lse, entropy, columns, *slopes))
    if axis == "s":
        np.testing.assert_array_equal(lse, -INF)
    if axis == "h":
        # No products: each key that is seen weighs the same.
        np.testing.assert_allclose(out, 1)
        np.testing.assert_allclose(lse[0, 0], np.log(np.arange(1, T + 1) + S - T), rtol=1e-6)


def test_hidden_nan_stays_hidden_in_all_results() -> None:
    q, k, v = f32(*QKV)
    lengths = jnp.array([4, 4])

    def run(q: jax.Array, k: jax.Array, v: jax.Array) -> object:
        def loss(*operands: jax.Array) -> tuple[jax.Array, object]:
            found = flash_attention(
                *operands, key_lengths=lengths, return_lse=True, return_entropy=True, column_scores=3
            )
            return jnp.sum(found[0] ** 2) + jnp.sum(found[1] * found[2]) + jnp.sum(found[3] ** 2), found

        slope = jax.grad(loss, argnums=(0, 1, 2), has_aux=True)
        way = jax.jvp(lambda q: slope(q, k, v)[0], (q,), (q,))[1]
        return slope(q, k, v), way

    compiled = jax.jit(run)
    clean = compiled(q, k, v)
    for bad in (np.nan, np.inf):
        spoiled = compiled(q, k.at[:, 4:].set(bad), v.at[:, 4:].set(bad))
        for a, b in zip(jax.tree.leaves(clean), jax.tree.leaves(spoiled), strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_call_is_checked_and_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = []
    choose = primitives.select.choose

    def counting(*args: object) -> object:
        chosen.append(args)
        return choose(*args)  # type: ignore[arg-type]

    monkeypatch.setattr("rtx_jax.kernels.attention.primitives.select.choose", counting)
    q, k, v = f32(*(_rng.standard_normal((1, n, 2, 11)) for n in (3, 4, 4)))
    for offset in range(3):
        flash_attention(q + offset, k, v, causal=True, q_offset=jnp.asarray(offset))
    assert len(chosen) == 1
    # An integer is part of the program.
    for offset in range(2):
        flash_attention(q, k, v, causal=True, q_offset=offset)
    assert len(chosen) == 3


def test_jit_of_the_call_holds_one_primitive() -> None:
    q, k, v = f32(*QKV)
    jaxpr = jax.make_jaxpr(lambda *x: flash_attention(*x, causal=True))(q, k, v)
    assert [str(eqn.primitive) for eqn in jaxpr.eqns] == ["rtx_jax_attention"]
    slopes = jax.make_jaxpr(jax.grad(lambda q: flash_attention(q, k, v).sum()))(q)
    assert [str(eqn.primitive) for eqn in slopes.eqns].count("rtx_jax_attention_vjp") == 1
