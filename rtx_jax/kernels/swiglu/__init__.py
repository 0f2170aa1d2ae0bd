"""The gated unit of Llama: one face and a plain form at memory speed."""

from __future__ import annotations

from .face import swiglu

__all__ = ["swiglu"]
