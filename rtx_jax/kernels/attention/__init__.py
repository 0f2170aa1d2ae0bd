"""Attention: one face, and implementations for any device, CUDA, ROCm and TPU."""

from ..target import Target
from .face import flash_attention
from .select import IMPLEMENTATIONS, check_word, explain
from .spec import AttentionSpec, Gradients, Operands

__all__ = [
    "IMPLEMENTATIONS",
    "AttentionSpec",
    "Gradients",
    "Operands",
    "Target",
    "check_word",
    "explain",
    "flash_attention",
]
