"""The reference's norms: formulas in exact fractions, large means, overflow, edges."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from rtx_jax.backend.reference import FUNCTIONS as R
from rtx_jax.errors import InvalidArgument, InvalidDimension, ShapeMismatch, UnsupportedDType


def standardized(values, eps):
    """Return ``(x - mean) / sqrt(var + eps)`` from exact fractions, as float64."""
    x = [Fraction(float(v)) for v in values]
    mean = sum(x) / len(x)
    variance = sum((v - mean) ** 2 for v in x) / len(x)
    return np.array([float(v - mean) for v in x]) / np.sqrt(float(variance + Fraction(eps)))


def test_layer_norm():
    x = np.array([[1.0, 2.0, 4.0, 9.0], [0.0, 0.0, 0.0, 0.0]])
    weight, bias = np.array([1.0, 2.0, -1.0, 0.5]), np.array([0.0, 1.0, 0.0, -1.0])
    want = standardized(x[0], 1e-5)
    got = R["layer_norm"](x, weight, bias)
    np.testing.assert_allclose(got[0], want * weight + bias, rtol=1e-14)
    assert got[1].tolist() == bias.tolist()
    np.testing.assert_allclose(R["layer_norm"](x)[0], want, rtol=1e-14)


@pytest.mark.parametrize("mean", [0.0, 100.0, 1e4])
def test_layer_norm_with_a_large_mean(mean):
    x = (mean + 0.01 * np.arange(16)).astype(np.float32)
    want = standardized(x, 1e-5)
    np.testing.assert_allclose(R["layer_norm"](x), want, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=lambda d: np.dtype(d).name)
def test_half_precision_does_not_overflow(dtype):
    assert R["rms_norm"](np.full(512, 300, dtype)).astype(float).tolist() == [1] * 512
    assert R["rms_norm"](np.full(512, 1e-4, np.float16), eps=1e-20).astype(float).tolist() == [1] * 512
    x = np.array([-300.0, 300.0] * 8, dtype)
    assert R["layer_norm"](x).astype(float).tolist() == [-1.0, 1.0] * 8


def test_rms_norm():
    x, weight = np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([1.0, 2.0])
    root = np.sqrt(12.5 + 1e-6)
    np.testing.assert_allclose(R["rms_norm"](x, weight), [[3 / root, 8 / root], [0, 0]], rtol=1e-15)
    assert R["rms_norm"](x, eps=0.0)[0] == pytest.approx(x[0] / np.sqrt(12.5), rel=1e-15)


def test_group_and_instance_norm():
    x = np.random.default_rng(4).standard_normal((2, 4, 3, 5))
    weight, bias = np.arange(1.0, 5.0), np.array([0.0, -1.0, 2.0, 3.0])
    got = R["group_norm"](x, weight, bias, num_groups=2)
    for b, c in np.ndindex(2, 4):
        group = slice(0, 2) if c < 2 else slice(2, 4)
        want = standardized(x[b, group].ravel(), 1e-5).reshape(2, 3, 5)[c % 2]
        np.testing.assert_allclose(got[b, c], want * weight[c] + bias[c], rtol=1e-12)
    np.testing.assert_allclose(R["instance_norm"](x), R["group_norm"](x, num_groups=4), rtol=1e-14)
    want = standardized(x[1, 2].ravel(), 1e-5).reshape(3, 5)
    np.testing.assert_allclose(R["instance_norm"](x)[1, 2], want, rtol=1e-12)


def test_batch_norm():
    x = np.array([[[1.0, 2.0], [10.0, 20.0]], [[3.0, 6.0], [30.0, 60.0]]])  # two channels
    mean, var = np.array([1.0, 2.0]), np.array([4.0, 9.0])
    got = R["batch_norm"](x, mean, var, eps=0.0)
    assert got[0].tolist() == [[0, 0.5], [8 / 3, 6]]
    out, new_mean, new_var = R["batch_norm"](x, mean, var, training=True, momentum=0.5, eps=0.0)
    # Channel 0 holds 1, 2, 3, 6: mean 3, variance 3.5 of all, 14/3 with n - 1.
    np.testing.assert_allclose(out[0, 0], (np.array([1, 2]) - 3) / np.sqrt(3.5), rtol=1e-15)
    np.testing.assert_allclose(new_mean, [2.0, 16.0], rtol=1e-15)
    np.testing.assert_allclose(new_var, [0.5 * 4 + 0.5 * 14 / 3, 0.5 * 9 + 0.5 * 1400 / 3], rtol=1e-15)
    _, batch_mean, batch_var = R["batch_norm"](x, training=True)
    np.testing.assert_allclose(batch_mean, [3, 30], rtol=1e-15)
    np.testing.assert_allclose(batch_var, [14 / 3, 1400 / 3], rtol=1e-15)


def test_inputs_stay_as_they_are():
    x = np.array([[3.0, 4.0]])
    for name in ("rms_norm", "layer_norm"):
        out = R[name](x)
        out[:] = 0
        assert x.tolist() == [[3.0, 4.0]]


def test_empty():
    assert R["layer_norm"](np.zeros((0, 3)), np.ones(3)).shape == (0, 3)
    assert R["rms_norm"](np.zeros((2, 0)), np.ones(0)).shape == (2, 0)
    assert R["group_norm"](np.zeros((0, 4, 2)), num_groups=2).shape == (0, 4, 2)


def test_what_is_refused():
    x = np.ones((2, 4))
    for call in (
        lambda: R["layer_norm"](x, np.ones(3)),
        lambda: R["layer_norm"](x, np.ones(4), np.ones((1, 4))),
        lambda: R["rms_norm"](x, np.ones(2)),
        lambda: R["batch_norm"](x, np.ones(3), np.ones(4)),
    ):
        with pytest.raises(ShapeMismatch):
            call()
    for call in (
        lambda: R["group_norm"](x, num_groups=3),
        lambda: R["group_norm"](x, num_groups=0),
        lambda: R["layer_norm"](x, eps=-1.0),
        lambda: R["batch_norm"](x),
        lambda: R["batch_norm"](x, np.ones(4), np.ones(4), training=True, momentum=2.0),
    ):
        with pytest.raises(InvalidArgument):
            call()
    with pytest.raises(InvalidDimension):
        R["instance_norm"](np.ones(3))
    with pytest.raises(UnsupportedDType):
        R["layer_norm"](np.ones(3, int))
