"""Events, and copies to the host that run beside other work."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from rtx_jax.errors import IndexOutOfBounds, InvalidArgument, NotContiguous
from rtx_jax.runtime import Event, JaxRuntime, NumpyRuntime, Runtime
from rtx_jax.runtime.jax_events import InFlight, JaxEvent

STEPS = 60


@jax.jit
def slow(x: jax.Array) -> jax.Array:
    """Some tenths of a second on a CPU."""
    return lax.fori_loop(0, STEPS, lambda _, y: jnp.tanh(y @ x), x)


OPERAND = np.full((512, 512), 1e-3, np.float32)


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    slow(OPERAND).block_until_ready()


class Gate(Event):
    """An event that a test opens."""

    def __init__(self) -> None:
        self.opened = threading.Event()

    @property
    def ready(self) -> bool:
        return self.opened.is_set()

    def wait(self) -> None:
        assert self.opened.wait(60)


def test_an_event_is_ready_after_what_it_was_recorded_behind() -> None:
    runtime = JaxRuntime("cpu")
    y = slow(OPERAND)
    event = runtime.record_event()
    said, running = event.ready, not y.is_ready()
    assert not (said and running)
    assert "ready" in repr(event)
    event.wait()
    assert event.ready and y.is_ready()


def test_an_event_keeps_waiting_for_what_was_dropped() -> None:
    seen = slow(OPERAND)
    dropped = slow(OPERAND + 1)
    event = JaxRuntime("cpu").record_event()
    del dropped
    gc.collect()
    event.wait()
    assert event.ready and seen.is_ready()


def test_later_work_does_not_delay_an_event() -> None:
    runtime = JaxRuntime("cpu")
    runtime.synchronize()
    event = runtime.record_event()
    y = slow(OPERAND)
    assert event.ready
    y.block_until_ready()


def test_an_event_of_another_device() -> None:
    runtime = JaxRuntime("cpu")
    y = slow(OPERAND)
    runtime.synchronize("cpu:3")
    assert runtime.record_event("cpu:3").ready
    y.block_until_ready()


def test_an_event_follows_a_buffer_that_is_written() -> None:
    """A write donates the array that the event waits for; what replaces it is made of it."""
    old, new = slow(OPERAND), slow(OPERAND)
    events = InFlight(jax.devices("cpu")[0], threading.RLock())
    event = JaxEvent([old], events._lock)
    events._events.add(event)
    events.follow(old, new)
    old.delete()
    said, running = event.ready, not new.is_ready()
    assert not (said and running)
    event.wait()
    assert new.is_ready() and event.ready


def test_events_let_go_of_what_is_done() -> None:
    y = slow(OPERAND)
    event = JaxRuntime("cpu").record_event()
    y.block_until_ready()
    JaxRuntime("cpu").record_event()
    assert event._pending == []  # type: ignore[attr-defined]


def test_the_host_is_always_ready() -> None:
    event = NumpyRuntime().record_event()
    assert event.ready and repr(event) == "DoneEvent(ready)"
    event.wait()


def test_synchronize_waits() -> None:
    y = slow(OPERAND)
    JaxRuntime("cpu").synchronize()
    assert y.is_ready()


def test_a_copy_on_its_way(runtime: Runtime) -> None:
    buffer = runtime.allocate(8)
    buffer.write(b"abcdefgh")
    copy = runtime.copy_from_device_async(buffer)
    assert copy.nbytes == 8 and copy.result().tobytes() == b"abcdefgh" and copy.done
    assert not copy.result().flags.writeable and "8 bytes, done" in repr(copy)
    out = bytearray(4)
    copy.read_into(out)
    assert out == b"abcd"


def overwrite(runtime: Runtime) -> list[Callable[..., None]]:
    other = runtime.allocate(1 << 16)
    other.write(b"o" * (1 << 16))
    return [
        lambda b: b.write(b"n" * (1 << 16)),
        lambda b: runtime.copy_within_device(other, b),
        lambda b: runtime.copy_strided(other, 0, b, (1 << 16,), (0,), 1),
        lambda b: b.view("uint8").write(1),
        lambda b: b.free(),
    ]


@pytest.mark.parametrize("which", range(5))
def test_a_copy_has_the_bytes_of_the_call(runtime: Runtime, which: int) -> None:
    """Whatever is done to the buffer while the copy is on its way."""
    change = overwrite(runtime)[which]
    for value in range(3):
        buffer = runtime.allocate(1 << 16)
        buffer.write(bytes([value]) * (1 << 16))
        copy = runtime.copy_from_device_async(buffer)
        change(buffer)
        assert (copy.result() == value).all()


def test_a_copy_waits_for_its_event(runtime: Runtime) -> None:
    gate, buffer = Gate(), runtime.allocate(4)
    buffer.write(b"abcd")
    copy = runtime.copy_from_device_async(buffer, gate)
    other = runtime.allocate(4)
    other.write(b"else")  # other work goes on
    assert not copy.done and "on its way" in repr(copy) and other.read().tobytes() == b"else"
    gate.opened.set()
    assert copy.result().tobytes() == b"abcd"


def test_several_copies_at_once(runtime: Runtime) -> None:
    gate = Gate()
    buffers = [runtime.allocate(4) for _ in range(3)]
    for i, buffer in enumerate(buffers):
        buffer.write(bytes([i]) * 4)
    copies = [runtime.copy_from_device_async(buffer, gate if i == 0 else None) for i, buffer in enumerate(buffers)]
    assert copies[2].result().tolist() == [2] * 4 and copies[1].result().tolist() == [1] * 4
    assert not copies[0].done
    gate.opened.set()
    assert copies[0].result().tolist() == [0] * 4


def test_a_copy_into_given_memory(runtime: Runtime) -> None:
    buffer = runtime.allocate(16)
    buffer.view("float32").write([1, 2, 3, 4])
    out = np.zeros((2, 2), np.float32)
    copy = runtime.copy_from_device_async(buffer, runtime.record_event(), into=out)
    assert copy.result().size == 16 and out.tolist() == [[1, 2], [3, 4]]
    part = bytearray(4)
    assert runtime.copy_from_device_async(buffer, into=part).nbytes == 4
    with pytest.raises(IndexOutOfBounds):
        runtime.copy_from_device_async(buffer, into=bytearray(17))
    with pytest.raises(IndexOutOfBounds, match="read_into"):
        copy.read_into(bytearray(17))
    with pytest.raises(InvalidArgument, match="read-only"):
        runtime.copy_from_device_async(buffer, into=b"1234")
    with pytest.raises(NotContiguous):
        copy.read_into(np.zeros((4, 4), np.uint8)[:, 0])


def test_an_event_that_fails(runtime: Runtime) -> None:
    class Broken(Gate):
        def wait(self) -> None:
            raise ZeroDivisionError

    buffer = runtime.allocate(4)
    copy = runtime.copy_from_device_async(buffer, Broken())
    with pytest.raises(ZeroDivisionError):
        copy.result()
    buffer.write(b"abcd")  # nothing waits for it
    assert buffer.read().tobytes() == b"abcd"
