"""Two runs of one call give the same bits, and so do two programs of it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from rtx_jax.kernels.attention import flash_attention


def test_two_runs_are_equal_bit_by_bit() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (jnp.asarray(rng.standard_normal((2, 600, heads, 32)), jnp.float32) for heads in (4, 2, 2))
    bias = jnp.asarray(rng.standard_normal((1, 4, 600, 600)), jnp.float32)

    def loss(q: jax.Array, k: jax.Array, v: jax.Array, bias: jax.Array) -> tuple[jax.Array, object]:
        found = flash_attention(q, k, v, bias=bias, causal=True, return_lse=True, return_entropy=True, column_scores=40)
        return jnp.sum(found[0] ** 2), found

    def run(*operands: jax.Array) -> object:
        first = jax.grad(loss, argnums=(0, 1, 2, 3), has_aux=True)
        second = jax.jvp(lambda q: jax.grad(loss, has_aux=True)(q, *operands[1:])[0], operands[:1], operands[:1])[1]
        return first(*operands), second

    runs = []
    for _ in range(2):
        compiled = jax.jit(run).lower(q, k, v, bias).compile()
        runs += [compiled(q, k, v, bias), compiled(q, k, v, bias)]
    for other in runs[1:]:
        for a, b in zip(jax.tree.leaves(runs[0]), jax.tree.leaves(other), strict=True):
            np.testing.assert_array_equal(np.asarray(a).view(np.int32), np.asarray(b).view(np.int32))
