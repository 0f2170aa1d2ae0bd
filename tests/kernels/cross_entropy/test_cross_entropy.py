"""Cross-entropy from hidden states, against the float64 formula on whole logits."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from rtx_jax import errors
from rtx_jax.kernels.cross_entropy import cross_entropy
from tests.kernels.modes import assert_same_modes

RNG = np.random.default_rng(0)
BF16 = np.dtype(ml_dtypes.bfloat16)
TOKENS, SIZE, WORDS = 7, 5, 129
LABELS = np.array([1, 128, -100, 3, 0, 70, -100])


def data(dtype: object = np.float32) -> list[jax.Array]:
    """hidden, weight, bias."""
    return [jnp.asarray(RNG.standard_normal(s), dtype) for s in ((TOKENS, SIZE), (WORDS, SIZE), (WORDS,))]


def exact(
    hidden: object, weight: object, bias: object, *, smoothing: float, z_loss: float, softcap: float | None
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Losses of the tokens, and the gradients of their mean, in float64 and with the logits as a whole."""
    h, w, b = (np.asarray(x, np.float64) for x in (hidden, weight, bias))
    raw = h @ w.T + b
    logits = raw if softcap is None else softcap * np.tanh(raw / softcap)
    top = logits.max(1, keepdims=True)
    lse = (top + np.log(np.exp(logits - top).sum(1, keepdims=True)))[:, 0]
    counts = LABELS != -100
    target = np.full_like(logits, smoothing / WORDS)
    target[np.arange(TOKENS)[counts], LABELS[counts]] += 1 - smoothing
    losses = np.where(counts, lse - (target * logits).sum(1) + z_loss * lse**2, 0)
    slope = np.exp(logits - lse[:, None]) * (1 + 2 * z_loss * lse[:, None]) - target
    if softcap is not None:
        slope *= 1 - (logits / softcap) ** 2
    slope *= counts[:, None] / counts.sum()
    return losses, [slope @ w, slope.T @ h, slope.sum(0)]


@pytest.mark.parametrize(
    ("smoothing", "z_loss", "softcap", "block"),
    [(0.0, 0.0, None, None), (0.1, 0.0, None, 64), (0.0, 0.01, 3.0, 50), (0.2, 0.02, 2.0, 129), (0.0, 0.0, None, 1)],
)
def test_values_and_gradients(smoothing: float, z_loss: float, softcap: float | None, block: int | None) -> None:
    operands = data()
    fn = functools.partial(cross_entropy, label_smoothing=smoothing, z_loss=z_loss, softcap=softcap, block=block)

    @jax.jit
    def run(h: jax.Array, w: jax.Array, b: jax.Array) -> tuple[object, ...]:
        mean = jax.value_and_grad(lambda h, w, b: fn(h, w, LABELS, bias=b), (0, 1, 2))(h, w, b)
        return *mean, fn(h, w, LABELS, bias=b, reduction="none"), fn(h, w, LABELS, bias=b, reduction="sum")

    mean, slopes, losses, total = run(*operands)
    want, gradients = exact(*operands, smoothing=smoothing, z_loss=z_loss, softcap=softcap)
    np.testing.assert_allclose(np.asarray(losses), want, rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(float(total), want.sum(), rtol=2e-6)
    np.testing.assert_allclose(float(mean), want.sum() / 5, rtol=2e-6)
    for got, exact_slope in zip(slopes, gradients, strict=True):
        np.testing.assert_allclose(np.asarray(got), exact_slope, atol=1e-6)


def test_bfloat16_is_multiplied_exactly_and_summed_in_float32() -> None:
    hidden, weight, _ = data(BF16)
    losses, gradients = exact(hidden, weight, np.zeros(WORDS), smoothing=0.0, z_loss=0.0, softcap=None)
    value, slopes = jax.value_and_grad(lambda h, w: cross_entropy(h, w, LABELS, block=40), (0, 1))(hidden, weight)
    assert value.dtype == jnp.float32 and slopes[0].dtype == slopes[1].dtype == BF16
    np.testing.assert_allclose(float(value), losses.sum() / 5, rtol=2e-6)
    for got, want in zip(slopes, gradients, strict=False):
        # The cotangents of the logits are rounded for the product, and the result.
        np.testing.assert_allclose(np.asarray(got, np.float64), want, atol=2.0**-7 * np.abs(want).max())


def test_extreme_logits() -> None:
    hidden = jnp.asarray([[1.0], [1.0], [3e4]], jnp.float32)
    weight = jnp.asarray([[1e4], [0.0], [-1e4]], jnp.float32)
    losses = cross_entropy(hidden, weight, np.array([0, 1, 0]), block=1, reduction="none")
    np.testing.assert_array_equal(np.asarray(losses), [0.0, 1e4, 0.0])
    slopes = jax.grad(lambda h: cross_entropy(h, weight, np.array([0, 1, 0]), block=1, reduction="sum"))(hidden)
    np.testing.assert_array_equal(np.asarray(slopes), [[0.0], [1e4], [0.0]])
    # Words that a bias hides, in a block of their own.
    bias = jnp.asarray([-np.inf, 0.0, 0.0], jnp.float32)
    hidden_word = cross_entropy(hidden[:1], weight * 0, np.array([1]), bias=bias, block=1)
    np.testing.assert_allclose(float(hidden_word), np.log(2), rtol=1e-6)


def test_ignored_tokens_may_hold_nan_and_other_labels_give_it() -> None:
    hidden, weight, _ = data()
    dirty = hidden.at[2].set(jnp.nan)
    fn = functools.partial(cross_entropy, block=64)
    clean, slopes = jax.value_and_grad(fn, (0, 1))(hidden, weight, LABELS)
    value, other = jax.value_and_grad(fn, (0, 1))(dirty, weight, LABELS)
    assert float(value) == float(clean)
    for a, b in zip(slopes, other, strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    losses = fn(hidden, weight, np.array([0, 129, -1, 3, 4, 5, -100]), ignore_index=None, reduction="none")
    np.testing.assert_array_equal(np.isnan(np.asarray(losses)), [False, True, True, False, False, False, True])
    assert np.isnan(float(fn(hidden, weight, np.full(TOKENS, -100))))


def test_every_mode_of_differentiation() -> None:
    labels = np.array([1, 6, -100, 3, 0, 5, -100])
    counts = labels != -100

    def fn(h: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
        return cross_entropy(h, w, labels, bias=b, label_smoothing=0.1, z_loss=0.01, softcap=2.0, block=3)

    def plain(h: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
        logits = 2 * jnp.tanh((h @ w.T + b) / 2)
        lse = jnp.log(jnp.exp(logits).sum(1))
        losses = lse - 0.9 * logits[np.arange(7), labels] - 0.1 * logits.mean(1) + 0.01 * lse**2
        return jnp.where(counts, losses, 0).sum() / counts.sum()

    assert_same_modes(fn, plain, [RNG.standard_normal(s) for s in ((7, 5), (7, 5), (7,))])


def test_batches() -> None:
    with jax.enable_x64(True):
        hidden, weight, _ = data(np.float64)
        both = jnp.stack([hidden, -hidden])
        labels = np.stack([LABELS, LABELS[::-1]])
        fn = functools.partial(cross_entropy, block=50)
        got = jax.vmap(jax.grad(fn, (0, 1)), (0, None, 0))(both, weight, labels)
        shared = jax.grad(lambda w: jnp.sum(jax.vmap(fn, (0, None, 0))(both, w, labels)))(weight)
        each = [jax.grad(fn, (0, 1))(both[i], weight, labels[i]) for i in range(2)]
        for k, i in itertools.product(range(2), range(2)):
            np.testing.assert_allclose(np.asarray(got[k][i]), np.asarray(each[i][k]), atol=1e-14)
        np.testing.assert_allclose(np.asarray(shared), np.asarray(each[0][1] + each[1][1]), atol=1e-14)


@pytest.mark.parametrize("direction", ["forward", "backward", "tangent", "second order"])
def test_the_logits_are_never_held(direction: str) -> None:
    tokens, words, size, block = 512, 8192, 16, 256
    hidden, weight = jax.ShapeDtypeStruct((tokens, size), np.float32), jax.ShapeDtypeStruct((words, size), np.float32)
    labels = jax.ShapeDtypeStruct((tokens,), np.int32)
    fn = functools.partial(cross_entropy, block=block)
    slope = jax.grad(fn, (0, 1))
    programs: dict[str, Callable[..., object]] = {
        "forward": fn,
        "backward": slope,
        "tangent": lambda h, w, y: jax.jvp(lambda h: fn(h, w, y), (h,), (h,)),
        "second order": lambda h, w, y: jax.grad(lambda h: jnp.sum(slope(h, w, y)[0] ** 2))(h),
    }
    compiled = jax.jit(programs[direction]).lower(hidden, weight, labels).compile()
    held = compiled.memory_analysis().temp_size_in_bytes
    assert held < tokens * words * 4 / 2  # half of the logits; a block is a 32nd part


def test_two_runs_are_equal_bit_by_bit() -> None:
    hidden, weight, _ = data()
    run = jax.jit(jax.grad(functools.partial(cross_entropy, block=40), (0, 1)))
    for a, b in zip(run(hidden, weight, LABELS), run(hidden, weight, LABELS), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"hidden": jnp.ones(())}, errors.InvalidDimension, "features"),
        ({"hidden": jnp.ones((2, 3), int)}, errors.UnsupportedDType, "hidden"),
        ({"weight": jnp.ones((4, 2))}, errors.ShapeMismatch, "weight"),
        ({"weight": jnp.ones((0, 3))}, errors.ShapeMismatch, "weight"),
        ({"weight": jnp.ones((4, 3), jnp.bfloat16)}, errors.DTypeMismatch, "weight"),
        ({"labels": jnp.ones((3,), int)}, errors.ShapeMismatch, "labels"),
        ({"labels": jnp.ones(2)}, errors.UnsupportedDType, "labels"),
        ({"bias": jnp.ones(3)}, errors.ShapeMismatch, "bias"),
        ({"ignore_index": 1.5}, errors.InvalidArgument, "ignore_index"),
        ({"label_smoothing": 1.5}, errors.InvalidArgument, "label_smoothing"),
        ({"z_loss": -1.0}, errors.InvalidArgument, "z_loss"),
        ({"softcap": 0.0}, errors.InvalidArgument, "softcap"),
        ({"reduction": "average"}, errors.InvalidArgument, "reduction"),
        ({"block": 0}, errors.InvalidArgument, "block"),
        ({"precision": "low"}, errors.InvalidArgument, "precision"),
    ],
    ids=lambda v: "-".join(v) if isinstance(v, dict) else "",
)
def test_refusals(change: dict[str, object], error: type[errors.RtxError], said: str) -> None:
    operands = {"hidden": jnp.ones((2, 3)), "weight": jnp.ones((4, 3)), "labels": jnp.ones(2, int)}
    with pytest.raises(error) as caught:
        cross_entropy(**(operands | change))  # type: ignore[arg-type]
    assert said in str(caught.value) and caught.value.operation == "cross_entropy"
