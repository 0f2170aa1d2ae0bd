"""Attention on CUDA and ROCm by Pallas on Triton: forward, and backward without atomics.

It takes every feature of the specification but 64-bit numbers, at any length and head size. NaN and infinity in a value
may reach queries of the same tile, unless nobody sees it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import numpy as np

from ...errors import InvalidArgument
from ..target import Target
from .spec import AttentionSpec, Gradients, Operands

__all__ = ["NAME", "Blocks", "backward", "default_blocks", "forward", "unsupported"]

NAME = "pallas_triton"

_FLOAT8 = ("float8_e4m3fn", "float8_e5m2")


@dataclass(frozen=True, slots=True)
class Blocks:
    """Tiles and launch of the kernels of one direction.

    Attributes
    ----------
    query, key
        Queries and keys of a tile: powers of 2, of 16 at least.
    warps
        Warps of a program: 1, 2, 4, 8 or 16.
    stages
        Tiles in flight in the innermost loop.
    """

    query: int = 64
    key: int = 64
    warps: int = 4
    stages: int = 2

    def __post_init__(self) -> None:
        for name, least in (("query", 16), ("key", 16), ("warps", 1), ("stages", 1)):
            value = getattr(self, name)
            powers = name != "stages"
            if value < least or (powers and value & (value - 1)):
                wanted = f"{'a power of 2, ' if powers else ''}at least {least}"
                raise InvalidArgument("Blocks", name, got=value, wanted=wanted, arg=name, reason="not a size of tiles")


# By head size: up to 64, 128 and 256. Found by compiling for compute capability 8.9 and 9.0.
_DEFAULTS = {
    ("half", "forward"): (Blocks(128, 64, 4, 2), Blocks(128, 64, 8, 2), Blocks(64, 32, 8, 2)),
    ("half", "backward"): (Blocks(64, 64, 8, 2), Blocks(64, 64, 8, 2), Blocks(32, 32, 8, 2)),
    ("half, looks", "forward"): (Blocks(128, 64, 8, 2), Blocks(64, 64, 8, 2), Blocks(64, 32, 8, 2)),
    ("half, looks", "backward"): (Blocks(64, 64, 8, 2), Blocks(32, 64, 8, 2), Blocks(32, 32, 8, 2)),
    ("tensorfloat", "forward"): (Blocks(64, 32, 8, 2), Blocks(64, 32, 8, 2), Blocks(32, 16, 8, 1)),
    ("tensorfloat", "backward"): (Blocks(32, 32, 8, 2), Blocks(32, 32, 8, 1), Blocks(16, 16, 8, 1)),
    ("float32", "forward"): (Blocks(32, 32, 8, 1), Blocks(32, 32, 8, 1), Blocks(32, 16, 8, 1)),
    ("float32", "backward"): (Blocks(32, 32, 8, 1), Blocks(16, 16, 8, 1), Blocks(16, 16, 8, 1)),
}


def unsupported(spec: AttentionSpec, target: Target) -> list[str]:
    """Return why it cannot run this call on this device; nothing where it can, forward and backward."""
    reasons = []
    if target.platform not in ("cuda", "rocm"):
        reasons.append(f"Triton compiles for cuda and rocm, not for {target.platform}")
    if target.capability is not None and target.capability < (8, 0):
        have = ".".join(map(str, target.capability))
        reasons.append(f"Triton in XLA needs compute capability 8.0 or newer, this device has {have}")
    if spec.dtype.itemsize == 1:
        if spec.dtype.name not in _FLOAT8:
            reasons.append(f"dtype {spec.dtype.name}: of 8 bits, {' and '.join(_FLOAT8)} are taken")
        elif target.capability is not None and target.capability < (8, 9):
            reasons.append("8-bit floating point needs compute capability 8.9 or newer")
    elif spec.dtype.name not in ("float16", "bfloat16", "float32"):
        reasons.append(f"dtype {spec.dtype.name}: float16, bfloat16, float32 and 8-bit floating point are taken")
    if max(spec.size, spec.value_size) > 256:
        reasons.append(f"head size {max(spec.size, spec.value_size)}: at most 256")
    elif max(spec.size, spec.value_size) > 128 and spec.dtype == np.float32 and spec.precision != "default":
        reasons.append(f"head size above 128 with float32 products of {spec.precision} precision: too many registers")
    if 0 in (spec.batch, spec.queries, spec.keys, spec.heads, spec.key_heads, spec.size, spec.value_size):
        reasons.append("an axis has no elements")
    if spec.mask is not None and 2**31 < math.prod(spec.mask) <= 2**32:
        # Pallas counts bytes to choose the width of an index, and then counts elements with it.
        reasons.append("a mask of more than 2**31 elements, which Pallas would index with 32 bits")
    if spec.nan_safe:
        reasons.append("nan_safe: NaN in a value may reach other queries of its tile")
    if not reasons:
        from .. import _triton

        if not _triton.is_available():
            reasons.append(f"JAX {jax.__version__} has no Pallas on Triton")
    return reasons


def default_blocks(spec: AttentionSpec, direction: str = "forward", /) -> Blocks:
    """Return the blocks for one direction, ``"forward"`` or ``"backward"``, where nothing was measured.

    They fit the 99 KiB of shared memory that cards of compute capability 8.6 and 8.9 have, and no kernel spills
    registers.
    """
    size = max(spec.size, spec.value_size)
    column = 0 if size <= 64 else 1 if size <= 128 else 2
    # A mask or a bias, or the table of segments, takes registers of its own.
    looks = spec.segments or spec.mask is not None or spec.bias is not None
    if spec.dtype != np.float32:
        kind = "half, looks" if looks else "half"
    else:
        kind = "tensorfloat" if spec.precision == "default" else "float32"
    return _DEFAULTS[kind, direction][column]


def _sized(spec: AttentionSpec, blocks: Blocks) -> tuple[int, int, int, int]:
    """Return the blocks as numbers, none larger than its axis needs."""
    from .. import _triton

    rows, columns = min(blocks.query, _triton.padded(spec.queries)), min(blocks.key, _triton.padded(spec.keys))
    return rows, columns, blocks.warps, blocks.stages


def forward(
    spec: AttentionSpec, operands: Operands, *, blocks: Blocks | None = None, interpret: bool = False
) -> tuple[jax.Array, jax.Array]:
    """Return the attention, in the layout and dtype of the queries, and the log-sum-exp ``(B, N, T)`` in float32.

    Parameters
    ----------
    blocks
        Tiles and launch; those of `default_blocks` where None.
    interpret
        Whether to run the kernel as ordinary JAX operations, on any device.
    """
    # Pallas takes long to import, and most programs never need it.
    from . import pallas_triton_forward

    return pallas_triton_forward.run(
        spec, operands, *_sized(spec, blocks or default_blocks(spec, "forward")), interpret
    )


def backward(
    spec: AttentionSpec,
    operands: Operands,
    out: jax.Array,
    lse: jax.Array,
    d_out: jax.Array,
    d_lse: jax.Array,
    *,
    bias: bool = False,
    sinks: bool = False,
    blocks: Blocks | None = None,
    interpret: bool = False,
) -> Gradients:
    """Return the cotangents of the operands; of bias and sinks where asked for.

    Parameters
    ----------
    out, lse
        Results of `forward`.
    d_out, d_lse
        Their cotangents.
    blocks, interpret
        As for `forward`.
    """
    from . import pallas_triton_backward

    sizes = _sized(spec, blocks or default_blocks(spec, "backward"))
    return pallas_triton_backward.run(spec, operands, out, lse, d_out, d_lse, bias, sinks, *sizes, interpret)
