from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors

X = np.arange(24.0).reshape(2, 3, 4)
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def check(x: Any, expected: Any) -> None:
    want = np.asarray(expected)
    assert type(x) is xp.Array
    assert x.dtype == want.dtype and x.shape == want.shape
    np.testing.assert_array_equal(np.asarray(x), want)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_take(axis: int) -> None:
    indices = np.array([1, 0, -1, -2, 1])
    check(xp.take(xp.asarray(X), xp.asarray(indices), axis=axis), np.take(X, indices, axis))
    check(xp.take(xp.asarray(X), xp.zeros((0,), dtype=xp.int32), axis=axis), np.take(X, np.zeros(0, int), axis))


def test_take_of_a_vector_needs_no_axis() -> None:
    check(xp.take(xp.arange(5), xp.asarray([3, -1])), np.array([3, 4]))
    with pytest.raises(errors.InvalidDimension):
        xp.take(xp.asarray(X), xp.asarray([0]))


def test_take_takes_the_axes_of_the_indices() -> None:
    indices = np.array([[0, 1], [2, -1]])
    check(xp.take(xp.asarray(X), xp.asarray(indices), axis=1), np.take(X, indices, 1))
    check(xp.take(xp.asarray(X), xp.asarray(-1), axis=1), np.take(X, -1, 1))


@pytest.mark.parametrize("size", [100, 300, 70_000])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_narrow_indices(dtype: str, size: int) -> None:
    info = np.iinfo(dtype)
    places = [i for i in (0, 5, 99, 127, 255, 299, 4463, 69_999, -1, -2, -100, -128, -70_000) if -size <= i < size]
    places = [i for i in places if info.min <= i <= info.max]
    host = np.arange(size)
    indices = np.array(places, dtype)
    want = np.array([i % size for i in places])
    check(xp.take(xp.asarray(host), xp.asarray(indices)), want)
    check(xp.take_along_axis(xp.asarray(host), xp.asarray(indices)), want)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("call", [xp.take, xp.take_along_axis])
def test_out_of_range_raises(call: Any, dtype: str) -> None:
    info = np.iinfo(dtype)
    for index in (7, 8, 127, info.max, -8, info.min):
        if index == 0 or not info.min <= index <= info.max:
            continue
        with pytest.raises(errors.IndexOutOfBounds):
            call(xp.arange(7), xp.asarray(np.array([0, index], dtype)), axis=0)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("call", [xp.take, xp.take_along_axis])
def test_out_of_range_under_tracing(call: Any, dtype: str) -> None:
    info = np.iinfo(dtype)
    indices = np.array([i for i in (0, 7, info.max, -8, info.min) if info.min <= i <= info.max], dtype)
    with jax.enable_x64(True):
        for kind, missing in ((np.float32, math.nan), (np.int16, -(2**15)), (np.uint8, 0), (np.bool_, False)):
            x = np.ones(7, kind)
            want = np.array([missing if i not in range(-7, 7) else 1 for i in indices.tolist()], kind)
            got = jax.jit(lambda v, i: call(xp.Array(v), xp.Array(i), axis=0).jax)(jnp.asarray(x), jnp.asarray(indices))
            np.testing.assert_array_equal(got, want)
            assert got.dtype == want.dtype


def test_empty_axis() -> None:
    with pytest.raises(errors.IndexOutOfBounds):
        xp.take(xp.zeros((0,)), xp.asarray([0]))
    got = jax.jit(lambda v, i: xp.take(xp.Array(v), xp.Array(i), axis=0).jax)(jnp.zeros((0, 2)), jnp.asarray([0]))
    np.testing.assert_array_equal(got, np.full((1, 2), math.nan))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_take_along_axis(axis: int) -> None:
    order = np.argsort(-X, axis=axis)
    check(xp.take_along_axis(xp.asarray(X), xp.asarray(order), axis=axis), np.take_along_axis(X, order, axis))
    first = np.zeros([1 if i == axis % 3 else n for i, n in enumerate(X.shape)], int) - 1
    check(xp.take_along_axis(xp.asarray(X), xp.asarray(first), axis=axis), np.take_along_axis(X, first, axis))


def test_take_along_axis_broadcasts() -> None:
    indices = np.array([[[0, -1, 1, 0, 2]]])
    check(xp.take_along_axis(xp.asarray(X), xp.asarray(indices), axis=2), np.take_along_axis(X, indices, 2))
    one = X[:1]
    many = np.array([[[0]], [[1]], [[-1]]])
    check(xp.take_along_axis(xp.asarray(one), xp.asarray(many), axis=1), np.take_along_axis(one, many, 1))


def test_errors() -> None:
    x = xp.asarray(X)
    for call in (xp.take, xp.take_along_axis):
        with pytest.raises(errors.UnsupportedDType):
            call(x, xp.zeros((2, 3, 4)), axis=0)
        with pytest.raises(errors.UnsupportedDType):
            call(x, xp.ones((2, 3, 4), dtype=xp.bool), axis=0)
        for axis in (3, -4):
            with pytest.raises(errors.InvalidDimension):
                call(x, xp.zeros((2, 3, 4), dtype=xp.int32), axis=axis)
        with pytest.raises(errors.InvalidArgument):
            call(x, xp.zeros((2, 3, 4), dtype=xp.int32), axis=1.5)
    with pytest.raises(errors.InvalidDimension):
        xp.take_along_axis(x, xp.asarray([0]), axis=0)
    with pytest.raises(errors.BroadcastError):
        xp.take_along_axis(x, xp.zeros((2, 2, 4), dtype=xp.int32), axis=0)


def test_gradient_of_take() -> None:
    def f(v: jax.Array) -> jax.Array:
        return xp.sum(xp.take(xp.Array(v), xp.asarray([0, 2, 2], dtype=xp.int32))).jax

    np.testing.assert_array_equal(jax.grad(f)(jnp.ones(3)), [1, 0, 2])
