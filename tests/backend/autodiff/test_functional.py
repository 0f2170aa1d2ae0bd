"""Derivatives of functions: like those of `jax`, and like those of a backward pass."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.backend import Autodiff, CpuBackend, TrackedTensor

B = Autodiff(CpuBackend())
X = B.from_data(np.linspace(0.25, 1.5, 6, dtype=np.float32), (2, 3))
V = B.from_data(np.float32([1, -2, 0.5, 3, -1, 2]), (2, 3))


def ours(x: object) -> object:
    """A number: ``sum(exp(sin x) * x**2)``."""
    return B.sum(B.mul(B.exp(B.sin(x)), B.pow(x, 2.0)))


def theirs(x: jax.Array) -> jax.Array:
    return jnp.sum(jnp.exp(jnp.sin(x)) * x**2)


def close(got: object, want: object, rtol: float = 1e-5) -> None:
    assert got.shape == want.shape and got.dtype == want.dtype
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=rtol, atol=1e-5)


def test_grad() -> None:
    got = B.grad(ours)(X)
    assert isinstance(got, jax.Array)
    close(got, jax.grad(theirs)(X))


def test_grad_is_that_of_backward() -> None:
    leaf = B.require_grad(X)
    np.testing.assert_array_equal(np.asarray(B.grad(ours)(X)), np.asarray(B.backward(ours(leaf))[leaf]))


def test_value_and_grad() -> None:
    value, gradient = B.value_and_grad(ours)(X)
    assert value.shape == (1,)
    close(value[0], theirs(X))
    close(gradient, jax.grad(theirs)(X))


def test_arguments_by_number_and_trees() -> None:
    def f(p: dict[str, object], scale: object, rows: list[int]) -> object:
        chosen = B.index_select(B.mul(p["w"], scale), rows)
        return B.sum(B.add(chosen, p["b"][0]))

    p = {"w": X, "b": (B.zeros((3,)), "not a tensor")}
    p["b"] = (B.zeros((3,)),)
    scale = B.full((), 3.0)
    got = B.grad(f)(p, scale, [1, 1])
    np.testing.assert_array_equal(np.asarray(got["w"]), [[0, 0, 0], [6, 6, 6]])
    np.testing.assert_array_equal(np.asarray(got["b"][0]), [2, 2, 2])
    both = B.grad(f, (1, -3))(p, scale, [1, 1])
    assert isinstance(both, tuple) and set(both[1]) == {"w", "b"}
    close(both[0], jnp.asarray(2 * np.asarray(X)[1].sum()))
    assert isinstance(B.grad(f, (0,))(p, scale, [0]), tuple)


def test_an_argument_that_is_not_used_has_a_gradient_of_zeros() -> None:
    got = B.grad(lambda x, y: B.sum(x), (0, 1))(X, V)
    np.testing.assert_array_equal(np.asarray(got[1]), np.zeros((2, 3)))
    got = B.grad(lambda x: B.sum(V))(X)
    np.testing.assert_array_equal(np.asarray(got), np.zeros((2, 3)))


def test_aux() -> None:
    gradient, aux = B.grad(lambda x: (ours(x), {"twice": B.add(x, x), "name": "x"}), has_aux=True)(X)
    close(gradient, jax.grad(theirs)(X))
    close(aux["twice"], X + X)
    assert aux["name"] == "x" and isinstance(aux["twice"], jax.Array)
    (value, aux), gradient = B.value_and_grad(lambda x: (ours(x), x), has_aux=True)(X)
    close(value[0], theirs(X))
    close(aux, X)


def test_vjp() -> None:
    def f(x: object, y: object) -> object:
        return {"product": B.mul(x, y), "sine": (B.sin(x),)}

    out, pull = B.vjp(f, X, V)
    want, want_pull = jax.vjp(lambda x, y: {"product": x * y, "sine": (jnp.sin(x),)}, X, V)
    jax.tree.map(close, out, want)
    for cotangents in (want, jax.tree.map(jnp.ones_like, want)):
        jax.tree.map(close, pull(cotangents), want_pull(cotangents))


def test_jvp() -> None:
    def f(x: object, y: object) -> list[object]:
        return [B.mul(x, y), B.exp(y)]

    out, tangents = B.jvp(f, (X, V), (V, X))
    want, want_tangents = jax.jvp(lambda x, y: [x * y, jnp.exp(y)], (X, V), (V, X))
    jax.tree.map(close, (out, tangents), (want, want_tangents))


def test_hvp() -> None:
    (got,) = B.hvp(ours, (X,), (V,))
    close(got, jax.jvp(jax.grad(theirs), (X,), (V,))[1])
    two = B.hvp(lambda x, y: B.sum(B.mul(B.mul(x, x), y)), (X, V), (V, X))
    want = jax.jvp(jax.grad(lambda x, y: jnp.sum(x * x * y), argnums=(0, 1)), (X, V), (V, X))[1]
    jax.tree.map(close, two, want)


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_jacobian(mode: str) -> None:
    close(B.jacobian(B.exp, mode=mode)(X), jax.jacrev(jnp.exp)(X))

    def f(x: object, y: object) -> dict[str, object]:
        return {"a": B.sum_dim(B.mul(x, y), 1), "b": B.neg(y)}

    got = B.jacobian(f, (0, 1), mode)(X, V)
    want = jax.jacrev(lambda x, y: {"a": jnp.sum(x * y, 1, keepdims=True), "b": -y}, (0, 1))(X, V)
    jax.tree.map(close, got, want)


def test_functions_may_branch_on_values() -> None:
    def f(x: object) -> object:
        return B.sum(B.neg(x)) if B.to_data(x)[0] < 1.0 else B.sum(B.mul(x, x))

    np.testing.assert_array_equal(np.asarray(B.grad(f)(X)), -np.ones((2, 3)))
    close(B.grad(f)(B.add(X, B.ones(()))), 2 * (X + 1))


def cube(x: object) -> object:
    return B.sum(B.mul(x, B.mul(x, x)))


def test_derivatives_of_derivatives() -> None:
    twice = B.grad(lambda x: B.sum(B.grad(cube)(x)))
    close(twice(X), 6 * X)
    close(B.grad(lambda x: B.sum(twice(x)))(X), jnp.full((2, 3), 6.0))
    close(B.jacobian(B.grad(ours))(X), jax.hessian(theirs)(X), 1e-4)
    close(B.jvp(B.grad(ours), (X,), (V,))[1], B.hvp(ours, (X,), (V,))[0], 1e-4)
    third = B.grad(lambda x: B.sum(B.hvp(cube, (x,), (V,))[0]))
    close(third(X), 6 * V)
    close(B.grad(lambda x: B.sum(B.vjp(B.sin, x)[1](V)[0]))(X), -jnp.sin(X) * V)


def test_a_gradient_in_a_recorded_loss() -> None:
    x = B.require_grad(X)
    slope = B.grad(cube)(x)
    assert isinstance(slope, TrackedTensor)
    close(B.backward(B.sum(B.mul(slope, slope)))[x], 36 * X**3, 1e-4)  # of sum (3 x^2)^2


def test_tensors_from_outside() -> None:
    scale = B.require_grad(B.full((), 2.0))
    power = B.mul(scale, scale)

    def f(x: object) -> object:
        return B.sum(B.mul(B.mul(x, x), power))

    slope = B.grad(f)(X)  # 2 x s^2
    close(B.detach(slope), 8 * X)
    grads = B.backward(B.sum(slope), retain=True)
    close(grads[scale], jnp.asarray(8 * np.asarray(X).sum(), jnp.float32))
    value, _ = B.value_and_grad(f)(X)
    close(B.backward(value)[scale], jnp.asarray([4 * (np.asarray(X) ** 2).sum()], jnp.float32)[0])


def test_a_captured_result_that_is_returned_as_it_is() -> None:
    scale = B.require_grad(B.full((), 2.0))
    power = B.mul(scale, scale)
    out, pull = B.vjp(lambda x: (B.mul(x, power), power), X)
    assert isinstance(out[1], TrackedTensor)
    close(B.backward(out[1])[scale], jnp.asarray(4.0))
    assert len(pull((X, B.ones(())))) == 1


def test_arrays_are_arguments_too() -> None:
    array = xp.asarray(np.asarray(X))
    gradient = B.grad(cube)(array)
    array += 1
    close(gradient, 3 * X**2)


def test_under_a_trace() -> None:
    close(jax.jit(B.grad(ours))(X), jax.grad(theirs)(X))
    close(jax.vmap(B.grad(ours))(X), jax.vmap(jax.grad(theirs))(X))


def test_64_bits() -> None:
    x = B.from_data(np.asarray([0.1, 0.2]), (2,))
    f: Callable[..., object] = lambda x: B.sum(B.pow(x, 3.0))  # noqa: E731
    for got, want in ((B.grad(f)(x), 3 * np.square([0.1, 0.2])), (B.hvp(f, (x,), (x,))[0], 6 * np.square([0.1, 0.2]))):
        assert got.dtype == np.float64
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-14)
    np.testing.assert_allclose(np.asarray(B.jacobian(f)(x))[0], 3 * np.square([0.1, 0.2]), rtol=1e-14)


def test_attention_in_every_direction() -> None:
    q, k = (B.from_data(np.random.default_rng(n).normal(size=(1, 2, 3, 4)), (1, 2, 3, 4)) for n in (0, 1))
    f = lambda q: B.sum(B.sin(B.flash_attention(q, k, k, scale=0.5, causal=True)))  # noqa: E731
    slope = B.grad(f)(q)
    _, along = B.jvp(f, (q,), (k,))
    np.testing.assert_allclose(np.asarray(along)[0], np.sum(np.asarray(slope) * np.asarray(k)), rtol=1e-9)
    h = 1e-5
    moved = [B.grad(f)(B.add(q, B.mul(k, B.full((), s * h, dtype=np.float64)))) for s in (1, -1)]
    want = (np.asarray(moved[0]) - np.asarray(moved[1])) / (2 * h)
    np.testing.assert_allclose(np.asarray(B.hvp(f, (q,), (k,))[0]), want, rtol=1e-5, atol=1e-8)
