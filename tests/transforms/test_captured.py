"""jit: Arrays that the function reaches without receiving them are read at each call and written back."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.errors import ConcretizationError, TracedMutation

counter = xp.zeros(2)
settings = {"scale": xp.asarray(2.0), "list": [xp.asarray([1.0])]}


def values(x: object) -> list[object]:
    return np.asarray(x).tolist()


def add_counter(x: xp.Array) -> xp.Array:
    counter[0] += 1.0
    return x + counter


def test_a_global_is_read_at_each_call_and_written_back() -> None:
    global counter
    counter = xp.zeros(2)
    f = xp.jit(add_counter)
    x = xp.zeros(2)
    assert values(f(x)) == [1.0, 0.0]
    assert values(counter) == [1.0, 0.0]
    counter[1] = 5.0
    assert values(f(x)) == [2.0, 5.0]
    counter = xp.asarray([10.0, 20.0])
    assert values(f(x)) == [11.0, 20.0]
    assert values(counter) == [11.0, 20.0]


def test_a_closure_is_read_at_each_call() -> None:
    traces = [0]
    weight = xp.asarray([1.0, 2.0])

    @xp.jit
    def f(x: xp.Array) -> xp.Array:
        traces[0] += 1
        return x * weight

    x = xp.ones(2)
    assert values(f(x)) == [1.0, 2.0]
    weight[...] = 5.0
    assert values(f(x)) == [5.0, 5.0]
    weight = xp.asarray([7.0, 8.0])
    assert values(f(x)) == [7.0, 8.0]
    assert traces == [1]
    weight = xp.asarray([7.0])
    assert values(f(x)) == [7.0, 7.0]
    weight = xp.asarray([1, 2], dtype=xp.float32)
    assert f(xp.ones(2, dtype=xp.float32)).dtype == xp.float32
    assert traces == [3]


def test_items_and_attributes() -> None:
    model = SimpleNamespace(layers=[SimpleNamespace(w=xp.asarray([2.0]))])

    @xp.jit
    def f(x: xp.Array) -> xp.Array:
        settings["list"][0][0] += 1.0
        return x * settings["scale"] * model.layers[0].w

    assert values(f(xp.ones(1))) == [4.0]
    settings["scale"] = xp.asarray(3.0)
    model.layers[0].w = xp.asarray([5.0])
    assert values(f(xp.ones(1))) == [15.0]
    assert values(settings["list"][0]) == [3.0]


def test_an_update_of_a_captured_array_is_in_place() -> None:
    state = xp.asarray(np.zeros(1000))

    @xp.jit
    def f() -> None:
        state[0] += 1.0

    f()
    f()
    place = state._data.unsafe_buffer_pointer()
    f()
    assert state._data.unsafe_buffer_pointer() == place
    assert float(state[0]) == 3.0


class Model:
    def __init__(self, weight: list[float]) -> None:
        self.weight = xp.asarray(weight)
        self.traces = 0

    @xp.jit
    def step(self, x: xp.Array) -> xp.Array:
        self.traces += 1
        self.weight -= 0.5 * x
        return self.weight


def test_methods_capture_their_object() -> None:
    first, second = Model([1.0, 2.0]), Model([5.0, 5.0])
    x = xp.ones(2)
    assert first.step(x) is first.weight
    assert values(first.weight) == [0.5, 1.5]
    assert values(second.step(x)) == [4.5, 4.5]
    first.step(x)
    first.weight = xp.asarray([10.0, 10.0])
    first.step(x)
    assert values(first.weight) == [9.5, 9.5]
    assert first.traces == second.traces == 1
    del first, second
    gc.collect()
    assert not Model.step._methods


def test_captured_and_passed_is_one_array() -> None:
    box = xp.zeros(2)

    @xp.jit
    def f(x: xp.Array) -> xp.Array:
        x[0] = 1.0
        box[1] = 2.0
        return x + box

    assert values(f(box)) == [2.0, 4.0]
    assert values(box) == [1.0, 2.0]
    other = xp.zeros(2)
    assert values(f(other)) == [2.0, 2.0]
    assert values(other) == [1.0, 0.0]
    assert values(f(box)) == [2.0, 4.0]


def test_two_names_that_become_one_array() -> None:
    a, b = xp.zeros(1), xp.zeros(1)

    @xp.jit
    def f() -> xp.Array:
        a[0] += 1.0
        b[0] += 10.0
        return a + b

    assert values(f()) == [11.0]
    b = a
    assert values(f()) == [24.0]
    assert values(a) == [12.0]


def test_a_captured_array_is_returned_as_itself() -> None:
    box = xp.zeros(1)
    f = xp.jit(lambda: box)
    assert f() is box


def test_reads_below_other_transforms_are_not_constants() -> None:
    weight = xp.asarray([1.0, 1.0])

    @xp.jit
    def f(x: xp.Array) -> tuple[xp.Array, xp.Array, xp.Array]:
        gradient = xp.grad(lambda v: xp.sum(v * weight))(x)
        rows = xp.vmap(lambda v: v * weight)(xp.stack([x, x]))
        last, _ = xp.scan(lambda c, v: (c + v * weight[0], None), xp.asarray(0.0), x)
        return gradient, rows, last

    f(xp.ones(2))
    weight[...] = 3.0
    gradient, rows, last = f(xp.ones(2))
    assert values(gradient) == [3.0, 3.0]
    assert values(rows) == [[3.0, 3.0], [3.0, 3.0]]
    assert values(last) == 6.0


def test_writes_after_and_before_inner_transforms() -> None:
    weight = xp.asarray([2.0])

    @xp.jit
    def f(x: xp.Array) -> xp.Array:
        weight[0] = 5.0
        gradient = xp.grad(lambda v: xp.sum(v * weight))(x)
        weight[0] = 6.0
        return gradient

    assert values(f(xp.ones(1))) == [5.0]
    assert values(weight) == [6.0]


def test_nested_compiled_functions_capture_through() -> None:
    box = xp.zeros(2)

    @xp.jit
    def inner(x: xp.Array) -> xp.Array:
        box[0] += 1.0
        return x + box

    @xp.jit
    def outer(x: xp.Array) -> xp.Array:
        local = x * 2.0
        reads_local = xp.jit(lambda y: y + local)
        return inner(inner(x)) + reads_local(x)

    assert values(outer(xp.zeros(2))) == [3.0, 0.0]
    assert values(box) == [2.0, 0.0]
    box[1] = 1.0
    assert values(outer(xp.zeros(2))) == [7.0, 2.0]


def test_optimiser_state_in_place() -> None:
    weights = [xp.asarray([1.0, 2.0]), xp.asarray([3.0])]

    def loss(parameters: list[xp.Array]) -> xp.Array:
        return sum((xp.sum(p * p) for p in parameters), start=xp.asarray(0.0))

    @xp.jit
    def step(rate: float) -> xp.Array:
        value, gradients = xp.value_and_grad(loss)(weights)
        for weight, gradient in zip(weights, gradients, strict=True):
            weight -= rate * gradient
        return value

    assert float(step(0.25)) == 14.0
    assert [values(weight) for weight in weights] == [[0.5, 1.0], [1.5]]
    assert float(step(0.25)) == 3.5


def test_writes_below_other_transforms_are_refused() -> None:
    box = xp.asarray([1.0, 2.0])

    def write(x: xp.Array) -> xp.Array:
        box[0] = x[0]
        return xp.sum(x)

    def write_scan(carry: xp.Array, x: xp.Array) -> tuple[xp.Array, None]:
        box[0] = x
        return carry, None

    x = xp.ones(2)
    attempts = (
        lambda y: xp.grad(write)(y),
        lambda y: xp.vmap(write)(xp.stack([y, y])),
        lambda y: xp.scan(write_scan, xp.asarray(0.0), y),
        lambda y: xp.cond(xp.sum(y) > 0, write, write, y),
        lambda y: xp.while_loop(lambda s: s < 1, lambda s: s + write(y), xp.asarray(0.0)),
        lambda y: xp.fori_loop(0, 2, lambda i, s: s + write(y), xp.asarray(0.0)),
        lambda y: xp.checkpoint(write)(y),
        lambda y: xp.jvp(write, (y,), (y,)),
        lambda y: xp.vjp(write, y),
        lambda y: xp.jacobian(write)(y),
        lambda y: jax.vmap(write)(xp.stack([y, y])),
        lambda y: jax.grad(lambda v: write(v).jax)(y),
    )
    for attempt in attempts:
        with pytest.raises(TracedMutation, match=r"x\[key\] = value: .*outside.*rtx_jax.jit"):
            attempt(x)
        with pytest.raises(TracedMutation):
            xp.jit(attempt)(x)
        assert values(box) == [1.0, 2.0]
        assert values(box + x) == [2.0, 3.0]


def test_no_tracer_escapes_through_a_captured_array() -> None:
    box = xp.zeros(2)

    @xp.jit
    def f(x: xp.Array) -> xp.Array:
        x[0] = 7.0
        box[1] = x[0]
        return x * 2.0

    x = xp.asarray([1.0, 2.0])
    assert values(f(x)) == [14.0, 4.0]
    assert values(x) == [7.0, 2.0]
    assert values(box) == [0.0, 7.0]


def test_a_wide_captured_array_turns_x64_on() -> None:
    wide = xp.asarray([1.0], dtype=xp.float64)
    f = xp.jit(lambda x: xp.grad(lambda v: xp.sum(wide * v) ** 2)(x))
    third = xp.asarray([1.0], dtype=xp.float32)
    wide[0] = 1.0 / 3.0
    np.testing.assert_allclose(values(f(third)), [2.0 / 9.0], rtol=1e-7)


def test_a_name_bound_to_a_new_array_is_refused_and_restored() -> None:
    class Holder:
        value = None

        @xp.jit
        def step(self, x: xp.Array) -> None:
            self.value = self.value + x

    holder = Holder()
    holder.value = start = xp.zeros(1)
    with pytest.raises(
        TracedMutation, match=r"step: got a function that binds .*\.value to a new Array.*name\[\.\.\.\]"
    ):
        holder.step(xp.ones(1))
    assert holder.value is start
    state = {"a": xp.zeros(1)}

    @xp.jit
    def write_item(x: xp.Array) -> None:
        state["a"] = x * 2.0
        raise KeyError("inside")

    kept = state["a"]
    with pytest.raises(KeyError):
        write_item(xp.ones(1))
    assert state["a"] is kept


def test_an_array_left_behind_says_so() -> None:
    left = []

    @xp.jit
    def f(x: xp.Array) -> xp.Array:
        left.append(x * 2.0)
        return x

    f(xp.ones(1))
    with pytest.raises(ConcretizationError, match="left behind"):
        left[0] + 1.0


def test_copy_of_a_captured_constant_belongs_to_the_trace() -> None:
    # zeros of small shapes share one buffer, and copies of them are marked as such, but not copies that are traced.
    w = xp.zeros(2)

    @xp.jit
    def add(x: xp.Array) -> xp.Array:
        w[...] = w + x
        return w.copy()

    y = add(xp.asarray([1.0, 2.0]))
    y += 100.0
    np.testing.assert_array_equal(np.asarray(add(xp.asarray([1.0, 2.0]))), [2.0, 4.0])
    np.testing.assert_array_equal(np.asarray(w), [2.0, 4.0])
    np.testing.assert_array_equal(np.asarray(xp.zeros(2)), [0.0, 0.0])
