"""Sorting: both orders, ties, NaN, the two zeros, and every kind of dtype."""

import jax
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors

_NAN, _INF = float("nan"), float("inf")
_ODD = [_NAN, 1.0, -0.0, 0.0, 2.0, _INF, _NAN, -_INF]


def _bits(x):
    """Values with signs of zeros, and NaN as text, so that lists compare."""
    return ["nan" if np.isnan(v) else (float(v), bool(np.signbit(v))) for v in np.asarray(x)]


def test_ascending_with_nan_and_zeros():
    x = xp.asarray(_ODD)
    assert _bits(xp.sort(x)) == _bits([-_INF, -0.0, 0.0, 1.0, 2.0, _INF, _NAN, _NAN])
    assert [int(i) for i in xp.argsort(x)] == [7, 2, 3, 1, 4, 5, 0, 6]


def test_descending_keeps_the_order_of_equal_elements():
    x = xp.asarray(_ODD)
    assert _bits(xp.sort(x, descending=True)) == _bits([_NAN, _NAN, _INF, 2.0, 1.0, -0.0, 0.0, -_INF])
    assert [int(i) for i in xp.argsort(x, descending=True)] == [0, 6, 5, 4, 1, 2, 3, 7]


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int64", "uint64", "float16", "bfloat16", "float32", "float64", "float8_e4m3fn"]
)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("stable", [False, True])
def test_ties_in_every_dtype(dtype, descending, stable):
    values = [1, 0, 1, 0, 1] if dtype == "bool" else [3, 0, 3, 1, 3]
    x = xp.asarray(np.array(values), dtype=getattr(xp, dtype))
    order = sorted(range(5), key=lambda i: -values[i] if descending else values[i])
    got = xp.sort(x, descending=descending, stable=stable)
    assert got.dtype == x.dtype
    assert [int(v) for v in xp.astype(got, xp.int32)] == [values[i] for i in order]
    indices = xp.argsort(x, descending=descending, stable=stable)
    assert indices.dtype == xp.int64
    if stable:
        assert [int(i) for i in indices] == order
    assert [values[int(i)] for i in indices] == [values[i] for i in order]


def test_extremes_of_unsigned_integers():
    x = xp.asarray([0, 2**64 - 1, 2**63], dtype=xp.uint64)
    assert [int(v) for v in xp.sort(x, descending=True)] == [2**64 - 1, 2**63, 0]
    y = xp.asarray([-(2**63), 2**63 - 1, 0])
    assert [int(v) for v in xp.sort(y, descending=True)] == [2**63 - 1, 0, -(2**63)]


def test_complex_numbers_sort_by_parts():
    z = xp.asarray([1 + 1j, 1 - 1j, 0 + 5j])
    assert [complex(v) for v in xp.sort(z)] == [5j, 1 - 1j, 1 + 1j]
    assert [int(i) for i in xp.argsort(z, descending=True)] == [0, 1, 2]


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_axes(axis):
    x = np.array([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
    np.testing.assert_array_equal(np.asarray(xp.sort(xp.asarray(x), axis=axis)), np.sort(x, axis=axis))
    np.testing.assert_array_equal(np.asarray(xp.argsort(xp.asarray(x), axis=axis)), np.argsort(x, axis=axis))
    falling = xp.argsort(xp.asarray(x), axis=axis, descending=True)
    np.testing.assert_array_equal(np.asarray(falling), np.argsort(-x, axis=axis))


def test_empty_and_wrong_axes():
    assert xp.sort(xp.zeros((0,))).shape == (0,)
    assert xp.argsort(xp.zeros((2, 0))).shape == (2, 0)
    for call in (xp.sort, xp.argsort):
        with pytest.raises(errors.InvalidDimension):
            call(xp.ones((2,)), axis=1)
        with pytest.raises(errors.InvalidDimension):
            call(xp.asarray(1.0))


def test_gradient_of_a_descending_sort():
    weights = np.array([1.0, 10.0, 100.0], np.float32)
    grad = jax.grad(lambda v: xp.sum(xp.sort(xp.Array(v), descending=True) * weights).jax)
    x = jax.numpy.asarray([2.0, 3.0, 1.0], jax.numpy.float32)
    np.testing.assert_array_equal(np.asarray(grad(x)), [10.0, 1.0, 100.0])
