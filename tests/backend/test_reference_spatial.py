"""The reference's convolutions, pools, resampling and folds: loops over the definition, SciPy, hand-worked numbers."""

import itertools

import ml_dtypes
import numpy as np
import pytest
import scipy.signal

from rtx_jax.backend.reference import FUNCTIONS as R
from rtx_jax.errors import DTypeMismatch, InvalidArgument, InvalidDimension, ShapeMismatch, UnsupportedDType

rng = np.random.default_rng(8)
INF, NAN = np.inf, np.nan


def loop_conv2d(x, weight, bias, s, p, d, groups):
    """The definition, one product at a time."""
    batch, channels, height, width = x.shape
    outputs, _, kh, kw = weight.shape
    rows = (height + 2 * p - d * (kh - 1) - 1) // s + 1
    columns = (width + 2 * p - d * (kw - 1) - 1) // s + 1
    out = np.zeros((batch, outputs, rows, columns))
    per, each = channels // groups, outputs // groups
    for b, o, i, j in np.ndindex(out.shape):
        total = bias[o]
        for c, u, v in np.ndindex(per, kh, kw):
            r, q = i * s + u * d - p, j * s + v * d - p
            if 0 <= r < height and 0 <= q < width:
                total += x[b, o // each * per + c, r, q] * weight[o, c, u, v]
        out[b, o, i, j] = total
    return out


@pytest.mark.parametrize(
    ("s", "p", "d", "groups"), [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 2), (3, 1, 2, 1), (2, 3, 1, 2)]
)
def test_conv2d_is_its_definition(s, p, d, groups):
    x, weight, bias = rng.standard_normal((2, 4, 6, 7)), rng.standard_normal((6, 4 // groups, 3, 2)), rng.random(6)
    got = R["conv2d"](x, weight, bias, stride=s, padding=p, dilation=d, groups=groups)
    np.testing.assert_allclose(got, loop_conv2d(x, weight, bias, s, p, d, groups), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_against_scipy(spatial):
    size, kernel = (7, 6, 5)[:spatial], (3, 2, 2)[:spatial]
    x, weight = rng.standard_normal((1, 1, *size)), rng.standard_normal((1, 1, *kernel))
    want = scipy.signal.correlate(x[0, 0], weight[0, 0], "valid", method="direct")
    np.testing.assert_allclose(R[f"conv{spatial}d"](x, weight)[0, 0], want, rtol=1e-13, atol=1e-14)
    want = scipy.signal.convolve(x[0, 0], weight[0, 0], "full", method="direct")
    np.testing.assert_allclose(R[f"conv_transpose{spatial}d"](x, weight)[0, 0], want, rtol=1e-13, atol=1e-14)


def test_hand_worked_convolutions():
    x, weight = np.array([[[1.0, 2.0, 3.0, 4.0]]]), np.array([[[1.0, 10.0, 100.0]]])
    assert R["conv1d"](x, weight).tolist() == [[[321, 432]]]
    assert R["conv1d"](x, weight, padding=((2, 1),), stride=2).tolist() == [[[100, 321, 43]]]
    assert R["conv1d"](x, weight, padding="same").tolist() == [[[210, 321, 432, 43]]]
    assert R["conv1d"](x[0], weight).tolist() == [[321, 432]]
    assert R["conv_transpose1d"](x, weight, stride=2, padding="same").tolist() == [[[1, 10, 102, 20, 203, 30, 304, 40]]]
    assert R["conv_transpose1d"](x, weight).tolist() == [[[1, 12, 123, 234, 340, 400]]]
    assert R["conv_transpose1d"](x, weight, padding=1).tolist() == [[[12, 123, 234, 340]]]
    assert R["conv_transpose1d"](x, weight, stride=2, output_padding=1).shape == (1, 1, 10)
    assert R["conv_transpose2d"](np.ones((1, 1, 8, 8)), np.ones((1, 1, 4, 4)), stride=4).shape == (1, 1, 32, 32)


@pytest.mark.parametrize(("s", "p", "d", "groups"), [(1, 0, 1, 1), (2, 1, 1, 2), (2, 1, 2, 1), (3, 2, 1, 1)])
def test_transposed_convolution_is_the_adjoint(s, p, d, groups):
    x, weight = rng.standard_normal((2, 4, 7)), rng.standard_normal((6, 4 // groups, 3))
    y = R["conv1d"](x, weight, stride=s, padding=p, dilation=d, groups=groups)
    g = rng.standard_normal(y.shape)
    extra = 7 - ((y.shape[-1] - 1) * s - 2 * p + d * 2 + 1)
    back = R["conv_transpose1d"](g, weight, stride=s, padding=p, output_padding=extra, dilation=d, groups=groups)
    assert (y * g).sum() == pytest.approx((x * back).sum(), rel=1e-12)


def test_dtypes_of_convolutions():
    x, weight = np.full((1, 1, 3, 3), 100, np.int8), np.full((1, 1, 3, 3), 100, np.int8)
    assert R["conv2d"](x, weight, dtype=np.dtype(np.int32)).tolist() == [[[[90000]]]]
    assert R["conv2d"](x, weight).tolist() == [[[[90000 % 256 - 256 if 90000 % 256 > 127 else 90000 % 256]]]]
    ones = np.ones((1, 1000, 1), ml_dtypes.bfloat16)
    assert R["conv1d"](ones, ones).tolist() == [[[1000]]]
    assert R["conv1d"](ones, ones.astype(np.float32)).dtype == np.float32
    with pytest.raises(DTypeMismatch):
        R["conv2d"](x, weight.astype(np.float32))
    with pytest.raises(DTypeMismatch):
        R["conv1d"](ones, ones, dtype=np.dtype(np.int32))


@pytest.mark.parametrize(
    "params",
    [{"stride": 0}, {"padding": -1}, {"padding": ((-1, 0), (0, 0))}, {"dilation": 0}, {"groups": 0}, {"groups": 3}],
)
def test_bad_parameters_of_convolutions(params):
    with pytest.raises(InvalidArgument):
        R["conv2d"](np.ones((1, 4, 5, 5)), np.ones((4, 4, 3, 3)), **params)


def test_convolutions_that_do_not_fit():
    with pytest.raises(InvalidArgument):
        R["conv2d"](np.ones((1, 1, 2, 2)), np.ones((1, 1, 3, 3)))
    with pytest.raises(InvalidDimension):
        R["conv2d"](np.ones((4, 4)), np.ones((1, 1, 3, 3)))
    with pytest.raises(ShapeMismatch):
        R["conv2d"](np.ones((1, 2, 5, 5)), np.ones((1, 3, 3, 3)))
    with pytest.raises(ShapeMismatch):
        R["conv2d"](np.ones((1, 1, 5, 5)), np.ones((2, 1, 3, 3)), np.ones(3))
    with pytest.raises(ShapeMismatch):
        R["conv_transpose1d"](np.ones((1, 2, 5)), np.ones((3, 1, 3)))
    with pytest.raises(InvalidArgument):
        R["conv_transpose1d"](np.ones((1, 1, 5)), np.ones((1, 1, 3)), output_padding=1)


# Pools


def test_average_pools_at_the_border():
    x = np.array([[[[1.0, 2.0], [3.0, 4.0]]]])
    params = {"kernel_size": 2, "stride": 1, "padding": ((0, 1), (0, 1))}
    assert R["avg_pool2d"](x, **params).tolist() == [[[[2.5, 1.5], [1.75, 1.0]]]]
    assert R["avg_pool2d"](x, count_include_pad=False, **params).tolist() == [[[[2.5, 3.0], [3.5, 4.0]]]]


def test_max_pools():
    x = np.array([[[1.0, -INF, 3.0, NAN, -2.0, -5.0]]])
    assert np.array_equal(R["max_pool1d"](x, kernel_size=2), [[[1.0, NAN, -2.0]]], equal_nan=True)
    low = np.full((1, 1, 4), -INF)
    assert R["max_pool1d"](low, kernel_size=3, stride=1, padding=1).tolist() == [[[-INF] * 4]]
    x = np.arange(16.0).reshape(1, 1, 4, 4)
    assert R["max_pool2d"](x, kernel_size=2, dilation=2, stride=1).tolist() == [[[[10, 11], [14, 15]]]]
    assert R["max_pool2d"](x.astype(np.int8), kernel_size=3, stride=2, padding=1).tolist() == [[[[5, 7], [13, 15]]]]


def test_no_window_lies_in_the_padding_alone():
    x = np.ones((1, 1, 5, 5))
    params = {"kernel_size": 3, "stride": 3, "padding": 1, "ceil_mode": True}
    assert R["max_pool2d"](x, **params).tolist() == [[[[1, 1], [1, 1]]]]
    assert R["avg_pool2d"](x, count_include_pad=False, **params).tolist() == [[[[1, 1], [1, 1]]]]
    for name in ("max_pool2d", "avg_pool2d"):
        for bad in (
            {"kernel_size": 2, "padding": 2},
            {"kernel_size": 2, "stride": 0},
            {"kernel_size": 6},
            {"kernel_size": 0},
        ):
            with pytest.raises(InvalidArgument):
                R[name](x, **bad)
        with pytest.raises(InvalidArgument):
            R[name](x, kernel_size=3, padding=-1)


def test_ceil_mode_counts_what_is_there():
    x = np.arange(1.0, 6.0)[None, None]
    got = R["avg_pool1d"](x, kernel_size=2, ceil_mode=True)
    assert got.tolist() == [[[1.5, 3.5, 5.0]]]


def test_average_pools_are_exact_until_one_rounding():
    x = np.array([[[1e16, 1.0, -1e16, 1.0]]])
    assert R["avg_pool1d"](x, kernel_size=4).tolist() == [[[0.5]]]
    ones = np.ones((1, 1, 1000), ml_dtypes.bfloat16)
    assert R["avg_pool1d"](ones, kernel_size=1000).tolist() == [[[1]]]
    with pytest.raises(UnsupportedDType):
        R["avg_pool1d"](np.ones((1, 1, 4), int), kernel_size=2)


def test_adaptive_pools():
    x = np.arange(7.0)[None, None]
    # Windows 0..2, 2..4, 4..6 of seven elements in three: floor(7 i / 3) to ceil(7 (i + 1) / 3).
    assert R["adaptive_avg_pool1d"](x, output_size=3).tolist() == [[[1, 3, 5]]]
    assert R["adaptive_max_pool1d"](x, output_size=3).tolist() == [[[2, 4, 6]]]
    y = rng.standard_normal((2, 3, 5, 4))
    assert R["adaptive_avg_pool2d"](y, output_size=(None, 1)).shape == (2, 3, 5, 1)
    np.testing.assert_allclose(R["adaptive_avg_pool2d"](y, output_size=1)[..., 0, 0], y.mean((2, 3)), rtol=1e-13)
    assert np.array_equal(R["adaptive_max_pool2d"](y, output_size=(5, 4)), y)
    assert R["adaptive_avg_pool3d"](np.ones((1, 1, 2, 3, 4)), output_size=4).shape == (1, 1, 4, 4, 4)
    with pytest.raises(InvalidArgument):
        R["adaptive_avg_pool1d"](x, output_size=0)
    with pytest.raises(ShapeMismatch):
        R["adaptive_avg_pool1d"](np.ones((1, 1, 0)), output_size=1)


# Interpolation and folds


@pytest.mark.parametrize(
    ("mode", "params", "want"),
    [
        ("nearest", {"size": 4}, [1, 1, 2, 2]),
        ("nearest", {"size": 3}, [1, 1, 2]),
        ("nearest-exact", {"size": 3}, [1, 2, 2]),
        ("linear", {"size": 4}, [1, 1.25, 1.75, 2]),
        ("linear", {"size": 4, "align_corners": True}, [1, 4 / 3, 5 / 3, 2]),
        ("linear", {"size": 1}, [1.5]),
        ("linear", {"size": 1, "align_corners": True}, [1]),
        ("linear", {"scale_factor": 1.5}, [1, 1.5, 2]),
        ("area", {"size": 1}, [1.5]),
        ("area", {"size": 2}, [1, 2]),
    ],
)
def test_interpolation_by_hand(mode, params, want):
    got = R["interpolate"](np.array([[[1.0, 2.0]]]), mode=mode, **params)
    np.testing.assert_allclose(got, [[want]], rtol=1e-15)


def test_nearest_takes_integers_and_whole_quotients():
    x = np.arange(49, dtype=np.int32)[None, None]
    for n, m in ((49, 7), (49, 21), (21, 49), (3, 49)):
        got = R["interpolate"](x[..., :n], size=m)
        assert got.dtype == np.int32 and got[0, 0].tolist() == [i * n // m for i in range(m)]
    with pytest.raises(UnsupportedDType):
        R["interpolate"](x, size=3, mode="linear")


def test_areas_overlap_where_sizes_do_not_divide():
    x = np.array([[[1.0, 2.0, 4.0, 8.0, 16.0]]])
    # Elements 0..1, 1..3 and 3..4.
    np.testing.assert_allclose(R["interpolate"](x, size=3, mode="area"), [[[1.5, 14 / 3, 12]]], rtol=1e-15)


def test_scale_factor_or_size_sets_the_step():
    x = np.arange(5.0)[None, None]
    # floor(5 * 1.7) = 8 samples, 1 / 1.7 apart; or 5/8 apart when the factor is computed again.
    step = np.clip((np.arange(8) + 0.5) / 1.7 - 0.5, 0, 4)
    np.testing.assert_allclose(R["interpolate"](x, scale_factor=1.7, mode="linear")[0, 0], step, rtol=1e-14)
    step = np.clip((np.arange(8) + 0.5) * 5 / 8 - 0.5, 0, 4)
    got = R["interpolate"](x, scale_factor=1.7, mode="linear", recompute_scale_factor=True)
    np.testing.assert_allclose(got[0, 0], step, rtol=1e-14)


def test_bicubic_weights():
    # Sample 7 of 16 from 8 lies at 3.25; Keys' kernel with a = -0.75 there, from elements 2 to 5.
    want = [-0.10546875, 0.87890625, 0.26171875, -0.03515625]
    x = np.zeros((1, 1, 8, 8))
    for element, weight in zip(range(2, 6), want, strict=True):
        x[:] = 0
        x[..., element, :] = 1
        assert R["interpolate"](x, size=(16, 16), mode="bicubic")[0, 0, 7].tolist() == [weight] * 16


def test_interpolation_that_is_refused():
    x = np.ones((1, 1, 4, 4))
    for params in (
        {"size": 2, "mode": "cubic"},
        {"size": 2, "scale_factor": 2.0},
        {},
        {"scale_factor": 0.1},
        {"scale_factor": -1.0},
        {"size": 0},
        {"size": 2, "align_corners": True},
    ):
        with pytest.raises(InvalidArgument):
            R["interpolate"](x, **params)
    with pytest.raises(InvalidDimension):
        R["interpolate"](x, size=2, mode="trilinear")


def test_unfold_and_fold():
    x = np.arange(9.0).reshape(1, 1, 3, 3)
    columns = R["unfold"](x, kernel_size=2)
    assert columns.tolist() == [[[0, 1, 3, 4], [1, 2, 4, 5], [3, 4, 6, 7], [4, 5, 7, 8]]]
    counts = np.array([[1, 2, 1], [2, 4, 2], [1, 2, 1]])
    assert R["fold"](columns, output_size=3, kernel_size=2)[0, 0].tolist() == (x[0, 0] * counts).tolist()
    assert R["unfold"](x[0], kernel_size=(1, 3), padding=(0, 1), stride=(2, 1)).tolist() == [
        [0, 0, 1, 0, 6, 7],
        [0, 1, 2, 6, 7, 8],
        [1, 2, 0, 7, 8, 0],
    ]
    two = np.concatenate([columns[0], columns[0] * 2])
    assert R["fold"](two, output_size=3, kernel_size=2)[1].tolist() == (2 * x[0, 0] * counts).tolist()
    with pytest.raises(ShapeMismatch):
        R["fold"](np.ones((1, 4, 5)), output_size=3, kernel_size=2)
    with pytest.raises(InvalidArgument):
        R["unfold"](x, kernel_size=4)


def test_fold_is_the_transpose_of_unfold():
    x = rng.standard_normal((2, 3, 6, 5))
    for stride, padding, dilation in itertools.product((1, 2), (0, (1, 2)), (1, 2)):
        params = {"kernel_size": (2, 3), "stride": stride, "padding": padding, "dilation": dilation}
        columns = R["unfold"](x, **params)
        g = rng.standard_normal(columns.shape)
        back = R["fold"](g, output_size=(6, 5), **params)
        assert (columns * g).sum() == pytest.approx((x * back).sum(), rel=1e-12)


def test_unfold_makes_a_convolution_a_product():
    x, weight = rng.standard_normal((2, 3, 6, 5)), rng.standard_normal((4, 3, 2, 3))
    for stride, padding, dilation in itertools.product((1, 2), (0, 1), (1, 2)):
        params = {"stride": stride, "padding": padding, "dilation": dilation}
        columns = R["unfold"](x, kernel_size=(2, 3), **params)
        want = R["conv2d"](x, weight, **params)
        got = (weight.reshape(4, -1) @ columns).reshape(want.shape)
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)
