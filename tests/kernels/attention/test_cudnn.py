"""What is said to cuDNN and made of its answer, with a stand-in that leaves garbage where cuDNN promises nothing."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rtx_jax._compat import CudnnCall
from rtx_jax.kernels.attention import cudnn
from rtx_jax.kernels.attention.spec import AttentionSpec, Gradients, Operands
from rtx_jax.kernels.target import Target
from tests.kernels.attention.dense import Exact, attend, random_operands, seen_keys

HOPPER = Target("cuda", "NVIDIA H200", (9, 0))
AMPERE = Target("cuda", "NVIDIA A100", (8, 0))
F16 = np.dtype(np.float16)
BASE = AttentionSpec(2, 38, 38, 4, 2, 8, 8, F16, scale=0.35)

CASES: dict[str, dict[str, Any]] = {
    "full": {},
    "causal": {"window": (None, 0)},
    "causal, more keys": {"window": (None, 0), "keys": 50},
    "causal, more queries": {"window": (None, 0), "queries": 50},
    "window": {"window": (5, 0), "layout": "BNTH"},
    "lengths": {"query_lengths": True, "key_lengths": True, "layout": "BNTH"},
    "causal, lengths": {"query_lengths": True, "key_lengths": True, "window": (None, 0)},
    "key lengths": {"key_lengths": True},
    "mask": {"mask": (2, 1, 38, 38)},
    "causal mask of keys": {"mask": (1, 1, 1, 38), "window": (None, 0)},
    "bias": {"bias": (2, 4, 38, 38), "bias_dtype": F16},
    "bias of heads, mask": {"bias": (1, 4, 1, 38), "bias_dtype": F16, "mask": (2, 1, 38, 38)},
}


def numbers(x: Any) -> np.ndarray:
    return np.asarray(x, np.float64)


class StandIn:
    """cuDNN's attention by NumPy: a top-left diagonal, a finite bias, NaN in rows and keys past their lengths."""

    def exact(self, q: Any, k: Any, v: Any, bias: Any, lengths: Any, call: CudnnCall, d_out: Any, d_lse: Any) -> Exact:
        t, n = (1, 2) if call.layout == "BTNH" else (2, 1)
        spec = AttentionSpec(
            q.shape[0], q.shape[t], k.shape[t], q.shape[n], k.shape[n], q.shape[3], v.shape[3], F16, call.layout,
            scale=call.scale,
            window=(None if call.window is None else call.window - 1, 0 if call.causal else None),
            bias=None if bias is None else bias.shape,
        )  # fmt: skip
        operands = Operands(numbers(q), numbers(k), numbers(v))
        if bias is not None:
            assert np.isfinite(numbers(bias)).all()
            operands = operands._replace(bias=numbers(bias))
        if lengths is not None:
            operands = operands._replace(query_lengths=np.asarray(lengths[0]), key_lengths=np.asarray(lengths[1]))
        return attend(spec, operands, d_out, d_lse)

    def cudnn_attention(
        self, q: Any, k: Any, v: Any, bias: Any, lengths: Any, call: CudnnCall
    ) -> tuple[jax.Array, jax.Array]:
        shape = (*q.shape[:3], v.shape[3])
        n, t = (q.shape[2], q.shape[1]) if call.layout == "BTNH" else (q.shape[1], q.shape[2])
        found = self.exact(q, k, v, bias, lengths, call, np.zeros(shape), np.zeros((q.shape[0], n, t)))
        empty = np.isneginf(found.lse)
        by_row = (empty.swapaxes(1, 2) if call.layout == "BTNH" else empty)[..., None]
        return jnp.asarray(np.where(by_row, np.nan, found.out), q.dtype), jnp.asarray(
            np.where(empty, np.nan, found.lse), np.float32
        )

    def cudnn_attention_gradients(
        self, q: Any, k: Any, v: Any, bias: Any, lengths: Any, out: Any, lse: Any, d_out: Any, call: CudnnCall,
        *, bias_gradient: bool,
    ) -> list[jax.Array]:  # fmt: skip
        for x in (q, k, v, out, d_out):
            assert np.isfinite(numbers(x)).all()
        found = self.exact(q, k, v, bias, lengths, call, numbers(d_out), np.zeros(lse.shape))
        results = [found.query, found.key, found.value, *([found.bias] if bias_gradient else [])]
        if lengths is not None:
            at = 1 if call.layout == "BTNH" else 2
            for i, x, n in ((0, q, lengths[0]), (1, k, lengths[1]), (2, v, lengths[1])):
                past = np.arange(x.shape[at]) >= np.asarray(n)[:, None]
                results[i] = np.where(past[:, :, None, None] if at == 1 else past[:, None, :, None], np.nan, results[i])
        return [jnp.asarray(x, q.dtype) for x in results]


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cudnn_attention", "cudnn_attention_gradients"):
        monkeypatch.setattr(cudnn, name, getattr(StandIn(), name))


def made(spec: AttentionSpec) -> tuple[Operands, np.ndarray]:
    rng = np.random.default_rng(0)
    operands = random_operands(spec, rng)
    if spec.key_lengths:
        operands = operands._replace(key_lengths=np.asarray([0, 20]))
    if spec.mask is not None:
        # A query that sees nothing, and a key that nobody sees.
        mask = operands.mask.copy()
        mask[0, :, 3 % mask.shape[2]] &= spec.mask[2] == 1
        mask[..., 7] = False
        operands = operands._replace(mask=mask)
    cast = Operands(*(None if x is None else jnp.asarray(x, F16 if x.dtype.kind == "f" else None) for x in operands))
    return cast, rng.standard_normal((*operands.query.shape[:3], spec.value_size)).astype(F16)


def run(spec: AttentionSpec, operands: Operands, d_out: np.ndarray) -> tuple[jax.Array, jax.Array, Gradients]:
    out, lse = cudnn.forward(spec, operands)
    bias = spec.bias is not None
    return out, lse, cudnn._backward(spec, operands, out, lse, jnp.asarray(d_out), jnp.zeros_like(lse), bias=bias)


@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients(name: str) -> None:
    spec = dataclasses.replace(BASE, **CASES[name])
    assert cudnn.unsupported(spec, HOPPER) == []
    operands, d_out = made(spec)
    out, lse, gradients = run(spec, operands, d_out)
    want = attend(spec, operands, d_out, np.zeros(lse.shape))
    assert out.dtype == spec.dtype and lse.dtype == np.float32
    np.testing.assert_allclose(lse, want.lse, atol=1e-5)
    np.testing.assert_allclose(numbers(out), want.out, atol=2e-3)
    for part in ("query", "key", "value", *(["bias"] if spec.bias is not None else [])):
        # All is rounded to 11 bits.
        np.testing.assert_allclose(numbers(getattr(gradients, part)), getattr(want, part), atol=1e-2, err_msg=part)


@pytest.mark.parametrize("name", ["lengths", "causal, lengths", "causal, more keys", "mask"])
def test_what_nobody_sees_may_hold_anything(name: str) -> None:
    spec = dataclasses.replace(BASE, **CASES[name])
    operands, d_out = made(spec)
    unseen = jnp.asarray(~seen_keys(spec, operands).any((1, 2)))
    assert unseen.any()
    unseen = unseen[:, :, None, None] if spec.layout == "BTNH" else unseen[:, None, :, None]
    poisoned = operands._replace(
        key=jnp.where(unseen, jnp.nan, operands.key), value=jnp.where(unseen, jnp.inf, operands.value)
    )
    for got, want in zip(
        jax.tree.leaves(run(spec, poisoned, d_out)), jax.tree.leaves(run(spec, operands, d_out)), strict=True
    ):
        np.testing.assert_array_equal(got, want)


def test_a_cotangent_of_the_statistic_is_left_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    operands, d_out = made(BASE)
    out, lse = cudnn.forward(BASE, operands)

    def other(*given: Any, bias: bool) -> Gradients:
        del bias
        return Gradients(*(jnp.full_like(x, 7) for x in given[1][:3]))

    monkeypatch.setattr(cudnn.pallas_triton, "backward", other)
    monkeypatch.setattr(cudnn, "_backward", lambda spec, *given, bias: Gradients(*given[0][:3]))
    zero = jnp.zeros_like(lse)
    assert (cudnn.backward(BASE, operands, out, lse, d_out, zero).key == operands.key).all()
    assert (cudnn.backward(BASE, operands, out, lse, d_out, zero.at[0, 0, 0].set(1)).key == 7).all()


@pytest.mark.parametrize(
    ("change", "target", "reason"),
    [
        ({}, Target("rocm", "gfx942"), "cuDNN is for cuda, not for rocm"),
        ({}, Target("cuda", "Tesla T4", (7, 5)), "compute capability 8.0 or newer, this device has 7.5"),
        ({"dtype": np.dtype(np.float32)}, HOPPER, "dtype float32"),
        ({"size": 136, "value_size": 136}, HOPPER, ""),
        ({"size": 136}, HOPPER, ""),
        ({"size": 12, "value_size": 12}, HOPPER, "head size 12: multiples of 8 up to 256"),
        ({"value_size": 16}, AMPERE, "value heads of another size need compute capability 9.0"),
        ({"segments": True}, HOPPER, "segment_ids"),
        ({"window": (3, 2)}, HOPPER, "window (3, 2)"),
        ({"window": (3, None)}, HOPPER, "window (3, None)"),
        ({"window": (None, 0), "q_offset": 4}, HOPPER, "q_offset 4"),
        ({"window": (None, 0), "q_offset": None}, HOPPER, "q_offset traced"),
        ({"window": (3, 0), "queries": 60}, HOPPER, "more queries than keys"),
        ({"window": (3, 0), "key_lengths": True}, HOPPER, "window with lengths"),
        ({"mask": (1, 1, 1, 38), "key_lengths": True}, HOPPER, "mask with lengths"),
        ({"softcap": 30.0}, HOPPER, "softcap"),
        ({"sinks_dtype": F16}, HOPPER, "sinks"),
        ({"bias": (1, 1, 1, 38), "bias_dtype": np.dtype(np.float32)}, HOPPER, "bias of dtype float32"),
        ({"mask": (1, 1, 1, 37), "keys": 37}, HOPPER, "odd length"),
        ({"nan_safe": True}, HOPPER, "nan_safe"),
        ({"keys": 0}, HOPPER, "an axis has no elements"),
    ],
)
def test_what_it_cannot_do_has_a_reason(change: dict[str, Any], target: Target, reason: str) -> None:
    found = "; ".join(cudnn.unsupported(dataclasses.replace(BASE, **change), target))
    assert reason in found if reason else found == ""


def test_every_reason_is_told() -> None:
    spec = dataclasses.replace(BASE, size=264, value_size=264, softcap=3.0, segments=True)
    found = cudnn.unsupported(spec, HOPPER)
    assert len(found) == 4
