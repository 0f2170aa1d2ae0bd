"""Devices of backends: what names them, where tensors are, moving and waiting; no mixing."""

from __future__ import annotations

import pickle

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import rtx_jax as xp
from rtx_jax.backend import (
    CpuBackend,
    CudaBackend,
    Device,
    DeviceId,
    DeviceOps,
    MetalBackend,
    NumpyBackend,
    RocmBackend,
    TpuBackend,
    WebGpuBackend,
)
from rtx_jax.errors import (
    BackendUnavailable,
    ConcretizationError,
    DeviceMismatch,
    InvalidArgument,
    UnsupportedDType,
)

B = CpuBackend()
ABSENT = [CudaBackend, RocmBackend, TpuBackend, MetalBackend]


def test_device_is_a_value() -> None:
    one = Device("cpu", 1)
    assert one == Device.of("cpu:1") == Device.of(jax.devices()[1]) != Device("cpu", 0)
    assert len({one, Device("cpu", 1), Device("cpu", 0)}) == 2
    assert pickle.loads(pickle.dumps(one)) == one
    assert one.jax is jax.devices()[1]
    assert (repr(one), str(one)) == ("Device('cpu:1')", "cpu:1")


def test_device_answers() -> None:
    one = Device("cpu", 1)
    assert isinstance(one, DeviceOps)
    assert one.id == one.to_id() == DeviceId(0, 1)
    assert Device.from_id(one.id) == one
    assert Device.from_id(Device("metal", 2).id) == Device("metal", 2)
    assert one.is_same("cpu:1") and not one.is_same(jax.devices()[0])
    assert Device.defaults() == Device("cpu", 0)
    assert one.name == jax.devices()[1].device_kind
    assert one.memory_stats() is None  # the CPU does not tell
    assert Device.count("cpu") == len(jax.devices()) == Device.count()
    assert Device.count("cuda") == 0 and Device.count("numpy") == 1


@pytest.mark.parametrize("wrong", [3, "", "cpu:x", "cpu:1:2", None])
def test_not_a_device(wrong: object) -> None:
    with pytest.raises(InvalidArgument, match="a Device, a jax.Device or a name"):
        Device.of(wrong)


def test_not_a_device_id() -> None:
    with pytest.raises(InvalidArgument):
        Device.from_id(DeviceId(99, 0))
    with pytest.raises(InvalidArgument):
        Device("cpu", -1)
    with pytest.raises(InvalidArgument, match="Device.of"):
        Device("cuda:1")


def test_where_tensors_are() -> None:
    assert B.device(B.zeros((2,))) == Device("cpu", 0)
    for device in (Device("cpu", 1), "cpu:1", jax.devices()[1]):
        for x in (
            B.zeros((2,), device=device),
            B.full((2,), 3.0, device=device),
            B.from_data([1.0], (1,), device=device),
            B.rand((2,), device=device),
            B.to_device(B.ones((2,)), device),
        ):
            assert B.device(x) == Device("cpu", 1)
            assert x.committed
    assert NumpyBackend().device(NumpyBackend().zeros((1,))) == Device("numpy", 0)
    assert B.default_device() == Device("cpu", 0) and len(B.devices()) == len(jax.devices())


def test_results_stay_where_operands_are() -> None:
    x = B.from_data([1.0, -2.0], (2,), device="cpu:1")
    for result in (B.add(x, x), B.clamp(x, -1.0, 1.0), B.index_select(x, [1, 0]), B.softmax(x, 0), B.sum(x)):
        assert B.device(result) == Device("cpu", 1)


def test_to_device_moves_bits_and_does_nothing_at_home() -> None:
    values = np.array([np.nan, -0.0, 1e-40, np.inf], np.float32)
    x = B.from_data(values, (4,))
    there = B.to_device(x, "cpu:1")
    assert np.array_equal(B.to_data(B.to_device(there, "cpu:0")).view(np.uint32), values.view(np.uint32))
    assert B.to_device(x, "cpu:0") is x
    assert B.to_device(there, Device("cpu", 1)) is there


def test_bad_device_names_list_what_is_there() -> None:
    x = B.zeros((1,))
    with pytest.raises(InvalidArgument, match="cpu:0"):
        B.to_device(x, "no device")
    with pytest.raises(BackendUnavailable, match="a number below"):
        B.to_device(x, "cpu:99")
    with pytest.raises(InvalidArgument):
        B.zeros((1,), device=3)


def test_no_mixing_of_devices() -> None:
    x, y = B.zeros((2,), device="cpu:0"), B.zeros((2,), device="cpu:1")
    with pytest.raises(DeviceMismatch, match="to_device") as caught:
        B.add(x, y)
    assert len(caught.value.devices) == 2
    with pytest.raises(ValueError):
        B.matmul(B.zeros((2, 2), device="cpu:0"), B.zeros((2, 2), device="cpu:1"))
    # A tensor that was put nowhere follows.
    assert B.device(B.add(B.ones((2,)), y)) == Device("cpu", 1)


def test_sharded_tensors_have_several_devices() -> None:
    mesh = Mesh(np.array(jax.devices()[:2]), ("x",))
    sharding = NamedSharding(mesh, PartitionSpec("x"))
    for x in (B.ones((4,), device=sharding), B.rand((4,), device=sharding), B.to_device(B.ones((4,)), sharding)):
        assert x.sharding == sharding
        assert set(B.device(x)) == {Device("cpu", 0), Device("cpu", 1)}
    assert B.to_data(B.sum(B.to_device(B.ones((4,)), sharding))) == [4.0]
    for call in (lambda: B.to_device(B.ones((3,)), sharding), lambda: B.ones((3,), device=sharding)):
        with pytest.raises(InvalidArgument, match="divides"):
            call()


def test_to_data_is_a_copy_in_row_major_order() -> None:
    x = B.transpose(B.from_data(np.arange(6, dtype=np.float32), (2, 3)))
    data = B.to_data(x)
    assert data.shape == (6,) and data.tolist() == [0, 3, 1, 4, 2, 5]
    data[0] = 9
    assert B.to_data(x)[0] == 0
    double = jax.jit(lambda x: x * 2, donate_argnums=0)
    kept = B.to_data(x)
    double(x)
    assert kept.tolist() == [0, 3, 1, 4, 2, 5]


def test_sync_waits() -> None:
    work = jax.jit(lambda x: jax.numpy.linalg.svd(x)[1])
    matrix = B.rand((200, 200))
    work(matrix).block_until_ready()
    slow = [work(matrix) for _ in range(3)]
    B.sync()
    assert all(x.is_ready() for x in slow)
    B.sync("cpu:1")
    NumpyBackend().sync()


def test_no_value_no_device_while_tracing() -> None:
    for call in (B.to_data, B.device):
        with pytest.raises(ConcretizationError, match="while tracing"):
            jax.jit(lambda x, call=call: call(x))(B.zeros((2,)))
    assert jax.jit(lambda x: B.zeros(B.shape(x)))(B.zeros((2, 3))).shape == (2, 3)


@pytest.mark.parametrize("cls", ABSENT, ids=lambda cls: cls.__name__)
def test_absent_platforms_raise_on_use_only(cls: type) -> None:
    absent = cls()
    if absent.is_available():
        pytest.skip(f"a {absent.name()} device is here")
    for call in (
        lambda: absent.zeros((1,)),
        lambda: absent.from_data([1.0], (1,)),
        absent.devices,
        absent.default_device,
        lambda: absent.rand((1,)),
    ):
        with pytest.raises(BackendUnavailable) as caught:
            call()
        assert caught.value.backend == absent.name() and caught.value.reason
        assert isinstance(caught.value, RuntimeError)


def test_webgpu_says_why() -> None:
    browser = WebGpuBackend()
    assert not browser.is_available() and browser.name() == "webgpu"
    for call in (
        lambda: browser.zeros((1,)),
        lambda: browser.add(np.ones(1, np.float32), np.ones(1, np.float32)),
        browser.devices,
        lambda: browser.to_data(np.ones(1)),
    ):
        with pytest.raises(BackendUnavailable, match="PJRT"):
            call()


def test_devices_of_another_backend_are_refused() -> None:
    # A Metal or CUDA device cannot be had here; the check is on the kind.
    with pytest.raises(BackendUnavailable):
        B.zeros((1,), device="cuda:0")
    with pytest.raises(BackendUnavailable):
        NumpyBackend().zeros((1,), device="cpu:0")


def test_metal_has_no_64_bit_floats() -> None:
    metal = MetalBackend()
    assert not metal.supports_dtype(np.dtype(np.float64)) and metal.supports_dtype(np.dtype(np.int64))
    with pytest.raises(UnsupportedDType, match="float64"):
        metal._dtype("full", "float64", metal.float_dtype)
    assert B.supports_dtype(np.dtype(np.float64)) and not B.supports_dtype(np.dtype("U4"))


# --- reported problems -------------------------------------------------------------------------------------------


def test_float32_products_are_float32() -> None:
    a = B.from_data([1.1111111, 2.2222222, 3.3333333, 4.4444444], (2, 2))
    want = np.array([[6.17283938, 13.58024652], [13.58024652, 30.86419696]])
    for result in (B.matmul(a, B.transpose(a)), jax.jit(lambda a: B.matmul(a, B.transpose(a)))(a)):
        np.testing.assert_allclose(np.asarray(result), want, rtol=2e-7)
        text = jax.jit(lambda a: B.matmul(a, a)).lower(a).as_text()
        assert "HIGHEST" in text
    with xp.set_matmul_precision("default"):
        assert "HIGHEST" not in jax.jit(lambda a: B.matmul(a, a)).lower(a).as_text()


def test_elementwise_corner_cases_of_plugins() -> None:
    assert np.isnan(B.to_data(B.maximum(B.full((1,), np.nan), B.ones((1,))))).all()
    large = B.from_data([16777217], (1,))
    assert B.to_data(B.maximum(large, large)).tolist() == [16777217]
    words = B.from_data(np.array([40000], np.uint16), (1,))
    chain = jax.jit(lambda x: B.add(B.cast(B.cast(x, np.int32), np.float32), B.ones((1,))))
    assert B.to_data(chain(words)).tolist() == [40001.0]
    pi = B.full((1,), np.pi)
    assert B.to_data(jax.jit(lambda x: B.div(x, B.full((1,), np.pi)))(pi)).tolist() == [1.0]


def test_placement_is_visible() -> None:
    x = B.from_data([1.0], (1,), device="cpu:1")
    assert B.device(B.zeros((1,), device=B.device(x))) == B.device(x)
