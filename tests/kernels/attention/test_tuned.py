"""Measured blocks reach the implementation that they were measured for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rtx_jax.errors import FallbackWarning
from rtx_jax.kernels import tuning
from rtx_jax.kernels.attention import pallas_triton, reference, xla
from rtx_jax.kernels.attention.spec import AttentionSpec
from rtx_jax.kernels.attention.tuned import default_blocks, kernel_name, shape_class, tuned_blocks
from rtx_jax.kernels.target import Target

SPEC = AttentionSpec(1, 1000, 1000, 8, 8, 64, 64, np.dtype(np.float32), window=(None, 0))
CPU = Target("cpu", "cpu")


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RTX_JAX_CACHE_DIR", str(tmp_path))


def store(kernel: str, blocks: dict[str, int], kind: str = "cpu", spec: AttentionSpec = SPEC) -> None:
    tuning.store(tuning.Entry(kernel, kind, shape_class(spec), blocks, 1.0, 2.0))


def test_nothing_measured_leaves_the_choice_to_the_module() -> None:
    assert tuned_blocks(xla, SPEC, CPU, "forward") is None
    assert tuned_blocks(reference, SPEC, CPU, "forward") is None


def test_measured_blocks_of_a_direction() -> None:
    store(kernel_name("xla", "backward"), {"query": 64, "key": 96})
    assert tuned_blocks(xla, SPEC, CPU, "forward") is None
    blocks = tuned_blocks(xla, SPEC, CPU, "backward")
    assert isinstance(blocks, xla.Blocks)
    assert (blocks.query, blocks.key) == (64, 96)
    longer = replace(SPEC, queries=1024, keys=1024)
    assert tuned_blocks(xla, longer, CPU, "backward") is not None
    assert tuned_blocks(xla, replace(longer, queries=1025), CPU, "backward") is None
    assert tuned_blocks(xla, SPEC, Target("cpu", "another"), "backward") is None


def test_blocks_that_the_kernel_refuses() -> None:
    store(kernel_name("pallas_triton", "forward"), {"query": 100}, kind="NVIDIA L4")
    with pytest.warns(FallbackWarning, match="does not fit it"):
        blocks = tuned_blocks(pallas_triton, SPEC, Target("cuda", "NVIDIA L4", (8, 9)), "forward")
    assert blocks == default_blocks(pallas_triton, SPEC, "forward")


@pytest.mark.parametrize(
    "change",
    [
        {"window": (None, None)},
        {"window": (255, 0)},
        {"softcap": 30.0},
        {"segments": True},
        {"bias": (1, 8, 1000, 1000)},
        {"dtype": np.dtype(np.float16)},
        {"key_heads": 1},
        {"size": 128},
    ],
)
def test_what_the_class_depends_on(change: dict[str, object]) -> None:
    assert shape_class(replace(SPEC, **change)) != shape_class(SPEC)  # type: ignore[arg-type]


def test_the_class_of_a_call() -> None:
    assert shape_class(SPEC) == "float32 causal queries=1024 keys=1024 size=64 value_size=64 group=1"
    window = replace(SPEC, window=(255, 0), softcap=20.0)
    assert shape_class(window) == (
        "float32 window softcap queries=1024 keys=1024 size=64 value_size=64 window=256 group=1"
    )
