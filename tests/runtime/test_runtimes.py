"""Runtimes, their devices and clients."""

from __future__ import annotations

import pickle
import threading

import jax
import pytest

import rtx_jax as xp
from rtx_jax.errors import BackendUnavailable, InvalidArgument
from rtx_jax.runtime import Client, Device, JaxRuntime, NumpyRuntime, Runtime


def test_a_runtime_says_what_it_is(runtime: Runtime) -> None:
    assert runtime.is_available() and runtime.supports_graph_capture
    assert runtime.devices()[0] == runtime.default_device() == Device(runtime.name(), 0)
    assert pickle.loads(pickle.dumps(runtime)) == runtime and hash(runtime) == hash(type(runtime)()) == hash(runtime)
    assert eval(repr(runtime), {"JaxRuntime": JaxRuntime, "NumpyRuntime": NumpyRuntime}) == runtime
    assert runtime != object()


def test_there_is_one_client_of_a_device(runtime: Runtime) -> None:
    client = runtime.default_client()
    device = runtime.default_device()
    for named in (None, device, str(device)):
        assert runtime.client(named) is client
    assert type(runtime)().client() is client and isinstance(client, Client)
    assert client.device == device and client.device.is_same(device) and str(device) in repr(client)
    assert runtime.allocate(1).client is client and runtime.allocate(1, device=str(device)).client is client
    assert client.compute_stream_handle() is None  # a host has none
    client.synchronize()


def test_every_device_has_its_own() -> None:
    runtime = JaxRuntime("cpu")
    found = runtime.devices()
    assert len(found) == len(jax.devices("cpu")) >= 2
    clients = [runtime.client(device) for device in found]
    assert len({id(client) for client in clients}) == len(found)
    assert len({id(client.allocator) for client in clients}) == len(found)
    assert runtime.client(jax.devices("cpu")[1]) is runtime.client("cpu:1") is clients[1]
    buffer = runtime.allocate(8, found[1])
    where = buffer.ptr
    buffer.write(b"abcdefgh")
    buffer.write(b"x", offset=3)
    assert buffer.read().tobytes() == b"abcxefgh" and buffer.ptr == where
    assert clients[1].allocator.device_bytes() >= 8


def test_threads_get_the_same_client() -> None:
    found: list[Client] = []
    threads = [threading.Thread(target=lambda: found.append(JaxRuntime("cpu").client("cpu:5"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len({id(client) for client in found}) == 1


def test_the_default_platform() -> None:
    assert JaxRuntime() == JaxRuntime(jax.default_backend())
    with jax.default_device(jax.devices("cpu")[2]):
        assert JaxRuntime().default_device() == Device("cpu", 2)
        assert JaxRuntime().default_client().device.index == 2


@pytest.mark.parametrize("platform", ["rocm", "tpu", "metal"])
def test_a_platform_that_is_not_there(platform: str) -> None:
    runtime = JaxRuntime(platform)
    if runtime.is_available():
        pytest.skip(f"needs a machine without {platform}")
    assert runtime.name() == platform and repr(runtime) == f"JaxRuntime({platform!r})"
    for use in (runtime.devices, runtime.default_device, runtime.default_client, lambda: runtime.allocate(8)):
        with pytest.raises(BackendUnavailable, match=platform):
            use()
    assert xp.sum(xp.ones(2)) == 2


def test_devices_of_other_runtimes() -> None:
    with pytest.raises(InvalidArgument, match="another runtime|JaxRuntime"):
        NumpyRuntime().allocate(4, "cpu")
    with pytest.raises(InvalidArgument, match="numpy"):
        JaxRuntime("numpy")
    with pytest.raises(InvalidArgument, match="cpu:0"):
        JaxRuntime("cpu").client("numpy")
    with pytest.raises(BackendUnavailable, match="99"):
        JaxRuntime("cpu").client("cpu:99")
    for device in (3, "", "cpu:x", object()):
        with pytest.raises(InvalidArgument, match="device"):
            JaxRuntime("cpu").client(device)  # type: ignore[arg-type]
    with pytest.raises((InvalidArgument, BackendUnavailable)):
        JaxRuntime("nothing").devices()
    assert not JaxRuntime("nothing").is_available()


def test_the_package_is_loaded_when_it_is_used() -> None:
    assert xp.runtime.JaxRuntime is JaxRuntime
