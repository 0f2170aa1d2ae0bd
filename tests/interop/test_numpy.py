"""NumPy on Arrays: views and copies, operators of both sides, ufuncs."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import rtx_jax as xp
from rtx_jax.errors import ConcretizationError, DTypeMismatch, InvalidArgument, NotImplementedOp

A, B = np.array([0.25, 0.5, 0.75]), np.array([1.0, 2.0, 3.0])
M, N = np.array([6, 4, 9]), np.array([4, 2, 6])

UNARY_FLOAT = (
    "absolute arccos arcsin arctan arctanh cbrt ceil conjugate cos cosh deg2rad degrees exp exp2 expm1 fabs floor "
    "isfinite isinf isnan log log10 log1p log2 negative positive rad2deg radians reciprocal rint sign signbit sin sinh "
    "sqrt square tan tanh trunc"
).split()
BINARY_FLOAT = (
    "add arctan2 copysign divide equal floor_divide fmax fmin fmod greater greater_equal heaviside hypot less "
    "less_equal logaddexp logaddexp2 maximum minimum multiply nextafter not_equal power remainder subtract"
).split()
BINARY_INTEGER = "bitwise_and bitwise_or bitwise_xor gcd lcm left_shift right_shift add multiply remainder".split()


def _close(got, expected):
    assert isinstance(got, xp.Array)
    assert got.shape == expected.shape and got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=4e-16)


# --- arrays and views ---------------------------------------------------------------------------------------------


def test_a_view_is_free_and_read_only():
    x = xp.arange(5.0)
    view = np.asarray(x, copy=False)
    assert not view.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1.0
    assert (x + 1.0).tolist() == [1, 2, 3, 4, 5]
    y = x + 1.0
    assert np.asarray(y, copy=False).ctypes.data == y.jax.unsafe_buffer_pointer()


def test_a_view_keeps_its_values():
    x = xp.arange(5.0) + 0.0
    view = np.asarray(x, copy=False)
    x[0] = 9.0
    x += 1
    assert view.tolist() == [0, 1, 2, 3, 4]
    assert x.tolist() == [10, 2, 3, 4, 5]


def test_a_copy_is_the_callers():
    x = xp.arange(3.0)
    makers = (np.array, lambda x: np.asarray(x, dtype=np.float32), lambda x: x.__array__(copy=True))
    for make in makers:
        host = make(x)
        host[0] = 7.0
        assert host[0] == 7.0
    assert x.tolist() == [0, 1, 2] and xp.arange(3.0).tolist() == [0, 1, 2]
    assert np.asarray(x, dtype=np.int16).dtype == np.int16


def test_a_view_is_read_only():
    x = xp.arange(3.0)
    for view in (np.asarray(x), np.asarray(x, copy=False)):
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 7.0
    assert x.tolist() == [0, 1, 2]


def test_a_copy_that_was_ruled_out():
    with pytest.raises(InvalidArgument, match="copy"):
        np.asarray(xp.arange(3.0), dtype=np.float32, copy=False)


def test_memory_that_comes_in_is_copied():
    for make in (xp.asarray, xp.array, lambda a: xp.zeros(1_000_000) + a, lambda a: xp.add(a, xp.zeros(()))):
        host = np.ones(1_000_000)
        x = make(host)
        host[:] = 7.0
        assert float(x[0]) == 1.0 and float(xp.max(x)) == 1.0
        x[1] = 3.0
        assert host[1] == 7.0


def test_every_dtype_goes_out():
    for name in ("bool", "int8", "uint64", "float16", "bfloat16", "float8_e5m2", "complex64", "complex128"):
        x = xp.ones(3, dtype=getattr(xp, name))
        assert np.asarray(x).dtype == x.dtype


def test_no_values_while_tracing():
    with pytest.raises(ConcretizationError, match="__array__"):
        xp.jit(lambda x: np.asarray(x))(xp.ones(3))


# --- operators ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "run",
    [
        lambda a, b: a + b,
        lambda a, b: a - b,
        lambda a, b: a * b,
        lambda a, b: a / b,
        lambda a, b: a // b,
        lambda a, b: a % b,
        lambda a, b: a**b,
        lambda a, b: a @ b,
        lambda a, b: a == b,
        lambda a, b: a < b,
        lambda a, b: a >= b,
    ],
)
def test_ndarray_and_array_give_array(run):
    expected = np.asarray(run(A, B))
    _close(run(A, xp.asarray(B)), expected)
    _close(run(xp.asarray(A), B), expected)


@pytest.mark.parametrize("scalar", [np.float64(2.5), np.float32(2.5), np.int32(3), np.bool_(True)])
def test_numpy_scalars(scalar):
    x = xp.asarray(B)
    _close(scalar * x, np.asarray(scalar * B))
    _close(x - scalar, np.asarray(B - scalar * 1))


def test_in_place_operators_keep_the_kind_of_the_left():
    x, host = xp.asarray(B), B.copy()
    same = x
    x += A
    assert x is same and np.array_equal(x, B + A)
    before = host
    host += xp.asarray(A)
    assert host is before and isinstance(host, np.ndarray) and np.array_equal(host, B + A)
    counts = np.zeros(3, dtype=np.int64)
    with pytest.raises(DTypeMismatch, match="int64"):
        counts += xp.asarray(A)
    assert counts.tolist() == [0, 0, 0]


# --- ufuncs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", UNARY_FLOAT)
def test_unary_ufuncs(name):
    function = getattr(np, name)
    _close(function(xp.asarray(A)), function(A))


def test_unary_ufuncs_of_other_domains():
    _close(np.arccosh(xp.asarray(B)), np.arccosh(B))
    _close(np.arcsinh(xp.asarray(B)), np.arcsinh(B))
    _close(np.invert(xp.asarray(M)), np.invert(M))
    _close(np.logical_not(xp.asarray([True, False])), np.array([False, True]))
    _close(np.conjugate(xp.asarray([1 + 2j])), np.array([1 - 2j]))


@pytest.mark.parametrize("name", BINARY_FLOAT)
def test_binary_ufuncs(name):
    function = getattr(np, name)
    for a, b in ((xp.asarray(A), B), (A, xp.asarray(B)), (xp.asarray(A), xp.asarray(B)), (xp.asarray(A), 2.0)):
        _close(function(a, b), function(A, np.asarray(b)))


@pytest.mark.parametrize("name", BINARY_INTEGER)
def test_integer_ufuncs(name):
    function = getattr(np, name)
    _close(function(xp.asarray(M), N), function(M, N))
    _close(function(M, xp.asarray(N)), function(M, N))


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logical_ufuncs(name):
    a, b = np.array([True, True, False]), np.array([True, False, False])
    _close(getattr(np, name)(xp.asarray(a), b), getattr(np, name)(a, b))


def test_integers_become_the_default_float():
    _close(np.cbrt(xp.asarray(M)), np.cbrt(M.astype(np.float64)))
    assert np.exp2(xp.asarray(M, dtype=xp.int8)).dtype == xp.float64


def test_ufuncs_with_two_results():
    for function, arguments in ((np.divmod, (B, 2.0)), (np.modf, (np.array([1.5, -2.25, np.inf]),))):
        got = function(*(xp.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments))
        expected = function(*arguments)
        assert isinstance(got, tuple) and len(got) == 2
        for g, e in zip(got, expected, strict=True):
            if function is np.divmod:
                _close(g, e)
    fraction, whole = np.modf(xp.asarray([1.5, -2.25]))
    assert fraction.tolist() == [0.5, -0.25] and whole.tolist() == [1.0, -2.0]


def test_products():
    m, v = np.arange(6.0).reshape(2, 3), np.arange(3.0)
    _close(np.matmul(m, xp.asarray(v)), m @ v)
    _close(np.vecdot(xp.asarray(m), v), np.vecdot(m, v))


def test_out():
    x, out = xp.asarray(A), xp.zeros(3)
    view = np.asarray(out, copy=False)
    assert np.add(x, 1.0, out=out) is out
    assert_array_equal(out, A + 1)
    assert view.tolist() == [0, 0, 0]
    host = np.zeros(3, dtype=np.float32)
    assert np.add(x, 1.0, out=host) is host
    assert_array_equal(host, (A + 1).astype(np.float32))
    with pytest.raises(InvalidArgument, match=r"shape \(2,\)"):
        np.add(x, 1.0, out=xp.zeros(2))
    for bad in (np.zeros(3, np.int64), xp.zeros(3, dtype=xp.int64)):
        with pytest.raises(DTypeMismatch):
            np.add(x, 1.0, out=bad)
        assert_array_equal(bad, 0)


def test_where_and_dtype():
    x, mask = xp.asarray(A), np.array([True, False, True])
    out = xp.full(3, 9.0)
    assert np.add(x, 1.0, where=mask, out=out) is out
    assert out.tolist() == [1.25, 9.0, 1.75]
    with pytest.raises(InvalidArgument, match="where"):
        np.add(x, 1.0, where=mask)
    _close(np.add(x, 1, dtype=np.float32), (A + 1).astype(np.float32))


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (np.sum, {}),
        (np.sum, {"axis": 1}),
        (np.sum, {"axis": (0, 1), "keepdims": True}),
        (np.prod, {"axis": 0}),
        (np.max, {}),
        (np.min, {"axis": -1, "keepdims": True}),
        (np.add.reduce, {}),
        (np.multiply.reduce, {"axis": 1}),
        (np.add.accumulate, {"axis": 1}),
        (np.multiply.accumulate, {}),
    ],
)
def test_reductions(function, options):
    x = np.arange(1.0, 7.0).reshape(2, 3)
    _close(function(xp.asarray(x), **options), np.asarray(function(x, **options)))


def test_all_and_any():
    m = np.array([[True, False], [True, True]])
    _close(np.all(xp.asarray(m), axis=1), np.array([False, True]))
    _close(np.any(xp.asarray(m)), np.asarray(True))


def test_reduction_with_a_dtype():
    _close(np.sum(xp.asarray(M), dtype=np.float32), np.asarray(M.sum(), np.float32))


def test_outer():
    _close(np.multiply.outer(xp.asarray(A), M), np.multiply.outer(A, M))
    _close(np.subtract.outer(A, xp.ones((2, 2))), np.subtract.outer(A, np.ones((2, 2))))


@pytest.mark.parametrize(
    "run",
    [
        lambda x: np.frexp(x),
        lambda x: np.add.at(x, [0], 1.0),
        lambda x: np.add.reduceat(x, [0, 1]),
        lambda x: np.subtract.reduce(x),
        lambda x: np.add(x, 1.0, casting="unsafe"),
        lambda x: np.add.reduce(x, where=np.array([True, False, True])),
    ],
)
def test_what_is_not_there_raises_and_changes_nothing(run):
    x = xp.asarray(A)
    with pytest.raises(NotImplementedOp, match=r"numpy\.asarray"):
        run(x)
    assert_array_equal(x, A)


def test_ufuncs_under_a_trace():
    f = xp.jit(lambda x: np.sin(x) + np.ones(3) * x)
    np.testing.assert_allclose(f(xp.asarray(A)), np.sin(A) + A, rtol=1e-15)
    slope = xp.grad(lambda x: np.sum(np.sqrt(x)))(xp.asarray(B))
    np.testing.assert_allclose(slope, 0.5 / np.sqrt(B), rtol=1e-15)


def test_functions_of_numpy_that_are_no_ufuncs_convert():
    x = xp.asarray(A)
    assert isinstance(np.concatenate([x, x]), np.ndarray)
    assert np.allclose(x, A) and np.array_equal(x, A)
    assert np.mean(x) == 0.5
    assert copy.deepcopy(x).tolist() == x.tolist()
    assert sorted(np.unique(x)) == list(A)
