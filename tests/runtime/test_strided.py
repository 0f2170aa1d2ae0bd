"""Strided copies, against `numpy.lib.stride_tricks.as_strided` and against a loop over indices."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtx_jax.errors import IndexOutOfBounds, InvalidArgument
from rtx_jax.runtime import JaxRuntime, NumpyRuntime, Runtime
from rtx_jax.runtime.strided import Layout

SIZE = 48
DATA = np.random.default_rng(3).integers(0, 256, SIZE, dtype=np.uint8)

# A program is compiled for each shape, not for each layout.
shapes = st.sampled_from([(), (1,), (4,), (2, 3), (3, 1, 2), (2, 1, 2, 1, 2), (0, 3), (2, 0)])
runtimes = st.sampled_from([JaxRuntime("cpu"), NumpyRuntime()])


def by_loop(offset: int, shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> bytes:
    """The elements one by one; raises IndexError where one is not there."""
    found = b""
    for index in itertools.product(*[range(n) for n in shape]):
        start = offset + sum(i * s for i, s in zip(index, strides, strict=True)) * item
        if not 0 <= start <= SIZE - item:
            raise IndexError(start)
        found += DATA[start : start + item].tobytes()
    return found


def strided(offset: int, shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> bytes:
    start = np.frombuffer(DATA.tobytes(), np.dtype((np.void, item)), 1, offset)
    return np.lib.stride_tricks.as_strided(start, shape, [s * item for s in strides]).tobytes()


@settings(max_examples=150, deadline=None)
@given(runtimes, shapes, st.sampled_from([1, 2, 3, 4, 8]), st.sampled_from(["uint8", "float32"]), st.data())
def test_any_layout(runtime: Runtime, shape: tuple[int, ...], item: int, first: str, data: st.DataObject) -> None:
    strides = tuple(data.draw(st.integers(-3, 3)) for _ in shape)
    offset = data.draw(st.integers(-2, SIZE + 2) if item == 1 else st.integers(0, SIZE // item).map(lambda k: k * item))
    src, dst = runtime.allocate(SIZE), runtime.allocate(2 * SIZE)
    src.view(first), dst.view(first)
    src.write(DATA)
    where = dst.ptr
    empty = 0 in shape
    try:
        expected = by_loop(offset, shape, strides, item)
        if empty and not 0 <= offset <= SIZE:
            raise IndexError(offset)
    except IndexError:
        with pytest.raises(IndexOutOfBounds):
            runtime.copy_strided(src, offset, dst, shape, strides, item)
        assert not dst.read().any()
        return
    if not empty:
        assert expected == strided(offset, shape, strides, item)
    runtime.copy_strided(src, offset, dst, shape, strides, item)
    assert dst.read().tobytes() == expected.ljust(2 * SIZE, b"\0")
    assert dst.ptr == where and src.read().tobytes() == DATA.tobytes()


CASES = {
    "transposed": (0, (4, 3), (1, 4), 4),
    "reversed": (44, (12,), (-1,), 4),
    "broadcast": (8, (5, 2), (0, 1), 4),
    "both at once": (40, (2, 3, 2), (-2, 0, 1), 4),
    "one element": (20, (), (), 4),
    "not aligned": (3, (2, 2), (3, 1), 4),
    "large items": (0, (2,), (-1,), 16),
    "contiguous": (8, (2, 3), (3, 1), 4),
    "a window": (0, (3, 4), (1, 1), 8),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("first", ["uint8", "float32", "float64"])
def test_usual_layouts(runtime: Runtime, case: str, first: str) -> None:
    offset, shape, strides, item = CASES[case]
    if case == "large items":
        offset = 16
    src = runtime.allocate(SIZE)
    src.view(first)
    src.write(DATA)
    dst = runtime.allocate(128)
    runtime.copy_strided(src, offset, dst, shape, strides, item)
    expected = strided(offset, shape, strides, item)
    assert dst.read(len(expected)).tobytes() == expected and not dst.read(offset=len(expected)).any()


def test_a_buffer_onto_itself(runtime: Runtime) -> None:
    buffer = runtime.allocate(SIZE)
    buffer.write(DATA)
    where = buffer.ptr
    runtime.copy_strided(buffer, SIZE - 4, buffer, (12,), (-1,), 4)  # reversed in place
    assert buffer.read().tobytes() == DATA.view(np.uint32)[::-1].tobytes() and buffer.ptr == where
    runtime.copy_strided(buffer, 4, buffer, (11,), (1,), 4)  # and moved to the front
    expected = DATA.view(np.uint32)[::-1].copy()
    expected[:-1] = expected[1:].copy()
    assert buffer.read().tobytes() == expected.tobytes()


def test_bounds_are_checked_before_anything_is_copied(runtime: Runtime) -> None:
    src, dst = runtime.allocate(SIZE), runtime.allocate(16)
    src.write(DATA)
    for offset, shape, strides in (
        (0, (13,), (1,)),
        (0, (2,), (-1,)),
        (SIZE - 3, (), ()),
        (-1, (1,), (1,)),
        (0, (2, 2), (12, 1)),
        (SIZE + 1, (0,), (1,)),
        (0, (2,), (2**70,)),
    ):
        with pytest.raises(IndexOutOfBounds, match="src") as found:
            runtime.copy_strided(src, offset, dst, shape, strides, 4)
        assert found.value.size == SIZE  # type: ignore[attr-defined]
    with pytest.raises(IndexOutOfBounds, match="dst"):
        runtime.copy_strided(src, 0, dst, (5,), (0,), 4)
    assert not dst.read().any()


def test_what_is_no_layout(runtime: Runtime) -> None:
    src, dst = runtime.allocate(SIZE), runtime.allocate(SIZE)
    for offset, shape, strides, item, argument in (
        (0, (2, 2), (1,), 4, "strides"),
        (0, (-1,), (1,), 4, "shape"),
        (0, (2,), (1,), 0, "elem_size"),
        (0, (2,), (0.5,), 4, "shape"),
        (0.0, (2,), (1,), 4, "shape"),
    ):
        with pytest.raises(InvalidArgument, match=argument):
            runtime.copy_strided(src, offset, dst, shape, strides, item)  # type: ignore[arg-type]


def test_the_bytes_of_a_layout() -> None:
    assert Layout(8, (2, 3), (-2, 1), 4).range_bytes == (0, 20)
    assert Layout(8, (), (), 4).range_bytes == (8, 12)
    assert Layout(8, (0, 5), (100, 100), 4).range_bytes == (8, 8)
    assert Layout(0, (2, 3), (3, 1), 4).is_contiguous and not Layout(0, (2, 3), (1, 2), 4).is_contiguous
    assert Layout(0, (2, 1, 3), (3, 99, 1), 4).is_contiguous and Layout(0, (), (), 4).is_contiguous
    assert not Layout(0, (2,), (0,), 4).is_contiguous
