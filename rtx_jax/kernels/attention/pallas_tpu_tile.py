"""What the TPU kernels share: how blocks are fetched, and the scores of one tile.

A tile of scores has its keys along the sublanes and its queries along the lanes. Statistics of queries are then rows
``(1, block)``, which take no more memory than they hold, their reductions run over sublanes, and no product needs
more than one operand of block by head size transposed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from .pallas_tpu_tiles import FAR, KIND_MASK, MAJOR_SHIFT, MINOR_MASK, TileList
from .spec import AttentionSpec, Operands

__all__ = [
    "LANES",
    "LOG2E",
    "Fetch",
    "Indices",
    "Place",
    "Plan",
    "column",
    "compiler_params",
    "contract",
    "entry",
    "finite",
    "for_parts",
    "group_of",
    "key_head",
    "part_keys",
    "part_touched",
    "rows_spec",
    "shape_scores",
    "side_inputs",
    "tile_bias",
    "tile_keep",
    "vector_spec",
]

LANES = 128
LOG2E = math.log2(math.e)
_NEGATIVE_INFINITY = -math.inf

Ref: TypeAlias = Any
Scalar: TypeAlias = "jax.Array | int"
Indices: TypeAlias = tuple[Any, Any, Any]
Fetch: TypeAlias = "Callable[..., tuple[Any, Any, Any, Any]]"
"""From the place in the grid and the scalars to row of the batch, query head, query block and key block."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The static side of one kernel.

    Attributes
    ----------
    spec
        The call, in layout ``"BNTH"`` unless `flat`.
    block_q, block_k
        Queries and keys of a tile, multiples of 128.
    compute
        Keys of a tile that are computed at once; divides `block_k`.
    flat
        Whether arrays are ``(B, T, N * H)``, not ``(B, N, T, H)``: the layout ``"BTNH"`` without a copy, where head
        sizes are whole lanes.
    vmem_bytes
        Room that the kernel may take of the memory of a core.
    interpret
        What `pallas_call` takes.
    """

    spec: AttentionSpec
    block_q: int
    block_k: int
    compute: int
    flat: bool
    vmem_bytes: int
    interpret: Any

    @property
    def query_blocks(self) -> int:
        """Blocks of queries."""
        return -(-self.spec.queries // self.block_q)

    @property
    def key_blocks(self) -> int:
        """Blocks of keys."""
        return -(-self.spec.keys // self.block_k)

    @property
    def raw(self) -> bool:
        """Whether statistics are of products before the scale, which then costs nothing."""
        return self.spec.softcap is None and self.spec.bias is None and self.spec.scale > 0

    @property
    def unit(self) -> float:
        """What statistics are to be multiplied by."""
        return self.spec.scale if self.raw else 1.0

    @property
    def exponent(self) -> float:
        """The factor of differences of scores in powers of 2."""
        return self.unit * LOG2E

    @property
    def precision(self) -> lax.Precision | None:
        """Of the products; what is not float32 needs none."""
        exact = self.spec.dtype == np.float32 and self.spec.precision != "default"
        return lax.Precision.HIGHEST if exact else None


class Place(NamedTuple):
    """Where a tile lies: its blocks, and the numbers of its row of the batch."""

    i: jax.Array
    j: jax.Array
    offset: jax.Array
    queries: jax.Array
    keys: jax.Array

    @classmethod
    def of(cls, numbers: Ref, batch: int, b: jax.Array, i: jax.Array, j: jax.Array) -> Place:
        """Read the numbers of row `b`, as `row_numbers` writes them."""
        return cls(i, j, numbers[b], numbers[batch + b], numbers[2 * batch + b])


def contract(plan: Plan, a: jax.Array, b: jax.Array, over: tuple[int, int]) -> jax.Array:
    """Return the product of two matrices summed over one axis of each, in float32."""
    return lax.dot_general(
        a, b, (((over[0],), (over[1],)), ((), ())), precision=plan.precision, preferred_element_type=jnp.float32
    )


def finite(x: jax.Array) -> jax.Array:
    """Return `x` with 0 for NaN and infinities."""
    wide = x.astype(jnp.float32)
    return jnp.where(jnp.abs(wide) < math.inf, wide, 0.0).astype(x.dtype)


def column(row: jax.Array) -> jax.Array:
    """Turn ``(1, n)``, 32 bits wide, into ``(n, 1)``."""
    return jnp.transpose(jnp.broadcast_to(row, (LANES, row.shape[1])))[:, :1]


def compiler_params(grid: int, sequential: int, vmem_bytes: int) -> Any:
    """Return parameters for a grid whose last `sequential` axes run in order, with room for `vmem_bytes` of blocks."""
    order = [pltpu.PARALLEL] * (grid - sequential) + [pltpu.ARBITRARY] * sequential
    return pltpu.CompilerParams(dimension_semantics=order, vmem_limit_bytes=vmem_bytes)


# --- fetching -------------------------------------------------------------------------------------------------------


def group_of(tiles: TileList, b: Scalar, head: Scalar) -> Scalar:
    """Return which list is that of row `b` and key head `head`."""
    return (b if tiles.batch > 1 else 0) * tiles.heads + (head if tiles.heads > 1 else 0)


def key_head(plan: Plan, head: Scalar) -> Scalar:
    """Return the key head that query head `head` reads."""
    # The floor division of Python numbers asks for signs, which scalar cores of some generations do not have.
    return lax.div(head, jnp.int32(plan.spec.group)) if plan.spec.group > 1 else head


def entry(
    tiles: TileList, codes: Ref, counts: Ref, group: Scalar, step: Scalar
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return major block, minor block and kind at `step`, of the last tile after the end."""
    code = codes[group * tiles.length + jnp.minimum(step, counts[group] - 1)]
    return code >> MAJOR_SHIFT, (code >> 2) & MINOR_MASK, code & KIND_MASK


def rows_spec(plan: Plan, rows: int, size: int, index: Callable[..., Indices]) -> pl.BlockSpec:
    """Return how blocks of rows of one head come; `index` gives row of the batch, head and block."""
    if plan.flat:

        def flat(*where: Any) -> tuple[Scalar, Scalar, Scalar]:
            b, n, i = index(*where)
            return b, i, n

        return pl.BlockSpec((None, rows, size), flat)

    def split(*where: Any) -> tuple[Any, Any, Any, Any]:
        b, n, i = index(*where)
        return b, n, i, 0

    return pl.BlockSpec((None, None, rows, size), split)


def vector_spec(rows: int, length: int, index: Callable[..., Indices]) -> pl.BlockSpec:
    """Return how blocks of ``(B, N, rows, T)`` come, all of its rows at once."""

    def split(*where: Any) -> tuple[Any, Any, Any, Any]:
        b, n, i = index(*where)
        return b, n, 0, i

    return pl.BlockSpec((None, None, rows, length), split)


def side_inputs(plan: Plan, operands: Operands, at: Fetch) -> dict[str, tuple[jax.Array, pl.BlockSpec]]:
    """Return segments, mask and bias as the kernels take them, each with its blocks."""
    spec = plan.spec
    found: dict[str, tuple[jax.Array, pl.BlockSpec]] = {}
    if spec.segments and operands.segment_ids is not None and operands.key_segment_ids is not None:
        for name, ids, length, axis in (
            ("segments", operands.segment_ids, plan.block_q, 2),
            ("key_segments", operands.key_segment_ids, plan.block_k, 3),
        ):
            array = ids.astype(jnp.int32)[:, None, None, :]
            found[name] = (array, vector_spec(1, length, _broadcasting(at, array.shape, axis)))
    if spec.mask and operands.mask is not None:
        full = 1 not in spec.mask[2:]
        found["mask"] = _pair(plan, operands.mask.astype(jnp.int8 if full else jnp.int32), at)
    if spec.bias and operands.bias is not None:
        full = 1 not in spec.bias[2:]
        keeps = full and operands.bias.dtype in (jnp.bfloat16, jnp.float32)
        found["bias"] = _pair(plan, operands.bias if keeps else operands.bias.astype(jnp.float32), at)
    return found


def _pair(plan: Plan, array: jax.Array, at: Fetch) -> tuple[jax.Array, pl.BlockSpec]:
    """Return what belongs to pairs of query and key: as it is, or as a row where it has one of the two axes."""
    b, n, t, s = array.shape
    if t != 1 and s != 1:
        batch, heads = b > 1, n > 1

        def index(*where: Any) -> tuple[Any, Any, Any, Any]:
            row, head, i, j = at(*where)
            return row if batch else 0, head if heads else 0, i, j

        return array, pl.BlockSpec((None, None, plan.block_q, plan.block_k), index)
    if s != 1:
        return array, vector_spec(1, plan.block_k, _broadcasting(at, array.shape, 3))
    array = jnp.broadcast_to(array.reshape(b, n, 1, t), (b, n, 1, plan.spec.queries))
    return array, vector_spec(1, plan.block_q, _broadcasting(at, array.shape, 2))


def _broadcasting(at: Fetch, shape: tuple[int, ...], axis: int) -> Callable[..., Indices]:
    batch, heads = shape[0] > 1, shape[1] > 1

    def index(*where: Any) -> Indices:
        found = at(*where)
        return found[0] if batch else 0, found[1] if heads else 0, found[axis]

    return index


# --- one tile -------------------------------------------------------------------------------------------------------


def shape_scores(plan: Plan, products: jax.Array) -> tuple[jax.Array, jax.Array | None]:
    """Return scores before the bias, and the hyperbolic tangent that a softcap took."""
    spec = plan.spec
    scores = products * spec.scale
    if spec.softcap is None:
        return scores, None
    tangent = jnp.tanh(scores * (1.0 / spec.softcap))
    return spec.softcap * tangent, tangent


def for_parts(plan: Plan, body: Callable[[jax.Array], None], *, unroll: bool) -> None:
    """Run `body` for each part of a tile; two at a time, if `unroll`, so that products and exponentials overlap."""
    number = plan.block_k // plan.compute
    together = 2 if unroll and number % 2 == 0 else 1
    lax.fori_loop(0, number, lambda part, _: body(part), None, unroll=together)


def part_keys(plan: Plan, part: jax.Array) -> Any:
    """Return the keys of part `part` in a block."""
    return pl.ds(pl.multiple_of(part * plan.compute, plan.compute), plan.compute)


def tile_bias(plan: Plan, refs: Mapping[str, Ref], part: jax.Array) -> jax.Array | None:
    """Return the bias of part `part` of a tile, to broadcast to ``(compute, block_q)``."""
    return _pair_part(plan, refs, "bias", plan.spec.bias, part, jnp.float32)


def tile_keep(plan: Plan, refs: Mapping[str, Ref], place: Place, part: jax.Array, bias: jax.Array | None) -> jax.Array:
    """Return which pairs of part `part` of a tile see each other, bool ``(compute, block_q)``."""
    spec = plan.spec
    shape = (plan.compute, plan.block_q)
    s, t = (lax.broadcasted_iota(jnp.int32, shape, axis) for axis in (0, 1))
    first_s = place.j * plan.block_k + part * plan.compute
    first_t = place.i * plan.block_q
    parts = []
    if spec.key_lengths or spec.keys % plan.block_k:
        parts.append(s < place.keys - first_s)
    if spec.query_lengths or spec.queries % plan.block_q:
        parts.append(t < place.queries - first_t)
    left, right = (None if side is None else min(side, FAR) for side in spec.window)
    ahead, diagonal = s - t, place.offset + first_t - first_s
    if right is not None:
        parts.append(ahead <= diagonal + right)
    if left is not None:
        parts.append(ahead >= diagonal - left)
    if spec.segments:
        parts.append(column(refs["key_segments"][:, part_keys(plan, part)]) == refs["segments"][...])
    mask = _pair_part(plan, refs, "mask", spec.mask, part, jnp.int32)
    if mask is not None:
        parts.append(jnp.broadcast_to(mask, shape) != 0)
    if bias is not None:
        parts.append(jnp.broadcast_to(bias, shape) != _NEGATIVE_INFINITY)
    return functools.reduce(jnp.logical_and, parts)


def part_touched(plan: Plan, place: Place, part: jax.Array) -> jax.Array:
    """Say whether positions alone let a query of the tile see a key of part `part`."""
    first_s = place.j * plan.block_k + part * plan.compute
    first_t = place.i * plan.block_q
    touched = first_s < place.keys
    left, right = (None if side is None else min(side, FAR) for side in plan.spec.window)
    if right is not None:
        touched &= first_s <= first_t + (plan.block_q - 1) + place.offset + right
    if left is not None:
        touched &= first_s + (plan.compute - 1) >= first_t + place.offset - left
    return touched


def _pair_part(
    plan: Plan, refs: Mapping[str, Ref], name: str, shape: tuple[int, int, int, int] | None, part: jax.Array, dtype: Any
) -> jax.Array | None:
    if shape is None:
        return None
    if shape[3] == 1:
        row: jax.Array = refs[name][...]
        return row
    block = refs[name][:, part_keys(plan, part)].astype(dtype)
    return column(block) if shape[2] == 1 else jnp.transpose(block)
