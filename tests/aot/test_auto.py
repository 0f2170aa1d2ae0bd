"""``implementation="auto"`` takes each device's own kernels; lowering shows it, and needs none of their tools."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rtx_jax._compat import JAX_VERSION
from rtx_jax.errors import FallbackWarning
from rtx_jax.kernels.attention import flash_attention
from rtx_jax.kernels.decode import decode_attention
from tests.aot.programs import CUDNN, MOSAIC_GPU, MOSAIC_TPU, TRITON
from tests.aot.targets import GFX942, H200, METAL, TPU, AbsentDevice, aval

QUERY = aval(1, 256, 4, 64, dtype=jnp.bfloat16)
# Mosaic GPU's kernels are written for newer releases of JAX, and refuse older ones.
HOPPER = MOSAIC_GPU if JAX_VERSION >= (0, 12) else TRITON
FIRST = [(H200, CUDNN), *((device, MOSAIC_TPU) for device in TPU.values()), (GFX942, TRITON), (METAL, None)]
WITH_BIAS = [(H200, HOPPER), *FIRST[1:]]


def attention(query: jax.Array, key: jax.Array, value: jax.Array, bias: jax.Array | None = None) -> jax.Array:
    result = flash_attention(query, key, value, bias=bias, causal=True)
    assert isinstance(result, jax.Array)
    return result


def gradients(query: jax.Array, key: jax.Array, value: jax.Array, bias: jax.Array | None = None) -> object:
    def total(*operands: jax.Array) -> jax.Array:
        return attention(*operands, bias).astype(jnp.float32).sum()

    return jax.grad(total, argnums=(0, 1, 2))(query, key, value)


def starts(kernels: tuple[str, ...], wanted: str | None) -> bool:
    return not kernels if wanted is None else kernels[:1] != () and kernels[0].startswith(wanted)


@pytest.mark.parametrize("function", [attention, gradients])
@pytest.mark.parametrize(("device", "kernel"), FIRST, ids=lambda x: getattr(x, "name", ""))
def test_attention(device: AbsentDevice, kernel: str | None, function: object) -> None:
    program = device.lower(function, QUERY, QUERY, QUERY)  # type: ignore[arg-type]
    assert starts(program.kernels, kernel), program.kernels


@pytest.mark.parametrize(("device", "kernel"), WITH_BIAS, ids=lambda x: getattr(x, "name", ""))
def test_attention_with_a_bias(device: AbsentDevice, kernel: str | None) -> None:
    program = device.lower(attention, QUERY, QUERY, QUERY, aval(1, 4, 256, 256, dtype=jnp.bfloat16))
    assert starts(program.kernels, kernel), program.kernels


@pytest.mark.parametrize(("device", "kernel"), [(H200, TRITON), *FIRST[1:]], ids=lambda x: getattr(x, "name", ""))
def test_decode(device: AbsentDevice, kernel: str | None) -> None:
    cache = aval(2, 1024, 2, 128, dtype=jnp.bfloat16)
    query = aval(2, 1, 8, 128, dtype=jnp.bfloat16)
    program = device.lower(decode_attention, query, cache, cache, aval(2, dtype=np.int32))
    assert starts(program.kernels, kernel), program.kernels


def test_what_no_kernel_can_runs_as_plain_xla_with_a_notice() -> None:
    double = aval(1, 72, 2, 24, dtype=np.float64)
    with pytest.warns(FallbackWarning, match="runs as plain XLA"):
        program = TPU["v5e"].lower(attention, double, double, double)
    assert program.kernels == ()
