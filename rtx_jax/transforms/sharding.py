"""shard_map: run a function on the shards of its arguments, one copy on each device of a mesh."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable

import jax

from ..core.handle import tracing
from .compiled import jit
from .scope import StepScope, entered
from .trees import Spec, Tree, pack, pack_result, unpack, unpack_result, wide_tree

__all__ = ["shard_map"]


def shard_map(
    fn: Callable[..., object],
    *,
    mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh | None = None,
    in_specs: object,
    out_specs: object,
    axis_names: frozenset[Hashable] = frozenset(),
    check_vma: bool = True,
) -> Callable[..., object]:
    """Return a function that runs ``fn`` on the shards of its arguments.

    Parameters
    ----------
    mesh
        The devices; the mesh of the context when None.
    in_specs, out_specs
        ``jax.sharding.PartitionSpec`` for each argument and for the result, or trees of them.
    axis_names
        The axes of the mesh that `fn` handles itself; all of them when empty.
    check_vma
        Whether JAX checks that results said to be replicated are so.

    Raises
    ------
    TracedMutation
        `fn` writes to an Array that it did not receive.

    Notes
    -----
    A write to an argument stays inside. Captured Arrays are the same on every device. Collectives are
    those of `rtx_jax.parallel.Communicator`, or of ``jax.lax`` on ``x.jax``. Called eagerly, the function is compiled
    as under `jit`.
    """

    def traced(*args: object) -> object:
        raw, spec = pack(args, operation="shard_map")
        result: list[Spec] = []

        def body(*values: Tree) -> Tree:
            with StepScope("shard_map", _device_number(mesh, axis_names)).running():
                out, out_spec = pack_result(fn(*unpack(values, spec)))
                result.append(out_spec)
                return out

        mapped = jax.shard_map(
            body, mesh=mesh, in_specs=in_specs, out_specs=out_specs, axis_names=axis_names, check_vma=check_vma
        )
        with entered(wide_tree(args)):
            return unpack_result(mapped(*raw), result[-1])

    compiled = jit(functools.wraps(fn)(traced))

    @functools.wraps(fn)
    def wrapped(*args: object) -> object:
        return compiled(*args) if tracing.settle() else traced(*args)

    return wrapped


def _device_number(
    mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh | None, axis_names: frozenset[Hashable]
) -> Callable[[], jax.Array]:
    def number() -> jax.Array:
        names = tuple(axis_names) or (
            mesh.axis_names if mesh is not None else jax.sharding.get_abstract_mesh().axis_names
        )
        return jax.lax.axis_index(names)

    return number
