"""Blocked attention in plain XLA: any device, every feature, memory that grows with the length alone.

The default on processors and on everything that has no kernel of its own, and the engine of derivatives beyond the
first for all.
"""

from __future__ import annotations

from ..target import Target
from .spec import AttentionSpec
from .tiles import Blocks, default_blocks
from .xla_backward import backward
from .xla_forward import forward

__all__ = ["NAME", "Blocks", "backward", "default_blocks", "forward", "unsupported"]

NAME = "xla"


def unsupported(spec: AttentionSpec, target: Target) -> list[str]:
    """Return why a call cannot run here: never."""
    return []
