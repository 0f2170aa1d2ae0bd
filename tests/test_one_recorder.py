"""One program, four ways: eager, fused, compiled and captured give the values that NumPy gives.

Values are small integers and results are clipped, so every way of rounding or contracting gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rtx_jax as xp
from rtx_jax import runtime
from rtx_jax.backend import CpuBackend, backend_of
from rtx_jax.core.handle import held

SHAPE = (2, 3)
LIMIT = 64
REGISTERS = 3
KINDS = (
    """binary scalar unary where reduce flip rows set set_from in_place in_place_scalar take take_both clone""".split()
)
BINARY = ("add", "subtract", "multiply", "maximum", "minimum")
UNARY = ("negative", "abs", "square", "sign", "floor")
IN_PLACE = ("__iadd__", "__isub__", "__imul__")
KEYS: tuple[Any, ...] = (0, (1, 2), (slice(None), 1), slice(None, None, -1), (Ellipsis, slice(1, None)), [1, 0])


@dataclass(frozen=True)
class Step:
    """One statement: what it does, the register that it changes, those that it reads, and a parameter."""

    kind: str
    target: int
    a: int = 0
    b: int = 0
    value: Any = None


@st.composite
def steps(draw: st.DrawFn) -> Step:
    register = st.integers(0, REGISTERS - 1)
    kind = draw(st.sampled_from(KINDS))
    target, a, b = draw(register), draw(register), draw(register)
    number = draw(st.integers(-3, 3))
    values: dict[str, st.SearchStrategy[Any]] = {
        "binary": st.sampled_from(BINARY),
        "scalar": st.tuples(st.sampled_from(BINARY), st.just(number)),
        "unary": st.sampled_from(UNARY),
        "reduce": st.tuples(st.sampled_from(("sum", "max", "min")), st.integers(0, 1)),
        "flip": st.integers(0, 1),
        "set": st.tuples(st.integers(0, len(KEYS) - 1), st.just(number)),
        "set_from": st.integers(0, len(KEYS) - 1),
        "in_place": st.sampled_from(IN_PLACE),
        "in_place_scalar": st.tuples(st.sampled_from(IN_PLACE), st.just(number)),
        "take": st.sampled_from(UNARY),
        "take_both": st.sampled_from(BINARY),
    }
    return Step(kind, target, a, b, draw(values[kind]) if kind in values else None)


PROGRAMS = st.lists(steps(), min_size=2, max_size=14)


def apply(m: Any, step: Step, regs: list[Any]) -> Any:
    """Run one statement; return the new value of its register, or None where it wrote in place. `m` is a namespace."""
    a, b, value = regs[step.a], regs[step.b], step.value
    given_up = m is xp
    if step.kind == "binary":
        return getattr(m, value)(a, b)
    if step.kind == "scalar":
        return getattr(m, value[0])(a, value[1])
    if step.kind == "unary":
        return getattr(m, value)(a)
    if step.kind == "where":
        return m.where(a > b, b, regs[step.target])
    if step.kind == "reduce":
        return m.broadcast_to(getattr(m, value[0])(a, axis=value[1], keepdims=True), SHAPE)
    if step.kind == "flip":
        return m.flip(a, axis=value)
    if step.kind == "rows":
        return a[[1, 0]]
    if step.kind == "take":
        return getattr(m, value)(regs[step.target].take() if given_up else regs[step.target])
    if step.kind == "take_both":
        other = b if step.b != step.target else 2
        return getattr(m, value)(regs[step.target].take() if given_up else regs[step.target], other)
    if step.kind == "clone":
        return a.clone() if given_up else a.copy()
    x = regs[step.target]
    if step.kind == "set":
        x[KEYS[value[0]]] = value[1]
    elif step.kind == "set_from":
        x[KEYS[value]] = b[KEYS[value]] if given_up else np.array(b[KEYS[value]])
    elif step.kind == "in_place":
        getattr(x, value)(b)
    else:
        getattr(x, value[0])(value[1])
    return None


def run(m: Any, program: Sequence[Step], inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Run a program on registers that begin as its inputs, which it may write to and give up."""
    regs = list(inputs)
    for step in program:
        x = apply(m, step, regs)
        if x is None:
            x = regs[step.target]
            x[...] = m.clip(x, -LIMIT, LIMIT)
        else:
            x = m.clip(x, -LIMIT, LIMIT)
        if m is np and any(x is other for other in (*inputs, *regs)) and x is not regs[step.target]:
            x = x.copy()
        regs[step.target] = x
    return tuple(regs)


def arrays(host: Sequence[np.ndarray]) -> list[xp.Array]:
    return [xp.asarray(x) + 0 for x in host]


def check(got: Sequence[xp.Array], want: Sequence[np.ndarray]) -> None:
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype and g.shape == w.shape
        np.testing.assert_array_equal(np.asarray(g), w)


def check_inputs(inputs: Sequence[xp.Array], alive: Sequence[bool], want: Sequence[np.ndarray]) -> None:
    """What is left of the inputs: written as NumPy writes them, or given up as eager execution gives them up."""
    for x, there, w in zip(inputs, alive, want, strict=True):
        assert x.is_alive is there
        if there:
            np.testing.assert_array_equal(np.asarray(x), w)


def compare(program: Sequence[Step], host: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> None:
    """Run a program in every way."""
    expected = [x.copy() for x in host]
    want = [x.copy() for x in run(np, program, expected)]
    inputs = arrays(host)
    check(run(xp, program, inputs), want)
    alive = [x.is_alive for x in inputs]
    check_inputs(inputs, alive, expected)

    for after in (1, 3):  # as one compiled program, and by pieces
        inputs = arrays(host)
        with xp.fusion(after=after):
            got = run(xp, program, inputs)
        check(got, want)
        check_inputs(inputs, alive, expected)

    compiled = xp.jit(lambda *xs: run(xp, program, xs))
    for _ in range(2):
        inputs = arrays(host)
        check(compiled(*inputs), want)
        check_inputs(inputs, alive, expected)

    inputs = arrays(host)
    graph = runtime.capture(lambda *xs: tuple(x + 0 for x in run(xp, program, [x + 0 for x in xs])), *inputs)
    for values in (host, other):
        for x, value in zip(inputs, values, strict=True):
            x[...] = value
        graph.launch()
        check(graph.result, run(np, program, [x.copy() for x in values]))
        check(inputs, values)


VALUES = st.lists(st.integers(-9, 9), min_size=6 * REGISTERS, max_size=6 * REGISTERS)


def registers(values: Sequence[int], dtype: str) -> list[np.ndarray]:
    return list(np.array(values, dtype).reshape(REGISTERS, *SHAPE))


_SETTINGS = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=25, **_SETTINGS)
@given(program=PROGRAMS, values=VALUES, other=VALUES, dtype=st.sampled_from(("float32", "float64", "int32")))
def test_every_way_gives_the_same(program: list[Step], values: list[int], other: list[int], dtype: str) -> None:
    compare(program, registers(values, dtype), registers(other, dtype))


@pytest.mark.slow
@settings(max_examples=400, **_SETTINGS)
@given(program=PROGRAMS, values=VALUES, other=VALUES, dtype=st.sampled_from(("float32", "float64", "int32")))
def test_every_way_gives_the_same_for_many(
    program: list[Step], values: list[int], other: list[int], dtype: str
) -> None:
    compare(program, registers(values, dtype), registers(other, dtype))


def test_a_program_of_everything() -> None:
    """Each statement once, so that each is tried whatever is drawn."""
    program = [
        Step("binary", 0, 0, 1, "multiply"),
        Step("scalar", 1, 0, 0, ("subtract", 2)),
        Step("unary", 2, 1, 0, "abs"),
        Step("where", 0, 1, 2),
        Step("reduce", 1, 0, 0, ("sum", 1)),
        Step("flip", 2, 1, 0, 1),
        Step("rows", 0, 2),
        Step("set", 0, 0, 0, (1, 3)),
        Step("set_from", 1, 0, 0, 5),
        Step("in_place", 1, 0, 2, "__iadd__"),
        Step("in_place_scalar", 1, 0, 0, ("__imul__", 2)),
        Step("clone", 2, 1),
        Step("take", 1, 0, 0, "square"),
        Step("take_both", 0, 0, 2, "add"),
        Step("in_place", 2, 0, 2, "__isub__"),
    ]
    values = [(7 * i) % 19 - 9 for i in range(6 * REGISTERS)]
    for dtype in ("float32", "float64", "int32"):
        compare(program, registers(values, dtype), registers(values[::-1], dtype))


# --- backends ---------------------------------------------------------------------------------------------------------


def chain(backend: Any, x: Any, y: Any) -> Any:
    """Operations of a backend, with an operand used again and one that is borrowed."""
    z = backend.mul(backend.add(x, y), x)
    z = backend.layer_norm(z, y)
    return backend.sum_dim(backend.mul(z, backend.tanh(y)), 1)


def test_one_backend_program_in_every_way() -> None:
    backend = CpuBackend()
    host = [np.linspace(-2, 2, 3, dtype=np.float32), np.linspace(1, 3, 3, dtype=np.float32)]
    x64, y64 = (value.astype(np.float64) for value in host)
    z = (np.stack([x64, x64 + 1]) + y64) * np.stack([x64, x64 + 1])
    z = (z - z.mean(1, keepdims=True)) / np.sqrt(z.var(1, keepdims=True) + 1e-5) * y64
    want = (z * np.tanh(y64)).sum(1, keepdims=True)

    def tensors() -> tuple[Any, Any]:
        first = np.stack([host[0], host[0] + 1])
        return backend.from_data(first, (2, 3)), backend.from_data(host[1], (3,))

    graph = runtime.capture(lambda x, y: xp.Array(chain(backend, x, y)), *map(xp.Array, tensors()))
    graph.launch()
    ways = (
        chain(backend, *tensors()),
        xp.jit(lambda x, y: chain(backend, x, y))(*tensors()),
        held(graph.result),
    )
    for got in ways:
        np.testing.assert_allclose(np.asarray(got), want, rtol=2e-5)
    for stack in ("fusion<cpu>", "quantized<cpu>", "autodiff<cpu>", "autodiff<fusion<cpu>>", "fusion<quantized<cpu>>"):
        wrapped = backend_of(stack)
        for _ in range(4):  # until fusion compiles it whole
            got = wrapped.to_data(chain(wrapped, *tensors()))
            np.testing.assert_allclose(got, want.ravel(), rtol=2e-5)
