"""Softmax cross-entropy of a linear layer's output that is never held as a whole."""

from __future__ import annotations

from .face import cross_entropy

__all__ = ["cross_entropy"]
