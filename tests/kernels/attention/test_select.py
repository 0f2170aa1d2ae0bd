"""Which implementation is taken, what is said of the others, and when."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from rtx_jax._compat import JAX_VERSION
from rtx_jax.errors import BackendLimitation, FallbackWarning, InvalidArgument
from rtx_jax.kernels import choice
from rtx_jax.kernels.attention import (
    IMPLEMENTATIONS,
    AttentionSpec,
    Operands,
    Target,
    explain,
    flash_attention,
    select,
)
from rtx_jax.kernels.target import target_of

BF16 = np.dtype(ml_dtypes.bfloat16)
SPEC = AttentionSpec(1, 128, 128, 4, 4, 64, 64, BF16, scale=0.125, window=(None, 0))
BIASED = replace(SPEC, bias=(1, 1, 128, 128), bias_dtype=BF16)
HOPPER = Target("cuda", "NVIDIA H200", (9, 0))
AMPERE = Target("cuda", "NVIDIA A100-SXM4-40GB", (8, 0))


@pytest.mark.parametrize(
    ("target", "spec", "want"),
    [
        (Target("cpu"), SPEC, ["xla"]),
        (Target("METAL"), SPEC, ["xla"]),
        (Target(""), SPEC, ["xla"]),
        (HOPPER, SPEC, ["cudnn", "pallas_mosaic_gpu", "pallas_triton", "xla"]),
        (HOPPER, BIASED, ["pallas_mosaic_gpu", "pallas_triton", "cudnn", "xla"]),
        (HOPPER, replace(SPEC, value_size=128), ["pallas_mosaic_gpu", "pallas_triton", "cudnn", "xla"]),
        (AMPERE, SPEC, ["cudnn", "pallas_triton", "xla"]),
        (AMPERE, replace(SPEC, mask=(1, 1, 128, 128)), ["pallas_triton", "cudnn", "xla"]),
        (Target("cuda", "Tesla T4", (7, 5)), SPEC, ["pallas_triton", "xla"]),
        (Target("rocm", "gfx942"), SPEC, ["pallas_triton", "xla"]),
        (Target("tpu", "TPU v5 lite"), SPEC, ["pallas_tpu", "xla"]),
    ],
    ids=lambda x: x.kind or x.platform if isinstance(x, Target) else "",
)
def test_the_table(target: Target, spec: AttentionSpec, want: list[str]) -> None:
    assert list(select.order(spec, target)) == want
    reasons = explain(spec, target)
    assert list(reasons) == want and reasons["xla"] == []


@pytest.mark.parametrize(
    ("kind", "capability"),
    [
        ("NVIDIA H200", (9, 0)),
        ("NVIDIA H100 80GB HBM3", (9, 0)),
        ("NVIDIA GH200 480GB", (9, 0)),
        ("NVIDIA A100-SXM4-40GB", (8, 0)),
        ("NVIDIA A10G", (8, 6)),
        ("NVIDIA L4", (8, 9)),
        ("NVIDIA L40S", (8, 9)),
        ("NVIDIA GeForce RTX 3090", (8, 6)),
        ("NVIDIA GeForce RTX 4090", (8, 9)),
        ("NVIDIA GeForce RTX 5090", (12, 0)),
        ("Tesla T4", (7, 5)),
        ("NVIDIA B200", (10, 0)),
        ("a card of tomorrow", None),
    ],
)
def test_the_compute_capability_that_a_name_tells(kind: str, capability: tuple[int, int] | None) -> None:
    assert target_of("cuda", kind).capability == capability
    assert target_of("cuda", kind, (9, 0)).capability == (9, 0)


def test_each_word_is_a_module_of_that_name() -> None:
    assert [select.module(word).NAME for word in IMPLEMENTATIONS] == list(IMPLEMENTATIONS)


def test_auto_takes_the_first_that_can() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert select.choose(BIASED, AMPERE)[0].NAME == "pallas_triton"
        assert select.choose(SPEC, Target("cpu"))[0].NAME == "xla"


@pytest.mark.skipif(JAX_VERSION < (0, 12), reason="Pallas on Mosaic GPU has another form before JAX 0.12")
def test_what_a_kernel_has_beside_the_result_decides() -> None:
    assert select.choose(SPEC, HOPPER)[0].NAME == "cudnn"
    assert select.choose(SPEC, HOPPER, offering="ENTROPY")[0].NAME == "pallas_mosaic_gpu"
    assert select.choose(SPEC, HOPPER, offering="column_scores")[0].NAME == "pallas_mosaic_gpu"
    assert select.choose(SPEC, AMPERE, offering="ENTROPY")[0].NAME == "cudnn"


def test_one_notice_where_no_kernel_can() -> None:
    spec = replace(SPEC, dtype=np.dtype(np.float64))
    choice._notice.cache_clear()
    with pytest.warns(FallbackWarning, match="pallas_triton: .*float64") as caught:
        assert select.choose(spec, AMPERE)[0].NAME == "xla"
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert select.choose(spec, AMPERE)[0].NAME == "xla"
    assert list(explain(spec, AMPERE)["xla"]) == []


def test_nan_safe_is_given_up_only_where_it_may_be() -> None:
    spec = replace(BIASED, nan_safe=True)
    chosen, taken = select.choose(spec, AMPERE, relaxed=True)
    assert chosen.NAME == "pallas_triton" and not taken.nan_safe
    with pytest.warns(FallbackWarning, match="nan_safe"):
        chosen, taken = select.choose(spec, AMPERE)
    assert chosen.NAME == "xla" and taken.nan_safe
    chosen, taken = select.choose(spec, Target("cpu"), relaxed=True)
    assert chosen.NAME == "xla" and taken.nan_safe


def test_a_kernel_cannot_be_divided_by_xla() -> None:
    with pytest.raises(BackendLimitation, match="shard_map"):
        select.choose(BIASED, AMPERE, "pallas_triton", partitioned=True)
    assert select.choose(BIASED, AMPERE, "pallas_triton")[0].NAME == "pallas_triton"


@pytest.mark.parametrize("word", ["pallas_triton", "pallas_mosaic_gpu", "pallas_tpu", "cudnn"])
def test_what_is_forced_and_cannot_is_refused_with_every_reason(word: str) -> None:
    x = jnp.ones((1, 4, 2, 8), jnp.float16)
    with pytest.raises(BackendLimitation) as caught:
        flash_attention(x, x, x, implementation=word)
    error = caught.value
    reasons = select.module(word).unsupported(
        AttentionSpec(1, 4, 4, 2, 2, 8, 8, np.dtype(np.float16), scale=8**-0.5), Target("cpu", "cpu")
    )
    assert reasons and all(reason in str(error) for reason in reasons)
    assert error.backend == word and isinstance(error, NotImplementedError)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    # Under jit it is raised when the program is made, and auto runs.
    with pytest.raises(BackendLimitation):
        jax.jit(lambda x: flash_attention(x, x, x, implementation=word))(x)
    assert flash_attention(x, x, x).shape == x.shape


def test_all_reasons_are_listed() -> None:
    spec = replace(SPEC, dtype=np.dtype(np.float64), size=512, value_size=512)
    with pytest.raises(BackendLimitation) as caught:
        select.choose(spec, Target("tpu", "TPU v5 lite"), "pallas_triton")
    assert all(word in str(caught.value) for word in ("tpu", "float64", "512"))


@pytest.mark.parametrize("word", ["", "XLA", "flash", None, 3])
def test_unknown_words(word: object) -> None:
    x = jnp.ones((1, 4, 2, 8))
    with pytest.raises(InvalidArgument, match="'pallas_tpu'"):
        flash_attention(x, x, x, implementation=word)  # type: ignore[arg-type]


def test_numbers_of_eight_bits_need_hardware() -> None:
    x = jnp.ones((1, 4, 2, 16), jnp.float8_e4m3fn)
    with pytest.raises(BackendLimitation, match="float8_e4m3fn"):
        flash_attention(x, x, x)
    spec = replace(SPEC, dtype=np.dtype(ml_dtypes.float8_e4m3fn))
    with pytest.raises(BackendLimitation, match="8-bit"):
        select.choose(spec, AMPERE)
    assert select.choose(spec, Target("cuda", "NVIDIA L4", (8, 9)), "xla")[0].NAME == "xla"


def test_the_reference_can_be_asked_for() -> None:
    x = jnp.asarray(np.random.default_rng(0).standard_normal((1, 5, 2, 4)), jnp.float32)
    text = {
        word: jax.jit(lambda x, w=word: flash_attention(x, x, x, implementation=w)).lower(x).as_text()
        for word in ("reference", "xla")
    }
    assert text["reference"] != text["xla"]
    want, got = (flash_attention(x, x, x, implementation=word) for word in ("reference", "xla"))
    np.testing.assert_allclose(got, want, atol=1e-6)


def test_what_an_implementation_offers_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = select.module("reference")
    forward = reference.forward

    def with_entropy(spec: AttentionSpec, operands: Operands, entropy: bool = False) -> tuple[jax.Array, ...]:
        found = forward(spec, operands)
        return (*found, jnp.full_like(found[1], 7)) if entropy else found

    def columns(spec: AttentionSpec, operands: Operands, lse: jax.Array, last: int) -> jax.Array:
        assert operands.sinks is None and lse.shape == (1, 3, 6)
        return jnp.full((1, 3, 6), last, lse.dtype)

    monkeypatch.setattr(reference, "forward", with_entropy)
    monkeypatch.setattr(reference, "ENTROPY", True, raising=False)
    monkeypatch.setattr(reference, "column_scores", columns, raising=False)
    x, sinks = jnp.ones((1, 6, 3, 4)), jnp.zeros(3)
    results = {"return_entropy": True, "column_scores": 50, "implementation": "reference"}
    _, entropy, scores = flash_attention(x, x, x, **results)  # type: ignore[arg-type]
    np.testing.assert_array_equal(entropy, 7)
    np.testing.assert_array_equal(scores, 6)
    # The term of the sink, of logit 0 here, is added to it.
    _, entropy, _ = flash_attention(x, x, x, sinks=sinks, **results)  # type: ignore[arg-type]
    np.testing.assert_array_equal(entropy, 7)
