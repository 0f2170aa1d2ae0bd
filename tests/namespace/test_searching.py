"""Searching functions: indices by hand and against NumPy, scalars, NaN, data-dependent shapes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors
from rtx_jax.namespace import searching

_X = np.array([[3.0, 1.0, 3.0], [0.0, 7.0, 7.0]])


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint64"])
def test_first_extreme(name, axis, keepdims, dtype):
    got = getattr(xp, name)(xp.asarray(_X, dtype=getattr(xp, dtype)), axis=axis, keepdims=keepdims)
    want = getattr(np, name)(_X, axis=axis, keepdims=keepdims)
    assert got.dtype == xp.int64
    assert got.shape == want.shape
    np.testing.assert_array_equal(np.asarray(got), want)


def test_extremes_of_nan_zeros_and_bools():
    assert int(xp.argmax(xp.asarray([1.0, np.nan, 5.0, np.nan]))) == 1
    assert int(xp.argmin(xp.asarray([1.0, np.nan, -5.0]))) == 1
    assert int(xp.argmax(xp.asarray([-0.0, 0.0]))) == 0
    assert int(xp.argmax(xp.asarray([False, True, True]))) == 1
    assert int(xp.argmax(xp.asarray(4.0))) == 0


def test_indices_take_the_default_integer():
    with xp.set_default_dtype(xp.int32):
        x = xp.asarray([1.0, 2.0], dtype=xp.float32)
        assert xp.argmax(x).dtype == xp.int32
        assert xp.count_nonzero(x).dtype == xp.int32
        assert xp.nonzero(x)[0].dtype == xp.int32
        assert xp.searchsorted(x, x).dtype == xp.int32


def test_extremes_refuse_what_has_none():
    for call in (xp.argmax, xp.argmin):
        with pytest.raises(errors.InvalidArgument, match="at least one element"):
            call(xp.zeros((0,)))
        with pytest.raises(errors.InvalidDimension):
            call(xp.zeros((2,)), axis=1)
        with pytest.raises(errors.UnsupportedDType, match="complex"):
            call(xp.ones((2,), dtype=xp.complex64))
    assert xp.argmax(xp.zeros((0, 2)), axis=1).shape == (0,)


def test_count_nonzero():
    x = np.array([[0.0, np.nan, -0.0], [1.0, 0.0, 2.0]])
    assert int(xp.count_nonzero(xp.asarray(x))) == 3
    np.testing.assert_array_equal(np.asarray(xp.count_nonzero(xp.asarray(x), axis=0)), [1, 1, 1])
    assert xp.count_nonzero(xp.asarray(x), axis=(0, 1), keepdims=True).shape == (1, 1)
    assert int(xp.count_nonzero(xp.asarray([0j, 1j, 1 + 0j]))) == 2
    assert int(xp.count_nonzero(xp.asarray([True, False]))) == 1
    assert xp.count_nonzero(xp.asarray([True, False])).dtype == xp.int64


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bool", "int8", "bfloat16", "complex128"])
def test_nonzero(on_device, dtype):
    x = xp.asarray(np.array([[0, 3, 0], [1, 0, 2]]), dtype=getattr(xp, dtype))
    rows, columns = searching._nonzero_on_device(x, xp.int64) if on_device else xp.nonzero(x)
    assert [int(i) for i in rows] == [0, 1, 1]
    assert [int(i) for i in columns] == [1, 0, 2]
    assert rows.dtype == columns.dtype == xp.int64
    (none,) = searching._nonzero_on_device(xp.zeros((3,)), xp.int64) if on_device else xp.nonzero(xp.zeros((3,)))
    assert none.shape == (0,)


def test_nonzero_stays_on_its_device():
    device = jax.devices()[-1]
    x = xp.asarray([0.0, 1.0], device=device)
    (i,) = xp.nonzero(x)
    assert i.device == device


def test_nonzero_refuses_scalars_and_traces():
    with pytest.raises(errors.InvalidDimension):
        xp.nonzero(xp.asarray(1.0))
    with pytest.raises(errors.DataDependentShape, match="where"):
        jax.jit(lambda v: xp.nonzero(xp.Array(v))[0].jax)(jnp.ones(3))


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted(side):
    x1 = np.array([1.0, 2.0, 2.0, 5.0])
    x2 = np.array([[0.0, 1.0, 2.0], [3.0, 5.0, 9.0]])
    got = xp.searchsorted(xp.asarray(x1), xp.asarray(x2), side=side)
    assert got.dtype == xp.int64
    np.testing.assert_array_equal(np.asarray(got), np.searchsorted(x1, x2, side=side))
    assert int(xp.searchsorted(xp.asarray(x1), 2.0, side=side)) == (1 if side == "left" else 3)


def test_searchsorted_with_a_sorter():
    x1 = xp.asarray([5.0, 1.0, 2.0])
    for dtype in (xp.int8, xp.int64):
        sorter = xp.asarray([1, 2, 0], dtype=dtype)
        assert int(xp.searchsorted(x1, 2.5, sorter=sorter)) == 2
        assert [int(i) for i in xp.searchsorted(x1, xp.asarray([0.0, 9.0]), sorter=sorter)] == [0, 3]


def test_searchsorted_agrees_with_sort_on_nan_and_zeros():
    x1 = xp.asarray([0.0, 1.0, np.nan])
    assert [int(i) for i in xp.searchsorted(x1, xp.asarray([0.5, 2.0, np.nan]))] == [1, 2, 2]
    assert [int(i) for i in xp.searchsorted(x1, xp.asarray([np.nan]), side="right")] == [3]
    zeros = xp.asarray([-0.0, 0.0])
    assert int(xp.searchsorted(zeros, 0.0)) == 0
    assert int(xp.searchsorted(zeros, -0.0, side="right")) == 2


def test_searchsorted_promotes():
    ints = xp.asarray([1, 2, 3])
    assert int(xp.searchsorted(ints, 2.5)) == 2
    assert int(xp.searchsorted(xp.asarray([1, 2], dtype=xp.uint32), xp.asarray(-1, dtype=xp.int32))) == 0
    assert int(xp.searchsorted(xp.asarray([-1, 2], dtype=xp.int32), xp.asarray(2**32 - 1, dtype=xp.uint32))) == 2
    assert xp.searchsorted(xp.zeros((0,)), xp.ones((2,))).shape == (2,)


def test_searchsorted_errors():
    x = xp.asarray([1.0, 2.0])
    with pytest.raises(errors.InvalidDimension):
        xp.searchsorted(xp.ones((2, 2)), x)
    with pytest.raises(errors.InvalidArgument, match="side"):
        xp.searchsorted(x, x, side="middle")
    with pytest.raises(errors.ShapeMismatch, match="sorter"):
        xp.searchsorted(x, x, sorter=xp.asarray([0]))
    with pytest.raises(errors.DTypeMismatch, match="sorter"):
        xp.searchsorted(x, x, sorter=xp.asarray([0.0, 1.0]))


@pytest.mark.parametrize(
    ("x1", "x2", "want"),
    [
        ("float32", 1.0, "float32"),
        ("float32", 1, "float32"),
        ("int8", 1, "int8"),
        ("int8", 1.0, "float64"),
        ("float32", 1j, "complex64"),
        ("bool", True, "bool"),
        ("uint32", "int32", "int64"),
        ("float32", "float64", "float64"),
        ("float16", 2.0, "float16"),
    ],
)
def test_dtype_of_where(x1, x2, want):
    a = xp.ones((2,), dtype=getattr(xp, x1))
    b = xp.ones((2,), dtype=getattr(xp, x2)) if isinstance(x2, str) else x2
    condition = xp.asarray([True, False])
    for got in (xp.where(condition, a, b), xp.where(condition, b, a)):
        assert got.dtype == getattr(xp, want)
        assert not got.jax.weak_type


def test_where():
    condition = xp.asarray([[True], [False]])
    got = xp.where(condition, xp.asarray([1.0, 2.0]), 0.0)
    np.testing.assert_array_equal(np.asarray(got), [[1.0, 2.0], [0.0, 0.0]])
    np.testing.assert_array_equal(np.asarray(xp.where(condition, -0.0, xp.asarray([1.0]))), [[-0.0], [1.0]])
    assert np.signbit(np.asarray(xp.where(condition, -0.0, xp.asarray([1.0]))))[0, 0]
    np.testing.assert_array_equal(np.asarray(xp.where(xp.asarray([0, 2]), 1, 2)), [2, 1])
    with pytest.raises(errors.BroadcastError, match="where"):
        xp.where(xp.asarray([True, False]), xp.ones((3,)), 0.0)


def test_where_under_jit_and_grad():
    x = jnp.asarray([-1.0, 2.0])
    f = jax.jit(lambda v: xp.sum(xp.where(xp.Array(v) > 0, xp.Array(v) * 3, 0.0)).jax)
    assert float(f(x)) == 6.0
    np.testing.assert_array_equal(np.asarray(jax.grad(f)(x)), [0.0, 3.0])
