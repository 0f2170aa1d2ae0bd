"""Derivatives of derivatives by nesting: an `Autodiff` around another."""

from __future__ import annotations

import numpy as np
import pytest

from rtx_jax.backend import Autodiff, Backend, CpuBackend, Tensor, TrackedTensor

INNER = Autodiff(CpuBackend())
OUTER = Autodiff(INNER)


def value(x: object) -> np.ndarray:
    return np.asarray(CpuBackend().to_data(x))


def both(at: float, dtype: type = np.float64) -> tuple[TrackedTensor, TrackedTensor]:
    inside = INNER.require_grad(INNER.from_data(np.asarray([at], dtype), (1,)))
    return inside, OUTER.require_grad(inside)


def test_names() -> None:
    assert OUTER.name() == "autodiff<autodiff<cpu>>" and OUTER.inner is INNER


def test_a_second_derivative() -> None:
    inside, x = both(1.5)
    y = OUTER.mul(OUTER.exp(x), OUTER.pow(x, 3.0))
    first = OUTER.backward(y)[x]
    assert isinstance(first, TrackedTensor)
    np.testing.assert_allclose(INNER.to_data(first), np.exp(1.5) * (1.5**3 + 3 * 1.5**2), rtol=1e-12)
    second = INNER.backward(first)[inside]
    np.testing.assert_allclose(value(second), np.exp(1.5) * (1.5**3 + 6 * 1.5**2 + 6 * 1.5), rtol=1e-12)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_derivatives_of_any_order(depth: int) -> None:
    backends: list[Autodiff] = []
    B: Backend[Tensor] = CpuBackend()  # type: ignore[assignment]
    for _ in range(depth):
        backends.append(Autodiff(B))
        B = backends[-1]
    leaves: list[Tensor] = [B.from_data(np.asarray([0.5]), (1,))]
    for backend in backends:
        leaves.append(backend.require_grad(leaves[-1]))
    y: Tensor = B.pow(leaves[-1], 5.0)
    for backend, leaf in zip(reversed(backends), reversed(leaves), strict=False):
        y = backend.backward(y)[leaf]
    factor = float(np.prod(range(5, 5 - depth, -1)))
    np.testing.assert_allclose(value(y), factor * 0.5 ** (5 - depth), rtol=1e-12)


def test_a_penalty_on_the_gradient() -> None:
    # d/dw of (d/dx w x^2)^2 = d/dw 4 w^2 x^2 = 8 w x^2.
    w = INNER.require_grad(INNER.from_data(np.asarray([3.0]), (1,)))
    x = OUTER.require_grad(OUTER.from_data(np.asarray([2.0]), (1,)))
    slope = OUTER.backward(OUTER.mul(w, OUTER.mul(x, x)))[x]
    penalty = INNER.mul(slope, slope)
    np.testing.assert_allclose(value(INNER.backward(penalty)[w]), 8 * 3.0 * 4.0)


def test_each_level_has_its_own_gradients() -> None:
    inside, x = both(2.0)
    grads = OUTER.backward(OUTER.mul(x, x))
    assert x in grads and inside not in grads
    assert OUTER.is_require_grad(x) and not OUTER.is_require_grad(inside) and INNER.is_require_grad(inside)


def test_a_tensor_of_the_inner_backend_is_a_constant_of_the_outer() -> None:
    inside, x = both(2.0)
    y = OUTER.mul(x, inside)
    np.testing.assert_allclose(INNER.to_data(OUTER.backward(y)[x]), [2.0])
    z = OUTER.mul(inside, inside)
    assert not OUTER.is_require_grad(z) and isinstance(z, TrackedTensor)
    np.testing.assert_allclose(value(INNER.backward(z)[inside]), [4.0])


def test_functions_of_both_levels() -> None:
    slope = OUTER.grad(lambda x: OUTER.sum(OUTER.pow(x, 3.0)))
    at = INNER.from_data(np.asarray([1.0, 2.0]), (2,))
    second = INNER.grad(lambda x: INNER.sum(slope(x)))(at)
    np.testing.assert_allclose(value(second), [6.0, 12.0])
