"""Draws from the global generator under our transforms: fresh for each call, row and step, the same when recomputed."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.errors import RngUnderTrace


def draw(n: int = 4) -> xp.Array:
    return generator.random(n)


generator = xp.random.default_rng(0)


def test_calls_of_a_compiled_function_differ() -> None:
    traces = [0]

    @xp.jit
    def f() -> tuple[xp.Array, xp.Array]:
        traces[0] += 1
        return draw(), draw()

    first, second = f()
    third, _ = f()
    assert traces == [1]
    assert len({tuple(np.asarray(x).tolist()) for x in (first, second, third)}) == 3


def test_rows_of_vmap_and_steps_of_loops_differ() -> None:
    rows = np.asarray(xp.vmap(lambda x: x + draw(2))(xp.zeros((3, 2))))
    assert len(np.unique(rows)) == 6
    _, steps = xp.scan(lambda c, _: (c, draw(2)), xp.asarray(0.0), length=3)
    assert len(np.unique(np.asarray(steps))) == 6
    total = xp.fori_loop(0, 3, lambda i, c: c + draw(2), xp.zeros(2))
    assert len(np.unique(np.asarray(total))) == 2
    both = np.asarray(xp.jit(xp.vmap(lambda x: xp.scan(lambda c, _: (c, draw(2)), x, length=3)[1]))(xp.zeros(2)))
    assert len(np.unique(both)) == 12
    last = xp.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 0.0 + draw(1)), (xp.asarray(0), xp.zeros(1)))
    assert 0.0 <= float(last[1][0]) < 1.0


def test_value_and_gradient_of_a_checkpoint_use_the_same_draw() -> None:
    def f(x: xp.Array) -> xp.Array:
        return xp.sum(xp.sin(x * 1.0) * draw(3))

    # The sine's factor is the draw: value / sin(x) and gradient / cos(x) must be the same numbers.
    x = xp.asarray([0.5, 0.5, 0.5])
    value, gradient = xp.value_and_grad(xp.checkpoint(f))(x)
    np.testing.assert_allclose(float(value) / np.sin(0.5), np.sum(np.asarray(gradient)) / np.cos(0.5), rtol=1e-12)


def test_gradients_differ_between_calls() -> None:
    gradient = xp.grad(lambda x: xp.sum(x * draw(3)))
    assert np.asarray(gradient(xp.ones(3))).tolist() != np.asarray(gradient(xp.ones(3))).tolist()


def test_plain_jax_is_refused() -> None:
    with pytest.raises(RngUnderTrace, match="key="):
        jax.jit(lambda x: x + draw(1).jax)(np.zeros(1))
    with pytest.raises(RngUnderTrace):
        xp.jit(lambda x: jax.vmap(lambda v: v + draw(1))(x))(xp.zeros((2, 1)))


def test_a_seed_reproduces_a_compiled_function() -> None:
    f = xp.jit(lambda g=None: xp.random.default_rng(5).random(2))
    assert np.asarray(f()).tolist() == np.asarray(xp.random.default_rng(5).random(2)).tolist()
