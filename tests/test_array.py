"""The Array: attributes, conversions, operators, copies, texts."""

from __future__ import annotations

import copy
import operator
import pickle
import warnings

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors

X = np.asarray([[1.5, -2.0, 3.0], [4.0, 0.5, -6.0]])
I = np.asarray([[1, 2, 3], [4, 5, 6]])  # noqa: E741


def test_attributes():
    x = xp.asarray(X, dtype=xp.float32)
    assert (x.dtype, x.shape, x.ndim, x.size, x.itemsize, x.nbytes) == (np.dtype("float32"), (2, 3), 2, 6, 4, 24)
    assert x.device == jax.devices()[0]
    assert x.T.shape == x.mT.shape == (3, 2)
    np.testing.assert_array_equal(np.asarray(x.T), X.T)
    assert isinstance(x.jax, jax.Array)
    assert len(x) == 2
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2025.12") is xp
    assert x.block_until_ready() is x


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: xp.ones((2, 2, 2)).T, errors.InvalidDimension),
        (lambda: xp.ones(2).mT, errors.InvalidDimension),
        (lambda: len(xp.asarray(1.0)), errors.InvalidDimension),
        (lambda: iter(xp.asarray(1.0)), errors.InvalidDimension),
        (lambda: bool(xp.ones(2)), errors.InvalidArgument),
        (lambda: bool(xp.ones(0)), errors.InvalidArgument),
        (lambda: float(xp.ones(2)), errors.InvalidArgument),
        (lambda: xp.ones(2).item(), errors.InvalidArgument),
        (lambda: float(xp.asarray(1j)), errors.DTypeMismatch),
        (lambda: int(xp.asarray(1j)), errors.DTypeMismatch),
        (lambda: range(3)[xp.asarray(1.0)], errors.DTypeMismatch),
        (lambda: range(3)[xp.asarray([1])], errors.InvalidDimension),
        (lambda: xp.ones(2).__array_namespace__(api_version="1999"), errors.InvalidArgument),
        (lambda: xp.Array([1, 2]), errors.InvalidArgument),
        (lambda: xp.ones(2).to_device("cpu", stream=1), errors.InvalidArgument),
        (lambda: hash(xp.ones(2)), TypeError),
        (lambda: jnp.sin(xp.ones(2)), TypeError),
    ],
)
def test_refused(call, error):
    with pytest.raises(error):
        call()


def test_conversions():
    assert bool(xp.asarray(3)) is True
    assert int(xp.asarray(3.9)) == 3
    assert float(xp.asarray(2)) == 2.0
    assert complex(xp.asarray(1 + 2j)) == 1 + 2j
    assert operator.index(xp.asarray(7)) == 7
    assert xp.asarray([[5]]).item() == 5
    assert xp.asarray(I).tolist() == I.tolist()
    assert f"{xp.asarray(1.25):.1f}" == "1.2"
    assert f"{xp.asarray([1.0])}" == "[1.]"
    assert 3 in xp.asarray(I)
    assert 9 not in xp.asarray(I)
    assert [float(row[0]) for row in xp.asarray(X)] == [1.5, 4.0]


BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "eq", "ne", "lt", "le", "gt", "ge"]
BITWISE = ["and_", "or_", "xor", "lshift", "rshift"]
OTHERS = {
    "array": lambda v: xp.asarray(v),
    "numpy": lambda v: np.asarray(v),
    "jax": lambda v: xp.asarray(v).jax,
}


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("name", BINARY)
def test_operators(name, kind):
    f = getattr(operator, name)
    a, b = np.abs(X) + 1, np.asarray([2.0, 1.0, 3.0])
    for left, right in ((xp.asarray(a), OTHERS[kind](b)), (OTHERS[kind](a), xp.asarray(b))):
        got = f(left, right)
        assert type(got) is xp.Array
        np.testing.assert_allclose(np.asarray(got), f(a, b), rtol=1e-14)


@pytest.mark.parametrize("name", [*BINARY, *BITWISE])
def test_operators_with_scalars(name):
    f = getattr(operator, name)
    for value, scalar in ((I, 2), (np.abs(X), 2.0), (np.abs(X), 2)):
        if name in BITWISE and value.dtype.kind != "i":
            continue
        for dtype in ("int32", "int64") if value.dtype.kind == "i" else ("float32", "float64"):
            a = value.astype(dtype)
            for got, want in (
                (f(xp.asarray(a), scalar), f(a, a.dtype.type(scalar))),
                (f(scalar, xp.asarray(a)), f(a.dtype.type(scalar), a)),
            ):
                if name == "truediv" and a.dtype.kind == "i":
                    continue  # the default float; tested below
                assert got.dtype == want.dtype
                np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6)


def test_scalars_never_widen():
    f, i = xp.ones(2, dtype=xp.float32), xp.ones(2, dtype=xp.int8)
    assert (f * 2.5).dtype == (f + 1).dtype == (2.5 / f).dtype == (f * np.float64(2)).dtype == xp.float32
    assert (i + 1).dtype == (i * True).dtype == xp.int8
    assert (f + 1j).dtype == xp.complex64
    assert (i + 1.5).dtype == (i / 2).dtype == xp.float64
    assert (xp.ones(2, dtype=xp.bfloat16) * 1e30).dtype == xp.bfloat16
    with pytest.raises(OverflowError):
        i + 1000
    # NumPy's other scalars have a dtype of their own, as a 0-d array has.
    assert (f * np.float32(2)).dtype == xp.float32


def test_signed_zero_and_nan_scalars_are_kept_apart():
    x = xp.ones(2)
    assert np.signbit(np.asarray(x * 0.0)).tolist() == [False, False]
    assert np.signbit(np.asarray(x * -0.0)).tolist() == [True, True]
    assert np.isnan(np.asarray(x * float("nan"))).all()
    assert (x * True).dtype == (x * 1).dtype == (x * 1.0).dtype == xp.float64
    assert (xp.asarray([1, 2]) * 1.0).dtype == xp.float64
    assert (xp.asarray([1, 2]) * 1).dtype == xp.int64


def test_unary_operators():
    np.testing.assert_array_equal(np.asarray(-xp.asarray(X)), -X)
    np.testing.assert_array_equal(np.asarray(+xp.asarray(X)), X)
    np.testing.assert_array_equal(np.asarray(abs(xp.asarray(X))), abs(X))
    np.testing.assert_array_equal(np.asarray(~xp.asarray(I)), ~I)
    np.testing.assert_array_equal(np.asarray(xp.asarray(X) ** 2), X**2)


def test_matmul_operator():
    a, b = xp.asarray(X), xp.asarray(X.T.copy())
    np.testing.assert_allclose(np.asarray(a @ b), X @ X.T, rtol=1e-15)
    np.testing.assert_allclose(np.asarray(X @ b), X @ X.T, rtol=1e-15)
    c = xp.asarray(np.eye(3))
    a @= c
    np.testing.assert_allclose(np.asarray(a), X)
    with pytest.raises(TypeError):
        a @ 2
    with pytest.raises(ValueError, match="matmul"):
        a @ a


@pytest.mark.parametrize("name", ["iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow"])
@pytest.mark.parametrize("other", [2, np.asarray([1.0, 2.0, 3.0]), "array"], ids=["scalar", "numpy", "array"])
def test_in_place(name, other):
    x = xp.asarray(np.abs(X), dtype=xp.float32)
    alias, want = x, np.abs(X).astype("float32")
    if isinstance(other, str):
        x = getattr(operator, name)(x, xp.asarray([1.0, 2.0, 3.0]))
        want = getattr(operator, name)(want, np.asarray([1.0, 2.0, 3.0], "float32"))
    else:
        x = getattr(operator, name)(x, other)
        want = getattr(operator, name)(want, other)
    assert x is alias
    assert x.dtype == xp.float32
    np.testing.assert_allclose(np.asarray(x), want, rtol=1e-6)


def test_in_place_integers():
    for name in ("iand", "ior", "ixor", "ilshift", "irshift"):
        x, want = xp.asarray(I), I.copy()
        alias = x
        x = getattr(operator, name)(x, 1)
        assert x is alias
        np.testing.assert_array_equal(np.asarray(x), getattr(operator, name)(want, 1))


@pytest.mark.parametrize(
    ("other", "error"),
    [
        (1.5, errors.DTypeMismatch),
        (np.asarray([0.5]), errors.DTypeMismatch),
        (1j, errors.DTypeMismatch),
        (np.ones((4, 2, 3), int), errors.ShapeMismatch),
        (np.ones(4, int), errors.BroadcastError),
        ("text", TypeError),
        (None, TypeError),
    ],
)
def test_in_place_refused(other, error):
    x = xp.asarray(I)
    with pytest.raises(error):
        x += other
    assert x.tolist() == I.tolist()


def test_foreign_types_get_their_turn():
    class Other:
        def __radd__(self, other):
            return "mine"

        def __eq__(self, other):
            return "equal"

    assert xp.ones(2) + Other() == "mine"
    assert (xp.ones(2) == Other()) == "equal"
    assert (xp.ones(2) == None) is False  # noqa: E711
    assert (xp.ones(2) != None) is True  # noqa: E711
    with pytest.raises(TypeError):
        xp.ones(2) + "text"
    with pytest.raises(TypeError):
        xp.ones(2) < "text"


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (lambda: xp.asarray([1.0, 2.0]), "Array([1., 2.])"),
        (lambda: xp.asarray([1.0, 2.0], dtype=xp.float32), "Array([1., 2.], dtype=float32)"),
        (lambda: xp.asarray([[1, 2], [3, 4]]), "Array([[1, 2],\n       [3, 4]])"),
        (lambda: xp.asarray(True), "Array(True)"),
        (lambda: xp.zeros((0, 3)), "Array([], shape=(0, 3), dtype=float64)"),
        (lambda: xp.zeros(0, dtype=xp.int8), "Array([], dtype=int8)"),
    ],
)
def test_repr(array, text):
    assert repr(array()) == text


def test_repr_of_a_traced_array():
    seen = []
    jax.jit(lambda x: seen.append(repr(x)) or x)(xp.ones(3))
    assert seen == ["Array(shape=(3,), dtype=float64, traced)"]


@pytest.mark.parametrize(
    "dtype", [np.float32, np.int64, np.bool_, np.complex128, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]
)
@pytest.mark.parametrize("form", [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy, xp.Array.copy])
def test_copies(form, dtype):
    x = xp.asarray(np.asarray([[0, 1], [1, 0]]).astype(dtype))
    y = form(x)
    assert (type(y), y.dtype, y.shape) == (xp.Array, x.dtype, (2, 2))
    y[0, 0] = True
    assert np.asarray(x).real.astype(float).tolist() == [[0, 1], [1, 0]]
    assert np.asarray(y).real.astype(float).tolist() == [[1, 1], [1, 0]]


def test_deepcopy_keeps_shared_references_shared():
    x = xp.ones(2)
    pair = copy.deepcopy([x, x])
    assert pair[0] is pair[1] is not x


def test_chained_writes_warn():
    x = xp.zeros((2, 2))
    with pytest.warns(errors.ChainedAssignmentWarning, match="one statement"):
        x[0][1] = 5
    with pytest.warns(errors.ChainedAssignmentWarning):
        x[0][1] += 5
    assert float(xp.sum(x)) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        row = x[0]
        row[1] = 5
        x[0, 1] = 5
        x[0, 1] += 5
        box = {"x": x}
        box["x"][0, 0] = 1
        for part in [xp.ones(2)]:
            part[0] = 2
        (lambda a: a.__setitem__(0, 3))(x)
    assert x.tolist() == [[3, 3], [0, 0]]


def test_reading_a_row_is_an_independent_copy():
    x = xp.zeros((2, 2))
    r = x[0]
    r += 1
    assert x.tolist() == [[0, 0], [0, 0]]
    assert r.tolist() == [1, 1]


@pytest.mark.parametrize("transform", [jax.jit, lambda f: f], ids=["jit", "eager"])
def test_at(transform):
    x = xp.asarray([1.0, 2.0, 3.0])
    i = xp.asarray([0, 0, 2])
    f = transform(
        lambda x, i: (
            x.at[i].add(1.0),
            x.at[1].set(9.0),
            x.at[i].multiply(2.0),
            x.at[0].min(0.5),
            x.at[0].max(5.0),
            x.at[i].subtract(1.0),
            x.at[1].divide(4.0),
            x.at[1].power(2.0),
            x.at[1].apply(lambda v: v + 1),
            x.at[1].get(),
        )
    )
    want = [[3, 2, 4], [1, 9, 3], [4, 2, 6], [0.5, 2, 3], [5, 2, 3], [-1, 2, 2], [1, 0.5, 3], [1, 4, 3], [1, 3, 3], 2]
    assert [part.tolist() for part in f(x, i)] == want
    assert x.tolist() == [1, 2, 3]


def test_array_of_an_array_shares():
    x = xp.ones(2) + 1
    y = xp.Array(x)
    y[0] = 5
    assert x.tolist() == [2, 2]


def test_an_array_without_axes_is_no_sequence() -> None:
    scalar = xp.asarray(1.0)
    for use in (len, iter, list):
        with pytest.raises(TypeError, match="0 axes"):
            use(scalar)
    assert not np.iterable(scalar)
    assert np.iterable(xp.ones(2))


def test_memory_beside_a_pickle_stays_the_callers():
    x = xp.arange(4, dtype=xp.float32)
    parts: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(x, protocol=5, buffer_callback=parts.append)
    room = np.zeros(80, np.uint8)
    start = -room.ctypes.data % 64  # aligned as XLA would take it without a copy
    memory = room[start : start + 16]
    memory[:] = np.frombuffer(parts[0].raw(), np.uint8)
    y = pickle.loads(pickled, buffers=[memoryview(memory)])
    memory[:] = 255
    np.testing.assert_array_equal(np.asarray(y), [0, 1, 2, 3])
    y[0] = 7.0
    assert (memory == 255).all()
