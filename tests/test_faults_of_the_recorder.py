"""Faults of what is built on the recorder: each a typed error, and a library that works afterwards.

After every fault, gradients, fused expressions and captured graphs of both runtimes compute what they computed before.
"""

from __future__ import annotations

import contextlib
import gc
import pickle
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors
from rtx_jax.backend import Autodiff, CpuBackend, Fusion, NumpyBackend
from rtx_jax.runtime import JaxRuntime, NumpyRuntime, Runtime, register_kernel_py

B = CpuBackend()
AD = Autodiff(B)
FUSED = Fusion(B)
RUNTIMES = [JaxRuntime("cpu"), NumpyRuntime()]
HOST = np.arange(1.0, 5.0, dtype=np.float32)
each_runtime = pytest.mark.parametrize("runtime", RUNTIMES, ids=repr)


def _tensor(backend=B, host=HOST):
    return backend.from_data(host.tolist(), host.shape)


def _views(runtime: Runtime, count: int, host=HOST):
    views = [runtime.allocate(host.nbytes).view(host.dtype, host.shape) for _ in range(count)]
    views[0].write(host)
    return views


class _Working:
    """Programs made before the faults, each with its result by NumPy."""

    def __init__(self) -> None:
        self.graphs = []
        for runtime in RUNTIMES:
            x, out = _views(runtime, 2)
            graph = runtime.capture(lambda x, out: out.write(x * 2 + 1), inputs=[x], outputs=[out])
            self.graphs.append((graph, x, out))

    def check(self) -> None:
        np.testing.assert_array_equal(np.asarray(xp.asarray(HOST) * 3), HOST * 3)
        w = AD.require_grad(_tensor())
        np.testing.assert_array_equal(np.asarray(AD.backward(AD.mul(w, w))[w]), 2 * HOST)
        with xp.fusion():
            y = xp.asarray(HOST) * 2 + 1
        np.testing.assert_array_equal(np.asarray(y), HOST * 2 + 1)
        np.testing.assert_array_equal(FUSED.to_data(FUSED.mul(_tensor(FUSED), _tensor(FUSED))), HOST**2)
        for number, (graph, x, out) in enumerate(self.graphs):
            x.write(HOST + number)
            graph.launch()
            np.testing.assert_array_equal(out.read(), (HOST + number) * 2 + 1)
        for runtime in RUNTIMES:
            with runtime.allocate(16) as buffer:
                buffer.write(bytes(range(16)))
                assert buffer.read().tobytes() == bytes(range(16))


@pytest.fixture(scope="module")
def working() -> _Working:
    made = _Working()
    made.check()
    return made


@pytest.fixture(autouse=True)
def _works_afterwards(working: _Working) -> Iterator[None]:
    yield
    working.check()


@contextlib.contextmanager
def _fault(error: type[errors.RtxError], builtin: type[Exception], text: str) -> Iterator[None]:
    """Expect an error of ours that is the built-in too, says what went wrong, and survives pickling."""
    with pytest.raises(error, match=text) as caught:
        yield
    assert isinstance(caught.value, builtin)
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value) and str(again) == str(caught.value)


class TestBackward:
    def test_of_nothing_that_is_marked(self) -> None:
        with _fault(errors.MissingGradient, LookupError, "require_grad"):
            AD.backward(AD.add(_tensor(), _tensor()))
        assert isinstance(AD.try_backward(_tensor()).error, errors.MissingGradient)

    def test_of_a_detached_tensor(self) -> None:
        w = AD.require_grad(_tensor())
        with _fault(errors.MissingGradient, LookupError, "without a graph"):
            AD.backward(AD.detach(AD.mul(w, w)))

    def test_of_too_many_axes(self) -> None:
        w = AD.require_grad(_tensor())
        wide = AD.reshape(AD.mul(w, w), (1, 1, 2, 1, 2, 1, 1))
        with _fault(errors.UnsupportedDimension, ValueError, "7 axes"):
            AD.backward(wide)
        free = Autodiff(B, max_rank=None)
        w = free.require_grad(_tensor())
        found = free.backward(free.reshape(free.mul(w, w), (1, 1, 2, 1, 2, 1, 1)))
        np.testing.assert_array_equal(np.asarray(found[w]), 2 * HOST)

    def test_of_a_graph_that_an_earlier_pass_freed(self) -> None:
        w = AD.require_grad(_tensor())
        loss = AD.mul(w, w)
        AD.backward(loss)
        with _fault(errors.BackwardError, RuntimeError, "backward"):
            AD.backward(loss)

    def test_after_a_buffer_was_donated(self) -> None:
        raw = jnp.asarray(HOST) + 0
        w = AD.require_grad(_tensor())
        loss = AD.mul(w, raw)
        jax.jit(lambda v: v + 1, donate_argnums=0)(raw)
        with _fault(errors.UseAfterMove, RuntimeError, "backward"):
            AD.backward(loss)

    @pytest.mark.parametrize("fused", [False, True])
    def test_after_a_write_to_an_operand(self, fused: bool) -> None:
        """No fault: the graph has the values that were read."""
        x, w = xp.asarray(HOST) + 0, AD.require_grad(_tensor())
        with xp.fusion() if fused else contextlib.nullcontext():
            loss = AD.mul(w, x)
            x[...] = 0
            x += 7
        np.testing.assert_array_equal(np.asarray(AD.backward(loss)[w]), HOST)
        np.testing.assert_array_equal(np.asarray(x), np.full(4, 7))

    def test_of_integers(self) -> None:
        with _fault(errors.UnsupportedDType, TypeError, "floating"):
            AD.require_grad(B.from_data([1, 2], (2,), dtype="int32"))

    def test_outside_of_jax(self) -> None:
        with _fault(errors.BackendLimitation, NotImplementedError, "jax.grad"):
            Autodiff(NumpyBackend())

    def test_a_hook_that_raises(self) -> None:
        class Mine(Exception):
            pass

        def hook(gradients):
            raise Mine

        w = AD.require_grad(_tensor())
        with AD.register_hook(hook), pytest.raises(Mine):
            AD.backward(AD.mul(w, w))

    def test_a_kernel_without_a_derivative(self) -> None:
        kernel = register_kernel_py(lambda x, out: np.copyto(out, x), name="copy")
        with _fault(errors.BackendLimitation, NotImplementedError, "custom_vjp"):
            xp.grad(lambda v: xp.sum(kernel(v, results=v)))(xp.asarray(HOST))


class TestFusion:
    def test_gradients_are_outside_of_it(self) -> None:
        with _fault(errors.InvalidArgument, ValueError, r"Autodiff\(Fusion\(B\)\)"):
            Fusion(AD)
        with _fault(errors.InvalidArgument, ValueError, "One Fusion"):
            Fusion(FUSED)
        with _fault(errors.BackendLimitation, NotImplementedError, "NumPy"):
            Fusion(NumpyBackend())

    def test_an_exception_in_the_block(self) -> None:
        class Mine(Exception):
            pass

        x = xp.asarray(HOST)
        with pytest.raises(Mine), xp.fusion():
            y = x * 2
            raise Mine
        np.testing.assert_array_equal(np.asarray(y), HOST * 2)

    def test_shapes_that_do_not_go_together(self) -> None:
        x = xp.asarray(HOST)
        with xp.fusion():
            y = x * 2
            with _fault(errors.BroadcastError, ValueError, r"\(4,\)"):
                y + xp.ones(3)
            np.testing.assert_array_equal(np.asarray(y + 1), HOST * 2 + 1)

    def test_a_handle_that_was_given_up(self) -> None:
        x = xp.asarray(HOST) + 0
        with xp.fusion():
            y = x.take() + 1
            with _fault(errors.UseAfterMove, RuntimeError, "add|x"):
                x + 1
            np.testing.assert_array_equal(np.asarray(y), HOST + 1)

    def test_more_than_memory(self) -> None:
        """The intermediate result of the second sum has more bytes than there are; nothing of it stays behind."""
        x = xp.asarray(HOST)
        with xp.fusion():
            y = x + 1
            with _fault(errors.OutOfMemory, MemoryError, "zeros|add|fusion|allocat"):
                np.asarray(xp.flip(xp.zeros(2**50) + 1)[:4])
            np.testing.assert_array_equal(np.asarray(y), HOST + 1)

    def test_a_kernel_that_raises(self) -> None:
        def fail(x, out):
            raise LookupError("in the kernel")

        kernel = register_kernel_py(fail)
        x = xp.asarray(HOST)
        with xp.fusion():
            y = x * 2
            with pytest.raises(LookupError, match="in the kernel"):
                kernel(y, results=y).block_until_ready()
            np.testing.assert_array_equal(np.asarray(y), HOST * 2)


@each_runtime
class TestCapture:
    def test_a_closure_that_raises_half_way(self, runtime: Runtime) -> None:
        class Mine(Exception):
            pass

        x, first, second = _views(runtime, 3)

        def work(x, first, second):
            first.write(x + 1)
            raise Mine

        before = first.read()
        with pytest.raises(Mine):
            runtime.capture(work, inputs=[x], outputs=[first, second])
        np.testing.assert_array_equal(first.read(), before)
        assert not runtime.default_client().allocator.stats().is_frozen
        graph = runtime.capture(lambda x, out: out.write(x + 1), inputs=[x], outputs=[first])
        graph.launch()
        np.testing.assert_array_equal(first.read(), HOST + 1)

    def test_an_output_that_is_never_written(self, runtime: Runtime) -> None:
        x, first, second = _views(runtime, 3)
        with _fault(errors.InvalidArgument, ValueError, r"outputs\[1\]|output"):
            runtime.capture(lambda x, first, second: first.write(x), inputs=[x], outputs=[first, second])

    @pytest.mark.parametrize("change", [lambda x: x[:2], lambda x: x[None]], ids=["shorter", "more axes"])
    def test_an_output_of_another_shape(self, runtime: Runtime, change: Callable[[object], object]) -> None:
        x, out = _views(runtime, 2)
        with _fault(errors.ShapeMismatch, ValueError, "4"):
            runtime.capture(lambda x, out: out.write(change(x)), inputs=[x], outputs=[out])

    def test_temporaries_above_the_limit(self, runtime: Runtime) -> None:
        x, out = _views(runtime, 2)

        def work(x, out):
            square = x[:, None] @ x[None, :]
            out.write(square @ (square @ x))

        with _fault(errors.OutOfMemory, MemoryError, "bytes"):
            runtime.capture(work, inputs=[x], outputs=[out], max_temp_bytes=1)
        assert runtime.capture(work, inputs=[x], outputs=[out], max_temp_bytes=10**6).memory.temp > 1
        np.testing.assert_array_equal(out.read(), np.zeros(4))

    def test_a_buffer_that_was_freed(self, runtime: Runtime) -> None:
        x, out = _views(runtime, 2)
        graph = runtime.capture(lambda x, out: out.write(x + 1), inputs=[x], outputs=[out])
        x.buffer.free()
        with _fault(errors.UseAfterFree, RuntimeError, "freed"):
            graph.launch()
        with _fault(errors.UseAfterFree, RuntimeError, "freed"):
            runtime.capture(lambda x, out: out.write(x + 1), inputs=[x], outputs=[out])


@each_runtime
class TestMemory:
    @pytest.mark.parametrize("nbytes", [2**60, 2**63, 2**80])
    def test_more_than_there_is(self, runtime: Runtime, nbytes: int) -> None:
        gc.collect()  # buffers of earlier tests, which their errors' frames hold
        before = runtime.default_client().allocator.stats()
        with _fault(errors.OutOfMemory, MemoryError, str(nbytes)):
            runtime.allocate(nbytes)
        assert runtime.default_client().allocator.stats() == before

    def test_freed_twice(self, runtime: Runtime) -> None:
        buffer = runtime.allocate(8)
        runtime.deallocate(buffer, 8)
        with _fault(errors.UseAfterFree, RuntimeError, "freed"):
            runtime.deallocate(buffer, 8)
        buffer.free()  # idempotent
        for use in (lambda: buffer.ptr, buffer.read, lambda: buffer.write(b"a"), lambda: buffer.view("uint8")):
            with _fault(errors.UseAfterFree, RuntimeError, "freed"):
                use()

    @pytest.mark.parametrize(
        ("offset", "shape", "strides"),
        [(0, (5,), (1,)), (-4, (1,), (1,)), (0, (2,), (-1,)), (12, (), (1,)), (13, (), ()), (0, (2, 2), (1, 3))],
    )
    def test_strided_copies_out_of_bounds(self, runtime: Runtime, offset, shape, strides) -> None:
        src, dst = runtime.allocate(16), runtime.allocate(64)
        wanted = errors.IndexOutOfBounds if len(shape) == len(strides) else errors.InvalidArgument
        with _fault(wanted, IndexError if wanted is errors.IndexOutOfBounds else ValueError, "copy_strided"):
            runtime.copy_strided(src, offset, dst, shape, strides, 4)
        assert not dst.read().any()

    def test_a_frozen_allocator(self, runtime: Runtime) -> None:
        allocator = runtime.default_client().allocator
        allocator.freeze("reject")
        try:
            with _fault(errors.AllocatorFrozen, RuntimeError, "allocate"):
                runtime.allocate(8)
        finally:
            allocator.unfreeze()
        with runtime.allocate(8) as buffer:
            assert buffer.nbytes == 8

    def test_a_reset_beside_live_buffers(self, runtime: Runtime) -> None:
        buffer = runtime.allocate(8)
        with _fault(errors.AllocatorBusy, RuntimeError, "reset"):
            runtime.default_client().allocator.reset()
        assert buffer.is_alive


def test_arrays_beyond_64_bits_of_bytes() -> None:
    for make in (
        lambda: xp.zeros(2**60),
        lambda: xp.ones((2**30, 2**31), dtype=xp.uint8),
        lambda: xp.full(2**59, 1j),
        lambda: xp.broadcast_to(xp.ones(1), (2**61, 1)),
        lambda: xp.jit(lambda: xp.zeros(2**60) + 1)(),
    ):
        with _fault(errors.OutOfMemory, MemoryError, "elements"):
            make()
