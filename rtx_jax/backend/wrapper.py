"""`Wrapper`: the base of backends that change another one, such as ``quantized<cpu>``."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import ClassVar

import numpy as np

from ..errors import InvalidArgument
from .base import Backend
from .core import Call, Params, T
from .device import Device

__all__ = ["Wrapper"]


class Wrapper(Backend[T]):
    """A backend around another: everything goes on to the inner one, until a subclass overrides `_apply`.

    Parameters
    ----------
    inner
        The backend that does the work.

    Notes
    -----
    It has no state of its own: the stream of random numbers is the inner one's.
    """

    prefix: ClassVar[str] = "wrapper"
    """First part of the name."""

    def __init__(self, inner: Backend[T], /) -> None:
        if not isinstance(inner, Backend):
            raise InvalidArgument(
                type(self).__name__,
                "inner",
                got=repr(inner),
                wanted="a backend",
                remedy="Make one: CpuBackend() or auto_select().",
                arg="inner",
                reason="not a backend",
            )
        self._inner = inner

    @property
    def inner(self) -> Backend[T]:
        """The backend that this one is around."""
        return self._inner

    def _parts(self) -> tuple[Hashable, ...]:
        return (self._inner,)

    def name(self) -> str:
        """Return the composed name: ``"autodiff<cuda>"``."""
        return f"{self.prefix}<{self._inner.name()}>"

    @property
    def functions(self) -> Mapping[str, Callable[..., object]]:  # type: ignore[override]
        """The inner backend's functions."""
        return self._inner.functions

    def _apply(self, operation: str, operands: tuple[T | np.ndarray | None, ...], params: Params = ()) -> T:
        return self._inner._apply(operation, operands, params)

    def _make(self, operation: str, call: Call) -> object:
        return self._inner._make(operation, call)

    def _function(self, name: str) -> Callable[..., object]:
        return self._inner._function(name)

    def is_available(self) -> bool:
        """Tell whether the inner backend can run here."""
        return self._inner.is_available()

    def devices(self) -> list[Device]:
        """Return the inner backend's devices."""
        return self._inner.devices()

    def default_device(self) -> Device:
        """Return the inner backend's default device."""
        return self._inner.default_device()

    def supports_dtype(self, dtype: np.dtype, device: object = None) -> bool:
        """Tell whether the inner backend has the dtype."""
        return self._inner.supports_dtype(dtype, device)

    def seed(self, seed: int, /) -> None:
        """Start the inner backend's stream of random numbers anew."""
        self._inner.seed(seed)

    def _device(self, operation: str, device: object) -> object:
        return self._inner._device(operation, device)

    def _next_key(self, operation: str) -> np.ndarray:
        return self._inner._next_key(operation)

    def _key_data(self, operation: str, key: object) -> np.ndarray:
        return self._inner._key_data(operation, key)

    def _index_values(self, indices: T) -> np.ndarray | None:
        return self._inner._index_values(indices)
