"""The reference's attention and RoPE: what is seen and hidden, literals, properties."""

import ml_dtypes
import numpy as np
import pytest
import scipy.special

from rtx_jax.backend.reference import FUNCTIONS as R
from rtx_jax.errors import BroadcastError, InvalidArgument, InvalidDimension, ShapeMismatch, UnsupportedDType

attention, rope = R["attention"], R["rope"]
INF, NAN = np.inf, np.nan


def qkv(b=1, t=4, s=4, n=2, k=2, h=4, hv=None, dtype=np.float64):
    g = np.random.default_rng(0)
    shapes = ((b, t, n, h), (b, s, k, h), (b, s, k, hv or h))
    return [g.standard_normal(shape).astype(dtype) for shape in shapes]


def visible(b, n, t, s, *, causal=False, window=(None, None)):
    i, j = np.arange(t)[:, None] + s - t, np.arange(s)[None, :]
    keep = np.ones((t, s), bool)
    if causal:
        keep &= j <= i
    if window[0] is not None:
        keep &= j >= i - window[0]
    if window[1] is not None:
        keep &= j <= i + window[1]
    return np.broadcast_to(keep, (b, n, t, s))


def dense(q, k, v, keep, bias=0.0, scale=None):
    """Materialized softmax of SciPy; rows that see nothing are put to 0."""
    k, v = (np.repeat(x, q.shape[2] // x.shape[2], 2) for x in (k, v))
    scores = np.einsum("btnh,bsnh->bnts", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale) + bias
    empty = ~keep.any(-1, keepdims=True)
    weights = np.where(keep, scipy.special.softmax(np.where(keep | empty, scores, -INF), -1), 0)
    return np.einsum("bnts,bsnh->btnh", weights, v)


@pytest.mark.parametrize("sizes", [(1, 4, 4, 2, 2), (2, 3, 7, 4, 2), (1, 1, 16, 2, 1), (2, 7, 3, 3, 3)])
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": (2, 1)}, {"window": 1}, {"scale": 0.3}])
def test_dense(sizes, options):
    b, t, s, n, k = sizes
    q, key, value = qkv(b, t, s, n, k, 5, 6)
    window = options.get("window", (None, None))
    pair = (window, window) if isinstance(window, int) else window
    keep = visible(b, n, t, s, causal=options.get("causal", False), window=pair)
    want = dense(q, key, value, keep, scale=options.get("scale"))
    np.testing.assert_allclose(attention(q, key, value, **options), want, rtol=1e-13, atol=1e-15)
    heads_first = [np.swapaxes(x, 1, 2) for x in (q, key, value)]
    got = attention(*heads_first, layout="BNTH", **options)
    np.testing.assert_allclose(got, np.swapaxes(want, 1, 2), rtol=1e-13, atol=1e-15)


def test_causal_is_aligned_to_the_last_key():
    q, k, v = qkv(t=1, s=16)
    np.testing.assert_allclose(attention(q, k, v, causal=True), attention(q, k, v), rtol=1e-15)
    v = np.broadcast_to(np.arange(5.0)[None, :, None, None], (1, 5, 1, 1))
    q, k = np.zeros((1, 2, 1, 1)), np.zeros((1, 5, 1, 1))
    assert attention(q, k, v, causal=True).ravel().tolist() == [1.5, 2.0]  # means of 0..3 and of 0..4
    offset = np.array([0])
    assert attention(q, k, v, *[None] * 7, offset, causal=True).ravel().tolist() == [0.0, 0.5]
    assert attention(q, k, v, *[None] * 7, 1, causal=True).ravel().tolist() == [0.5, 1.0]


def test_rows_that_see_no_key():
    q, k, v = qkv()
    mask = np.ones((4, 4), bool)
    mask[1] = False
    out, lse = attention(q, k, v, mask, return_lse=True)
    assert not out[:, 1].any() and np.isneginf(lse[:, 1]).all()
    assert np.isfinite(np.delete(out, 1, 1)).all() and np.isfinite(np.delete(lse, 1, 1)).all()
    bias = np.where(mask, 0.0, -INF)
    for arguments in ((None, bias), (bias,)):  # as bias, and as a float mask
        assert np.array_equal(attention(q, k, v, *arguments), out)
    assert not attention(q, np.zeros((1, 0, 2, 4)), np.zeros((1, 0, 2, 4))).any()
    assert attention(q, np.zeros((1, 0, 2, 4)), np.zeros((1, 0, 2, 3))).shape == (1, 4, 2, 3)


def test_log_sum_exp_is_natural():
    q, k, v = qkv(t=2, s=3)
    _, lse = attention(q, k, v, return_lse=True)
    scores = np.einsum("btnh,bsnh->btns", q, k) / 2
    np.testing.assert_allclose(lse, scipy.special.logsumexp(scores, -1), rtol=1e-14)


def test_lengths():
    q, k, v = qkv(b=2)
    lengths = np.array([2, 4])
    out = attention(q, k, v, None, None, None, None, None, lengths)
    np.testing.assert_allclose(out[:1], attention(q[:1], k[:1, :2], v[:1, :2]), rtol=1e-14)
    np.testing.assert_allclose(out[1:], attention(q[1:], k[1:], v[1:]), rtol=1e-15)
    assert not attention(q, k, v, None, None, None, None, None, np.array([0, 4]))[0].any()
    # Both lengths: the diagonal ends where both end, and queries beyond theirs see nothing.
    out = attention(q, k, v, None, None, None, None, np.array([3, 4]), lengths, causal=True)
    np.testing.assert_allclose(out[:1, :3], attention(q[:1, :3], k[:1, :2], v[:1, :2], causal=True), rtol=1e-14)
    assert not out[0, 3].any()


def test_segments():
    q, k, v = qkv(t=5, s=5)
    segments = np.array([[0, 0, 1, 1, 1]])
    out = attention(q, k, v, None, None, segments, causal=True)
    np.testing.assert_allclose(out[:, :2], attention(q[:, :2], k[:, :2], v[:, :2], causal=True), rtol=1e-14)
    np.testing.assert_allclose(out[:, 2:], attention(q[:, 2:], k[:, 2:], v[:, 2:], causal=True), rtol=1e-14)
    other = np.array([[2, 2, 2, 2, 2]])
    assert not attention(q, k, v, None, None, segments, other).any()


def test_key_heads_are_repeated():
    q, k, v = qkv(n=4, k=2)
    v[:, :, 0], v[:, :, 1] = 0, 1
    out = attention(q, k, v)
    np.testing.assert_allclose(out[:, :, :2], 0, atol=0)
    np.testing.assert_allclose(out[:, :, 2:], 1, rtol=1e-15)


def test_softcap_and_bias():
    q, k, v = qkv(t=1, s=2, n=1, k=1)
    scores = np.einsum("btnh,bsnh->bnts", q, k) / 2
    capped = 0.5 * np.tanh(scores / 0.5) + 3.0 * np.arange(2)
    weights = scipy.special.softmax(capped, -1)
    want = np.einsum("bnts,bsnh->btnh", weights, v)
    got = attention(q, k, v, None, 3.0 * np.arange(2)[None, :], softcap=0.5)
    np.testing.assert_allclose(got, want, rtol=1e-14)


def test_sinks_take_part_in_the_softmax():
    q, k, v = np.zeros((1, 1, 2, 1)), np.zeros((1, 3, 2, 1)), np.ones((1, 3, 2, 1))
    sinks = np.array([0.0, np.log(3.0)])
    out, lse = attention(q, k, v, None, None, None, None, None, None, sinks, return_lse=True)
    np.testing.assert_allclose(out.ravel(), [3 / 4, 3 / 6], rtol=1e-15)
    np.testing.assert_allclose(lse.ravel(), np.log([4, 6]), rtol=1e-15)
    hidden = np.zeros((1, 3), bool)
    out, lse = attention(q, k, v, hidden, None, None, None, None, None, sinks, return_lse=True)
    assert not out.any() and np.isneginf(lse).all()


def test_hidden_values_reach_nothing():
    q, k, v = qkv(t=3, s=4)
    want = attention(q, k[:, :3], v[:, :3])
    for bad in (NAN, INF, -INF):
        k[:, 3], v[:, 3] = bad, bad
        lengths = np.array([3])
        np.testing.assert_allclose(attention(q, k, v, None, None, None, None, None, lengths), want, rtol=1e-15)
    # Seen by the last query alone.
    out = attention(q, k, v, causal=True)
    assert np.isfinite(out[:, :2]).all() and not np.isfinite(out[:, 2]).any()


def test_one_rounding():
    for dtype in (np.float16, ml_dtypes.bfloat16, np.float32):
        q, k, v = qkv(dtype=dtype)
        out, lse = attention(q, k, v, return_lse=True)
        want = attention(*(x.astype(np.float64) for x in (q, k, v)))
        assert out.dtype == dtype and lse.dtype == np.float32
        assert np.array_equal(out, want.astype(np.float32).astype(dtype))


def test_what_attention_refuses():
    q, k, v = qkv()
    with pytest.raises(InvalidDimension):
        attention(q[0], k, v)
    for bad in ((q, k[..., :3], v), (q, k, v[:, :3]), (q, k[:, :, :1], v), (qkv(n=3)[0], k, v)):
        with pytest.raises(ShapeMismatch):
            attention(*bad)
    with pytest.raises(BroadcastError):
        attention(q, k, v, np.ones((3, 4), bool))
    with pytest.raises(UnsupportedDType):
        attention(q, k, v, np.ones((4, 4), np.int8))
    for params in ({"layout": "BHSD"}, {"window": -1}, {"window": (1, 2, 3)}, {"softcap": 0.0}, {"scale": NAN}):
        with pytest.raises(InvalidArgument):
            attention(q, k, v, **params)


# RoPE


def tables(length, width, base=10000.0):
    angle = np.arange(length)[:, None] * base ** (-np.arange(0, width, 2) / width)
    return np.cos(angle), np.sin(angle)


def test_two_layouts():
    cos, sin = tables(2, 4)
    x = np.zeros((2, 4))
    x[:, 0] = 1
    c, s = np.cos(1.0), np.sin(1.0)
    assert rope(x, cos, sin).tolist() == [[1, 0, 0, 0], [c, 0, s, 0]]
    assert rope(x, cos, sin, layout="interleaved").tolist() == [[1, 0, 0, 0], [c, s, 0, 0]]
    x = np.arange(8.0)[None]
    assert np.array_equal(rope(x, *tables(1, 8)), x)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotation(layout):
    rng = np.random.default_rng(6)
    x = rng.standard_normal((2, 3, 9, 8))
    cos, sin = tables(9, 8)
    y = rope(x, cos, sin, layout=layout)
    np.testing.assert_allclose((y**2).sum(-1), (x**2).sum(-1), rtol=1e-13)
    np.testing.assert_allclose(rope(y, cos, -sin, layout=layout), x, rtol=1e-12, atol=1e-14)
    # Products depend on the distance alone.
    q, k = (rope(np.broadcast_to(x[0, i, :1], (9, 8)), cos, sin, layout=layout) for i in (0, 1))
    np.testing.assert_allclose(q[5] @ k[2], q[8] @ k[5], rtol=1e-12)
    # Full tables name each angle twice.
    wide = (lambda t: np.concatenate([t, t], 1)) if layout == "half" else (lambda t: np.repeat(t, 2, 1))
    assert np.array_equal(rope(x, wide(cos), wide(sin), layout=layout), y)


def test_positions_partial_rotation_and_axes():
    cos, sin = tables(50, 4)
    x = np.random.default_rng(7).standard_normal((2, 3, 5, 16))
    rows = np.array([7, 0, 49, 3, 3])
    y = rope(x, cos, sin, rows, rotary_dim=4)
    assert np.array_equal(y[..., 4:], x[..., 4:])
    np.testing.assert_allclose(y[..., :4], rope(x[..., :4], cos[rows], sin[rows]), rtol=1e-15)
    per_row = np.stack([rows, rows[::-1]])
    y = rope(x, cos, sin, per_row, rotary_dim=4)
    np.testing.assert_allclose(y[1], rope(x[1], cos, sin, rows[::-1], rotary_dim=4), rtol=1e-15)
    swapped = rope(np.swapaxes(x, 1, 2), cos, sin, rows, rotary_dim=4, seq_axis=1)
    np.testing.assert_allclose(np.swapaxes(swapped, 1, 2), rope(x, cos, sin, rows, rotary_dim=4), rtol=1e-15)


def test_what_rope_refuses():
    cos, sin = tables(3, 4)
    x = np.ones((3, 4))
    for call in (
        lambda: rope(np.ones((3, 5)), cos, sin),
        lambda: rope(np.ones((4, 4)), cos, sin),
        lambda: rope(x, cos, sin[:2]),
        lambda: rope(x, cos[:, :1], sin[:, :1]),
        lambda: rope(np.ones(4), cos, sin),
        lambda: rope(x, cos, sin, np.array([0, 1])),
    ):
        with pytest.raises(ShapeMismatch):
            call()
    with pytest.raises(InvalidArgument):
        rope(x, cos, sin, layout="pairs")
    with pytest.raises(IndexError):
        rope(x, cos, sin, np.array([0, 1, 3]))
    with pytest.raises(UnsupportedDType):
        rope(np.ones((3, 4), int), cos, sin)


def test_rope_turns_infinite_channels_as_ieee_says():
    # (inf + 1j) turned by c + sj, written out: inf * c - 1 * s and inf * s + 1 * c; with s = 0 the second is NaN.
    x = np.array([[np.inf, 1.0], [np.inf, 1.0], [1.0, -np.inf]])
    cos, sin = np.cos([[1.0], [0.0], [1.0]]), np.sin([[1.0], [0.0], [1.0]])
    np.testing.assert_array_equal(rope(x, cos, sin), [[np.inf, np.inf], [np.inf, np.nan], [np.inf, -np.inf]])
