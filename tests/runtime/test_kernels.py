"""Kernels of one's own: compiled ones behind XLA's foreign functions, and Python's through callbacks."""

from __future__ import annotations

import contextlib
import ctypes
import shutil
import subprocess
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.errors import (
    BackendLimitation,
    ConcretizationError,
    DeviceMismatch,
    InvalidArgument,
    RtxError,
    ShapeMismatch,
    UnsupportedDType,
    UseAfterFree,
    UseAfterMove,
    Xla,
)
from rtx_jax.runtime import JaxRuntime, NumpyRuntime, RawHandle, raw_handle, register_kernel_c, register_kernel_py
from rtx_jax.runtime.kernel_calls import Attribute, call_of

CPU = JaxRuntime("cpu")
HOST = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def _cube(x, out):
    out[...] = x**3


CUBE = register_kernel_py(_cube)


@pytest.fixture(scope="module")
def library(tmp_path_factory, request):
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++")
    path = tmp_path_factory.mktemp("handlers") / "handlers.so"
    source = request.path.parent / "handlers.cc"
    include = raw_handle(CPU.default_client()).ffi.include_dir()
    subprocess.run(
        [compiler, "-std=c++17", "-O1", "-w", "-shared", "-fPIC", f"-I{include}", str(source), "-o", str(path)],
        check=True,
    )
    return path


@pytest.fixture(scope="module")
def scale(library):
    return register_kernel_c("test_scale", library)


class TestCompiled:
    def test_eager(self, scale):
        x = xp.asarray(HOST)
        got = scale(x, results=x, attributes={"factor": 2.5})
        assert isinstance(got, xp.Array) and got.dtype == np.float32
        np.testing.assert_array_equal(np.asarray(got), HOST * 2.5)
        assert isinstance(scale(x.jax, results=x, attributes={"factor": 2.0}), jax.Array)
        assert isinstance(scale(HOST, results=x, attributes={"factor": 2.0}), xp.Array)

    def test_several_results(self, library):
        divide = register_kernel_c("test_divide", ctypes.CDLL(str(library)))
        x, y = np.array([7, -7, 2**40]), np.array([2, 2, 3])
        like = xp.asarray(x)
        quotient, remainder, address = divide(
            xp.asarray(x), xp.asarray(y), results=[like, like, jax.ShapeDtypeStruct((), np.uint64)]
        )
        # C++ rounds towards 0.
        np.testing.assert_array_equal(np.asarray(quotient), [3, -3, 2**40 // 3])
        np.testing.assert_array_equal(np.asarray(remainder), [1, -1, 2**40 % 3])
        assert int(address) % 16 == 0

    def test_it_reads_the_operand_where_it_is(self, library):
        divide = register_kernel_c("test_divide", library)
        x = xp.asarray(np.array([6, 9]))
        *_, address = divide(x, x, results=[x, x, jax.ShapeDtypeStruct((), np.uint64)])
        assert int(address) == raw_handle(CPU.default_client()).pointer(x)

    def test_attributes_are_static(self, scale):
        x = xp.asarray(HOST)
        for factor in (0.0, 1.0, True, 3):
            with_type = float(factor)
            got = scale(x, results=x, attributes={"factor": with_type})
            np.testing.assert_array_equal(np.asarray(got), HOST * with_type)

    def test_under_transforms(self, scale):
        def double(v):
            return scale(v, results=v, attributes={"factor": 2.0})

        x = xp.asarray(HOST)
        np.testing.assert_array_equal(np.asarray(xp.jit(lambda v: double(v) + 1)(x)), HOST * 2 + 1)
        np.testing.assert_array_equal(np.asarray(jax.jit(double)(x.jax)), HOST * 2)
        np.testing.assert_array_equal(np.asarray(xp.vmap(double)(x)), HOST * 2)
        np.testing.assert_array_equal(np.asarray(xp.vmap(double, in_axes=1, out_axes=1)(x)), HOST * 2)

    def test_a_gradient_of_one_s_own(self, scale):
        @xp.custom_vjp
        def double(v):
            return scale(v, results=v, attributes={"factor": 2.0})

        double.defvjp(lambda v: (double(v), None), lambda _, g: (2 * g,))
        got = xp.grad(lambda v: xp.sum(double(v) ** 2))(xp.asarray(HOST))
        np.testing.assert_array_equal(np.asarray(got), 8 * HOST)

    def test_no_gradient(self, scale):
        with pytest.raises(BackendLimitation, match="custom_vjp"):
            xp.grad(lambda v: xp.sum(scale(v, results=v, attributes={"factor": 2.0})))(xp.asarray(HOST))

    def test_in_place(self, scale):
        """An aliased operand keeps its value where it is needed, and gives its memory where it is not."""
        x = xp.asarray(HOST)
        got = scale(x, results=x, attributes={"factor": 2.0}, aliases={0: 0})
        np.testing.assert_array_equal(np.asarray(got), HOST * 2)
        np.testing.assert_array_equal(np.asarray(x), HOST)
        text = (
            jax.jit(lambda v: scale(v + 1, results=v, attributes={"factor": 2.0}, aliases={0: 0}))
            .lower(x.jax)
            .as_text()
        )
        assert "output_operand_alias" in text

    def test_its_error(self, scale):
        x = xp.asarray(HOST)
        with pytest.raises(Xla, match="factor is negative"):
            scale(x, results=x, attributes={"factor": -1.0})
        with pytest.raises(Xla, match="dtype"):
            scale(xp.asarray(HOST, dtype=xp.int32), results=x, attributes={"factor": 1.0})
        np.testing.assert_array_equal(np.asarray(x + 1), HOST + 1)

    def test_registered_once(self, scale, library):
        assert register_kernel_c("test_scale", library) is scale and scale.platforms == ("cpu",)
        with pytest.raises(InvalidArgument, match="not taken"):
            register_kernel_c("test_scale", library, symbol="test_divide")
        with pytest.raises(InvalidArgument, match="not taken"):
            register_kernel_c("test_scale", library, batching="expand_dims")

    def test_another_platform(self, library):
        """A handler for CUDA alone does not run here."""
        kernel = register_kernel_c("test_scale_cuda", library, "cuda", symbol="test_scale")
        x = xp.asarray(HOST)
        with pytest.raises(BackendLimitation, match="cuda"):
            kernel(x, results=x, attributes={"factor": 1.0})
        assert register_kernel_c("test_scale_cuda", library, "cpu", symbol="test_scale") is kernel
        assert kernel.platforms == ("cpu", "cuda")

    def test_bad_registrations(self, library, tmp_path):
        with pytest.raises(InvalidArgument, match="symbol"):
            register_kernel_c("no_such_kernel", library)
        with pytest.raises(InvalidArgument, match="shared library"):
            register_kernel_c("test_scale", tmp_path / "absent.so")
        with pytest.raises(InvalidArgument, match="shared library"):
            register_kernel_c("test_scale", 5)
        with pytest.raises(BackendLimitation, match="Pallas"):
            register_kernel_c("test_scale", library, "tpu")
        with pytest.raises(InvalidArgument, match="batching"):
            register_kernel_c("test_other", library, symbol="test_scale", batching="fast")


class TestPython:
    def test_eager(self):
        x = xp.asarray(HOST)
        got = CUBE(x, results=x)
        assert isinstance(got, xp.Array)
        np.testing.assert_array_equal(np.asarray(got), HOST**3)
        assert isinstance(CUBE(x.jax, results=x), jax.Array)

    @pytest.mark.parametrize("dtype", ["float64", "int64", "bfloat16", "float8_e5m2", "bool", "complex64", "uint8"])
    def test_dtypes(self, dtype):
        copy = register_kernel_py(lambda x, out: np.copyto(out, x), name="copy")
        x = xp.asarray(np.array([1, 0, 2]), dtype=getattr(xp, dtype))
        got = copy(x, results=x)
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(np.asarray(got), np.asarray(x))

    @pytest.mark.parametrize("shape", [(), (0, 3), (1,)])
    def test_shapes(self, shape):
        x = xp.full(shape, 2.0)
        np.testing.assert_array_equal(np.asarray(CUBE(x, results=x)), np.full(shape, 8.0))

    def test_several_results_attributes_and_no_operands(self):
        def fill(first, second, *, value, name, table, flag):
            first[...] = value
            second[...] = [len(name), int(table.sum()), flag]

        kernel = register_kernel_py(fill)
        first, second = kernel(
            results=(jax.ShapeDtypeStruct((2,), np.float64), jax.ShapeDtypeStruct((3,), np.int32)),
            attributes={"value": 0.5, "name": "abc", "table": np.array([1, 2]), "flag": True},
        )
        np.testing.assert_array_equal(np.asarray(first), [0.5, 0.5])
        np.testing.assert_array_equal(np.asarray(second), [3, 3, 1])

    def test_attributes_that_are_equal_and_not_the_same(self):
        seen = []

        def note(out, *, value):
            seen.append(repr(value))
            out[...] = 0

        kernel = register_kernel_py(note)
        for value in (1, True, 1.0, 0.0, -0.0, np.float32(1), "1"):
            kernel(results=jax.ShapeDtypeStruct((), np.int32), attributes={"value": value})
        assert seen == ["1", "True", "1.0", "0.0", "-0.0", "1.0", "'1'"]

    def test_memory_is_xla_s_own(self):
        addresses = []

        def look(x, out):
            addresses.append(x.ctypes.data)
            assert not x.flags.writeable and out.flags.writeable
            out[...] = x

        x = xp.asarray(HOST)
        register_kernel_py(look)(x, results=x)
        assert addresses == [raw_handle(CPU.default_client()).pointer(x)]

    def test_under_transforms(self):
        x = xp.asarray(HOST)
        np.testing.assert_array_equal(np.asarray(xp.jit(lambda v: CUBE(v, results=v) + 1)(x)), HOST**3 + 1)
        np.testing.assert_array_equal(np.asarray(xp.vmap(lambda v: CUBE(v, results=v))(x)), HOST**3)
        with pytest.raises(BackendLimitation, match="custom_vjp"):
            xp.grad(lambda v: xp.sum(CUBE(v, results=v)))(x)

    @pytest.mark.parametrize("batching", ["expand_dims", "broadcast_all"])
    def test_all_elements_of_a_batch_at_once(self, batching):
        calls = []

        def add(x, y, out):
            calls.append((x.shape, y.shape, out.shape))
            out[...] = x + y

        kernel = register_kernel_py(add, batching=batching)
        x, y = xp.asarray(HOST), xp.asarray(np.float32([1, 2, 3]))
        got = xp.vmap(lambda v: kernel(v, y, results=v))(x)
        np.testing.assert_array_equal(np.asarray(got), HOST + [1, 2, 3])
        assert calls == [((2, 3), (1, 3) if batching == "expand_dims" else (2, 3), (2, 3))]

    def test_by_copies_where_memory_is_not_the_host_s(self):
        """What platforms other than the CPU compile."""
        results = [np.zeros_like(HOST)]
        CUBE.on_copies([HOST], results, call_of("cube", [HOST], HOST, None, {0: 0}))
        np.testing.assert_array_equal(results[0], HOST**3)

    def test_on_the_device_s_memory(self):
        def cube(context, x, out):
            assert context is not None
            np.asarray(out)[...] = np.asarray(x) ** 3

        kernel = register_kernel_py(cube, memory="device")
        x = xp.asarray(HOST)
        np.testing.assert_array_equal(np.asarray(kernel(x, results=x)), HOST**3)

    def test_what_it_raises(self):
        class Mine(Exception):
            pass

        def fail(x, out):
            raise Mine("in the kernel")

        kernel = register_kernel_py(fail)
        x = xp.asarray(HOST)
        with pytest.raises(Mine, match="in the kernel"):
            kernel(x, results=x)
        with pytest.raises((jax.errors.JaxRuntimeError, RtxError), match="in the kernel"):
            xp.jit(lambda v: kernel(v, results=v))(x).block_until_ready()
        np.testing.assert_array_equal(np.asarray(CUBE(x, results=x)), HOST**3)

    def test_what_it_raises_belongs_to_the_call(self):
        """Nothing of it is left in XLA, and nobody else's call gets it."""

        def some(x, out):
            if x[0] < 0:
                raise ValueError(f"negative {x[0]}")
            out[...] = x

        kernel = register_kernel_py(some)
        wrong = []

        def work(number):
            for i in range(1, 30):
                value = float(i * 10 + number) * (-1) ** i
                x = xp.asarray([value])
                try:
                    got = float(kernel(x, results=x)[0])
                    if value < 0 or got != value:
                        wrong.append((value, got))
                except ValueError as error:
                    if str(error) != f"negative {value}":
                        wrong.append((value, error))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong and not kernel._failures
        jax.effects_barrier()

    def test_in_place(self):
        def double(x, out):
            out *= 2

        kernel = register_kernel_py(double)
        x = xp.asarray(HOST)
        np.testing.assert_array_equal(np.asarray(kernel(x, results=x, aliases={0: 0})), 2 * HOST)
        np.testing.assert_array_equal(np.asarray(x), HOST)
        compiled = xp.jit(lambda v: kernel(v + 1, results=v, aliases={0: 0}))
        np.testing.assert_array_equal(np.asarray(compiled(x)), 2 * (HOST + 1))

    def test_an_operand_that_is_given_up(self):
        def double(x, out):
            out *= 2

        kernel = register_kernel_py(double)
        x = xp.asarray(HOST) + 0
        handle = raw_handle(CPU.default_client())
        before = handle.pointer(x)
        like = jax.ShapeDtypeStruct(HOST.shape, HOST.dtype)
        result = kernel(x.take(), results=like, aliases={0: 0})
        assert handle.pointer(result) == before and not x.is_alive
        np.testing.assert_array_equal(np.asarray(result), 2 * HOST)
        with pytest.raises(UseAfterMove):
            kernel(x, results=like)

    def test_it_must_not_return(self):
        kernel = register_kernel_py(lambda x, out: x)
        with pytest.raises(InvalidArgument, match=r"result\[...\] = value"):
            kernel(xp.asarray(HOST), results=HOST)

    def test_it_must_not_write_operands(self):
        def write(x, out):
            x[...] = 0

        with pytest.raises(ValueError, match="read-only"):
            register_kernel_py(write)(xp.asarray(HOST), results=HOST)

    def test_from_threads(self):
        x = xp.asarray(HOST)
        errors = []

        def work():
            for _ in range(50):
                if not np.array_equal(np.asarray(CUBE(x, results=x)), HOST**3):
                    errors.append("wrong")

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors

    def test_bad_registrations(self):
        with pytest.raises(InvalidArgument, match="function"):
            register_kernel_py(5)
        with pytest.raises(InvalidArgument, match="memory"):
            register_kernel_py(_cube, memory="gpu")
        with pytest.raises(InvalidArgument, match="batching"):
            register_kernel_py(_cube, batching="fast")


@pytest.mark.parametrize(
    ("keywords", "error", "text"),
    [
        ({"results": None}, InvalidArgument, "shape and a dtype"),
        ({"results": []}, InvalidArgument, "at least one"),
        ({"results": [HOST, 3]}, InvalidArgument, "shape and a dtype"),
        ({"results": np.array(["a"])}, UnsupportedDType, "dtype"),
        ({"results": HOST, "attributes": {"a": None}}, InvalidArgument, "attributes"),
        ({"results": HOST, "attributes": {"a": 2**70}}, InvalidArgument, "attributes"),
        ({"results": HOST, "attributes": {"a": np.ones((2, 2))}}, InvalidArgument, "attributes"),
        ({"results": HOST, "aliases": {1: 0}}, InvalidArgument, "operands below 1"),
        ({"results": HOST, "aliases": {0: -1}}, InvalidArgument, "results below 1"),
        ({"results": HOST[0], "aliases": {0: 0}}, ShapeMismatch, "aliases"),
        ({"results": HOST.astype(np.int32), "aliases": {0: 0}}, ShapeMismatch, "aliases"),
    ],
)
def test_bad_calls(keywords, error, text):
    with pytest.raises(error, match=text):
        CUBE(xp.asarray(HOST), **keywords)


def test_a_bad_operand():
    with pytest.raises(UnsupportedDType, match="x1"):
        CUBE("text", results=HOST)


def test_attributes_keep_their_bytes():
    assert Attribute.of("k", "a", 0.0) != Attribute.of("k", "a", -0.0)
    assert Attribute.of("k", "a", 1) != Attribute.of("k", "a", True)
    assert Attribute.of("k", "a", np.array([1, 2])) == Attribute.of("k", "a", np.array([1, 2]))
    assert Attribute.of("k", "a", "text").value() == "text"


class TestRawHandle:
    def test_of_jax(self):
        client = CPU.client("cpu:1")
        handle = raw_handle(client)
        assert isinstance(handle, RawHandle)
        assert handle.device is jax.devices("cpu")[1] and handle.platform == "cpu"
        assert handle.client is handle.device.client
        assert handle.stream is None is client.compute_stream_handle()  # the CPU has no streams
        assert handle.ffi is jax.ffi
        assert CPU.raw_handle("cpu:1") == handle and CPU.compute_stream_handle() is None

    def test_of_numpy(self):
        handle = raw_handle(NumpyRuntime().default_client())
        assert NumpyRuntime().raw_handle() == handle and NumpyRuntime().compute_stream_handle() is None
        assert (handle.client, handle.device, handle.platform, handle.stream) == (None, None, "numpy", None)
        with pytest.raises(BackendLimitation, match="JaxRuntime"):
            _ = handle.ffi
        with pytest.raises(BackendLimitation, match="JaxRuntime"):
            handle.register_kernel_c("test_scale", "library.so")
        x = np.arange(3.0)
        assert handle.pointer(x) == x.ctypes.data

    def test_no_client(self):
        with pytest.raises(InvalidArgument, match="Ask a runtime"):
            raw_handle("cpu")

    def test_kernels_of_the_platform(self, library):
        handle = raw_handle(CPU.default_client())
        kernel = handle.register_kernel_c("test_scale_raw", library, symbol="test_scale")
        x = xp.asarray(HOST)
        np.testing.assert_array_equal(np.asarray(kernel(x, results=x, attributes={"factor": 2.0})), 2 * HOST)
        np.testing.assert_array_equal(np.asarray(handle.register_kernel_py(_cube)(x, results=x)), HOST**3)

    def test_pointers_are_readable(self):
        handle = raw_handle(CPU.default_client())
        x = xp.asarray(HOST, device=jax.devices("cpu")[0])
        for array in (x, x.jax):
            address = handle.pointer(array)
            got = np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_float)), (6,))
            np.testing.assert_array_equal(got, HOST.ravel())

    @pytest.mark.parametrize("runtime", [CPU, NumpyRuntime()], ids=repr)
    def test_buffers_are_writable(self, runtime):
        handle = raw_handle(runtime.default_client())
        buffer = runtime.allocate(8)
        view = buffer.view("int32", (2,))
        view.write([1, 2])
        assert handle.pointer(buffer) == handle.pointer(view) == buffer.ptr
        ctypes.memmove(handle.pointer(buffer), np.array([7, 8], np.int32).ctypes.data, 8)
        np.testing.assert_array_equal(view.read(), [7, 8])
        buffer.free()
        with pytest.raises(UseAfterFree):
            handle.pointer(buffer)

    def test_no_pointer(self):
        handle = raw_handle(CPU.default_client())
        mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
        spread = xp.zeros((8,), device=jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x")))
        cases = [
            (spread, InvalidArgument, "addressable_shards"),
            (xp.zeros((2,), device="cpu:1"), DeviceMismatch, "device|Device|cpu|Cpu"),
            (np.zeros(2), DeviceMismatch, "NumPy"),
            (NumpyRuntime().allocate(8), DeviceMismatch, "NumPy"),
            (3.5, InvalidArgument, "array or a buffer"),
        ]
        for x, error, text in cases:
            with pytest.raises(error, match=text):
                handle.pointer(x)
        with pytest.raises(ConcretizationError, match="kernel"):
            xp.jit(lambda v: v + handle.pointer(v))(xp.zeros((2,)))
        gone = jnp.zeros(2)
        gone.delete()
        with pytest.raises(UseAfterMove):
            handle.pointer(gone)


class TestInGraphs:
    def test_of_jax(self, scale):
        x, out = (CPU.allocate(HOST.nbytes).view("float32", HOST.shape) for _ in range(2))

        def work(x, out):
            out.write(CUBE(scale(x, results=x, attributes={"factor": 2.0}), results=x) + 1)

        graph = CPU.capture(work, inputs=[x], outputs=[out])
        for i in range(3):
            x.write(HOST + i)
            graph.launch()
            np.testing.assert_array_equal(out.read(), (2 * (HOST + i)) ** 3 + 1)

    def test_of_numpy(self, scale):
        runtime = NumpyRuntime()
        x, out = (runtime.allocate(HOST.nbytes).view("float32", HOST.shape) for _ in range(2))
        graph = runtime.capture(lambda x, out: out.write(CUBE(x * 2, results=x) + 1), inputs=[x], outputs=[out])
        for i in range(3):
            x.write(HOST + i)
            graph.launch()
            np.testing.assert_array_equal(out.read(), (2 * (HOST + i)) ** 3 + 1)
        with pytest.raises(BackendLimitation, match="NumPy runtime"):
            runtime.capture(
                lambda x, out: out.write(scale(x, results=x, attributes={"factor": 2.0})), inputs=[x], outputs=[out]
            )

    def test_several_results_of_numpy(self):
        def both(x, low, high, *, by):
            low[...], high[...] = x - by, x + by

        kernel = register_kernel_py(both)
        runtime = NumpyRuntime()
        x, out = (runtime.allocate(HOST.nbytes).view("float32", HOST.shape) for _ in range(2))

        def work(x, out):
            low, high = kernel(x, results=[x, x], attributes={"by": 2.0})
            out.write(low * high)

        graph = runtime.capture(work, inputs=[x], outputs=[out])
        x.write(HOST)
        graph.launch()
        np.testing.assert_array_equal(out.read(), HOST**2 - 4)

    @pytest.mark.parametrize("runtime", [CPU, NumpyRuntime()], ids=repr)
    def test_a_launch_that_fails_leaves_a_graph_that_launches(self, runtime):
        broken = []

        def fragile(x, out):
            if broken:
                raise RuntimeError("broken")
            out[...] = x + 1

        kernel = register_kernel_py(fragile)
        x, out = (runtime.allocate(HOST.nbytes).view("float32", HOST.shape) for _ in range(2))
        graph = runtime.capture(lambda x, out: out.write(kernel(x, results=x)), inputs=[x], outputs=[out])
        x.write(HOST)
        graph.launch()
        broken.append(True)
        with pytest.raises(RuntimeError, match="broken"):
            graph.launch()
        assert out.read().shape == HOST.shape
        np.testing.assert_array_equal(x.read(), HOST)
        broken.clear()
        graph.launch()
        np.testing.assert_array_equal(out.read(), HOST + 1)

    def test_a_launch_that_fails_leaves_arrays(self):
        broken = []

        def fragile(x, out):
            if broken:
                raise RuntimeError("broken")
            out[...] = x + 1

        kernel = register_kernel_py(fragile)
        x, out = xp.asarray(HOST), xp.zeros(HOST.shape, dtype=xp.float32)
        graph = CPU.capture(lambda x, out: out.write(kernel(x, results=x)), inputs=[x], outputs=[out])
        graph.launch()
        broken.append(True)
        with pytest.raises(Xla, match="broken"):
            graph.launch()
        broken.clear()
        assert out.shape == HOST.shape and np.asarray(out).shape == HOST.shape
        graph.launch()
        np.testing.assert_array_equal(np.asarray(out), HOST + 1)

    def test_python_kernels_have_no_form_in_a_file(self, tmp_path):
        x, out = (CPU.allocate(HOST.nbytes).view("float32", HOST.shape) for _ in range(2))
        graph = CPU.capture(lambda x, out: out.write(CUBE(x, results=x)), inputs=[x], outputs=[out])
        with pytest.raises(BackendLimitation, match="form in a file"):
            graph.save(tmp_path / "graph")
        host = NumpyRuntime()
        x, out = (host.allocate(HOST.nbytes).view("float32", HOST.shape) for _ in range(2))
        graph = host.capture(lambda x, out: out.write(CUBE(x, results=x)), inputs=[x], outputs=[out])
        with pytest.raises(BackendLimitation, match="_cube"):
            graph.save(tmp_path / "graph")


class TestRecorded:
    def test_in_fusion(self):
        x = xp.asarray(HOST)
        with xp.fusion():
            got = CUBE(x * 2, results=x) + 1
            np.testing.assert_array_equal(np.asarray(got), (2 * HOST) ** 3 + 1)

    def test_what_it_raises_in_fusion(self):
        def fail(x, out):
            raise LookupError("recorded")

        kernel = register_kernel_py(fail)
        x = xp.asarray(HOST)
        with xp.fusion():
            y = x * 2
            with pytest.raises(LookupError, match="recorded"):
                kernel(y, results=y)
            np.testing.assert_array_equal(np.asarray(y), 2 * HOST)


@pytest.mark.parametrize("platform", ["cpu", "cuda", "rocm"])
def test_kernels_on_the_device_s_memory_compile_for(platform):
    def fill(context, x, out):
        raise AssertionError("only compiled here")

    kernel = register_kernel_py(fill, memory="device")
    lowered = jax.jit(lambda v: kernel(v, results=v)).trace(jnp.ones(3)).lower(lowering_platforms=(platform,))
    assert f"xla_buffer_python_{'cpu' if platform == 'cpu' else 'gpu'}_callback" in lowered.as_text()


@pytest.mark.parametrize("platform", ["cuda", "rocm"])
def test_compiled_kernels_compile_for(platform, library):
    kernel = register_kernel_c("test_scale_gpu", library, platform, symbol="test_scale")
    call = jax.jit(lambda v: kernel(v, results=v, attributes={"factor": 2.0}))
    lowered = call.trace(jnp.ones(3)).lower(lowering_platforms=(platform,))
    assert "@test_scale_gpu" in lowered.as_text() and "factor = 2.0" in lowered.as_text()


def test_a_kernel_that_fails_in_a_compiled_program_is_told_by_synchronize():
    """Where nobody has looked at the result. On JAX 0.10 the barrier tells it until the next callback."""

    def fail(x, out):
        raise LookupError("in the program")

    kernel = register_kernel_py(fail)
    result = None
    try:
        result = xp.jit(lambda v: kernel(v, results=v))(xp.asarray(HOST))
    except Xla as error:
        assert "in the program" in str(error)
    else:
        with pytest.raises(Xla, match="in the program"):
            CPU.synchronize()
    del result
    np.testing.assert_array_equal(np.asarray(xp.jit(lambda v: CUBE(v, results=v))(xp.asarray(HOST))), HOST**3)
    with contextlib.suppress(Xla, jax.errors.JaxRuntimeError):
        jax.effects_barrier()
    CPU.synchronize()
