"""Set up the process before JAX starts: eight virtual CPU devices and a compilation cache in the work folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

_FLAG = "--xla_force_host_platform_device_count=8"
if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_FLAG}".strip()

# A folder for each worker: JAX writes an entry in place, so another process could read half of it.
_CACHE = os.environ.get("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent.parent / ".ci-work" / "jax-cache"))
os.environ["JAX_COMPILATION_CACHE_DIR"] = os.path.join(_CACHE, os.environ.get("PYTEST_XDIST_WORKER", ""))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

# SciPy and scikit-learn read this once, when they are first imported.
os.environ.setdefault("SCIPY_ARRAY_API", "1")
os.environ.setdefault("MPLBACKEND", "agg")


@pytest.fixture(scope="module", autouse=True)
def _bounded_memory() -> Iterator[None]:
    """Give the compiled calls of a file back: each takes 0.4 to 1.5 MiB, and there are thousands."""
    yield
    import jax

    import rtx_jax

    rtx_jax.clear_caches()
    jax.clear_caches()
