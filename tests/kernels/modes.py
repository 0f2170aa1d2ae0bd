"""Every mode of differentiation of one function against that of a plain formula, in float64 and in two compilations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["assert_same_modes"]


def assert_same_modes(
    fn: Callable[..., object], plain: Callable[..., object], operands: Sequence[np.ndarray], atol: float = 1e-11
) -> None:
    """Compare values, jvp, vjp, linearize, forward over reverse, reverse over forward and reverse over reverse.

    `plain` is a formula of `jax.numpy` with the same value, of which JAX forms the derivatives. Results may be pytrees.
    """
    rng = np.random.default_rng(7)
    ways = tuple(rng.standard_normal(np.shape(x)) for x in operands)

    def every(fn: Callable[..., object]) -> Callable[..., object]:
        def loss(*x: jax.Array) -> jax.Array:
            # Curved in the results, so that second derivatives see first ones.
            return sum(jnp.sum(jnp.sin(leaf + 0.1)) for leaf in jax.tree.leaves(fn(*x)))  # type: ignore[return-value]

        slope = jax.grad(loss, tuple(range(len(operands))))

        def along(*x: jax.Array) -> jax.Array:
            return sum(jnp.vdot(g, w) for g, w in zip(slope(*x), ways, strict=True))  # type: ignore[return-value]

        def run(*x: jax.Array) -> object:
            value, push = jax.linearize(fn, *x)
            pull = jax.linear_transpose(push, *x)
            seeds = jax.tree.map(jnp.cos, value)
            return {
                "value": value,
                "linearize": push(*ways),
                "transpose of linearize": pull(seeds),
                "jvp": jax.jvp(fn, x, ways)[1],
                "vjp": jax.vjp(fn, *x)[1](seeds),
                "forward over reverse": jax.jvp(slope, x, ways)[1],
                "reverse over forward": jax.grad(lambda *x: jax.jvp(loss, x, ways)[1], tuple(range(len(x))))(*x),
                "reverse over reverse": jax.grad(along, tuple(range(len(x))))(*x),
            }

        return jax.jit(run)

    with jax.enable_x64(True):
        arrays = [jnp.asarray(x, np.float64) for x in operands]
        got, want = every(fn)(*arrays), every(plain)(*arrays)
    for (path, a), (_, b) in zip(
        jax.tree_util.tree_leaves_with_path(got), jax.tree_util.tree_leaves_with_path(want), strict=True
    ):
        assert a.shape == b.shape and a.dtype == b.dtype == np.float64, jax.tree_util.keystr(path)
        np.testing.assert_allclose(
            np.asarray(a), np.asarray(b), atol=atol, rtol=1e-10, err_msg=jax.tree_util.keystr(path)
        )
