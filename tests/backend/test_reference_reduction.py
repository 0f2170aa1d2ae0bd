"""The reference's reductions: exact sums, two-pass variances, edges."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from rtx_jax.backend.reference import FUNCTIONS as R
from rtx_jax.errors import InvalidArgument, InvalidDimension, UnsupportedDType

INF, NAN = np.inf, np.nan


def test_sums_are_exact_until_one_rounding():
    x = np.array([1e16, 1.0, -1e16, 1e-3, 3.0])
    assert R["sum"](x).tolist() == [4.001]
    rng = np.random.default_rng(5)
    x = rng.standard_normal((3, 50)) * 10.0 ** rng.integers(-12, 12, (3, 50))
    got = R["sum_dim"](x, dim=1)
    assert got.shape == (3, 1)
    assert got[:, 0].tolist() == [float(sum(Fraction(v) for v in lane)) for lane in x.tolist()]


@pytest.mark.parametrize(
    ("values", "want"),
    [
        ([], 0.0),
        ([INF, 1.0], INF),
        ([INF, -INF], NAN),
        ([NAN, 1.0], NAN),
        ([1e308, 1e308, -1e308], 1e308),
        ([1.7e308, 1.7e308], INF),
        ([-1.7e308, -1.7e308], -INF),
    ],
)
def test_sums_at_the_edges(values, want):
    got = R["sum"](np.array(values))
    assert got.shape == (1,)
    assert np.array_equal(got, [want], equal_nan=True)


def test_half_precision_accumulates_wider():
    assert R["sum"](np.ones(1000, ml_dtypes.bfloat16)).tolist() == [1000]
    x = np.full(4, 60000, np.float16)
    assert R["sum"](x).tolist() == [INF]
    assert R["mean"](x).tolist() == [60000]
    assert float(R["mean"](np.full(2**12, 1e-5, np.float16))[0]) == float(np.float16(1e-5))


def test_integers_wrap_and_keep_their_dtype():
    assert R["sum"](np.array([100, 100], np.int8)).tolist() == [-56]
    assert R["sum_dim"](np.array([[2**31 - 1], [1]], np.int32), dim=0).tolist() == [[-(2**31)]]
    with pytest.raises(UnsupportedDType):
        R["mean"](np.array([1, 2]))
    with pytest.raises(UnsupportedDType):
        R["sum"](np.array([True]))


def test_means():
    assert R["mean"](np.array([1.0, 2.0, 4.0])).tolist() == [7 / 3]
    assert R["mean"](np.array([1.7e308, 1.7e308])).tolist() == [1.7e308]
    assert np.isnan(R["mean"](np.zeros((0,), np.float32))).all()
    assert np.isnan(R["mean_dim"](np.zeros((2, 0)), dim=1)).all()
    assert R["mean_dim"](np.array([[1.0, 2.0], [3.0, 6.0]]), dim=0).tolist() == [[2.0, 4.0]]


def test_variances():
    x = np.array([1.0, 2.0, 4.0, 7.0])
    assert R["var"](x).tolist() == [5.25]
    assert R["var"](x, correction=1.0).tolist() == [7.0]
    assert R["var"](x, correction=0.5).tolist() == [21 / 3.5]
    assert R["var_dim"](np.stack([x, x * 2]), dim=1).tolist() == [[5.25], [21.0]]
    # A naive sum of squares of these float32 values is off by more than the variance.
    shifted = (np.arange(16) * 0.01 + 1e4).astype(np.float32)
    exact = np.array([Fraction(float(v)) for v in shifted])
    mean = sum(exact) / 16
    want = float(sum((v - mean) ** 2 for v in exact) / 16)
    assert R["var"](shifted)[0] == np.float32(want)
    assert R["var"](np.full(7, 0.1)).tolist() == [0]


@pytest.mark.parametrize(("values", "correction"), [([1.0], 1.0), ([1.0, 2.0], 2.0), ([1.0, 2.0], 3.0), ([], 0.0)])
def test_no_degrees_of_freedom_give_nan(values, correction):
    assert np.isnan(R["var"](np.array(values), correction=correction)).all()


def test_variance_of_values_that_are_not_finite():
    assert np.isnan(R["var"](np.array([1.0, INF]))).all()
    assert np.isnan(R["var"](np.array([1.0, NAN]))).all()


def test_extremes():
    x = np.array([[3.0, NAN, 1.0], [-INF, 2.0, INF]], np.float32)
    assert np.array_equal(R["max_dim"](x, dim=1), [[NAN], [INF]], equal_nan=True)
    assert np.array_equal(R["min_dim"](x, dim=0), [[-INF, NAN, 1]], equal_nan=True)
    assert np.isnan(R["max"](x)).all() and R["max"](x).shape == (1,)
    assert R["max"](np.array([-5, 3], np.int8)).tolist() == [3]
    assert R["min"](np.array([2**63, 5], np.uint64)).tolist() == [5]
    assert R["max"](np.array([2**53, 2**53 + 1])).tolist() == [2**53 + 1]
    for name in ("max", "min"):
        with pytest.raises(InvalidArgument):
            R[name](np.zeros((0, 3)))
    with pytest.raises(InvalidArgument):
        R["max_dim"](np.zeros((2, 0)), dim=1)
    assert R["max_dim"](np.zeros((0, 2)), dim=1).shape == (0, 1)


@pytest.mark.parametrize("name", ["sum_dim", "mean_dim", "var_dim", "max_dim", "min_dim"])
@pytest.mark.parametrize("dim", [-1, 2, 5])
def test_axes_out_of_range(name, dim):
    with pytest.raises(InvalidDimension):
        R[name](np.ones((2, 2)), dim=dim)


def test_scalars():
    x = np.array(3.0)
    assert R["sum"](x).tolist() == [3] and R["max"](x).tolist() == [3] and R["var"](x).tolist() == [0]
    assert math.isnan(R["var"](x, correction=1.0)[0])
