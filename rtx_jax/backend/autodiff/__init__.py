"""`Autodiff`: gradients of eager code, around a backend of JAX."""

from __future__ import annotations

from .backend import Autodiff
from .gradient_map import GradientMap
from .hooks import GradientHook, Hook
from .tensor import TrackedTensor

__all__ = ["Autodiff", "GradientHook", "GradientMap", "Hook", "TrackedTensor"]
