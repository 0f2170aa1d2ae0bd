"""The bodies of last resort: the reference's function on the host, with a round trip of the operands."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ...errors import HostFallback
from ..core import Tensor
from ..operations import OPERATIONS
from .tools import Body

if TYPE_CHECKING:
    from ..base import Backend

__all__ = ["host_body"]

T = TypeVar("T", bound=Tensor)

_warned: set[tuple[str, str]] = set()
_MADE_THERE = ("rand", "randn")  # nothing travels to the host for these


def host_body(operation: str) -> Body:
    """Return the body that brings the operands to the host, computes there, and brings the result back."""

    def body(backend: Backend[Any], *args: Any) -> object:
        from ..reference import FUNCTIONS

        table = OPERATIONS[operation]
        count = len(table.operands)
        operands, params = args[:count], dict(zip(table.params, args[count:], strict=True))
        if operation not in _MADE_THERE:
            _warn(backend.name(), operation)
        here = [x if x is None or isinstance(x, np.ndarray) else _on_host(backend, x) for x in operands]
        device = params.get("device")
        if device is None:
            device = next(
                (backend.device(x) for x in operands if x is not None and not isinstance(x, np.ndarray)),
                None,
            )
        result = FUNCTIONS[operation](*here, **params)
        if isinstance(result, tuple):
            return tuple([backend.from_data(part, part.shape, device=device) for part in result])
        assert isinstance(result, np.ndarray)
        return backend.from_data(result, result.shape, device=device)

    return body


def _on_host(backend: Backend[T], x: T) -> np.ndarray:
    return backend.to_data(x).reshape(x.shape)


def _warn(backend: str, operation: str) -> None:
    if (backend, operation) in _warned:
        return
    _warned.add((backend, operation))
    warnings.warn(
        f"{operation}: the backend {backend!r} has no function for it and computes it on the host, which moves the "
        f"operands there and back. Add {operation!r} to its table of functions.",
        HostFallback,
        stacklevel=5,
    )
