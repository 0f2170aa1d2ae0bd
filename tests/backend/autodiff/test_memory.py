"""Graphs live as long as the tensors that lead to them, and compile once."""

from __future__ import annotations

import gc
import weakref

import jax
import numpy as np
import pytest

from rtx_jax.backend import Autodiff, CpuBackend, TrackedTensor
from rtx_jax.core.recorder import Node

B = Autodiff(CpuBackend())


def node_of(x: TrackedTensor) -> Node:
    return x._source.node  # type: ignore[union-attr]


def live_nodes() -> int:
    gc.collect()
    return sum(type(x) is Node for x in gc.get_objects())


def test_nodes_die_with_their_tensors() -> None:
    x = B.require_grad(B.ones((2,)))
    y = B.mul(x, x)
    first = weakref.ref(node_of(y))
    z = B.exp(y)
    del y
    assert first() is not None  # z was computed from it
    gc.disable()
    try:
        del z
        assert first() is None  # at once, without the garbage collector
    finally:
        gc.enable()


def test_inference_with_tracked_weights_does_not_grow() -> None:
    w = B.require_grad(B.ones((2, 2)))
    x = B.ones((2, 2))
    before = live_nodes()
    for _ in range(50):
        B.relu(B.matmul(x, w))
    assert live_nodes() == before


def test_intermediate_values_are_not_kept() -> None:
    x = B.require_grad(B.ones((3,)))
    middle = B.exp(x)
    value = weakref.ref(B.detach(middle))
    y = B.sin(middle)
    del middle
    gc.collect()
    assert value() is None
    np.testing.assert_allclose(np.asarray(B.backward(y)[x]), np.cos(np.e) * np.e, rtol=1e-6)


def test_backward_lets_go_of_operands() -> None:
    x, constant = B.require_grad(B.ones((3,))), B.full((3,), 2.0)
    alive = weakref.ref(constant)
    y = B.mul(x, constant)
    del constant
    gc.collect()
    assert alive() is not None
    B.backward(y)
    gc.collect()
    assert alive() is None


def test_long_chains_die_without_recursion() -> None:
    x = B.require_grad(B.ones(()))
    y = x
    for _ in range(20_000):
        y = B.add(y, x)
    last = weakref.ref(node_of(y))
    del y
    assert last() is None


def test_a_graph_is_compiled_once() -> None:
    compiled: list[str] = []

    def count(event: str, duration: float, **fields: object) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(event)

    def step(scale: float, length: int = 3) -> float:
        x = B.require_grad(B.full((5,), scale))
        y = x
        for _ in range(length):
            y = B.clamp(B.mul(y, B.full((5,), scale / 2)), -scale, 9.0)
        return float(np.asarray(B.backward(B.sum(y))[x])[0])

    step(1.0)
    jax.monitoring.register_event_duration_secs_listener(count)
    try:
        for scale in (1.5, 1.25, 2.0):
            assert step(scale) == (scale / 2) ** 3
        assert not compiled
        step(1.0, length=4)
        assert len(compiled) == 1
    finally:
        jax.monitoring.unregister_event_duration_listener(count)


@pytest.mark.slow
def test_long_graphs() -> None:
    x = B.require_grad(B.from_data(np.asarray([1.0]), (1,)))
    y = x
    for _ in range(1000):
        y = B.sin(B.add(y, x))
    f = jax.jit(lambda x: jax.lax.fori_loop(0, 1000, lambda _, y: jax.numpy.sin(y + x), x).sum())
    with jax.enable_x64(True):
        want = jax.jvp(f, (np.asarray([1.0]),), (np.asarray([1.0]),))[1]
    np.testing.assert_allclose(np.asarray(B.backward(y)[x])[0], want, rtol=1e-9)
