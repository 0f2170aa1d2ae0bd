"""Names of rtx_jax for a table of reported problems that is written against an adapter class ``cases.Ops``.

Only what the namespace has is wired: an operation that is missing here does not exist yet, and its case is reported as
not run rather than as passed.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType

import rtx_jax


def _table() -> ModuleType:
    """The module of the cases: the main program where it was started itself, so that its exceptions are the same."""
    main = sys.modules["__main__"]
    return main if hasattr(main, "CASES") and hasattr(main, "Ops") else importlib.import_module("cases")


class RtxOps(_table().Ops):
    """The transforms of rtx_jax under the adapter's names."""

    def grad(self, namespace: ModuleType, function: Callable[..., object], argnums: int = 0) -> Callable[..., object]:
        """Gradient of a function of Arrays."""
        return rtx_jax.grad(function, argnums=argnums)

    def jit(self, namespace: ModuleType, function: Callable[..., object], **options: object) -> Callable[..., object]:
        """Compiled function of Arrays."""
        return rtx_jax.jit(function, **options)

    def index_add(
        self, namespace: ModuleType, x: rtx_jax.Array, positions: rtx_jax.Array, values: rtx_jax.Array
    ) -> rtx_jax.Array:
        """Sum of values at positions, of which each counts."""
        return x.at[positions].add(values)


def ops() -> RtxOps:
    """The adapter that the table asks for."""
    return RtxOps()
