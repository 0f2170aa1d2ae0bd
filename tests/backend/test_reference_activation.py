"""The reference's activations against formulas in mpmath and SciPy, and their limits."""

import ml_dtypes
import mpmath
import numpy as np
import pytest
import scipy.special

from rtx_jax.backend.reference import FUNCTIONS as R
from rtx_jax.errors import InvalidArgument, InvalidDimension, ShapeMismatch, UnsupportedDType

INF, NAN = np.inf, np.nan
WIDE = np.finfo(np.longdouble).nmant > 52  # else float64 results are those of float64 arithmetic
X = np.concatenate([np.linspace(-30, 30, 121), [1e4, -1e4, 1e-10, -1e-10]])


def mp_gelu(x):
    return x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def mp_gelu_tanh(x):
    # sigmoid(2 y) is (1 + tanh(y)) / 2 without cancelling at 40 digits.
    y = mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf(0.044715) * x**3)
    return x / (1 + mpmath.exp(-2 * y))


FORMULAS = {
    "sigmoid": (lambda x: 1 / (1 + mpmath.exp(-x)), {}),
    "tanh": (mpmath.tanh, {}),
    "silu": (lambda x: x / (1 + mpmath.exp(-x)), {}),
    "gelu": (mp_gelu, {}),
    "gelu tanh": (mp_gelu_tanh, {"approximate": "tanh"}),
    "mish": (lambda x: x * mpmath.tanh(mpmath.log1p(mpmath.exp(x))), {}),
    "softplus": (lambda x: x if x > 20 else mpmath.log1p(mpmath.exp(x)), {}),
    "softplus beta": (
        lambda x: x if 2 * x > 3 else mpmath.log1p(mpmath.exp(2 * x)) / 2,
        {"beta": 2.0, "threshold": 3.0},
    ),
    "elu": (lambda x: x if x > 0 else mpmath.mpf(0.7) * mpmath.expm1(x), {"alpha": 0.7}),
    "celu": (lambda x: x if x > 0 else mpmath.mpf(0.5) * mpmath.expm1(x / 0.5), {"alpha": 0.5}),
    "selu": (
        lambda x: mpmath.mpf(1.0507009873554805) * (x if x > 0 else mpmath.mpf(1.6732632423543772) * mpmath.expm1(x)),
        {},
    ),
    "hard_sigmoid": (lambda x: min(max(x + 3, 0), 6) / mpmath.mpf(6), {}),
    "leaky_relu": (lambda x: max(mpmath.mpf(0.01) * x, x), {}),
    "relu": (lambda x: max(x, 0), {}),
}


@pytest.mark.parametrize("label", FORMULAS)
def test_formulas(label):
    formula, params = FORMULAS[label]
    with mpmath.workdps(60):
        want = np.array([float(formula(mpmath.mpf(float(v)))) for v in X])
    name = label.split()[0]
    got = R[name](X, **params)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, want, rtol=2.3e-16 if WIDE else 1e-12, atol=0 if WIDE else 1e-300)
    with np.errstate(over="ignore", under="ignore"):
        single = X.astype(np.float32)
        want32 = np.array([float(formula(mpmath.mpf(float(v)))) for v in single]).astype(np.float32)
    assert np.array_equal(R[name](single, **params), want32)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16], ids=lambda d: np.dtype(d).name)
def test_limits(dtype):
    x = np.array([INF, -INF, NAN], dtype)
    want = {
        "relu": [INF, 0],
        "sigmoid": [1, 0],
        "tanh": [1, -1],
        "silu": [INF, -0.0],
        "gelu": [INF, -0.0],
        "mish": [INF, -0.0],
        "softplus": [INF, 0],
        "elu": [INF, -1],
        "celu": [INF, -1],
        "hard_sigmoid": [1, 0],
        "leaky_relu": [INF, -INF],
    }
    for name, (top, bottom) in want.items():
        got = R[name](x).astype(float)
        assert got[0] == top and got[1] == bottom and np.isnan(got[2]), name
        assert np.signbit(got[1]) == np.signbit(np.float64(bottom)), name
    got = R["gelu"](x, approximate="tanh").astype(float)
    assert got[0] == INF and got[1] == 0 and np.signbit(got[1]) and np.isnan(got[2])


def test_leaky_relu_is_a_maximum():
    x = np.array([-2.0, 0.0, 3.0])
    assert R["leaky_relu"](x, negative_slope=2.0).tolist() == [-2, 0, 6]
    assert R["leaky_relu"](x, negative_slope=-1.0).tolist() == [2, 0, 3]
    assert R["leaky_relu"](np.array([INF, -INF, -1.0]), negative_slope=0.0).tolist() == [INF, 0, 0]
    assert R["leaky_relu"](x, negative_slope=1.0).tolist() == x.tolist()


def test_prelu():
    x = np.array([[[-1.0, 2.0], [-3.0, 4.0]]])
    assert R["prelu"](x, np.array([0.5, 0.1])).tolist() == [[[-0.5, 2], [-0.30000000000000004, 4]]]
    assert R["prelu"](x, np.array([0.5])).tolist() == [[[-0.5, 2], [-1.5, 4]]]
    with pytest.raises(ShapeMismatch):
        R["prelu"](x, np.ones(3))


def test_gated_halves():
    x = np.array([[1.0, 2.0, 0.0, -INF]])
    assert R["glu"](x).tolist() == [[0.5, 0.0]]
    assert R["swiglu"](np.array([[0.0, -INF, 5.0, 2.0]])).tolist() == [[0.0, -0.0]]
    half = np.log(3.0)  # the sigmoid of log 3 is 3/4
    assert R["silu_mul"](np.array([0.0, -INF, half]), np.array([3.0, 4.0, 5.0])).tolist() == [0.0, -0.0, half * 3.75]
    assert R["swiglu"](np.array([half, 5.0])).tolist() == [half * 3.75]
    assert R["glu"](np.array([5.0, half])).tolist() == [3.75]
    assert R["glu"](np.zeros((4, 3)), dim=0).shape == (2, 3)
    with pytest.raises(ShapeMismatch):
        R["glu"](np.zeros((2, 3)))
    with pytest.raises(InvalidDimension):
        R["glu"](np.zeros((2, 2)), dim=2)


def test_softmax():
    x = np.random.default_rng(1).standard_normal((3, 4, 5)) * 100
    for dim in (0, 1, 2, -1):
        np.testing.assert_allclose(R["softmax"](x, dim=dim), scipy.special.softmax(x, dim), rtol=1e-13, atol=1e-300)
        np.testing.assert_allclose(
            R["log_softmax"](x, dim=dim), scipy.special.log_softmax(x, dim), rtol=1e-13, atol=1e-15
        )
    assert R["softmax"](np.array([1e4, -1e4, 1e4]), dim=0).tolist() == [0.5, 0, 0.5]
    assert R["log_softmax"](np.array([1e4, -1e4]), dim=0).tolist() == [0, -2e4]
    assert np.isnan(R["softmax"](np.array([-INF, -INF]), dim=0)).all()
    assert R["softmax"](np.array([-INF, 0.0]), dim=0).tolist() == [0, 1]
    assert R["softmax"](np.zeros((2, 0)), dim=1).shape == (2, 0)
    # A case where JAX's own log_softmax loses the small one.
    assert R["log_softmax"](np.array([37.43, 0.0]), dim=0)[0] == pytest.approx(-np.exp(-37.43), rel=1e-14)


def test_what_is_refused():
    integers = np.array([1, 2])
    for name in ("relu", "gelu", "silu", "sigmoid"):
        with pytest.raises(UnsupportedDType):
            R[name](integers)
    for call in (
        lambda: R["gelu"](X, approximate="erf"),
        lambda: R["celu"](X, alpha=0.0),
        lambda: R["softplus"](X, beta=0.0),
        lambda: R["elu"](X, alpha=NAN),
    ):
        with pytest.raises(InvalidArgument):
            call()
    with pytest.raises(InvalidDimension):
        R["softmax"](X, dim=1)
