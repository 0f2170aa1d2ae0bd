"""Statistical functions: values, dtypes, special cases, gradients and errors, against NumPy in float64 and literals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors

_X = np.array([[1.5, -2.0, 3.25], [0.0, 4.0, -1.0]])


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "var", "std"])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1), (1,), ()])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions_agree_with_numpy(name, axis, keepdims):
    want = getattr(np, name)(_X, axis=axis, keepdims=keepdims)
    for dtype in (np.float32, np.float64):
        got = getattr(xp, name)(xp.asarray(_X.astype(dtype)), axis=axis, keepdims=keepdims)
        assert got.dtype == dtype
        assert got.shape == want.shape
        np.testing.assert_allclose(np.asarray(got), want, rtol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize(
    ("dtype", "want"),
    [
        ("bool", "int64"),
        ("int8", "int64"),
        ("int32", "int64"),
        ("int64", "int64"),
        ("uint8", "uint64"),
        ("uint64", "uint64"),
        ("float16", "float16"),
        ("bfloat16", "bfloat16"),
        ("float32", "float32"),
        ("complex64", "complex64"),
        ("complex128", "complex128"),
    ],
)
@pytest.mark.parametrize("name", ["sum", "prod", "cumulative_sum", "cumulative_prod"])
def test_dtype_of_sums_and_products(name, dtype, want):
    x = xp.ones((3,), dtype=getattr(xp, dtype))
    assert getattr(xp, name)(x).dtype == getattr(xp, want)


def test_the_default_integer_decides_how_far_sums_widen():
    x = xp.ones((3,), dtype=xp.uint8)
    with xp.set_default_dtype(xp.int32):
        assert xp.sum(x).dtype == xp.uint32
        assert xp.sum(xp.astype(x, xp.int16)).dtype == xp.int32
        assert xp.sum(xp.astype(x, xp.int64)).dtype == xp.int64


def test_dtype_casts_before_the_sum():
    x = xp.asarray([200, 100], dtype=xp.uint8)
    assert int(xp.sum(x, dtype=xp.uint8)) == 44
    assert int(xp.sum(x, dtype=xp.int32)) == 300
    total = xp.sum(xp.asarray([1.75, 1.75], dtype=xp.float32), dtype=xp.int32)
    assert total.dtype == xp.int32
    assert int(total) == 2
    fine = xp.sum(xp.asarray([1.0, 1e-9], dtype=xp.float32), dtype=xp.float64)
    assert abs(float(fine) - (1 + float(np.float32(1e-9)))) < 1e-15


def test_integer_means_are_default_floats():
    x = xp.asarray([1, 2, 4], dtype=xp.int8)
    for name, want in (("mean", 7 / 3), ("var", 14 / 9), ("std", (14 / 9) ** 0.5)):
        got = getattr(xp, name)(x)
        assert got.dtype == xp.float64
        assert abs(float(got) - want) < 1e-15
    assert xp.mean(xp.asarray([True, False])).dtype == xp.float64


def test_half_precision_accumulates_in_float32():
    small = xp.full((2**20,), 1e-5, dtype=xp.float16)
    assert abs(float(xp.mean(small)) - float(np.float16(1e-5))) < 1e-7
    ones = xp.ones((1000,), dtype=xp.bfloat16)
    assert float(xp.sum(ones)) == 1000.0
    assert float(xp.cumulative_sum(ones)[-1]) == 1000.0
    # In float16 the squares would overflow.
    wide = xp.asarray([-600.0, 600.0], dtype=xp.float16)
    assert float(xp.std(wide)) == 600.0
    assert xp.std(wide).dtype == xp.float16
    grown = xp.prod(xp.full((1000,), 1.0009765625, dtype=xp.float16))
    assert abs(float(grown) - 1.0009765625**1000) < 2e-3


@pytest.mark.parametrize(
    "values, correction", [([1.0], 1), ([1.0, 2.0], 2), ([1.0, 2.0], 3), ([], 1), ([], 0), ([1.0], 1.5)]
)
@pytest.mark.parametrize("name", ["var", "std"])
def test_no_degrees_of_freedom_give_nan(name, values, correction):
    x = xp.asarray(values, dtype=xp.float64)
    got = getattr(xp, name)(x, correction=correction)
    assert np.isnan(float(got))
    table = getattr(xp, name)(xp.reshape(x, (1, -1)), axis=1, correction=correction, keepdims=True)
    assert table.shape == (1, 1)
    assert np.isnan(float(table))


def test_correction_may_be_a_fraction():
    got = xp.var(xp.asarray([1.0, 2.0, 4.0]), correction=0.5)
    assert abs(float(got) - (14 / 3) / 2.5) < 1e-15


def test_complex_statistics():
    z = xp.asarray([1 + 2j, 3 - 1j], dtype=xp.complex64)
    assert complex(xp.sum(z)) == 4 + 1j
    assert complex(xp.prod(z)) == 5 + 5j
    assert complex(xp.mean(z)) == 2 + 0.5j
    assert xp.var(z).dtype == xp.float32
    assert float(xp.var(z)) == 3.25
    # The real and the imaginary part of a mean do not mix.
    odd = np.asarray(xp.mean(xp.asarray([complex(np.inf, 1.0), complex(1.0, 1.0)])))
    assert odd.real == np.inf
    assert odd.imag == 1.0
    empty = np.asarray(xp.mean(xp.zeros((0,), dtype=xp.complex64)))
    assert np.isnan(empty.real) and np.isnan(empty.imag)


def test_nan_propagates():
    x = xp.asarray([1.0, np.nan, 3.0])
    for name in ("sum", "prod", "max", "min", "mean", "var", "std"):
        assert np.isnan(float(getattr(xp, name)(x))), name
    z = xp.asarray([complex(1, np.nan), 2 + 0j])
    for name in ("max", "min"):
        assert np.isnan(np.asarray(getattr(xp, name)(z)).real), name


def test_empty_reductions():
    x = xp.zeros((0, 3), dtype=xp.float32)
    assert float(xp.sum(x)) == 0.0
    assert float(xp.prod(x)) == 1.0
    np.testing.assert_array_equal(np.asarray(xp.sum(x, axis=0)), np.zeros(3))
    assert xp.sum(x, axis=1).shape == (0,)
    assert np.isnan(np.asarray(xp.mean(x, axis=0))).all()
    assert xp.max(x, axis=1).shape == (0,)
    for call in (xp.max, xp.min):
        with pytest.raises(errors.InvalidArgument, match="at least one element"):
            call(x)
        with pytest.raises(errors.InvalidArgument):
            call(x, axis=0)


def test_max_and_min_of_bools_and_integers():
    assert bool(xp.max(xp.asarray([False, True])))
    assert xp.max(xp.asarray([False, True])).dtype == xp.bool
    big = xp.asarray([2**63, 1], dtype=xp.uint64)
    assert int(xp.max(big)) == 2**63
    assert int(xp.min(big)) == 1


@pytest.mark.parametrize("name", ["max", "min"])
def test_ties_share_the_gradient(name):
    x = jnp.asarray([2.0, 2.0, 2.0, 2.0])
    grad = jax.grad(lambda v: getattr(xp, name)(xp.Array(v)).jax)(x)
    np.testing.assert_array_equal(np.asarray(grad), [0.25] * 4)


@pytest.mark.parametrize("name, start", [("cumulative_sum", 0), ("cumulative_prod", 1)])
def test_cumulative(name, start):
    call, reference = getattr(xp, name), {"cumulative_sum": np.cumsum, "cumulative_prod": np.cumprod}[name]
    for axis in (0, 1, -1):
        want = reference(_X, axis=axis)
        got = call(xp.asarray(_X), axis=axis)
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-15)
        longer = np.asarray(call(xp.asarray(_X), axis=axis, include_initial=True))
        front = np.full_like(np.take(_X, [0], axis=axis), start)
        np.testing.assert_allclose(longer, np.concatenate([front, want], axis=axis), rtol=1e-15)
    with pytest.raises(errors.InvalidDimension, match="None for an array"):
        call(xp.asarray(_X))
    assert call(xp.zeros((0,), dtype=xp.float32)).shape == (0,)
    assert float(call(xp.zeros((0,)), include_initial=True)[0]) == start
    assert call(xp.asarray(3.0)).shape == (1,)


def test_cumulative_product_of_narrow_integers_widens():
    got = xp.cumulative_prod(xp.asarray([100, 100, 100], dtype=xp.int8))
    assert got.dtype == xp.int64
    assert [int(v) for v in got] == [100, 10_000, 1_000_000]


def test_results_are_not_weakly_typed():
    for name in ("sum", "prod", "max", "min", "mean", "var", "std", "cumulative_sum"):
        assert not getattr(xp, name)(xp.asarray([1.0, 2.0], dtype=xp.float32)).jax.weak_type, name


def test_other_arrays_and_scalars_are_taken():
    assert float(xp.sum(jnp.asarray([1.0, 2.0]))) == 3.0
    assert float(xp.sum(np.array([1.0, 2.0]))) == 3.0
    assert int(xp.sum(3)) == 3
    assert xp.sum(3).dtype == xp.int64


@pytest.mark.parametrize("axis", [2, -3, (0, 2), (0, 0), (0, -2)])
def test_wrong_axes(axis):
    for name in ("sum", "prod", "max", "min", "mean", "var", "std"):
        with pytest.raises(errors.InvalidDimension, match=name):
            getattr(xp, name)(xp.asarray(_X), axis=axis)


def test_wrong_dtypes():
    with pytest.raises(errors.DTypeMismatch, match="complex"):
        xp.sum(xp.ones((2,), dtype=xp.complex64), dtype=xp.float32)
    with pytest.raises(errors.DTypeMismatch, match="numeric"):
        xp.cumulative_sum(xp.ones((2,)), dtype=xp.bool)
    with pytest.raises(errors.InvalidArgument, match="integer"):
        xp.sum(xp.ones((2,)), axis=0.5)


def test_under_jit_the_same():
    x = jnp.asarray(_X, jnp.float32)
    for name in ("sum", "prod", "max", "min", "mean", "var", "std"):
        eager = getattr(xp, name)(xp.Array(x), axis=1)
        jitted = jax.jit(lambda v, name=name: getattr(xp, name)(xp.Array(v), axis=1).jax)(x)
        assert jitted.dtype == jnp.float32
        np.testing.assert_allclose(np.asarray(jitted), np.asarray(eager), rtol=1e-6)
