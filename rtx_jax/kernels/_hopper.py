"""What the Hopper kernels for rows share: the module, a target's limits, and how values lie in a warpgroup."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from .._compat import JAX_VERSION
from .target import Target

__all__ = ["PROCESSORS", "SHARED_BYTES", "THREADS", "mosaic", "rows_layout", "unsupported_target"]

PROCESSORS = 132
"""Multiprocessors of an H100 or H200; another number costs balance alone."""
SHARED_BYTES = 200 * 1024
"""Memory that the programs of one multiprocessor share, less what the compiler takes."""
THREADS = 128
"""Of one warpgroup."""
_LEAST_JAX = (0, 11)


def mosaic() -> Any:
    """Return Pallas's module for Mosaic GPU; imported late, as it takes longer than this package."""
    return importlib.import_module("jax.experimental.pallas.mosaic_gpu")


def unsupported_target(target: Target, dtype: np.dtype) -> list[str]:
    """Return why no such kernel can run on a device, for a dtype; nothing where it can."""
    reasons = []
    if target.platform != "cuda":
        reasons.append(f"it runs on CUDA, not on {target.platform or 'several platforms'}")
    elif target.capability != (9, 0):
        reasons.append(f"it is for compute capability 9.0 (H100, H200), not for {target.kind or 'an unknown card'}")
    if JAX_VERSION < _LEAST_JAX:
        version = ".".join(map(str, JAX_VERSION))
        reasons.append(f"JAX {version} has another interface of Mosaic GPU; it needs 0.11 or newer")
    if dtype.name not in ("float32", "bfloat16", "float16"):
        reasons.append(f"it takes float32, bfloat16 and float16, not {dtype.name}")
    return reasons


def rows_layout(shape: tuple[int, int]) -> Any:
    """Return the layout in which a warpgroup holds neighbouring values, or None where it cannot."""
    each, left = divmod(shape[0] * shape[1], THREADS)
    if left or not each:
        return None
    vector = next(v for v in (8, 4, 2, 1) if each % v == 0)
    return mosaic().Layout.WG_STRIDED(shape, vec_size=vector)
