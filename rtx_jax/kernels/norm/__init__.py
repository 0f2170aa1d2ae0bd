"""RMS norm and layer norm: one face each, plain forms, and kernels of the backward pass for TPU and Hopper."""

from __future__ import annotations

from .face import layer_norm, rms_norm

__all__ = ["layer_norm", "rms_norm"]
