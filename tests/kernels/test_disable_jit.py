"""Kernels run under `jax.disable_jit`, where a primitive that is evaluated by a program must not call itself."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from rtx_jax import ops
from rtx_jax.kernels.attention import flash_attention


def test_primitives_do_not_call_themselves() -> None:
    x = jnp.asarray(np.random.default_rng(0).normal(size=(1, 7, 2, 8)), jnp.float32)
    expected = flash_attention(x, x, x, causal=True), ops.rms_norm(x)
    with jax.disable_jit():
        got = flash_attention(x, x, x, causal=True), ops.rms_norm(x)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
