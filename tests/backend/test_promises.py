"""What a backend promises beside its operations: identity, storage, threads, ownership, ease of adding one."""

from __future__ import annotations

import copy
import pickle
import threading
import warnings

import jax
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.backend import (
    OPERATIONS,
    PRIMITIVES,
    ActivationOps,
    AttentionOps,
    Backend,
    CpuBackend,
    CudaBackend,
    Err,
    KVCacheOps,
    MetalBackend,
    ModuleOps,
    NumpyBackend,
    Ok,
    RocmBackend,
    TensorOps,
    TpuBackend,
    WebGpuBackend,
    Wrapper,
    attempt,
)
from rtx_jax.backend.defaults import HOST
from rtx_jax.backend.operations import MANAGEMENT
from rtx_jax.errors import BackendLimitation, HostFallback, ShapeMismatch
from tests.backend.toy import ToyBackend, ToyTensor

CPU, NUMPY, TOY = CpuBackend(), NumpyBackend(), ToyBackend()
BUILT_IN = [CpuBackend, CudaBackend, RocmBackend, TpuBackend, MetalBackend, NumpyBackend]


@pytest.mark.parametrize("cls", [*BUILT_IN, WebGpuBackend], ids=lambda cls: cls.__name__)
def test_identity(cls: type[Backend]) -> None:
    B = cls()
    assert B == cls() and hash(B) == hash(cls()) and B.name() in repr(B)
    assert pickle.loads(pickle.dumps(B)) == B and copy.copy(B) == B
    assert isinstance(B.is_available(), bool)
    assert all(B != other() for other in BUILT_IN if other is not cls)


def test_a_backend_is_a_static_argument() -> None:
    traced = []

    def energy(B: Backend, x: jax.Array) -> jax.Array:
        traced.append(B)
        return B.sum(B.mul(x, x))

    compiled = jax.jit(energy, static_argnums=0)
    x = CPU.from_data([1.0, 2.0], (2,))
    assert compiled(CPU, x) == compiled(CpuBackend(), x) == 5.0
    assert traced == [CPU]


def test_each_backend_has_its_storage() -> None:
    data = [1.0, 2.0]
    assert isinstance(CPU.from_data(data, (2,)), jax.Array)
    assert isinstance(NUMPY.from_data(data, (2,)), np.ndarray)
    assert isinstance(TOY.from_data(data, (2,)), ToyTensor)
    for B in (CPU, NUMPY, TOY):
        x = B.from_data(data, (2,))
        result = B.add(x, x)
        assert type(result) is type(x) and result.dtype == np.float32 and result.shape == (2,)


@pytest.mark.parametrize("B", [CPU, NUMPY, TOY], ids=lambda B: B.name())
def test_from_data_takes_what_holds_numbers(B: Backend) -> None:
    source = np.arange(4, dtype=np.float32)
    x = B.from_data(source, (2, 2))
    source[:] = 9
    assert B.to_data(x).tolist() == [0, 1, 2, 3]  # not an alias
    assert B.to_data(B.from_data(source.tobytes(), 4)).tolist() == [9] * 4
    assert B.to_data(B.from_data((0.5 * i for i in range(3)), (3,))).tolist() == [0, 0.5, 1]
    assert B.to_data(B.from_data(range(3), (3,))).dtype == np.int32
    assert B.to_data(B.from_data([True], ())).dtype == np.bool_
    assert B.shape(B.from_data(source.reshape(2, 1, 2))) == (2, 1, 2)
    assert B.shape(B.from_data([1.0, 2.0, 3.0])) == (3,)
    assert B.to_data(B.from_data([], (0, 3))).dtype == np.float32
    assert B.to_data(B.from_data([1, 2], (2,), dtype=np.float16)).dtype == np.float16
    assert B.to_data(B.from_data(np.arange(2, dtype=">i8"), (2,))).tolist() == [0, 1]
    assert B.to_data(B.full((2,), np.nan)).dtype == np.float32
    assert B.shape(B.zeros(())) == () and B.shape(B.ones((0, 2))) == (0, 2)
    assert np.signbit(B.to_data(B.full((1,), -0.0))).all()


def test_64_bits_without_the_flag() -> None:
    x = CPU.from_data(np.array([1.0, 1e-12]), (2,))
    assert x.dtype == np.float64 and CPU.sum(x).dtype == np.float64
    assert float(CPU.sum(x)[0]) == 1 + 1e-12
    assert CPU.to_data(CPU.full((), 2**40, dtype=np.int64)).tolist() == [2**40]
    assert jax.numpy.zeros(1).dtype == np.float32


def test_an_array_is_taken_as_a_tensor() -> None:
    x = xp.asarray([1.0, -2.0], dtype=xp.float32)
    for result in (CPU.add(x, CPU.ones((2,))), CPU.abs(x), CPU.clamp(x, -1.0, 1.0), CPU.index_select(x, [0])):
        assert isinstance(result, jax.Array) and not isinstance(result, xp.Array)
    kept = x.jax
    CPU.relu(x)
    x[0] = 5.0
    assert kept[0] == 1.0
    assert CPU.to_data(x).tolist() == [5.0, -2.0]


def test_borrowed_operands_stay_alive() -> None:
    # cos, sin, masks and weights are read, whatever the next call does with its own.
    q, cos = CPU.ones((1, 1, 2, 4)), CPU.ones((2, 2))
    for _ in range(3):
        q = CPU.rope(q, cos, cos)
    mask = CPU.from_data([True, False], (2,))
    CPU.flash_attention(q, q, q, mask, scale=1.0)
    assert not cos.is_deleted() and CPU.to_data(mask).tolist() == [True, False]


def test_threads_share_a_tensor() -> None:
    x, failures = CPU.ones((8,)), []

    def work() -> None:
        for _ in range(200):
            if CPU.to_data(CPU.sum(CPU.add(x, x)))[0] != 16:
                failures.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_groups_of_methods_are_protocols() -> None:
    for B in (CPU, NUMPY, TOY):
        for group in (TensorOps, ActivationOps, ModuleOps, AttentionOps):
            assert isinstance(B, group)
        assert not isinstance(B, KVCacheOps)


def test_results_for_match() -> None:
    match attempt(CPU.matmul, CPU.ones((2, 3)), CPU.ones((3, 2))):
        case Ok(value):
            assert value.shape == (2, 2)
    match attempt(CPU.matmul, CPU.ones((2, 3)), CPU.ones((2, 3))):
        case Err(error):
            assert isinstance(error, ShapeMismatch)
    assert Ok(1).unwrap() == 1 and Ok(0) and not Err(ShapeMismatch())
    with pytest.raises(ShapeMismatch):
        Err(ShapeMismatch("f")).unwrap()
    with pytest.raises(ZeroDivisionError):
        attempt(lambda: 1 / 0)


class Counting(Wrapper[jax.Array]):
    """A wrapper that counts the operations."""

    prefix = "counting"

    def __init__(self, inner: Backend[jax.Array], /) -> None:
        super().__init__(inner)
        self.calls: list[str] = []

    def _apply(self, operation, operands, params=()):
        self.calls.append(operation)
        return super()._apply(operation, operands, params)


def test_wrappers_compose() -> None:
    B = Counting(Counting(CPU))
    assert B.name() == "counting<counting<cpu>>" and B.inner.inner is CPU
    assert B == Counting(Counting(CPU)) != Counting(CPU) and hash(B) == hash(Counting(Counting(CPU)))
    assert pickle.loads(pickle.dumps(B.inner)) == B.inner
    B.seed(1)
    x = B.rand((2, 3))
    CPU.seed(1)
    assert np.array_equal(CPU.to_data(CPU.rand((2, 3))), B.to_data(x))
    B.index_select(B.softmax(x, 1), [0])
    assert B.calls == B.inner.calls == ["rand", "softmax", "index_select"]
    assert B.device(x) == CPU.device(x) and B.devices() == CPU.devices() and B.is_available()


# --- a third party's backend -------------------------------------------------------------------------------------


def test_the_toy_is_the_primitives_alone() -> None:
    assert set(ToyBackend.functions) == PRIMITIVES
    assert ToyBackend.__mro__[1] is Backend
    assert {name for name in vars(ToyBackend) if not name.startswith("_")} == {"functions", "name"}


@pytest.mark.parametrize("B", [cls() for cls in BUILT_IN], ids=lambda B: B.name())
def test_built_in_backends_have_every_function(B: Backend) -> None:
    assert set(OPERATIONS) | set(MANAGEMENT) == set(B.functions)


def test_the_host_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from rtx_jax.backend.bodies import host

    monkeypatch.setattr(host, "_warned", set())
    x = TOY.from_data([1.5], (1,))
    with pytest.warns(HostFallback, match="cast: the backend 'toy'"):
        TOY.cast(x, np.int32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TOY.cast(x, np.int32)
        TOY.tanh(x)  # made of primitives
        TOY.rand((2,))  # made on the host, nothing travels there
    half = TOY.from_data([1.5], (1,), dtype=np.float16)
    with pytest.warns(HostFallback, match="tanh"):
        TOY.tanh(half)


def test_what_is_always_on_the_host_is_listed() -> None:
    from rtx_jax.backend.bodies import elementwise, networks, tensors

    made = {*elementwise.BODIES, *tensors.BODIES, *networks.BODIES}
    assert made | HOST | PRIMITIVES == set(OPERATIONS) | PRIMITIVES
    assert not made & HOST and not made & PRIMITIVES


def test_a_missing_primitive_is_named() -> None:
    class Half(Backend[np.ndarray]):
        functions = {"add": np.add}

        def name(self) -> str:
            return "half"

    B = Half()
    assert B.add(np.ones(1, np.float32), np.ones(1, np.float32)) == 2
    for call in (lambda: B.exp(np.ones(1, np.float32)), lambda: B.zeros((1,)), lambda: B.from_data([1.0], (1,))):
        with pytest.raises(BackendLimitation, match="PRIMITIVES"):
            call()
