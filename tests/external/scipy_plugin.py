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
from scipy import conftest as scipy_conftest

import rtx_jax

NAMESPACE = "rtx_jax"
DESELECTED = Path(__file__).with_name("deselected_scipy.txt")

scipy_conftest.xp_known_backends.add(NAMESPACE)
jax.config.update("jax_enable_x64", False)
jax.config.update("jax_default_matmul_precision", None)
jax.config.update("jax_default_device", None)


def deselected() -> frozenset[str]:
    """The tests to leave out, as ``scipy/fft/tests/test_x.py::Class::test[parameters]``."""
    lines = DESELECTED.read_text().splitlines()
    return frozenset(line for line in lines if line.strip() and not line.startswith("#"))


def test_name(item: pytest.Item) -> str:
    """The node id from the package's folder on, wherever the package is installed."""
    root = Path(scipy_conftest.__file__).parent.parent
    return "::".join([item.path.relative_to(root).as_posix(), *item.nodeid.split("::")[1:]])


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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    unwanted = deselected()
    by_name = {test_name(item): item for item in items}
    files = {name.partition("::")[0] for name in by_name}
    unknown = [name for name in unwanted - by_name.keys() if name.partition("::")[0] in files]
    if unknown and not config.option.keyword:
        raise pytest.UsageError(f"{DESELECTED.name} names tests that SciPy does not have: {sorted(unknown)}")
    out = [item for name, item in by_name.items() if name in unwanted]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in set(out)]
