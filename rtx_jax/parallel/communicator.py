"""Communicator: the collectives of the ranks along an axis of a mesh."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

import jax
import numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh

from .._array import Array, calln, lift, wrap
from ..core.dispatch import Op
from ..core.handle import tracing
from ..errors import BackendLimitation, InvalidArgument, ShapeMismatch
from . import checks, collectives
from .calls import (
    ALL_GATHER,
    ALL_REDUCE,
    BARRIER,
    BROADCAST,
    REDUCE_SCATTER,
    SEND_RECV,
    SHIFT,
    Collective,
    meet,
)
from .collectives import Ranks, ReduceOp

__all__ = ["Communicator"]

_A = TypeVar("_A", Array, jax.Array)

_MAX_PENDING = 256  # beyond it, results that are gone are forgotten


@dataclass(frozen=True, slots=True)
class Communicator:
    """The ranks along an axis of a mesh, and what they can do together.

    Parameters
    ----------
    mesh
        The devices. An abstract mesh serves inside of `shard_map` alone.
    axis
        The axis of the mesh whose positions are the ranks, or several in the order of the mesh, the first the
        slowest. For another order of the ranks see `split`.

    Raises
    ------
    InvalidArgument
        The mesh has no such axis, or has them in another order.

    Notes
    -----
    Every method works in two places. Inside of `shard_map` over the axis, the operand is this rank's value and so is
    the result. Elsewhere the operand holds the values of all ranks, one after another along ``dim`` (rank r has the
    r-th of ``world_size`` equal pieces), and the result does too, divided among the devices of the mesh. Plain
    `jax.Array` operands give plain results.

    Values are combined in their own dtype. All methods but `sync` are compiled, work under `jit` and `vmap`, and
    have derivatives for floating dtypes.

    Examples
    --------
    >>> import rtx_jax as xp
    >>> comm = Communicator.world(devices="cpu")
    >>> x = xp.arange(comm.world_size)
    >>> bool(xp.all(comm.all_reduce(x) == xp.sum(x)))
    True
    """

    mesh: Mesh | AbstractMesh
    axis: str | tuple[str, ...]
    _groups: tuple[tuple[int, ...], ...] | None = field(default=None, repr=False)
    _pending: list[weakref.ref[object]] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = (self.axis,) if isinstance(self.axis, str) else tuple(self.axis)
        known = self.mesh.axis_names
        if not names or names != tuple(name for name in known if name in names):
            raise InvalidArgument(
                "Communicator",
                "axis",
                got=repr(self.axis),
                wanted=f"an axis of the mesh, or several in its order: {', '.join(map(repr, known))}",
                arg="axis",
                reason="not an axis of the mesh",
            )
        if not isinstance(self.axis, str):
            object.__setattr__(self, "axis", names)

    @classmethod
    def world(cls, *, devices: str | Sequence[jax.Device] | None = None, axis: str = "rank") -> Communicator:
        """Return the communicator of all devices of a platform, of those given, or (None) of the default platform.

        Raises
        ------
        InvalidArgument
            `devices` is neither a platform nor a sequence of devices.
        """
        if devices is None or isinstance(devices, str):
            devices = jax.devices(devices)
        checks.devices("Communicator.world", devices)
        mesh = jax.make_mesh((len(devices),), (axis,), axis_types=(AxisType.Auto,), devices=devices)
        return cls(mesh, axis)

    # -- who takes part

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return self._ranks.size

    @property
    def rank(self) -> int | jax.Array:
        """This rank: an int32 scalar inside of `shard_map`, elsewhere a number where the process has one rank alone.

        Raises
        ------
        InvalidArgument
            Outside of `shard_map` in a process that has several ranks.
        """
        if self._is_manual("rank"):
            return collectives.rank(self._ranks)
        here = self.ranks
        if len(here) != 1:
            raise InvalidArgument(
                "rank",
                got=f"a process that has {len(here)} of {self.world_size} ranks",
                wanted="one rank",
                remedy="Ask inside of shard_map, or read `ranks`.",
                arg="rank",
                reason="several ranks",
            )
        return here[0]

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks whose devices belong to this process, each once (every group of a `split` has them)."""
        mesh = self._devices("ranks")
        order = [mesh.axis_names.index(name) for name in self._names]
        along = np.moveaxis(mesh.devices, order, range(len(order))).reshape(self._ranks.world, -1)
        index_of = self._ranks.index_of()
        process = jax.process_index()
        return tuple(
            sorted({int(index_of[i]) for i, row in enumerate(along) if any(d.process_index == process for d in row)})
        )

    def split(self, color: Sequence[int], key: Sequence[int] | None = None) -> Communicator:
        """Return the communicator in which ranks of one color are among themselves.

        Parameters
        ----------
        color
            For each rank a number; ranks with the same number form a group.
        key
            For each rank a number that orders the ranks of a group, ties by rank; by default their order here.

        Raises
        ------
        ShapeMismatch
            There is not one number for each rank.
        BackendLimitation
            The groups are not equally large: all ranks run one program, whose shapes depend on the size.

        Notes
        -----
        A split communicator can be split again: the numbers are then those of the ranks of each group.
        """
        size = self.world_size
        colors = checks.numbers("split", "color", color, size)
        keys = list(range(size)) if key is None else checks.numbers("split", "key", key, size)
        parts = [
            [i for i in sorted(range(size), key=lambda i: (keys[i], i)) if colors[i] == c] for c in sorted(set(colors))
        ]
        if len({len(part) for part in parts}) > 1:
            raise BackendLimitation(
                "split",
                "color",
                got=f"groups of {', '.join(str(len(part)) for part in parts)} ranks",
                wanted="groups of one size",
                remedy="All ranks run one program, so that the shapes of its arrays cannot differ.",
                backend="jax",
                reason="groups of different sizes",
            )
        groups = tuple(tuple(group[i] for i in part) for group in self._ranks.members() for part in parts)
        trivial = groups == (tuple(range(self._ranks.world)),)
        return replace(self, _groups=None if trivial else groups)

    # -- collectives

    def all_reduce(self, x: _A, /, op: ReduceOp = "sum", *, dim: int = 0) -> _A:
        """Return on every rank the sum, product, minimum or maximum of the values of all ranks.

        Parameters
        ----------
        x
            A value of the same shape on each rank.
        op
            ``"sum"``, ``"prod"``, ``"min"`` or ``"max"``; a bool has the last two (all and any), and a complex
            number the first two.
        dim
            Outside of `shard_map`: along which the values of the ranks lie.

        Raises
        ------
        InvalidArgument
            Another `op`.
        UnsupportedDType
            The dtype has no such reduction.
        ShapeMismatch, InvalidDimension
            Outside of `shard_map`: `x` cannot be divided among the ranks along `dim`.

        Notes
        -----
        A minimum or maximum that several ranks hold shares its gradient equally among them.
        """
        x = _lifted("all_reduce", x)
        checks.reduction("all_reduce", op, x.dtype)
        return self._run(ALL_REDUCE, x, dim, 1, op)

    def broadcast(self, x: _A, /, root: int = 0, *, dim: int = 0) -> _A:
        """Return on every rank the value of the rank `root`, bit for bit.

        Raises
        ------
        IndexOutOfBounds
            There is no rank `root`.
        ShapeMismatch, InvalidDimension
            As in `all_reduce`.
        """
        return self._run(BROADCAST, x, dim, 1, checks.rank_number("broadcast", "root", root, self.world_size))

    def all_gather(self, x: _A, /, *, dim: int = 0) -> _A:
        """Return on every rank the values of all, one after another along `dim`.

        Raises
        ------
        ShapeMismatch, InvalidDimension
            As in `all_reduce`.
        """
        return self._run(ALL_GATHER, x, dim, 1)

    def reduce_scatter(self, x: _A, /, op: ReduceOp = "sum", *, dim: int = 0) -> _A:
        """Return on rank r the r-th of ``world_size`` equal pieces, along `dim`, of what `all_reduce` returns.

        Raises
        ------
        InvalidArgument, UnsupportedDType
            As in `all_reduce`.
        ShapeMismatch, InvalidDimension
            The value of a rank cannot be divided into pieces along `dim`.
        """
        x = _lifted("reduce_scatter", x)
        checks.reduction("reduce_scatter", op, x.dtype)
        return self._run(REDUCE_SCATTER, x, dim, self.world_size, op)

    def shift(self, x: _A, /, by: int = 1, *, wrap: bool = True, dim: int = 0) -> _A:
        """Return on rank r the value of rank ``r - by``.

        Parameters
        ----------
        by
            How far values move; negative ones move down.
        wrap
            Whether the ranks form a ring; otherwise ranks that nothing moves to hold zeros.

        Raises
        ------
        InvalidArgument
            `by` is no integer.
        ShapeMismatch, InvalidDimension
            As in `all_reduce`.
        """
        size = self.world_size
        step = checks.integer("shift", "by", by)
        pairs = tuple((i, (i + step) % size) for i in range(size) if wrap or 0 <= i + step < size)
        return self._run(SHIFT, x, dim, 1, pairs)

    def send_recv(self, x: _A, /, pairs: Iterable[tuple[int, int]], *, into: _A | None = None, dim: int = 0) -> _A:
        """Send the values of some ranks to others, all at once.

        Parameters
        ----------
        pairs
            ``(rank that sends, rank that receives)``; each rank at most once on each side.
        into
            What ranks hold that nothing is sent to, of the shape and dtype of `x`; zeros by default.

        Raises
        ------
        IndexOutOfBounds
            There is no such rank.
        InvalidArgument
            A rank sends, or receives, more than once.
        ShapeMismatch, InvalidDimension
            As in `all_reduce`, or `into` has another shape or dtype.

        Notes
        -----
        All ranks run one program, so that a message needs no tag and nobody waits for one that is never sent.
        """
        x = _lifted("send_recv", x)
        checked = checks.messages("send_recv", pairs, self.world_size)
        if into is not None:
            into = _lifted("send_recv", into, "into")
            checks.receiver("send_recv", into, x)
        return self._run(SEND_RECV, x, dim, 1, checked, into=into)

    # -- waiting

    def sync(self) -> None:
        """Wait for every result of this communicator that is still in use; nothing to wait for while tracing."""
        pending, self._pending[:] = list(self._pending), []
        for reference in pending:
            result = reference()
            if isinstance(result, Array):
                if result.is_alive:
                    result.block_until_ready()
            elif isinstance(result, jax.Array) and not result.is_deleted():
                result.block_until_ready()

    def barrier(self, x: _A | None = None, /) -> _A | None:
        """Wait until all ranks have come here.

        Parameters
        ----------
        x
            Inside of `shard_map`, and of `jit`, the value that is needed afterwards, of any shape; what is computed
            from the result starts after the barrier. Elsewhere it is waited for.

        Raises
        ------
        InvalidArgument
            Inside of `shard_map` or `jit` without `x`, where nothing would come after the barrier.
        """
        manual = self._is_manual("barrier")
        if manual or not tracing.settle():
            if x is None:
                raise InvalidArgument(
                    "barrier",
                    "x",
                    got=f"nothing, inside of {'shard_map' if manual else 'a traced function'}",
                    wanted="the value that is needed afterwards",
                    remedy="Write x = comm.barrier(x).",
                    arg="x",
                    reason="missing",
                )
            mesh = None if manual else self._devices("barrier")
            return self._dispatch(BARRIER.op, (_lifted("barrier", x),), (mesh, self._ranks, 0))
        self.sync()
        if x is not None:
            x.block_until_ready()
        meet(self._devices("barrier"), self._ranks, np.int32(0)).block_until_ready()
        return x

    # -- how they run

    @property
    def _names(self) -> tuple[str, ...]:
        return (self.axis,) if isinstance(self.axis, str) else self.axis

    @property
    def _ranks(self) -> Ranks:
        world = math.prod(self.mesh.shape[name] for name in self._names)
        return Ranks(self._names, world, self._groups)

    def _is_manual(self, operation: str) -> bool:
        """Tell whether the call is made inside of `shard_map` over the axis."""
        around = jax.sharding.get_abstract_mesh()
        manual = set(around.manual_axes)
        if not manual & set(self._names):
            return False
        sizes = {name: self.mesh.shape[name] for name in self._names}
        if not set(self._names) <= manual or any(around.shape[name] != size for name, size in sizes.items()):
            raise InvalidArgument(
                operation,
                got=f"a call inside of shard_map over {dict(around.shape)}, of which {sorted(manual)} are its own",
                wanted=f"all axes of the communicator, {sizes}, or none",
                remedy="Make the communicator from the mesh that shard_map gets.",
                arg="mesh",
                reason="another mesh",
            )
        return True

    def _devices(self, operation: str) -> Mesh:
        if isinstance(self.mesh, AbstractMesh):
            raise InvalidArgument(
                operation,
                got="a communicator of an abstract mesh outside of shard_map",
                wanted="a mesh of devices",
                arg="mesh",
                reason="no devices",
            )
        return self.mesh

    def _run(self, call: Collective, x: _A, dim: int, pieces: int, *static: object, into: _A | None = None) -> _A:
        """Check the operands and call; along `dim`, the value of a rank is to be a multiple of `pieces`."""
        x = _lifted(call.name, x)
        mesh = None if self._is_manual(call.name) else self._devices(call.name)
        shape = x.shape
        axis = 0
        if mesh is not None or call.along_dim:
            axis = checks.array_axis(call.name, dim, len(shape))
            multiple = pieces if mesh is None else pieces * self._ranks.world
            if shape[axis] % multiple:
                raise ShapeMismatch(
                    call.name,
                    "x",
                    got=f"shape {shape}",
                    wanted=f"a multiple of {multiple} along axis {axis}",
                    remedy="" if mesh is None else "Outside of shard_map, x holds the values of all ranks along dim.",
                    expected=multiple,
                    got_shape=shape,
                )
        operands = (x,) if into is None else (x, into)
        return self._dispatch(call.op, operands, (mesh, self._ranks, axis, *static))

    def _dispatch(self, op: Op, operands: tuple[_A, ...], static: tuple[object, ...]) -> _A:
        out = cast(_A, _as_given(operands[0], calln(op, operands, static)))
        if tracing.settle():
            if len(self._pending) >= _MAX_PENDING:
                self._pending[:] = [reference for reference in self._pending if reference() is not None]
            self._pending.append(weakref.ref(out))
        return out


def _lifted(name: str, x: _A, argument: str = "x") -> _A:
    """Return what is neither an Array nor a `jax.Array` as an Array."""
    if isinstance(x, Array | jax.Array):
        return x
    return wrap(lift(x, None, name, argument))


def _as_given(x: object, result: object) -> object:
    """Return a result as plain as the operand was."""
    return result.jax if isinstance(x, jax.Array) and isinstance(result, Array) else result
