"""jit: writes reach the caller, in place; each signature is traced once."""

from __future__ import annotations

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.errors import (
    ConcretizationError,
    DataDependentShape,
    InvalidArgument,
    ScalarOverflow,
    UnsupportedDType,
    UseAfterMove,
)


def values(x: object) -> list[object]:
    return np.asarray(x).tolist()


def test_results_are_arrays_and_numbers_do_not_widen() -> None:
    double = xp.jit(lambda x, factor: x * factor)
    for dtype in (xp.float32, xp.float64):
        y = double(xp.ones(2, dtype=dtype), 2.0)
        assert type(y) is xp.Array
        assert y.dtype == dtype
        assert values(y) == [2.0, 2.0]
    assert double(xp.ones(2, dtype=xp.int16), 3).dtype == xp.int16
    assert double(0.5, 3.0).dtype == xp.float64


def test_plain_arrays_stay_plain_and_numpy_arrays_become_arrays() -> None:
    seen = []

    @xp.jit
    def f(x: object, y: object) -> object:
        seen.append((type(x) is xp.Array, isinstance(y, jax.Array)))
        return x, y

    host = np.ones(2, np.float32)
    x, y = f(host, jnp.ones(2))
    assert seen == [(True, True)]
    assert type(x) is xp.Array
    assert isinstance(y, jax.Array)


def test_writes_to_arguments_reach_the_caller() -> None:
    @xp.jit
    def f(x: xp.Array, y: xp.Array) -> xp.Array:
        x[0] = 7.0
        y += x
        return y * 2.0

    x, y = xp.asarray([1.0, 2.0]), xp.asarray([10.0, 20.0])
    result = f(x, y)
    assert values(x) == [7.0, 2.0]
    assert values(y) == [17.0, 22.0]
    assert values(result) == [34.0, 44.0]


def test_writes_inside_of_containers_reach_the_caller() -> None:
    @xp.jit
    def f(state: dict[str, object]) -> None:
        state["w"] -= 1.0
        state["rest"][1][...] = state["w"]

    state = {"w": xp.asarray([1.0]), "rest": [xp.asarray([5.0]), xp.asarray([6.0])]}
    f(state)
    assert values(state["w"]) == [0.0]
    assert [values(part) for part in state["rest"]] == [[5.0], [0.0]]


def test_numpy_arguments_are_not_written() -> None:
    @xp.jit
    def f(x: xp.Array) -> xp.Array:
        x[0] = 7.0
        return x

    host = np.zeros(2)
    assert values(f(host)) == [7.0, 0.0]
    assert host.tolist() == [0.0, 0.0]


def test_an_update_of_an_owned_argument_is_in_place_and_of_a_seen_one_is_not() -> None:
    @xp.jit
    def f(x: xp.Array) -> None:
        x[0] += 1.0

    x = xp.asarray(np.zeros(1000))
    f(x)
    before = x.jax.unsafe_buffer_pointer()
    f(x)  # `.jax` shared it, so this one copies
    assert x._owned is True
    place = x._data.unsafe_buffer_pointer()
    f(x)
    assert x._data.unsafe_buffer_pointer() == place != before
    view = np.asarray(x)
    f(x)
    assert view[0] == 3.0
    assert x[0] == 4.0


def test_a_shared_buffer_is_copied_before_the_update() -> None:
    @xp.jit
    def f(x: xp.Array) -> None:
        x[0] = 5.0

    x = xp.asarray([1.0, 2.0])
    y, raw = x.copy(), x.jax
    f(x)
    assert values(x) == [5.0, 2.0]
    assert values(y) == [1.0, 2.0]
    assert raw.tolist() == [1.0, 2.0]
    constant = xp.zeros(2)
    f(constant)
    assert values(xp.zeros(2)) == [0.0, 0.0]


def test_the_same_array_twice_is_one_array() -> None:
    @xp.jit
    def f(x: xp.Array, y: xp.Array) -> xp.Array:
        x[0] = 1.0
        y[1] = 9.0
        return x + y

    x, y = xp.zeros(2), xp.zeros(2)
    assert values(f(x, x)) == [2.0, 18.0]
    assert values(x) == [1.0, 9.0]
    x = xp.zeros(2)
    assert values(f(x, y)) == [1.0, 9.0]
    assert values(x) == [1.0, 0.0]
    assert values(y) == [0.0, 9.0]


def test_a_returned_argument_is_the_callers_array() -> None:
    @xp.jit
    def f(x: xp.Array) -> tuple[xp.Array, xp.Array, xp.Array]:
        x += 1.0
        y = x * 2.0
        return x, y, y

    x = xp.zeros(2)
    first, second, third = f(x)
    assert first is x
    assert second is third
    assert values(x) == [1.0, 1.0]


def test_results_are_owned_and_independent() -> None:
    f = xp.jit(lambda x: (x + 0.0, x + 0.0, xp.asarray(x, copy=True)))
    x = xp.asarray([1.0, 2.0])
    a, b, c = f(x)
    a[0] = 9.0
    assert values(x) == values(b) == values(c) == [1.0, 2.0]


def test_values_that_are_not_arrays_pass_through() -> None:
    f = xp.jit(lambda x: {"name": "loss", "count": 3, "none": None, "value": x})
    result = f(xp.ones(1))
    assert result["name"] == "loss"
    assert result["count"] == 3
    assert result["none"] is None
    assert values(result["value"]) == [1.0]


def test_a_loop_traces_once() -> None:
    traces = [0]

    @xp.jit
    def step(state: xp.Array, rate: xp.Array) -> xp.Array:
        traces[0] += 1
        return state * 0.9 + rate * xp.ones((), dtype=xp.float32)

    state = xp.asarray(0.0)
    for _ in range(4):
        state = step(state, xp.asarray(0.1))
    assert traces == [1]
    np.testing.assert_allclose(float(state), 0.1 * (1 + 0.9 + 0.81 + 0.729), rtol=1e-6)


def test_a_loop_of_updates_traces_and_compiles_once() -> None:
    traces = [0]

    @xp.jit
    def step(x: xp.Array, i: xp.Array) -> None:
        traces[0] += 1
        x[i] = 1.0

    x = xp.zeros(5, dtype=xp.float32)
    indices = [xp.asarray(i) for i in range(5)]
    with xp.explain_compiles() as report:
        for i in indices:
            step(x, i)
    assert traces == [1]
    assert values(x) == [1.0] * 5
    assert len([event for event in report.compiles if "step" in event.name]) == 1


def test_new_shapes_dtypes_and_structures_trace_anew() -> None:
    traces = [0]

    @xp.jit
    def f(tree: object) -> object:
        traces[0] += 1
        return tree

    f({"a": xp.ones(2)})
    f({"a": xp.ones(2)})
    assert traces == [1]
    f({"a": xp.ones(3)})
    f({"a": xp.ones(2, dtype=xp.float32)})
    f([xp.ones(2)])
    assert traces == [4]


def test_static_arguments_by_position_and_name() -> None:
    traces = [0]

    def power(x: xp.Array, n: int, *, scale: float = 1.0) -> xp.Array:
        traces[0] += 1
        for _ in range(n):
            x = x * scale
        return x

    f = xp.jit(power, static_argnums=1, static_argnames="scale")
    x = xp.ones(2)
    assert values(f(x, 2, scale=3.0)) == [9.0, 9.0]
    assert values(f(x, n=2, scale=3.0)) == [9.0, 9.0]
    assert values(f(x, 3)) == [1.0, 1.0]
    f(x, 3)
    assert traces == [3]
    # Equal values of different types are different statics.
    g = xp.jit(lambda x, flag: x if flag is True else x * 2.0, static_argnums=1)
    assert values(g(x, 1)) == [2.0, 2.0]
    assert values(g(x, True)) == [1.0, 1.0]


def test_a_static_value_without_a_hash() -> None:
    f = xp.jit(lambda x, shape: x, static_argnums=1)
    with pytest.raises(InvalidArgument, match=r"argument shape: got a static value of type list.*tuple"):
        f(xp.ones(2), [1])


def test_an_argument_that_is_not_an_array() -> None:
    with pytest.raises(UnsupportedDType, match=r"argument of type str.*static_argnums"):
        xp.jit(lambda x: x)("text")
    with pytest.raises(InvalidArgument, match="wanted a function"):
        xp.jit(3)


def test_donated_arguments_are_given_up() -> None:
    f = xp.jit(lambda x, y: x + y, donate_argnums=0)
    for make in (lambda: xp.asarray([1.0, 2.0]), lambda: xp.zeros(2)):
        x, y = make(), xp.asarray([1.0, 1.0])
        f(x, y)
        with pytest.raises(UseAfterMove, match=r"add: got .*given away.*donate_argnums"):
            x + y
        assert values(y) == [1.0, 1.0]
    assert values(xp.zeros(2)) == [0.0, 0.0]
    g = xp.jit(lambda x, y: x + y, donate_argnames="y")
    x, y = xp.asarray([1.0]), xp.asarray([2.0])
    z = y.copy()
    assert values(g(x, y=y)) == [3.0]
    with pytest.raises(UseAfterMove):
        f(x, y)
    assert values(z) == [2.0]


def test_an_error_inside_changes_nothing() -> None:
    box = xp.zeros(1)

    @xp.jit
    def f(x: xp.Array) -> None:
        x[0] = 5.0
        box[0] = 5.0
        raise KeyError("inside")

    x = xp.asarray([1.0])
    with pytest.raises(KeyError):
        f(x)
    assert values(x) == [1.0]
    assert values(box) == [0.0]
    assert values(x + box) == [1.0]


def test_nested_calls_write_through() -> None:
    @xp.jit
    def inner(x: xp.Array) -> xp.Array:
        x[0] += 1.0
        return x * 10.0

    @xp.jit
    def outer(x: xp.Array) -> xp.Array:
        y = x * 1.0
        inner(x)
        return inner(y) + inner(x)

    x = xp.zeros(2)
    assert values(outer(x)) == [30.0, 0.0]
    assert values(x) == [2.0, 0.0]


def test_recursion_over_a_static_argument() -> None:
    @xp.jit
    def inner(x: xp.Array) -> xp.Array:
        return x

    def factorial(x: xp.Array, n: int) -> xp.Array:
        return inner(x) if n == 0 else compiled(x * float(n), n - 1)

    compiled = xp.jit(factorial, static_argnums=1)
    assert float(compiled(xp.asarray(1.0), 4)) == 24.0


def test_names_and_documentation_are_kept() -> None:
    @xp.jit
    def named(x: xp.Array) -> xp.Array:
        """Say something."""
        return x

    assert named.__name__ == "named"
    assert named.__doc__ == "Say something."
    assert "named" in repr(named)

    @xp.jit(static_argnames="n")
    def other(x: xp.Array, n: int) -> xp.Array:
        return x * n

    assert values(other(xp.ones(1), n=3)) == [3.0]


def test_lower_shows_what_runs() -> None:
    f = xp.jit(lambda x: x * 2.0)
    lowered = f.lower(xp.ones(3, dtype=xp.float32))
    assert isinstance(lowered, jax.stages.Lowered)
    assert "f32[3]" in lowered.compile().as_text()


def test_a_condition_on_a_traced_value() -> None:
    with pytest.raises(ConcretizationError, match=r"bool.*not known while tracing.*cond"):
        xp.jit(lambda x: 1 if x[0] > 0 else 2)(xp.ones(1))
    with pytest.raises(TypeError):
        xp.jit(lambda x: float(x[0]))(xp.ones(1))


def test_a_shape_that_depends_on_values() -> None:
    with pytest.raises(DataDependentShape):
        xp.jit(lambda x: x[x > 0])(xp.ones(3))
    with pytest.raises(DataDependentShape):
        xp.jit(lambda x: xp.nonzero(x))(xp.ones(3))


def test_threads_trace_once_and_agree() -> None:
    traces = [0]

    @xp.jit
    def f(x: xp.Array) -> xp.Array:
        traces[0] += 1
        return x * 2.0

    results: list[list[object]] = []
    barrier = threading.Barrier(4)

    def work(i: int) -> None:
        x = xp.asarray([float(i)])
        barrier.wait()
        for _ in range(50):
            results.append([i, values(f(x))])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(results) == 200
    assert all(result == [2.0 * i] for i, result in results)
    assert traces == [1]


def test_one_writer_through_jit_and_readers() -> None:
    @xp.jit
    def write(x: xp.Array) -> None:
        x += 1.0

    x = xp.asarray(np.zeros(1000))
    write(x)
    failures: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                value = np.asarray(x + 0.0)
                assert (value == value[0]).all()
        except BaseException as error:  # noqa: B902
            failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(300):
        write(x)
    done.set()
    reader.join(60)
    assert not reader.is_alive()
    assert not failures
    assert float(x[0]) == 301.0


def test_precision_and_x64_are_part_of_the_signature() -> None:
    f = xp.jit(lambda x: x @ x)
    x = xp.ones((2, 2), dtype=xp.float32)
    assert "HIGHEST" in f.lower(x).as_text()
    with xp.set_matmul_precision("default"):
        assert "HIGHEST" not in f.lower(x).as_text()
    assert "HIGHEST" in f.lower(x).as_text()


def test_inside_of_plain_jax_transforms() -> None:
    f = xp.jit(lambda x: x * x)
    x = xp.asarray([1.0, 2.0])
    assert values(jax.jit(lambda y: f(y))(x)) == [1.0, 4.0]
    assert values(jax.vmap(lambda y: f(y))(x)) == [1.0, 4.0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_64_bit_types_inside_need_no_flag(dtype: str) -> None:
    seen = []

    @xp.jit
    def f(x: xp.Array) -> xp.Array:
        seen.append(jnp.zeros(1).dtype)
        return x + 1.0

    assert f(xp.ones(2, dtype=getattr(xp, dtype))).dtype == dtype
    assert seen == [np.dtype(dtype)]
    assert jnp.zeros(1).dtype == np.float32


def test_equal_static_values_of_other_types_are_told_apart() -> None:
    fill = xp.jit(lambda _, n: xp.full(1, n[0] if isinstance(n, tuple) else n), static_argnums=1)
    x = xp.ones(1)
    for value in (0.0, -0.0, (0.0,), (-0.0,), (1,), (1.0,), (True,), (1 + 0j,)):
        expected = np.full(1, value[0] if isinstance(value, tuple) else value)
        got = np.asarray(fill(x, value))
        assert got.dtype == expected.dtype
        assert got.tobytes() == expected.tobytes()


def test_an_integer_beyond_64_bits_is_refused() -> None:
    x = xp.asarray([1, 2])
    for call in (
        lambda: xp.jit(lambda x, n: x * n)(x, 2**70),
        lambda: xp.scan(lambda c, x: (c, x), 2**70, x),
        lambda: xp.cond(True, lambda n: n, lambda n: n, -(2**70)),
    ):
        with pytest.raises(ScalarOverflow, match="1180591620717411303424"):
            call()
    assert values(xp.jit(lambda x, n: x + n)(x, 2**62)) == [2**62 + 1, 2**62 + 2]
