"""What allocators count, and what they refuse."""

from __future__ import annotations

import gc
import threading

import jax
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.backend import CpuBackend
from rtx_jax.errors import (
    AllocatorBusy,
    AllocatorFrozen,
    InvalidArgument,
    OutOfMemory,
    UseAfterFree,
)
from rtx_jax.runtime import AllocationStats, Allocator, JaxRuntime, Runtime


@pytest.fixture
def allocator(runtime: Runtime) -> Allocator:
    return Allocator(runtime.default_client())


def test_nothing_is_counted_at_first(allocator: Allocator) -> None:
    assert allocator.stats() == AllocationStats(0, 0, 0, False, 0)
    assert allocator.allocated_bytes == 0 and not allocator.is_frozen


def test_an_allocation_is_counted(allocator: Allocator) -> None:
    buffer = allocator.allocate(100)
    assert allocator.stats() == AllocationStats(1, 100, 1, False, 100)
    assert allocator.allocated_bytes == 100 and buffer.nbytes == 100 and buffer.allocator is allocator


def test_totals_add_up_and_what_is_in_use_does_not(allocator: Allocator) -> None:
    first, second = allocator.allocate(100), allocator.allocate(50)
    allocator.deallocate(first)
    third = allocator.allocate(20)
    assert allocator.stats() == AllocationStats(3, 170, 2, False, 150)
    assert allocator.allocated_bytes == 70 and second.is_alive and third.is_alive


def test_the_peak_stays(allocator: Allocator) -> None:
    for size in (10, 300, 20):
        allocator.allocate(size).free()
    kept = allocator.allocate(5)
    assert allocator.stats().peak_usage == 300 and kept.is_alive


def test_reset_starts_anew(allocator: Allocator) -> None:
    allocator.deallocate(allocator.allocate(64), 64)
    allocator.reset()
    assert allocator.stats() == AllocationStats(0, 0, 0, False, 0)


def test_reset_refuses_while_buffers_live(allocator: Allocator) -> None:
    kept = allocator.allocate(64)
    with pytest.raises(AllocatorBusy, match="1 buffers of 64 bytes") as found:
        allocator.reset()
    assert found.value.active_allocations == 1  # type: ignore[attr-defined]
    assert allocator.stats().total_allocations == 1
    kept.free()
    allocator.reset()


def test_frozen_allocators_refuse(allocator: Allocator) -> None:
    kept = allocator.allocate(8)
    allocator.freeze()
    assert allocator.is_frozen and allocator.stats().is_frozen
    with pytest.raises(AllocatorFrozen, match=r"16 bytes.*unfreeze\(\)"):
        allocator.allocate(16)
    assert allocator.stats().total_allocations == 1
    kept.write(b"12345678")  # what there is works on
    kept.free()
    allocator.unfreeze()
    assert allocator.allocate(16).is_alive


def test_reset_keeps_frozen(allocator: Allocator) -> None:
    allocator.allocate(8).free()
    allocator.freeze()
    allocator.reset()
    assert allocator.stats() == AllocationStats(0, 0, 0, True, 0)


def test_frozen_for_a_block(allocator: Allocator) -> None:
    with pytest.raises(ZeroDivisionError), allocator.frozen("capture"):
        with pytest.raises(AllocatorFrozen, match="before the capture"):
            allocator.allocate(1)
        with allocator.frozen("reject"), pytest.raises(AllocatorFrozen, match="unfreeze"):
            allocator.allocate(1)
        assert allocator.is_frozen
        raise ZeroDivisionError
    assert not allocator.is_frozen and allocator.allocate(1).is_alive
    with pytest.raises(InvalidArgument, match="'hard'"):
        allocator.freeze("hard")  # type: ignore[arg-type]


def test_what_is_collected_is_given_back(allocator: Allocator) -> None:
    buffer = allocator.allocate(32)
    view = buffer.view("float32")
    del buffer
    gc.collect()
    assert allocator.stats().active_allocations == 1  # the view keeps it
    del view
    gc.collect()
    assert allocator.stats().active_allocations == 0 and allocator.allocated_bytes == 0


def test_freeing_counts_once(allocator: Allocator) -> None:
    buffer = allocator.allocate(32)
    buffer.free()
    buffer.free()
    with pytest.raises(UseAfterFree, match="deallocate"):
        allocator.deallocate(buffer)
    del buffer
    gc.collect()
    assert allocator.stats() == AllocationStats(1, 32, 0, False, 32)


def test_deallocate_checks_its_arguments(runtime: Runtime, allocator: Allocator) -> None:
    buffer = allocator.allocate(32)
    with pytest.raises(InvalidArgument, match="got 31, wanted 32"):
        runtime.deallocate(buffer, 31)
    with pytest.raises(InvalidArgument, match="of this allocator"):
        Allocator(runtime.default_client()).deallocate(buffer)
    assert buffer.is_alive
    runtime.deallocate(buffer, 32)
    with pytest.raises(UseAfterFree):
        runtime.deallocate(buffer)


def test_an_empty_buffer(allocator: Allocator) -> None:
    buffer = allocator.allocate(0)
    assert (buffer.ptr, buffer.nbytes, buffer.read().shape) == (0, 0, (0,))
    buffer.write(b"")
    assert allocator.stats() == AllocationStats(1, 0, 1, False, 0)
    buffer.free()


@pytest.mark.parametrize("nbytes", [2**60, 2**62, 2**63, 2**70])
def test_more_than_there_is(allocator: Allocator, nbytes: int) -> None:
    with pytest.raises(OutOfMemory, match=str(nbytes)) as found:
        allocator.allocate(nbytes)
    assert found.value.size == nbytes and isinstance(found.value, MemoryError)  # type: ignore[attr-defined]
    assert allocator.stats().total_allocations == 0
    assert allocator.allocate(8).read().tolist() == [0] * 8  # the library works on
    assert xp.sum(xp.ones(3)) == 3


@pytest.mark.parametrize("nbytes", [-1, 1.0, "8", None, True])
def test_what_is_no_size(allocator: Allocator, nbytes: object) -> None:
    with pytest.raises(InvalidArgument, match="nbytes"):
        allocator.allocate(nbytes)  # type: ignore[arg-type]


def test_threads_count_right(allocator: Allocator) -> None:
    def work() -> None:
        for _ in range(50):
            allocator.allocate(16).free()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = allocator.stats()
    assert (stats.total_allocations, stats.total_bytes, stats.active_allocations) == (200, 3200, 0)
    assert 16 <= stats.peak_usage <= 64


def test_the_bytes_of_the_device(runtime: Runtime) -> None:
    allocator = runtime.default_client().allocator
    before = allocator.device_bytes()
    buffer = allocator.allocate(1 << 20)
    assert allocator.device_bytes() >= 1 << 20
    buffer.free()
    gc.collect()
    assert allocator.device_bytes() <= before
    assert "buffers" in repr(allocator)


B = CpuBackend()


def test_eager_results_are_refused_too() -> None:
    """And captured graphs launch, which need no memory that was not planned."""
    runtime = JaxRuntime("cpu")
    allocator = runtime.default_client().allocator
    x, t = xp.asarray([1.0, 2.0]), B.ones((2,))
    source, target = runtime.allocate(8).view("float32"), runtime.allocate(8).view("float32")
    source.write([1, 2])
    graph = runtime.capture(lambda a, out: out.write(a + a), inputs=[source], outputs=[target])
    allocator.freeze()
    try:
        for make in (
            lambda: x + x,
            lambda: x + 1,
            lambda: -x,
            lambda: xp.sum(x, axis=0),
            lambda: xp.zeros(3),
            lambda: xp.asarray([1.0]),
            lambda: x[0],
            lambda: xp.stack([x, x]),
            lambda: xp.jit(lambda a: a * 2)(x),
            lambda: B.add(t, t),
            lambda: B.zeros((2,)),
        ):
            with pytest.raises(AllocatorFrozen, match=r"cpu:0.*unfreeze\(\)"):
                make()
        with pytest.raises(AllocatorFrozen, match="^matmul"):
            xp.matmul(x, x)
        x[0] = 5
        x *= 2
        graph.launch()
        assert target.read().tolist() == [2, 4]
        other = jax.device_put(np.ones(2, np.float32), jax.devices("cpu")[1])
        assert float(xp.sum(xp.asarray(other))) == 2  # another device is not frozen
    finally:
        allocator.unfreeze()
    assert x.tolist() == [10, 4] and (x + x).tolist() == [20, 8]
    assert B.to_data(B.add(t, t)).tolist() == [2, 2]


def test_recorded_operations_wait_until_memory_may_be_taken() -> None:
    x = xp.asarray([1.0, 2.0])
    with JaxRuntime("cpu").default_client().allocator.frozen(), xp.fusion():
        y = x + x
        with pytest.raises(AllocatorFrozen, match="fusion"):
            y.tolist()
    assert y.tolist() == [2, 4]


def test_a_capture_refuses_buffers_alone() -> None:
    with JaxRuntime("cpu").default_client().allocator.frozen("capture"):
        assert (xp.ones(2) + 1).tolist() == [2, 2]
        with pytest.raises(AllocatorFrozen, match="before the capture"):
            JaxRuntime("cpu").allocate(4)
    # An allocator of one's own refuses its own buffers.
    with Allocator(JaxRuntime("cpu").default_client()).frozen():
        assert (xp.ones(2) + 1).tolist() == [2, 2] and JaxRuntime("cpu").allocate(4).is_alive
