"""erf, erfc, erfinv and the stable forms: mpmath's digits, and SciPy over a grid."""

import mpmath
import numpy as np
import pytest
import scipy.special

from rtx_jax.backend.reference.giles import erfinv_approximation
from rtx_jax.backend.reference.special import erf, erfc, erfinv, sigmoid, softplus


@pytest.mark.parametrize(
    ("function", "x", "want"),
    [
        (erf, 0.5, 0.5204998778130465),
        (erf, 1.0, 0.8427007929497149),
        (erf, -2.0, -0.9953222650189527),
        (erf, 1e-300, 1.1283791670955126e-300),
        (erfc, 0.5, 0.4795001221869535),
        (erfc, 3.0, 2.209049699858544e-05),
        (erfc, 10.0, 2.088487583762545e-45),
        (erfc, 26.0, 5.663192408856143e-296),
        (erfinv, 0.5, 0.4769362762044699),
        (erfinv, -0.9, -1.1630871536766743),
        (erfinv, 1 - 2**-53, 5.863584748755167),
    ],
)
def test_digits(function, x, want):
    # DLMF 7 and mpmath to 17 digits; half an ULP of the digits, half of the result.
    assert abs(float(function(np.asarray(x))) / want - 1) <= 2**-52


def test_against_scipy():
    x = np.concatenate([np.linspace(-6, 6, 401), np.logspace(-300, 1, 50)])
    np.testing.assert_allclose(erf(x), scipy.special.erf(x), rtol=1e-15, atol=0)
    loss = 1 if np.finfo(np.longdouble).nmant > 52 else 20  # long double may be float64
    np.testing.assert_allclose(erfc(x), scipy.special.erfc(x), rtol=3e-15 * loss, atol=0)
    u = np.concatenate([np.linspace(-1, 1, 203)[1:-1], 1 - np.logspace(-15, -2, 20)])
    np.testing.assert_allclose(erfinv(u), scipy.special.erfinv(u), rtol=2e-15 * loss, atol=1e-300)


def test_correctly_rounded_against_mpmath():
    if np.finfo(np.longdouble).nmant <= 52:
        pytest.skip("needs a long double wider than float64")
    x = np.linspace(-5.9, 5.9, 61)
    with mpmath.workdps(40):
        for function, exact in ((erf, mpmath.erf), (erfc, mpmath.erfc)):
            want = np.array([float(exact(mpmath.mpf(float(v)))) for v in x])
            assert np.array_equal(function(x), want)


def test_limits():
    inf = np.inf
    assert erf(np.array([inf, -inf])).tolist() == [1, -1]
    assert erfc(np.array([inf, -inf, 28.0])).tolist() == [0, 2, 0]
    assert erfinv(np.array([1.0, -1.0])).tolist() == [inf, -inf]
    for function in (erf, erfc, erfinv):
        assert np.isnan(function(np.array([np.nan]))).all()
    assert np.isnan(erfinv(np.array([1.5, -2.0]))).all()
    assert np.signbit(erf(np.array([-0.0]))).all() and np.signbit(erfinv(np.array([-0.0]))).all()


def test_stable_forms():
    x = np.array([0.0, 40.0, -40.0, 1e4, -1e4, 800.0, -800.0])
    assert np.array_equal(sigmoid(x)[:1], [0.5])
    assert sigmoid(x)[3:5].tolist() == [1, 0]
    assert sigmoid(x)[2] == pytest.approx(4.248354255291589e-18, rel=1e-15)
    assert softplus(x)[3:5].tolist() == [1e4, 0]
    assert softplus(x)[0] == pytest.approx(0.6931471805599453, rel=1e-15)


def test_the_approximation_that_normal_draws_use():
    u = np.linspace(-0.999, 0.999, 999)
    for dtype, bound in ((np.float32, 3e-6), (np.float64, 3e-14)):
        x = u.astype(dtype)
        got = erfinv_approximation(x)
        assert got.dtype == dtype
        np.testing.assert_allclose(got, erfinv(x.astype(np.float64)), rtol=bound, atol=0)


@pytest.mark.parametrize(("dtype", "bits", "bound"), [(np.float32, 12, 1e-6), (np.float64, 26, 2e-15)])
def test_the_approximation_in_the_tails(dtype, bits, bound):
    # Of these the square is exact, so that nothing but the polynomials is off: all three of float64, both of float32.
    x = 1 - 2.0 ** -np.arange(1, bits + 1)
    with mpmath.workdps(40):
        want = np.array([float(mpmath.erfinv(mpmath.mpf(float(v)))) for v in x])
    np.testing.assert_allclose(erfinv_approximation(x.astype(dtype)), want, rtol=bound, atol=0)
