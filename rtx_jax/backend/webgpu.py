"""`WebGpuBackend`: says why the browser's GPU runs no eager operations."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from ..errors import BackendUnavailable
from .base import Backend
from .core import Params
from .device import Device

__all__ = ["WebGpuBackend"]

_REASON = "JAX has no PJRT plugin for WebGPU, so single operations cannot run there"


class WebGpuBackend(Backend[np.ndarray]):
    """The browser's GPU. It runs exported programs as a whole; every operation here raises `BackendUnavailable`."""

    def name(self) -> str:
        """Return ``"webgpu"``."""
        return "webgpu"

    def is_available(self) -> bool:
        """Return False."""
        return False

    def devices(self) -> list[Device]:
        """Raise BackendUnavailable."""
        self._refuse("devices")

    def default_device(self) -> Device:
        """Raise BackendUnavailable."""
        self._refuse("default_device")

    def supports_dtype(self, dtype: np.dtype, device: object = None) -> bool:
        """Tell whether WebGPU's shaders have the dtype: float32, float16 and 32-bit integers."""
        return dtype.name in ("float32", "float16", "int32", "uint32")

    def _device(self, operation: str, device: object) -> NoReturn:
        self._refuse(operation)

    def _function(self, name: str) -> NoReturn:
        self._refuse(name)

    def _apply(self, operation: str, operands: tuple[np.ndarray | None, ...], params: Params = ()) -> NoReturn:
        self._refuse(operation)

    def _refuse(self, operation: str) -> NoReturn:
        raise BackendUnavailable(
            operation,
            "",
            got="the backend 'webgpu'",
            wanted="a backend that runs single operations",
            remedy=f"{_REASON}. Use auto_select() here, and export the whole program for the browser.",
            backend="webgpu",
            reason=_REASON,
        )
