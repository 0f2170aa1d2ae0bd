from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors

X = np.array([[[0, 1, 2], [3, 0, 5]], [[1, 1, 1], [0, 0, 0]]])


def check(x: Any, expected: Any) -> None:
    want = np.asarray(expected)
    assert type(x) is xp.Array
    assert x.dtype == want.dtype and x.shape == want.shape
    np.testing.assert_array_equal(np.asarray(x), want)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (1, -1), ()])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint64, np.float32, np.float64, np.complex64])
def test_all_and_any(axis: Any, keepdims: bool, dtype: Any) -> None:
    x = X.astype(dtype)
    check(xp.all(xp.asarray(x), axis=axis, keepdims=keepdims), np.all(x, axis=axis, keepdims=keepdims))
    check(xp.any(xp.asarray(x), axis=axis, keepdims=keepdims), np.any(x, axis=axis, keepdims=keepdims))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1j, complex(0, math.nan)])
def test_what_is_not_zero_is_true(value: complex) -> None:
    check(xp.all(xp.asarray([value])), np.True_)
    check(xp.any(xp.asarray([value])), np.True_)


def test_nothing_to_reduce() -> None:
    check(xp.all(xp.zeros((0,))), np.True_)
    check(xp.any(xp.zeros((0,))), np.False_)
    check(xp.all(xp.zeros((2, 0)), axis=1), np.array([True, True]))
    check(xp.any(xp.zeros((2, 0)), axis=0), np.zeros(0, bool))
    check(xp.all(xp.asarray(2)), np.True_)


@pytest.mark.parametrize("call", [xp.all, xp.any])
def test_bad_axes(call: Any) -> None:
    for axis in (3, -4, (0, 0), (0, 5)):
        with pytest.raises(errors.InvalidDimension):
            call(xp.asarray(X), axis=axis)
    with pytest.raises(errors.InvalidArgument):
        call(xp.asarray(X), axis=1.5)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.float32, np.complex64])
def test_diff(axis: int, n: int, dtype: Any) -> None:
    x = (np.arange(60).reshape(3, 4, 5) ** 3 % 251).astype(dtype)
    check(xp.diff(xp.asarray(x), axis=axis, n=n), np.diff(x, n, axis))


def test_diff_with_edges() -> None:
    x = np.arange(12.0).reshape(3, 4) ** 2
    a, b = np.ones((3, 2)), np.zeros((3, 1))
    ours = [xp.asarray(part) for part in (x, a, b)]
    check(xp.diff(ours[0], prepend=ours[1]), np.diff(x, prepend=a))
    check(xp.diff(ours[0], append=ours[2]), np.diff(x, append=b))
    check(xp.diff(ours[0], n=2, prepend=ours[1], append=ours[2]), np.diff(x, 2, prepend=a, append=b))
    check(xp.diff(ours[0], prepend=0, append=1.5), np.diff(x, prepend=0, append=1.5))
    check(
        xp.diff(xp.asarray([1, 2], dtype=xp.int8), append=xp.asarray([5], dtype=xp.int16)), np.array([1, 3], np.int16)
    )


def test_diff_of_bools() -> None:
    check(xp.diff(xp.asarray([True, False, False])), np.array([True, False]))


def test_diff_errors() -> None:
    x = xp.ones((2, 3))
    with pytest.raises(errors.InvalidArgument):
        xp.diff(x, n=-1)
    for axis in (2, -3):
        with pytest.raises(errors.InvalidDimension):
            xp.diff(x, axis=axis)
    with pytest.raises(errors.InvalidDimension):
        xp.diff(xp.asarray(1.0))
    for edge in (xp.ones((3, 1)), xp.ones((2,)), xp.ones((2, 1, 1))):
        with pytest.raises(errors.ShapeMismatch):
            xp.diff(x, prepend=edge)


def test_under_jit() -> None:
    def f(v: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        x = xp.Array(v)
        return xp.all(x, axis=0).jax, xp.any(x).jax, xp.diff(x, append=0).jax

    v = jnp.asarray([[1.0, 0.0], [2.0, 3.0]])
    a, b, c = jax.jit(f)(v)
    np.testing.assert_array_equal(a, [True, False])
    assert bool(b)
    np.testing.assert_array_equal(c, [[-1, 0], [1, -3]])
