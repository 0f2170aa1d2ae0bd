"""The runtimes that keep one contract; every test with `runtime` runs on each."""

from __future__ import annotations

import pytest

from rtx_jax.runtime import JaxRuntime, NumpyRuntime, Runtime


@pytest.fixture(params=["cpu", "numpy"])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    return NumpyRuntime() if request.param == "numpy" else JaxRuntime(request.param)
