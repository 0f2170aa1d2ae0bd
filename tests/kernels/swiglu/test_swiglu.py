"""The gated unit: values, limits, every mode of differentiation, what is kept, refusals."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from rtx_jax import errors
from rtx_jax.kernels.swiglu import swiglu
from tests.kernels.modes import assert_same_modes

RNG = np.random.default_rng(0)
BOUND = {
    np.dtype(np.float32): 4e-7,
    np.dtype(np.float64): 1e-15,
    np.dtype(np.float16): 2.0**-11,
    np.dtype(ml_dtypes.bfloat16): 2.0**-8,
}


def exact(gate: np.ndarray, up: np.ndarray) -> np.ndarray:
    gate, up = np.asarray(gate, np.float64), np.asarray(up, np.float64)
    return gate / (1 + np.exp(-gate)) * up


@pytest.mark.parametrize("dtype", BOUND, ids=str)
def test_values_are_rounded_once(dtype: np.dtype) -> None:
    with jax.enable_x64(dtype.itemsize == 8):
        gate, up = (jnp.asarray(RNG.standard_normal((7, 129)) * 3, dtype) for _ in range(2))
        got = swiglu(gate, up)
    assert got.dtype == dtype
    np.testing.assert_allclose(np.asarray(got, np.float64), exact(gate, up), rtol=BOUND[dtype] * 1.01, atol=1e-7)


def test_limits() -> None:
    gate = jnp.asarray([np.inf, -np.inf, np.nan, 0.0], jnp.float32)
    got = np.asarray(swiglu(gate, jnp.ones(4)))
    np.testing.assert_array_equal(got, [np.inf, 0.0, np.nan, 0.0])
    assert np.signbit(got[1])
    slopes = jax.grad(lambda g: jnp.sum(swiglu(g, jnp.ones(4))))(gate)
    np.testing.assert_array_equal(np.asarray(slopes), [1.0, 0.0, np.nan, 0.5])


def test_every_mode_of_differentiation() -> None:
    with jax.enable_x64(True):
        gate, up = (jnp.asarray(RNG.standard_normal((2, 3))) for _ in range(2))
        assert_same_modes(swiglu, lambda g, u: g * u / (1 + jnp.exp(-g)), [gate, up])
        slopes = jax.grad(lambda g, u: jnp.sum(swiglu(g, u)), (0, 1))
        shared = jax.vmap(slopes, (0, None))(gate, up[0])
        for i in range(2):
            for a, b in zip(shared, slopes(gate[i], up[0]), strict=True):
                np.testing.assert_allclose(np.asarray(a[i]), np.asarray(b), atol=1e-15)


def test_the_operands_alone_are_kept() -> None:
    gate = jnp.ones((7, 129), jnp.bfloat16)
    kept = jax.eval_shape(lambda g, u: jax.vjp(swiglu, g, u)[1], gate, gate)
    assert sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(kept)) == 2 * gate.nbytes


def test_refusals() -> None:
    with pytest.raises(errors.ShapeMismatch, match="up"):
        swiglu(jnp.ones((2, 3)), jnp.ones((3,)))
    with pytest.raises(errors.UnsupportedDType, match="gate"):
        swiglu(jnp.ones(3, int), jnp.ones(3))
