"""Default bodies: what a backend's functions leave out, made of the primitives that it has."""

from __future__ import annotations

import functools
from collections.abc import Callable

from ..errors import BackendLimitation
from .core import BackendCore, T
from .operations import PRIMITIVES

__all__ = ["HOST", "default_body"]

HOST: frozenset[str] = frozenset(
    """cast rand randn attention batch_norm conv3d conv_transpose1d conv_transpose2d conv_transpose3d
    interpolate""".split()
)
"""Operations whose default body is always on the host. Others are there for floats below 32 bits where the backend has
no ``cast``, and exact gelu, for which erf would be needed."""


def default_body(backend: BackendCore[T], operation: str) -> Callable[..., T]:
    """Return the default body of an operation: a function of the operands and parameters in the table's order.

    Raises
    ------
    BackendLimitation
        The operation is a primitive, and the backend lacks it.
    """
    if operation in PRIMITIVES:
        raise BackendLimitation(
            operation,
            got=f"the backend {backend.name()!r}, which has no function {operation!r}",
            wanted="every primitive of rtx_jax.backend.PRIMITIVES in the table `functions`",
            backend=backend.name(),
            reason=f"no {operation}",
        )
    return functools.partial(_body(operation), backend)  # type: ignore[return-value]


@functools.cache
def _body(operation: str) -> Callable[..., object]:
    from .bodies import elementwise, networks, tensors
    from .bodies.host import host_body

    for bodies in (elementwise.BODIES, tensors.BODIES, networks.BODIES):
        if operation in bodies:
            return bodies[operation]
    assert operation in HOST, operation
    return host_body(operation)
