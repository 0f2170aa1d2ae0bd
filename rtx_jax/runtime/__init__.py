"""Runtimes: buffers, copies, events, captured graphs and raw handles of a device, below the operations.

`JaxRuntime` serves the devices of JAX, `NumpyRuntime` the host by NumPy alone; both keep one contract, `Runtime`.
"""

from __future__ import annotations

from ..backend.device import Device
from .allocator import AllocationStats, Allocator
from .base import Runtime
from .buffer import Buffer, BufferView
from .client import Client
from .copies import PendingCopy
from .dtypes import DataType, DType, QDType
from .events import Event
from .jax_runtime import JaxRuntime
from .numpy_runtime import NumpyRuntime

__all__ = [
    "AllocationStats",
    "Allocator",
    "Buffer",
    "BufferView",
    "Client",
    "DType",
    "DataType",
    "Device",
    "Event",
    "JaxRuntime",
    "NumpyRuntime",
    "PendingCopy",
    "QDType",
    "Runtime",
]
