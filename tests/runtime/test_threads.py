"""Everything at once on the same buffers: nothing hangs, nothing fails, every reader sees one whole value."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

from rtx_jax.runtime import Runtime

N = 1024
ROUNDS = 200


def test_everything_at_once(runtime: Runtime) -> None:
    a, out = (runtime.allocate(4 * N).view("float32") for _ in range(2))
    other = runtime.allocate(4 * N)
    graph = runtime.capture(lambda x, y: y.write(x + x), inputs=[a], outputs=[out])
    where, errors = (a.ptr, out.ptr, other.ptr), []

    def check(values: np.ndarray) -> None:
        assert (values == values[0]).all() and values[0] % 2 == 0

    work: list[Callable[[int], object]] = [
        lambda i: a.write(np.full(N, i, np.float32)),
        lambda i: graph.launch(),
        lambda i: graph.launch(),
        lambda i: check(out.read()),
        lambda i: check(runtime.copy_from_device_async(out.buffer).result().view(np.float32)),
        lambda i: runtime.copy_within_device(out.buffer, other),
        lambda i: runtime.copy_strided(out.buffer, 0, other, (N,), (0,), 4),
        lambda i: runtime.record_event().wait(),
        lambda i: runtime.allocate(64).free(),
    ]

    def run(step: Callable[[int], object]) -> None:
        try:
            for i in range(ROUNDS):
                step(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(step,)) for step in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not errors and not any(thread.is_alive() for thread in threads)
    assert graph.launch_count == 2 * ROUNDS and where == (a.ptr, out.ptr, other.ptr)
    check(other.view("float32").read())
    graph.launch()
    assert (out.read() == 2 * (ROUNDS - 1)).all()


@pytest.mark.slow
def test_more_bytes_than_31_bits_count(runtime: Runtime) -> None:
    size = 2**31 + 2**20
    with runtime.allocate(size) as buffer:
        where = buffer.ptr
        buffer.write(b"behind", offset=2**31 + 1)
        runtime.copy_within_device(buffer, buffer, 6, src_offset=2**31 + 1, dst_offset=2**31 + 101)
        assert buffer.read(6, offset=2**31 + 101).tobytes() == b"behind"
        with runtime.allocate(4) as other:
            runtime.copy_strided(buffer, 2**31 + 106, other, (2, 2), (-1, -2), 1)
            assert other.read().tobytes() == b"dinh"
        assert buffer.ptr == where
