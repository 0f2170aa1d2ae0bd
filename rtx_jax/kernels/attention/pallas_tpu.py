"""Attention on TPU by Pallas kernels: forward, fused backward, gradient of the bias.

They take bfloat16, float16 (in float32 products) and float32, any lengths and head sizes that fit on the chip, grouped
heads, both layouts, window, causal, static and traced offsets, lengths, segments, masks and biases however they
repeat, softcap, sinks, ``nan_safe`` and the entropy of rows, on TPU v5 and newer. Products of float32 are full float32
unless ``precision`` is ``"default"``. Layout ``"BNTH"`` takes no memory beside operands and results. Layout ``"BTNH"``
is taken as ``(B, T, N * H)`` where head sizes are multiples of 128, which costs nothing where the projections made it
so, and is transposed otherwise.

The kernels lie in `pallas_tpu_forward` and `pallas_tpu_backward`; this module says what they support, brings operands
into their layout, chooses blocks, and cuts long sequences so that lists of tiles and gradients of queries fit on the
chip.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from ..._compat import x64
from ...errors import InvalidArgument
from ..target import Target
from .pallas_tpu_chunks import joined, scan_chunks
from .pallas_tpu_tiles import MAX_MINOR, may_be_empty
from .spec import AttentionSpec, Gradients, Operands

if TYPE_CHECKING:
    from .pallas_tpu_tile import Plan

__all__ = ["ENTROPY", "NAME", "Blocks", "backward", "default_blocks", "forward", "unsupported"]

NAME = "pallas_tpu"
ENTROPY = True
"""Whether `forward` offers the entropy."""

_LANES = 128
_BFLOAT16, _FLOAT16, _FLOAT32 = (np.dtype(dtype) for dtype in (jnp.bfloat16, np.float16, np.float32))
_OLD = ("TPU v2", "TPU v3", "TPU v4")
_VMEM_BYTES = 48 << 20
"""What a kernel may take of the memory of a core, which has 64 MiB (v5p) or 128 MiB (v5e, v6e)."""
_TILE_BYTES = {"forward": 32 << 20, "backward": 24 << 20}
"""What the blocks of one step may take of that, by direction."""
_QUERY_SUM_BYTES = 16 << 20
"""What the gradients of queries may take of that in the backward pass."""
_LIST = 1 << 16
"""Tiles in the lists of one kernel: 256 KiB of the 1 MiB of scalar memory."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The size of one step of a kernel.

    Attributes
    ----------
    query, key
        Queries and keys of a tile: multiples of 128.
    compute
        Keys of a tile that are computed at once: a multiple of 128 that divides `key`.
    """

    query: int
    key: int
    compute: int

    def __post_init__(self) -> None:
        whole = all(size > 0 and size % _LANES == 0 for size in (self.query, self.key, self.compute))
        if not whole or self.key % self.compute:
            raise InvalidArgument(
                "flash_attention",
                "blocks",
                got=f"query={self.query}, key={self.key}, compute={self.compute}",
                wanted="multiples of 128, of which compute divides key",
                arg="blocks",
                reason="sizes that are no tiles",
            )


def unsupported(spec: AttentionSpec, target: Target) -> list[str]:
    """Return why the kernels cannot run this call on `target`, forward and backward; empty when they can."""
    reasons = []
    if target.platform != "tpu":
        reasons.append(f"it runs on TPU, not on {target.platform}")
    elif target.kind.startswith(_OLD):
        reasons.append(f"it needs TPU v5 or newer, not {target.kind}")
    if spec.dtype not in (_BFLOAT16, _FLOAT16, _FLOAT32):
        reasons.append(f"it takes bfloat16, float16 and float32, not {spec.dtype}")
        return reasons
    if 0 in (spec.size, spec.value_size):
        reasons.append("it takes no head of size 0")
    blocks = default_blocks(spec, "backward")
    if _tile_bytes(spec, blocks, "backward") > _TILE_BYTES["backward"]:
        reasons.append(f"the smallest tile of head sizes {spec.size} and {spec.value_size} does not fit on the chip")
    elif blocks.query > _chunk_rows(spec, blocks, backward=True):
        lists = _groups(spec) * -(-spec.keys // blocks.key)
        reasons.append(
            f"lists of {lists} tiles for a block of queries, or the gradients of {spec.group} query heads of one key "
            "head, do not fit on the chip"
        )
    return reasons


def default_blocks(spec: AttentionSpec, direction: str) -> Blocks:
    """Return sizes for the call: tiles of 1024 by 1024, smaller where operands, the window or the chip are.

    Notes
    -----
    By the bundles that the compiler schedules for a whole tile of 1024 by 1024 at H = 128 in bfloat16: v5e forward
    5,349 (4,096 would keep its matrix units busy), backward 9,002; v6e forward 3,219 with all keys at once, 3,467 with
    512 and 3,848 with 256. In the backward pass all keys at once would be too much code. Full float32 takes six
    products for one, so that its tiles are 512 by 512.
    """
    exact = spec.dtype != _BFLOAT16 and spec.precision != "default"
    limit, most = (512, 256) if exact else (1024, 1024 if direction == "forward" else 512)
    left, right = spec.window
    if left is not None and right is not None:
        limit = min(limit, max(256, 1 << max((left + right).bit_length() - 1, 0)))
    query, key = (_even(length, limit) for length in (spec.queries, spec.keys))
    if key > most:
        key = -(-key // (most // 2)) * (most // 2)
    while True:
        compute = max(size for size in range(_LANES, min(key, most) + 1, _LANES) if key % size == 0)
        blocks = Blocks(query, key, compute)
        if max(query, key) == _LANES or _tile_bytes(spec, blocks, direction) <= _TILE_BYTES[direction]:
            return blocks
        if query >= key:
            query = _whole(query // 2)
        else:
            key = _whole(key // 2)


def forward(
    spec: AttentionSpec,
    operands: Operands,
    *,
    entropy: bool = False,
    blocks: Blocks | None = None,
    interpret: bool = False,
) -> tuple[jax.Array, ...]:
    """Return the attention, in the layout and dtype of the queries, and the log-sum-exp ``(B, N, T)`` in float32.

    Parameters
    ----------
    entropy
        Whether to return the entropy of each query's weights too: the log-sum-exp less the sum of weights times
        scores, ``(B, N, T)`` in float32, 0 where no key is seen.
    blocks
        Sizes of tiles; `default_blocks` when None.
    interpret
        Whether to run the kernel on the host, step by step.

    Notes
    -----
    NaN or infinity in a value may reach queries of a block in which another query sees it, unless ``spec.nan_safe``.
    """
    if 0 in (spec.batch, spec.heads, spec.queries, spec.keys):
        shape = (*operands.query.shape[:-1], spec.value_size)
        empty = jnp.full((spec.batch, spec.heads, spec.queries), -jnp.inf, spec.accumulator)
        return jnp.zeros(shape, spec.dtype), empty, *([jnp.zeros_like(empty)] if entropy else [])
    from .pallas_tpu_forward import attend

    blocks = default_blocks(spec, "forward") if blocks is None else blocks
    with x64(False):
        plan, operands = _prepare(spec, operands, blocks, interpret)
        rows = max(_chunk_rows(plan.spec, blocks, backward=False), blocks.query)
        if spec.queries <= rows:
            out, *vectors = attend(plan, operands, entropy=entropy)
        else:

            def step(
                part: Plan, taken: Operands, _: list[jax.Array], carry: None
            ) -> tuple[None, tuple[jax.Array, ...]]:
                return carry, attend(part, taken, entropy=entropy)

            _, found = scan_chunks(plan, operands, rows, [], None, step)
            out, *vectors = found
            out = joined(out, 1 if plan.flat else 2, spec.queries)
            vectors = [joined(x, 2, spec.queries) for x in vectors]
        return _leave(plan, out, spec, spec.value_size).astype(spec.dtype), *vectors


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
    """Return the cotangents of the operands, in their shapes and dtypes.

    Parameters
    ----------
    out, lse
        What `forward` returned.
    d_out, d_lse
        Cotangents of these.
    bias, sinks
        Whether their gradients are wanted. That of the bias takes a second kernel.
    blocks, interpret
        As for `forward`.
    """
    given = operands
    if 0 in (spec.batch, spec.heads, spec.queries, spec.keys):
        return Gradients(
            jnp.zeros_like(given.query),
            jnp.zeros_like(given.key),
            jnp.zeros_like(given.value),
            jnp.zeros_like(given.bias) if bias and given.bias is not None else None,
            jnp.zeros_like(given.sinks) if sinks and given.sinks is not None else None,
        )
    from .pallas_tpu_backward import pull, pull_bias

    blocks = default_blocks(spec, "backward") if blocks is None else blocks
    with x64(False):
        heads_last = spec.layout == "BTNH"
        product = jnp.sum(out.astype(jnp.float32) * d_out.astype(jnp.float32), -1)
        delta = (jnp.swapaxes(product, 1, 2) if heads_last else product) - d_lse
        lse = lse.astype(jnp.float32)
        if may_be_empty(spec):
            empty = lse == -jnp.inf
            delta = jnp.where(empty, 0.0, delta)
            there = (jnp.swapaxes(empty, 1, 2) if heads_last else empty)[..., None]
            d_out = jnp.where(there, jnp.zeros((), d_out.dtype), d_out)
        d_sinks = None
        if sinks and given.sinks is not None:
            share = jnp.exp(given.sinks.astype(jnp.float32)[None, :, None] - lse)
            share = jnp.where(lse == -jnp.inf, 0.0, share)
            d_sinks = -jnp.sum(share * delta, (0, 2)).astype(given.sinks.dtype)
        plan, operands = _prepare(spec, operands, blocks, interpret)
        d_out = _enter(plan, d_out, spec)
        rows = max(_chunk_rows(plan.spec, blocks, backward=True), blocks.query)
        d_bias = None
        if spec.queries <= rows:
            d_query, d_key, d_value = pull(plan, operands, d_out, lse, delta, plan.spec.dtype)
            if bias:
                d_bias = pull_bias(plan, operands, d_out, lse, delta)
        else:
            d_query, d_key, d_value, d_bias = _pull_in_chunks(plan, operands, rows, d_out, lse, delta, bias)
    return Gradients(
        _leave(plan, d_query, spec, spec.size).astype(given.query.dtype),
        _leave(plan, d_key, spec, spec.size).astype(given.key.dtype),
        _leave(plan, d_value, spec, spec.value_size).astype(given.value.dtype),
        None if d_bias is None or given.bias is None else d_bias.astype(given.bias.dtype),
        d_sinks,
    )


def _pull_in_chunks(
    plan: Plan, operands: Operands, rows: int, d_out: jax.Array, lse: jax.Array, delta: jax.Array, bias: bool
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array | None]:
    """Return the gradients of query, key, value and bias by chunks of `rows` queries."""
    from .pallas_tpu_backward import pull, pull_bias

    spec, axis = plan.spec, 1 if plan.flat else 2
    d_key, d_value = (jnp.zeros(x.shape, jnp.float32) for x in (operands.key, operands.value))
    # A bias that repeats along the queries has one gradient, which is added up; others are joined.
    repeats = spec.bias is not None and spec.bias[2] == 1
    total = jnp.zeros(spec.bias, jnp.float32) if bias and repeats and spec.bias is not None else None

    def step(
        part: Plan,
        taken: Operands,
        extra: list[jax.Array],
        carry: tuple[jax.Array, jax.Array, jax.Array | None],
    ) -> tuple[tuple[jax.Array, jax.Array, jax.Array | None], tuple[jax.Array, jax.Array | None]]:
        d_key, d_value, d_bias = carry
        d_query, more_key, more_value = pull(part, taken, extra[0], extra[1], extra[2], jnp.float32)
        more_bias = pull_bias(part, taken, extra[0], extra[1], extra[2]) if bias else None
        if d_bias is not None and more_bias is not None:
            d_bias, more_bias = d_bias + more_bias, None
        return (d_key + more_key, d_value + more_value, d_bias), (d_query, more_bias)

    extra = [(d_out, axis), (lse, 2), (delta, 2)]
    (d_key, d_value, total), (d_query, parts) = scan_chunks(plan, operands, rows, extra, (d_key, d_value, total), step)
    d_bias = total if parts is None else joined(parts, 2, spec.queries)
    return joined(d_query, axis, spec.queries), d_key, d_value, d_bias


# --- layout ---------------------------------------------------------------------------------------------------------


def _prepare(spec: AttentionSpec, operands: Operands, blocks: Blocks, interpret: bool) -> tuple[Plan, Operands]:
    """Return the plan of the kernels, and the operands as it lays them out."""
    from .pallas_tpu_tile import Plan

    flat = spec.layout == "BTNH" and spec.size % _LANES == 0 and spec.value_size % _LANES == 0
    inner = dataclasses.replace(spec, layout="BTNH" if flat else "BNTH")
    if spec.dtype == _FLOAT16:
        # The hardware has no float16; float32 holds its products.
        inner = dataclasses.replace(inner, dtype=_FLOAT32, precision="highest")
    plan = Plan(inner, blocks.query, blocks.key, blocks.compute, flat, _VMEM_BYTES, interpret)
    return plan, operands._replace(
        query=_enter(plan, operands.query, spec),
        key=_enter(plan, operands.key, spec),
        value=_enter(plan, operands.value, spec),
    )


def _enter(plan: Plan, x: jax.Array, spec: AttentionSpec) -> jax.Array:
    """Bring what has the caller's layout into that of the kernels."""
    x = x.astype(plan.spec.dtype)
    if plan.flat:
        return x.reshape(*x.shape[:2], -1)
    return jnp.swapaxes(x, 1, 2) if spec.layout == "BTNH" else x


def _leave(plan: Plan, x: jax.Array, spec: AttentionSpec, size: int) -> jax.Array:
    """Bring what has the layout of the kernels into the caller's."""
    if plan.flat:
        return x.reshape(*x.shape[:2], -1, size)
    return jnp.swapaxes(x, 1, 2) if spec.layout == "BTNH" else x


# --- sizes ----------------------------------------------------------------------------------------------------------


def _whole(length: int) -> int:
    return -(-max(length, 1) // _LANES) * _LANES


def _even(length: int, limit: int) -> int:
    """Return the size of equal blocks of at most `limit` for `length`."""
    return _whole(-(-length // max(-(-length // limit), 1)))


def _itemsize(spec: AttentionSpec) -> int:
    return 2 if spec.dtype == _BFLOAT16 else 4


def _tile_bytes(spec: AttentionSpec, blocks: Blocks, direction: str) -> int:
    """Return about what blocks, sums and one part of the scores take."""
    size, value_size = _whole(spec.size), _whole(spec.value_size)
    fetched = (blocks.query + 2 * blocks.key) * (size + value_size) * _itemsize(spec)
    if spec.mask is not None:
        fetched += blocks.query * blocks.key
    if spec.bias is not None:
        fetched += blocks.query * blocks.key * 4
    sums = blocks.key * (size + value_size) * 4
    scores = 3 if direction == "forward" else 6
    return 2 * fetched + sums + scores * blocks.compute * blocks.query * 4


def _groups(spec: AttentionSpec) -> int:
    """Return for how many pairs of row and key head there are lists of tiles of their own."""
    mask = spec.mask or (1, 1, 1, 1)
    rows = spec.segments or spec.query_lengths or spec.key_lengths or spec.q_offset is None or mask[0] > 1
    return (spec.batch if rows else 1) * (spec.key_heads if mask[1] > 1 else 1)


def _chunk_rows(spec: AttentionSpec, blocks: Blocks, *, backward: bool) -> int:
    """Return how many queries one kernel may take: whole blocks."""
    key_blocks = -(-spec.keys // blocks.key)
    most = min(_LIST // (_groups(spec) * key_blocks), MAX_MINOR - 1)
    if backward:
        row = spec.group * (spec.size * 4 + 2 * _whole(spec.size) * _itemsize(spec))
        most = min(most, _QUERY_SUM_BYTES // (row * blocks.query))
    return most * blocks.query
