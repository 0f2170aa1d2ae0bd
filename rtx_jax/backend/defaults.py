"""Default bodies: what a backend's functions leave out, made of the primitives that it has."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import BackendLimitation
from .core import BackendCore, T
from .operations import PRIMITIVES

__all__ = ["default_body"]


def default_body(backend: BackendCore[T], operation: str) -> Callable[..., T]:
    """Return the default body of an operation: a function of the operands and parameters in the table's order.

    Raises
    ------
    BackendLimitation
        The backend lacks this operation and it is a primitive.
    """
    raise BackendLimitation(
        operation,
        got=f"the backend {backend.name()!r}, which has no function {operation!r}",
        wanted="every primitive of rtx_jax.backend.PRIMITIVES in the table `functions`"
        if operation in PRIMITIVES
        else "another backend",
        backend=backend.name(),
        reason=f"no {operation}",
    )
