"""Names of rtx_jax for a table of reported problems that is written against an adapter class ``cases.Ops``.

Only what the namespace has is wired: an operation that is missing here does not exist yet, and its case is reported as
not run rather than as passed.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import cases

import rtx_jax


class RtxOps(cases.Ops):
    """The transforms of rtx_jax under the adapter's names."""

    def grad(self, namespace: ModuleType, function: Callable[..., object], argnums: int = 0) -> Callable[..., object]:
        """Gradient of a function of Arrays."""
        return rtx_jax.grad(function, argnums=argnums)

    def jit(self, namespace: ModuleType, function: Callable[..., object], **options: object) -> Callable[..., object]:
        """Compiled function of Arrays."""
        return rtx_jax.jit(function, **options)


def ops() -> cases.Ops:
    """The adapter that the table asks for."""
    return RtxOps()
