"""Captured graphs: one contract on every runtime."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors
from rtx_jax.backend import Backend, CpuBackend, NumpyBackend
from rtx_jax.runtime import BufferView, CapturedGraph, Graph, Output, Runtime, capture_graph_into

N = 6


def views(runtime: Runtime, count: int, dtype: str = "float32", shape: tuple[int, ...] = (N,)) -> list[BufferView]:
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return [runtime.allocate(nbytes).view(dtype, shape) for _ in range(count)]


def backend_of(runtime: Runtime) -> Backend:
    return NumpyBackend() if runtime.name() == "numpy" else CpuBackend()


def add(a: object, b: object, out: Output) -> None:
    out.write(a + b)  # type: ignore[operator]


def test_a_launch_computes_anew_from_what_the_inputs_hold(runtime: Runtime) -> None:
    a, b, c = views(runtime, 3)
    a.write(np.arange(N, dtype=np.float32))
    b.write(np.full(N, 10, np.float32))
    graph = runtime.capture(add, inputs=[a, b], outputs=[c])
    assert c.read().tolist() == [0] * N, "nothing is written before the first launch"
    assert graph.launch_count == 0
    graph.launch()
    assert c.read().tolist() == [10, 11, 12, 13, 14, 15]
    a.write(np.full(N, 5, np.float32))
    assert c.read().tolist() == [10, 11, 12, 13, 14, 15], "only a launch writes"
    graph.launch()
    assert c.read().tolist() == [15] * N
    assert graph.launch_count == 2


def test_outputs_stay_where_they_are(runtime: Runtime) -> None:
    a, b, c = views(runtime, 3)
    graph = runtime.capture(add, inputs=[a, b], outputs=[c])
    before = [x.ptr for x in (a, b, c)]
    for i in range(3):
        a.write(np.full(N, i, np.float32))
        graph.launch()
        assert c.read().tolist() == [i] * N
    assert [x.ptr for x in (a, b, c)] == before


def test_facts_of_a_graph(runtime: Runtime) -> None:
    a, b, c = views(runtime, 3)
    graph = runtime.capture(add, inputs=[a, b], outputs=[c])
    assert isinstance(graph.graph, Graph)
    assert graph.graph.is_replay_capable() == graph.is_replay_capable() == runtime.supports_graph_capture
    assert graph.inputs == (a, b)
    assert graph.outputs == (c,)
    assert graph.name == "add"
    assert graph.result is None
    assert (
        repr(graph)
        == f"<CapturedGraph add: 2 inputs, 1 outputs, {graph.memory.temp} temporary bytes, launched 0 times>"
    )
    graph.graph.launch()
    assert graph.launch_count == 0, "the count is of the captured graph's own launches"


def test_the_function_form_is_the_same(runtime: Runtime) -> None:
    a, b, c = views(runtime, 3)
    a.write(np.full(N, 2, np.float32))
    for graph in (
        capture_graph_into(runtime.default_client(), [a, b], [c], add),
        runtime.capture_graph_into(runtime.default_client(), [a, b], [c], add),
    ):
        graph.launch()
        assert c.read().tolist() == [2] * N


def test_the_plan_is_known_before_the_first_launch(runtime: Runtime) -> None:
    a, b, c = views(runtime, 3)
    graph = runtime.capture(add, inputs=[a, b], outputs=[c])
    plan = graph.memory
    assert (plan.args, plan.outputs, plan.alias) == (3 * 4 * N, 4 * N, 4 * N)
    assert plan.peak == plan.args + plan.temp


def test_temporaries_above_the_limit_raise_before_anything_runs(runtime: Runtime) -> None:
    (a,) = views(runtime, 1, shape=(8, 8))
    (c,) = views(runtime, 1, shape=(8, 8))
    B = backend_of(runtime)

    def products(a: object, out: Output) -> None:
        # A product of products needs a matrix between them on any runtime.
        out.write(B.matmul(B.matmul(a, a), B.matmul(a, a)))

    graph = runtime.capture(products, inputs=[a], outputs=[c])
    assert graph.memory.temp >= 8 * 8 * 4
    with pytest.raises(errors.OutOfMemory) as caught:
        runtime.capture(products, inputs=[a], outputs=[c], max_temp_bytes=graph.memory.temp - 1)
    assert caught.value.size == graph.memory.temp  # type: ignore[attr-defined]
    runtime.capture(products, inputs=[a], outputs=[c], max_temp_bytes=graph.memory.temp).launch()


def test_state_is_an_input_and_an_output(runtime: Runtime) -> None:
    x, total = views(runtime, 2)

    def accumulate(x: object, before: object, after: Output) -> None:
        after.write(before + x)  # type: ignore[operator]

    graph = runtime.capture(accumulate, inputs=[x, total], outputs=[total])
    x.write(np.full(N, 3, np.float32))
    for _ in range(4):
        graph.launch()
    assert total.read().tolist() == [12] * N


def test_outputs_can_be_exchanged(runtime: Runtime) -> None:
    a, b = views(runtime, 2)
    a.write(np.full(N, 1, np.float32))
    b.write(np.full(N, 2, np.float32))

    def exchange(a: object, b: object, out_a: Output, out_b: Output) -> None:
        first, second = a * 1, b * 1  # type: ignore[operator]
        out_a.write(second)
        out_b.write(first)

    graph = runtime.capture(exchange, inputs=[a, b], outputs=[a, b])
    graph.launch()
    assert a.read().tolist() == [2] * N
    assert b.read().tolist() == [1] * N
    graph.launch()
    assert a.read().tolist() == [1] * N


def test_an_input_can_be_copied_to_several_outputs(runtime: Runtime) -> None:
    a, b, c = views(runtime, 3)

    def copies(a: object, b: Output, c: Output) -> None:
        b.write(a)
        c.write(a)

    graph = runtime.capture(copies, inputs=[a], outputs=[b, c])
    a.write(np.arange(N, dtype=np.float32))
    graph.launch()
    a.write(np.zeros(N, np.float32))
    assert b.read().tolist() == c.read().tolist() == [0, 1, 2, 3, 4, 5]


def test_parts_of_an_output_keep_what_they_had(runtime: Runtime) -> None:
    a, c = views(runtime, 2)
    c.write(np.full(N, 9, np.float32))

    def part(a: object, out: Output) -> None:
        out[1:3] = a[1:3]  # type: ignore[index]
        out[0] = 7.0

    graph = runtime.capture(part, inputs=[a], outputs=[c])
    a.write(np.arange(N, dtype=np.float32))
    graph.launch()
    assert c.read().tolist() == [7, 1, 2, 9, 9, 9]


def test_an_output_can_be_read_and_filled(runtime: Runtime) -> None:
    (c,) = views(runtime, 1)
    seen: list[object] = []

    def count(out: Output) -> None:
        seen.append((out.shape, out.dtype, out.ndim, repr(out)))
        out[...] = out.value + 1  # type: ignore[operator]
        out[0] = out[1]

    graph = runtime.capture(count, inputs=[], outputs=[c])
    graph.launch()
    graph.launch()
    assert c.read().tolist() == [2] * N
    assert seen == [((N,), np.dtype(np.float32), 1, f"<Output 0: float32[{N}]>")], "the function runs once"

    def fill(out: Output) -> None:
        out[...] = 4

    runtime.capture(fill, inputs=[], outputs=[c]).launch()
    assert c.read().tolist() == [4] * N


def test_views_of_parts_of_one_buffer(runtime: Runtime) -> None:
    buffer = runtime.allocate(16 * 4)
    vector = buffer.view("float32", (4,), offset=16)
    matrix = buffer.view("float32", (2, 2), offset=48)

    def step(vector: object, out: Output) -> None:
        out.write(vector.reshape((2, 2)) * 2)  # type: ignore[attr-defined]

    graph = runtime.capture(step, inputs=[vector], outputs=[matrix])
    vector.write([1, 2, 3, 4])
    graph.launch()
    assert buffer.view("float32").read().tolist() == [0] * 4 + [1, 2, 3, 4] + [0] * 4 + [2, 4, 6, 8]


def test_a_buffer_is_its_bytes(runtime: Runtime) -> None:
    source, target = runtime.allocate(4), runtime.allocate(4)
    graph = runtime.capture(lambda a, out: out.write(a + np.uint8(1)), inputs=[source], outputs=[target])
    source.write(bytes([1, 2, 3, 255]))
    graph.launch()
    assert target.read().tolist() == [2, 3, 4, 0]


@pytest.mark.parametrize("dtype", ["float64", "int64", "int8", "bool", "complex128", "bfloat16"])
def test_dtypes(runtime: Runtime, dtype: str) -> None:
    buffers = [runtime.allocate(N * np.dtype(_dtype(dtype)).itemsize) for _ in range(2)]
    a, c = (x.view(_dtype(dtype), (N,)) for x in buffers)

    def twice(a: object, out: Output) -> None:
        out.write(a | a if dtype == "bool" else a + a)  # type: ignore[operator]

    graph = runtime.capture(twice, inputs=[a], outputs=[c])
    values = np.array([0, 1, 2, 3, 1, 0]).astype(_dtype(dtype))
    a.write(values)
    graph.launch()
    expected = values | values if dtype == "bool" else values + values
    assert c.read().dtype == expected.dtype
    np.testing.assert_array_equal(c.read(), expected)


def _dtype(name: str) -> np.dtype:
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name, name))


def test_operations_of_the_backend(runtime: Runtime) -> None:
    B = backend_of(runtime)
    x, w, out = (runtime.allocate(4 * n).view("float32", s) for n, s in ((6, (2, 3)), (12, (3, 4)), (8, (2, 4))))

    def layer(x: object, w: object, out: Output) -> None:
        out.write(B.softmax(B.relu(B.matmul(x, w)), 1))

    graph = runtime.capture(layer, inputs=[x, w], outputs=[out])
    for seed in range(2):
        rng = np.random.default_rng(seed)
        a, b = rng.normal(size=(2, 3)).astype(np.float32), rng.normal(size=(3, 4)).astype(np.float32)
        x.write(a)
        w.write(b)
        graph.launch()
        hidden = np.maximum(a.astype(np.float64) @ b, 0)
        weights = np.exp(hidden - hidden.max(1, keepdims=True))
        np.testing.assert_allclose(out.read(), weights / weights.sum(1, keepdims=True), rtol=1e-5)


def test_each_launch_draws_anew(runtime: Runtime) -> None:
    B = backend_of(runtime)
    (c,) = views(runtime, 1)
    graph = runtime.capture(lambda out: out.write(B.rand((N,))), inputs=[], outputs=[c])
    draws = []
    for _ in range(3):
        graph.launch()
        draws.append(c.read())
    assert len({x.tobytes() for x in draws}) == 3
    assert all(((x >= 0) & (x < 1)).all() for x in draws)


def test_threads_launch_one_after_another(runtime: Runtime) -> None:
    x, total = views(runtime, 2)
    x.write(np.full(N, 1, np.float32))
    graph = runtime.capture(lambda x, before, after: after.write(before + x), inputs=[x, total], outputs=[total])
    failures: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(200):
                graph.launch()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert graph.launch_count == 800
    assert total.read().tolist() == [800] * N, "no launch is lost"


def test_two_graphs_share_a_buffer_in_two_threads(runtime: Runtime) -> None:
    x, total = views(runtime, 2)
    x.write(np.full(N, 1, np.float32))
    up = runtime.capture(lambda x, before, after: after.write(before + x), inputs=[x, total], outputs=[total])
    down = runtime.capture(lambda x, before, after: after.write(before - x), inputs=[x, total], outputs=[total])
    failures: list[Exception] = []

    def work(graph: CapturedGraph) -> None:
        try:
            for _ in range(100):
                graph.launch()
                assert total.read().shape == (N,)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(graph,)) for graph in (up, down)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert total.read().tolist() == [0] * N


def test_a_graph_keeps_its_buffers(runtime: Runtime) -> None:
    import gc

    gc.collect()
    allocator = runtime.default_client().allocator
    before = allocator.stats().active_allocations
    graph = runtime.capture(add, inputs=views(runtime, 2), outputs=views(runtime, 1))
    assert allocator.stats().active_allocations == before + 3
    graph.inputs[0].write(np.full(N, 2, np.float32))  # type: ignore[union-attr]
    graph.launch()
    assert graph.outputs[0].read().tolist() == [2] * N  # type: ignore[union-attr]
    del graph
    gc.collect()
    assert allocator.stats().active_allocations == before


# -- bad input: each a typed error, and the runtime as before


def assert_usable(runtime: Runtime) -> None:
    assert not runtime.default_client().allocator.is_frozen
    a, b, c = views(runtime, 3)
    a.write(np.full(N, 1, np.float32))
    graph = runtime.capture(add, inputs=[a, b], outputs=[c])
    graph.launch()
    assert c.read().tolist() == [1] * N


class Sentinel(Exception):
    pass


def test_an_error_in_the_function_passes(runtime: Runtime) -> None:
    a, c = views(runtime, 2)
    c.write(np.full(N, 3, np.float32))

    def fails(a: object, out: Output) -> None:
        out.write(a + 1)  # type: ignore[operator]
        raise Sentinel("half-way")

    with pytest.raises(Sentinel, match="half-way"):
        runtime.capture(fails, inputs=[a], outputs=[c])
    assert c.read().tolist() == [3] * N
    assert_usable(runtime)


def test_an_output_that_is_never_written(runtime: Runtime) -> None:
    a, b, c = views(runtime, 3)
    with pytest.raises(errors.InvalidArgument, match=r"outputs\[1\].*never writes") as caught:
        runtime.capture(lambda a, b, c: b.write(a), inputs=[a], outputs=[b, c])
    assert caught.value.reason == "never written"  # type: ignore[attr-defined]
    assert_usable(runtime)


@pytest.mark.parametrize(
    "change",
    [lambda a: a[:2], lambda a: a.reshape((2, 3)), lambda a: a.astype("int32"), lambda a: a[0], lambda a: 1.0],
    ids=["size", "shape", "dtype", "0-d", "number"],
)
def test_another_shape_or_dtype(runtime: Runtime, change: object) -> None:
    a, c = views(runtime, 2)
    with pytest.raises(errors.ShapeMismatch, match=r"outputs\[0\]"):
        runtime.capture(lambda a, c: c.write(change(a)), inputs=[a], outputs=[c])  # type: ignore[operator]
    assert_usable(runtime)


def test_an_input_that_is_written(runtime: Runtime) -> None:
    a, c = views(runtime, 2)

    def writes(a: object, out: Output) -> None:
        a[0] = 1.0  # type: ignore[index]
        out.write(a)

    with pytest.raises(errors.InvalidArgument, match=r"inputs\[0\].*writes"):
        runtime.capture(writes, inputs=[a], outputs=[c])
    assert_usable(runtime)


def test_outputs_that_overlap(runtime: Runtime) -> None:
    buffer = runtime.allocate(4 * N)
    first, second = buffer.view("float32", (3,)), buffer.view("float32", (4,), offset=8)
    with pytest.raises(errors.InvalidArgument, match="overlap|lies in"):
        runtime.capture(lambda a, b: None, inputs=[], outputs=[first, second])
    whole = buffer.view("float32")
    with pytest.raises(errors.InvalidArgument, match=r"outputs\[0\] lies in too"):
        runtime.capture(lambda a, b: None, inputs=[], outputs=[whole, whole])
    assert_usable(runtime)


def test_operands_that_are_no_sequence(runtime: Runtime) -> None:
    a, c = views(runtime, 2)
    for operands in (
        {"inputs": a, "outputs": [c]},
        {"inputs": [a], "outputs": c},
        {"inputs": xp.ones(3), "outputs": [c]},
    ):
        with pytest.raises(errors.InvalidArgument, match=r"puts: .*Write \[x\] for one"):
            runtime.capture(lambda a, c: c.write(a), **operands)
    assert_usable(runtime)


def test_what_is_no_memory(runtime: Runtime) -> None:
    (c,) = views(runtime, 1)
    for wrong in (3.0, [1.0], None, b"1234"):
        with pytest.raises(errors.InvalidArgument, match=r"inputs\[0\]"):
            runtime.capture(add, inputs=[wrong], outputs=[c])  # type: ignore[list-item]
    with pytest.raises(errors.InvalidArgument, match="fn"):
        runtime.capture(3, inputs=[], outputs=[c])  # type: ignore[arg-type]
    for limit in (-1, True, "1"):
        with pytest.raises(errors.InvalidArgument, match="max_temp_bytes"):
            runtime.capture(add, inputs=[c, c], outputs=[c], max_temp_bytes=limit)  # type: ignore[arg-type]


def test_buffers_of_another_client(runtime: Runtime) -> None:
    from rtx_jax.runtime import JaxRuntime

    (c,) = views(runtime, 1)
    (other,) = views(JaxRuntime("cpu"), 1)
    if runtime.name() != "numpy":
        other = JaxRuntime("cpu").allocate(4 * N, "cpu:1").view("float32")
    with pytest.raises(errors.DeviceMismatch):
        runtime.capture(lambda a, c: c.write(a), inputs=[other], outputs=[c])


def test_freed_buffers(runtime: Runtime) -> None:
    a, b, c = views(runtime, 3)
    graph = runtime.capture(add, inputs=[a, b], outputs=[c])
    b.buffer.free()
    with pytest.raises(errors.UseAfterFree):
        graph.launch()
    assert graph.launch_count == 0
    assert c.read().tolist() == [0] * N
    with pytest.raises(errors.UseAfterFree):
        runtime.capture(add, inputs=[a, b], outputs=[c])
    assert_usable(runtime)


def test_no_buffer_is_made_inside_of_a_capture(runtime: Runtime) -> None:
    a, c = views(runtime, 2)

    def allocates(a: object, out: Output) -> None:
        runtime.allocate(8)

    with pytest.raises(errors.AllocatorFrozen):
        runtime.capture(allocates, inputs=[a], outputs=[c])
    assert_usable(runtime)


def test_a_frozen_allocator_launches(runtime: Runtime) -> None:
    a, b, c = views(runtime, 3)
    a.write(np.full(N, 1, np.float32))
    graph = runtime.capture(add, inputs=[a, b], outputs=[c])
    with runtime.default_client().allocator.frozen("reject"):
        with pytest.raises(errors.AllocatorFrozen):
            runtime.allocate(8)
        graph.launch()
        runtime.capture(add, inputs=[a, b], outputs=[c])
        assert runtime.default_client().allocator.is_frozen
    assert c.read().tolist() == [1] * N
    assert_usable(runtime)


def test_values_have_no_elements_while_they_are_captured(runtime: Runtime) -> None:
    a, c = views(runtime, 2)
    for ask in (bool, float, int, np.asarray):
        with pytest.raises(errors.ConcretizationError):
            runtime.capture(lambda a, c, ask=ask: ask(a[0]), inputs=[a], outputs=[c])
    assert_usable(runtime)


def test_data_dependent_shapes(runtime: Runtime) -> None:
    a, c = views(runtime, 2)
    with pytest.raises(errors.DataDependentShape):
        runtime.capture(lambda a, c: c.write(a[a > 0]), inputs=[a], outputs=[c])
    assert_usable(runtime)


def test_empty_views(runtime: Runtime) -> None:
    a, c = (runtime.allocate(0).view("float32", (0, 3)) for _ in range(2))
    graph = runtime.capture(lambda a, c: c.write(a + 1), inputs=[a], outputs=[c])
    graph.launch()
    assert c.read().shape == (0, 3)


def test_0d_views(runtime: Runtime) -> None:
    a, c = (runtime.allocate(4).view("float32", ()) for _ in range(2))

    def step(a: object, out: Output) -> None:
        out.write(0.0)
        out.write(a + 1)  # type: ignore[operator]

    graph = runtime.capture(step, inputs=[a], outputs=[c])
    a.write(2.0)
    graph.launch()
    assert c.read() == 3.0


@pytest.mark.parametrize("call", ["launch", "capture"])
def test_a_graph_in_a_captured_function(runtime: Runtime, call: str) -> None:
    a, b, c = views(runtime, 3)
    a.write(np.arange(N, dtype=np.float32))

    def capture() -> CapturedGraph:
        return runtime.capture(lambda a, out: out.write(a + 1), inputs=[a], outputs=[b])

    graph = capture()

    def fn(a: object, out: Output) -> None:
        graph.launch() if call == "launch" else capture()
        out.write(a)

    with pytest.raises(errors.ConcretizationError, match=call):
        runtime.capture(fn, inputs=[a], outputs=[c])
    assert b.read().tolist() == [0] * N and graph.launch_count == 0
    graph.launch()
    assert b.read().tolist() == [1, 2, 3, 4, 5, 6]
