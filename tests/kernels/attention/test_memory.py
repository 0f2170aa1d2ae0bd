"""Memory beside operands and results grows with the length, not with its square, in every mode."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest

from rtx_jax.kernels.attention import flash_attention

LENGTHS = (1024, 2048, 4096)
HEADS, SIZE = 2, 16

Operands = tuple[jax.Array, jax.Array, jax.Array]


def forward(*operands: jax.Array) -> jax.Array:
    found = flash_attention(*operands, causal=True)
    assert isinstance(found, jax.Array)
    return found


def backward(*operands: jax.Array) -> Operands:
    slopes: Operands = jax.grad(lambda *x: jnp.sum(forward(*x) ** 2), argnums=(0, 1, 2))(*operands)
    return slopes


def pushed(*operands: jax.Array) -> jax.Array:
    way: jax.Array = jax.jvp(forward, operands, operands)[1]
    return way


def double_backward(*operands: jax.Array) -> Operands:
    def norm(*operands: jax.Array) -> jax.Array:
        return sum((jnp.vdot(x, x) for x in backward(*operands)), jnp.zeros(()))

    slopes: Operands = jax.grad(norm, argnums=(0, 1, 2))(*operands)
    return slopes


def entropy_and_columns(*operands: jax.Array) -> object:
    return flash_attention(*operands, causal=True, return_entropy=True, column_scores=32)


@pytest.mark.parametrize("mode", [forward, backward, pushed, double_backward, entropy_and_columns])
def test_temporaries_grow_with_the_length(mode: Callable[..., object]) -> None:
    found = []
    for length in LENGTHS:
        x = jax.ShapeDtypeStruct((1, length, HEADS, SIZE), jnp.float32)
        analysis = jax.jit(mode).lower(x, x, x).compile().memory_analysis()
        found.append(analysis.temp_size_in_bytes)
    operand = LENGTHS[-1] * HEADS * SIZE * 4
    # Beside a constant for one tile. The scores of the longest would be 128 MiB, 256 operands.
    assert found[2] - found[0] <= 40 * operand, found
    # Twice the length: twice the memory, not four times.
    assert found[2] - found[1] <= 2.6 * max(found[1] - found[0], operand), found


@pytest.mark.slow
def test_second_order_of_a_long_sequence_runs() -> None:
    x = jnp.cos(jnp.arange(8192 * 8 * 64, dtype=jnp.float32).reshape(1, 8192, 8, 64))
    compiled = jax.jit(double_backward).lower(x, x, x).compile()
    # 8 heads of 8192 x 8192 scores are 2 GiB.
    assert compiled.memory_analysis().temp_size_in_bytes <= 400 * 2**20
    assert all(bool(jnp.isfinite(slope).all()) for slope in compiled(x, x, x))
