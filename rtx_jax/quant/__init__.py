"""Quantized arrays: schemes, tensors with packed storage, and products that do not unpack the weight as a whole."""

from __future__ import annotations

from ..checks.quant import packed_shape
from .functions import dequantize, quantize
from .products import integer_matmul, qmatmul
from .schemes import Calibration, Granularity, PerBlock, PerChannel, PerTensor, QuantScheme
from .tensor import QTensor

__all__ = [
    "Calibration",
    "Granularity",
    "PerBlock",
    "PerChannel",
    "PerTensor",
    "QTensor",
    "QuantScheme",
    "dequantize",
    "integer_matmul",
    "packed_shape",
    "qmatmul",
    "quantize",
]
