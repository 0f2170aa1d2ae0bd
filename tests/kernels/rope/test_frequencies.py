"""Scalings of the frequencies, against the formulas of the papers and numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rtx_jax import errors, nn
from rtx_jax.kernels.rope import LinearScaling, Llama3Scaling, YarnScaling, rope_frequencies


def test_the_frequencies_of_the_paper() -> None:
    found = rope_frequencies(6, base=1000.0)
    np.testing.assert_allclose(found.radians, [1.0, 0.1, 0.01], rtol=1e-15)
    assert found.channels == 6 and found.factor == 1.0
    cos, sin = found.tables(3)
    np.testing.assert_allclose(cos, np.cos(np.outer([0, 1, 2], [1, 0.1, 0.01])), rtol=1e-15)
    np.testing.assert_allclose(found.tables(np.array([[2]]))[1], sin[None, 2:], rtol=1e-15)
    assert rope_frequencies(0).tables(2)[0].shape == (2, 0)


def test_linear_scaling_divides_positions() -> None:
    scaled = rope_frequencies(8, scaling=LinearScaling(4.0))
    np.testing.assert_allclose(scaled.tables(np.array([40])), rope_frequencies(8).tables(np.array([10])), rtol=1e-14)


def test_llama_3_keeps_short_waves_and_divides_long_ones() -> None:
    # Llama 3.1: head size 128, base 500000, context 8192 made 8 times longer.
    plain = np.asarray(rope_frequencies(128, base=5e5).radians)
    found = np.asarray(rope_frequencies(128, base=5e5, scaling=Llama3Scaling()).radians)
    waves = 2 * math.pi / plain
    np.testing.assert_array_equal(found[waves < 8192 / 4], plain[waves < 8192 / 4])
    np.testing.assert_allclose(found[waves > 8192], plain[waves > 8192] / 8, rtol=1e-15)
    between = (waves > 8192 / 4) & (waves < 8192)
    assert between.sum() == 6
    blend = (8192 / waves[between] - 1) / (4 - 1)
    np.testing.assert_allclose(found[between], plain[between] * (blend + (1 - blend) / 8), rtol=1e-14)


def test_yarn_interpolates_by_parts() -> None:
    # d(turns) = 64 ln(4096 / (2 pi turns)) / (2 ln 10000): 10.46 for 32 turns, 22.52 for 1.
    found = rope_frequencies(64, scaling=YarnScaling(4.0, 4096))
    plain = np.asarray(rope_frequencies(64).radians)
    divided = np.clip((np.arange(32) - 10) / (23 - 10), 0, 1)
    np.testing.assert_allclose(found.radians, plain * (1 - divided) + plain / 4 * divided, rtol=1e-14)
    assert found.factor == pytest.approx(0.1 * math.log(4) + 1)
    assert found.tables(1)[0][0, 0] == pytest.approx(1.138629436)
    assert rope_frequencies(64, scaling=YarnScaling(4.0, 4096, attention_factor=1.0)).factor == 1.0
    assert rope_frequencies(64, scaling=YarnScaling(1.0, 4096)).factor == 1.0


def test_the_face_makes_tables_of_them() -> None:
    scaling = YarnScaling(4.0, 4096)
    cos, sin = nn.rope_tables(5, 8, base=5e5, scaling=scaling)
    want = rope_frequencies(8, base=5e5, scaling=scaling).tables(5)
    np.testing.assert_array_equal(np.asarray(cos), want[0].astype(np.float32))
    np.testing.assert_array_equal(np.asarray(sin), want[1].astype(np.float32))
    with pytest.raises(errors.InvalidArgument, match="scaling"):
        nn.rope_tables(5, 8, scaling="yarn")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("channels", "base", "scaling", "said"),
    [
        (5, 1e4, None, "even"),
        (-2, 1e4, None, "channels"),
        (4, 0.0, None, "base"),
        (4, 1e4, "yarn", "scaling"),
        (4, 1e4, LinearScaling(0.0), "factor"),
        (4, 1e4, Llama3Scaling(low_frequency=4.0), "low_frequency"),
        (4, 1e4, Llama3Scaling(original_length=0), "original_length"),
        (4, 1e4, YarnScaling(2.0, 100, beta_fast=1.0), "beta_slow"),
        (4, 1e4, YarnScaling(2.0, 100, attention_factor=math.nan), "attention_factor"),
    ],
)
def test_refusals(channels: int, base: float, scaling: object, said: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=said):
        rope_frequencies(channels, base=base, scaling=scaling)  # type: ignore[arg-type]
