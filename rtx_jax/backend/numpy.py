"""`NumpyBackend`: the reference, on arrays of NumPy in the memory of the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Self

import numpy as np

from ..core.host_recorder import HostValue, OperationCall, open_host_tape
from .base import Backend
from .core import Params
from .device import Device
from .reference import FUNCTIONS

__all__ = ["NumpyBackend"]


class NumpyBackend(Backend[np.ndarray]):
    """The reference: what every operation means, in NumPy, without JAX.

    Each result is computed in float64 or wider and rounded once to its dtype, so devices are compared with it. It is
    written to be read and is slow; do not compute with it. Random draws have the bits of the other backends. Subnormal
    numbers are kept, which devices may flush to zero.

    There is one value of the class.

    Examples
    --------
    >>> from rtx_jax.backend import NumpyBackend
    >>> B = NumpyBackend()
    >>> B.to_data(B.softmax(B.from_data([0.0, 0.0], (2,)), 0))
    array([0.5, 0.5], dtype=float32)
    """

    _instance: ClassVar[Self | None] = None

    def __new__(cls) -> Self:
        if cls.__dict__.get("_instance") is None:
            cls._instance = super().__new__(cls)
        instance: Self = cls._instance  # type: ignore[assignment]
        return instance

    def name(self) -> str:
        """Return ``"numpy"``."""
        return "numpy"

    @property
    def functions(self) -> Mapping[str, Callable[..., object]]:  # type: ignore[override]
        """The functions of `rtx_jax.backend.reference`, and those that manage tensors."""
        return _TABLE

    def _apply(self, operation: str, operands: tuple[np.ndarray | None, ...], params: Params = ()) -> np.ndarray:
        for x in operands:
            if x is not None and not isinstance(x, np.ndarray):
                if isinstance(x, HostValue):
                    return x.tape.call(OperationCall(self, operation, params), operands)
                raise self._not_a_tensor(operation, x)
        return super()._apply(operation, operands, params)

    def _next_key(self, operation: str) -> np.ndarray:
        tape = open_host_tape()
        if tape is None:
            return super()._next_key(operation)
        draw = super()._next_key
        return tape.draw(lambda: draw(operation))  # type: ignore[return-value]

    def _key_data(self, operation: str, key: object) -> np.ndarray:
        if isinstance(key, HostValue) and key.dtype == np.uint32 and key.shape == (2,):
            return key  # type: ignore[return-value]
        return super()._key_data(operation, key)

    def _index_values(self, indices: np.ndarray) -> np.ndarray | None:
        return None if isinstance(indices, HostValue) else super()._index_values(indices)


def _from_data(array: np.ndarray, device: object) -> np.ndarray:
    return array.copy()


def _tensor(operation: str, x: object) -> np.ndarray:
    if not isinstance(x, np.ndarray):
        if isinstance(x, HostValue):
            return np.asarray(x)  # raises: its elements are not known
        raise NumpyBackend()._not_a_tensor(operation, x)
    return x


def _to_data(x: np.ndarray) -> np.ndarray:
    return _tensor("to_data", x).reshape(-1).copy()


def _device(x: np.ndarray) -> Device:
    if not isinstance(x, HostValue):
        _tensor("device", x)
    return Device("numpy", 0)


def _to_device(x: np.ndarray, device: object) -> np.ndarray:
    return x if isinstance(x, HostValue) else _tensor("to_device", x)


def _sync(device: object) -> None:
    """Nothing runs behind the caller's back."""


_TABLE: Mapping[str, Callable[..., object]] = {
    **FUNCTIONS,
    "from_data": _from_data,
    "to_data": _to_data,
    "device": _device,
    "to_device": _to_device,
    "sync": _sync,
}
