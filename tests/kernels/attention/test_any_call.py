"""Calls of any features and sizes give what the oracle gives, with their gradients."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rtx_jax._compat import x64
from rtx_jax.kernels.attention import flash_attention

F64 = np.dtype(np.float64)


@st.composite
def calls(draw: st.DrawFn) -> tuple[dict[str, tuple[int, ...]], dict[str, object], int]:
    """Return the shapes of floating operands, the other parameters, and a seed."""
    b = draw(st.integers(1, 3))
    t, s = (draw(st.one_of(st.integers(1, 40), st.sampled_from([1, 64, 300]))) for _ in "ts")
    k, group = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    n, h, v = k * group, draw(st.integers(1, 20)), draw(st.integers(1, 20))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    layout = draw(st.sampled_from(["BTNH", "BNTH"]))

    def heads(length: int, count: int, size: int) -> tuple[int, ...]:
        return (b, length, count, size) if layout == "BTNH" else (b, count, length, size)

    def pairs() -> tuple[int, ...]:
        full = (b, n, t, s)
        shape = tuple(size if draw(st.booleans()) else 1 for size in full)
        return shape[draw(st.integers(0, 3)) :] if shape[0] == 1 else shape

    shapes = {"query": heads(t, n, h), "key": heads(s, k, h), "value": heads(s, k, v)}
    side = st.one_of(st.none(), st.integers(0, 50))
    params: dict[str, object] = {
        "layout": layout,
        "causal": draw(st.booleans()),
        "window": (draw(side), draw(side)),
        "softcap": draw(st.sampled_from([None, 1.5])),
        "scale": draw(st.sampled_from([None, 0.3])),
        "nan_safe": draw(st.booleans()),
    }
    if draw(st.booleans()):
        shapes["bias"] = pairs()
    if draw(st.booleans()):
        shapes["sinks"] = (n,)
    if draw(st.booleans()):
        params["mask"] = jnp.asarray(rng.random(pairs()) < 0.7)
    if draw(st.booleans()):
        params["segment_ids"] = tuple(jnp.asarray(rng.integers(0, 3, (b, size)), np.int32) for size in (t, s))
    for name, size in (("query_lengths", t), ("key_lengths", s)):
        if draw(st.booleans()):
            params[name] = jnp.asarray(rng.integers(0, size + 1, b), np.int32)
    offset = draw(st.sampled_from(["none", "static", "array"]))
    if offset != "none":
        value = draw(st.integers(-5, s))
        params["q_offset"] = value if offset == "static" else jnp.asarray(value, np.int32)
    return shapes, params, draw(st.integers(0, 2**31))


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(calls())
def test_any_call(call: tuple[dict[str, tuple[int, ...]], dict[str, object], int]) -> None:
    shapes, params, seed = call
    rng = np.random.default_rng(seed)
    with x64():
        operands = {name: jnp.asarray(rng.standard_normal(shape)) for name, shape in shapes.items()}
        seeds = jax.tree.map(
            lambda x: jnp.asarray(rng.standard_normal(x.shape)),
            jax.eval_shape(functools.partial(_run, params), operands),
        )
        found = {
            word: jax.jit(
                jax.value_and_grad(functools.partial(_loss, {**params, "implementation": word}, seeds), has_aux=True)
            )(operands)
            for word in ("xla", "reference")
        }
    for a, b in zip(*(jax.tree.leaves(x) for x in found.values()), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def _run(params: dict[str, object], operands: dict[str, jax.Array]) -> tuple[jax.Array, ...]:
    rest = dict(operands)
    found = flash_attention(
        rest.pop("query"),
        rest.pop("key"),
        rest.pop("value"),
        **rest,
        **params,  # type: ignore[arg-type]
        return_lse=True,
        return_entropy=True,
        column_scores=3,
    )
    assert isinstance(found, tuple)
    return found


def _loss(
    params: dict[str, object], seeds: tuple[jax.Array, ...], operands: dict[str, jax.Array]
) -> tuple[jax.Array, object]:
    found = _run(params, operands)
    sums = [jnp.sum(jnp.where(jnp.isinf(x), 0, x) * seed) for x, seed in zip(found, seeds, strict=True)]
    return sum(sums, jnp.zeros(())), found
