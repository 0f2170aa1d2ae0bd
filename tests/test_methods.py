"""The methods that arrays of NumPy have too, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors

X = np.array([[3.25, -1.5, 2.75], [0.5, 4.125, -1.5]])
Z = X + 1j * X[::-1]
N = np.array([[3, -125, 247], [0, 42, -1]])

CALLS = {
    "sum": lambda x: x.sum(),
    "sum of an axis": lambda x: x.sum(axis=1, keepdims=True),
    "sum in a dtype": lambda x: x.sum(0, np.float32),
    "prod": lambda x: x.prod(axis=0),
    "mean": lambda x: x.mean(),
    "mean in a dtype": lambda x: x.mean(axis=0, dtype=np.float32),
    "var": lambda x: x.var(axis=1, ddof=1),
    "std": lambda x: x.std(),
    "max": lambda x: x.max(axis=0),
    "min": lambda x: x.min(),
    "all": lambda x: x.all(axis=1),
    "any": lambda x: x.any(),
    "argmax": lambda x: x.argmax(),
    "argmin": lambda x: x.argmin(axis=1),
    "argsort": lambda x: x.argsort(),
    "argsort, flattened": lambda x: x.argsort(axis=None, kind="stable"),
    "cumsum": lambda x: x.cumsum(),
    "cumprod": lambda x: x.cumprod(axis=1),
    "reshape": lambda x: x.reshape(3, 2),
    "reshape to a tuple": lambda x: x.reshape((3, -1)),
    "reshape to one axis": lambda x: x.reshape(-1),
    "ravel": lambda x: x.ravel(),
    "flatten": lambda x: x.flatten(),
    "transpose": lambda x: x.transpose(),
    "transpose by axes": lambda x: x.reshape(1, 2, 3).transpose(2, 0, 1),
    "transpose by a tuple": lambda x: x.transpose((1, 0)),
    "swapaxes": lambda x: x.reshape(1, 2, 3).swapaxes(0, -1),
    "squeeze": lambda x: x.reshape(1, 6, 1).squeeze(),
    "squeeze an axis": lambda x: x.reshape(1, 6, 1).squeeze(axis=0),
    "repeat": lambda x: x.repeat(2),
    "repeat along an axis": lambda x: x.repeat(2, axis=1),
    "real": lambda x: x.real,
    "imag": lambda x: x.imag,
    "conj": lambda x: x.conj(),
    "conjugate": lambda x: x.conjugate(),
    "astype": lambda x: x.real.astype(np.int32),
    "clip": lambda x: x.real.clip(-1, 2),
    "round": lambda x: x.round(),
    "round to places": lambda x: x.round(1),
    "round to tens": lambda x: x.round(-1),
    "dot": lambda x: x.dot(x.T),
    "dot with a vector": lambda x: x.dot(x[0]),
    "dot of three axes": lambda x: x.reshape(1, 2, 3).dot(x.T),
    "nonzero": lambda x: x.nonzero(),
    "np.sum": lambda x: np.sum(x, axis=0),
    "np.mean": lambda x: np.mean(x),
    "np.std": lambda x: np.std(x, ddof=1),
    "np.max": lambda x: np.max(x, keepdims=True),
    "np.abs and max": lambda x: np.abs(x).max(),
    "np.reshape": lambda x: np.reshape(x, (3, 2)),
    "np.transpose": lambda x: np.transpose(x),
    "np.argsort": lambda x: np.argsort(x, axis=0),
    "np.round": lambda x: np.round(x, 1),
    "np.cumsum": lambda x: np.cumsum(x, axis=1),
}
# The standard has no mean of int64, no greatest complex number, and refuses what NumPy warns of: complex to real.
CASES = [
    pytest.param(values, call, id=f"{name}, {values.dtype}")
    for name, call in CALLS.items()
    for values in (X, Z, N)
    if not (values is N and any(word in name for word in ("mean", "var", "std")))
    if not (values is Z and (name in ("argmax", "argmin") or "in a dtype" in name))
]


@pytest.mark.parametrize(("values", "call"), CASES)
def test_the_methods_of_numpy(values, call):
    found, expected = call(xp.asarray(values)), call(values)
    for ours, theirs in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, expected)), strict=True):
        assert isinstance(ours, xp.Array)
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-6 if ours.dtype.itemsize == 4 else 1e-14)
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype


@pytest.mark.parametrize("operands", [(X, 0.75), (-7.5, X), (N, np.array([4, -3, 5])), (X, X[0])])
def test_divmod(operands):
    ours = tuple(xp.asarray(x) if isinstance(x, np.ndarray) else x for x in operands)
    for found, expected in zip(divmod(*ours), divmod(*operands), strict=True):
        assert isinstance(found, xp.Array)
        np.testing.assert_array_equal(np.asarray(found), expected)


def test_divmod_of_what_is_no_number():
    for operands in (("a", xp.asarray(X)), (xp.asarray(X), None)):
        with pytest.raises(TypeError, match="divmod"):
            divmod(*operands)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda x: x.sum(out=np.zeros(())), "out"),
        (lambda x: np.cumsum(x, axis=0, out=np.zeros((2, 3))), "out"),
        (lambda x: x.reshape((3, 2), order="F"), "order"),
        (lambda x: x.argsort(order="a"), "order"),
    ],
)
def test_what_numpy_takes_and_we_do_not(call, argument):
    with pytest.raises(errors.InvalidArgument, match=argument):
        call(xp.asarray(X))


@pytest.mark.parametrize("call", [lambda x: x.swapaxes(0, 2), lambda x: x.sum(axis=-3)])
def test_an_axis_out_of_range(call):
    with pytest.raises(errors.InvalidDimension):
        call(xp.asarray(X))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sort", r"no attribute 'sort'. Write x\[...\] = sort\(x\)"),
        ("fill", r"Write x\[...\] = value"),
        ("view", "numpy.asarray"),
        ("reshap", "Did you mean reshape?"),
        ("abacus", "no attribute 'abacus'$"),
        ("__cuda_array_interface__", "no attribute '__cuda_array_interface__'$"),
    ],
)
def test_what_numpy_has_and_we_do_not(name, words):
    with pytest.raises(AttributeError, match=words):
        getattr(xp.asarray(X), name)


def test_a_dtype_is_no_function():
    with pytest.raises(TypeError, match=r"asarray\(x, dtype=float32\)"):
        xp.float32(3)


def test_methods_never_give_a_view():
    x = xp.asarray(X)
    for copy in (x.ravel(), x.reshape(2, 3), x.real, x.transpose(), x.astype(xp.float64), x.squeeze()):
        copy[...] = 0
    np.testing.assert_array_equal(np.asarray(x), X)


def test_methods_under_jit():
    x = xp.asarray(X)
    found = xp.jit(lambda x: (x.sum(axis=0) * x.mean(), x.reshape(-1)[4], x.clip(max=1.0)))(x)
    for ours, theirs in zip(found, (X.sum(axis=0) * X.mean(), X[1, 1], X.clip(max=1.0)), strict=True):
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-14)
