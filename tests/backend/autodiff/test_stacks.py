"""`Autodiff` around other wrappers: the gradients are those of the plain backend."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import parity, quant
from rtx_jax.backend import Autodiff, Backend, CpuBackend, Fusion, Quantized, TrackedTensor, Wrapper, backend_of
from rtx_jax.backend.core import Params
from rtx_jax.core.lazy import Lazy

STACKS = ("autodiff<cpu>", "autodiff<quantized<cpu>>", "autodiff<fusion<cpu>>", "autodiff<autodiff<cpu>>")
# One of each kind of call: scalars as operands, indices, several results, absent operands, casts of the accumulator.
COVER = tuple(
    f"backend.{name}"
    for name in "add div clamp pow gelu softmax matmul linear sum var_dim max_dim reshape permute index_select "
    "index_add embedding layer_norm batch_norm flash_attention rope conv2d max_pool2d interpolate".split()
)


def failures(report: parity.Report) -> list[tuple[object, ...]]:
    return [(o.operation, o.dtype, o.mode, o.failure) for o in report.failures]


@pytest.mark.parametrize("stack", STACKS)
def test_a_cover_of_the_operations_is_right(stack: str) -> None:
    report = parity.run(backend=backend_of(stack), operations=COVER, dtypes=["float32"], modes=["eager"], quick=True)
    assert not failures(report) and set(report.operations) == set(COVER)


@pytest.mark.parametrize("stack", STACKS[:3])
def test_gradients_of_a_cover_are_right(stack: str) -> None:
    report = parity.run(
        backend=backend_of(stack),
        operations=COVER[:10:2] + COVER[13:20:3],
        dtypes=["float32"],
        modes=["grad"],
        quick=True,
    )
    assert not failures(report)


@pytest.mark.slow
@pytest.mark.parametrize("stack", STACKS)
def test_every_operation_is_right(stack: str) -> None:
    # All cells where it is the first wrapper, a pairwise cover of dtypes, modes and edges elsewhere.
    report = parity.run(backend=backend_of(stack), quick=stack != "autodiff<cpu>")
    assert not failures(report)


def test_gradients_through_a_quantized_weight() -> None:
    inner = Quantized(CpuBackend(), quant.QuantScheme("int8", quant.PerChannel(0)))
    B = Autodiff(inner)
    assert B.name() == "autodiff<quantized<cpu>>"
    weight = inner.quantize(inner.from_data(np.random.default_rng(0).normal(size=(3, 4)), (3, 4), dtype=np.float32))
    numbers = np.asarray(inner.dequantize(weight))
    x, bias = B.require_grad(B.ones((2, 4))), B.require_grad(B.zeros((3,)))
    y = B.linear(x, weight, bias)
    assert isinstance(y, TrackedTensor)
    np.testing.assert_allclose(B.to_data(y).reshape(2, 3), np.ones((2, 4)) @ numbers.T, rtol=1e-5, atol=1e-6)
    grads = B.backward(B.mul(y, y))
    slope = 2 * B.to_data(y).reshape(2, 3)
    np.testing.assert_allclose(np.asarray(grads[x]), slope @ numbers, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.asarray(grads[bias]), slope.sum(0), rtol=1e-5, atol=1e-5)


def test_a_quantized_operand_of_any_operation_is_a_constant() -> None:
    inner = Quantized(CpuBackend())
    B = Autodiff(inner)
    q = inner.quantize(inner.from_data([1.0, -2.0, 0.5, 4.0], (2, 2)))
    x = B.require_grad(B.ones((2, 2)))
    np.testing.assert_allclose(np.asarray(B.backward(B.mul(x, q))[x]), np.asarray(inner.dequantize(q)), rtol=1e-6)


class Counting(Wrapper[jax.Array]):
    """Counts its operations, as a user's wrapper may."""

    def __init__(self, inner: Backend[jax.Array], /) -> None:
        super().__init__(inner)
        self.calls: list[str] = []

    def _apply(
        self, operation: str, operands: tuple[jax.Array | np.ndarray | None, ...], params: Params = ()
    ) -> jax.Array:
        self.calls.append(operation)
        return super()._apply(operation, operands, params)


@pytest.mark.parametrize("inner", [Counting(CpuBackend()), Quantized(CpuBackend()), Fusion(CpuBackend())])
def test_64_bits_through_a_wrapper(inner: Backend[jax.Array]) -> None:
    B = Autodiff(inner)
    x = B.require_grad(B.from_data(np.asarray([0.1]), (1,)))
    grad = B.backward(B.sin(B.mul(x, x)))[x]
    assert grad.dtype == np.float64
    np.testing.assert_allclose(B.to_data(grad), np.cos(0.01) * 0.2, rtol=1e-15)
    (twice,) = B.hvp(lambda x: B.sin(B.mul(x, x)), (B.detach(x),), (B.ones((1,), dtype=np.float64),))
    np.testing.assert_allclose(B.to_data(twice), 2 * np.cos(0.01) - 0.04 * np.sin(0.01), rtol=1e-14)


def test_the_operations_of_a_wrapper_of_the_user_are_its_own() -> None:
    inner = Counting(CpuBackend())
    B = Autodiff(inner)
    x = B.require_grad(B.ones((2,)))
    B.exp(B.mul(x, x))
    assert inner.calls == ["full", "mul", "exp"]


class Fused:
    """A training step on a recording backend."""

    def __init__(self, B: Autodiff) -> None:
        self.B = B
        rng = np.random.default_rng(0)
        self.w = [B.from_data(rng.normal(size=s).astype(np.float32), s) for s in ((8, 4), (1, 8))]
        self.x = B.from_data(rng.normal(size=(5, 4)).astype(np.float32), (5, 4))

    def step(self) -> object:
        B = self.B
        w1, w2 = (B.require_grad(w) for w in self.w)
        loss = B.mean(B.pow(B.linear(B.tanh(B.linear(self.x, w1)), w2), 2.0))
        grads = B.backward(loss)
        rate = B.full((), 0.1)
        self.w = [B.sub(B.detach(w), B.mul(grads[w], rate)) for w in (w1, w2)]
        return loss


def test_a_fused_training_step_computes_nothing_until_it_is_asked() -> None:
    plain, fused = Fused(Autodiff(CpuBackend())), Fused(Autodiff(Fusion(CpuBackend())))
    for _ in range(12):
        a, b = plain.step(), fused.step()
    assert type(fused.w[0]) is Lazy and isinstance(plain.w[0], jax.Array)
    np.testing.assert_allclose(fused.B.to_data(b), plain.B.to_data(a), rtol=1e-5)
    for got, want in zip(fused.w, plain.w, strict=True):
        np.testing.assert_allclose(fused.B.to_data(got), plain.B.to_data(want), rtol=1e-4, atol=1e-6)


def test_the_functional_face_on_fusion() -> None:
    B = Autodiff(Fusion(CpuBackend()))
    x = B.from_data([1.0, 2.0], (2,))

    def cube(x: object) -> object:
        return B.sum(B.pow(x, 3.0))

    np.testing.assert_allclose(B.to_data(B.grad(cube)(x)), [3.0, 12.0], rtol=1e-6)
    np.testing.assert_allclose(B.to_data(B.hvp(cube, (x,), (x,))[0]), [6.0, 24.0], rtol=1e-6)
    np.testing.assert_allclose(B.to_data(B.jacobian(B.exp)(x)).reshape(2, 2), np.diag(np.exp([1.0, 2.0])), rtol=1e-6)
    leaf = B.require_grad(x)
    y = B.checkpoint(lambda x: B.mul(B.exp(x), x))(leaf)
    np.testing.assert_allclose(B.to_data(B.backward(y)[leaf]), np.exp([1.0, 2.0]) * [2.0, 3.0], rtol=1e-6)


def test_branches_on_fused_values() -> None:
    B = Autodiff(Fusion(CpuBackend()))
    x = B.require_grad(B.from_data([3.0], (1,)))
    y = B.mul(x, x)
    y = B.neg(y) if B.to_data(y)[0] > 4 else y
    np.testing.assert_array_equal(B.to_data(B.backward(y)[x]), [-6.0])


@pytest.mark.parametrize("stack", ["autodiff<cpu>", "autodiff<fusion<cpu>>"])
@pytest.mark.parametrize("scope", [contextlib.nullcontext, xp.fusion], ids=["eager", "fusion"])
def test_writes_between_forward_and_backward(stack: str, scope: Callable[[], AbstractContextManager[object]]) -> None:
    B = backend_of(stack)
    assert isinstance(B, Autodiff)
    with scope():
        array = xp.asarray(np.float32([1, 2, 3])) * 2
        leaf = B.require_grad(array)
        product = B.mul(leaf, array)
        array += 1
        array[0] = 0.0
        np.testing.assert_array_equal(B.to_data(B.backward(product)[leaf]), [2.0, 4.0, 6.0])
        np.testing.assert_array_equal(np.asarray(array), [0.0, 5.0, 7.0])
        other = xp.asarray(np.float32([4, 5, 6]))
        product = B.mul(leaf, other.take())
        assert not other.is_alive
        np.testing.assert_array_equal(B.to_data(B.backward(product)[leaf]), [4.0, 5.0, 6.0])


def test_a_stack_under_jit() -> None:
    B = Autodiff(Fusion(CpuBackend()))

    @jax.jit
    def slope(value: jax.Array) -> jax.Array:
        x = B.require_grad(value)
        return B.backward(B.mul(x, B.sin(x)))[x]

    at = jnp.asarray([0.5], jnp.float32)
    np.testing.assert_allclose(np.asarray(slope(at)), np.sin(0.5) + 0.5 * np.cos(0.5), rtol=1e-6)
