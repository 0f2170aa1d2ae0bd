"""The kernels of the norms' backward pass in interpret mode, one case a feature, and what they say they cannot."""

from __future__ import annotations

from types import ModuleType

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from rtx_jax._compat import JAX_VERSION
from rtx_jax.kernels.norm import pallas_mosaic_gpu, pallas_tpu
from rtx_jax.kernels.norm.spec import NormSpec
from rtx_jax.kernels.target import Target
from tests.kernels.norm.oracle import gradients

F32, F64, BF16 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(ml_dtypes.bfloat16)
HOPPER, TPU = Target("cuda", "NVIDIA H200", (9, 0)), Target("tpu", "TPU v5 lite")
RMS, LAYER = NormSpec(False, True, False, 1e-3, False), NormSpec(True, True, True, 1e-3, False)
BARE, PASSING = NormSpec(False, False, False, 1e-3, False), NormSpec(True, True, True, 1e-3, True)
RNG = np.random.default_rng(2)
needs_new_jax = pytest.mark.skipif(JAX_VERSION < (0, 11), reason="needs Mosaic GPU of JAX 0.11")
FEATURES = {
    "rms": (RMS, F32, (True, True)),
    "layer": (LAYER, F32, (True, True, True)),
    "no weight": (BARE, F32, (True,)),
    "residual": (PASSING, F32, (True, True, True)),
    "bfloat16": (RMS, BF16, (True, True)),
    "x alone": (LAYER, F32, (True, False, False)),
    "x and bias": (LAYER, F32, (True, False, True)),
}


def check(
    module: ModuleType, rows: int, size: int, spec: NormSpec, dtype: np.dtype, wanted: tuple[bool, ...], **more: int
) -> None:
    x, seed, passed = (jnp.asarray(RNG.standard_normal((rows, size)) + 0.5, dtype) for _ in range(3))
    weight = jnp.asarray(RNG.uniform(0.5, 1.5, size), jnp.float32)
    vectors = (weight,) * spec.weight + (weight,) * spec.bias
    cotangents = (seed, passed) if spec.passing else (seed,)
    found = module.backward((x, *vectors), cotangents, wanted, spec=spec, interpret=True, **more)
    scale = np.asarray(weight, np.float64) if spec.weight else np.ones(size)
    exact = list(gradients(np.asarray(x), scale, np.asarray(seed), spec.eps, spec.centred))
    if spec.passing:
        exact[0] = exact[0] + np.asarray(passed, np.float64)
    asked = [exact[0], *(g for g, w in zip(exact[1:], wanted[1:], strict=False) if w)]
    assert len(found) == len(asked) and found[0].dtype == dtype
    for number, (got, want) in enumerate(zip(found, asked, strict=True)):
        bound = 3e-5 if dtype == F32 or number else 1.6e-2
        np.testing.assert_allclose(np.asarray(got, np.float64), want, atol=bound, rtol=0)


@pytest.mark.parametrize("feature", FEATURES)
def test_tpu(feature: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pallas_tpu, "_BLOCK_BYTES", 16 * 4 * 24)
    check(pallas_tpu, 37, 24, *FEATURES[feature])  # two blocks of 16 rows and a part


def test_tpu_takes_a_few_rows() -> None:
    check(pallas_tpu, 3, 24, *FEATURES["layer"])


@needs_new_jax
@pytest.mark.parametrize("feature", FEATURES)
def test_hopper(feature: str) -> None:
    check(pallas_mosaic_gpu, 9, 128, *FEATURES[feature], programs=2)


@needs_new_jax
def test_hopper_takes_a_row_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pallas_mosaic_gpu, "_CHUNK", 128)
    check(pallas_mosaic_gpu, 3, 384, *FEATURES["residual"], programs=2)


def test_what_they_cannot() -> None:
    def tpu(size: int = 1024, dtype: np.dtype = BF16, wanted: tuple[bool, ...] = (True, True)) -> str:
        return "; ".join(pallas_tpu.unsupported(size, dtype, wanted, TPU))

    assert not tpu()
    assert "float64" in tpu(dtype=F64)
    assert "more than a block" in tpu(1 << 17)
    assert "not wanted" in tpu(wanted=(False, True))
    assert "not on cpu" in "; ".join(pallas_tpu.unsupported(8, F32, (True, True), Target("cpu")))

    def hopper(size: int = 1024, dtype: np.dtype = BF16, spec: NormSpec = RMS, target: Target = HOPPER) -> str:
        return "; ".join(
            pallas_mosaic_gpu.unsupported(size, dtype, spec, (True,) * (1 + spec.weight + spec.bias), target)
        )

    assert ("0.11" in hopper()) == (JAX_VERSION < (0, 11))
    assert "multiple of 128" in hopper(1000)
    assert "registers" in hopper(8192, spec=LAYER)
    assert "shared memory" in hopper(8192, F32, PASSING.__class__(False, True, False, 1e-3, True))
    assert "float64" in hopper(dtype=F64)
    assert "an unknown card" in hopper(target=Target("cuda"))
