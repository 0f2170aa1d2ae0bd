"""The helpers say of a program what its text says."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.aot.targets import DEVICES, aval, gfx942, h200, metal, tpu


def product(left: jax.Array, right: jax.Array) -> jax.Array:
    return jnp.sin(left @ right)


@pytest.mark.parametrize("device", [gfx942, metal])
def test_a_lowering_has_a_text_and_no_memory(device: object) -> None:
    program = device().lower(product, aval(16, 8), aval(8, 4))  # type: ignore[operator]
    assert "stablehlo.dot_general" in program.text
    assert program.kernels == ()
    assert program.temp_bytes is None


def test_a_lowering_keeps_64_bits() -> None:
    assert "tensor<16x4xf64>" in gfx942().lower(product, aval(16, 8, dtype=np.float64), aval(8, 4)).text


def test_a_kernel_of_the_h200_is_compiled() -> None:
    program = h200().compile(product, aval(256, 128), aval(128, 64))
    assert program.argument_bytes == 4 * (256 * 128 + 128 * 64)
    assert program.output_bytes == 4 * 256 * 64
    assert program.spills is False


@pytest.mark.parametrize("generation", ["v5e", "v5p", "v6e"])
def test_a_program_of_a_tpu_is_compiled(generation: str) -> None:
    program = tpu(generation).compile(product, aval(256, 128), aval(128, 128))
    assert program.argument_bytes == 4 * (256 * 128 + 128 * 128)
    assert program.output_bytes == 4 * 256 * 128
    assert program.cost is not None
    assert program.cost["flops"] >= 2 * 256 * 128 * 128


def test_what_is_given_away_is_reused() -> None:
    kept = tpu("v5e").compile(jnp.sin, aval(256, 256))
    given = tpu("v5e").compile(jnp.sin, aval(256, 256), donate=0)
    assert "input_output_alias" in given.text
    assert "input_output_alias" not in kept.text


def test_a_missing_tool_has_a_name() -> None:
    for device in DEVICES:
        assert device.missing == "" or "pip install" in device.missing
