"""A pytest plugin that makes scikit-learn's array API tests run on rtx_jax instead of on the libraries it knows.

scikit-learn builds the parameters of those tests from three generators of `sklearn.utils._array_api`. The plugin is
loaded before any test module and replaces them. Device ``None`` is the default device; both dtypes of the estimators
are tried, and arrays of NumPy and of array-api-strict are mixed with ours. The tests of ``deselected_sklearn.txt`` are
left out; an entry that no longer names a test is an error. The runner is `run_sklearn.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sklearn
from _deselected import leave_out
from sklearn.utils import _array_api

NAMESPACE = "rtx_jax"
DESELECTED = Path(__file__).with_name("deselected_sklearn.txt")
DTYPES = ("float64", "float32")
_MIXED = (
    (("numpy", None), (NAMESPACE, None)),
    ((NAMESPACE, None), ("numpy", None)),
    (("array_api_strict", "device1"), (NAMESPACE, None)),
)


def _namespaces(include_numpy_namespaces: bool = True) -> Iterator[str]:
    yield NAMESPACE


def _combinations(include_numpy_namespaces: bool = True) -> Iterator[tuple[str, str | None, str]]:
    for dtype in DTYPES:
        yield NAMESPACE, None, dtype


def _mixed() -> Iterator[tuple[object, object, str]]:
    for source, target in _MIXED:
        yield (
            _array_api.NamespaceAndDevice(*source),
            _array_api.NamespaceAndDevice(*target),
            f"{source[0]} to {target[0]}",
        )


_array_api.yield_namespaces = _namespaces
_array_api.yield_namespace_device_dtype_combinations = _combinations
_array_api.yield_mixed_namespace_input_permutations = _mixed


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_out(config, items, DESELECTED, Path(sklearn.__file__).parent.parent)
