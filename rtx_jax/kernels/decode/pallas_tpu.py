"""Decode attention on TPUs: the grid walks the blocks of keys that a row sees, and fetches no other.

The memory of a TPU moves whole tiles, so that in layout ``"BTNH"`` a block comes with all its heads: its rows are
pairs of position and head, each multiplied with the queries of all heads, and pairs of two heads are masked. The
matrix unit takes as long for 1 row of queries as for 128, so that this costs nothing but the exponentials; a transposed
cache would cost its bandwidth. In ``"BNTH"`` each head has blocks of its own.

The table of pages is prefetched as scalars, and tells the pipeline which pages come next: several in each step, each
an operand of its own. The pipeline does not fetch again what it has, which is how steps past the end cost nothing.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from ..target import Target
from .plain import scores_of
from .ranges import row_ranges, union_range
from .spec import DecodeOperands, DecodeSpec, Partial, is_quantized, whole_only
from .splits import safe_top

__all__ = ["NAME", "Blocks", "default_blocks", "partial", "unsupported"]

NAME = "pallas_tpu"

_MAX_ROWS = 512
_MAX_TABLE = 1 << 17
_BLOCK_BYTES = 1 << 20
_MAX_SCORES = 1 << 18
_MAX_PAGES = 8
_FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
_LANES = 128


def unsupported(spec: DecodeSpec, target: Target) -> list[str]:
    """Return why this implementation cannot do a call, in words; empty when it can."""
    reasons = []
    if target.platform != "tpu":
        reasons.append(f"it is for TPUs, and this is {target.platform or 'for several platforms'}")
    for dtype in {spec.dtype, spec.key_dtype, spec.value_dtype}:
        if dtype.name in ("float64", "float16"):
            reasons.append(f"TPUs have no {dtype.name}")
        elif is_quantized(dtype) and dtype.name not in ("int8", *_FLOAT8):
            reasons.append(f"{dtype.name} is not implemented")
    view = _View(spec)
    if view.rows > _MAX_ROWS:
        reasons.append(f"{view.rows} rows of queries share a block, more than {_MAX_ROWS}")
    if spec.page and spec.batch * (spec.keys // spec.page) > _MAX_TABLE:
        reasons.append(f"the table has more than {_MAX_TABLE} entries, which the scalar memory does not hold")
    if 0 in (spec.batch, spec.queries, spec.keys, spec.heads, spec.size, spec.value_size):
        reasons.append("an operand is empty")
    return reasons + whole_only(spec)


@dataclass(frozen=True, slots=True)
class Blocks:
    """The size of one step.

    Attributes
    ----------
    key
        Positions of a step, a multiple of 128; in pages as many of these as fit.
    """

    key: int


def default_blocks(spec: DecodeSpec) -> Blocks:
    """Return the step of a call: what the operands and scores of one take of the chip's memory is bounded."""
    view = _View(spec)
    width = max(spec.size, spec.value_size, _LANES) * max(spec.key_dtype.itemsize, spec.value_dtype.itemsize)
    pairs = min(_BLOCK_BYTES // width, max(_MAX_SCORES // view.rows, _LANES))
    return Blocks(max(1 << int(math.log2(max(pairs // view.together, 1))), _LANES))


@dataclass(frozen=True, slots=True)
class _View:
    """How the grid (rows of the batch, groups of heads, steps) sees the operands.

    Attributes
    ----------
    blocks
        The size of a step; None chooses.
    """

    spec: DecodeSpec
    blocks: Blocks | None = None

    @property
    def together(self) -> int:
        """Key heads that come in one block."""
        return self.spec.key_heads if self.spec.layout == "BTNH" else 1

    @property
    def rows(self) -> int:
        """Rows of queries that are multiplied with a block, padded to what a tile of float32 has."""
        return -(-self.spec.rows * self.together // 8) * 8

    @property
    def parts(self) -> int:
        """Operands that a step's keys come in: pages, or one."""
        if not self.spec.page:
            return 1
        return max(1, min(_MAX_PAGES, self._wanted // self.spec.page, self.spec.keys // self.spec.page))

    @property
    def part(self) -> int:
        """Positions of one of them."""
        spec = self.spec
        if spec.page:
            return spec.page
        return spec.keys if spec.keys <= self._wanted else self._wanted

    @property
    def _wanted(self) -> int:
        return (self.blocks or default_blocks(self.spec)).key

    @property
    def step(self) -> int:
        """Positions of a step."""
        return self.parts * self.part

    @property
    def steps(self) -> int:
        """Steps that any row can need."""
        spec = self.spec
        left, right = spec.window
        every = -(-spec.keys // self.step)
        if left is None or right is None:
            return every
        return min(every, -(-(left + right + spec.queries) // self.step) + 1)


def partial(
    spec: DecodeSpec, operands: DecodeOperands, *, blocks: Blocks | None = None, interpret: bool = False
) -> Partial:
    """Return the softmax over all keys as one part.

    Parameters
    ----------
    blocks
        The size of a step; None chooses.
    interpret
        Whether to run as ordinary JAX operations, on any device.
    """
    view = _View(spec, blocks)
    groups = spec.key_heads // view.together
    lead = (spec.batch, groups)
    scalars, first, stop = _bounds(view, operands)

    def by_row(x: jax.Array) -> jax.Array:
        """Return what is (B, K, R, ...) as (B, groups, rows, ...), padded."""
        x = x.reshape(*lead, view.together * spec.rows, *x.shape[3:])
        return jnp.pad(x, ((0, 0), (0, 0), (0, view.rows - x.shape[2]), *((0, 0),) * (x.ndim - 3)))

    per_row = {"query": operands.query, "first": first[..., None], "stop": stop[..., None]}
    if operands.factor is not None:
        per_row["factor"] = operands.factor[..., None]
    names: list[str] = []
    arrays: list[jax.Array] = []
    parts: list[pl.BlockSpec] = []
    for name, x in per_row.items():
        names.append(name)
        arrays.append(by_row(x))
        parts.append(pl.BlockSpec((None, None, view.rows, x.shape[-1]), lambda b, k, j, *_: (b, k, 0, 0)))
    for name in ("key", "value", "key_scale", "value_scale"):
        cache: jax.Array | None = getattr(operands, name)
        if cache is None:
            continue
        if cache.ndim == 3:
            cache = cache.reshape(cache.shape[0], groups, 1, -1)
        for i in range(view.parts):
            names.append(f"{name}{i}")
            arrays.append(cache)
            parts.append(_cache_block(view, name, cache, i))
    results = [
        ((*lead, view.rows, spec.value_size), np.float32),
        ((*lead, view.rows, 1), np.float32),
        ((*lead, view.rows, 1), np.float32),
    ]

    def body(*refs: Any) -> None:
        given = zip([*scalars, *names, "acc", "m", "total"], refs, strict=True)
        _attend(view, dict(given))

    call: Callable[..., list[jax.Array]] = pl.pallas_call(
        body,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=len(scalars),
            grid=(*lead, view.steps),
            in_specs=parts,
            out_specs=[
                pl.BlockSpec((None, None, *shape[2:]), lambda b, k, j, *_: (b, k, 0, 0)) for shape, _ in results
            ],
        ),
        out_shape=[jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in results],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
        interpret=interpret,
        name="rtx_decode_attention",
    )
    acc, m, total = call(*scalars.values(), *arrays)
    shape = (1, spec.batch, spec.key_heads, spec.rows)
    kept = view.together * spec.rows
    return Partial(
        acc[:, :, :kept].reshape(*shape, spec.value_size),
        m[:, :, :kept].reshape(shape),
        total[:, :, :kept].reshape(shape),
    )


def _bounds(view: _View, operands: DecodeOperands) -> tuple[dict[str, jax.Array], jax.Array, jax.Array]:
    """Return the scalars of the kernel by name, and the range of keys of each row (B, K, R).

    The scalars are flat: of each head ``used_first`` and ``used_stop``, which any of its queries sees; of each group
    of heads the steps ``begin`` to ``last`` that it needs, and the positions ``all_first`` to ``all_stop`` that all of
    its queries see.
    """
    spec = view.spec
    groups = (spec.batch, spec.key_heads // view.together, view.together)
    used_first, used_stop = union_range(spec, operands.lengths, operands.offsets)
    first, stop = row_ranges(spec, operands.lengths, operands.offsets)
    low, high = jnp.min(used_first.reshape(groups), -1), jnp.max(used_stop.reshape(groups), -1)
    begin = jnp.minimum(low // view.step, -(-spec.keys // view.step) - 1)
    last = jnp.where(high > low, (high - 1) // view.step, begin - 1)
    scalars = {
        "used_first": used_first,
        "used_stop": used_stop,
        "begin": begin,
        "last": last,
        "all_first": jnp.max(first.reshape(*groups[:2], -1), -1),
        "all_stop": jnp.min(stop.reshape(*groups[:2], -1), -1),
    }
    if operands.table is not None:
        scalars["table"] = operands.table
    return {name: x.astype(np.int32).reshape(-1) for name, x in scalars.items()}, first, stop


def _cache_block(view: _View, name: str, x: jax.Array, i: int) -> pl.BlockSpec:
    """Return which block of a cache (or of its scales, of two axes) is part `i` of a step."""
    spec = view.spec
    groups = spec.key_heads // view.together
    entries = spec.keys // spec.page if spec.page else 0
    is_scale = name.endswith("scale")
    if is_scale:
        block: tuple[int | None, ...] = (None, None, 1, view.part * view.together)
    elif spec.layout == "BTNH":
        block = (None, view.part, spec.key_heads, x.shape[-1])
    else:
        block = (None, None, view.part, x.shape[-1])

    def index(b: Any, k: Any, j: Any, _uf: Any, _us: Any, begin: Any, last: Any, *rest: Any) -> tuple[Any, ...]:
        at = b * groups + k
        step = jnp.maximum(jnp.minimum(begin[at] + j, last[at]), begin[at])
        if spec.page:
            entry = jnp.minimum(step * view.parts + i, entries - 1)
            lead: Any = rest[-1][b * entries + entry]
            where: Any = 0
        else:
            lead, where = b, step
        if is_scale:
            return lead, k, 0, where
        return (lead, where, 0, 0) if spec.layout == "BTNH" else (lead, k, where, 0)

    return pl.BlockSpec(block, index)


def _attend(view: _View, refs: dict[str, Any]) -> None:
    spec = view.spec
    b, k, j = (pl.program_id(axis) for axis in range(3))
    at = b * (spec.key_heads // view.together) + k
    start = (refs["begin"][at] + j) * view.step
    acc, m, total = refs["acc"], refs["m"], refs["total"]

    @pl.when(j == 0)
    def _start() -> None:
        acc[...] = jnp.zeros_like(acc)
        m[...] = jnp.full_like(m, -jnp.inf)
        total[...] = jnp.zeros_like(total)

    needed = refs["begin"][at] + j <= refs["last"][at]
    inside = (start >= refs["all_first"][at]) & (start + view.step <= refs["all_stop"][at])
    heads = [at * view.together + i for i in range(view.together)]
    used = [(refs["used_first"][h], refs["used_stop"][h]) for h in (heads if spec.per_head else heads[:1])]
    update = functools.partial(_update, view, refs, start, used)
    pl.when(needed & inside)(functools.partial(update, edge=False))
    pl.when(needed & jnp.logical_not(inside))(functools.partial(update, edge=True))


def _update(view: _View, refs: dict[str, Any], start: Any, used: list[tuple[Any, Any]], *, edge: bool) -> None:
    """Take one step's keys into the sums; at an edge some of them are hidden."""
    spec, together = view.spec, view.together
    pairs = view.step * together
    precision = lax.Precision.DEFAULT if spec.precision == "default" else lax.Precision.HIGHEST
    dot = functools.partial(
        lax.dot_general,
        precision=precision if spec.factors == np.float32 else None,
        preferred_element_type=np.float32,
    )

    def parts_of(name: str, axis: int) -> jax.Array:
        found = [refs[f"{name}{i}"][...] for i in range(view.parts)]
        found = [x.reshape(-1, x.shape[-1]) for x in found]
        return found[0] if len(found) == 1 else jnp.concatenate(found, axis)

    def seen(shape: tuple[int, int], axis: int) -> jax.Array:
        """Return which pairs any query sees."""
        pair = lax.broadcasted_iota(np.int32, shape, axis)
        where = start + _quotient(pair, together)
        low: Any = used[0][0]
        high: Any = used[0][1]
        if len(used) > 1:
            head = _remainder(pair, together)
            for h, (first, stop) in enumerate(used[1:], 1):
                low, high = jnp.where(head == h, first, low), jnp.where(head == h, stop, high)
        found: jax.Array = (where >= low) & (where < high)
        return found

    products = dot(refs["query"][...].astype(spec.factors), _widen(parts_of("key", 0), spec), (((1,), (1,)), ((), ())))
    factor = refs["factor"][...][:, 0] if "factor" in refs else None
    key_scale = parts_of("key_scale", 1) if "key_scale0" in refs else None
    scores = scores_of(spec, products, factor, key_scale)
    keep = None
    if together > 1:
        row = lax.broadcasted_iota(np.int32, (view.rows, 1), 0)
        pair = lax.broadcasted_iota(np.int32, (1, pairs), 1)
        keep = _quotient(row, spec.rows) == _remainder(pair, together)
    if edge:
        where = start + _quotient(lax.broadcasted_iota(np.int32, (1, pairs), 1), together)
        near = (where >= refs["first"][...]) & (where < refs["stop"][...])
        keep = near if keep is None else keep & near
    if keep is not None:
        scores = jnp.where(keep, scores, -jnp.inf)
    m = refs["m"][...]
    top = jnp.maximum(m, jnp.max(scores, 1, keepdims=True))
    weights = jnp.exp(scores - safe_top(top))
    shrink = jnp.exp(m - safe_top(top))
    refs["m"][...] = top
    refs["total"][...] = refs["total"][...] * shrink + jnp.sum(weights, 1, keepdims=True)
    value = _widen(parts_of("value", 0), spec)
    if edge:
        value = jnp.where(seen((pairs, 1), 0), value, jnp.zeros_like(value))
    if "value_scale0" in refs:
        value_scale = parts_of("value_scale", 1).astype(np.float32)
        weights = weights * (jnp.where(seen((1, pairs), 1), value_scale, 0.0) if edge else value_scale)
    update = dot(weights.astype(spec.factors), value, (((1,), (0,)), ((), ())))
    refs["acc"][...] = refs["acc"][...] * shrink + update


def _widen(x: jax.Array, spec: DecodeSpec) -> jax.Array:
    """Return keys or values in the dtype of the products; 8-bit numbers are exact in it."""
    if is_quantized(np.dtype(x.dtype)):
        x = x.astype(np.float32)
    wide: jax.Array = x.astype(spec.factors)
    return wide


def _quotient(x: jax.Array, by: int) -> jax.Array:
    quotient: jax.Array = lax.div(x, np.int32(by)) if by & (by - 1) else x >> (by.bit_length() - 1)
    return quotient


def _remainder(x: jax.Array, by: int) -> jax.Array:
    remainder: jax.Array = lax.rem(x, np.int32(by)) if by & (by - 1) else x & (by - 1)
    return remainder
