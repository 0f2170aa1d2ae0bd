"""The steps of the demo give the same scores on NumPy and on rtx_jax."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.cli.dataset import Dataset
from rtx_jax.cli.demo import Comparison
from rtx_jax.cli.workload import Outcome, Workload, run

RNG = np.random.default_rng(7)
CENTRES = np.array([[0.0, 0.0, 0.0, 1.0], [4.0, 0.0, 1.0, 0.0], [0.0, 5.0, 0.0, 2.0]])
LABELS = np.repeat(np.arange(3), 40)
POINTS = CENTRES[LABELS] + RNG.normal(size=(120, 4))
CLASSES = Dataset("blobs", POINTS, LABELS, ("a", "b", "c"))
TWO = Dataset("two", POINTS[:80], LABELS[:80], ("a", "b"))
QUANTITY = Dataset("plane", POINTS, POINTS @ np.array([1.0, -2.0, 0.5, 3.0]) + 4.0, ())


@pytest.mark.parametrize("data", [CLASSES, TWO, QUANTITY], ids=lambda data: data.name)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 1e-3)])
def test_scores_agree(data: Dataset, dtype: str, tolerance: float) -> None:
    reference, tried = Workload(data, np, dtype), Workload(data, xp, dtype)
    for expected, got in zip(run(reference, 1), run(tried, 1), strict=True):
        assert (expected.step, expected.metric) == (got.step, got.metric)
        assert got.score == pytest.approx(expected.score, rel=tolerance, abs=tolerance), got.step
        assert got.first_s > 0 and got.steady_s > 0
    assert tried.projection.shape == (len(tried.truth), 2)
    np.testing.assert_array_equal(tried.truth, reference.truth)
    np.testing.assert_allclose(tried.predicted, reference.predicted, rtol=1e-4, atol=1e-4)


def test_the_confusion_matrix_counts_the_test_rows() -> None:
    workload = Workload(CLASSES, xp, "float64")
    list(run(workload, 1))
    expected = np.zeros((3, 3), int)
    for truth, predicted in zip(workload.truth, workload.predicted, strict=True):
        expected[int(truth), int(predicted)] += 1
    assert workload.confusion.tolist() == expected.tolist()


def test_a_plane_is_fitted_exactly() -> None:
    scores = {outcome.step: outcome.score for outcome in run(Workload(QUANTITY, xp, "float64"), 1)}
    assert scores["regress"] > 0.999


@pytest.mark.parametrize(
    ("expected", "got", "agrees"),
    [(0.5, 0.5009, True), (0.5, 0.502, False), (-20.0, -20.01, True), (-20.0, -20.03, False), (0.5, math.nan, False)],
)
def test_tolerance_is_relative_above_one(expected: float, got: float, agrees: bool) -> None:
    outcomes = [Outcome("step", "estimator", "metric", score, 1.0, 1.0) for score in (expected, got)]
    assert Comparison(outcomes[0], outcomes[1], 1e-3).agrees is agrees
