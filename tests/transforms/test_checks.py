"""checked and debug_nans: errors that compiled code cannot raise."""

from __future__ import annotations

import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.errors import IndexOutOfBounds, InvalidArgument


def test_a_clean_call_has_no_error() -> None:
    error, value = xp.checked(lambda x: x / 2.0)(xp.ones(2))
    assert not error
    assert error.get() is None
    error.throw()
    assert np.asarray(value).tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    "f", [lambda x, i: x[i], lambda x, i: xp.take(x, i), lambda x, i: _set(x, i)], ids=["get", "take", "set"]
)
@pytest.mark.parametrize("compiled", [False, True])
def test_an_index_out_of_range(f: object, compiled: bool) -> None:
    g = xp.checked(f)
    run = xp.jit(g) if compiled else g
    x = xp.zeros(3)
    error, _ = run(x, xp.asarray([5]))
    assert error
    with pytest.raises(IndexOutOfBounds, match=r"index \d is out of bounds for axis 0"):
        error.throw()
    assert not run(x, xp.asarray([-1]))[0]


def _set(x: xp.Array, i: xp.Array) -> xp.Array:
    x[i] = 1.0
    return x


def test_nan_and_division() -> None:
    error, _ = xp.checked(lambda x: xp.log(x), errors=["nan"])(xp.asarray([-1.0]))
    with pytest.raises(FloatingPointError, match="nan"):
        error.throw()
    error, _ = xp.checked(lambda x: 1.0 / x, errors=["division"])(xp.asarray([0.0]))
    with pytest.raises(ZeroDivisionError):
        error.throw()


def test_an_unknown_check() -> None:
    with pytest.raises(InvalidArgument, match="wanted index, nan, division"):
        xp.checked(lambda x: x, errors=["speed"])


@pytest.mark.parametrize("write", [False, True])
def test_debug_nans_names_the_operation_of_a_compiled_function(write: bool) -> None:
    @xp.jit
    def f(x: xp.Array) -> xp.Array:
        y = xp.log(x * 2.0) + 1.0
        if write:
            x[0] = y[0]
        return y

    x = xp.asarray([-1.0, 1.0], dtype=xp.float32)
    f(xp.asarray([-1.0, 1.0], dtype=xp.float32))
    with xp.debug_nans(), pytest.raises(FloatingPointError, match=r"f: log made NaN .*float32\[2\]"):
        f(x)
    assert np.asarray(x).tolist() == [-1.0, 1.0]
    with xp.debug_nans():
        f(xp.asarray([np.nan, 1.0], dtype=xp.float32))
        assert np.isfinite(np.asarray(f(xp.asarray([1.0, 2.0])))).all()
    with xp.debug_nans(), pytest.raises(FloatingPointError, match=r"log"):
        xp.log(x)
