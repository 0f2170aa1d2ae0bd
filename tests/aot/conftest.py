"""Tests that compile for devices that are not here.

They run in the usual environment, where those without their tool skip, and in two more, where the tool is installed:
one with libtpu, one with the CUDA plugin. Both need ``JAX_PLATFORMS=cpu``, so that JAX looks for no such device.
"""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(autouse=True)
def _fresh_traces() -> Iterator[None]:
    """Lower each program anew: JAX keeps the traces of inner functions, which hold the kernels of another device."""
    yield
    jax.clear_caches()
