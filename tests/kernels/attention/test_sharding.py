"""Attention over eight virtual devices gives what one device gives: by the partitioner, shard_map, explicit axes."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from rtx_jax.kernels.attention import flash_attention

MESH = Mesh(np.array(jax.devices("cpu")[:8]).reshape(4, 2), ("rows", "heads"))
WHOLE = P("rows", None, "heads", None)
_rng = np.random.default_rng(0)
OPERANDS = tuple(jnp.asarray(_rng.standard_normal((4, 40, heads, 8)), jnp.float32) for heads in (4, 2, 2))
Loss = Callable[..., jax.Array]


def attend(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    found = flash_attention(q, k, v, causal=True, window=(30, 0))
    assert isinstance(found, jax.Array)
    return found


def every(fn: Callable[..., jax.Array], *operands: jax.Array) -> object:
    """Return the value, the gradients, and a derivative of second order."""

    def loss(*operands: jax.Array) -> jax.Array:
        return jnp.sum(fn(*operands) ** 2)

    def slope(k: jax.Array) -> jax.Array:
        return jnp.sum(jax.grad(loss, argnums=1)(operands[0], k, operands[2]) ** 2)

    found = jax.jit(lambda *x: jax.value_and_grad(loss, argnums=(0, 1, 2))(*x))(*operands)
    return jax.block_until_ready((found, jax.jit(jax.grad(slope))(operands[1])))


@pytest.fixture(scope="module")
def want() -> object:
    return every(attend, *OPERANDS)


def _compare(got: object, want: object) -> None:
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        scale = float(np.max(np.abs(b)))
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=0, atol=3e-6 * scale)


def test_by_the_partitioner(want: object) -> None:
    spread = [jax.device_put(x, NamedSharding(MESH, WHOLE)) for x in OPERANDS]
    _compare(every(attend, *spread), want)


@pytest.mark.parametrize("check_vma", [True, False])
def test_by_shard_map(want: object, check_vma: bool) -> None:
    fn = jax.shard_map(attend, mesh=MESH, in_specs=WHOLE, out_specs=WHOLE, check_vma=check_vma)
    _compare(every(fn, *OPERANDS), want)


def test_by_shard_map_where_the_keys_are_on_each_device() -> None:
    # The gradients of the keys are sums over the devices.
    def full(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        found = flash_attention(q, k, v)
        assert isinstance(found, jax.Array)
        return found

    spec = P(None, "rows", None, None)
    fn = jax.shard_map(full, mesh=MESH, in_specs=(spec, P(), P()), out_specs=spec)
    _compare(every(fn, *OPERANDS), every(full, *OPERANDS))


def test_on_a_mesh_with_explicit_axes(want: object) -> None:
    mesh = jax.make_mesh((4, 2), ("rows", "heads"), axis_types=(AxisType.Explicit,) * 2, devices=jax.devices("cpu")[:8])
    spread = [jax.device_put(x, NamedSharding(mesh, WHOLE)) for x in OPERANDS]

    def loss(*operands: jax.Array) -> tuple[jax.Array, jax.Array]:
        out = attend(*operands)
        return jnp.sum(out**2), out

    slopes, out = jax.jit(jax.grad(loss, argnums=(0, 1, 2), has_aux=True))(*spread)
    assert all(x.sharding.spec == WHOLE for x in (out, *slopes))
    (_, wanted), _ = want  # type: ignore[misc]
    _compare(slopes, wanted)
