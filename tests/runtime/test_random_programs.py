"""Random sequences of what can be done to buffers, on both runtimes, against bytearrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtx_jax.errors import AllocatorFrozen, UseAfterFree
from rtx_jax.runtime import Allocator, Buffer, JaxRuntime, NumpyRuntime, PendingCopy, Runtime

SIZES = (8, 24)  # few, as a program is compiled for each pair
NOISE = np.random.default_rng(11).integers(0, 256, 1 << 10, dtype=np.uint8)
STEPS = ("allocate", "free", "write", "view", "within", "strided", "read", "copy", "bring", "freeze", "drop")


class Machine:
    """Buffers of one runtime, and what they must hold."""

    def __init__(self, runtime: Runtime, data: st.DataObject) -> None:
        self.runtime, self.data = runtime, data
        self.allocator = Allocator(runtime.default_client())
        self.buffers: list[Buffer] = []
        self.models: list[bytearray | None] = []  # None where freed
        self.pointers: dict[int, int] = {}
        self.copies: list[tuple[PendingCopy, bytes]] = []

    def number(self, least: int, most: int) -> int:
        return self.data.draw(st.integers(least, most))

    def pick(self) -> int:
        return self.number(0, len(self.buffers) - 1)

    def allocate(self) -> None:
        size = self.data.draw(st.sampled_from(SIZES))
        if self.allocator.is_frozen:
            with pytest.raises(AllocatorFrozen):
                self.allocator.allocate(size)
            return
        self.buffers.append(self.allocator.allocate(size))
        self.models.append(bytearray(size))

    def free(self) -> None:
        i = self.pick()
        if self.models[i] is None:
            with pytest.raises(UseAfterFree):
                self.allocator.deallocate(self.buffers[i])
        self.buffers[i].free()
        self.models[i] = None

    def write(self) -> None:
        i = self.pick()
        model, start = self.models[i], self.number(0, 900)
        if model is None:
            with pytest.raises(UseAfterFree):
                self.buffers[i].write(b"")
            return
        offset = self.number(0, len(model))
        length = self.number(0, len(model) - offset)
        part = NOISE[start : start + length].copy()
        self.buffers[i].write(part, offset=offset)
        model[offset : offset + length] = part.tobytes()
        part[:] = 0

    def view(self) -> None:
        i = self.pick()
        model = self.models[i]
        if model is None:
            return
        dtype = np.dtype(self.data.draw(st.sampled_from(["int16", "float32", "float64", "bfloat16", "complex64"])))
        view = self.buffers[i].view(dtype)
        assert view.read().tobytes() == bytes(model)
        if self.number(0, 1):
            view.write(1)
            model[:] = np.ones(view.shape, dtype).tobytes()

    def within(self) -> None:
        i, j = self.pick(), self.pick()
        src, dst = self.models[i], self.models[j]
        if src is None or dst is None:
            return
        length = self.number(0, min(len(src), len(dst)))
        start, target = self.number(0, len(src) - length), self.number(0, len(dst) - length)
        where = {"src_offset": start, "dst_offset": target}
        self.runtime.copy_within_device(self.buffers[i], self.buffers[j], length, **where)
        dst[target : target + length] = bytes(src[start : start + length])

    def strided(self) -> None:
        i, j = self.pick(), self.pick()
        src, dst = self.models[i], self.models[j]
        if src is None or dst is None:
            return
        item = self.data.draw(st.sampled_from([1, 4]))
        stride = self.data.draw(st.sampled_from([-1, 0]))
        places = [4 + k * stride * item for k in (0, 1)]
        self.runtime.copy_strided(self.buffers[i], 4, self.buffers[j], (2,), (stride,), item)
        dst[: 2 * item] = b"".join(bytes(src[p : p + item]) for p in places)

    def read(self) -> None:
        i = self.pick()
        model = self.models[i]
        if model is None:
            with pytest.raises(UseAfterFree):
                self.buffers[i].read()
        else:
            assert self.buffers[i].read().tobytes() == bytes(model)

    def copy(self) -> None:
        i = self.pick()
        model = self.models[i]
        if model is not None:
            event = self.runtime.record_event() if self.number(0, 1) else None
            self.copies.append((self.runtime.copy_from_device_async(self.buffers[i], event), bytes(model)))

    def bring(self) -> None:
        for copy, expected in self.copies:
            assert copy.result().tobytes() == expected
        self.copies.clear()

    def freeze(self) -> None:
        if self.allocator.is_frozen:
            self.allocator.unfreeze()
        else:
            self.allocator.freeze()

    def drop(self) -> None:
        i = self.pick()
        if len(self.buffers) > 1:
            self.pointers.pop(id(self.buffers[i]), None)
            del self.buffers[i], self.models[i]

    def check(self) -> None:
        alive = [model for model in self.models if model is not None]
        stats = self.allocator.stats()
        assert (stats.active_allocations, self.allocator.allocated_bytes) == (len(alive), sum(map(len, alive)))
        for buffer, model in zip(self.buffers, self.models, strict=True):
            if model is not None and id(buffer) in self.pointers:
                assert buffer.ptr == self.pointers[id(buffer)]
        if self.number(0, 3) == 0:  # somebody looks at the pointers
            self.pointers = {id(b): b.ptr for b, model in zip(self.buffers, self.models, strict=True) if model}


@pytest.mark.parametrize("kind", ["cpu", "numpy"])
@settings(max_examples=60, deadline=None)
@given(st.data(), st.lists(st.sampled_from(STEPS), min_size=5, max_size=25))
def test_buffers_are_bytearrays(kind: str, data: st.DataObject, steps: list[str]) -> None:
    machine = Machine(NumpyRuntime() if kind == "numpy" else JaxRuntime(kind), data)
    machine.allocate()
    for step in steps:
        getattr(machine, step)()
        machine.check()
    machine.bring()
    for buffer, model in zip(machine.buffers, machine.models, strict=True):
        if model is not None:
            assert buffer.read().tobytes() == bytes(model)
