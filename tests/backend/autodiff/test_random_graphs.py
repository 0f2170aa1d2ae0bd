"""Random graphs: the gradients of a recorded program are those of `jax.grad` of the same function."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rtx_jax.backend import Autodiff, CpuBackend, Tensor, TrackedTensor

B = Autodiff(CpuBackend())
NESTED = Autodiff(B)
SHAPES = ((2, 3), (3,), (1, 3), (2, 1), ())

# Smooth functions with bounded slopes, so that nothing overflows: by name, ours and theirs.
UNARY: dict[str, tuple[Callable[..., object], Callable[..., jax.Array]]] = {
    "sin": (lambda B, x: B.sin(x), jnp.sin),
    "tanh": (lambda B, x: B.tanh(x), jnp.tanh),
    "sigmoid": (lambda B, x: B.sigmoid(x), jax.nn.sigmoid),
    "neg": (lambda B, x: B.neg(x), jnp.negative),
    "mean": (lambda B, x: B.mean(x), lambda x: jnp.mean(x).reshape(1)),
    "squashed square": (lambda B, x: B.pow(B.tanh(x), 2.0), lambda x: jnp.tanh(x) ** 2),
}
BINARY: dict[str, tuple[Callable[..., object], Callable[..., jax.Array]]] = {
    "add": (lambda B, x, y: B.add(x, y), jnp.add),
    "sub": (lambda B, x, y: B.sub(x, y), jnp.subtract),
    "mul of squashed": (lambda B, x, y: B.mul(B.sin(x), B.tanh(y)), lambda x, y: jnp.sin(x) * jnp.tanh(y)),
}


class Program(NamedTuple):
    """Which of the leaves are marked, and calls on earlier values by number."""

    shapes: tuple[tuple[int, ...], ...]
    marked: tuple[bool, ...]
    calls: tuple[tuple[str, tuple[int, ...]], ...]
    detached: frozenset[int]


@st.composite
def programs(draw: st.DrawFn) -> Program:
    shapes = tuple(draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=4)))
    marked = tuple(draw(st.lists(st.booleans(), min_size=len(shapes), max_size=len(shapes))))
    calls = []
    for i in range(draw(st.integers(1, 8))):
        name = draw(st.sampled_from([*UNARY, *BINARY]))
        of = st.integers(0, len(shapes) + i - 1)
        calls.append((name, tuple(draw(of) for _ in range(1 if name in UNARY else 2))))
    return Program(shapes, marked, tuple(calls), frozenset(draw(st.sets(st.integers(0, 8), max_size=2))))


def values(program: Program) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.uniform(-1.5, 1.5, shape) for shape in program.shapes]


def ours(B: Autodiff, program: Program, leaves: list[Tensor]) -> Tensor:
    found = list(leaves)
    for i, (name, of) in enumerate(program.calls):
        result = {**UNARY, **BINARY}[name][0](B, *(found[j] for j in of))
        found.append(B.detach(result) if i in program.detached else result)
    return B.sum(found[-1])


def theirs(program: Program, leaves: list[jax.Array]) -> jax.Array:
    found = list(leaves)
    for i, (name, of) in enumerate(program.calls):
        result = {**UNARY, **BINARY}[name][1](*(found[j] for j in of))
        found.append(jax.lax.stop_gradient(result) if i in program.detached else result)
    return jnp.sum(found[-1])


def marked_gradients(program: Program) -> list[np.ndarray]:
    with jax.enable_x64(True):
        grads = jax.grad(lambda leaves: theirs(program, leaves))([jnp.asarray(x) for x in values(program)])
    return [np.asarray(g) for g in grads]


few = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@few
@given(programs())
def test_gradients(program: Program) -> None:
    leaves: list[Tensor] = [B.from_data(x, x.shape) for x in values(program)]
    leaves = [B.require_grad(x) if mark else x for x, mark in zip(leaves, program.marked, strict=True)]
    loss = ours(B, program, leaves)
    want = marked_gradients(program)
    if not isinstance(loss, TrackedTensor):
        for gradient, mark in zip(want, program.marked, strict=True):
            assert not mark or not gradient.any()
        return
    grads = B.backward(loss, retain=True)
    again = B.backward(loss)
    for leaf, gradient, mark in zip(leaves, want, program.marked, strict=True):
        found = grads.get(leaf)
        if not mark:
            assert found is None
        elif found is None:
            assert not gradient.any()
        else:
            np.testing.assert_allclose(np.asarray(found), gradient, rtol=1e-10, atol=1e-12)
            np.testing.assert_array_equal(np.asarray(found), np.asarray(again[leaf]))


@few
@given(programs())
def test_functions(program: Program) -> None:
    tensors = [B.from_data(x, x.shape) for x in values(program)]
    got = B.grad(lambda leaves: ours(B, program, leaves))(tensors)
    for found, gradient in zip(got, marked_gradients(program), strict=True):
        np.testing.assert_allclose(np.asarray(found), gradient, rtol=1e-10, atol=1e-12)


@settings(few, max_examples=8)
@given(programs())
def test_second_derivatives(program: Program) -> None:
    # What is detached at the outer level is still a function at the inner one, unlike with stop_gradient.
    program = program._replace(detached=frozenset())
    points = values(program)
    directions = [np.cos(x) for x in points]
    with jax.enable_x64(True):
        slope = jax.grad(lambda leaves: theirs(program, leaves))
        want = jax.jvp(slope, ([jnp.asarray(x) for x in points],), ([jnp.asarray(d) for d in directions],))[1]
    inner = [B.require_grad(B.from_data(x, x.shape)) for x in points]
    outer: list[Tensor] = [NESTED.require_grad(x) for x in inner]
    loss = ours(NESTED, program, outer)
    if not isinstance(loss, TrackedTensor) or loss._level != NESTED._level:
        return
    grads = NESTED.backward(loss)
    total: Tensor = B.zeros((1,), dtype=np.float64)
    for leaf, direction in zip(outer, directions, strict=True):
        found = grads.get(leaf)
        if found is not None:
            total = B.add(total, B.sum(B.mul(found, B.from_data(direction, direction.shape))))
    if not isinstance(total, TrackedTensor):
        return
    products = B.backward(total)
    for leaf, product in zip(inner, want, strict=True):
        found = products.get(leaf)
        got = np.zeros(product.shape) if found is None else np.asarray(found)
        np.testing.assert_allclose(got, np.asarray(product), rtol=1e-9, atol=1e-11)
