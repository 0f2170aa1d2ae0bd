"""`Quantized`: products use the codes, everything else the numbers; on devices and on the host."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rtx_jax.backend import Backend, CpuBackend, NumpyBackend, Quantized
from rtx_jax.backend import codes as backend_codes
from rtx_jax.errors import HostFallback, InvalidArgument, ShapeMismatch, UnsupportedDType
from rtx_jax.quant import PerBlock, PerChannel, QTensor, QuantScheme
from tests.backend.cases import CASES, Case
from tests.backend.test_suite import check, run
from tests.backend.toy import ToyBackend

INT8 = QuantScheme("int8", PerChannel(0))
INT4 = QuantScheme("int4", PerBlock((8,)), "bfloat16", symmetric=False)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def tensor(B: Backend, x: np.ndarray) -> object:
    return B.from_data(x, x.shape)


def data(B: Backend, x: object) -> np.ndarray:
    return B.to_data(x).reshape(x.shape)  # type: ignore[attr-defined]


@pytest.fixture(params=[CpuBackend, NumpyBackend, ToyBackend])
def make(request: pytest.FixtureRequest) -> Callable[..., Quantized]:
    if request.param is ToyBackend:
        backend_codes._warned.add(ToyBackend().name())  # the warning has a test of its own
    return lambda *arguments: Quantized(request.param(), *arguments)


def test_identity() -> None:
    B = Quantized(CpuBackend(), INT8)
    assert B.name() == "quantized<cpu>" and B.inner is CpuBackend()
    assert B == Quantized(CpuBackend(), INT8) and hash(B) == hash(Quantized(CpuBackend(), INT8))
    assert B != Quantized(CpuBackend(), INT4) and B != Quantized(NumpyBackend(), INT8)
    assert pickle.loads(pickle.dumps(Quantized(NumpyBackend(), INT4, "propagate"))).propagation == "propagate"


def test_bad_arguments() -> None:
    with pytest.raises(InvalidArgument, match="propagation"):
        Quantized(CpuBackend(), INT8, "sometimes")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="QuantScheme"):
        Quantized(CpuBackend(), "int8")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="wanted a backend"):
        Quantized("cpu", INT8)  # type: ignore[arg-type]
    B = Quantized(CpuBackend(), INT8)
    with pytest.raises(InvalidArgument, match="QTensor"):
        B.q_matmul(jnp.ones((2, 2)), jnp.ones((2, 2)))


@pytest.mark.parametrize("scheme", [INT8, INT4])
def test_codes_and_numbers(make: Callable[..., Quantized], scheme: QuantScheme) -> None:
    B, x = make(scheme), normal(6, 16)
    q = B.quantize(tensor(B, x))
    assert isinstance(q, QTensor) and q.scheme == scheme and B.quantize(q) is q
    assert q.storage_bytes == scheme.storage_bytes((6, 16))
    back = data(B, B.dequantize(q))
    np.testing.assert_array_equal(data(B, q), back)
    levels = 127 if scheme is INT8 else 7.5
    assert np.abs(back - x).max() <= np.abs(x).max() / levels * 0.51
    again = data(NumpyBackend(), Quantized(NumpyBackend(), scheme).dequantize(_on_host(x, scheme)))
    np.testing.assert_allclose(back, again, rtol=1e-6)


def _on_host(x: np.ndarray, scheme: QuantScheme) -> object:
    return Quantized(NumpyBackend(), scheme).quantize(x)


def test_the_reference_has_the_same_codes() -> None:
    x = normal(8, 32)
    device = Quantized(CpuBackend(), INT4).quantize(jnp.asarray(x))
    host = Quantized(NumpyBackend(), INT4).quantize(x)
    for got, wanted in zip(device.parts(), host.parts(), strict=True):  # type: ignore[attr-defined]
        assert np.asarray(got).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("activations", [None, INT8])
def test_products(make: Callable[..., Quantized], activations: QuantScheme | None) -> None:
    B, x, w, bias = make(INT8, "inhibit", activations), normal(3, 16), normal(6, 16, seed=1), normal(6, seed=2)
    q = B.quantize(tensor(B, w))
    numbers = data(B, q).astype(np.float64)
    rows = data(B, B.quantize(tensor(B, x))) if activations else x
    wanted = rows.astype(np.float64) @ numbers.T
    operand = tensor(B, x)
    for got in (
        B.matmul(operand, B.transpose(q)),
        B.matmul(operand, B.swap_dims(q, 0, 1)),
        B.matmul(operand, B.permute(q, (1, 0))),
        B.q_matmul(operand, B.transpose(q)),
        B.linear(operand, q),
    ):
        assert not isinstance(got, QTensor)
        np.testing.assert_allclose(data(B, got), wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(data(B, B.linear(operand, q, tensor(B, bias))), wanted + bias, rtol=1e-4, atol=1e-5)
    both = B.matmul(B.quantize(operand), B.transpose(q))
    rows = data(B, B.quantize(operand)).astype(np.float64)
    np.testing.assert_allclose(data(B, both), rows @ numbers.T, rtol=1e-4, atol=1e-5)


def test_other_operations_take_the_numbers(make: Callable[..., Quantized]) -> None:
    B, x = make(INT8), normal(4, 8)
    q = B.quantize(tensor(B, x))
    numbers = data(B, q)
    np.testing.assert_allclose(data(B, B.add(q, tensor(B, x))), numbers + x, rtol=1e-6)
    np.testing.assert_allclose(data(B, B.relu(q)), np.maximum(numbers, 0), rtol=1e-6)
    np.testing.assert_allclose(data(B, B.sum_dim(q, 1)), numbers.sum(1, keepdims=True), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(data(B, B.reshape(q, (8, 4))), numbers.reshape(8, 4), rtol=1e-6)
    np.testing.assert_allclose(data(B, B.matmul(q, tensor(B, x.T))), numbers @ x.T, rtol=1e-4, atol=1e-5)
    assert not isinstance(B.mul(tensor(B, x), tensor(B, x)), QTensor)


def test_propagation(make: Callable[..., Quantized]) -> None:
    B, x = make(QuantScheme("int8"), "propagate"), normal(4, 8)
    q = B.quantize(tensor(B, x))
    product, total = B.matmul(q, B.transpose(q)), B.add(q, q)
    assert isinstance(product, QTensor) and isinstance(total, QTensor) and isinstance(B.transpose(q), QTensor)
    numbers = data(B, q).astype(np.float64)
    assert np.abs(data(B, product) - numbers @ numbers.T).max() <= np.abs(numbers @ numbers.T).max() / 127 * 0.51
    assert not isinstance(B.add(tensor(B, x), tensor(B, x)), QTensor)
    with pytest.raises(ShapeMismatch, match="divide"):
        blocks = make(QuantScheme("int8", PerBlock((8,))), "propagate")
        blocks.sum_dim(blocks.quantize(tensor(blocks, x)), 1)


def test_bad_operands(make: Callable[..., Quantized]) -> None:
    B = make(INT8)
    with pytest.raises(InvalidArgument, match="NaN"):
        B.quantize(tensor(B, np.asarray([[np.nan]], np.float32)))
    with pytest.raises(InvalidArgument, match="calibration"):
        B.quantize(tensor(B, normal(2, 2)), calibration="median")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedDType):
        B.quantize(tensor(B, np.ones((2, 2), np.int32)))
    with pytest.raises(ShapeMismatch):
        B.q_matmul(tensor(B, normal(2, 3)), B.quantize(tensor(B, normal(4, 2))))
    with pytest.raises(ShapeMismatch):
        B.quantize(tensor(B, normal(2, 3)), QuantScheme("int8", PerBlock((2,))))


def test_management(make: Callable[..., Quantized]) -> None:
    B = make(INT4)
    q = B.quantize(tensor(B, normal(2, 8)))
    assert B.shape(q) == (2, 8) and B.device(q) == B.default_device()
    moved = B.to_device(q, B.default_device())
    assert isinstance(moved, QTensor)
    np.testing.assert_array_equal(data(B, moved), data(B, q))


def test_under_jit() -> None:
    B, x = Quantized(CpuBackend(), INT8, "inhibit", INT8), jnp.asarray(normal(3, 16))
    q = B.quantize(jnp.asarray(normal(6, 16, seed=1)))
    got = jax.jit(lambda x, q: B.softmax(B.linear(x, q), 1))(x, q)
    np.testing.assert_allclose(np.asarray(got), np.asarray(B.softmax(B.linear(x, q), 1)), rtol=1e-5)


def test_two_quantized_devices_move() -> None:
    B = Quantized(CpuBackend(), INT8)
    q = B.to_device(B.quantize(jnp.asarray(normal(2, 8))), B.devices()[1])
    assert B.device(q) == B.devices()[1]


def test_backends_that_jax_does_not_know_warn_once() -> None:
    backend_codes._warned.discard(ToyBackend().name())
    B = Quantized(ToyBackend(), INT8)
    with pytest.warns(HostFallback, match="host"):
        B.quantize(tensor(B, normal(2, 4)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        B.quantize(tensor(B, normal(2, 4)))


@pytest.mark.parametrize("inner", [CpuBackend, NumpyBackend])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_operations_on_floats_are_those_of_the_inner_backend(case: Case, inner: type[Backend]) -> None:
    dtype = np.dtype(np.float32)
    got, operands = run(case, Quantized(inner(), INT8), dtype)
    check(case, got, operands, dtype)
