"""Buffers: pointers that stay, bytes in and out, typed views, and what a freed one says."""

from __future__ import annotations

import copy
import ctypes
import pickle
import threading
from collections.abc import Callable

import jax
import ml_dtypes
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.errors import (
    ConcretizationError,
    DeviceMismatch,
    DTypeMismatch,
    IndexOutOfBounds,
    InvalidArgument,
    NotContiguous,
    NotImplementedOp,
    ShapeMismatch,
    UnsupportedDType,
    UseAfterFree,
)
from rtx_jax.runtime import Buffer, JaxRuntime, Output, Runtime

DTYPES = (
    "bool",
    "int8",
    "uint16",
    "int32",
    "int64",
    "uint64",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float32",
    "float64",
    "complex64",
    "complex128",
)


def memory(buffer: Buffer) -> bytes:
    """What lies at the pointer, read without the library."""
    return ctypes.string_at(buffer.ptr, buffer.nbytes)


@pytest.mark.parametrize("nbytes", [1, 8, 100, 4096, 1 << 20])
def test_the_pointer_stays(runtime: Runtime, nbytes: int) -> None:
    buffer = runtime.allocate(nbytes)
    where = buffer.ptr
    assert where and where % 64 == 0
    data = np.arange(nbytes, dtype=np.uint8)
    for _ in range(3):
        buffer.write(data)
        assert buffer.ptr == where
    buffer.write(b"x", offset=nbytes - 1)
    data[-1] = ord("x")
    assert buffer.ptr == where and (buffer.read() == data).all()
    assert memory(buffer) == data.tobytes() and buffer.ptr == where


def test_new_memory_is_zero(runtime: Runtime) -> None:
    first = runtime.allocate(256)
    first.write(b"\xff" * 256)
    first.free()
    assert not runtime.allocate(256).read().any()


@pytest.mark.parametrize("kind", ["bytes", "bytearray", "memoryview", "float32", "bfloat16", "0-d"])
def test_memory_of_every_kind_is_taken(runtime: Runtime, kind: str) -> None:
    data = {
        "bytes": b"abcdefgh",
        "bytearray": bytearray(b"abcdefgh"),
        "memoryview": memoryview(b"abcdefgh"),
        "float32": np.array([[1.5], [-2]], np.float32),
        "bfloat16": np.array([1.5, -2, 3, 4], ml_dtypes.bfloat16),
        "0-d": np.array(7.0),
    }[kind]
    raw = data.tobytes() if isinstance(data, np.ndarray | memoryview) else bytes(data)  # type: ignore[arg-type]
    buffer = runtime.allocate(8)
    runtime.copy_to_device(data, buffer)  # type: ignore[arg-type]
    assert buffer.read().tobytes() == raw


def test_the_source_may_change_at_once(runtime: Runtime) -> None:
    buffer = runtime.allocate(1 << 20)
    for value in range(5):
        data = np.full(1 << 20, value, np.uint8)
        buffer.write(data)
        data[:] = 99
        assert (buffer.read() == value).all()


def test_what_was_read_is_a_copy(runtime: Runtime) -> None:
    buffer = runtime.allocate(4)
    before = buffer.read()
    buffer.write(b"abcd")
    assert before.tolist() == [0] * 4 and before.flags.writeable
    before[:] = 1
    assert buffer.read().tobytes() == b"abcd"


def test_parts(runtime: Runtime) -> None:
    buffer = runtime.allocate(10)
    buffer.write(b"abc", offset=7)
    assert buffer.read(2, offset=8).tobytes() == b"bc"
    assert buffer.read(offset=7).tobytes() == b"abc"
    assert buffer.read(0, offset=10).size == 0 and buffer.read(offset=10).size == 0


@pytest.mark.parametrize("first", [None, "float32", "complex128"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_views_of_every_dtype(runtime: Runtime, dtype: str, first: str | None) -> None:
    kind = np.dtype(dtype)
    values = np.array([[0, 1, 2], [1, 0, 3]]).astype(kind)
    buffer = runtime.allocate(96)
    if first is not None:
        buffer.view(first)  # lays the memory out
    view = buffer.view(dtype, (2, 3))
    where = buffer.ptr
    view.write(values)
    found = view.read()
    assert found.dtype == kind and found.shape == (2, 3) and found.tobytes() == values.tobytes()
    assert buffer.read(values.nbytes).tobytes() == values.tobytes()
    assert buffer.ptr == where == view.ptr
    second = buffer.view(dtype, (3,), offset=3 * kind.itemsize)
    second.write(values[0])
    expected = values.copy()
    expected[1] = values[0]
    assert view.read().tobytes() == expected.tobytes() and buffer.ptr == where
    assert memory(buffer)[: expected.nbytes] == expected.tobytes()


def test_a_view_says_what_it_is(runtime: Runtime) -> None:
    buffer = runtime.allocate(24)
    view = buffer.view(np.float32)
    assert (view.shape, view.ndim, view.size, view.nbytes, view.is_whole) == ((6,), 1, 6, 24, True)
    part = buffer.view(xp.float32, (2, 1), offset=8)
    assert (part.shape, part.nbytes, part.is_whole, part.ptr - buffer.ptr) == ((2, 1), 8, False, 8)
    assert "float32[2, 1] at byte 8" in repr(part) and "24 bytes" in repr(buffer)
    scalar = buffer.view("int64", ())
    scalar.write(-5)
    assert scalar.read() == -5 and scalar.read().shape == ()
    assert buffer.view("uint8", 3).shape == (3,)


def test_what_a_view_takes(runtime: Runtime) -> None:
    view = runtime.allocate(16).view("float32", (2, 2))
    for value in ([[1, 2], [3, 4]], xp.asarray([[1, 2], [3, 4]], dtype=xp.float32), np.float32([[1, 2], [3, 4]])):
        view.write(0)
        assert view.read().tolist() == [[0, 0], [0, 0]]
        view.write(value)
        assert view.read().tolist() == [[1, 2], [3, 4]]
    view.write(np.float32([[1, 2], [3, 4]]).T)  # contiguous or not
    assert view.read().tolist() == [[1, 3], [2, 4]]


def test_what_a_view_refuses(runtime: Runtime) -> None:
    view = runtime.allocate(16).view("float32", (2, 2))
    with pytest.raises(DTypeMismatch, match="float64"):
        view.write(np.ones((2, 2)))
    with pytest.raises(ShapeMismatch):
        view.write(np.ones(2, np.float32))
    with pytest.raises(ShapeMismatch):
        view.write([1, 2])
    for value in ("x", [[1, 2], [3]], None, [[1j, 2], [3, 4]]):
        with pytest.raises(InvalidArgument):
            view.write(value)
    assert not view.read().any()


@pytest.mark.parametrize("first", [None, "float32", "uint8"])
@pytest.mark.parametrize("dtype", ["bool", "float32", "float64", "bfloat16", "complex64", "int8"])
def test_arrays_come_and_go(runtime: Runtime, dtype: str, first: str | None) -> None:
    values = np.array([[0, 1, 2], [1, 0, 3]]).astype(np.dtype(dtype))
    buffer = runtime.allocate(128)
    if first is not None:
        buffer.view(first)
    view = buffer.view(dtype, (2, 3), offset=16)
    where = buffer.ptr
    view.write(xp.asarray(values))
    found = view.to_array()
    assert isinstance(found, xp.Array) and found.dtype == values.dtype and found.shape == (2, 3)
    assert np.asarray(found).tobytes() == values.tobytes() == buffer.read(values.nbytes, offset=16).tobytes()
    view.write(np.zeros((2, 3), values.dtype))
    assert np.asarray(found).tobytes() == values.tobytes()  # an array of its own
    found[0] = True
    assert not view.read().any() and buffer.ptr == where
    view.write(xp.asarray(values).jax)
    assert view.read().tobytes() == values.tobytes()


def test_arrays_of_elsewhere() -> None:
    view = JaxRuntime("cpu").allocate(8).view("float32", (2,))
    with pytest.raises(DeviceMismatch, match="cpu:1.*to_device"):
        view.write(jax.device_put(np.ones(2, np.float32), jax.devices("cpu")[1]))
    with pytest.raises(ConcretizationError, match="traced"):
        jax.jit(lambda x: view.write(x))(np.ones(2, np.float32))
    with pytest.raises(DTypeMismatch):
        view.write(xp.ones(2))
    with pytest.raises(ShapeMismatch):
        view.write(xp.ones((2, 1), dtype=xp.float32))
    assert not view.read().any()


def test_what_is_no_view(runtime: Runtime) -> None:
    buffer = runtime.allocate(10)
    for dtype in ("int4", "float4_e2m1fn", "O", "S4", "datetime64[s]", "nothing", ">f4", 3.5, [("a", "f4")]):
        with pytest.raises(UnsupportedDType, match="dtype"):
            buffer.view(dtype)
    with pytest.raises(ShapeMismatch, match="12 bytes"):
        buffer.view("float32", (3,))
    with pytest.raises(ShapeMismatch):
        buffer.view("float32", (2,), offset=4)
    for offset in (2, -4, 12):
        with pytest.raises(InvalidArgument, match="offset"):
            buffer.view("float32", offset=offset)
    for shape in ((-1,), (1.5,), "ab"):
        with pytest.raises(InvalidArgument, match="shape"):
            buffer.view("float32", shape)  # type: ignore[arg-type]
    assert buffer.view("float32").shape == (2,)  # as many as fit


@pytest.mark.parametrize(
    "use",
    [
        lambda r, b: b.ptr,
        lambda r, b: b.read(),
        lambda r, b: b.write(b"a"),
        lambda r, b: b.view("uint8"),
        lambda r, b: b.__enter__(),
        lambda r, b: r.copy_to_device(b"", b),
        lambda r, b: r.copy_from_device(b, bytearray(1)),
        lambda r, b: r.copy_within_device(b, r.allocate(4)),
        lambda r, b: r.copy_within_device(r.allocate(4), b),
        lambda r, b: r.copy_strided(b, 0, r.allocate(4), (1,), (1,), 1),
        lambda r, b: r.copy_strided(r.allocate(4), 0, b, (1,), (1,), 1),
        lambda r, b: r.copy_from_device_async(b),
        lambda r, b: r.deallocate(b),
    ],
)
def test_use_after_free(runtime: Runtime, use: Callable[[Runtime, Buffer], object]) -> None:
    buffer = runtime.allocate(4)
    view = buffer.view("uint8")
    buffer.free()
    assert not buffer.is_alive and "freed" in repr(buffer)
    with pytest.raises(UseAfterFree, match="freed"):
        use(runtime, buffer)
    for read in (view.read, lambda: view.write(1), lambda: view.ptr):
        with pytest.raises(UseAfterFree):
            read()
    buffer.free()


def test_a_block_frees(runtime: Runtime) -> None:
    with pytest.raises(ZeroDivisionError), runtime.allocate(4) as buffer:
        buffer.write(b"abcd")
        raise ZeroDivisionError
    assert not buffer.is_alive


def test_ranges_are_checked(runtime: Runtime) -> None:
    buffer = runtime.allocate(8)
    buffer.write(b"abcdefgh")
    for call in (
        lambda: buffer.write(b"123456789"),
        lambda: buffer.write(b"12", offset=7),
        lambda: buffer.write(b"1", offset=-1),
        lambda: buffer.write(b"", offset=9),
        lambda: buffer.read(9),
        lambda: buffer.read(-1),
        lambda: buffer.read(2, offset=7),
        lambda: buffer.read(offset=-1),
    ):
        with pytest.raises(IndexOutOfBounds) as found:
            call()
        assert found.value.size == 8  # type: ignore[attr-defined]
    with pytest.raises(InvalidArgument):
        buffer.read(1.5)  # type: ignore[arg-type]
    assert buffer.read().tobytes() == b"abcdefgh"


def test_what_is_no_memory(runtime: Runtime) -> None:
    buffer = runtime.allocate(8)
    for data in ([1, 2], 5, "text", None, np.array([object()])):
        with pytest.raises(InvalidArgument, match="data"):
            buffer.write(data)  # type: ignore[arg-type]
    for scattered in (np.arange(8, dtype=np.uint8)[::2], memoryview(b"abcdefgh")[::2]):
        with pytest.raises(NotContiguous, match="ascontiguousarray"):
            buffer.write(scattered)
    for target in (b"12345678", memoryview(b"12345678"), np.broadcast_to(np.uint8(1), (1,))):
        with pytest.raises(InvalidArgument, match="read-only"):
            runtime.copy_from_device(buffer, target)
    with pytest.raises(NotContiguous):
        runtime.copy_from_device(buffer, np.zeros((4, 4), np.uint8)[:, 0])


def test_threads_share_a_buffer(runtime: Runtime) -> None:
    """Every read sees one whole write, and no thread hangs or fails."""
    buffer = runtime.allocate(512)
    where, errors = buffer.ptr, []

    def write(value: int) -> None:
        try:
            for _ in range(100):
                buffer.write(bytes([value]) * 512)
        except Exception as error:
            errors.append(error)

    def read() -> None:
        try:
            for _ in range(100):
                assert len(set(buffer.read().tolist())) == 1
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(i,)) for i in (1, 2)]
    threads += [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and buffer.ptr == where


def test_a_buffer_is_not_copied_by_accident(runtime: Runtime) -> None:
    buffer = runtime.allocate(4)
    for take in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(NotImplementedOp, match="copy_within_device"):
            take(buffer)
    assert buffer.read().tolist() == [0] * 4


def test_what_is_no_buffer(runtime: Runtime) -> None:
    buffer = runtime.allocate(4)
    view = buffer.view("uint8")
    for call in (
        lambda x: runtime.copy_to_device(b"", x),
        lambda x: runtime.copy_from_device(x, bytearray()),
        lambda x: runtime.copy_within_device(x, buffer),
        lambda x: runtime.copy_within_device(buffer, x),
        lambda x: runtime.copy_strided(buffer, 0, x, (), (), 1),
        lambda x: runtime.copy_from_device_async(x),
        lambda x: runtime.deallocate(x),
    ):
        for given in (None, 3, np.zeros(4, np.uint8)):
            with pytest.raises(InvalidArgument, match="wanted a Buffer"):
                call(given)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="view.buffer"):
            call(view)  # type: ignore[arg-type]


def test_what_is_in_use_twice(runtime: Runtime) -> None:
    """Views that overlap are one memory."""
    buffer = runtime.allocate(16)
    words, halves = buffer.view("uint32"), buffer.view("uint16", (3,), offset=2)
    halves.write([1, 2, 3])
    assert words.read().tolist() == [1 << 16, 2 + (3 << 16), 0, 0]
    words.write(0)
    assert not halves.read().any()


def test_numpy_takes_views_and_buffers(runtime: Runtime) -> None:
    buffer = runtime.allocate(8)
    view = buffer.view("float32", (2,))
    view.write([1, 2])
    assert np.asarray(view).dtype == np.float32 and np.asarray(view).tolist() == [1, 2]
    assert np.asarray(view, np.int64).tolist() == [1, 2] and np.sqrt(view).shape == (2,)
    assert np.asarray(buffer).dtype == np.uint8 and np.asarray(buffer).tobytes() == view.read().tobytes()
    copied = np.array(view)
    copied[0] = 9
    assert view.read().tolist() == [1, 2] and xp.asarray(view).tolist() == [1, 2]
    with pytest.raises(InvalidArgument, match="copied"):
        np.asarray(view, copy=False)
    buffer.free()
    with pytest.raises(UseAfterFree):
        np.asarray(view)


MOVES: dict[str, Callable[[Runtime, Buffer], object]] = {
    "write": lambda runtime, buffer: buffer.write(b"\1" * 16),
    "read": lambda runtime, buffer: buffer.read(),
    "write of a view": lambda runtime, buffer: buffer.view("float32").write([1, 2, 3, 4]),
    "read of a view": lambda runtime, buffer: buffer.view("float32").read(),
    "to_array": lambda runtime, buffer: buffer.view("float32").to_array(),
    "copy_within_device": lambda runtime, buffer: runtime.copy_within_device(buffer, buffer, 4, dst_offset=8),
    "copy_strided": lambda runtime, buffer: runtime.copy_strided(buffer, 0, buffer, (2,), (2,), 4),
    "copy_from_device_async": lambda runtime, buffer: runtime.copy_from_device_async(buffer),
    "allocate": lambda runtime, buffer: runtime.allocate(4),
}


@pytest.mark.parametrize("move", MOVES)
def test_bytes_stay_where_a_function_is_traced(runtime: Runtime, move: str) -> None:
    # A move would run once, when the function is traced; on a device it would become a part of the trace.
    buffer = runtime.allocate(16)
    buffer.write(bytes(range(16)))

    def fn(x: xp.Array) -> xp.Array:
        MOVES[move](runtime, buffer)
        return x + 1

    with pytest.raises(ConcretizationError, match="outside"):
        xp.jit(fn)(xp.ones(2))
    view = buffer.view("int32")
    assert view.read().tobytes() == bytes(range(16))
    view.write([1, 2, 3, 4])
    assert buffer.view("int32").to_array().tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("move", [name for name in MOVES if name != "allocate"])
def test_bytes_stay_where_a_function_is_captured(runtime: Runtime, move: str) -> None:
    buffer, out = runtime.allocate(16), runtime.allocate(16)
    buffer.write(bytes(range(16)))

    def fn(value: object, output: Output) -> None:
        output.write(value)
        MOVES[move](runtime, buffer)

    with pytest.raises(ConcretizationError, match="outside"):
        runtime.capture(fn, inputs=[buffer], outputs=[out])
    assert buffer.read().tobytes() == bytes(range(16)) and not out.read().any()
    runtime.capture(lambda value, output: output.write(value), inputs=[buffer], outputs=[out]).launch()
    assert out.read().tobytes() == bytes(range(16))


def test_a_first_view_in_a_traced_function(runtime: Runtime) -> None:
    buffer = runtime.allocate(8)
    buffer.write(np.asarray([1.5, 2.5], np.float32))
    found = []

    @xp.jit
    def fn(x: xp.Array) -> xp.Array:
        found.append(buffer.view("float32"))
        return x

    fn(xp.ones(2))
    assert found[0].read().tolist() == buffer.view("float32").read().tolist() == [1.5, 2.5]
