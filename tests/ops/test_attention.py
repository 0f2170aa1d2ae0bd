"""Attention: semantics against a loop over queries in float64, gradients, hidden and visible NaN, bad input."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors, nn, ops
from tests.ops.attention_oracle import attend
from tests.ops.checking import DTYPES, array, central, under_jit

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
INF, NAN = math.inf, math.nan
B, T, S, N, K, H, V = 2, 5, 7, 4, 2, 6, 3


def _qkv(t: int = T, s: int = S, n: int = N, k: int = K, h: int = H, v: int = V, b: int = B) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape) for shape in ((b, t, n, h), (b, s, k, h), (b, s, k, v))]


_rng = np.random.default_rng(1)
MASK = _rng.random((B, 1, T, S)) > 0.4
MASK[1, 0, 2] = False
BIAS = _rng.standard_normal((N, T, S))
BIAS[:, 1, 3:] = -INF
BIAS[2, 4] = -INF
SEGMENTS = (np.array([[0, 0, 1, 1, 2], [3, 3, 3, 4, 4]]), np.array([[0, 1, 1, 1, 1, 0, 9], [4, 4, 3, 3, 4, 5, 6]]))
SINKS = np.array([0.5, -1.0, 2.0, -INF])

CASES: dict[str, dict[str, object]] = {
    "plain": {},
    "scale": {"scale": 0.3},
    "mask": {"mask": MASK},
    "mask of all heads": {"mask": _rng.random((1, N, T, S)) > 0.5},
    "mask of keys": {"mask": np.array([1, 1, 0, 0, 1, 0, 0], bool)},
    "bias": {"bias": BIAS},
    "causal": {"causal": True},
    "causal at an offset": {"causal": True, "q_offset": 0},
    "causal before the keys": {"causal": True, "q_offset": -2},
    "causal at offsets": {"causal": True, "q_offset": np.array([6, -1])},
    "window": {"window": (1, 2)},
    "window to the left": {"window": (2, None)},
    "window to the right": {"window": (None, 0)},
    "window and causal": {"window": (1, 3), "causal": True},
    "segments": {"segments": SEGMENTS},
    "key lengths": {"key_lengths": np.array([3, 0])},
    "both lengths": {"query_lengths": np.array([2, 5]), "key_lengths": np.array([4, 6]), "causal": True},
    "softcap": {"softcap": 0.7},
    "sinks": {"sinks": SINKS},
    "sinks and mask": {"sinks": SINKS, "mask": MASK},
    "all": {
        "mask": MASK, "bias": BIAS, "causal": True, "window": (3, 3), "key_lengths": np.array([7, 5]),
        "softcap": 2.0, "sinks": SINKS, "scale": 0.9,
    },
}  # fmt: skip


def _call(params: dict[str, object], dtype: np.dtype = F64, **more: object) -> Callable[..., object]:
    """The face with parameters as Arrays of a dtype."""
    given = dict(params)
    segments = given.pop("segments", None)
    if segments is not None:
        given["segment_ids"] = tuple(xp.asarray(x) for x in segments)  # type: ignore[attr-defined]
    for name, value in given.items():
        if isinstance(value, np.ndarray):
            given[name] = array(value, dtype) if value.dtype.kind == "f" else xp.asarray(value)
    return functools.partial(nn.attention, **given, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("case", CASES)
def test_semantics(case: str) -> None:
    operands = _qkv()
    want, want_lse = attend(*operands, **CASES[case])  # type: ignore[arg-type]
    out, lse = _call(CASES[case], return_lse=True)(*map(array, operands))  # type: ignore[misc]
    assert out.shape == (B, T, N, V) and lse.shape == (B, T, N)
    np.testing.assert_allclose(np.asarray(out), want, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(np.asarray(lse), want_lse, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes_under_jit_in_both_layouts(dtype: np.dtype) -> None:
    operands = [array(x, dtype) for x in _qkv()]
    rounded = [np.asarray(x).astype(np.float64) for x in operands]
    params = {"mask": MASK, "causal": True}
    want, want_lse = attend(*rounded, **params)  # type: ignore[arg-type]

    def both(q: jax.Array, k: jax.Array, v: jax.Array) -> list[jax.Array]:
        run = functools.partial(ops.attention, mask=jnp.asarray(MASK), causal=True, return_lse=True)
        out, lse = run(q, k, v)
        swapped = [jnp.swapaxes(x, 1, 2) for x in (q, k, v)]
        turned, turned_lse = run(*swapped, layout="BNTH")
        return [out, lse, jnp.swapaxes(turned, 1, 2), jnp.swapaxes(turned_lse, 1, 2)]

    # One rounding of the result; sums in float32.
    eps = float(xp.finfo(dtype).eps)
    for got, wanted in zip(under_jit(both, *operands), (want, want_lse, want, want_lse), strict=True):
        assert got.dtype == (dtype if got.ndim == 4 else F64 if dtype == F64 else F32)
        least = eps if got.ndim == 4 else float(xp.finfo(got.dtype).eps)
        work = eps if dtype == F64 else float(xp.finfo(xp.float32).eps)
        np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=0.51 * least, atol=20 * work)


@pytest.mark.parametrize(
    ("sizes", "want"),
    [
        ({"s": 0}, (B, T, N, V)),
        ({"t": 0}, (B, 0, N, V)),
        ({"b": 0}, (0, T, N, V)),
        ({"n": 0, "k": 0}, (B, T, 0, V)),
        ({"v": 0}, (B, T, N, 0)),
        ({"h": 0}, (B, T, N, V)),
        ({"t": 1, "s": 1, "n": 1, "k": 1, "h": 1, "v": 1}, (B, 1, 1, 1)),
    ],
)
def test_sizes_of_zero_and_one(sizes: dict[str, int], want: tuple[int, ...]) -> None:
    q, k, v = _qkv(**sizes)
    out, lse = nn.attention(array(q), array(k), array(v), causal=True, return_lse=True)
    assert out.shape == want and lse.shape == want[:-1]
    if 0 not in q.shape and k.shape[1]:
        np.testing.assert_allclose(np.asarray(out), attend(q, k, v, causal=True)[0], rtol=1e-12)
    else:
        assert not np.isnan(np.asarray(out)).any()
    if sizes == {"s": 0}:
        np.testing.assert_array_equal(np.asarray(out), 0)
        np.testing.assert_array_equal(np.asarray(lse), -INF)


def test_a_query_and_key_of_ones() -> None:
    # By hand: equal scores give the mean of the visible values.
    one = xp.ones((1, 3, 1, 2))
    value = array(np.array([3.0, 5.0, 10.0]).reshape(1, 3, 1, 1))
    np.testing.assert_allclose(np.asarray(nn.attention(one, one, value))[0, :, 0, 0], [6, 6, 6])
    np.testing.assert_allclose(np.asarray(nn.attention(one, one, value, causal=True))[0, :, 0, 0], [3, 4, 6])
    _, lse = nn.attention(one, one, value, causal=True, return_lse=True)
    np.testing.assert_allclose(np.asarray(lse)[0, :, 0], math.sqrt(2) + np.log([1, 2, 3]))


def test_a_floating_mask_is_added() -> None:
    q, k, v = (array(x) for x in _qkv())
    low = array(np.where(MASK, 0.0, -INF))
    np.testing.assert_array_equal(
        np.asarray(nn.attention(q, k, v, mask=low)), np.asarray(nn.attention(q, k, v, mask=xp.asarray(MASK)))
    )
    both = nn.attention(q, k, v, mask=low, bias=array(BIAS))
    want, _ = attend(*_qkv(), mask=MASK, bias=BIAS)
    np.testing.assert_allclose(np.asarray(both), want, atol=1e-13)


def test_segments_of_one_array_and_a_window_of_one_number() -> None:
    q, k, v = _qkv(s=T)
    ids = SEGMENTS[0]
    got = nn.attention(*map(array, (q, k, v)), segment_ids=xp.asarray(ids), window=1)
    np.testing.assert_allclose(np.asarray(got), attend(q, k, v, segments=(ids, ids), window=(1, 1))[0], atol=1e-13)


def test_an_implementation_can_be_chosen() -> None:
    q, k, v = (array(x) for x in _qkv())
    want, _ = attend(*_qkv(), causal=True)
    for word in ("auto", "xla", "reference"):
        np.testing.assert_allclose(
            np.asarray(nn.attention(q, k, v, causal=True, implementation=word)), want, atol=1e-13
        )


def test_a_traced_offset_needs_one_program() -> None:
    q, k, v = (array(x, F32) for x in _qkv(t=1))
    decode = xp.jit(lambda offset: nn.attention(q, k, v, causal=True, q_offset=offset))
    for offset in range(3):
        want, _ = attend(*(np.asarray(x) for x in (q, k, v)), causal=True, q_offset=offset)
        np.testing.assert_allclose(np.asarray(decode(xp.asarray(offset))), want, atol=1e-6)
        np.testing.assert_allclose(np.asarray(nn.attention(q, k, v, causal=True, q_offset=offset)), want, atol=1e-6)


def test_extreme_scores() -> None:
    q = array(np.full((1, 2, 1, 4), 1e4), F32)
    v = array(np.arange(2.0).reshape(1, 2, 1, 1), F32)
    k = array(np.array([-1e4, 1e4]).reshape(1, 2, 1, 1) * np.ones(4), F32)
    out, lse = nn.attention(q, k, v, return_lse=True)
    np.testing.assert_array_equal(np.asarray(out)[0, :, 0, 0], [1, 1])
    np.testing.assert_allclose(np.asarray(lse)[0, :, 0], 2e8, rtol=1e-6)
    assert np.isfinite(np.asarray(nn.attention(q, k, v, softcap=30.0))).all()


def test_the_result_of_float16_does_not_overflow_on_the_way() -> None:
    # Scores of 300 * 300 * 64 are beyond float16.
    q = array(np.full((1, 1, 1, 64), 300.0), np.dtype(np.float16))
    v = array([[[[2.0]], [[4.0]]]], np.dtype(np.float16))
    k = xp.concat([q, q], axis=1)
    assert float(nn.attention(q, k, v)[0, 0, 0, 0]) == 3.0


# Gradients


def _loss(params: dict[str, object], seed: np.ndarray, seed_lse: np.ndarray) -> Callable[..., xp.Array]:
    run = _call(params, return_lse=True)

    def loss(q: xp.Array, k: xp.Array, v: xp.Array, bias: xp.Array, sinks: xp.Array) -> xp.Array:
        out, lse = run(q, k, v, bias=bias, sinks=sinks)  # type: ignore[misc]
        finite = xp.where(xp.isfinite(lse), lse, xp.zeros_like(lse))
        return xp.sum(out * array(seed)) + xp.sum(finite * array(seed_lse))

    return loss


@pytest.mark.parametrize(
    "case",
    [
        {"mask": MASK[:, :, :3, :4], "causal": True, "softcap": 1.5},
        {"window": (1, 1), "key_lengths": np.array([4, 2]), "query_lengths": np.array([3, 1])},
        {},
    ],
    ids=["mask", "lengths", "none"],
)
def test_gradients(case: dict[str, object]) -> None:
    q, k, v = _qkv(t=3, s=4, n=2, k=1, h=2, v=2)
    rng = np.random.default_rng(2)
    bias, sinks = rng.standard_normal((2, 3, 4)), rng.standard_normal(2)
    if case:
        bias[0, 0] = -INF
    seed, seed_lse = rng.standard_normal((B, 3, 2, 2)), rng.standard_normal((B, 3, 2))

    def oracle(q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: np.ndarray, sinks: np.ndarray) -> np.ndarray:
        out, lse = attend(q, k, v, bias=bias, sinks=sinks, **case)  # type: ignore[arg-type]
        return np.sum(out * seed) + np.sum(np.where(np.isfinite(lse), lse, 0) * seed_lse)

    operands = [q, k, v, bias, sinks]
    got = xp.jit(xp.grad(_loss(case, seed, seed_lse), argnums=(0, 1, 2, 3, 4)))(*map(array, operands))
    with np.errstate(invalid="ignore"):
        wants = central(oracle, operands, np.ones(()))
    for slope, want in zip(got, wants, strict=True):
        # An infinite bias cannot be moved.
        np.testing.assert_allclose(np.asarray(slope), np.nan_to_num(want), rtol=1e-6, atol=1e-8)


def test_rows_that_see_nothing_have_no_gradient() -> None:
    q, k, v = (array(x) for x in _qkv())
    nothing = xp.asarray(np.zeros((1, 1, T, S), bool))
    low = array(np.full((1, 1, T, S), -INF))
    hides = [{"mask": nothing}, {"bias": low}, {"key_lengths": xp.asarray([0, 0])}]

    def every(q: xp.Array, k: xp.Array, v: xp.Array) -> list[object]:
        fns = [functools.partial(nn.attention, **hide) for hide in hides]  # type: ignore[arg-type]
        slopes = [xp.grad(lambda *a, fn=fn: xp.sum(fn(*a)), argnums=(0, 1, 2))(q, k, v) for fn in fns]
        return [fn(q, k, v) for fn in fns] + slopes

    for found in jax.tree.leaves(xp.jit(every)(q, k, v)):
        np.testing.assert_array_equal(np.asarray(found), 0)


def test_forward_mode_second_order_and_vmap() -> None:
    q, k, v = (array(x) for x in _qkv(t=2, s=3, n=2, k=1, h=2, v=2))

    def loss(q: xp.Array) -> xp.Array:
        return xp.sum(nn.attention(q, k, v, causal=True) ** 2)

    way = xp.ones_like(q)

    def slope(q: xp.Array) -> xp.Array:
        return xp.sum(xp.grad(loss)(q) * way)

    forward = xp.jit(lambda q: xp.jvp(loss, (q,), (way,))[1])(q)
    compiled = xp.jit(slope)
    assert float(forward) == pytest.approx(float(compiled(q)), rel=1e-12)
    h = 1e-5
    moved = [float(compiled(q + step)) for step in (h, -h)]
    second = xp.jit(lambda q: xp.sum(xp.grad(slope)(q) * way))(q)
    assert float(second) == pytest.approx((moved[0] - moved[1]) / (2 * h), rel=1e-6)
    rows = xp.vmap(lambda q: nn.attention(q, k, v, causal=True))(xp.stack([q, 2 * q]))
    np.testing.assert_allclose(np.asarray(rows[1]), np.asarray(nn.attention(2 * q, k, v, causal=True)), rtol=1e-12)


# NaN and infinities


HIDES: dict[str, object] = {
    "key_lengths": np.array([2, 2]),
    "mask": np.array([1, 1, 0, 0], bool),
    "bias": np.array([0, 0, -INF, -INF]),
    "segment_ids": (np.zeros((B, 3), np.int32), np.array([[0, 0, 1, 1]] * B)),
}


@pytest.mark.parametrize("name", HIDES)
def test_what_is_hidden_reaches_neither_result_nor_gradient(name: str) -> None:
    operands = _qkv(t=3, s=4)
    hide = jax.tree.map(xp.asarray, {name: HIDES[name]})

    def run(q: xp.Array, k: xp.Array, v: xp.Array) -> object:
        def loss(q: xp.Array, k: xp.Array, v: xp.Array) -> tuple[xp.Array, xp.Array]:
            out = nn.attention(q, k, v, **hide)
            return xp.sum(out**2), out

        return xp.grad(loss, argnums=(0, 1, 2), has_aux=True)(q, k, v)

    compiled = xp.jit(run)
    clean = jax.tree.leaves(compiled(*map(array, operands)))
    for which in (1, 2):
        for bad in (NAN, INF, -INF):
            spoiled = [x.copy() for x in operands]
            spoiled[which][:, 2:, :, 0] = bad
            for a, b in zip(clean, jax.tree.leaves(compiled(*map(array, spoiled))), strict=True):
                np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_what_one_query_sees_stays_from_the_others() -> None:
    # Causal: the last key is seen by the last query alone.
    def run(q: xp.Array, k: xp.Array, v: xp.Array) -> tuple[tuple[xp.Array, ...], tuple[xp.Array, xp.Array]]:
        def loss(q: xp.Array, k: xp.Array, v: xp.Array) -> tuple[xp.Array, tuple[xp.Array, xp.Array]]:
            out, lse = nn.attention(q, k, v, causal=True, return_lse=True)
            return xp.sum(out[:, :3] ** 2), (out, lse)

        return xp.grad(loss, argnums=(0, 1, 2), has_aux=True)(q, k, v)

    compiled = xp.jit(run)
    clean = _qkv(t=4, s=4, n=2, k=1)
    slopes, _ = compiled(*map(array, clean))
    for which in range(3):
        for bad in (NAN, INF, -INF):
            operands = [x.copy() for x in clean]
            operands[which][:, 3, ..., 1] = bad
            got, (out, lse) = compiled(*map(array, operands))
            with np.errstate(all="ignore"):
                want, want_lse = attend(*operands, causal=True)
            assert np.isfinite(want[:, :3]).all() and not np.isfinite(want[:, 3]).all()
            np.testing.assert_allclose(np.asarray(out), want, rtol=1e-12)
            np.testing.assert_allclose(np.asarray(lse), want_lse, rtol=1e-12)
            # The gradients of the others are what they were; of values everything is, as no weight is NaN.
            same = slice(0, 3) if which < 2 else slice(None)
            for a, b in list(zip(got, slopes, strict=True))[: 1 if which < 2 else 3]:
                np.testing.assert_array_equal(np.asarray(a)[:, same], np.asarray(b)[:, same])


def test_visible_nan_shows_without_any_mask() -> None:
    for which in range(3):
        operands = _qkv(t=2, s=3, n=1, k=1)
        operands[which][0, 0, 0, 0] = NAN
        out = np.isnan(np.asarray(nn.attention(*map(array, operands))))
        assert not out[1].any()
        np.testing.assert_array_equal(out[0, :, 0].any(-1), [True, which != 0])


def test_padded_queries_may_hold_anything() -> None:
    operands = _qkv(t=3, s=4)
    operands[0][:, 2] = NAN
    fn = functools.partial(nn.attention, query_lengths=xp.asarray([2, 2]), key_lengths=xp.asarray([4, 4]))
    np.testing.assert_array_equal(np.asarray(fn(*map(array, operands)))[:, 2], 0)
    slopes = xp.jit(xp.grad(lambda *a: xp.sum(fn(*a)), argnums=(0, 1, 2)))
    for slope in slopes(*map(array, operands)):
        assert np.isfinite(np.asarray(slope)).all()


# Bad input


def _bad(error: type[errors.RtxError], shapes: tuple[tuple[int, ...], ...] = (), **params: object) -> object:
    q, k, v = shapes or ((B, T, N, H), (B, S, K, H), (B, S, K, V))
    return pytest.param((q, k, v), params, error, id=f"{shapes or params}"[:60])


@pytest.mark.parametrize(
    ("shapes", "params", "error"),
    [
        _bad(errors.InvalidDimension, ((T, N, H), (B, S, K, H), (B, S, K, V))),
        _bad(errors.ShapeMismatch, ((B, T, N, H), (1, S, K, H), (1, S, K, V))),
        _bad(errors.ShapeMismatch, ((B, T, N, H), (B, S, K, H + 1), (B, S, K, V))),
        _bad(errors.ShapeMismatch, ((B, T, N, H), (B, S, K, H), (B, S + 1, K, V))),
        _bad(errors.ShapeMismatch, ((B, T, N, H), (B, S, 3, H), (B, S, 3, V))),
        _bad(errors.ShapeMismatch, ((B, T, N, H), (B, S, 0, H), (B, S, 0, V))),
        _bad(errors.BroadcastError, mask=np.ones((T, S + 1), bool)),
        _bad(errors.BroadcastError, mask=np.ones((1, B, 1, T, S), bool)),
        _bad(errors.BroadcastError, bias=np.ones((2, T, S), np.float32)),
        _bad(errors.UnsupportedDType, mask=np.ones((T, S), np.int32)),
        _bad(errors.UnsupportedDType, bias=np.ones((T, S), bool)),
        _bad(errors.UnsupportedDType, key_lengths=np.ones(B, np.float32)),
        _bad(errors.ShapeMismatch, key_lengths=np.ones(B + 1, np.int32)),
        _bad(errors.ShapeMismatch, q_offset=np.ones(B + 1, np.int32)),
        _bad(errors.UnsupportedDType, q_offset=np.ones((), np.float32)),
        _bad(errors.ShapeMismatch, sinks=np.ones(K, np.float32)),
        _bad(errors.InvalidArgument, segment_ids=np.ones((B, T), np.int32)),
        _bad(errors.ShapeMismatch, segment_ids=(np.ones((B, T), np.int32), np.ones((B, T), np.int32))),
        _bad(errors.InvalidArgument, segment_ids=(np.ones((B, T), np.int32),)),
        _bad(errors.InvalidArgument, window=(-1, 0)),
        _bad(errors.InvalidArgument, window=(1, 2, 3)),
        _bad(errors.InvalidArgument, window=(1.5, 0)),
        _bad(errors.InvalidArgument, softcap=0.0),
        _bad(errors.InvalidArgument, scale=INF),
        _bad(errors.InvalidArgument, layout="BHSD"),
        _bad(errors.InvalidArgument, implementation="flash"),
        _bad(errors.InvalidArgument, implementation=["xla"]),
        _bad(errors.BackendLimitation, implementation="pallas_tpu"),
    ],
)
def test_bad_input(
    shapes: tuple[tuple[int, ...], ...], params: dict[str, object], error: type[errors.RtxError]
) -> None:
    with pytest.raises(error) as caught:
        nn.attention(*(array(np.ones(shape), F32) for shape in shapes), **params)  # type: ignore[arg-type]
    assert caught.value.wanted


def test_integers_are_refused() -> None:
    q = xp.ones((1, 1, 1, 1), dtype=xp.int32)
    with pytest.raises(errors.UnsupportedDType):
        nn.attention(q, q, q)
