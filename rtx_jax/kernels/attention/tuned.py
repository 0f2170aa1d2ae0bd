"""The measured block sizes of an implementation of attention."""

from __future__ import annotations

import inspect

from .. import tuning
from ..target import Target
from .select import Implementation
from .spec import AttentionSpec

__all__ = ["default_blocks", "kernel_name", "shape_class", "tuned_blocks"]


def kernel_name(implementation: str, direction: str, /) -> str:
    """Return the kernel's name in the file of measured sizes, as ``"attention.xla.forward"``."""
    return f"attention.{implementation}.{direction}"


def shape_class(spec: AttentionSpec, /) -> str:
    """Name what the best blocks of a call depend on: lengths and sizes, and what is computed for each tile."""
    left, right = spec.window
    pattern = "full" if left is None and right is None else "causal" if left is None and right == 0 else "window"
    extras = [name for name in ("mask", "bias", "softcap") if getattr(spec, name) is not None]
    if spec.segments:
        extras.append("segments")
    sizes = {"queries": spec.queries, "keys": spec.keys, "size": spec.size, "value_size": spec.value_size}
    if pattern == "window":
        # As far as the window reaches, blocks need not be larger.
        sizes["window"] = min((left or 0) + (right or 0) + 1 if None not in spec.window else spec.keys, spec.keys)
    return tuning.shape_class(spec.dtype.name, pattern, *extras, **sizes, group=spec.group)


def default_blocks(module: Implementation, spec: AttentionSpec, direction: str, /) -> tuning.Blocks | None:
    """Return the blocks that a module takes by itself; None where it has none to choose."""
    chosen = getattr(module, "default_blocks", None)
    if chosen is not None:
        takes_direction = len(inspect.signature(chosen).parameters) > 1
        blocks: tuning.Blocks = chosen(spec, direction) if takes_direction else chosen(spec)
        return blocks
    made = getattr(module, "Blocks", None)
    return None if made is None else made()


def tuned_blocks(
    module: Implementation, spec: AttentionSpec, target: Target, direction: str, /
) -> tuning.Blocks | None:
    """Return the measured blocks of a call; None, which means the module's own choice, where nothing was measured.

    Parameters
    ----------
    module
        The implementation.
    spec, target
        The call and the device.
    direction
        ``"forward"`` or ``"backward"``.
    """
    kernel, shapes = kernel_name(module.NAME, direction), shape_class(spec)
    kind = target.kind or target.platform
    if not tuning.has(kernel, kind, shapes):
        return None
    blocks = default_blocks(module, spec, direction)
    return None if blocks is None else tuning.tuned(kernel, kind, shapes, blocks)
