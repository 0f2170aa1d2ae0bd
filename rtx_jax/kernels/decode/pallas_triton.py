"""Decode attention on Triton, for CUDA and ROCm: one program for each key head of each row and each part of its keys.

Flash-decoding: one query gives no work to spread over a GPU, so that the keys that a head sees are split into parts of
equal size, however many those are, and the parts are merged by their log-sum-exp. Pages are read where they lie: the
table becomes addresses. An int8 or float8 cache is widened in registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from ...errors import InvalidArgument
from .. import _triton as triton
from ..target import Target
from .plain import scores_of
from .ranges import row_range, union_range
from .spec import DecodeOperands, DecodeSpec, Partial, is_quantized
from .splits import safe_top

__all__ = ["NAME", "Blocks", "default_blocks", "partial", "unsupported"]

NAME = "pallas_triton"

_MAX_ROWS = 64
_PROGRAMS = 264
"""Programs that keep a large GPU busy: two for each of the 132 multiprocessors of a Hopper."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """How the kernel is cut and launched.

    Attributes
    ----------
    keys
        Positions of a tile, a power of 2 of at least 16.
    splits
        Parts that the keys of a head are split into.
    warps, stages
        Warps of a program, and tiles in flight.
    """

    keys: int
    splits: int
    warps: int = 4
    stages: int = 2

    def __post_init__(self) -> None:
        for name, least in (("keys", 16), ("splits", 1), ("warps", 1), ("stages", 1)):
            value = getattr(self, name)
            powers = name in ("keys", "warps")
            if value < least or (powers and value & (value - 1)):
                wanted = f"{'a power of 2, ' if powers else ''}at least {least}"
                raise InvalidArgument("Blocks", name, got=value, wanted=wanted, arg=name, reason="not a size of tiles")


def unsupported(spec: DecodeSpec, target: Target) -> list[str]:
    """Return why this implementation cannot do a call, in words; empty when it can."""
    reasons = []
    if target.platform not in ("cuda", "rocm"):
        reasons.append(f"Triton is for CUDA and ROCm, and this is {target.platform or 'for several platforms'}")
    elif not triton.is_available():
        reasons.append("this version of JAX has no Pallas on Triton")
    if target.capability is not None and target.capability < (7, 5):
        reasons.append(f"it needs compute capability 7.5, and this device has {target.capability}")
    elif target.capability is not None and target.capability < (8, 0) and spec.factors.name == "bfloat16":
        reasons.append(f"bfloat16 needs compute capability 8.0, and this device has {target.capability}")
    if spec.accumulator.itemsize == 8:
        reasons.append("float64 is not implemented")
    if spec.rows > _MAX_ROWS:
        reasons.append(f"{spec.rows} rows of queries share a key head, more than {_MAX_ROWS}")
    if max(spec.size, spec.value_size) > 512:
        reasons.append("the head size is more than 512")
    if 0 in (spec.batch, spec.queries, spec.keys, spec.heads, spec.size, spec.value_size):
        reasons.append("an operand is empty")
    for dtype, size in ((spec.key_dtype, spec.size), (spec.value_dtype, spec.value_size)):
        # JAX counts addresses of arrays up to 4 GiB in 32 bits with a sign.
        count = spec.pages * spec.page * spec.key_heads * size
        if dtype.itemsize == 1 and 2**31 <= count <= 2**32:
            reasons.append(f"a pool of {count} elements of {dtype.name} is between 2 and 4 GiB")
    for dtype in {spec.key_dtype, spec.value_dtype}:
        if is_quantized(dtype) and dtype.name not in ("int8", *_float8(target)):
            reasons.append(f"{target.kind or target.platform} does not convert {dtype.name}")
    return reasons


def _float8(target: Target) -> tuple[str, ...]:
    if target.platform == "rocm":
        return ("float8_e4m3fnuz", "float8_e5m2fnuz")
    if target.capability is not None and target.capability < (8, 9):
        return ("float8_e5m2",)
    return ("float8_e4m3fn", "float8_e5m2")


def default_blocks(spec: DecodeSpec) -> Blocks:
    """Return the tile and the number of parts for a call."""
    size = triton.padded(max(spec.size, spec.value_size))
    width = size * spec.factors.itemsize
    keys = 128 if width <= 128 else 64 if width <= 256 else 32 if width <= 512 else 16
    left, right = spec.window
    seen = spec.keys if left is None or right is None else min(spec.keys, left + right + spec.queries)
    splits = spec.splits
    if splits is None:
        # A part has four tiles or more, or merging costs more than it gains.
        wanted = -(-_PROGRAMS // (spec.batch * spec.key_heads))
        splits = max(1, min(wanted, triton.blocks_of(seen, 4 * keys), 128))
    return Blocks(keys, splits)


def partial(
    spec: DecodeSpec, operands: DecodeOperands, *, blocks: Blocks | None = None, interpret: bool = False
) -> Partial:
    """Return the softmax over the keys in ``blocks.splits`` parts.

    Parameters
    ----------
    blocks
        The tile and the parts; None chooses.
    interpret
        Whether to run as ordinary JAX operations, on any device.
    """
    blocks = default_blocks(spec) if blocks is None else blocks
    tile = _Tile(spec, blocks)
    given = {name: (x, tile.seen(name, x)) for name, x in operands._asdict().items() if x is not None}
    given.pop("sinks", None)
    names = [*given, "acc", "m", "total"]

    def kernel(*refs: jax.Array) -> None:
        _attend(tile, dict(zip(names, refs, strict=True)))

    lead = (blocks.splits, spec.batch, spec.key_heads)
    whole = (None, None, None, tile.rows)
    results = [
        (
            jax.ShapeDtypeStruct((*lead, tile.rows, tile.value_size), np.float32),
            pl.BlockSpec((*whole, tile.value_size), lambda p, k, b: (p, b, k, 0, 0)),
        ),
        *(
            (jax.ShapeDtypeStruct((*lead, tile.rows), np.float32), pl.BlockSpec(whole, lambda p, k, b: (p, b, k, 0)))
            for _ in range(2)
        ),
    ]
    acc, m, total = triton.call(
        kernel,
        triton.Launch((blocks.splits, spec.key_heads, spec.batch), blocks.warps, blocks.stages),
        list(given.values()),
        results,
        name="rtx_decode_attention",
        interpret=interpret,
    )
    return Partial(acc[..., : spec.rows, : spec.value_size], m[..., : spec.rows], total[..., : spec.rows])


@dataclass(frozen=True, slots=True)
class _Tile:
    """How a program sees its operands."""

    spec: DecodeSpec
    blocks: Blocks

    @property
    def rows(self) -> int:
        return triton.padded(self.spec.rows)

    @property
    def size(self) -> int:
        return triton.padded(self.spec.size)

    @property
    def value_size(self) -> int:
        return triton.padded(self.spec.value_size)

    def seen(self, name: str, x: jax.Array) -> pl.BlockSpec:
        """Return the block of an operand that a program sees; the grid is (parts, K, B)."""
        spec = self.spec
        if name in ("lengths", "offsets"):
            return pl.BlockSpec((1, 1), lambda p, k, b: (b, k))
        if name == "table":
            return pl.BlockSpec((None, x.shape[1]), lambda p, k, b: (b, 0))
        if name == "factor":
            return pl.BlockSpec((None, None, self.rows), lambda p, k, b: (b, k, 0))
        if name == "query":
            return pl.BlockSpec((None, None, self.rows, self.size), lambda p, k, b: (b, k, 0, 0))
        last = (self.size if name == "key" else self.value_size,) if x.ndim == 4 else ()
        zeros = (0,) * len(last)
        lead = spec.pages if spec.page else None
        length = spec.page or triton.blocks_of(spec.keys, self.blocks.keys) * self.blocks.keys
        if spec.layout == "BTNH":
            return pl.BlockSpec((lead, length, None, *last), lambda p, k, b: (0 if spec.page else b, 0, k, *zeros))
        return pl.BlockSpec((lead, None, length, *last), lambda p, k, b: (0 if spec.page else b, k, 0, *zeros))

    def matrix(self, ref: jax.Array, i: jax.Array, live: jax.Array, table: jax.Array | None, size: int) -> jax.Array:
        """Return keys or values of tile `i`, (keys, padded size); 0 where a position is not live."""
        return self._read(ref, i, live, table, live[:, None] & (_iota(ref.shape[-1]) < size)[None, :])

    def vector(self, ref: jax.Array, i: jax.Array, live: jax.Array, table: jax.Array | None) -> jax.Array:
        """Return scales of tile `i` in float32; 0 where a position is not live."""
        return self._read(ref, i, live, table, live).astype(np.float32)

    def _read(
        self, ref: jax.Array, i: jax.Array, live: jax.Array, table: jax.Array | None, mask: jax.Array
    ) -> jax.Array:
        view: Any = ref.at
        start, keys = i * self.blocks.keys, self.blocks.keys
        if table is None:
            # Tiles begin at multiples of their size, so that they lie inside of what is seen of the array.
            return triton.load(view[pl.ds(pl.multiple_of(start, keys), keys)], mask=mask)
        at = jnp.where(live, start + _iota(keys), 0)
        entry: Any = table.at
        page = triton.load(entry[at // self.spec.page])
        # One array of addresses for each axis: interpret mode takes either these alone or none.
        index: tuple[jax.Array, ...] = (page, at % self.spec.page)
        if mask.ndim == 2:
            index = (*(x[:, None] for x in index), _iota(mask.shape[1])[None, :])
        return triton.load(view[tuple(jnp.broadcast_to(x, mask.shape) for x in index)], mask=mask)


def _iota(size: int) -> jax.Array:
    return lax.iota(np.int32, size)


def _attend(tile: _Tile, refs: dict[str, jax.Array]) -> None:
    spec, keys = tile.spec, tile.blocks.keys
    length, offset = refs["lengths"][0, 0], refs["offsets"][0, 0]
    rows = _iota(tile.rows)
    row = rows < spec.rows
    query = triton.load(refs["query"], mask=row[:, None] & (_iota(tile.size) < spec.size)[None, :]).astype(spec.factors)
    factor = triton.load(refs["factor"], mask=row) if "factor" in refs else None
    if spec.queries == 1:
        first, stop = row_range(spec, length, offset, 0)
    else:
        # Rows that are padding see what the last query sees.
        first, stop = (
            x[:, None] for x in row_range(spec, length, offset, jnp.minimum(rows // spec.group, spec.queries - 1))
        )
    used_first, used_stop = union_range(spec, length, offset)
    begin = used_first // keys
    count = jnp.maximum((used_stop + keys - 1) // keys - begin, 0)
    share = (count + tile.blocks.splits - 1) // tile.blocks.splits
    start = begin + pl.program_id(0) * share

    def step(i: jax.Array, carry: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        acc, m, total = carry
        at = i * keys + _iota(keys)
        live = (at >= used_first) & (at < used_stop)
        table = refs.get("table")
        key = tile.matrix(refs["key"], i, live, table, spec.size).astype(spec.factors)
        products = triton.dot(query, key, across=True, precision=spec.precision)
        key_scale = tile.vector(refs["key_scale"], i, live, table)[None, :] if "key_scale" in refs else None
        scores = scores_of(spec, products, factor, key_scale)
        scores = jnp.where((at[None, :] >= first) & (at[None, :] < stop), scores, -jnp.inf)
        top = jnp.maximum(m, jnp.max(scores, 1))
        weights = jnp.exp(scores - safe_top(top)[:, None])
        keep = jnp.exp(m - safe_top(top))
        total = total * keep + jnp.sum(weights, 1)
        value = tile.matrix(refs["value"], i, live, table, spec.value_size)
        kind = spec.factors
        if "value_scale" in refs:
            weights = weights * tile.vector(refs["value_scale"], i, live, table)[None, :]
            # The range of float16 does not hold weights times small scales.
            kind = np.dtype(np.float32) if kind == np.float16 else kind
        update = triton.dot(weights.astype(kind), value.astype(kind), precision=spec.precision)
        return acc * keep[:, None] + update, top, total

    empty = (
        jnp.zeros((tile.rows, tile.value_size), np.float32),
        jnp.full((tile.rows,), -jnp.inf, np.float32),
        jnp.zeros((tile.rows,), np.float32),
    )
    acc, m, total = lax.fori_loop(start, jnp.minimum(start + share, begin + count), step, empty)
    triton.store(refs["acc"], acc)
    triton.store(refs["m"], m)
    triton.store(refs["total"], total)
