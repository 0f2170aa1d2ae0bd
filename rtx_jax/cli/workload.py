"""The steps of the demo on one namespace, and their times."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from .dataset import Dataset

__all__ = ["Outcome", "Workload", "run"]

_SEED = 0
_MIXTURE_ITERATIONS = 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one step gave and took.

    Attributes
    ----------
    step, estimator, metric
        Names for the tables.
    score
        The number that both namespaces must agree on.
    first_s, steady_s
        Seconds of the first call, and the median of the calls after it.
    """

    step: str
    estimator: str
    metric: str
    score: float
    first_s: float
    steady_s: float


class Workload:
    """A chain of scikit-learn estimators on the arrays of one namespace.

    Each step leaves what the next one needs, can be repeated, and returns a score, for which it has to wait for
    its results.

    Parameters
    ----------
    data
        What to learn from. A quarter of the rows is kept for the scores.
    xp
        The namespace.
    dtype
        ``"float32"`` or ``"float64"``.
    device
        What `xp` takes as ``device=``, or None.
    """

    def __init__(self, data: Dataset, xp: ModuleType, dtype: str, device: object = None) -> None:
        from sklearn.model_selection import train_test_split

        self._xp = xp
        self._classes = len(data.classes)
        x_train, x_test, y_train, y_test = train_test_split(
            data.features,
            data.target,
            test_size=0.25,
            random_state=_SEED,
            stratify=data.target if data.classes else None,
        )
        self._components = min(10, x_train.shape[1])
        self.truth: NDArray[np.float64] | NDArray[np.int64] = y_test

        def put(values: NDArray[np.generic], name: str) -> object:
            return xp.asarray(values, dtype=getattr(xp, name), device=device)

        target_dtype = "int64" if data.classes and hasattr(xp, "int64") else dtype
        self._x_train, self._x_test = put(x_train, dtype), put(x_test, dtype)
        self._y_train, self._y_test = put(y_train, target_dtype), put(y_test, target_dtype)
        self._projection: object = None
        self._predicted: object = None

    @property
    def projection(self) -> NDArray[np.float64]:
        """The test rows in two components, shape (rows, 2)."""
        return np.asarray(self._projection, np.float64)

    @property
    def predicted(self) -> NDArray[np.float64]:
        """What the model predicts for the test rows, shape (rows,)."""
        return np.asarray(self._predicted, np.float64)

    def steps(self) -> tuple[tuple[str, str, str, Callable[[], float]], ...]:
        """Name, estimator, metric and function of each step, in order."""
        shared = (
            ("scale", "StandardScaler", "deviation", self._scale),
            ("reduce", f"PCA({self._components})", "explained", self._reduce),
        )
        mixture = ("mixture", f"GaussianMixture({self._mixtures})", "log-likelihood", self._mixture)
        if not self._classes:
            return (*shared, ("regress", "Ridge", "R2", self._regress), mixture)
        return (
            *shared,
            ("discriminate", "LinearDiscriminantAnalysis", "accuracy", self._discriminate),
            ("ridge", "RidgeClassifier", "accuracy", self._classify),
            mixture,
            ("metrics", "f1_score, confusion_matrix", "macro F1", self._metrics),
        )

    @property
    def _mixtures(self) -> int:
        return min(10, self._classes or 5)

    def _scale(self) -> float:
        from sklearn.preprocessing import StandardScaler

        scaler = StandardScaler().fit(self._x_train)
        self._scaled = scaler.transform(self._x_train)
        self._scaled_test = scaler.transform(self._x_test)
        return float(self._xp.std(self._scaled_test))

    def _reduce(self) -> float:
        from sklearn.decomposition import PCA

        pca = PCA(self._components, svd_solver="full").fit(self._scaled)
        self._reduced, self._reduced_test = pca.transform(self._scaled), pca.transform(self._scaled_test)
        self._projection = self._reduced_test[:, :2]
        return float(self._xp.sum(pca.explained_variance_ratio_))

    def _discriminate(self) -> float:
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
        from sklearn.metrics import accuracy_score

        model = LinearDiscriminantAnalysis(solver="svd").fit(self._scaled, self._y_train)
        self._predicted = model.predict(self._scaled_test)
        if self._classes > 2:
            self._projection = model.transform(self._scaled_test)[:, :2]
        return float(accuracy_score(self._y_test, self._predicted))

    def _classify(self) -> float:
        from sklearn.linear_model import RidgeClassifier
        from sklearn.metrics import accuracy_score

        model = RidgeClassifier(solver="svd").fit(self._scaled, self._y_train)
        return float(accuracy_score(self._y_test, model.predict(self._scaled_test)))

    def _regress(self) -> float:
        from sklearn.linear_model import Ridge
        from sklearn.metrics import r2_score

        model = Ridge(solver="svd").fit(self._scaled, self._y_train)
        self._predicted = model.predict(self._scaled_test)
        return float(r2_score(self._y_test, self._predicted))

    def _mixture(self) -> float:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.mixture import GaussianMixture

        # The number of iterations is fixed, so that rounding does not decide how much work each namespace does.
        # With covariance_type="full" scikit-learn regularizes through views of its array, which only NumPy has.
        model = GaussianMixture(
            self._mixtures,
            covariance_type="tied",
            init_params="random_from_data",
            random_state=_SEED,
            reg_covar=1e-3,
            tol=0.0,
            max_iter=_MIXTURE_ITERATIONS,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(self._reduced)
        return float(model.score(self._reduced_test))

    def _metrics(self) -> float:
        from sklearn.metrics import confusion_matrix, f1_score

        self.confusion = np.asarray(confusion_matrix(self._y_test, self._predicted))
        return float(f1_score(self._y_test, self._predicted, average="macro"))


def run(workload: Workload, repeats: int) -> Iterator[Outcome]:
    """Run every step once, then `repeats` times more, and yield its outcome as soon as it is there."""
    import sklearn

    for step, estimator, metric, function in workload.steps():
        with sklearn.config_context(array_api_dispatch=True):
            score, first_s = _timed(function)
            steady_s = statistics.median(_timed(function)[1] for _ in range(repeats))
        yield Outcome(step, estimator, metric, score, first_s, steady_s)


def _timed(function: Callable[[], float]) -> tuple[float, float]:
    start = time.perf_counter()
    score = function()
    return score, time.perf_counter() - start
