"""The reference's elementwise operations: special values, promotion, digits."""

import ml_dtypes
import mpmath
import numpy as np
import pytest

from rtx_jax.backend.reference import FUNCTIONS as R
from rtx_jax.errors import BroadcastError, DTypeMismatch, InvalidArgument, UnsupportedDType

FLOATS = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]
INF, NAN = np.inf, np.nan


def f32(*values):
    return np.array(values, np.float32)


def same(got, want):
    """Equal with the signs of zeros, NaN equal to NaN."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    assert np.array_equal(got, want, equal_nan=True)
    assert np.array_equal(np.signbit(got), np.signbit(want)) or np.isnan(want).any()


GRID = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -7.0, INF, -INF, NAN, 60000.0])


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize(
    ("name", "ufunc"), [("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide)]
)
def test_grid_of_special_values(name, ufunc, dtype):
    x, y = GRID.astype(dtype)[:, None], GRID.astype(dtype)[None, :]
    got = R[name](x, y)
    assert got.dtype == dtype and got.shape == (11, 11)
    with np.errstate(all="ignore"):
        # Products and sums of these are exact in float64, so ml_dtypes' own casts round them right.
        want = ufunc(x.astype(np.float64), y.astype(np.float64)).astype(dtype)
    same(got, want)


def test_division_rounds_once_in_half_precision():
    x = np.array([1.0, 2.0, 5.0], ml_dtypes.bfloat16)
    # 1/3 = 0.0101010101|01.. in binary: 8 bits 1.0101011 * 2**-2.
    assert R["div"](x, np.array([3.0, 3.0, 3.0], ml_dtypes.bfloat16)).astype(float).tolist() == [
        0.333984375,
        0.66796875,
        1.6640625,
    ]


def test_subnormals_are_kept():
    tiny = f32(1e-40)
    assert R["add"](tiny, tiny)[0] == np.float32(1e-40) * 2


def test_promotion():
    half, brain = np.ones(2, np.float16), np.ones(2, ml_dtypes.bfloat16)
    assert R["add"](half, brain).dtype == np.float32
    assert R["mul"](half, f32(1, 2)).dtype == np.float32
    assert R["add"](np.ones(2, np.int8), np.ones(2, np.uint8)).dtype == np.int16
    for pair in ((f32(1), np.ones(1, np.int32)), (np.ones(1, np.uint64), np.ones(1, np.int8))):
        with pytest.raises(DTypeMismatch):
            R["add"](*pair)
    with pytest.raises(UnsupportedDType):
        R["add"](np.ones(1, bool), np.ones(1, bool))
    with pytest.raises(UnsupportedDType):
        R["div"](np.ones(1, np.int32), np.ones(1, np.int32))
    with pytest.raises(BroadcastError):
        R["add"](f32(1, 2), f32(1, 2, 3))


def test_integers_wrap():
    assert R["add"](np.array([127], np.int8), np.array([1], np.int8)).tolist() == [-128]
    assert R["mul"](np.array([2**31 - 1], np.int32), np.array([2], np.int32)).tolist() == [-2]
    assert R["neg"](np.array([-128, 5], np.int8)).tolist() == [-128, -5]
    assert R["abs"](np.array([-128, -5], np.int8)).tolist() == [-128, 5]
    assert R["sub"](np.array([0], np.uint8), np.array([1], np.uint8)).tolist() == [255]


def test_maximum_and_minimum_keep_nan():
    same(R["maximum"](f32(1, NAN, 3, -INF), f32(2, 0, NAN, 5)), [2, NAN, NAN, 5])
    same(R["minimum"](f32(1, NAN, 3, -INF), f32(2, 0, NAN, 5)), [1, NAN, NAN, -INF])


@pytest.mark.parametrize(
    ("name", "x", "want"),
    [
        ("log", [0.0, -1.0, INF, NAN, 1.0], [-INF, NAN, INF, NAN, 0.0]),
        ("exp", [0.0, -INF, INF, NAN, 1e4], [1, 0, INF, NAN, INF]),
        ("sqrt", [-0.0, 4.0, -1.0, INF, NAN], [-0.0, 2, NAN, INF, NAN]),
        ("abs", [-0.0, -3.0, INF, -INF, NAN], [0, 3, INF, INF, NAN]),
        ("neg", [0.0, -0.0, INF, NAN, 1.0], [-0.0, 0, -INF, NAN, -1]),
        ("sin", [0.0, -0.0, INF, NAN], [0.0, -0.0, NAN, NAN]),
        ("cos", [0.0, INF, NAN], [1, NAN, NAN]),
    ],
)
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
def test_special_values_of_functions(name, x, want, dtype):
    got = R[name](np.array(x, dtype))
    assert got.dtype == dtype
    same(got, want)


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "sin", "cos"])
def test_float64_results_are_correctly_rounded(name):
    if np.finfo(np.longdouble).nmant <= 52:
        pytest.skip("needs a long double wider than float64")
    x = np.random.default_rng(3).uniform(0.01, 30, 60)
    with mpmath.workdps(40):
        want = [float(getattr(mpmath, name)(mpmath.mpf(float(v)))) for v in x]
    assert R[name](x).tolist() == want


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16], ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("exp", [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 1 / 3])
def test_powers(exp, dtype):
    x = np.array([0.0, 1.0, 2.0, 0.25, INF, 3.5], dtype)
    got = R["pow"](x, exp=exp)
    exponent = float(np.float32(exp))
    want = [0.0 if exp > 0 else 1.0 if exp == 0 else INF, *(float(v) ** exponent for v in x[1:].astype(float))]
    assert got.dtype == dtype
    np.testing.assert_allclose(got.astype(float), np.array(want), rtol=float(ml_dtypes.finfo(dtype).eps) / 2)


def test_powers_at_the_edges():
    same(R["pow"](f32(0, -2, INF, NAN), exp=0.0), [1, 1, 1, 1])
    same(R["pow"](f32(-2, -8, -1), exp=1 / 3), [NAN, NAN, NAN])
    same(R["pow"](f32(-2, -3), exp=3.0), [-8, -27])
    same(R["pow"](f32(-0.0, 0.0), exp=-1.0), [-INF, INF])


def test_clamp():
    x = f32(-INF, -2, 0, 2, INF, NAN)
    same(R["clamp"](x, min=-1.0, max=1.0), [-1, -1, 0, 1, 1, NAN])
    same(R["clamp"](x, min=2.0, max=-3.0), [-3] * 5 + [NAN])
    same(R["clamp"](x, min=-INF, max=INF), x)
    assert R["clamp"](np.array([-100, 3, 100], np.int8), min=-5.0, max=1e9).tolist() == [-5, 3, 100]
    assert float(R["clamp"](np.array([1.0], ml_dtypes.bfloat16), min=0.0, max=0.1)[0]) == 0.10009765625
    with pytest.raises(InvalidArgument):
        R["clamp"](x, min=NAN, max=1.0)


def test_gt_scalar():
    got = R["gt_scalar"](f32(1, 2, NAN, INF, -INF), v=1.0)
    assert got.dtype == np.float32
    same(got, [0, 1, 0, 1, 0])
    same(R["gt_scalar"](f32(1, INF), v=NAN), [0, 0])
    # 0.1 is an element of the tensor's dtype first.
    assert R["gt_scalar"](np.array([0.1], ml_dtypes.bfloat16), v=0.1).tolist() == [0]
    integers = np.array([-3, 0, 3], np.int8)
    assert R["gt_scalar"](integers, v=-0.5).tolist() == [0, 1, 1]
    assert R["gt_scalar"](integers, v=1e9).tolist() == [0, 0, 0]
    assert R["gt_scalar"](integers, v=-INF).tolist() == [1, 1, 1]
    assert R["gt_scalar"](integers, v=-129.0).tolist() == [1, 1, 1]
    ends = np.array([-128, -127, 126, 127], np.int8)
    for v, want in ((-128.0, [0, 1, 1, 1]), (-127.5, [0, 1, 1, 1]), (126.0, [0, 0, 0, 1]), (127.0, [0, 0, 0, 0])):
        assert R["gt_scalar"](ends, v=v).tolist() == want
    assert R["gt_scalar"](np.array([2**53 + 1], np.int64), v=float(2**53)).tolist() == [1]


def test_cast():
    x = np.array([1.5, -1.5, NAN, 300, 0])
    assert R["cast"](x, dtype=np.dtype(np.int8)).tolist() == [1, -1, 0, 127, 0]
    assert R["cast"](x, dtype=np.dtype(bool)).tolist() == [True, True, True, True, False]
    assert R["cast"](np.array([300, -1]), dtype=np.dtype(np.uint8)).tolist() == [44, 255]
    assert R["cast"](np.array([True, False]), dtype=np.dtype(np.float16)).tolist() == [1, 0]
    copy = R["cast"](x, dtype=np.dtype(np.float64))
    assert copy is not x and not np.shares_memory(copy, x)


def test_empty_and_zero_dimensional_operands():
    for shape in ((), (0,), (3, 0)):
        x = np.zeros(shape, np.float32)
        for name in ("add", "div", "maximum"):
            assert isinstance(R[name](x, x), np.ndarray) and R[name](x, x).shape == shape
        for name in ("exp", "neg", "abs", "sqrt"):
            assert isinstance(R[name](x), np.ndarray) and R[name](x).shape == shape
        assert R["pow"](x, exp=2.0).shape == shape and R["clamp"](x, min=0.0, max=1.0).shape == shape
