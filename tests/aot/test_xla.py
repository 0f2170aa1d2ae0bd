"""The path of plain XLA, which is the fallback everywhere, takes memory that grows with the length alone."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest

from rtx_jax.kernels.attention import flash_attention
from tests.aot.targets import AbsentDevice, Program, aval, gfx942, h200, metal, tpu

HEADS, SIZE = 8, 64
COMPILED = {
    "H200": h200,
    "v5e": lambda: tpu("v5e"),
    "v5p": lambda: tpu("v5p"),
    "v6e": lambda: tpu("v6e"),
}
LOWERED = {"gfx942": gfx942, "Metal": metal}


def attention(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
    result = flash_attention(query, key, value, causal=True, implementation="xla")
    assert isinstance(result, jax.Array)
    return result


def both(query: jax.Array, key: jax.Array, value: jax.Array, d_out: jax.Array) -> tuple[jax.Array, ...]:
    result, pullback = jax.vjp(attention, query, key, value)
    return result, *pullback(d_out)


def operands(function: Callable[..., object], length: int) -> list[jax.ShapeDtypeStruct]:
    one = aval(1, length, HEADS, SIZE, dtype=jnp.bfloat16)
    return [one] * (3 if function is attention else 4)


def compiled(device: AbsentDevice, function: Callable[..., object], length: int) -> Program:
    program = device.compile(function, *operands(function, length))
    assert program.argument_bytes == len(operands(function, length)) * length * HEADS * SIZE * 2
    return program


@pytest.mark.slow
@pytest.mark.parametrize("function", [attention, both])
@pytest.mark.parametrize("device", COMPILED)
def test_a_long_sequence_takes_little_memory(device: str, function: Callable[..., object]) -> None:
    length = 32768
    program = compiled(COMPILED[device](), function, length)
    # A few tables of the size of the queries, where the scores of one head alone would take 4 GiB.
    assert program.temp_bytes is not None
    assert program.temp_bytes < 24 * length * HEADS * SIZE * 2


@pytest.mark.parametrize("function", [attention, both])
@pytest.mark.parametrize("device", LOWERED)
def test_lowers_without_a_kernel(device: str, function: Callable[..., object]) -> None:
    program = LOWERED[device]().lower(function, *operands(function, 2048))
    assert program.kernels == ()
    assert "stablehlo.while" in program.text
    assert "x2048x2048x" not in program.text
