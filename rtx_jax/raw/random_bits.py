"""Bits, and the draws that all others are made of: uniform, normal, exponential and gamma values.

`jax.random` serves 32 bits. Draws of 64 bits are put together here from 32-bit words, because JAX expands its own
64-bit draws when a program is compiled, when x64 is off again, and then fails (`jax.jit` around a float64 draw).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import lax

__all__ = ["bits", "exponential", "gamma", "loggamma", "normal", "split", "symmetric", "uniform"]

_FLOAT32 = np.dtype(np.float32)
_UINT32, _UINT64 = np.dtype(np.uint32), np.dtype(np.uint64)

split = jr.split


def bits(key: jax.Array, shape: tuple[int, ...], word: np.dtype) -> jax.Array:
    """Return random bits as uint32 or uint64."""
    if word == _UINT32:
        return jr.bits(key, shape, np.uint32)
    halves = jr.bits(key, (*shape, 2), np.uint32).astype(_UINT64)
    return (halves[..., 0] << np.uint64(32)) | halves[..., 1]


def uniform(key: jax.Array, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
    """Return multiples of 2**-53 (float64), or of the spacing of `dtype` below 1, of ``[0, 1)``."""
    if dtype.itemsize < 8:
        return jr.uniform(key, shape, dtype)
    return (bits(key, shape, _UINT64) >> np.uint64(11)).astype(dtype) * np.float64(2.0**-53)


def symmetric(key: jax.Array, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
    """Return values of ``(-1, 1)``, without 0 and the bounds in float64, without -1 in float32."""
    if dtype == _FLOAT32:
        low = np.nextafter(np.float32(-1.0), np.float32(0.0))
        return jr.uniform(key, shape, dtype, low, np.float32(1.0))
    odd = ((bits(key, shape, _UINT64) >> np.uint64(12)) << np.uint64(1)) | np.uint64(1)
    return odd.astype(dtype) * np.float64(2.0**-52) - np.float64(1.0)


def normal(key: jax.Array, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
    """Return standard normal values of float32 or float64, by the inverse of the distribution function."""
    return lax.erf_inv(symmetric(key, shape, dtype)) * np.asarray(np.sqrt(2.0), dtype)


def exponential(key: jax.Array, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
    """Return exponential values of mean 1."""
    return -jnp.log1p(-uniform(key, shape, dtype))


def gamma(key: jax.Array, a: jax.Array) -> jax.Array:
    """Return gamma values of shape parameter `a`; NaN where it is not positive."""
    return jnp.exp(loggamma(key, a))


def loggamma(key: jax.Array, a: jax.Array) -> jax.Array:
    """Return logarithms of gamma values, finite also where `a` is so small that the value itself is 0."""
    return _loggamma(jnp.where(a > 0, a, jnp.nan), key)


@jax.custom_jvp
def _loggamma(a: jax.Array, key: jax.Array) -> jax.Array:
    """Marsaglia and Tsang (2000), with their boost ``gamma(a + 1) * u**(1 / a)`` below 1."""
    loop_key, boost_key = split(key)
    small = a < 1
    d = jnp.where(small, a + 1, a) - 1 / 3
    c = 1 / jnp.sqrt(9 * d)

    def draw(state: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        step, pending, value = state
        x_key, u_key = split(jr.fold_in(loop_key, step))
        x = normal(x_key, a.shape, a.dtype)
        v = 1 + c * x
        log_v = 3 * jnp.log(jnp.where(v > 0, v, 1))
        log_u = jnp.log(1 - uniform(u_key, a.shape, a.dtype))
        accepted = (v > 0) & (log_u < x * x / 2 + d * (1 - jnp.exp(log_v) + log_v))
        return step + np.uint32(1), pending & ~accepted, jnp.where(pending & accepted, log_v, value)

    start = jnp.zeros((), np.uint32), ~jnp.isnan(a), jnp.zeros_like(a)
    _, _, log_v = lax.while_loop(lambda state: state[1].any(), draw, start)
    boost = jnp.where(small, jnp.log(1 - uniform(boost_key, a.shape, a.dtype)) / a, 0)
    return jnp.log(d) + log_v + boost


@_loggamma.defjvp
def _loggamma_jvp(
    primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, object]
) -> tuple[jax.Array, jax.Array]:
    # Implicit reparameterization (Figurnov et al. 2018): the derivative of a quantile at the value that was drawn.
    (a, key), (a_dot, _) = primals, tangents
    value = _loggamma(a, key)
    drawn = jnp.maximum(jnp.exp(value), np.finfo(a.dtype).tiny)
    return value, lax.random_gamma_grad(a, drawn) / drawn * a_dot
