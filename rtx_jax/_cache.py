"""The compilation cache on disk and the caches in memory."""

from __future__ import annotations

import os
from pathlib import Path

import jax

from ._config import cache_folder
from .core.dispatch import clear_caches as clear_caches

__all__ = ["clear_caches", "enable_compilation_cache"]


def enable_compilation_cache(path: str | os.PathLike[str] | None = None) -> Path:
    """Keep compiled calls on disk, the small ones too, so that the next process need not compile them.

    Parameters
    ----------
    path
        Folder to keep them in. Default: ``RTX_JAX_CACHE_DIR``, else ``rtx_jax`` in the user's cache folder
        (``XDG_CACHE_HOME`` or ``~/.cache``).

    Returns
    -------
    Path
        The folder.

    Notes
    -----
    This is JAX's persistent cache with its thresholds at zero; unlike everything else here it changes settings of
    JAX, for the whole process. Calls compiled before are not stored.
    """
    folder = Path(path) if path else cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return folder
