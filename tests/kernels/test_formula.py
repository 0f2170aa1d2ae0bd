"""Formulas as primitives: a kernel is chosen at lowering, derivatives are complete, and meshes are respected."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from rtx_jax import errors
from rtx_jax.kernels.cross_entropy import cross_entropy
from rtx_jax.kernels.formula import Arrays, Formula, Request, call
from rtx_jax.kernels.norm import layer_norm
from rtx_jax.kernels.rope import rope
from rtx_jax.kernels.swiglu import swiglu
from rtx_jax.kernels.target import Target

RNG = np.random.default_rng(0)


def _square(x: jax.Array) -> Arrays:
    return (x * x,)


def _square_back(operands: Arrays, kept: Arrays, cotangents: Arrays, wanted: tuple[bool, ...]) -> Arrays:
    del kept, wanted
    return (2 * operands[0] * cotangents[0],)


def test_a_kernel_takes_the_place_of_the_plain_function_on_its_platform() -> None:
    requests: list[Request] = []

    def choose(request: Request) -> object:
        requests.append(request)
        if request.target.platform != "cpu":
            return None
        # Marked results, to see who made them.
        if request.backward:
            return lambda x, seed: (2 * x * seed + 1000,)
        return lambda x: (x * x + 100,)

    formula = Formula("square", _square, _square_back, (True,), choose=choose)  # type: ignore[arg-type]
    x = jnp.asarray([1.0, 2.0])
    value, back = jax.vjp(lambda x: call(formula, x)[0], x)
    np.testing.assert_array_equal(np.asarray(value), [101.0, 104.0])
    np.testing.assert_array_equal(np.asarray(back(jnp.ones(2))[0]), [1002.0, 1004.0])
    # Forward mode and higher orders are JAX's, of the plain functions.
    _, slope = jax.jvp(lambda x: call(formula, x)[0], (x,), (jnp.ones(2),))
    np.testing.assert_array_equal(np.asarray(slope), [2.0, 4.0])
    second = jax.grad(lambda x: jnp.sum(jax.grad(lambda x: jnp.sum(call(formula, x)[0]))(x)))(x)
    np.testing.assert_array_equal(np.asarray(second), [2.0, 2.0])
    assert {r.backward for r in requests} == {False, True}
    assert all(r.target == Target("cpu", r.target.kind) and not r.partitioned for r in requests)
    assert [r.wanted for r in requests if r.backward] == [(True,)] * sum(r.backward for r in requests)
    # For another platform the plain function is lowered.
    text = jax.jit(lambda x: call(formula, x)[0]).trace(x).lower(lowering_platforms=("tpu",)).as_text()
    assert "100" not in text


def test_a_formula_that_is_not_linear_has_no_transpose() -> None:
    formula = Formula("square", _square, _square_back, (True,))
    with pytest.raises(errors.AutogradError, match="linear"):
        jax.linear_transpose(lambda x: call(formula, x)[0], jnp.ones(2))(jnp.ones(2))


# Meshes

MESH = jax.make_mesh((4, 2), ("b", "h"), axis_types=(AxisType.Auto,) * 2, devices=jax.devices("cpu"))


def _block(x: jax.Array, angles: jax.Array, weight: jax.Array, words: jax.Array) -> jax.Array:
    """A loss that uses every operation: (B, T, N, H), (T, H/2), (H,), (V, H)."""
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    turned = swiglu(rope(x, cos, sin), layer_norm(x, weight, weight))
    labels = jnp.arange(x.size // x.shape[-1], dtype=np.int32).reshape(x.shape[:-1]) % words.shape[0]
    return cross_entropy(turned, words, labels, block=3)


def _operands() -> tuple[jax.Array, ...]:
    shapes = ((4, 6, 2, 8), (6, 4), (8,), (7, 8))
    return tuple(jnp.asarray(RNG.standard_normal(s), jnp.float32) for s in shapes)


def test_sharded_over_batch_and_heads() -> None:
    operands = _operands()
    run = jax.jit(jax.value_and_grad(_block, (0, 1, 2, 3)))
    want = run(*operands)
    placed = jax.device_put(operands[0], NamedSharding(MESH, PartitionSpec("b", None, "h")))
    rest = [jax.device_put(x, NamedSharding(MESH, PartitionSpec())) for x in operands[1:]]
    got = jax.block_until_ready(run(placed, *rest))
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), atol=2e-6)


def test_inside_of_shard_map() -> None:
    operands = _operands()
    want = jax.grad(_block, (0, 1, 2, 3))(*operands)
    spec = PartitionSpec("b", None, "h")

    def local(x: jax.Array, *rest: jax.Array) -> jax.Array:
        cos, sin = jnp.cos(rest[0]), jnp.sin(rest[0])
        return swiglu(rope(x, cos, sin), layer_norm(x, rest[1], rest[1]))

    def loss(x: jax.Array, angles: jax.Array, weight: jax.Array, words: jax.Array) -> jax.Array:
        turned = jax.shard_map(local, mesh=MESH, in_specs=(spec, PartitionSpec(), PartitionSpec()), out_specs=spec)(
            x, angles, weight
        )
        labels = jnp.arange(x.size // x.shape[-1], dtype=np.int32).reshape(x.shape[:-1]) % words.shape[0]
        return cross_entropy(turned, words, labels, block=3)

    got = jax.block_until_ready(jax.jit(jax.grad(loss, (0, 1, 2, 3)))(*operands))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), atol=2e-6)
