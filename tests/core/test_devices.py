"""Devices by name, and errors that list what is there."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec, SingleDeviceSharding

from rtx_jax.core import devices as d
from rtx_jax.errors import BackendUnavailable, InvalidArgument

CPUS = jax.devices("cpu")


def _sharding(*spec: str | None) -> NamedSharding:
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,), devices=CPUS)
    return NamedSharding(mesh, PartitionSpec(*spec))


def test_what_is_a_placement_already_is_returned_as_it_is():
    sharding = _sharding("x")
    assert d.resolve(None) is None
    assert d.resolve(CPUS[3]) is CPUS[3]
    assert d.resolve(sharding) is sharding


@pytest.mark.parametrize(("name", "number"), [("cpu", 0), ("cpu:0", 0), ("cpu:7", 7), ("CPU:2", 2), (" cpu:1 ", 1)])
def test_names(name, number):
    assert d.resolve(name) == CPUS[number]


def test_an_object_that_wraps_a_device_or_sharding():
    class Device:
        jax = CPUS[2]

    class Spread:
        jax = _sharding("x")

    assert d.resolve(Device()) == CPUS[2]
    assert d.resolve(Spread()) == _sharding("x")


@pytest.mark.parametrize("name", ["nonsense", "nonsense:1", "cpu:", "cpu:x", ":0", "", "cpu:-1", "cpu:1:2"])
def test_unknown_names_list_what_there_is(name):
    with pytest.raises(InvalidArgument) as caught:
        d.resolve(name, "zeros")
    text = str(caught.value)
    assert text.startswith(f"zeros: argument device: got {name!r}")
    assert "cpu:0" in text and "cpu:7" in text
    assert "cuda (" in text and "tpu (" in text


@pytest.mark.parametrize("value", [0, 1.5, object(), ["cpu"], b"cpu"])
def test_what_is_no_device_at_all(value):
    with pytest.raises(InvalidArgument, match="jax.Device"):
        d.resolve(value)


def test_an_object_whose_jax_is_no_device():
    class NotADevice:
        jax = jnp.zeros(3)

    with pytest.raises(InvalidArgument, match="NotADevice"):
        d.resolve(NotADevice())


def test_a_number_that_is_not_there():
    with pytest.raises(BackendUnavailable, match="wanted a number below 8") as caught:
        d.resolve("cpu:8", "zeros")
    assert caught.value.backend == "cpu"
    assert caught.value.reason == "there are 8 cpu devices"


@pytest.mark.parametrize("name", ["cuda", "cuda:1", "gpu", "rocm", "tpu:0", "metal", "mps"])
def test_an_absent_platform_says_why(name):
    platform = {"mps": "metal"}.get(name.partition(":")[0], name.partition(":")[0])
    found = d.platforms()
    absent = platform if platform != "gpu" else "cuda"
    if isinstance(found[absent], list) or (platform == "gpu" and isinstance(found["rocm"], list)):
        pytest.skip(f"this machine has a {name} device")
    with pytest.raises(BackendUnavailable) as caught:
        d.resolve(name, "asarray")
    text = str(caught.value)
    assert f"got {name!r}" in text
    assert "Devices here: cpu:0" in text
    assert f"{absent} ({found[absent]})" in text
    assert found[absent] in caught.value.reason
    assert isinstance(caught.value.__cause__, RuntimeError)


def _reason_in_process(platforms: str, name: str) -> str:
    code = f"from rtx_jax.core.devices import platforms; print(platforms()[{name!r}])"
    environment = {"JAX_PLATFORMS": platforms, "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_reasons_for_absence():
    assert _reason_in_process("cpu", "tpu") == "left out by JAX_PLATFORMS=cpu"
    if d._is_installed("jax-cuda13-plugin") or d._is_installed("jax-cuda12-plugin"):
        pytest.skip("a CUDA plugin is installed")
    assert _reason_in_process("", "cuda").startswith("no plugin installed (jax-cuda13-plugin")
    assert "pip install 'rtx-jax[cuda13]'" in _reason_in_process("", "cuda")


def test_nothing_starts_at_import():
    code = "import rtx_jax; from jax._src import xla_bridge; print(xla_bridge._backends)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "{}"


def test_devices_and_default_device():
    assert d.devices() == CPUS
    assert d.default_device() == CPUS[0]
    with jax.default_device(CPUS[5]):
        assert d.default_device() == CPUS[5]
    with jax.default_device("cpu"):
        assert d.default_device() == CPUS[0]


def test_a_platform_that_cannot_start_is_translated():
    code = (
        "from rtx_jax.core import devices\nfrom rtx_jax.errors import BackendUnavailable\n"
        "try:\n    devices.default_device()\nexcept BackendUnavailable as e:\n    print(type(e.__cause__).__name__, e)"
    )
    environment = {"JAX_PLATFORMS": "nonsense", "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("RuntimeError default_device: got JAX_PLATFORMS=nonsense")


def test_names_of_placements():
    assert d.device_name(CPUS[3]) == "cpu:3"
    assert d.device_name(SingleDeviceSharding(CPUS[3])) == "cpu:3"
    assert d.device_name(_sharding("x")).startswith("cpu:0,cpu:1,")
    assert "'x'" in d.device_name(_sharding("x"))
    assert d.platform_of(CPUS[0]) == "cpu"


def test_device_of():
    assert d.device_of(jax.device_put(jnp.zeros(3), CPUS[2])) == CPUS[2]
    assert d.device_of(jax.device_put(jnp.zeros(8), _sharding("x"))) == _sharding("x")
    seen = []
    jax.jit(lambda x: seen.append(d.device_of(x)) or x)(jnp.zeros(3))
    assert seen == [None]


def test_place_keeps_64_bits():
    with jax.enable_x64(True):
        x = jnp.asarray([2**40 + 1])
    moved = d.place(x, CPUS[1])
    assert moved.dtype == np.int64 and int(np.asarray(moved)[0]) == 2**40 + 1
    assert moved.device == CPUS[1]


def test_place_refuses_a_sharding_that_does_not_divide():
    with pytest.raises(InvalidArgument, match=r"shape \(3,\)"):
        d.place(jnp.zeros(3), _sharding("x"))
