"""`Fusion`: every operation gives what the inner backend gives, runs with others, and stands in stacks."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable

import jax
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.backend import (
    Autodiff,
    Backend,
    BackendResult,
    CpuBackend,
    Err,
    Fusion,
    NumpyBackend,
    Ok,
    Quantized,
    attempt,
    backend_of,
)
from rtx_jax.core import lazy
from rtx_jax.core.lazy import FusionStatistics, Lazy
from rtx_jax.errors import BackendLimitation, IndexOutOfBounds, InvalidArgument, ShapeMismatch
from rtx_jax.quant import PerChannel, QTensor, QuantScheme
from tests.backend.cases import CASES, Case
from tests.backend.test_suite import DTYPES, check, run

STACKS: dict[str, Callable[[], Backend]] = {
    "fusion<cpu>": lambda: Fusion(CpuBackend()),
    "fusion<quantized<cpu>>": lambda: Fusion(Quantized(CpuBackend())),
    "quantized<fusion<cpu>>": lambda: Quantized(Fusion(CpuBackend())),
    "autodiff<fusion<cpu>>": lambda: Autodiff(Fusion(CpuBackend())),
}
by_id = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
A = np.asarray([[0.5, -1.25, 2.0], [3.5, 0.25, -4.0]], np.float32)
B = np.asarray([[1.5, 2.25, -0.5], [0.75, -3.0, 2.5]], np.float32)


def is_recorded(x: object) -> bool:
    return type(x) is Lazy and type(x.state) is lazy.Tape


@by_id
def test_every_operation(case: Case) -> None:
    got, operands = run(case, Fusion(CpuBackend()), DTYPES[0])
    check(case, got, operands, DTYPES[0])


# Each operation is on one of the stacks; the names of their cases spread them.
@pytest.mark.parametrize("case", [case for i, case in enumerate(CASES) if not i % 3], ids=lambda case: case.id)
def test_operations_on_stacks(case: Case) -> None:
    names = list(STACKS)[1:]
    make = STACKS[names[sum(map(ord, case.id)) % len(names)]]
    got, operands = run(case, make(), DTYPES[0])
    check(case, got, operands, DTYPES[0])


@pytest.mark.parametrize("case", [case for i, case in enumerate(CASES) if not i % 8], ids=lambda case: case.id)
def test_operations_in_a_program_that_is_compiled_whole(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    F = Fusion(CpuBackend())
    monkeypatch.setattr(lazy.fusing.thread, "after", 1)

    def call(*tensors: object) -> object:
        result = case.call(F, *tensors)
        return F.add(result, F.zeros(F.shape(result), dtype=result.dtype)) if result.dtype.kind == "f" else result

    got, operands = run(case, F, DTYPES[0], call)
    check(case, got, operands, DTYPES[0], slack=2)


def counting() -> FusionStatistics:
    lazy.flush()
    statistics = FusionStatistics()
    lazy.fusing.thread.statistics = (statistics,)
    return statistics


@pytest.fixture(autouse=True)
def _forget() -> object:
    yield
    lazy.flush()
    lazy.fusing.thread.statistics = ()


def test_names_and_stacks() -> None:
    for name, make in STACKS.items():
        assert make().name() == name and backend_of(name).name() == name and backend_of(name) == make()
    assert Fusion(CpuBackend()).inner is CpuBackend() and Fusion(CpuBackend()) == Fusion(CpuBackend())


@pytest.mark.parametrize(
    ("inner", "error", "text"),
    [
        (NumpyBackend(), BackendLimitation, "JAX backend"),
        (Quantized(NumpyBackend()), BackendLimitation, "JAX backend"),
        (Autodiff(CpuBackend()), InvalidArgument, "Autodiff\\(Fusion\\(B\\)\\)"),
        (Quantized(Fusion(CpuBackend())), InvalidArgument, "enough"),
        (None, InvalidArgument, "backend"),
    ],
)
def test_what_cannot_be_fused(inner: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Fusion(inner)  # type: ignore[arg-type]


def test_a_chain_runs_as_one() -> None:
    F = Fusion(CpuBackend())
    x, y = F.from_data(A, A.shape), F.from_data(B, B.shape)
    statistics = counting()
    for i in range(5):
        z = F.relu(F.sub(F.mul(F.tanh(F.add(x, y)), x), F.exp(y)))
        assert is_recorded(z) and z.shape == (2, 3) and z.dtype == np.float32 and z.ndim == 2
        want = np.maximum(np.tanh(A + B) * A - np.exp(B), 0)
        np.testing.assert_allclose(F.to_data(z).reshape(2, 3), want, rtol=1e-5, atol=1e-6)
        assert statistics.compiled == (i >= 2)
    assert (statistics.recorded, statistics.runs, statistics.grouped) == (30, 5, 30)


def test_tensors_of_one_element_are_numbers() -> None:
    B = Fusion(CpuBackend())
    x = B.sum(B.full((3,), 0.5))
    assert x.shape == (1,) and float(x) == x.item() == 1.5 and int(x) == 1 and complex(x) == 1.5
    with pytest.raises(ValueError, match="size 1"):
        float(B.ones((3,)))


def test_parameters_that_differ_are_other_calls() -> None:
    F = Fusion(CpuBackend())
    x = F.from_data(A, A.shape)
    for v in (0.5, -0.5, 0.75):
        assert np.array_equal(F.to_data(F.gt_scalar(x, v)).reshape(2, 3), A > v)
        assert np.array_equal(F.to_data(F.clamp(x, -v * v, v * v)).reshape(2, 3), A.clip(-v * v, v * v))
        np.testing.assert_allclose(F.to_data(F.leaky_relu(x, v)).reshape(2, 3), np.where(A > 0, A, v * A), rtol=1e-6)
    assert F.to_data(F.sum_dim(x, 0)).tolist() != F.to_data(F.sum_dim(x, 1)).tolist()


def test_indices_are_read_to_be_checked() -> None:
    F = Fusion(CpuBackend())
    x = F.mul(F.from_data(A, A.shape), F.ones(A.shape))
    rows = F.add(F.from_data([0, 0], (2,), dtype=np.int32), F.from_data([1, 0], (2,), dtype=np.int32))
    assert np.array_equal(F.to_data(F.index_select(x, rows)).reshape(2, 3), A[[1, 0]])
    with pytest.raises(IndexOutOfBounds):
        F.index_select(x, F.add(rows, rows))
    assert np.array_equal(F.to_data(F.index_select(x, [1])).reshape(1, 3), A[[1]])


def test_errors_come_with_the_operation() -> None:
    F = Fusion(CpuBackend())
    x = F.add(F.ones((2, 3)), F.ones((2, 3)))
    with pytest.raises(ShapeMismatch):
        F.matmul(x, x)
    with pytest.raises(InvalidArgument):
        F.add(x, "x")  # type: ignore[arg-type]
    result: BackendResult[object] = attempt(F.matmul, x, x)
    assert isinstance(result, Err) and isinstance(attempt(F.add, x, x), Ok)
    assert F.to_data(x).tolist() == [2.0] * 6


def test_random_draws_are_those_of_the_inner_backend() -> None:
    F = Fusion(CpuBackend())
    F.seed(7)
    fused = [F.to_data(F.mul(F.rand((3,)), F.randn((3,)))) for _ in range(3)]
    CpuBackend().seed(7)
    plain = [np.asarray(CpuBackend().mul(CpuBackend().rand((3,)), CpuBackend().randn((3,)))) for _ in range(3)]
    np.testing.assert_allclose(fused, plain, rtol=1e-6)


def test_arrays_and_plain_arrays_are_operands_and_tensors_are_values() -> None:
    F = Fusion(CpuBackend())
    with xp.fusion():
        array = xp.asarray(A) + 1
        y = F.add(array, jax.numpy.asarray(B))  # type: ignore[arg-type]
        assert is_recorded(y) and is_recorded(array._data)
        assert np.array_equal(np.asarray(y), A + 1 + B)
    assert np.array_equal(np.asarray(CpuBackend().add(F.neg(y), y)), np.zeros((2, 3)))  # type: ignore[arg-type]
    assert np.array_equal(np.asarray(xp.asarray(np.asarray(F.neg(y)))), -(A + 1 + B))
    assert F.device(y) == CpuBackend().default_device()
    taken = xp.asarray(A) + 1
    z = F.add(taken.take(), F.ones(A.shape))  # type: ignore[arg-type]
    assert not taken.is_alive and np.array_equal(np.asarray(z), A + 2)


def test_inside_of_jit_it_is_the_inner_backend() -> None:
    F = Fusion(CpuBackend())
    fused = jax.jit(lambda x, y: F.relu(F.matmul(x, F.add(y, F.ones((3, 3))))))
    plain = jax.jit(
        lambda x, y: CpuBackend().relu(CpuBackend().matmul(x, CpuBackend().add(y, CpuBackend().ones((3, 3)))))
    )
    eye = np.eye(3, dtype=np.float32)
    assert fused.lower(A, eye).as_text() == plain.lower(A, eye).as_text()
    late = F.add(F.ones((2,)), F.ones((2,)))
    assert np.asarray(jax.jit(lambda x: x + late.jax)(np.ones(2, np.float32))).tolist() == [3, 3]  # type: ignore[attr-defined]


def test_gradients_through_a_fused_backend() -> None:
    D = Autodiff(Fusion(CpuBackend()))
    x = D.from_data(A, A.shape)
    statistics = counting()
    for _ in range(5):
        w = D.require_grad(x)
        loss = D.sum(D.mul(D.tanh(w), D.mul(w, w)))
        gradient = D.backward(loss)[w]
        want = (1 - np.tanh(A) ** 2) * A * A + np.tanh(A) * 2 * A
        np.testing.assert_allclose(D.to_data(gradient).reshape(2, 3), want, rtol=2e-5, atol=1e-6)
    assert statistics.compiled >= 1 and statistics.grouped > statistics.runs


def test_a_training_step_is_one_program() -> None:
    D = Autodiff(Fusion(CpuBackend()))
    rng = np.random.default_rng(0)
    x = D.from_data(rng.normal(size=(8, 4)), (8, 4))
    w = D.from_data(rng.normal(size=(4, 2)), (4, 2))
    host = np.asarray(D.to_data(w)).reshape(4, 2).astype(np.float64)
    rows = D.to_data(x).reshape(8, 4).astype(np.float64)
    statistics = counting()
    for _ in range(6):
        leaf = D.require_grad(w)
        loss = D.mean(D.mul(D.matmul(x, leaf), D.matmul(x, leaf)))
        w = D.sub(w, D.mul(D.backward(loss)[leaf], D.full((4, 2), 0.1)))
        del leaf, loss
        got = D.to_data(w).reshape(4, 2)
        host = host - 0.1 * (2 * rows.T @ (rows @ host) / 16)
        np.testing.assert_allclose(got, host, rtol=1e-4, atol=1e-5)
    assert statistics.runs <= 12


def test_quantized_weights() -> None:
    inner = Quantized(CpuBackend(), QuantScheme("int8", PerChannel(0)))
    F = Fusion(inner)
    weight = inner.quantize(inner.from_data(B, B.shape))
    assert isinstance(weight, QTensor)
    x = F.from_data(A, A.shape)
    for _ in range(4):
        y = F.relu(F.linear(F.add(x, x), weight))  # type: ignore[arg-type]
        assert is_recorded(y)
        want = inner.to_data(inner.relu(inner.linear(inner.from_data(2 * A, A.shape), weight)))
        np.testing.assert_allclose(F.to_data(y), want, rtol=1e-6)


def test_threads() -> None:
    F = Fusion(CpuBackend())
    base = F.add(F.from_data(A, A.shape), F.from_data(B, B.shape))
    wrong: list[object] = []

    def work(i: int) -> None:
        for _ in range(20):
            z = F.add(F.mul(base, F.full(A.shape, float(i))), base)
            if not np.array_equal(F.to_data(z).reshape(2, 3), (A + B) * np.float32(i) + (A + B)):
                wrong.append(z)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and np.array_equal(F.to_data(base).reshape(2, 3), A + B)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tensors_are_arguments_of_transforms(dtype: str) -> None:
    B = Fusion(CpuBackend())
    x = B.exp(B.zeros((3,), dtype=dtype))
    assert xp.jit(lambda v: B.add(v, v))(x).tolist() == [2, 2, 2]
    assert xp.vmap(lambda v: B.add(v, v))(x).tolist() == [2, 2, 2]
    assert xp.checkpoint(lambda v: B.add(v, v))(x).tolist() == [2, 2, 2]
    gradient = xp.grad(lambda v: B.sum(B.mul(v, v)).reshape(()))(x)
    assert gradient.tolist() == [2, 2, 2] and gradient.dtype == x.dtype
    assert xp.hessian(lambda v: B.sum(B.mul(v, v)).reshape(()))(x).tolist() == (2 * np.eye(3)).tolist()
    assert len(xp.inspect(lambda v: B.add(v, B.mul(v, v)), x).kernels) == 1


def test_tensors_copy_and_pickle() -> None:
    B = Fusion(CpuBackend())
    x = B.from_data([1.0, 2.0, 3.0], (3,))
    for again in (copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))):
        y = again(B.mul(x, x))
        np.testing.assert_array_equal(np.asarray(y), np.asarray([1.0, 4.0, 9.0], np.float32))
