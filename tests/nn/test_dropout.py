"""Dropout: what is kept, keys and the global generator, gradients, transforms."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors, nn, ops
from rtx_jax.core import random as core_random

KEY = xp.random.key(3)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_what_is_kept_is_scaled(dtype: str) -> None:
    x = xp.asarray(np.linspace(1, 2, 1000), dtype=getattr(xp, dtype))
    got = nn.dropout(x, 0.25, key=KEY)
    assert got.dtype == x.dtype
    kept = np.asarray(got) != 0
    # One rounding of x / 0.75.
    want = (np.asarray(x).astype(np.float64) / 0.75).astype(x.dtype)
    np.testing.assert_allclose(np.asarray(got)[kept].astype(np.float64), want[kept].astype(np.float64), rtol=2e-7)
    assert abs(kept.mean() - 0.75) < 5 * np.sqrt(0.75 * 0.25 / 1000)


def test_the_mask_does_not_depend_on_the_dtype_or_the_face() -> None:
    ones = [xp.ones((64,), dtype=dtype) for dtype in (xp.float32, xp.bfloat16, xp.float64)]
    masks = [np.asarray(nn.dropout(x, key=KEY)) != 0 for x in ones]
    np.testing.assert_array_equal(masks[0], masks[1])
    np.testing.assert_array_equal(masks[0], masks[2])
    raw = jax.jit(ops.dropout)(jnp.ones(64, jnp.float32), KEY)
    np.testing.assert_array_equal(np.asarray(raw) != 0, masks[0])


def test_the_ends_of_p() -> None:
    x = xp.asarray([1.0, -2.0, np.nan, np.inf])
    np.testing.assert_array_equal(np.asarray(nn.dropout(x, 0.0, key=KEY)), np.asarray(x))
    np.testing.assert_array_equal(np.asarray(nn.dropout(x, 1.0, key=KEY)), np.zeros(4))
    same = nn.dropout(x, 0.5, training=False)
    same[0] = 9.0
    assert float(x[0]) == 1.0
    bad = np.asarray(nn.dropout(xp.full((1000,), np.nan), 0.5, key=KEY))
    assert (bad == 0).any() and np.isnan(bad).any()


def test_keys_and_generators() -> None:
    x = xp.ones((64,))
    keys = (xp.random.key(1), jax.random.key(1), np.array([0, 1], np.uint32))
    same = [np.asarray(nn.dropout(x, key=key)) for key in keys]
    np.testing.assert_array_equal(same[0], same[1])
    np.testing.assert_array_equal(same[0], same[2])
    assert (same[0] != np.asarray(nn.dropout(x, key=xp.random.key(2)))).any()
    first, second = (xp.random.default_rng(5) for _ in range(2))
    np.testing.assert_array_equal(np.asarray(nn.dropout(x, key=first)), np.asarray(nn.dropout(x, key=second)))
    assert (np.asarray(nn.dropout(x, key=first)) != np.asarray(nn.dropout(x, key=first))).any()


def test_the_global_generator_under_transforms() -> None:
    x = xp.ones((64,))
    xp.random.seed(0)
    step = xp.jit(lambda x: nn.dropout(x))
    a, b = np.asarray(step(x)), np.asarray(step(x))
    assert (a != b).any()
    xp.random.seed(0)
    np.testing.assert_array_equal(np.asarray(step(x)), a)
    rows = np.asarray(xp.vmap(nn.dropout)(xp.ones((2, 64))))
    assert (rows[0] != rows[1]).any()
    # The recomputation of checkpoint draws what the forward pass drew.
    value, slope = xp.value_and_grad(lambda x: xp.sum(xp.checkpoint(lambda x: nn.dropout(x) ** 2)(x)))(x)
    assert float(value) == float(xp.sum(slope)) / 2


def test_the_first_draw_of_a_process_may_be_in_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_random.global_stream, "_stream", None)
    step = xp.jit(lambda x: nn.dropout(x))
    x = xp.ones((64,))
    assert (np.asarray(step(x)) != np.asarray(step(x))).any()


def test_gradients_are_those_of_the_mask() -> None:
    x = xp.asarray(np.linspace(1, 2, 16))
    slope = xp.grad(lambda x: xp.sum(nn.dropout(x, 0.25, key=KEY)))(x)
    kept = np.asarray(nn.dropout(x, 0.25, key=KEY)) != 0
    np.testing.assert_allclose(np.asarray(slope), np.where(kept, 1 / 0.75, 0))


def test_plain_jax_needs_a_key() -> None:
    with pytest.raises(errors.RngUnderTrace, match="key="):
        jax.jit(lambda x: nn.dropout(xp.asarray(x)).jax)(jnp.ones(3))
    got = jax.jit(lambda x, key: nn.dropout(xp.asarray(x), key=key).jax)(jnp.ones(64, jnp.float32), KEY)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(nn.dropout(xp.ones((64,), dtype=xp.float32), key=KEY)))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: nn.dropout(xp.ones(3), 1.5), errors.InvalidArgument),
        (lambda: nn.dropout(xp.ones(3), -0.1), errors.InvalidArgument),
        (lambda: nn.dropout(xp.ones(3), float("nan")), errors.InvalidArgument),
        (lambda: nn.dropout(xp.asarray([1, 2])), errors.UnsupportedDType),
        (lambda: nn.dropout(xp.ones(3), key=np.zeros(3)), errors.InvalidArgument),
    ],
)
def test_bad_input(call: Callable[[], object], error: type[errors.RtxError]) -> None:
    with pytest.raises(error):
        call()
