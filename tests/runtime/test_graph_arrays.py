"""Captured graphs of functions of Arrays: `rtx_jax.runtime.capture`."""

from __future__ import annotations

import gc
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors
from rtx_jax.backend import Autodiff, Backend, CpuBackend, Fusion, Quantized
from rtx_jax.runtime import JaxRuntime, Output, capture


def pointer(x: xp.Array) -> int:
    return int(x._data.unsafe_buffer_pointer())


def test_arguments_results_and_captured_arrays() -> None:
    x, weight = xp.asarray([1.0, 2.0]), xp.asarray([3.0, 4.0])

    def f(x: xp.Array) -> dict[str, object]:
        return {"product": x * weight, "more": (x + 1, None)}

    graph = capture(f, x)
    assert len(graph.inputs) == 1
    assert graph.inputs[0] is x
    result = graph.result
    assert isinstance(result, dict)
    assert result["product"].tolist() == [0, 0]
    graph.launch()
    assert result["product"].tolist() == [3, 8]
    assert result["more"][0].tolist() == [2, 3]
    assert result["more"][1] is None
    x[...] = 10.0
    weight[0] = 0.0
    graph.launch()
    assert graph.result is result, "launches write the same Arrays"
    assert result["product"].tolist() == [0, 40]
    assert [y is z for y, z in zip(graph.outputs, (result["more"][0], result["product"]), strict=True)] == [True, True]


@pytest.mark.filterwarnings("error")
def test_64_bit_operands_of_functions_that_make_none() -> None:
    x = xp.asarray([1.0, 1.0 + 1e-12])
    for f, want in ((lambda x: x > 1.0, [False, True]), (lambda x: x, [1.0, 1.0 + 1e-12]), (lambda x: None, None)):
        graph = capture(f, x)
        graph.launch()
        result = graph.result
        assert result is None if want is None else result.tolist() == want  # type: ignore[union-attr]


def test_writes_to_arguments_and_captured_arrays() -> None:
    x, total = xp.asarray([1.0, 2.0]), xp.zeros(2)

    def step(x: xp.Array) -> xp.Array:
        total[...] += x
        x[0] = 5.0
        return total

    graph = capture(step, x)
    assert total.tolist() == [0, 0]
    graph.launch()
    graph.launch()
    assert total.tolist() == [6, 4]
    assert x.tolist() == [5, 2]
    assert graph.result is total
    assert {id(y) for y in graph.outputs} == {id(x), id(total)}


def test_results_and_written_arrays_stay_in_place() -> None:
    x, total = xp.asarray([1.0, 2.0]), xp.zeros(2) + 0

    def step(x: xp.Array) -> xp.Array:
        total[...] += x
        return total * 2

    graph = capture(step, x)
    result = pointer(graph.result)
    graph.launch()
    places = pointer(total), pointer(graph.result)
    assert places[1] == result
    for _ in range(2):
        graph.launch()
    assert (pointer(total), pointer(graph.result)) == places
    assert graph.result.tolist() == [6, 12]


def test_what_was_read_from_a_result_keeps_its_value() -> None:
    x = xp.asarray([1.0])
    graph = capture(lambda x: x * 2, x)
    graph.launch()
    raw, host, view = graph.result.jax, np.asarray(graph.result), graph.result[:]
    x[...] = 7.0
    graph.launch()
    assert graph.result.tolist() == [14]
    assert (raw.tolist(), host.tolist(), view.tolist()) == ([2], [2], [2])


def test_kinds_of_arguments() -> None:
    graph = capture(
        lambda a, b, c, d: (a + b["k"], c + d), np.float32([1, 2]), {"k": jnp.ones(2)}, 3, xp.asarray([1.5])
    )
    assert [type(x) for x in graph.inputs] == [xp.Array] * 4
    assert [x.dtype for x in graph.inputs] == [
        "float32",
        "float32",
        "int32" if False else graph.inputs[2].dtype,
        "float64",
    ]
    graph.launch()
    assert graph.result[0].tolist() == [2, 3]
    assert graph.result[1].tolist() == [4.5]
    graph.inputs[2][...] = 10
    graph.inputs[0][...] = 0.0
    graph.launch()
    assert graph.result[0].tolist() == [1, 1]
    assert graph.result[1].tolist() == [11.5]


def test_a_number_does_not_widen() -> None:
    graph = capture(lambda x, rate: x * rate, xp.ones(2, dtype=xp.float32), 0.5)
    graph.launch()
    assert graph.result.dtype == "float32"
    assert graph.result.tolist() == [0.5, 0.5]


def test_plain_arrays_stay_plain_inside() -> None:
    def f(x: jax.Array) -> jax.Array:
        assert isinstance(x, jax.Array)
        return jnp.sin(x)

    graph = capture(f, jnp.float32([0.0, 1.0]))
    graph.launch()
    np.testing.assert_allclose(graph.result, np.sin([0.0, 1.0]), rtol=1e-6)


def test_constants_of_jax_are_not_in_the_program() -> None:
    table = jnp.arange(1000.0)
    graph = capture(lambda x: x + jnp.sum(table), jnp.zeros(()))
    graph.launch()
    assert float(graph.result) == 499500
    assert graph.memory.args >= 4000


def test_64_bit_values_whatever_jax_says() -> None:
    assert not jax.config.jax_enable_x64
    x = xp.asarray([1.0, 2**-40])
    graph = capture(lambda x: (x + 1, xp.sum(x > 0)), x)
    graph.launch()
    assert graph.result[0].dtype == "float64"
    assert graph.result[1].dtype == "int64"
    assert graph.result[0][1] == 1 + 2**-40
    assert not jax.config.jax_enable_x64


def test_each_launch_draws_anew() -> None:
    xp.random.seed(7)
    graph = capture(lambda: xp.random.uniform(size=(3,)))
    seen = []
    for _ in range(3):
        graph.launch()
        seen.append(graph.result.tolist())
    assert len({tuple(x) for x in seen}) == 3
    xp.random.seed(7)
    graph.launch()
    assert graph.result.tolist() == seen[0]


def test_operations_of_a_backend_and_of_the_namespace_together() -> None:
    B = CpuBackend()
    x = xp.asarray(np.float32([[1, -2], [3, -4]]))
    graph = capture(lambda x: xp.sum(xp.asarray(B.relu(B.matmul(x, x))), axis=0), x)
    graph.launch()
    expected = np.maximum(np.float32([[1, -2], [3, -4]]) @ np.float32([[1, -2], [3, -4]]), 0).sum(0)
    assert graph.result.tolist() == expected.tolist()


def test_results_that_are_arguments_or_the_same_or_no_arrays() -> None:
    x, other = xp.asarray([1.0]), xp.asarray([2.0])

    def f(x: xp.Array) -> tuple[object, ...]:
        y = x + other
        return x, y, y, other, "text", 3

    graph = capture(f, x)
    graph.launch()
    result = graph.result
    assert result[0] is x
    assert result[1] is result[2]
    assert result[3] is other
    assert result[4:] == ("text", 3)
    assert result[1].tolist() == [3]


def test_one_array_given_twice_is_one_input() -> None:
    x = xp.asarray([2.0])
    graph = capture(lambda a, b: a * b, x, x)
    assert len(graph.inputs) == 1
    x[...] = 3.0
    graph.launch()
    assert graph.result.tolist() == [9]


def test_a_step_of_training() -> None:
    rng = np.random.default_rng(0)
    inputs, targets = rng.normal(size=(8, 3)), rng.normal(size=8)
    weight = xp.zeros(3)
    x, y = xp.asarray(inputs), xp.asarray(targets)

    def loss(w: xp.Array) -> xp.Array:
        return xp.mean((x @ w - y) ** 2)

    def step() -> xp.Array:
        value, gradient = xp.value_and_grad(loss)(weight)
        weight[...] -= 0.1 * gradient
        return value

    graph = capture(step)
    expected = np.zeros(3)
    for _ in range(20):
        graph.launch()
        residual = inputs @ expected - targets
        np.testing.assert_allclose(float(graph.result), np.mean(residual**2), rtol=1e-12)
        expected -= 0.1 * 2 / 8 * inputs.T @ residual
    np.testing.assert_allclose(weight, expected, rtol=1e-12)


def test_arrays_beside_buffers() -> None:
    runtime = JaxRuntime("cpu")
    a, c = (runtime.allocate(8).view("float32", (2,)) for _ in range(2))
    weight, total, out = xp.asarray(np.float32([2, 3])), xp.zeros(2, dtype=xp.float32), xp.zeros(2, dtype=xp.float32)

    def f(a: xp.Array, given: xp.Array, c: Output[xp.Array], out: Output[xp.Array]) -> None:
        c.write(a * weight + given)
        total[...] += a
        out.write(total)

    given = xp.asarray(np.float32([10, 20]))
    graph = runtime.capture(f, inputs=[a, given], outputs=[c, out])
    a.write([1, 1])
    graph.launch()
    assert c.read().tolist() == [12, 23]
    weight[...] = 0
    given[...] = 1
    graph.launch()
    assert c.read().tolist() == [1, 1]
    assert total.tolist() == out.tolist() == [2, 2]


def test_results_of_backends_are_written() -> None:
    runtime, B = JaxRuntime("cpu"), CpuBackend()
    a, c = (runtime.allocate(8).view("float32", (2,)) for _ in range(2))
    graph = runtime.capture(lambda a, c: c.write(B.exp(a)), inputs=[a], outputs=[c])
    graph.launch()
    assert c.read().tolist() == [1, 1]
    constant = np.float32([4, 5])
    runtime.capture(lambda c: c.write(constant), inputs=[], outputs=[c]).launch()
    assert c.read().tolist() == [4, 5]


def test_a_launch_compiles_nothing() -> None:
    x = xp.asarray([1.0, 2.0, 3.0])
    graph = capture(lambda x: xp.cumulative_sum(x), x)
    graph.launch()
    with jax.no_tracing():
        graph.launch()
    assert graph.result.tolist() == [1, 3, 6]


def test_a_launch_while_others_read() -> None:
    x = xp.zeros(1000)
    graph = capture(lambda x: x + 1, x)

    def state() -> None:
        x[...] = graph.result

    stop = threading.Event()
    failures: list[Exception] = []

    def read() -> None:
        try:
            while not stop.is_set():
                values = np.asarray(graph.result)
                assert (values == values[0]).all()
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    for _ in range(100):
        graph.launch()
        state()
    stop.set()
    thread.join()
    assert not failures
    assert float(graph.result[0]) == 100


def test_on_another_device() -> None:
    x = xp.asarray([1.0, 2.0], device="cpu:3")
    graph = capture(lambda x: x * 2, x)
    graph.launch()
    graph.launch()
    assert graph.result.device == jax.devices("cpu")[3]
    assert graph.result.tolist() == [2, 4]
    runtime = JaxRuntime("cpu")
    a, c = (runtime.allocate(8, "cpu:2").view("float32", (2,)) for _ in range(2))
    graph = runtime.capture(lambda a, c: c.write(a + 1), inputs=[a], outputs=[c], device="cpu:2")
    place = c.ptr
    graph.launch()
    graph.launch()
    assert c.read().tolist() == [1, 1]
    assert c.ptr == place


def test_on_several_devices() -> None:
    mesh = jax.make_mesh((8,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    x, total = xp.asarray(np.arange(16.0), device=spread), xp.zeros(16, device=spread)

    def step(x: xp.Array) -> tuple[xp.Array, xp.Array]:
        total[...] += x
        return x * 2, xp.sum(x)

    graph = capture(step, x)
    for _ in range(2):
        graph.launch()
    assert graph.result[0].tolist() == [2.0 * i for i in range(16)]
    assert graph.result[0].device.is_equivalent_to(spread, 1)
    assert float(graph.result[1]) == 120
    assert total.tolist() == [2.0 * i for i in range(16)]


def test_the_limit_of_temporaries() -> None:
    x = xp.ones((8, 8))
    with pytest.raises(errors.OutOfMemory, match="max_temp_bytes"):
        capture(lambda x: (x @ x) @ (x @ x), x, max_temp_bytes=8)
    with pytest.raises(errors.InvalidArgument, match="max_temp_bytes"):
        capture(lambda x: x, x, max_temp_bytes="8")  # type: ignore[arg-type]


def test_inside_of_a_trace() -> None:
    x = xp.asarray([1.0])
    graph = capture(lambda x: x + 1, x)
    with pytest.raises(errors.ConcretizationError, match="launch"):
        xp.jit(lambda y: graph.launch())(x)
    with pytest.raises(errors.ConcretizationError, match="capture"):
        jax.jit(lambda y: capture(lambda: None) and y)(1.0)
    graph.launch()
    assert graph.result.tolist() == [2]


def test_values_are_not_known_while_tracing() -> None:
    x, kept = xp.asarray([1.0]), xp.zeros(1)

    def branches(x: xp.Array) -> xp.Array:
        kept[...] = x
        return x if x[0] > 0 else -x

    with pytest.raises(errors.ConcretizationError):
        capture(branches, x)
    assert kept.tolist() == [0]
    assert x.tolist() == [1]


def test_bad_arguments() -> None:
    with pytest.raises(errors.InvalidArgument, match="fn"):
        capture(3)  # type: ignore[arg-type]
    with pytest.raises(errors.UnsupportedDType):
        capture(lambda x: x, "text")


def test_an_argument_that_was_given_away() -> None:
    x = xp.asarray(np.float32([1, 2]))
    graph = capture(lambda x: x + 1, x)
    xp.jit(lambda y: y * 2, donate_argnums=0)(x)
    with pytest.raises(errors.UseAfterMove):
        graph.launch()
    assert graph.launch_count == 0


def test_a_graph_is_freed_with_its_last_reference() -> None:
    x = xp.ones(1 << 18)
    gc.collect()
    before = sum(y.nbytes for y in jax.live_arrays())
    graph = capture(lambda x: x * 2, x)
    graph.launch()
    assert sum(y.nbytes for y in jax.live_arrays()) == before + x.nbytes
    del graph
    gc.collect()
    assert sum(y.nbytes for y in jax.live_arrays()) == before


def test_fusion_outside_and_inside() -> None:
    x = xp.asarray(np.float32([1, 2]))
    with xp.fusion():
        y = x * 3
        graph = capture(lambda y: xp.exp(y - y) + y, y)
        graph.launch()
        z = graph.result + 1
        y[...] = 0.0
        graph.launch()
    assert z.tolist() == [5, 8]
    assert graph.result.tolist() == [1, 1]


def test_the_first_nan_is_found_before_anything_is_written() -> None:
    x, total = xp.asarray([1.0, 4.0]), xp.asarray([1.0, 1.0])

    def step(x: xp.Array) -> None:
        total[...] = xp.sqrt(x) - total

    graph = capture(step, x)
    with xp.debug_nans():
        graph.launch()
        assert total.tolist() == [0, 1]
        x[1] = -1.0
        with pytest.raises(FloatingPointError, match="sqrt made NaN"):
            graph.launch()
    assert total.tolist() == [0, 1]
    assert graph.launch_count == 1
    graph.launch()
    assert np.isnan(total[1])


def stacks() -> list[Backend]:
    cpu = CpuBackend()
    return [Fusion(cpu), Autodiff(cpu), Autodiff(Fusion(cpu)), Quantized(cpu), Fusion(Quantized(cpu))]


@pytest.mark.parametrize("B", stacks(), ids=lambda B: B.name())
def test_stacks_of_backends(B: Backend) -> None:
    runtime = JaxRuntime("cpu")
    x, w, c = (runtime.allocate(16).view("float32", (2, 2)) for _ in range(3))
    graph = runtime.capture(lambda x, w, c: c.write(B.relu(B.matmul(x, w))), inputs=[x, w], outputs=[c])
    for scale in (1, 2):
        a, b = np.float32([[1, -2], [3, 4]]), np.float32([[1, 2], [3, 4]]) * scale
        x.write(a)
        w.write(b)
        graph.launch()
        np.testing.assert_array_equal(c.read(), np.maximum(a @ b, 0))


def test_a_backward_pass_is_captured() -> None:
    B, runtime = Autodiff(CpuBackend()), JaxRuntime("cpu")
    x, w, c = (runtime.allocate(16).view("float32", (2, 2)) for _ in range(3))

    def gradient(x: xp.Array, w: xp.Array, out: Output[xp.Array]) -> None:
        weight = B.require_grad(w)
        product = B.matmul(x, weight)
        out.write(B.backward(B.sum(B.mul(product, product)))[weight])

    graph = runtime.capture(gradient, inputs=[x, w], outputs=[c])
    for scale in (1, 2):
        a, b = np.float32([[1, -2], [3, 4]]), np.float32([[1, 2], [3, 4]]) * scale
        x.write(a)
        w.write(b)
        graph.launch()
        np.testing.assert_array_equal(c.read(), 2 * a.T @ a @ b)


def test_eager_captured_and_jitted_give_the_same() -> None:
    def program(x: xp.Array, y: xp.Array) -> tuple[xp.Array, xp.Array]:
        z = xp.sort(x @ y, axis=0)
        z[0] += xp.max(y)
        return z, xp.cumulative_sum(xp.where(z > 0, z, -z), axis=1)

    rng = np.random.default_rng(3)
    x, y = xp.asarray(rng.normal(size=(3, 4))), xp.asarray(rng.normal(size=(4, 3)))
    graph, compiled = capture(program, x, y), xp.jit(program)
    for _ in range(2):
        x[...], y[...] = rng.normal(size=(3, 4)), rng.normal(size=(4, 3))
        graph.launch()
        for found, jitted, eager in zip(graph.result, compiled(x, y), program(x, y), strict=True):
            np.testing.assert_array_equal(found, jitted)
            np.testing.assert_allclose(found, eager, rtol=1e-14, atol=1e-15)
