"""What the default bodies share: constants beside a tensor, one axis brought to the front, float32 for small floats."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from ...checks.elementwise import FLOATING, common_dtype
from ..core import Tensor

if TYPE_CHECKING:
    from ..base import Backend

__all__ = ["Body", "constant", "host", "in_float32", "is_floating", "put_rows", "take_rows", "tensor"]

T = TypeVar("T", bound=Tensor)

Body: TypeAlias = "Callable[..., object]"
"""A default body: ``body(backend, *operands, *params)``."""

_FLOAT32 = np.dtype(np.float32)


def is_floating(x: Tensor) -> bool:
    """Tell whether a tensor's dtype is floating."""
    return x.dtype in FLOATING


def constant(backend: Backend[T], like: T, value: float) -> T:
    """Return a scalar of the dtype of `like`, where it is."""
    return backend.full((), value, dtype=like.dtype, device=backend.device(like))


def tensor(backend: Backend[T], like: T, array: np.ndarray) -> T:
    """Return a tensor of host values where `like` is."""
    return backend.from_data(array, array.shape, device=backend.device(like))


def _to_front(backend: Backend[T], x: T, dim: int) -> T:
    return backend.permute(x, (dim, *(i for i in range(x.ndim) if i != dim)))


def _from_front(backend: Backend[T], x: T, dim: int) -> T:
    rest = list(range(1, x.ndim))
    return backend.permute(x, (*rest[:dim], 0, *rest[dim:]))


def take_rows(backend: Backend[T], x: T, dim: int, indices: Sequence[int] | np.ndarray) -> T:
    """Return the entries of one axis at `indices`."""
    taken = backend.index_select(_to_front(backend, x, dim) if dim else x, indices)
    return _from_front(backend, taken, dim) if dim else taken


def put_rows(backend: Backend[T], x: T, dim: int, indices: Sequence[int] | np.ndarray, size: int) -> T:
    """Return zeros with `size` entries along one axis, to which those of `x` are added at `indices`."""
    put = backend.index_add(_to_front(backend, x, dim) if dim else x, indices, size)
    return _from_front(backend, put, dim) if dim else put


def in_float32(body: Body, *, common: bool = False) -> Body:
    """Make a body compute floats below 32 bits in float32 and round once.

    The result has the dtype of the first operand, or with `common` the one that all floating operands promote to. A
    backend without a function ``cast`` computes them on the host.
    """

    @functools.wraps(body)
    def wide(backend: Backend[Any], *args: Any) -> object:
        floats = [x.dtype for x in args if hasattr(x, "dtype") and is_floating(x)]
        if all(dtype.itemsize >= 4 for dtype in floats):
            return body(backend, *args)
        if "cast" not in backend.functions:
            return host(body.__name__)(backend, *args)
        target = functools.reduce(lambda a, b: common_dtype(body.__name__, a, b), floats) if common else floats[0]
        wider = [
            backend.cast(x, _FLOAT32) if hasattr(x, "dtype") and is_floating(x) and x.dtype.itemsize < 4 else x
            for x in args
        ]
        result = body(backend, *wider)
        if isinstance(result, tuple):
            return (backend.cast(result[0], target), *result[1:])
        return backend.cast(result, target)

    return wide


def host(operation: str) -> Body:
    """Return the body that computes an operation on the host by the reference, and warns the first time."""
    from .host import host_body

    return host_body(operation)
