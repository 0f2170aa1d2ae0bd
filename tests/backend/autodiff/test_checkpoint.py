"""Checkpointing: the same gradients, of a program that computes again what it does not keep."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from rtx_jax.backend import Autodiff, CpuBackend
from rtx_jax.backend.autodiff.graph import linearize
from rtx_jax.backend.autodiff.programs import gradient

B = Autodiff(CpuBackend())
X = B.from_data(np.linspace(0.25, 1.5, 6, dtype=np.float32), (2, 3))


def block(x: object, w: object) -> object:
    return B.tanh(B.mul(B.sin(x), w))


def test_values_and_gradients_are_the_same() -> None:
    found = []
    for run in (block, B.checkpoint(block)):
        x, w = B.require_grad(X), B.require_grad(B.full((3,), 0.5))
        y = run(run(x, w), w)
        grads = B.backward(B.sum(y))
        found.append([B.to_data(y), np.asarray(grads[x]), np.asarray(grads[w])])
    for plain, checkpointed in zip(*found, strict=True):
        np.testing.assert_allclose(checkpointed, plain, rtol=1e-6)


def sines(jaxpr: object) -> int:
    """Count the sines of a program, those of the programs that it calls each time that it calls them."""
    count = 0
    for equation in jaxpr.eqns:
        count += equation.primitive.name == "sin"
        for value in equation.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                count += sines(inner)
    return count


def test_the_block_is_computed_again() -> None:
    def count(run: object) -> int:
        x = B.require_grad(X)
        graph = linearize((B.sum(run(x))._source,), "test")
        return sines(jax.make_jaxpr(gradient(graph, (0,)))(X).jaxpr)

    def inner(x: object) -> object:
        return B.exp(B.exp(B.sin(x)))

    assert (count(inner), count(B.checkpoint(inner))) == (1, 2)


def test_it_is_one_node() -> None:
    x = B.require_grad(X)
    y = B.checkpoint(lambda x: B.exp(B.sin(B.exp(x))))(x)
    assert len(linearize((y._source,), "test").steps) == 1


def test_tensors_from_outside_have_gradients() -> None:
    x, scale = B.require_grad(X), B.require_grad(B.full((), 2.0))
    power = B.mul(scale, scale)
    y = B.checkpoint(lambda x: B.mul(B.mul(x, x), power))(x)
    grads = B.backward(B.sum(y))
    np.testing.assert_allclose(np.asarray(grads[scale]), 4 * (np.asarray(X) ** 2).sum(), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(grads[x]), 8 * np.asarray(X), rtol=1e-6)


def test_trees_and_other_arguments() -> None:
    def f(p: dict[str, object], times: int, name: str) -> dict[str, object]:
        assert name == "f"
        y = p["x"]
        for _ in range(times):
            y = B.mul(y, p["x"])
        return {"y": y, "constant": B.ones((2,)), "times": times}

    x = B.require_grad(X)
    out = B.checkpoint(f)({"x": x, "unused": B.ones((1,))}, 2, "f")
    assert out["times"] == 2 and not B.is_require_grad(out["constant"])
    np.testing.assert_allclose(np.asarray(B.backward(B.sum(out["y"]))[x]), 3 * np.asarray(X) ** 2, rtol=1e-6)


def test_the_draws_are_the_same() -> None:
    def noisy(x: object) -> object:
        return B.mul(B.mul(x, x), B.rand((2, 3)))

    x = B.require_grad(X)
    y = B.checkpoint(noisy)(x)
    noise = B.to_data(y).reshape(2, 3) / np.asarray(X) ** 2
    np.testing.assert_allclose(np.asarray(B.backward(B.sum(y))[x]), 2 * np.asarray(X) * noise, rtol=1e-5)


def test_without_a_tracked_argument_nothing_is_recorded() -> None:
    y = B.checkpoint(lambda x: B.exp(x))(X)
    assert isinstance(y, jax.Array)


def test_blocks_within_blocks() -> None:
    inner = B.checkpoint(lambda x: B.sin(B.exp(x)))
    outer = B.checkpoint(lambda x: B.mul(inner(x), inner(B.neg(x))))
    x = B.require_grad(X)
    got = np.asarray(B.backward(B.sum(outer(x)))[x])
    want = jax.grad(lambda x: (jax.numpy.sin(jax.numpy.exp(x)) * jax.numpy.sin(jax.numpy.exp(-x))).sum())(X)
    np.testing.assert_allclose(got, np.asarray(want), rtol=1e-5, atol=1e-6)


def test_in_a_function_that_is_differentiated() -> None:
    run = B.checkpoint(lambda x: B.sin(B.exp(x)))
    want = jax.grad(lambda x: jax.numpy.sin(jax.numpy.exp(x)).sum())(X)
    np.testing.assert_allclose(np.asarray(B.grad(lambda x: B.sum(run(x)))(X)), np.asarray(want), rtol=1e-5)
    # Under JAX's own transforms it is jax.checkpoint.
    np.testing.assert_allclose(np.asarray(jax.grad(lambda x: B.sum(run(x))[0])(X)), np.asarray(want), rtol=1e-5)


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap])
def test_under_a_trace(transform: object) -> None:
    run = B.checkpoint(lambda x: B.sin(B.exp(x)))

    def slope(value: jax.Array) -> jax.Array:
        x = B.require_grad(value)
        return B.backward(B.sum(run(x)))[x]

    want = np.cos(np.exp(np.asarray(X))) * np.exp(np.asarray(X))
    np.testing.assert_allclose(np.asarray(transform(slope)(X)), want, rtol=1e-5, atol=1e-6)
