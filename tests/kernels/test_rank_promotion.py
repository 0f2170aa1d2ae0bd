"""The kernels where `jax_numpy_rank_promotion` forbids to broadcast arrays of different ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import kernels, nn

B, T, S, N, K, H = 2, 5, 9, 4, 2, 8


@pytest.fixture(autouse=True)
def strict() -> Iterator[None]:
    with jax.numpy_rank_promotion("raise"):
        yield


def draw(*shape: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


def whole(*numbers: int) -> jax.Array:
    return jnp.asarray(numbers, jnp.int32)


Q, KEY, VALUE = draw(B, T, N, H), draw(B, S, K, H, seed=1), draw(B, S, K, H, seed=2)
SINKS, BIAS, MASK = draw(N, seed=3), draw(T, S, seed=4), draw(S, seed=5) < 1
LENGTHS = {"query_lengths": whole(5, 3), "key_lengths": whole(9, 6)}
SEGMENTS = (jnp.zeros((B, T), jnp.int32), jnp.zeros((B, S), jnp.int32))
FEATURES: dict[str, dict[str, object]] = {
    "window": {"causal": True, "window": (3, 0), "softcap": 2.0},
    "rows": {"window": (3, 1), "q_offset": whole(4, 2), "segment_ids": SEGMENTS, **LENGTHS},
    "scores": {"mask": MASK, "bias": BIAS, "sinks": SINKS, "nan_safe": True},
}


def every_mode(f: Callable[..., jax.Array], *operands: jax.Array) -> None:
    """Trace the function, its gradient, the derivative of that, and a batch of it."""

    def loss(*operands: jax.Array) -> jax.Array:
        return sum(jnp.sum(jnp.sin(x)) for x in jax.tree.leaves(f(*operands)))

    gradient = jax.grad(loss, tuple(range(len(operands))))
    jax.eval_shape(lambda *xs: jax.jvp(gradient, xs, xs), *operands)
    jax.jit(jax.vmap(gradient)).lower(*(x[None] for x in operands))
    jax.jit(f).lower(*operands).compile()


@pytest.mark.parametrize("implementation", ["xla", "reference"])
@pytest.mark.parametrize("name", FEATURES)
def test_attention(name: str, implementation: str) -> None:
    given = FEATURES[name] if implementation == "xla" else {**FEATURES[name], "nan_safe": True}
    more = {"return_lse": True, "return_entropy": True, "column_scores": 3, "implementation": implementation}
    every_mode(lambda q, k, v: kernels.flash_attention(q, k, v, **given, **more), Q, KEY, VALUE)


def test_gradients_of_what_is_added_to_the_scores() -> None:
    def attend(bias: jax.Array, sinks: jax.Array) -> jax.Array:
        return kernels.flash_attention(Q, KEY, VALUE, bias=bias, sinks=sinks, return_entropy=True)

    every_mode(attend, BIAS, SINKS)


@pytest.mark.parametrize("paged", [False, True])
@pytest.mark.parametrize("layout", ["BTNH", "BNTH"])
def test_decode(paged: bool, layout: str) -> None:
    # Large enough for the loop over blocks.
    size, rows = 4096, {"window": (700, 0), "softcap": 2.0, "sinks": SINKS, "layout": layout}
    rows |= {"key_lengths": whole(4000, 3000), "query_lengths": whole(5, 3)}
    key, value = (draw(B, size, K, H * 4, seed=seed) for seed in (1, 2))
    scale = jnp.abs(draw(B, size, K, seed=3))
    query = draw(B, T, N, H * 4)
    if layout == "BNTH":
        query, key, value, scale = (x.swapaxes(1, 2) for x in (query, key, value, scale))
    if not paged:
        every_mode(lambda q: kernels.decode_attention(q, key, value, key_scale=scale, **rows), query)
        return
    shape = (-1, 64, K, H * 4) if layout == "BTNH" else (-1, K, 64, H * 4)
    table = jnp.arange(B * size // 64, dtype=jnp.int32).reshape(B, -1)
    pages = (key.reshape(shape), value.reshape(shape))
    every_mode(lambda q: kernels.paged_attention(q, *pages, table, value_scale=jnp.float32(0.5), **rows), query)


def test_rows() -> None:
    x, vector = draw(3, 4, 6), draw(6, seed=1)
    every_mode(lambda x, w: kernels.rms_norm(x, w, residual=x), x, vector)
    every_mode(lambda x, w, b: kernels.layer_norm(x, w, b), x, vector, vector)
    every_mode(kernels.swiglu, x, x)
    cos, sin = draw(4, 3), draw(4, 3, seed=1)
    every_mode(lambda x, cos, sin: kernels.rope(x[:, :, None], cos, sin), x, cos, sin)
    every_mode(lambda x: kernels.rope(x[:, :, None], frequencies=kernels.rope_frequencies(6)), x)
    words = {"bias": draw(10, seed=3), "z_loss": 0.1, "label_smoothing": 0.1, "softcap": 5.0, "block": 4}
    labels = jnp.zeros((3, 4), jnp.int32)
    every_mode(lambda x, w: kernels.cross_entropy(x, w, labels, **words), x, draw(10, 6, seed=2))


def test_faces() -> None:
    x, w = xp.asarray(draw(3, 4, 6)), xp.asarray(draw(6, seed=1))
    assert nn.layer_norm(x, w, w).shape == nn.rms_norm(x, w).shape == (3, 4, 6)
    assert nn.linear(x, xp.asarray(draw(2, 6)), xp.asarray(draw(2))).shape == (3, 4, 2)
    channels = xp.asarray(draw(4))
    assert nn.group_norm(x, 2, channels, channels).shape == nn.batch_norm(x, channels, channels**2).shape == (3, 4, 6)
    assert nn.prelu(x, channels).shape == (3, 4, 6)
    query, key, value = (xp.asarray(a) for a in (Q, KEY, VALUE))
    lengths = {name: xp.asarray(a) for name, a in LENGTHS.items()}
    nn.attention(query, key, value, bias=xp.asarray(BIAS), sinks=xp.asarray(SINKS), window=(2, 1), **lengths)
    nn.attention(query, key, value, mask=xp.asarray(draw(S)), bias=xp.asarray(BIAS))
    nn.decode_attention(query, key, value, window=(2, 0), softcap=2.0, **lengths)
