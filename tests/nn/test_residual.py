"""Norms of a residual sum on Arrays, against the formula in float64."""

from __future__ import annotations

import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import nn
from rtx_jax.errors import DTypeMismatch, ShapeMismatch

RNG = np.random.default_rng(0)
X, R = RNG.standard_normal((2, 2, 3, 6))
W, B = RNG.standard_normal((2, 6))


def arrays(dtype: object) -> list[xp.Array]:
    return [xp.asarray(x, dtype=dtype) for x in (X, R, W, B)]


def test_the_norm_of_the_sum_and_the_sum() -> None:
    x, residual, weight, bias = arrays(xp.float64)
    total = X + R
    normed, summed = nn.rms_norm(x, weight, residual=residual, eps=0.0)
    np.testing.assert_allclose(np.asarray(normed), total / np.sqrt((total**2).mean(-1, keepdims=True)) * W, rtol=1e-13)
    np.testing.assert_array_equal(np.asarray(summed), total)
    normed, summed = nn.layer_norm(x, weight, bias, residual=residual, eps=0.0)
    centred = total - total.mean(-1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(-1, keepdims=True)) * W + B
    np.testing.assert_allclose(np.asarray(normed), want, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(np.asarray(summed), total)


def test_the_gradient_has_both_ways() -> None:
    x, residual, weight, _ = arrays(xp.float64)

    def fused(x: xp.Array, residual: xp.Array) -> xp.Array:
        normed, total = nn.rms_norm(x, weight, residual=residual)
        return xp.sum(xp.sin(normed)) + xp.sum(total**3)

    def apart(x: xp.Array, residual: xp.Array) -> xp.Array:
        total = x + residual
        normed = total / xp.sqrt(xp.mean(total**2, axis=-1, keepdims=True) + 1e-6) * weight
        return xp.sum(xp.sin(normed)) + xp.sum(total**3)

    for got, want in zip(*(xp.jit(xp.grad(f, argnums=(0, 1)))(x, residual) for f in (fused, apart)), strict=True):
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-12, atol=1e-13)


def test_refusals() -> None:
    x, residual, *_ = arrays(xp.float32)
    for name in ("rms_norm", "layer_norm"):
        with pytest.raises(ShapeMismatch, match=f"{name}: argument residual: "):
            getattr(nn, name)(x, residual=residual[0])
        with pytest.raises(DTypeMismatch, match=f"{name}: argument residual: "):
            getattr(nn, name)(x, residual=xp.asarray(R))
