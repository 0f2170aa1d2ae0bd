"""The version, from the installed distribution."""

from __future__ import annotations

import importlib.metadata

__all__ = ["__version__"]

try:
    __version__ = importlib.metadata.version("rtx-jax")
except importlib.metadata.PackageNotFoundError:  # a source tree that was not installed
    __version__ = "0+unknown"
