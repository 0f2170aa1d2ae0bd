"""What the Hopper kernels share: their shapes, the blocks that a tile touches, and the scores of a tile.

A tile has its queries along one axis and its keys along the other; the forward pass and the gradient of the queries
have queries along the rows, the gradient of keys and values has keys there, so that its products need no transpose.
Scores are in units of log2, which is what the hardware's exponential takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._hopper import mosaic
from .spec import AttentionSpec

__all__ = [
    "LOG2E",
    "ROWS",
    "Shape",
    "accumulate",
    "broadcast_kind",
    "feed",
    "maximum",
    "minimum",
    "mosaic",
    "release",
    "run_loop",
    "swizzled",
    "within",
]

LOG2E = math.log2(math.e)
ROWS = 64
"""Rows of one warpgroup's matrix instruction."""
_INFINITY = np.float32(np.inf)


def broadcast_kind(shape: tuple[int, int, int, int] | None) -> str:
    """Say how a mask or bias lies over a tile: ``""``, ``"tile"``, ``"row"`` or ``"column"``.

    "row" has one number for each query, "column" one for each key, and one for all counts as the latter.
    """
    if shape is None:
        return ""
    return "column" if shape[2] == 1 else "row" if shape[3] == 1 else "tile"


@dataclass(frozen=True, slots=True)
class Shape:
    """The static side of one kernel: a specification whose sizes are padded to whole blocks.

    Attributes
    ----------
    spec
        The call, with the sizes that its operands have before padding.
    queries, keys, size, value_size
        T, S, H, Hv of the padded operands.
    block_q, block_k
        Queries and keys of a step: one of them is what a warpgroup holds, the other what one turn of the ring brings.
    stages
        Turns of the ring in flight.
    bias, mask
        As `broadcast_kind`.
    interpret
        Whether the kernel is run by the interpreter, on any device.
    """

    spec: AttentionSpec
    queries: int
    keys: int
    size: int
    value_size: int
    block_q: int
    block_k: int
    stages: int
    bias: str = ""
    mask: str = ""
    interpret: bool = False

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the operands of the matrix products."""
        return self.spec.dtype

    def rows(self, ref: Any, batch: Any, start: Any, count: int, head: Any) -> Any:
        """Return the view ``(count, H)`` of an operand of the specification's layout."""
        import jax.experimental.pallas as pl

        at = pl.ds(start, count)
        return ref.at[batch, at, head] if self.spec.layout == "BTNH" else ref.at[batch, head, at]

    def diagonal(self, given: Mapping[str, Any], batch: Any) -> tuple[Any, Any]:
        """Return the offset of the diagonal and the number of keys of a row of the batch."""
        offset = given["q_offset"][batch] if self.spec.q_offset is None else self.spec.q_offset
        return offset, given["key_lengths"][batch] if self.spec.key_lengths else self.spec.keys

    # Which blocks a tile touches.

    def touched_keys(self, row: Any, count: int, offset: Any, length: Any) -> tuple[Any, Any, Any, Any]:
        """Return the key blocks of the queries ``row .. row + count``: from, full from, full to, to.

        Blocks outside of the first and the last are hidden from all of these queries; those between the middle two
        are seen whole by each, as far as position and length say. ``offset`` and ``length`` are the row's.
        """
        left, right = self.spec.window
        first, last = row + offset, row + (count - 1) + offset
        stop = length if right is None else minimum(length, last + (right + 1))
        full_stop = length if right is None else minimum(length, first + (right + 1))
        start = 0 if left is None else maximum(first - left, 0)
        full_start = 0 if left is None else maximum(last - left, 0)
        return self._blocks(start, full_start, full_stop, stop, self.block_k, self.keys)

    def touched_queries(
        self, column: Any, count: int, offset: Any, length: Any, queries: Any
    ) -> tuple[Any, Any, Any, Any]:
        """Return the query blocks that see the keys ``column .. column + count``, as `touched_keys`.

        ``queries`` is how many queries there are, and a block that has fewer is seen in part.
        """
        left, right = self.spec.window
        first, last = column - offset, column + (count - 1) - offset
        start = 0 if right is None else maximum(first - right, 0)
        full_start = 0 if right is None else maximum(last - right, 0)
        stop = queries if left is None else minimum(queries, last + (left + 1))
        full_stop = self.queries if left is None else first + (left + 1)
        # Keys past the end of the row are seen by nobody, those of the last block not by all.
        stop = jnp.where(column < length, jnp.int32(stop), np.int32(0))
        full_stop = jnp.where(column + count <= length, jnp.int32(full_stop), np.int32(0))
        return self._blocks(start, full_start, full_stop, stop, self.block_q, self.queries)

    def _blocks(
        self, start: Any, full_start: Any, full_stop: Any, stop: Any, block: int, total: int
    ) -> tuple[Any, Any, Any, Any]:
        """Turn positions into blocks, in order and in range."""
        count = total // block
        low = _clip(_floor(start, block), count)
        high = maximum(_clip(_floor(stop + (block - 1), block), count), low)
        full_low = minimum(maximum(_clip(_floor(full_start + (block - 1), block), count), low), high)
        full_high = minimum(maximum(_clip(_floor(full_stop, block), count), full_low), high)
        return low, full_low, full_high, high

    def loop(self, bounds: tuple[Any, ...], body: Callable[[Any, Any, bool], Any], carry: Any) -> Any:
        """Run ``body(block, carry, at an edge)`` over the touched blocks: the whole ones apart from the others."""
        low, full_low, full_high, high = bounds
        left, right = self.spec.window
        if left is not None or right is not None:
            carry = run_loop(low, full_low, lambda i, c: body(i, c, True), carry)
        carry = run_loop(full_low, full_high, lambda i, c: body(i, c, False), carry)
        if isinstance(high, int) and isinstance(full_high, int) and full_high == high:
            return carry
        return run_loop(full_high, high, lambda i, c: body(i, c, True), carry)

    # Scores.

    def scores(
        self,
        products: Any,
        row: Any,
        column: Any,
        offset: Any,
        length: Any,
        *,
        edge: bool,
        query_axis: int = 0,
        bias: Any = None,
        mask: Any = None,
        segments: tuple[Any, Any] | None = None,
    ) -> tuple[Any, Any]:
        """Return the scores of a tile in units of log2, minus infinity where hidden, and softcap's ``tanh`` or None.

        ``row`` and ``column`` are the positions of its first query and key; bias and mask broadcast to the tile.
        """
        spec, shape = self.spec, products.shape
        tanh = None
        if spec.softcap is None:
            scores = products * np.float32(spec.scale * LOG2E)
        else:
            tanh = _tanh(products * np.float32(spec.scale / spec.softcap))
            scores = tanh * np.float32(spec.softcap * LOG2E)
        keep: list[Any] = []
        if bias is not None:
            scores = scores + bias * np.float32(LOG2E)
            # Minus infinity hides, and so a NaN beside it.
            keep.append(bias != -_INFINITY)
        if mask is not None:
            keep.append(mask)
        if segments is not None:
            keep.append(_spread(segments[0], shape, query_axis) == _spread(segments[1], shape, 1 - query_axis))
        if edge:
            t, s = (_positions(shape, axis) for axis in (query_axis, 1 - query_axis))
            left, right = spec.window
            # The difference of the two would be a loop invariant as large as the tile, and fill the registers.
            diagonal = row + offset - column
            if right is not None:
                keep.append(s <= t + (diagonal + right))
            if left is not None:
                keep.append(s >= t + (diagonal - left))
            keep.append(s < length - column)
        for seen in keep:
            scores = jnp.where(seen, scores, -_INFINITY)
        return scores, tanh


def accumulate(
    shape: Shape, sums: Sequence[tuple[Any, Any, Any]], after: Callable[[], None] | None = None
) -> list[Any]:
    """Return ``carry + a @ b`` of each, in the registers of the carry; ``after`` runs while products are under way.

    ``a`` is a value in registers, ``b`` lies in shared memory. The interpreter of Pallas knows only products of two
    matrices in shared memory that start from nothing, so it is given the same sums in other words.
    """
    import jax.experimental.pallas as pl

    plgpu = mosaic()
    if shape.interpret:
        if after is not None:
            after()
        contract = (((1,), (0,)), ((), ()))
        return [c + lax.dot_general(a, b[...], contract, preferred_element_type=jnp.float32) for c, a, b in sums]

    def products_into(refs: list[Any]) -> None:
        for ref, (_, a, b) in zip(refs, sums, strict=True):
            plgpu.wgmma(ref, a, b)
        if after is not None:
            after()

    return list(pl.run_state(products_into)([plgpu.ACC.init(carry) for carry, _, _ in sums]))


def feed(shape: Shape, most: int, steps: Any, parts: Sequence[tuple[Callable[[Any, Any], None], Any]]) -> None:
    """Keep a ring filled: call each part's ``bring(step, place)`` for every step, in order, when its place is free.

    ``most`` is how many steps there can be; the second of a part is the barrier that says when a place was used.
    """
    import jax.experimental.pallas as pl

    plgpu, stages = mosaic(), shape.stages
    for step in range(min(stages, most)):

        @pl.when(step < steps)
        def _(step: int = step) -> None:
            for bring, _used in parts:
                bring(step, step)

    def refill(step: Any, nothing: None) -> None:
        place = lax.rem(step, np.int32(stages))
        for bring, used in parts:
            plgpu.barrier_wait(used.at[place])
            bring(step, place)

    run_loop(stages, steps, refill, None)
    if not shape.interpret:
        return

    # The interpreter wants every completed phase to be waited for.
    def drain(step: Any, nothing: None) -> None:
        place = lax.rem(step, np.int32(stages))
        for _used, used in parts:
            plgpu.barrier_wait(used.at[place])

    run_loop(maximum(steps - stages, 0), steps, drain, None)


def release(shape: Shape, used: Any) -> None:
    """Say that a place of the ring was used.

    What was loaded from it is in registers by then, so the copy that comes next cannot overtake. The interpreter has
    fences between loads and such copies in its model of memory, and is given one.
    """
    plgpu = mosaic()
    if shape.interpret:
        plgpu.commit_smem()
    plgpu.barrier_arrive(used)


def within(bounds: tuple[Any, ...], first: Any, last: Any) -> tuple[Any, ...]:
    """Narrow the touched blocks to ``first .. last``."""
    low = maximum(bounds[0], first)
    high = maximum(minimum(bounds[3], last), low)
    full_low = minimum(maximum(bounds[1], low), high)
    return low, full_low, minimum(maximum(bounds[2], full_low), high), high


def run_loop(start: Any, stop: Any, body: Callable[[Any, Any], Any], carry: Any) -> Any:
    """Run ``body(i, carry)``, counting in int32 whatever the state of 64-bit types."""
    start, stop = (np.int32(x) if isinstance(x, int) else x for x in (start, stop))
    # Between constant bounds JAX counts in its default integer all the same.
    return lax.fori_loop(start, stop, lambda i, c: body(lax.convert_element_type(i, jnp.int32), c), carry)


def swizzled(shape: tuple[int, ...], dtype: Any, widest_bytes: int = 128) -> Any:
    """Return a block of shared memory whose last two axes are laid out for matrix instructions.

    Operands of one product have one `widest_bytes`, and that at most the length of the axis they are summed over.
    """
    plgpu = mosaic()
    bits = np.dtype(dtype).itemsize * 8
    swizzle = min(plgpu.find_swizzle(shape[-1] * bits), widest_bytes)
    transforms = (plgpu.TilingTransform((8, 8 * swizzle // bits)), plgpu.SwizzleTransform(swizzle))
    return plgpu.SMEM(shape, dtype, transforms=transforms)


def _positions(shape: tuple[int, ...], axis: int) -> Any:
    """Return the number of the row or column of each element of a tile."""
    plgpu = mosaic()
    layout = plgpu.Layout.WGMMA.reduce(1 - axis)
    numbers = plgpu.broadcasted_iota(jnp.int32, (shape[axis],), 0, layout=layout)
    return _spread(lax.optimization_barrier(numbers), shape, axis)


def _spread(x: Any, shape: tuple[int, ...], axis: int) -> Any:
    return lax.broadcast_in_dim(x, shape, [axis])


def _tanh(x: Any) -> Any:
    # The hardware's own tanh is good to 11 bits only. Both ends are right without a clamp: 2 / inf and 2 / 1.
    return 1 - 2 / (jnp.exp2(x * np.float32(2 * LOG2E)) + 1)


def _floor(x: Any, block: int) -> Any:
    # Negative positions end up in block 0 or before it, and are clipped.
    return x // block if isinstance(x, int) else lax.div(x, jnp.int32(block))


def _clip(x: Any, count: int) -> Any:
    return minimum(maximum(x, 0), count)


def minimum(x: Any, y: Any) -> Any:
    return min(x, y) if isinstance(x, int) and isinstance(y, int) else jnp.minimum(jnp.int32(x), jnp.int32(y))


def maximum(x: Any, y: Any) -> Any:
    return max(x, y) if isinstance(x, int) and isinstance(y, int) else jnp.maximum(jnp.int32(x), jnp.int32(y))
