"""DLPack in both directions: nothing written on one side reaches the other."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import rtx_jax as xp
from rtx_jax.errors import ConcretizationError, InvalidArgument, NotContiguous

CPUS = jax.devices("cpu")
CPU = (1, 0)
NAMES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
NAMES += ["float16", "float32", "float64", "complex64", "complex128"]


class Producer:
    """An array of some other library, over NumPy memory."""

    def __init__(self, host, device=CPU):
        self.host, self.device, self.calls = host, device, []

    def __dlpack__(self, **options):
        self.calls.append(options)
        return self.host.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device


# --- out ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_numpy_and_jax_import_every_dtype(name):
    x = xp.asarray(np.arange(6).reshape(2, 3).astype(name))
    host = np.from_dlpack(x)
    assert host.dtype == x.dtype and np.array_equal(host, np.arange(6).reshape(2, 3).astype(name))
    with jax.enable_x64(True):
        back = jnp.from_dlpack(x)
    assert back.dtype == x.dtype and np.array_equal(back, host)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_dtypes_that_only_some_libraries_know(name):
    x = xp.ones(4, dtype=getattr(xp, name))
    back = jnp.from_dlpack(x)
    assert back.dtype == x.dtype and np.array_equal(np.asarray(back, np.float32), np.ones(4))


def test_what_the_consumer_writes_stays_with_it():
    for x in (xp.zeros(3), xp.zeros(3) + 0.0, xp.asarray(np.zeros(3)), xp.ones(3, dtype=xp.bfloat16) * 0):
        if x.dtype == xp.bfloat16:
            jnp.from_dlpack(x)
        else:
            host = np.from_dlpack(x)
            host[:] = 7.0
        assert np.asarray(x, np.float64).tolist() == [0, 0, 0]
    # A cached constant serves later calls.
    assert xp.zeros(3).tolist() == [0, 0, 0]


def test_what_we_write_stays_with_us():
    x = xp.arange(3.0) + 0.0
    for options in ({}, {"copy": True}, {"copy": False}):
        before = np.from_dlpack(x, **options)
        kept = before.tolist()
        x += 1.0
        x[0] = -5.0
        assert before.tolist() == kept
        assert x[0] == -5.0


def test_without_a_copy_the_memory_is_the_same_and_read_only():
    x = xp.arange(3.0) + 0.0
    host = np.from_dlpack(x, copy=False)
    assert host.ctypes.data == x.jax.unsafe_buffer_pointer()
    assert not host.flags.writeable


def test_a_constant_is_never_handed_out():
    x, y = xp.zeros(3), xp.zeros(3)
    a, b = np.from_dlpack(x, copy=False), np.from_dlpack(y, copy=False)
    assert a.ctypes.data != b.ctypes.data
    assert xp.zeros(3).tolist() == [0, 0, 0]


def test_many_exports():
    x = xp.asarray([1.0, 1.0])
    x.__dlpack__()
    capsules = [x.__dlpack__(), x.__dlpack__(max_version=(1, 0)), x.__dlpack__(copy=True), x.__dlpack__(copy=False)]
    assert len({id(c) for c in capsules}) == 4
    assert np.from_dlpack(x).tolist() == [1, 1] and np.from_dlpack(x).tolist() == [1, 1]


def test_versions():
    x = xp.arange(3.0)
    assert "versioned" not in repr(x.__dlpack__())
    assert "versioned" not in repr(x.__dlpack__(max_version=(0, 8)))
    assert "dltensor_versioned" in repr(x.__dlpack__(max_version=(1, 0)))
    assert "dltensor_versioned" in repr(x.__dlpack__(max_version=(1, 1), copy=False))


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1,), (2, 0, 4)])
def test_shapes_without_many_elements(shape):
    assert np.from_dlpack(xp.ones(shape)).shape == shape
    assert xp.from_dlpack(np.ones(shape)).shape == shape


def test_devices_and_shardings():
    assert xp.zeros(3).__dlpack_device__() == CPU
    x = xp.zeros(3, device=CPUS[3])
    assert x.__dlpack_device__() == CPU
    assert np.from_dlpack(x).tolist() == [0, 0, 0]
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,), devices=CPUS)
    spread = xp.asarray(np.arange(8.0), device=NamedSharding(mesh, PartitionSpec("x")))
    assert spread.__dlpack_device__() == CPU
    assert np.from_dlpack(spread).tolist() == list(range(8))
    with pytest.raises(NotContiguous, match="copy"):
        spread.__dlpack__(copy=False)


@pytest.mark.parametrize("options", [{"dl_device": (2, 0)}, {"dl_device": (1, 3)}, {"stream": 1}])
def test_what_cannot_be_exported_is_a_buffer_error(options):
    with pytest.raises(BufferError, match="__dlpack__") as caught:
        xp.zeros(3).__dlpack__(**options)
    assert isinstance(caught.value, NotContiguous)


def test_no_export_while_tracing():
    with pytest.raises(ConcretizationError, match="__dlpack__"):
        xp.jit(lambda x: x.__dlpack__())(xp.ones(3))


# --- in -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("x64", [True, False])
def test_every_dtype_comes_in(name, x64):
    host = np.arange(6).reshape(2, 3).astype(name)
    with jax.enable_x64(x64):
        x = xp.from_dlpack(host)
    assert isinstance(x, xp.Array) and x.dtype == host.dtype and np.array_equal(x, host)


def test_memory_of_others_is_copied():
    host = np.arange(1_000_000.0)
    x = xp.from_dlpack(host)
    host[:] = -1.0
    assert x[0] == 0.0 and x[999_999] == 999_999.0
    x[1] = 7.0
    assert host[1] == -1.0


def test_a_read_only_source():
    host = np.arange(3.0, dtype=np.float32)
    host.flags.writeable = False
    x = xp.from_dlpack(host)
    x[0] = 5.0
    assert x.tolist() == [5, 1, 2] and host.tolist() == [0, 1, 2]


def test_strided_sources():
    host = np.arange(24.0).reshape(4, 6)
    for view in (host.T, host[::2], host[:, 1::2], host[::-1], np.broadcast_to(host[0], (3, 6))):
        assert np.array_equal(xp.from_dlpack(view), view)


def test_bfloat16_of_another_library():
    source = jnp.asarray([1.5, 2.5], jnp.bfloat16)

    class Other:
        def __dlpack__(self, **_):
            return source.__dlpack__()

        def __dlpack_device__(self):
            return CPU

    x = xp.from_dlpack(Other())
    assert x.dtype == ml_dtypes.bfloat16 and np.asarray(x, np.float32).tolist() == [1.5, 2.5]


def test_arrays_of_ours_and_of_jax_are_shared_until_written():
    x = xp.arange(3.0) + 0.0
    y = xp.from_dlpack(x)
    y[0] = 9.0
    assert x.tolist() == [0, 1, 2] and y.tolist() == [9, 1, 2]
    plain = jnp.arange(3)
    z = xp.from_dlpack(plain)
    z += 1
    assert plain.tolist() == [0, 1, 2] and z.tolist() == [1, 2, 3]
    independent = xp.from_dlpack(x, copy=True)
    independent[0] = 4.0
    assert x.tolist() == [0, 1, 2]
    assert xp.from_dlpack(x, copy=False).tolist() == [0, 1, 2]


def test_the_device_of_the_result():
    host = np.arange(3.0)
    x = xp.from_dlpack(host)
    assert x.device == CPUS[0] and not x.jax.committed
    assert xp.from_dlpack(host, device="cpu:2").device == CPUS[2]
    assert xp.from_dlpack(xp.zeros(3), device=CPUS[1]).device == CPUS[1]
    assert xp.from_dlpack(xp.zeros(3, device=CPUS[1])).device == CPUS[1]
    with pytest.raises(InvalidArgument, match="copy"):
        xp.from_dlpack(xp.zeros(3), device=CPUS[1], copy=False)


def test_host_memory_is_never_shared():
    with pytest.raises(InvalidArgument, match="host memory") as caught:
        xp.from_dlpack(np.arange(3.0), copy=False)
    assert isinstance(caught.value, ValueError)


def test_what_the_producer_raises_comes_through():
    class Refuses(Producer):
        def __dlpack__(self, **_):
            raise BufferError("requires grad")

    with pytest.raises(BufferError, match="requires grad"):
        xp.from_dlpack(Refuses(np.zeros(3)))
    with pytest.raises(AttributeError, match="__dlpack"):
        xp.from_dlpack([1, 2, 3])


def test_pinned_host_memory_counts_as_host_memory():
    producer = Producer(np.arange(3.0), device=(3, 0))
    with pytest.raises(InvalidArgument, match="host memory"):
        xp.from_dlpack(producer, copy=False)


@pytest.mark.parametrize("copy", [None, True, False])
@pytest.mark.parametrize("version", [(0, 0), (0, 5), (1, 0), (2, 0)])
def test_consumers_of_any_version_get_a_capsule(version: tuple[int, int], copy: bool | None) -> None:
    for dtype in (xp.bool, xp.float32, xp.bfloat16):
        capsule = xp.ones(2, dtype=dtype).__dlpack__(max_version=version, copy=copy)
        assert type(capsule).__name__ == "PyCapsule"
