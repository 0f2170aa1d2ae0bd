"""Attention of few queries to a long cache of keys and values, contiguous or in pages."""

from __future__ import annotations

from .face import decode_attention, paged_attention

__all__ = ["decode_attention", "paged_attention"]
