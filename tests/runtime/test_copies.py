"""Copies to, from and within a device, against a model that is a bytearray."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtx_jax.errors import DeviceMismatch, IndexOutOfBounds, InvalidArgument, OutOfMemory
from rtx_jax.runtime import Buffer, JaxRuntime, NumpyRuntime, Runtime, jax_moves
from rtx_jax.runtime.jax_client import JaxClient
from rtx_jax.runtime.jax_moves import pieces

SIZE = 32
PATTERN = np.random.default_rng(5).integers(0, 256, 1 << 12, dtype=np.uint8)

runtimes = st.sampled_from([JaxRuntime("cpu"), NumpyRuntime()])
first_views = st.sampled_from(["uint8", "float32", "bfloat16", "int64", "complex64"])


def filled(runtime: Runtime, first: str, size: int = SIZE) -> Buffer:
    buffer = runtime.allocate(size)
    buffer.view(first)
    buffer.write(PATTERN[:size])
    return buffer


@st.composite
def ranges(draw: st.DrawFn, size: int = SIZE) -> tuple[int, int]:
    start = draw(st.integers(0, size))
    return start, draw(st.integers(0, size - start))


@settings(max_examples=60, deadline=None)
@given(runtimes, first_views, ranges(), st.data())
def test_within_one_buffer(runtime: Runtime, first: str, source: tuple[int, int], data: st.DataObject) -> None:
    start, length = source
    target = data.draw(st.integers(0, SIZE - length))
    buffer = filled(runtime, first)
    model = bytearray(PATTERN[:SIZE])
    where = buffer.ptr
    for _ in range(2):
        runtime.copy_within_device(buffer, buffer, length, src_offset=start, dst_offset=target)
        model[target : target + length] = bytes(model[start : start + length])
    assert buffer.read().tobytes() == bytes(model) and buffer.ptr == where


@settings(max_examples=60, deadline=None)
@given(runtimes, first_views, first_views, ranges(), st.data())
def test_between_buffers(
    runtime: Runtime, first: str, second: str, source: tuple[int, int], data: st.DataObject
) -> None:
    start, length = source
    target = data.draw(st.integers(0, SIZE - length))
    src, dst = filled(runtime, first), filled(runtime, second)
    dst.write(bytes(SIZE))
    where = src.ptr, dst.ptr
    runtime.copy_within_device(src, dst, length, src_offset=start, dst_offset=target)
    model = bytearray(SIZE)
    model[target : target + length] = PATTERN[start : start + length].tobytes()
    assert dst.read().tobytes() == bytes(model) and src.read().tobytes() == PATTERN[:SIZE].tobytes()
    assert where == (src.ptr, dst.ptr)


@settings(max_examples=60, deadline=None)
@given(runtimes, first_views, ranges())
def test_to_and_from_the_host(runtime: Runtime, first: str, target: tuple[int, int]) -> None:
    start, length = target
    buffer = filled(runtime, first)
    where = buffer.ptr
    runtime.copy_to_device(PATTERN[100 : 100 + length], buffer, offset=start)
    model = bytearray(PATTERN[:SIZE])
    model[start : start + length] = PATTERN[100 : 100 + length].tobytes()
    out = bytearray(SIZE)
    runtime.copy_from_device(buffer, out)
    assert out == model and buffer.ptr == where
    part = np.zeros(length, np.uint8)
    runtime.copy_from_device(buffer, part, offset=start)
    assert part.tobytes() == bytes(model[start : start + length])


@pytest.mark.parametrize("first", ["uint8", "float32", "bfloat16", "complex128"])
def test_any_bytes_survive(runtime: Runtime, first: str) -> None:
    """Also those that are signalling NaNs and subnormals of the dtype that the memory is laid out for."""
    values = np.arange(1 << 16, dtype=np.uint16).view(np.uint8)  # every bfloat16 and float16 that there is
    buffer = runtime.allocate(values.size)
    buffer.view(first)
    buffer.write(values)
    assert (buffer.read() == values).all()
    runtime.copy_within_device(buffer, buffer, values.size - 1, dst_offset=1)
    assert (buffer.read(offset=1) == values[:-1]).all()
    buffer.write(values[: values.size // 2 - 1], offset=3)
    assert (buffer.read(values.size // 2 - 1, offset=3) == values[: values.size // 2 - 1]).all()


def test_a_target_of_another_type_is_filled(runtime: Runtime) -> None:
    buffer = filled(runtime, "uint8")
    out = np.zeros((2, 4), np.float32)
    runtime.copy_from_device(buffer, out)
    assert out.tobytes() == PATTERN[:SIZE].tobytes()


def test_nothing_is_copied_out_of_bounds(runtime: Runtime) -> None:
    src, dst = filled(runtime, "uint8"), filled(runtime, "uint8")
    for call in (
        lambda: runtime.copy_within_device(src, dst, SIZE + 1),
        lambda: runtime.copy_within_device(src, dst, 4, src_offset=SIZE - 3),
        lambda: runtime.copy_within_device(src, dst, 4, dst_offset=SIZE - 3),
        lambda: runtime.copy_within_device(src, dst, 4, dst_offset=-1),
        lambda: runtime.copy_within_device(src, dst, 4, src_offset=-1),
        lambda: runtime.copy_within_device(src, dst, -4),
        lambda: runtime.copy_within_device(src, dst, src_offset=SIZE + 1),
        lambda: runtime.copy_within_device(src, runtime.allocate(4)),
        lambda: runtime.copy_to_device(bytes(SIZE + 1), dst),
        lambda: runtime.copy_from_device(src, bytearray(SIZE + 1)),
        lambda: runtime.copy_from_device(src, bytearray(4), offset=SIZE - 3),
    ):
        with pytest.raises(IndexOutOfBounds, match=r"bytes .* within the buffer's"):
            call()
    with pytest.raises(InvalidArgument, match="integer"):
        runtime.copy_within_device(src, dst, 2.0)  # type: ignore[arg-type]
    assert dst.read().tobytes() == PATTERN[:SIZE].tobytes()


def test_empty_copies(runtime: Runtime) -> None:
    src, none = filled(runtime, "uint8"), runtime.allocate(0)
    runtime.copy_within_device(src, none, 0)
    runtime.copy_within_device(none, src)
    runtime.copy_within_device(src, src, 0, src_offset=SIZE, dst_offset=SIZE)
    runtime.copy_to_device(b"", none)
    runtime.copy_from_device(none, bytearray())
    assert src.read().tobytes() == PATTERN[:SIZE].tobytes()


def test_buffers_of_two_devices() -> None:
    here, there = JaxRuntime("cpu").allocate(4), JaxRuntime("cpu").allocate(4, "cpu:1")
    for call in (
        lambda: JaxRuntime("cpu").copy_within_device(here, there),
        lambda: JaxRuntime("cpu").copy_strided(here, 0, there, (1,), (1,), 1),
        lambda: NumpyRuntime().copy_within_device(here, NumpyRuntime().allocate(4)),
    ):
        with pytest.raises(DeviceMismatch, match="cpu:0 and"):
            call()


@pytest.mark.parametrize("first", ["uint8", "float32"])
def test_the_way_of_devices_that_are_no_host(first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU reads memory where it lies; other devices go by compiled copies, which are tested on the CPU."""
    runtime = JaxRuntime("cpu")
    client = runtime.client("cpu:2")
    assert isinstance(client, JaxClient)
    monkeypatch.setattr(client, "_is_host", False)
    buffer = runtime.allocate(SIZE, "cpu:2")
    assert not buffer.read().any()
    buffer.view(first)
    where = buffer.ptr
    buffer.write(PATTERN[:SIZE])
    for start, length in ((0, SIZE), (0, 8), (3, 13), (31, 1), (5, 0)):
        assert buffer.read(length, offset=start).tobytes() == PATTERN[start : start + length].tobytes()
    assert runtime.copy_from_device_async(buffer).result().tobytes() == PATTERN[:SIZE].tobytes()
    assert buffer.ptr == where


@pytest.mark.parametrize("length", [1, 2, 3, 8, 21, 31, 32])
def test_pieces_make_the_whole(length: int) -> None:
    found = list(pieces(length, 32))
    assert [start for start, _ in found] == [sum(size for _, size in found[:i]) for i in range(len(found))]
    assert sum(size for _, size in found) == length
    assert all(size & (size - 1) == 0 for _, size in found)
    assert list(pieces(length, 32, backwards=True)) == found[::-1]
    assert list(pieces(21, 32, 21)) == [(0, 21)]


def test_ctrl_c_between_two_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first piece has taken the memory; the buffer goes on with it."""
    runtime = JaxRuntime("cpu")
    buffer = filled(runtime, "uint8")
    where, donate, calls = buffer.ptr, jax_moves._donate, []

    def interrupted(*args: object) -> None:
        if calls:
            raise KeyboardInterrupt
        calls.append(1)
        donate(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(jax_moves, "_donate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        buffer.write(b"a" * 12)  # pieces of 8 and 4
    monkeypatch.undo()
    assert buffer.read().tobytes() == b"a" * 8 + PATTERN[8:SIZE].tobytes() and buffer.ptr == where
    buffer.write(b"b" * 12)
    assert buffer.read(12).tobytes() == b"b" * 12


def test_a_device_without_room_for_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = JaxRuntime("cpu")
    buffer = filled(runtime, "uint8")

    def full(*args: object) -> None:
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 32 bytes.")

    monkeypatch.setattr(jax_moves, "_donate", full)
    with pytest.raises(OutOfMemory, match="^write"):
        buffer.write(b"a")
    monkeypatch.undo()
    assert buffer.read().tobytes() == PATTERN[:SIZE].tobytes()
