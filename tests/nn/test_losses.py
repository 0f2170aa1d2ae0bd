"""`cross_entropy` on Arrays, against the formula in float64."""

from __future__ import annotations

import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import nn
from rtx_jax.errors import DTypeMismatch, InvalidArgument, ShapeMismatch, UnsupportedDType

B, T, D, V = 2, 5, 6, 11
RNG = np.random.default_rng(0)
HIDDEN, WEIGHT, BIAS = RNG.standard_normal((B, T, D)), RNG.standard_normal((V, D)), RNG.standard_normal(V)
LABELS = RNG.integers(0, V, (B, T))
LABELS[1, 3:] = -100


def formula(smoothing: float = 0.0, z_loss: float = 0.0, cap: float | None = None) -> np.ndarray:
    """The loss of each token."""
    logits = HIDDEN @ WEIGHT.T + BIAS
    logits = logits if cap is None else cap * np.tanh(logits / cap)
    lse = np.log(np.exp(logits).sum(-1))
    chosen = np.take_along_axis(logits, np.maximum(LABELS, 0)[..., None], -1)[..., 0]
    loss = lse - (1 - smoothing) * chosen - smoothing * logits.mean(-1) + z_loss * lse**2
    return np.where(LABELS == -100, 0, loss)


def arrays(dtype: object = xp.float64) -> tuple[xp.Array, ...]:
    return tuple(xp.asarray(x, dtype=dtype) for x in (HIDDEN, WEIGHT, BIAS))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_reductions(dtype: str) -> None:
    hidden, weight, bias = arrays(getattr(xp, dtype))
    labels, bound = xp.asarray(LABELS), 1e-12 if dtype == "float64" else 2e-6
    want = formula(0.1, 0.01, 3.0)
    options = {"bias": bias, "label_smoothing": 0.1, "z_loss": 0.01, "softcap": 3.0, "block": 4}
    for reduction, right in (("none", want), ("sum", want.sum()), ("mean", want.sum() / (LABELS != -100).sum())):
        loss = nn.cross_entropy(hidden, weight, labels, reduction=reduction, **options)  # type: ignore[arg-type]
        assert isinstance(loss, xp.Array) and loss.dtype == getattr(xp, dtype)
        np.testing.assert_allclose(np.asarray(loss), right, rtol=bound, atol=bound)


def test_gradients_are_those_of_whole_logits() -> None:
    labels, counts = xp.asarray(LABELS), LABELS != -100

    def loss(hidden: xp.Array, weight: xp.Array, bias: xp.Array) -> xp.Array:
        return nn.cross_entropy(hidden, weight, labels, bias=bias)

    found = xp.jit(xp.grad(loss, argnums=(0, 1, 2)))(*arrays())
    logits = HIDDEN @ WEIGHT.T + BIAS
    slope = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True) - np.eye(V)[np.maximum(LABELS, 0)]
    slope *= counts[..., None] / counts.sum()
    want = slope @ WEIGHT, np.einsum("btv,btd->vd", slope, HIDDEN), slope.sum((0, 1))
    for got, right in zip(found, want, strict=True):
        np.testing.assert_allclose(np.asarray(got), right, rtol=1e-12, atol=1e-14)


def test_refusals() -> None:
    hidden, weight, bias = arrays(xp.float32)
    labels = xp.asarray(LABELS)
    for error, argument, call in (
        (ShapeMismatch, "labels", lambda: nn.cross_entropy(hidden, weight, labels[0])),
        (ShapeMismatch, "bias", lambda: nn.cross_entropy(hidden, weight, labels, bias=bias[1:])),
        (DTypeMismatch, "weight", lambda: nn.cross_entropy(hidden, xp.asarray(WEIGHT), labels)),
        (UnsupportedDType, "labels", lambda: nn.cross_entropy(hidden, weight, hidden[..., 0])),
        (InvalidArgument, "reduction", lambda: nn.cross_entropy(hidden, weight, labels, reduction="max")),
        (InvalidArgument, "block", lambda: nn.cross_entropy(hidden, weight, labels, block=0)),
    ):
        with pytest.raises(error, match=f"cross_entropy: argument {argument}: "):
            call()
