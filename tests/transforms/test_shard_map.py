"""shard_map over the virtual CPU devices."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec

import rtx_jax as xp
from rtx_jax.errors import TracedMutation


@pytest.fixture(scope="module")
def mesh() -> jax.sharding.Mesh:
    return jax.sharding.Mesh(np.asarray(jax.devices("cpu")[:4]), ("rows",))


def test_shards_and_collectives(mesh: jax.sharding.Mesh) -> None:
    weight = xp.asarray(2.0)

    def body(x: xp.Array) -> xp.Array:
        assert x.shape == (2,)
        x[0] = 10.0
        total = xp.asarray(jax.lax.psum(xp.sum(x).jax, "rows"))
        return x * weight + total

    f = xp.shard_map(body, mesh=mesh, in_specs=PartitionSpec("rows"), out_specs=PartitionSpec("rows"))
    x = xp.arange(8, dtype=xp.float64)
    want = np.asarray([10.0, 1.0, 10.0, 3.0, 10.0, 5.0, 10.0, 7.0])
    for run in (f, xp.jit(f)):
        result = run(x)
        assert type(result) is xp.Array
        np.testing.assert_array_equal(np.asarray(result), want * 2.0 + want.sum())
    assert np.asarray(x).tolist() == list(range(8))


def test_a_write_to_a_captured_array_is_refused(mesh: jax.sharding.Mesh) -> None:
    box = xp.zeros(2)

    def body(x: xp.Array) -> xp.Array:
        box[0] = 1.0
        return x

    f = xp.shard_map(body, mesh=mesh, in_specs=PartitionSpec("rows"), out_specs=PartitionSpec("rows"))
    with pytest.raises(TracedMutation):
        f(xp.ones(8))
    assert np.asarray(box).tolist() == [0.0, 0.0]
