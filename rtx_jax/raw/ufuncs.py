"""Functions of NumPy that the standard has no name for, on raw arrays; they serve NumPy's ufuncs on Arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from ..core.dtypes import INTEGRAL, REAL_FLOATING, DType
from .operands import combine, floating

__all__ = ["cbrt", "deg2rad", "exp2", "fmax", "fmin", "fmod", "gcd", "heaviside", "lcm", "logaddexp2", "rad2deg"]

cbrt = floating(jnp.cbrt)
exp2 = floating(jnp.exp2)
deg2rad = floating(jnp.deg2rad)
rad2deg = floating(jnp.rad2deg)


def _pair(
    name: str, fn: Callable[[jax.Array, jax.Array], jax.Array], allowed: frozenset[DType] | None = None
) -> Callable[[jax.Array, jax.Array], jax.Array]:
    return functools.partial(combine, name, fn, allowed=allowed)


fmax = _pair("fmax", jnp.fmax)
fmin = _pair("fmin", jnp.fmin)
fmod = _pair("fmod", jnp.fmod)
gcd = _pair("gcd", jnp.gcd, INTEGRAL)
lcm = _pair("lcm", jnp.lcm, INTEGRAL)
logaddexp2 = _pair("logaddexp2", jnp.logaddexp2, REAL_FLOATING)
heaviside = _pair("heaviside", jnp.heaviside, REAL_FLOATING)
