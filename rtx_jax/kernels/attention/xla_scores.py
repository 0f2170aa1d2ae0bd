"""From products of queries and keys to scores, and from scores to weights: what both directions share."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .spec import AttentionSpec

__all__ = ["exponential", "precision_of", "softcapped"]


def precision_of(spec: AttentionSpec) -> lax.Precision:
    """Return the precision of products: the caller's for float32; halves are exact in the narrowest."""
    return lax.Precision(spec.precision if spec.dtype.itemsize > 2 else "default")


def softcapped(spec: AttentionSpec, products: jax.Array) -> tuple[jax.Array, jax.Array | None]:
    """Return the scores of products before the bias, and the tanh of the softcap where there is one."""
    scores: jax.Array = products * np.asarray(spec.scale, products.dtype)
    if spec.softcap is None:
        return scores, None
    cap = np.asarray(spec.softcap, products.dtype)
    tanh = lax.tanh(scores / cap)
    return tanh * cap, tanh


def exponential(spec: AttentionSpec) -> Callable[[jax.Array], jax.Array]:
    """Return the exponential of the call."""
    return _fast_exp if spec.fast and spec.accumulator == np.float32 else jnp.exp


# 2**f over [-1/2, 1/2] with the least greatest relative error, 7.5e-8, that a polynomial of degree 5 has there.
_POLYNOMIAL = (0.00132764606, 0.00967554124, 0.0555071331, 0.240221197, 0.693146967, 1.00000007)


def _fast_exp(x: jax.Array) -> jax.Array:
    """Return exp(x) of float32 to 2e-6 for x <= 0, by a polynomial and the bits of the exponent; exact at -infinity."""
    y = x * np.float32(math.log2(math.e))
    whole = lax.round(y, lax.RoundingMethod.TO_NEAREST_EVEN)
    fraction = y - whole
    p = jnp.full_like(fraction, np.float32(_POLYNOMIAL[0]))
    for coefficient in _POLYNOMIAL[1:]:
        p = p * fraction + np.float32(coefficient)
    bits = lax.bitcast_convert_type(p, np.int32) + (whole.astype(np.int32) << np.int32(23))
    power = lax.bitcast_convert_type(bits, np.float32)
    # Below 2**-126 the bits wrap; a NaN compares false and stays.
    return jnp.where(y < np.float32(-126), np.float32(0), power)
