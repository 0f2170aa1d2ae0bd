"""Arrays under plain JAX's transforms: trees with one leaf."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.errors import TracedMutation


def values(x: object) -> list[object]:
    return np.asarray(x).tolist()


def test_jit_keeps_writes_local() -> None:
    @jax.jit
    def f(x: xp.Array) -> xp.Array:
        x[0] = 9.0
        return x

    x = xp.asarray([1.0, 2.0])
    y = f(x)
    assert type(y) is xp.Array
    assert values(y) == [9.0, 2.0]
    assert values(x) == [1.0, 2.0]


def test_jit_takes_a_captured_array_as_a_constant() -> None:
    box = xp.asarray([1.0])
    f = jax.jit(lambda x: x + box)
    assert values(f(xp.ones(1))) == [2.0]
    box[0] = 5.0
    assert values(f(xp.ones(1))) == [2.0]


def test_jit_refuses_a_write_to_a_captured_array() -> None:
    box = xp.asarray([1.0])

    def f(x: xp.Array) -> xp.Array:
        box[0] = x[0]
        return x

    def constant(x: jax.Array) -> jax.Array:
        box[0] = 3.0
        return x

    with pytest.raises(TracedMutation, match="rtx_jax.jit"):
        jax.jit(f)(xp.ones(1))
    with pytest.raises(TracedMutation):
        jax.jit(constant)(jnp.ones(1))
    assert values(box) == [1.0]
    box += 1.0
    assert values(box) == [2.0]


def test_vmap_grad_and_tree_map() -> None:
    x = xp.asarray([1.0, 2.0], dtype=xp.float32)
    assert values(jax.vmap(lambda v: v * 2.0)(x)) == [2.0, 4.0]
    gradient = jax.grad(lambda v: xp.sum(v * v).jax)(x)
    assert type(gradient) is xp.Array
    assert values(gradient) == [2.0, 4.0]
    assert values(jax.tree.map(lambda leaf: leaf + 1, {"a": x})["a"]) == [2.0, 3.0]
    carry, _ = jax.lax.scan(lambda c, v: (c + v, None), xp.asarray(0.0, dtype=xp.float32), x)
    assert float(carry) == 3.0


def test_state_of_another_library_keeps_its_types() -> None:
    """A state of plain arrays beside parameters of Arrays, as optimiser libraries keep it."""

    @xp.jit
    def step(parameters: dict[str, xp.Array], count: jax.Array) -> tuple[object, jax.Array]:
        return jax.tree.map(lambda p: p - 0.5 * jnp.ones_like(p), parameters), count + 1

    parameters, count = {"w": xp.ones(2, dtype=xp.float32)}, jnp.zeros((), jnp.int32)
    for _ in range(2):
        parameters, count = step(parameters, count)
    assert type(parameters["w"]) is xp.Array
    assert values(parameters["w"]) == [0.0, 0.0]
    assert isinstance(count, jax.Array)
    assert int(count) == 2


def test_eager_speed_comes_back_after_a_trace() -> None:
    from rtx_jax.core.handle import tracing

    xp.ones(2) + 1.0
    quiet = tracing.active
    jax.jit(lambda v: v * 2.0)(xp.ones(2))
    xp.grad(lambda v: xp.sum(v))(xp.ones(2))
    xp.ones(2) + 1.0
    assert tracing.active == quiet


def test_cached_constants_belong_to_the_trace() -> None:
    xp.zeros(3)  # now it is cached

    def f():
        a = xp.zeros(3)
        a += 2.0
        a[0] = 1.0
        return a.jax

    np.testing.assert_array_equal(np.asarray(jax.jit(f)()), [1.0, 2.0, 2.0])
    np.testing.assert_array_equal(np.asarray(xp.zeros(3)), [0.0, 0.0, 0.0])
