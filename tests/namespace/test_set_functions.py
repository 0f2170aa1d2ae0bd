"""Set functions: distinct NaNs, equal zeros, first occurrences, and the same on the device as on the host."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors
from rtx_jax.namespace import set_functions


def _all(x, on_device):
    return set_functions._unique_on_device(x, xp.int64) if on_device else tuple(xp.unique_all(x))


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint64", "float32", "bfloat16", "complex64", "float64"])
def test_unique_all(on_device, dtype):
    x = xp.asarray(np.array([[3, 1, 3], [2, 1, 3]]), dtype=getattr(xp, dtype))
    values, indices, inverse, counts = _all(x, on_device)
    assert values.dtype == x.dtype
    assert [complex(v).real for v in xp.astype(values, xp.complex128)] == [1, 2, 3]
    assert [int(i) for i in indices] == [1, 3, 0]
    assert [int(n) for n in counts] == [2, 1, 3]
    assert indices.dtype == inverse.dtype == counts.dtype == xp.int64
    assert inverse.shape == x.shape
    np.testing.assert_array_equal(np.asarray(inverse), [[2, 0, 2], [1, 0, 2]])


@pytest.mark.parametrize("on_device", [False, True])
def test_nans_are_distinct_and_zeros_are_not(on_device):
    x = xp.asarray([np.nan, 0.0, -0.0, np.nan, 1.0])
    values, indices, inverse, counts = _all(x, on_device)
    assert values.shape == (4,)
    np.testing.assert_array_equal(np.asarray(values), [0.0, 1.0, np.nan, np.nan])
    assert [int(n) for n in counts] == [2, 1, 1, 1]
    assert [int(i) for i in indices] == [1, 4, 0, 3]
    assert [int(i) for i in inverse] == [2, 0, 0, 3, 1]
    assert xp.unique_values(x).shape == (4,)


@pytest.mark.parametrize("on_device", [False, True])
def test_complex_nans(on_device):
    x = xp.asarray([complex(1, np.nan), 1 + 0j, complex(1, np.nan), complex(np.nan, 0), complex(1, -0.0)])
    values, _, _, counts = _all(x, on_device)
    assert values.shape == (4,)
    assert sorted(int(n) for n in counts) == [1, 1, 1, 2]


@pytest.mark.parametrize("on_device", [False, True])
def test_empty_scalar_and_bool(on_device):
    values, indices, inverse, counts = _all(xp.zeros((0, 2), dtype=xp.float32), on_device)
    assert values.shape == indices.shape == counts.shape == (0,)
    assert inverse.shape == (0, 2)
    values, _, inverse, counts = _all(xp.asarray(5), on_device)
    assert values.shape == counts.shape == (1,)
    assert inverse.shape == ()
    values, _, _, counts = _all(xp.asarray([True, False, True]), on_device)
    assert [bool(v) for v in values] == [False, True]
    assert [int(n) for n in counts] == [1, 2]


def test_the_smaller_functions():
    x = xp.asarray([2, 1, 2], dtype=xp.int32)
    values, counts = xp.unique_counts(x)
    assert ([int(v) for v in values], [int(n) for n in counts]) == ([1, 2], [1, 2])
    result = xp.unique_inverse(x)
    assert [int(i) for i in result.inverse_indices] == [1, 0, 1]
    assert xp.unique_values(x).dtype == xp.int32
    assert [int(v) for v in xp.unique_values(xp.reshape(x, (3, 1)))] == [1, 2]
    assert xp.unique_all(x)._fields == ("values", "indices", "inverse_indices", "counts")
    assert xp.unique_counts(x)._fields == ("values", "counts")
    assert [float(v) for v in xp.unique_values(xp.asarray([1, 0, 1], dtype=xp.float8_e5m2))] == [0.0, 1.0]


def test_results_stay_on_the_device():
    device = jax.devices()[-1]
    x = xp.asarray([1, 1, 2], device=device)
    for part in xp.unique_all(x):
        assert part.device == device


def test_unique_needs_values():
    for name in ("unique_all", "unique_counts", "unique_inverse", "unique_values"):
        with pytest.raises(errors.DataDependentShape, match=name):
            jax.jit(lambda v, name=name: getattr(xp, name)(xp.Array(v))[0])(jnp.ones(3))


@pytest.mark.parametrize("size", [0, 1, 5, 200])
@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize("dtype", [np.int16, np.float32, np.uint8])
def test_isin(size, invert, dtype):
    rng = np.random.default_rng(0)
    x1 = rng.integers(0, 100, (4, 5)).astype(dtype)
    x2 = rng.integers(0, 100, size).astype(dtype)
    got = xp.isin(xp.asarray(x1), xp.asarray(x2), invert=invert)
    assert got.dtype == xp.bool
    np.testing.assert_array_equal(np.asarray(got), np.isin(x1, x2, invert=invert))


@pytest.mark.parametrize("size", [2, 100])
def test_isin_compares_values(size):
    candidates = xp.asarray([np.nan, -0.0] + [7.0] * size)
    got = xp.isin(xp.asarray([np.nan, 0.0, 1.0, 7.0]), candidates)
    assert [bool(v) for v in got] == [False, True, False, True]


def test_isin_takes_scalars_and_mixed_dtypes():
    x = xp.asarray([1, 2, 3])
    assert [bool(v) for v in xp.isin(x, 2)] == [False, True, False]
    assert [bool(v) for v in xp.isin(x, 2, invert=True)] == [True, False, True]
    inside = xp.isin(2, x)
    assert inside.shape == ()
    assert bool(inside)
    unsigned = xp.asarray([2**32 - 1], dtype=xp.uint32)
    assert not bool(xp.isin(unsigned, xp.asarray([-1], dtype=xp.int32))[0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_nan_comes_last_and_counts_by_itself(dtype):
    x = xp.astype(xp.asarray([0.0, math.nan, 1.0, math.nan, 0.0, 2.0]), dtype)
    values, counts = xp.unique_counts(x)
    assert np.asarray(values).astype(np.float64).tolist()[:3] == [0.0, 1.0, 2.0]
    assert np.isnan(np.asarray(values).astype(np.float64)[3:]).all()
    assert np.asarray(counts).tolist() == [2, 1, 1, 1, 1]
    assert xp.unique_values(x).shape == (5,)
