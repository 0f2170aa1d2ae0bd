"""``silu(gate) * up`` and its backward pass in plain XLA, which makes one loop of each."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from ...raw._kinds import accumulator, cast

__all__ = ["backward", "forward"]


def _silu(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return ``x * sigmoid(x)`` and its derivative ``s (1 + x (1 - s))``, with their limits at the infinities."""
    finite = lax.abs(x) < jnp.inf
    inside = jnp.where(finite | (x != x), x, lax.full_like(x, 0))
    s = lax.logistic(x)
    limit = jnp.where(x > 0, x, lax.full_like(x, -0.0))
    return jnp.where(lax.abs(x) == jnp.inf, limit, inside * s), s * (1 + inside * (1 - s))


def forward(gate: jax.Array, up: jax.Array) -> tuple[jax.Array]:
    """Return ``silu(gate) * up`` in the dtype of `gate`, rounded once."""
    work = accumulator(gate.dtype)
    value, _ = _silu(cast(gate, work))
    return (cast(value * cast(up, work), gate.dtype),)


def backward(gate: jax.Array, up: jax.Array, cotangent: jax.Array, wanted: tuple[bool, ...]) -> tuple[jax.Array, ...]:
    """Return the cotangents of those of `gate` and `up` that are wanted."""
    work = accumulator(gate.dtype)
    value, slope = _silu(cast(gate, work))
    seed = cast(cotangent, work)
    found = (cast(seed * cast(up, work) * slope, gate.dtype), cast(seed * value, up.dtype))
    return tuple(x for x, w in zip(found, wanted, strict=True) if w)
