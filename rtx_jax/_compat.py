"""The only file that knows JAX versions and private modules of JAX.

Supported: JAX 0.10.2 to the newest release. Everything here exists in both unless a line says otherwise.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import jax
from jax._src import config as _jax_config
from jax._src import core as _jax_core
from jax._src.array import ArrayImpl

__all__ = [
    "JAX_VERSION",
    "ArrayImpl",
    "current_trace",
    "has_gil",
    "swap_x64",
    "restore_x64",
    "trace_is_clean",
    "x64",
]

JAX_VERSION: tuple[int, ...] = tuple(int(part) for part in jax.__version__.split(".")[:3] if part.isdigit())

# `jax.enable_x64(True)` costs 0.4 to 0.65 us a call, a swap of its thread-local value 0.07 us. The hot path uses
# `previous = swap_x64(True)` ... `restore_x64(previous)` in try/finally.
swap_x64 = _jax_config.enable_x64.swap_local
restore_x64 = _jax_config.enable_x64.set_local

trace_is_clean = _jax_core.trace_state_clean


@contextlib.contextmanager
def x64(enabled: bool = True) -> Iterator[None]:
    """Run the body with 64-bit types on (or off) in this thread; safe to nest, unlike one reused JAX object."""
    previous = swap_x64(enabled)
    try:
        yield
    finally:
        restore_x64(previous)


def current_trace() -> object | None:
    """Return JAX's innermost active trace of this thread, or None when nothing is being traced."""
    if _jax_core.trace_state_clean():
        return None
    trace: object | None = _jax_core.trace_ctx.trace
    return trace


def has_gil() -> bool:
    """Say whether this interpreter runs one thread at a time (reference counts are exact only then)."""
    probe = getattr(sys, "_is_gil_enabled", None)
    return True if probe is None else bool(probe())
