"""What a captured function may do with the values of the NumPy runtime."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rtx_jax as xp
from rtx_jax import errors
from rtx_jax.backend import NumpyBackend, Quantized
from rtx_jax.core.host_recorder import HostValue
from rtx_jax.runtime import CapturedGraph, NumpyRuntime, Output
from rtx_jax.runtime.replay import ReplayGraph

B = NumpyBackend()
RUNTIME = NumpyRuntime()
X = np.float64([[1, -2, 3], [4, 5, -6]])


def captured(fn: Callable[..., object], *inputs: np.ndarray) -> tuple[CapturedGraph, np.ndarray]:
    """Capture a function of arrays that returns one; return the graph and its output."""
    with np.errstate(all="ignore"):
        expected = np.asarray(fn(*inputs))
    out = np.full_like(expected, 77)

    def body(*values: object) -> None:
        out = values[-1]
        assert isinstance(out, Output)
        out.write(fn(*values[:-1]))

    return RUNTIME.capture(body, inputs=list(inputs), outputs=[out]), out


FUNCTIONS: dict[str, Callable[..., object]] = {
    "ufunc": lambda x: np.sin(x) + x * 2 - 1 / x,
    "reflected": lambda x: (2 - x) ** 2 // 3 % 5,
    "comparison": lambda x: np.where((x > 0) & (x <= 4), x, -1.0),
    "ufunc with where": lambda x: np.sqrt(x, where=x > 0, out=x * 0),
    "ufunc method": lambda x: np.add.reduce(x, axis=1) + np.multiply.accumulate(x, axis=1)[:, -1],
    "outer": lambda x: np.subtract.outer(x[0], x[1]),
    "several results of a ufunc": lambda x: np.modf(x * 1.5)[0] + np.frexp(x)[1],
    "reductions": lambda x: np.sum(x) + np.mean(x, axis=0) + np.max(x) - x.min() + x.mean() + x.sum() + x.max(),
    "sorting": lambda x: np.sort(x, axis=1) + np.argsort(x, axis=1),
    "concatenate": lambda x: np.concatenate([x, x + 1], axis=1),
    "stack": lambda x: np.stack((x, -x)),
    "split": lambda x: np.split(x, 3, axis=1)[2] - np.split(x, [1], axis=1)[0],
    "split in one": lambda x: np.split(x, 1)[0],
    "unpacking": lambda x: np.hstack([*x]),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, x),
    "matmul": lambda x: x @ x.T + x @ x.transpose(),
    "linalg": lambda x: np.linalg.inv(x @ x.T) + np.linalg.norm(x),
    "named results": lambda x: np.linalg.eigh(x @ x.T).eigenvalues,
    "named results as an argument": lambda x: (
        np.stack(np.linalg.eigh(x @ x.T)[:1] * 2) + np.hstack(np.linalg.slogdet(x @ x.T))
    ),
    "svd": lambda x: np.abs(np.linalg.svd(x, full_matrices=False)[1]),
    "fft": lambda x: np.abs(np.fft.rfft(x, axis=1)),
    "reshape": lambda x: np.reshape(x, (3, 2)) + x.reshape(3, 2) + x.reshape((3, -1)),
    "index": lambda x: x[1, ::-1] + x[0][1:].sum() + x[..., 0][0] + x[None, 0, :2, None].sum(),
    "index arrays": lambda x: x[np.array([1, 0, 1]), np.argsort(x[0])],
    "dtypes": lambda x: x.astype("float32") + np.float32(1),
    "interpolation": lambda x: np.interp(x, [-6.0, 6.0], [0.0, 1.0]),
    "clip and pad": lambda x: np.pad(np.clip(x, -1, 2), 1),
    "like": lambda x: np.ones_like(x) + np.zeros_like(x) + np.full_like(x, 2),
    "copy": lambda x: x.copy() + len(x) + x.ndim + x.size + x.nbytes + np.ndim(x) + np.shape(x)[0],
    "backend": lambda x: B.softmax(B.matmul(x, B.transpose(x)), 1),
    "backend and NumPy": lambda x: np.maximum(B.exp(x), 1) + B.swap_dims(x, 0, 1).T,
    "backend without operands": lambda x: B.add(x, B.full((2, 3), 2.0, dtype="float64")),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_run_again(name: str) -> None:
    fn = FUNCTIONS[name]
    x = np.full_like(X, 1.0) + np.eye(2, 3)
    graph, out = captured(fn, x)
    assert (out == 77).all(), "capturing writes nothing"
    for values in (X, X[::-1] * 0.5 + 3):
        x[...] = values
        graph.launch()
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(out, fn(values.copy()), strict=True)


def _in_place(x: np.ndarray) -> np.ndarray:
    y = x.copy()
    y += 1
    y[0] *= 2
    y[1, 1:] = y[0, :2]
    y[:, 0] = [7, 8]
    y -= y[0]
    return y


def test_writes_inside() -> None:
    x = X.copy()
    graph, out = captured(_in_place, x)
    x[...] = X[::-1]
    graph.launch()
    np.testing.assert_array_equal(out, _in_place(X[::-1]))
    np.testing.assert_array_equal(x, X[::-1])


def test_a_write_changes_one_value_alone() -> None:
    x = X.copy()

    def f(x: np.ndarray) -> np.ndarray:
        part = x[0]
        y = x.copy()
        y[0] = 0
        part = part + y[0]
        return part

    graph, out = captured(f, x)
    graph.launch()
    assert out.tolist() == [1, -2, 3]


def test_captured_arrays_are_read_at_each_launch() -> None:
    x, weight = X.copy(), np.ones(3)
    graph, out = captured(lambda x: x * weight, x)
    weight[:] = 2
    graph.launch()
    np.testing.assert_array_equal(out, X * 2)


def test_results_that_are_views_of_outputs() -> None:
    x = np.arange(4.0)

    def turn(x: HostValue, first: Output[HostValue], second: Output[HostValue]) -> None:
        middle = x[1:3]
        first.write(x[::-1])
        second.write(middle)

    y = np.zeros(2)
    graph = RUNTIME.capture(turn, inputs=[x], outputs=[x, y])
    graph.launch()
    assert (x.tolist(), y.tolist()) == ([3, 2, 1, 0], [1, 2])


def test_intermediate_values_are_let_go() -> None:
    x = np.zeros(1000)

    def chain(x: np.ndarray) -> np.ndarray:
        for _ in range(20):
            x = x + 1
        return x

    graph, out = captured(chain, x)
    assert graph.memory.temp == 2 * x.nbytes, "an operand and its result"
    assert isinstance(graph.graph, ReplayGraph)
    assert len(graph.graph.steps) == 20
    graph.launch()
    assert out.tolist() == [20] * 1000


def test_views_take_no_memory_and_keep_what_they_view() -> None:
    x = np.arange(6.0)
    graph, out = captured(lambda x: np.reshape(x * 2, (2, 3)).T[1] + np.reshape(x, (3, 2))[0], x)
    assert graph.memory.temp == x.nbytes + 2 * 8
    graph.launch()
    assert out.tolist() == [2, 9]


def test_random_draws_and_keys() -> None:
    out, key_out = np.zeros(3, np.float32), np.zeros(3, np.float32)
    key = np.array([0, 5], np.uint32)

    def draws(key: HostValue, out: Output[HostValue], key_out: Output[HostValue]) -> None:
        out.write(B.randn((3,)))
        key_out.write(B.rand((3,), key=key))

    graph = RUNTIME.capture(draws, inputs=[key], outputs=[out, key_out])
    graph.launch()
    first, first_of_key = out.copy(), key_out.copy()
    graph.launch()
    assert (out != first).any()
    np.testing.assert_array_equal(key_out, first_of_key)
    np.testing.assert_array_equal(key_out, B.rand((3,), key=np.array([0, 5], np.uint32)))
    key[1] = 6
    graph.launch()
    np.testing.assert_array_equal(key_out, B.rand((3,), key=np.array([0, 6], np.uint32)))


def test_quantized_weights() -> None:
    Q = Quantized(B)
    weight = Q.quantize(np.float32([[1, 2], [3, -4], [0.5, 1]]))
    x, out = np.ones((2, 3), np.float32), np.zeros((2, 2), np.float32)
    graph = RUNTIME.capture(lambda x, out: out.write(Q.matmul(x, weight)), inputs=[x], outputs=[out])
    for values in ([[1, 2, 3], [4, 5, 6]], [[0, 1, 0], [1, 0, 0]]):
        x[...] = values
        graph.launch()
        np.testing.assert_array_equal(out, Q.matmul(x.copy(), weight))


def test_indices_that_are_values() -> None:
    rows, out = np.array([2, 0]), np.zeros((2, 3), np.float32)
    table = np.arange(9, dtype=np.float32).reshape(3, 3)
    graph = RUNTIME.capture(lambda rows, out: out.write(B.embedding(rows, table)), inputs=[rows], outputs=[out])
    graph.launch()
    assert out.tolist() == [[6, 7, 8], [0, 1, 2]]
    rows[:] = [1, 1]
    graph.launch()
    assert out.tolist() == [[3, 4, 5], [3, 4, 5]]


def test_a_launch_raises_what_a_step_raises() -> None:
    x = np.eye(2)
    graph, out = captured(lambda x: np.linalg.inv(x), x)
    graph.launch()
    x[...] = 0
    with pytest.raises(np.linalg.LinAlgError):
        graph.launch()
    assert out.tolist() == [[1, 0], [0, 1]], "nothing is written then"
    assert graph.launch_count == 1
    x[...] = 2 * np.eye(2)
    graph.launch()
    assert out.tolist() == [[0.5, 0], [0, 0.5]]


def test_warnings_are_not_raised() -> None:
    x = np.ones(2)
    graph, out = captured(lambda x: 1 / (x - 1), x)
    graph.launch()
    assert out.tolist() == [np.inf, np.inf]


REFUSED: dict[str, tuple[Callable[..., object], type[errors.RtxError]]] = {
    "bool": (lambda x: x if x[0, 0] > 0 else -x, errors.ConcretizationError),
    "float": (lambda x: x * float(x[0, 0]), errors.ConcretizationError),
    "complex": (lambda x: x * complex(x[0, 0]), errors.ConcretizationError),
    "index": (lambda x: X[int(x[0, 0])], errors.ConcretizationError),
    "slice": (lambda x: x[: x.astype(int)[0, 0]], errors.ConcretizationError),
    "asarray": (lambda x: np.asarray(x), errors.ConcretizationError),
    "all": (lambda x: np.zeros(3) if np.allclose(x, x) else x, errors.ConcretizationError),
    "to_data": (lambda x: B.to_data(x), errors.ConcretizationError),
    "mask": (lambda x: x[x > 0], errors.DataDependentShape),
    "nonzero": (lambda x: np.nonzero(x)[0], errors.DataDependentShape),
    "where": (lambda x: np.where(x)[0], errors.DataDependentShape),
    "unique": (lambda x: np.unique(x), errors.DataDependentShape),
    "copyto": (lambda x: np.copyto(x, 1.0), errors.BackendLimitation),
    "at": (lambda x: np.add.at(x, 0, 1.0), errors.BackendLimitation),
    "out of a function": (lambda x: np.sum(x, axis=0, out=x[0]), errors.BackendLimitation),
    "out from outside": (lambda x: np.add(x, 1, out=X.copy()), errors.TracedMutation),
    "text": (lambda x: np.array2string(x), errors.BackendLimitation),
    "cast": (lambda x: x.astype(int).__iadd__(0.5), errors.DTypeMismatch),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_recorded(name: str) -> None:
    fn, error = REFUSED[name]
    with pytest.raises(error):
        RUNTIME.capture(lambda x, out: out.write(fn(x)), inputs=[X.copy()], outputs=[X.copy()])
    graph, out = captured(np.negative, X.copy())
    graph.launch()
    np.testing.assert_array_equal(out, -X)


def test_a_value_that_is_left_behind() -> None:
    kept: list[HostValue] = []

    def keeps(x: HostValue, out: Output[HostValue]) -> None:
        kept.append(x + 1)  # type: ignore[arg-type]
        out.write(x)

    RUNTIME.capture(keeps, inputs=[X.copy()], outputs=[X.copy()])
    with pytest.raises(errors.ConcretizationError, match="left behind"):
        kept[0] + 1
    with pytest.raises(errors.ConcretizationError, match="left behind"):
        RUNTIME.capture(lambda x, out: out.write(x + kept[0]), inputs=[X.copy()], outputs=[X.copy()])


def test_functions_of_the_namespace_are_not_recorded() -> None:
    with pytest.raises(errors.UnsupportedDType, match="use NumPy's functions"):
        RUNTIME.capture(lambda x, out: out.write(xp.exp(x)), inputs=[X.copy()], outputs=[X.copy()])


def test_facts_of_a_value() -> None:
    seen: list[object] = []

    def look(x: HostValue, out: Output[HostValue]) -> None:
        seen.append((x.shape, x.dtype, x.ndim, x.size, x.nbytes, len(x), repr(x)))
        out.write(x)

    RUNTIME.capture(look, inputs=[X.copy()], outputs=[X.copy()])
    assert seen == [((2, 3), np.dtype(np.float64), 2, 6, 48, 2, "<HostValue float64[2, 3]>")]


UNARY = (np.sin, np.exp, np.abs, np.negative, np.sqrt, np.square)
BINARY = (np.add, np.subtract, np.multiply, np.maximum, np.divide)


@given(st.lists(st.tuples(st.integers(0, 10), st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=12))
@settings(max_examples=40, deadline=None)
def test_random_programs(program: list[tuple[int, int, int]]) -> None:
    def run(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        values = [x, y]
        for op, i, j in program:
            a, b = values[i % len(values)], values[j % len(values)]
            values.append(UNARY[op](a) if op < len(UNARY) else BINARY[op - len(UNARY)](a, b))
        return values[-1]

    x, y = np.ones(3), np.ones(3)
    graph, out = captured(run, x, y)
    x[:], y[:] = [0.5, -1, 2], [3, 0, -0.25]
    graph.launch()
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, run(x.copy(), y.copy()))
