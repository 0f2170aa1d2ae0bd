"""Backends: model code that is written once, with the device chosen by choosing the backend."""

from __future__ import annotations

from .base import Backend
from .core import Tensor
from .device import Device, DeviceId, DeviceOps
from .jax import CpuBackend, CudaBackend, JaxBackend, MetalBackend, RocmBackend, TpuBackend
from .operations import OPERATIONS, PRIMITIVES, Operation

__all__ = [
    "OPERATIONS",
    "PRIMITIVES",
    "Backend",
    "CpuBackend",
    "CudaBackend",
    "JaxBackend",
    "MetalBackend",
    "RocmBackend",
    "TpuBackend",
    "Device",
    "DeviceId",
    "DeviceOps",
    "Operation",
    "Tensor",
]
