"""Rotary position embedding: one face, a plain form at memory speed, and kernels for TPU and Hopper."""

from __future__ import annotations

from .face import rope
from .frequencies import Frequencies, LinearScaling, Llama3Scaling, Scaling, YarnScaling, rope_frequencies

__all__ = ["Frequencies", "LinearScaling", "Llama3Scaling", "Scaling", "YarnScaling", "rope", "rope_frequencies"]
