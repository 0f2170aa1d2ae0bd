"""Poisson and binomial counts: a search of the distribution function where few are expected, rejection where many."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import lax

from .random_bits import split, uniform

__all__ = ["binomial", "poisson"]

_FEW = 10.0  # expected count from which rejection is used, as the constants of both methods require
_State = tuple[jax.Array, jax.Array, jax.Array]
# log(k!) minus Stirling's formula around k + 1, for k below 10; the series serves from there on.
_TAIL = (
    0.0810614667953272,
    0.0413406959554092,
    0.0276779256849983,
    0.0207906721037650,
    0.0166446911898211,
    0.0138761288230707,
    0.0118967099458917,
    0.0104112652619720,
    0.00925546218271273,
    0.00833056343336287,
)


def poisson(key: jax.Array, lam: jax.Array) -> jax.Array:
    """Return counts of mean `lam` as floats; NaN where it is negative or NaN."""
    search_key, reject_key = split(key)
    valid = lam >= 0
    few = valid & (lam < _FEW)
    many = valid & (lam >= _FEW)
    small = _search(search_key, few, jnp.exp(-jnp.where(few, lam, 0)), lambda k: lam / k)
    value = jnp.where(few, small, _poisson_rejection(reject_key, jnp.where(many, lam, _FEW), many))
    return jnp.where(valid, value, jnp.nan)


def binomial(key: jax.Array, n: jax.Array, p: jax.Array) -> jax.Array:
    """Return counts of successes in `n` trials as floats; NaN out of the domain."""
    search_key, reject_key = split(key)
    valid = (n >= 0) & (p >= 0) & (p <= 1)
    n, chance = jnp.where(valid, jnp.floor(n), 0), jnp.where(valid, p, 0)
    flipped = chance > 0.5
    chance = jnp.where(flipped, 1 - chance, chance)
    few = n * chance < _FEW
    odds = chance / (1 - chance)
    first = jnp.exp(n * jnp.log1p(-jnp.where(few, chance, 0)))
    small = jnp.minimum(_search(search_key, few, first, lambda k: (n + 1 - k) * odds / k), n)
    value = jnp.where(few, small, _binomial_rejection(reject_key, n, chance, ~few))
    return jnp.where(valid, jnp.where(flipped, n - value, value), jnp.nan)


def _search(key: jax.Array, active: jax.Array, first: jax.Array, ratio: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """Return the count at which the distribution function passes a uniform value.

    `first` is the probability of 0, ``ratio(k)`` that of k divided by that of k - 1.
    """
    u = uniform(key, first.shape, first.dtype)

    def step(state: _State) -> _State:
        k, probability, rest = state
        further = active & (rest >= probability) & (probability > 0)
        following = k + 1
        return (
            jnp.where(further, following, k),
            jnp.where(further, probability * jnp.maximum(ratio(following), 0), probability),
            jnp.where(further, rest - probability, rest),
        )

    def unfinished(state: _State) -> jax.Array:
        _, probability, rest = state
        return (active & (rest >= probability) & (probability > 0)).any()

    return lax.while_loop(unfinished, step, (jnp.zeros_like(first), first, u))[0]


def _reject(
    key: jax.Array,
    active: jax.Array,
    a: jax.Array,
    b: jax.Array,
    center: jax.Array,
    inside: jax.Array,
    log_accept: Callable[[jax.Array, jax.Array, jax.Array], jax.Array],
) -> jax.Array:
    """Transformed rejection (Hörmann 1993): both distributions differ only in the arguments."""

    def draw(state: _State) -> _State:
        step, pending, value = state
        u_key, v_key = split(jr.fold_in(key, step))
        u = uniform(u_key, a.shape, a.dtype) - 0.5
        v = 1 - uniform(v_key, a.shape, a.dtype)
        us = 0.5 - jnp.abs(u)
        us = jnp.where(us > 0, us, np.finfo(a.dtype).tiny)
        k = jnp.floor((2 * a / us + b) * u + center)
        quick = (us >= 0.07) & (v <= inside)
        accepted = quick | log_accept(k, us, v)
        return step + np.uint32(1), pending & ~accepted, jnp.where(pending & accepted, k, value)

    start = jnp.zeros((), np.uint32), active, jnp.zeros_like(a)
    return lax.while_loop(lambda state: state[1].any(), draw, start)[2]


def _poisson_rejection(key: jax.Array, lam: jax.Array, active: jax.Array) -> jax.Array:
    b = 0.931 + 2.53 * jnp.sqrt(lam)
    a = -0.059 + 0.02483 * b
    scale = 1.1239 + 1.1328 / (b - 3.4)

    def log_accept(k: jax.Array, us: jax.Array, v: jax.Array) -> jax.Array:
        possible = (k >= 0) & ((us >= 0.013) | (v <= us))
        n = jnp.where(possible, k, 0) + 1
        # log of lam**k exp(-lam) / k!, by Stirling's formula around k + 1: large terms cancel before they are rounded.
        excess = (n - lam) / lam
        density = lam * excess - (n - 0.5) * jnp.log1p(excess) - jnp.log(lam) / 2 - _HALF_LOG_TAU - _tail(n - 1)
        return possible & (jnp.log(v * scale / (a / (us * us) + b)) <= density)

    return _reject(key, active, a, b, lam + 0.43, 0.9277 - 3.6224 / (b - 2), log_accept)


def _binomial_rejection(key: jax.Array, n: jax.Array, p: jax.Array, active: jax.Array) -> jax.Array:
    n, p = jnp.where(active, n, 40), jnp.where(active, p, 0.5)
    deviation = jnp.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    odds = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = jnp.floor((n + 1) * p)

    def log_accept(k: jax.Array, us: jax.Array, v: jax.Array) -> jax.Array:
        possible = (k >= 0) & (k <= n)
        k = jnp.where(possible, k, mode)
        bound = (
            (mode + 0.5) * jnp.log((mode + 1) / (odds * (n - mode + 1)))
            + (n + 1) * jnp.log((n - mode + 1) / (n - k + 1))
            + (k + 0.5) * jnp.log(odds * (n - k + 1) / (k + 1))
            + _tail(mode)
            + _tail(n - mode)
            - _tail(k)
            - _tail(n - k)
        )
        return possible & (jnp.log(v * alpha / (a / (us * us) + b)) <= bound)

    return _reject(key, active, a, b, n * p + 0.5, 0.92 - 4.2 / b, log_accept)


_HALF_LOG_TAU = 0.9189385332046727


def _tail(k: jax.Array) -> jax.Array:
    """Return log(k!) minus ``log(tau) / 2 + (k + 1/2) log(k + 1) - (k + 1)``."""
    table = jnp.asarray(_TAIL, k.dtype)
    n = k + 1
    series = (1 / 12 - (1 / 360 - 1 / 1260 / (n * n)) / (n * n)) / n
    return jnp.where(k < len(_TAIL), table[jnp.clip(k, 0, len(_TAIL) - 1).astype(np.int32)], series)
