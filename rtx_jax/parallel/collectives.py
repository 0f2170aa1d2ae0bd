"""Collectives on raw arrays, as one device of a mesh calls them: inside of `jax.shard_map`.

Legend: W ranks in a group, n the size of one rank's value along a dimension.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = [
    "Pairs",
    "Ranks",
    "ReduceOp",
    "all_gather",
    "all_reduce",
    "barrier",
    "broadcast",
    "count_ranks",
    "permute",
    "rank",
    "reduce_scatter",
    "wait",
]

ReduceOp: TypeAlias = Literal["sum", "prod", "min", "max"]
"""How the values of the ranks become one."""

Pairs: TypeAlias = tuple[tuple[int, int], ...]
"""Messages: (rank that sends, rank that receives)."""

_EXTREMES: dict[str, Callable[..., jax.Array]] = {"min": lax.pmin, "max": lax.pmax}
_FOLDS: dict[str, Callable[..., jax.Array]] = {"sum": jnp.sum, "prod": jnp.prod, "min": jnp.min, "max": jnp.max}


@dataclass(frozen=True, slots=True)
class Ranks:
    """Who takes part in a collective.

    Attributes
    ----------
    axis
        Names of axes of a mesh; a position along them all, the first the slowest, is a rank of the world.
    world
        The number of these positions.
    groups
        Equally large tuples of ranks of the world that together hold each of them once; a rank of a group is its
        index in the tuple. None where all form one group in their order.
    """

    axis: tuple[str, ...]
    world: int
    groups: tuple[tuple[int, ...], ...] | None = None

    @property
    def size(self) -> int:
        """W, the ranks of a group."""
        return self.world if self.groups is None else len(self.groups[0])

    def members(self) -> tuple[tuple[int, ...], ...]:
        """Return the groups, also where there is one."""
        return (tuple(range(self.world)),) if self.groups is None else self.groups

    def index_of(self) -> np.ndarray:
        """Return ``int32[world]``: the rank in its group of each rank of the world."""
        table = np.empty(self.world, np.int32)
        for group in self.members():
            table[list(group)] = np.arange(len(group), dtype=np.int32)
        return table

    def spread(self, pairs: Pairs) -> list[tuple[int, int]]:
        """Return messages between ranks of a group as messages between ranks of the world, for all groups."""
        return [(group[source], group[dest]) for group in self.members() for source, dest in pairs]


def rank(ranks: Ranks) -> jax.Array:
    """Return the rank of this device in its group, an int32 scalar."""
    position: jax.Array = lax.axis_index(ranks.axis)
    return position if ranks.groups is None else jnp.asarray(ranks.index_of())[position]


def all_reduce(x: jax.Array, ranks: Ranks, op: ReduceOp) -> jax.Array:
    """Return on every rank the sum, product, minimum or maximum of the values of all ranks, in the dtype of `x`."""
    if x.dtype == np.bool_:
        return all_reduce(x.astype(np.uint8), ranks, op).astype(np.bool_)
    if ranks.groups is None:
        if op == "sum":
            return cast(jax.Array, lax.psum(x, ranks.axis))
        if op == "prod":
            return _fold(_stack(x, ranks), op)
        if jnp.issubdtype(x.dtype, jnp.inexact):
            return _extreme(x, ranks.axis, op)
        return _EXTREMES[op](x, ranks.axis)
    if op != "sum":
        return _fold(_stack(x, ranks), op)
    # `psum` over a part of an axis exists only where shard_map checks nothing; its two halves exist everywhere.
    flat = x.reshape(-1)
    padded = jnp.pad(flat, (0, -flat.size % ranks.size))
    whole = all_gather(reduce_scatter(padded, ranks, "sum", 0), ranks, 0)
    return whole[: flat.size].reshape(x.shape)


def broadcast(x: jax.Array, ranks: Ranks, root: int) -> jax.Array:
    """Return on every rank the value of the rank `root`, bit for bit."""
    if ranks.groups is not None:
        return _stack(x, ranks)[root]
    if x.dtype == np.bool_:
        return _broadcast(x.astype(np.uint8), ranks, root).astype(np.bool_)
    if jnp.iscomplexobj(x):
        return lax.complex(_broadcast(x.real, ranks, root), _broadcast(x.imag, ranks, root))
    return _broadcast(x, ranks, root)


def all_gather(x: jax.Array, ranks: Ranks, dim: int) -> jax.Array:
    """Return on every rank the values of all, one after another along `dim`: from size n to W * n."""
    if not x.size:  # no collective takes it
        return jnp.zeros((*x.shape[:dim], ranks.size * x.shape[dim], *x.shape[dim + 1 :]), x.dtype)
    if ranks.groups is None:
        return cast(jax.Array, lax.all_gather(x, ranks.axis, axis=dim, tiled=True, to="invarying"))
    gathered = lax.all_gather(x, ranks.axis, axis_index_groups=list(ranks.groups), axis=dim, tiled=True)
    return cast(jax.Array, gathered)


def reduce_scatter(x: jax.Array, ranks: Ranks, op: ReduceOp, dim: int) -> jax.Array:
    """Return on rank r the r-th of W pieces along `dim` of what `all_reduce` returns: from size W * n to n."""
    shape = (*x.shape[:dim], ranks.size, x.shape[dim] // ranks.size, *x.shape[dim + 1 :])
    if not x.size:
        return jnp.zeros((*shape[:dim], *shape[dim + 1 :]), x.dtype)
    groups = None if ranks.groups is None else list(ranks.groups)
    if x.dtype == np.bool_:
        return reduce_scatter(x.astype(np.uint8), ranks, op, dim).astype(np.bool_)
    if op == "sum":
        scattered = lax.psum_scatter(x, ranks.axis, scatter_dimension=dim, axis_index_groups=groups, tiled=True)
        return cast(jax.Array, scattered)
    pieces = jnp.moveaxis(x.reshape(shape), dim, 0)
    return _fold(lax.all_to_all(pieces, ranks.axis, 0, 0, axis_index_groups=groups, tiled=True), op)


def permute(x: jax.Array, into: jax.Array | None, ranks: Ranks, pairs: Pairs) -> jax.Array:
    """Return the value that this rank was sent; `into`, or zeros, on ranks that nothing is sent to."""
    moved: jax.Array = lax.ppermute(x, ranks.axis, ranks.spread(pairs))
    if into is None:
        return moved
    table = np.zeros(ranks.size, np.bool_)
    table[[dest for _, dest in pairs]] = True
    return jnp.where(jnp.asarray(table)[rank(ranks)], moved, into)


def barrier(x: jax.Array, ranks: Ranks) -> jax.Array:
    """Return `x`, which nothing reads before all ranks of the world have come here."""
    return wait(x, lambda start: count_ranks(ranks.axis, start))


def count_ranks(axis: tuple[str, ...], start: jax.Array) -> jax.Array:
    """Return a number that no rank knows before all have come here: 0 or more, which the compiler cannot know."""
    counted: jax.Array = lax.psum(lax.axis_index(axis) + start, axis)
    return counted


def wait(x: jax.Array, meet: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """Return `x` after `meet`, a form of `count_ranks`, which begins when `x` is there."""
    # Both results of the first barrier are used, and the sum decides: XLA drops what nothing depends on.
    x, start = lax.optimization_barrier((x, jnp.zeros((), jnp.int32)))
    return jnp.where(meet(start) >= 0, x, jnp.zeros_like(x))


def _stack(x: jax.Array, ranks: Ranks) -> jax.Array:
    """Return ``(W, ...)``: the values of all ranks of the group."""
    return all_gather(x[None], ranks, 0)


def _fold(stacked: jax.Array, op: ReduceOp) -> jax.Array:
    return _FOLDS[op](stacked, axis=0).astype(stacked.dtype)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _extreme(x: jax.Array, axis: tuple[str, ...], op: ReduceOp) -> jax.Array:
    # Libraries of collectives compare, so that a NaN is lost or not as the order has it; its place goes along.
    is_nan = jnp.isnan(x)
    mark = is_nan.astype(x.dtype) * (1 if op == "max" else -1)
    extreme, marked = cast(Sequence[jax.Array], _EXTREMES[op]((jnp.where(is_nan, 0, x), mark), axis))
    return jnp.where(marked != 0, jnp.full_like(extreme, jnp.nan), extreme)


# JAX has no derivative of pmax and pmin. As in `jnp.max`, ranks that hold the extreme share it equally.
@_extreme.defjvp
def _extreme_jvp(
    axis: tuple[str, ...], op: ReduceOp, primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (x,), (dx,) = primals, tangents
    extreme = _extreme(x, axis, op)
    held = (x == extreme).astype(dx.dtype)
    return extreme, lax.psum(held * dx, axis) / lax.psum(held, axis)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _broadcast(x: jax.Array, ranks: Ranks, root: int) -> jax.Array:
    # A sum of floats would turn -0 into 0; that of their bits does not.
    bits = x if jnp.issubdtype(x.dtype, jnp.integer) else _as_bits(x)
    sent = lax.psum(jnp.where(lax.axis_index(ranks.axis) == root, bits, jnp.zeros_like(bits)), ranks.axis)
    return sent if sent.dtype == x.dtype else lax.bitcast_convert_type(sent, x.dtype)


@_broadcast.defjvp
def _broadcast_jvp(
    ranks: Ranks, root: int, primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (x,), (dx,) = primals, tangents
    moved = lax.psum(jnp.where(lax.axis_index(ranks.axis) == root, dx, jnp.zeros_like(dx)), ranks.axis)
    return _broadcast(x, ranks, root), moved


def _as_bits(x: jax.Array) -> jax.Array:
    bits: jax.Array = lax.bitcast_convert_type(x, np.dtype(f"uint{8 * x.dtype.itemsize}"))
    return bits
