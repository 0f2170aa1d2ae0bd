"""Runtimes: buffers, copies, events, captured graphs and raw handles of a device, below the operations.

`JaxRuntime` serves the devices of JAX, `NumpyRuntime` the host by NumPy alone; both keep one contract, `Runtime`.
"""

from __future__ import annotations

from ..backend.device import Device
from ..core.host_recorder import HostValue
from .allocator import AllocationStats, Allocator
from .base import Runtime
from .buffer import Buffer
from .capture import capture, capture_graph_into
from .client import Client
from .copies import PendingCopy
from .dtypes import DataType, DType, QDType
from .events import Event
from .graph import CapturedGraph, Graph
from .jax_runtime import JaxRuntime
from .kernels import Kernel
from .kernels_c import register_kernel_c
from .kernels_py import register_kernel_py
from .memory_plan import MemoryPlan
from .numpy_runtime import NumpyRuntime
from .output import Output
from .raw_handle import RawHandle, raw_handle
from .view import BufferView

__all__ = [
    "AllocationStats",
    "Allocator",
    "Buffer",
    "BufferView",
    "CapturedGraph",
    "Client",
    "DType",
    "DataType",
    "Device",
    "Event",
    "Graph",
    "HostValue",
    "JaxRuntime",
    "Kernel",
    "MemoryPlan",
    "NumpyRuntime",
    "Output",
    "PendingCopy",
    "QDType",
    "RawHandle",
    "Runtime",
    "capture",
    "capture_graph_into",
    "raw_handle",
    "register_kernel_c",
    "register_kernel_py",
]
