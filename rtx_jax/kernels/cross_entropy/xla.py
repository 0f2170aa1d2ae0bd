"""Statistics of each token's logits, one block of the vocabulary after the other, and their backward pass.

The logits of all tokens and one block are all that is held. The backward pass forms them again, from the
log-sum-exp that was kept.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...raw._kinds import accumulator, cast

__all__ = ["LossSpec", "backward", "forward"]


@dataclass(frozen=True, slots=True)
class LossSpec:
    """The static part of a call.

    Attributes
    ----------
    block
        How many words of the vocabulary are taken at once, at most its size.
    bias
        Whether there is one.
    softcap
        Logits become ``softcap * tanh(logits / softcap)``.
    precision
        Of float32 products.
    """

    block: int
    bias: bool
    softcap: float | None
    precision: str


def _blocks(size: int, spec: LossSpec) -> tuple[jax.Array, int]:
    """Return the number of each block and how many there are. The last one may begin within the one before."""
    count = -(-size // spec.block)
    return lax.iota(np.int32, count), count


def _dot(a: jax.Array, b: jax.Array, axes: tuple[int, int], spec: LossSpec) -> jax.Array:
    numbers = (((axes[0],), (axes[1],)), ((), ()))
    out = accumulator(a.dtype)
    precision = spec.precision if a.dtype.itemsize >= 4 else None
    return lax.dot_general(a, b, numbers, precision=precision, preferred_element_type=out)


def _block(
    number: jax.Array, hidden: jax.Array, weight: jax.Array, bias: jax.Array | None, spec: LossSpec
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]:
    """Return a block's first word, its weights, its logits after the cap, its words, and which are new in it."""
    size = weight.shape[0]
    start = jnp.minimum(number * spec.block, size - spec.block)
    part = lax.dynamic_slice_in_dim(weight, start, spec.block)
    raw = _dot(hidden, part, (1, 1), spec)
    if bias is not None:
        raw = raw + cast(lax.dynamic_slice_in_dim(bias, start, spec.block), raw.dtype)[None]
    scores = raw if spec.softcap is None else spec.softcap * jnp.tanh(raw / spec.softcap)
    words = start + lax.broadcasted_iota(np.int32, (1, spec.block), 1)
    return start, part, scores, words, words >= number * spec.block


def _split(arrays: tuple[jax.Array, ...], spec: LossSpec) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array | None]:
    hidden, weight, labels = arrays[:3]
    return hidden, weight, labels, arrays[3] if spec.bias else None


def forward(*arrays: jax.Array, spec: LossSpec) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the log-sum-exp of each token's logits, its label's logit, and the mean of its logits, each (T,).

    Parameters
    ----------
    arrays
        hidden (T, D), weight (V, D), labels (T,) and the bias (V,) if there is one. A label out of range has logit 0.
    """
    hidden, weight, labels, bias = _split(arrays, spec)
    tokens, size = hidden.shape[0], weight.shape[0]
    work = accumulator(hidden.dtype)
    numbers, _ = _blocks(size, spec)

    # The derivative of a step forms its logits again, so that JAX's own derivatives hold no more of them either.
    @functools.partial(jax.checkpoint, prevent_cse=False)
    def step(state: tuple[jax.Array, ...], number: jax.Array) -> tuple[tuple[jax.Array, ...], None]:
        top, total, chosen, everything = state
        _, _, scores, words, new = _block(number, hidden, weight, bias, spec)
        visible = jnp.where(new, scores, -jnp.inf)
        highest = lax.stop_gradient(jnp.maximum(top, visible.max(1)))
        base = jnp.where(highest == -jnp.inf, 0, highest)
        total = total * jnp.exp(top - base) + jnp.exp(visible - base[:, None]).sum(1)
        chosen = chosen + jnp.where(new & (words == labels[:, None]), scores, 0).sum(1)
        everything = everything + jnp.where(new, scores, 0).sum(1)
        return (highest, total, chosen, everything), None

    zeros = jnp.zeros_like(hidden, work, shape=(tokens,))
    (top, total, chosen, everything), _ = lax.scan(step, (zeros - jnp.inf, zeros, zeros, zeros), numbers)
    base = jnp.where(top == -jnp.inf, 0, top)
    return base + jnp.log(total), chosen, everything / size


def backward(
    arrays: tuple[jax.Array, ...],
    kept: tuple[jax.Array, ...],
    cotangents: tuple[jax.Array, ...],
    wanted: tuple[bool, ...],
    *,
    spec: LossSpec,
) -> tuple[jax.Array, ...]:
    """Return the cotangents of those of hidden, weight and bias that are wanted.

    With P the probabilities, the cotangent of the logits is ``P c_lse + onehot(label) c_label + c_mean / V``.
    """
    hidden, weight, labels, bias = _split(arrays, spec)
    of_lse, of_label, of_mean = cotangents
    (lse,) = kept
    size = weight.shape[0]
    numbers, _ = _blocks(size, spec)
    base = jnp.where(lse == -jnp.inf, 0, lse)[:, None]
    ask_hidden, ask_weight, _, *ask_bias = wanted

    @functools.partial(jax.checkpoint, prevent_cse=False)
    def step(state: dict[str, jax.Array], number: jax.Array) -> tuple[dict[str, jax.Array], None]:
        start, part, scores, words, new = _block(number, hidden, weight, bias, spec)
        slope = jnp.exp(scores - base) * of_lse[:, None] + (of_mean / size)[:, None]
        slope = slope + jnp.where(words == labels[:, None], of_label[:, None], 0)
        if spec.softcap is not None:
            slope = slope * (1 - (scores / spec.softcap) ** 2)
        state = dict(state)
        if ask_hidden:
            seen = cast(jnp.where(new, slope, 0), hidden.dtype)
            state["hidden"] = state["hidden"] + _dot(seen, part, (1, 0), spec)
        # Words that two blocks share are written twice, with the same values.
        if ask_weight:
            rows = cast(_dot(cast(slope, hidden.dtype), hidden, (0, 0), spec), weight.dtype)
            state["weight"] = lax.dynamic_update_slice_in_dim(state["weight"], rows, start, 0)
        if any(ask_bias) and bias is not None:
            sums = cast(slope.sum(0), bias.dtype)
            state["bias"] = lax.dynamic_update_slice_in_dim(state["bias"], sums, start, 0)
        return state, None

    state: dict[str, jax.Array] = {}
    if ask_hidden:
        state["hidden"] = jnp.zeros_like(hidden, accumulator(hidden.dtype))
    if ask_weight:
        state["weight"] = jnp.zeros_like(weight)
    if any(ask_bias) and bias is not None:
        state["bias"] = jnp.zeros_like(bias)
    state, _ = lax.scan(step, state, numbers)
    if ask_hidden:
        state["hidden"] = cast(state["hidden"], hidden.dtype)
    return tuple(state[name] for name in ("hidden", "weight", "bias") if name in state)
