"""vmap on functions of Arrays."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.errors import InvalidArgument


def values(x: object) -> list[object]:
    return np.asarray(x).tolist()


def test_axes_in_and_out() -> None:
    x = xp.reshape(xp.arange(6, dtype=xp.float64), (2, 3))
    assert values(xp.vmap(xp.sum)(x)) == [3.0, 12.0]
    assert values(xp.vmap(xp.sum, in_axes=1)(x)) == [3.0, 5.0, 7.0]
    assert values(xp.vmap(lambda v, s: v * s, in_axes=(0, None))(x, 2.0)) == [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]]
    assert xp.vmap(lambda v: v, out_axes=1)(x).shape == (3, 2)
    tree = {"a": x, "b": xp.asarray([10.0, 20.0])}
    result = xp.vmap(lambda t: t["a"] + t["b"], in_axes=({"a": 0, "b": None},))
    assert result({"a": x, "b": xp.asarray([1.0, 2.0, 3.0])}).shape == (2, 3)
    assert values(xp.vmap(lambda t: t["b"])(tree)) == [10.0, 20.0]


def test_captured_arrays_are_the_same_for_every_row() -> None:
    weight = xp.asarray([1.0, 2.0])
    f = xp.vmap(lambda v: v * weight)
    assert values(f(xp.ones((2, 2)))) == [[1.0, 2.0], [1.0, 2.0]]
    weight[0] = 5.0
    assert values(f(xp.ones((2, 2)))) == [[5.0, 2.0], [5.0, 2.0]]


def test_a_write_to_an_argument_or_a_new_array_stays_inside() -> None:
    def f(v: xp.Array, fixed: xp.Array) -> xp.Array:
        out = xp.zeros(2)
        out[0] = v[0]
        v[0] = 9.0
        fixed[1] = v[1]
        return out + v + fixed

    x, fixed = xp.asarray([[1.0, 2.0], [3.0, 4.0]]), xp.asarray([0.0, 0.0])
    result = xp.vmap(f, in_axes=(0, None))(x, fixed)
    assert values(result) == [[10.0, 4.0], [12.0, 8.0]]
    assert values(x) == [[1.0, 2.0], [3.0, 4.0]]
    assert values(fixed) == [0.0, 0.0]


def test_names_and_sizes_of_the_axis() -> None:
    f = xp.vmap(lambda v: xp.asarray(jax.lax.psum(v.jax, "rows")), axis_name="rows")
    assert values(f(xp.asarray([1.0, 2.0]))) == [3.0, 3.0]
    assert xp.vmap(lambda: xp.ones(2), axis_size=3)().shape == (3, 2)


def test_composition() -> None:
    x = xp.asarray([[1.0, 2.0], [3.0, 4.0]])
    per_row = xp.jit(xp.vmap(xp.grad(lambda v: xp.sum(v * v))))
    assert values(per_row(x)) == [[2.0, 4.0], [6.0, 8.0]]
    assert values(xp.vmap(xp.jit(lambda v: v + 1.0))(x)) == [[2.0, 3.0], [4.0, 5.0]]
    assert values(xp.vmap(xp.vmap(lambda v: v * v))(x)) == [[1.0, 4.0], [9.0, 16.0]]


def test_axes_that_do_not_fit() -> None:
    with pytest.raises(InvalidArgument, match="vmap: argument in_axes"):
        xp.vmap(lambda a, b: a + b)(xp.ones((2, 3)), xp.ones((3, 3)))
    with pytest.raises(InvalidArgument, match="vmap: argument in_axes"):
        xp.vmap(lambda a: a, in_axes=4)(xp.ones((2, 3)))
    with pytest.raises(InvalidArgument, match="without such an axis.*Give None"):
        xp.vmap(lambda a, b: a * b)(2.0, xp.ones(3))
    with pytest.raises(InvalidArgument, match="axis_size"):
        xp.vmap(lambda a: a, in_axes=None)(xp.ones((2, 3)))
    with pytest.raises(ValueError, match="inside"):
        xp.vmap(_raise)(xp.ones((2, 3)))


def _raise(x: xp.Array) -> xp.Array:
    raise ValueError("inside")
