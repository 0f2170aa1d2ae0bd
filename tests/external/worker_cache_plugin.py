"""A pytest plugin that gives each worker a compilation cache of its own, before JAX is imported.

JAX writes an entry of its cache in place, so that two processes on one folder can read half of one. The folder is that
of ``JAX_COMPILATION_CACHE_DIR``; without the variable the plugin does nothing.
"""

from __future__ import annotations

import os

_FOLDER = "JAX_COMPILATION_CACHE_DIR"

if _FOLDER in os.environ:
    os.environ[_FOLDER] = os.path.join(os.environ[_FOLDER], os.environ.get("PYTEST_XDIST_WORKER", "main"))
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
