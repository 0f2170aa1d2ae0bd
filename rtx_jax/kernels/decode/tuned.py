"""The measured block sizes of an implementation of decode attention."""

from __future__ import annotations

from .. import tuning
from ..target import Target
from .select import Implementation
from .spec import DecodeSpec

__all__ = ["default_blocks", "kernel_name", "shape_class", "tuned_blocks"]


def kernel_name(implementation: str, /) -> str:
    """Return the kernel's name in the file of measured sizes, as ``"decode.xla.forward"``."""
    return f"decode.{implementation}.forward"


def shape_class(spec: DecodeSpec, /) -> str:
    """Name what the best blocks of a call depend on: how the cache lies, its sizes, and how many rows read it."""
    cache = "" if spec.key_dtype == spec.dtype else spec.key_dtype.name
    left, right = spec.window
    sizes = {"keys": spec.keys, "size": spec.size, "value_size": spec.value_size}
    if left is not None and right is not None:
        sizes["window"] = min(left + right + spec.queries, spec.keys)
    if spec.page:
        sizes["page"] = spec.page
    sizes |= {"batch": spec.batch, "key_heads": spec.key_heads, "rows": spec.rows}
    return tuning.shape_class(spec.dtype.name, cache, spec.layout, **sizes)


def default_blocks(module: Implementation, spec: DecodeSpec, /) -> tuning.Blocks | None:
    """Return the blocks that a module takes by itself; None where it has none to choose."""
    chosen = getattr(module, "default_blocks", None)
    blocks: tuning.Blocks | None = None if chosen is None else chosen(spec)
    return blocks


def tuned_blocks(module: Implementation, spec: DecodeSpec, target: Target, /) -> tuning.Blocks | None:
    """Return the measured blocks of a call; None, which means the module's own choice, where nothing was measured.

    A number of parts that the caller chose is not a matter of measurement.
    """
    kernel, shapes, kind = kernel_name(module.NAME), shape_class(spec), target.kind or target.platform
    if spec.splits is not None or not tuning.has(kernel, kind, shapes):
        return None
    blocks = default_blocks(module, spec)
    return None if blocks is None else tuning.tuned(kernel, kind, shapes, blocks)
