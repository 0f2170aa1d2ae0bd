"""How a collective is called: as it is inside of `shard_map`, on the pieces of an array elsewhere."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from .._compat import explicit_axes
from ..core.dispatch import Op
from . import collectives
from .collectives import Pairs, Ranks

__all__ = [
    "ALL_GATHER",
    "ALL_REDUCE",
    "BARRIER",
    "BROADCAST",
    "REDUCE_SCATTER",
    "SEND_RECV",
    "SHIFT",
    "Collective",
    "meet",
]


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective as an operation of the engine.

    Attributes
    ----------
    along_dim
        Whether it cuts or joins along `dim` on each rank.
    """

    name: str
    op: Op
    along_dim: bool = False


def _collective(
    name: str, fn: Callable[..., jax.Array], params: tuple[str, ...] = (), *, along_dim: bool = False
) -> Collective:
    def raw(*operands: jax.Array, mesh: Mesh | None, ranks: Ranks, dim: int, **static: object) -> jax.Array:
        if along_dim:
            static["dim"] = dim

        def body(*values: jax.Array) -> jax.Array:
            return fn(*values, ranks=ranks, **static)

        return body(*operands) if mesh is None else _on_each_rank(body, operands, mesh, ranks, dim)

    return Collective(name, Op(name, raw, ("mesh", "ranks", "dim", *params)), along_dim)


def _on_each_rank(
    body: Callable[..., jax.Array], operands: Sequence[jax.Array], mesh: Mesh, ranks: Ranks, dim: int
) -> jax.Array:
    """Run `body` on each rank's piece of the operands; other axes of the mesh stay as they divide the arrays."""
    piece = PartitionSpec(*[None] * dim, ranks.axis)
    if AxisType.Explicit in mesh.axis_types:
        # shard_map takes only arrays that are divided as it says.
        operands = [_divide(x, mesh, ranks, dim) for x in operands]
    mapped: Callable[..., jax.Array] = jax.shard_map(
        body, mesh=mesh, in_specs=piece, out_specs=piece, axis_names=frozenset(ranks.axis)
    )
    return mapped(*operands)


def _divide(x: jax.Array, mesh: Mesh, ranks: Ranks, dim: int) -> jax.Array:
    spec = [*explicit_axes(jax.typeof(x)), *[None] * x.ndim][: x.ndim]
    kept = [_without(entry, ranks.axis) for entry in spec]
    kept[dim] = ranks.axis
    divided: jax.Array = jax.sharding.reshard(x, NamedSharding(mesh, PartitionSpec(*kept)))
    return divided


def _without(entry: object, axis: tuple[str, ...]) -> object:
    """Return the axes of a mesh that divide one axis of an array, without those in `axis`."""
    names = entry if isinstance(entry, tuple) else (entry,)
    left = tuple(name for name in names if name not in axis and name is not None)
    return left or None


def _permute(x: jax.Array, into: jax.Array | None = None, *, ranks: Ranks, pairs: Pairs) -> jax.Array:
    return collectives.permute(x, into, ranks, pairs)


ALL_REDUCE = _collective("all_reduce", collectives.all_reduce, ("op",))
BROADCAST = _collective("broadcast", collectives.broadcast, ("root",))
ALL_GATHER = _collective("all_gather", collectives.all_gather, along_dim=True)
REDUCE_SCATTER = _collective("reduce_scatter", collectives.reduce_scatter, ("op",), along_dim=True)
SHIFT = _collective("shift", _permute, ("pairs",))
SEND_RECV = _collective("send_recv", _permute, ("pairs",))


def _barrier(x: jax.Array, *, mesh: Mesh | None, ranks: Ranks, dim: int) -> jax.Array:
    if mesh is None:
        return collectives.barrier(x, ranks)
    return collectives.wait(x, lambda start: meet(mesh, ranks, start))


BARRIER = Collective("barrier", Op("barrier", _barrier, ("mesh", "ranks", "dim")))


@functools.partial(jax.jit, static_argnums=(0, 1))
def meet(mesh: Mesh, ranks: Ranks, start: jax.Array) -> jax.Array:
    """Return what no device has before all have come here; `start` is 0."""

    def count(zero: jax.Array) -> jax.Array:
        return collectives.count_ranks(ranks.axis, zero)

    met: jax.Array = jax.shard_map(count, mesh=mesh, in_specs=PartitionSpec(), out_specs=PartitionSpec())(start)
    return met
