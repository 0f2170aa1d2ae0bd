"""Backends: model code that is written once, with the device chosen by choosing the backend.

`auto_select` gives the best backend that is here; `Backend` documents every operation.
"""

from __future__ import annotations

from .._array import Array as TensorHandle
from .autodiff import Autodiff, GradientHook, GradientMap, Hook, TrackedTensor
from .base import Backend
from .core import Tensor
from .device import Device, DeviceId, DeviceOps
from .elements import BoolElement, BoolU8, FloatElement, IntElement, element_of
from .fusion import Fusion
from .jax import CpuBackend, CudaBackend, JaxBackend, MetalBackend, RocmBackend, TpuBackend
from .numpy import NumpyBackend
from .operations import OPERATIONS, PRIMITIVES, Operation
from .protocols import ActivationOps, AttentionOps, KVCacheOps, ModuleOps, TensorOps
from .quantized import Propagation, Quantized
from .results import BackendResult, Err, Ok, attempt
from .select import Candidate, Explanation, auto_select, backend_of, explain
from .webgpu import WebGpuBackend
from .wrapper import Wrapper

__all__ = [
    "OPERATIONS",
    "PRIMITIVES",
    "ActivationOps",
    "AttentionOps",
    "Autodiff",
    "Backend",
    "BackendResult",
    "BoolElement",
    "BoolU8",
    "Candidate",
    "CpuBackend",
    "CudaBackend",
    "Device",
    "DeviceId",
    "DeviceOps",
    "Err",
    "Explanation",
    "FloatElement",
    "Fusion",
    "GradientHook",
    "GradientMap",
    "Hook",
    "IntElement",
    "JaxBackend",
    "KVCacheOps",
    "MetalBackend",
    "ModuleOps",
    "NumpyBackend",
    "Ok",
    "Operation",
    "Propagation",
    "Quantized",
    "RocmBackend",
    "Tensor",
    "TensorHandle",
    "TensorOps",
    "TpuBackend",
    "TrackedTensor",
    "WebGpuBackend",
    "Wrapper",
    "attempt",
    "auto_select",
    "backend_of",
    "element_of",
    "explain",
]
