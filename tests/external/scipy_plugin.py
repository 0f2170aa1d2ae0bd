"""A pytest plugin that gives SciPy's array API tests rtx_jax as their only namespace.

SciPy's ``xp`` fixture lists the libraries that are installed. Each test that asks for the fixture is given a parameter
of its own, which takes precedence over the fixture's list. SciPy's conftest also changes JAX's settings where it finds
JAX; the plugin sets them back, since rtx_jax is to work with the default ones. The tests of ``deselected_scipy.txt``
are left out; an entry that no longer names a test is an error. The runner is `run_scipy.py`.
"""

from __future__ import annotations

from pathlib import Path

import jax
import pytest
from _deselected import leave_out
from scipy import conftest as scipy_conftest

import rtx_jax

NAMESPACE = "rtx_jax"
DESELECTED = Path(__file__).with_name("deselected_scipy.txt")

scipy_conftest.xp_known_backends.add(NAMESPACE)
jax.config.update("jax_enable_x64", False)
jax.config.update("jax_default_matmul_precision", None)
jax.config.update("jax_default_device", None)


def _argument_names(names: str | list[str] | tuple[str, ...]) -> list[str]:
    return [name.strip() for name in (names.split(",") if isinstance(names, str) else names)]


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "xp" not in metafunc.fixturenames:
        return
    if any("xp" in _argument_names(mark.args[0]) for mark in metafunc.definition.iter_markers("parametrize")):
        return
    namespace = pytest.param(rtx_jax, id=NAMESPACE, marks=pytest.mark.array_api_backends)
    metafunc.definition.add_marker(pytest.mark.parametrize("xp", [namespace], indirect=True), append=False)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_out(config, items, DESELECTED, Path(scipy_conftest.__file__).parent.parent)
