"""Sizes of the Hopper kernels: blocks, turns of the rings, and what of them fits in shared memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from ...errors import InvalidArgument
from .pallas_mosaic_gpu_key_gradient import key_tile
from .pallas_mosaic_gpu_tiles import ROWS, Shape, broadcast_kind
from .spec import AttentionSpec

__all__ = ["TILE", "Blocks", "default_blocks", "forward_shape", "key_gradient_shape", "query_gradient_shape"]

TILE = 2 * ROWS
"""Queries, and mostly keys, of one block of a grid."""
# What a block may have of an H100's or H200's shared memory, less what barriers and sums of rows need.
_SHARED_BYTES = 232448 - 4096
_PADDED_SIZE = 16
_POSITIONS = (32, 64, 128)


@dataclass(frozen=True, slots=True)
class Blocks:
    """Sizes of the kernels' steps: 32, 64 or 128 positions, and how many steps are in flight, 1 to 8.

    Attributes
    ----------
    key, stages
        Of the forward pass: keys of a step.
    query_gradient_key, query_gradient_stages
        Of the gradient of the queries: keys of a step.
    key_gradient_query, key_gradient_stages
        Of the gradients of keys and values: queries of a step.
    """

    key: int = 128
    stages: int = 2
    query_gradient_key: int = 64
    query_gradient_stages: int = 2
    key_gradient_query: int = 64
    key_gradient_stages: int = 2

    def __post_init__(self) -> None:
        """Refuse what no step can have."""
        for field in fields(self):
            size = getattr(self, field.name)
            stages = field.name.endswith("stages")
            if size not in (range(1, 9) if stages else _POSITIONS):
                wanted = "1 to 8" if stages else "32, 64 or 128"
                raise InvalidArgument("Blocks", field.name, got=size, wanted=wanted, arg=field.name, reason=wanted)


def default_blocks(spec: AttentionSpec) -> Blocks:
    """Return sizes that are good on an H100: the largest that leave two turns of each ring, and registers enough."""
    base = _base(spec)
    wide = max(base.size, base.value_size)

    def forward(key: int, stages: int) -> int:
        resident = TILE * (base.size + (base.value_size if base.value_size != base.size else 0)) * 2
        pairs = TILE * key * _pair_bytes(base)
        return resident + stages * (key * (base.size + base.value_size) * 2 + pairs)

    def query_gradient(key: int, stages: int) -> int:
        # The gradient of a bias has a place beside the ring.
        rows = TILE * (base.size + base.value_size) * 2 + TILE * key * (4 if base.bias == "tile" else 0)
        return rows + stages * (key * (base.size + base.value_size) * 2 + TILE * key * _pair_bytes(base))

    tile = key_tile(base)

    def key_gradient(query: int, stages: int) -> int:
        turn = query * (base.size + base.value_size + 4) * 2 + tile * query * _pair_bytes(base)
        return tile * (base.size + base.value_size) * 2 + stages * turn

    # What a warpgroup holds of a gradient leaves little room for scores where heads are wide.
    narrow = (3, 2, 1) if wide <= 64 else (2, 1)
    pairs = "tile" in (base.bias, base.mask)
    queries = (128, 64, 32) if wide <= 64 and not pairs else (64, 32) if wide <= 128 else (32,)
    return Blocks(
        *_first(forward, (128, 64, 32) if wide <= 192 else (64, 32), narrow),
        *_first(query_gradient, queries, narrow),
        *_first(key_gradient, (64, 32) if wide <= 128 else (32,), (3, 2, 1)),
    )


def _first(bytes_of: Callable[[int, int], int], sizes: Sequence[int], stages: Sequence[int]) -> tuple[int, int]:
    """Return the first pair of a size and a number of stages that fits; rather a smaller size than one stage."""
    pairs = [(size, turns) for few in (False, True) for size in sizes for turns in stages if (turns == 1) == few]
    return next((pair for pair in pairs if bytes_of(*pair) <= _SHARED_BYTES), pairs[-1])


def forward_shape(spec: AttentionSpec, blocks: Blocks, interpret: bool) -> Shape:
    """Return the padded sizes of the forward pass."""
    keys = _up(spec.keys, blocks.key)
    stages = min(blocks.stages, keys // blocks.key)
    return replace(_base(spec), keys=keys, block_k=blocks.key, stages=stages, interpret=interpret)


def query_gradient_shape(spec: AttentionSpec, blocks: Blocks, interpret: bool) -> Shape:
    """Return the padded sizes of the gradient of the queries."""
    keys, block = _up(spec.keys, TILE), blocks.query_gradient_key
    stages = min(blocks.query_gradient_stages, keys // block)
    return replace(_base(spec), keys=keys, block_k=block, stages=stages, interpret=interpret)


def key_gradient_shape(spec: AttentionSpec, blocks: Blocks, interpret: bool) -> Shape:
    """Return the padded sizes of the gradients of keys and values."""
    keys, block = _up(spec.keys, TILE), blocks.key_gradient_query
    return replace(_base(spec), keys=keys, block_q=block, stages=blocks.key_gradient_stages, interpret=interpret)


def _base(spec: AttentionSpec) -> Shape:
    return Shape(
        spec,
        queries=_up(spec.queries, TILE),
        keys=spec.keys,
        size=_up(spec.size, _PADDED_SIZE),
        value_size=_up(spec.value_size, _PADDED_SIZE),
        block_q=ROWS,
        block_k=ROWS,
        stages=1,
        bias=broadcast_kind(spec.bias),
        mask=broadcast_kind(spec.mask),
    )


def _pair_bytes(shape: Shape) -> int:
    """Return the bytes of mask and bias for each pair of a tile."""
    bias = 0 if shape.bias != "tile" else 2 if np.dtype(shape.spec.bias_dtype).itemsize == 2 else 4
    return bias + (shape.mask == "tile")


def _up(x: int, block: int) -> int:
    return -(-x // block) * block
