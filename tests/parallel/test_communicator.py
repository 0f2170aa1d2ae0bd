"""Collectives on eight virtual devices: eagerly on the values of all ranks, and inside of shard_map.

Each call is waited for: many collectives in flight on few cores can block each other on old versions of JAX.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import rtx_jax as xp
from rtx_jax.errors import (
    BackendLimitation,
    DeviceMismatch,
    IndexOutOfBounds,
    InvalidArgument,
    InvalidDimension,
    RtxError,
    ShapeMismatch,
    UnsupportedDType,
)
from rtx_jax.parallel import Communicator

CPUS = jax.devices("cpu")
W = 8
COMM = Communicator.world(devices="cpu")
MESH = COMM.mesh
GRID = jax.make_mesh((4, 2), ("row", "column"), axis_types=(AxisType.Auto,) * 2, devices=CPUS)
EXPLICIT = jax.make_mesh((8,), ("rank",), axis_types=(AxisType.Explicit,), devices=CPUS)
# Rank r has row r. Products stay exact in every dtype here.
ROWS = np.array([[1, 2, 3], [2, 1, 1], [1, 1, 2], [3, 1, 1], [1, 2, 1], [1, 1, 1], [2, 1, 1], [1, 2, 2]])
FOLDS = {"sum": np.sum, "prod": np.prod, "min": np.min, "max": np.max}
DTYPES = ["float32", "float64", "float16", "int32", "int64", "uint8", "bfloat16", "complex64"]


def _folded(op, values=ROWS):
    return np.broadcast_to(FOLDS[op](values, axis=0, keepdims=True), values.shape)


def _both(function, host, dtype="float32", comm=COMM):
    """The result on all ranks, called eagerly; checked to be the same inside of shard_map and of plain JAX's."""
    x = xp.asarray(host, dtype=getattr(xp, dtype))
    eager = function(comm, x).block_until_ready()
    assert isinstance(eager, xp.Array)
    spec = P(comm.axis)
    ours = xp.shard_map(lambda v: function(comm, v), mesh=comm.mesh, in_specs=spec, out_specs=spec)(x)
    ours.block_until_ready()
    plain = jax.jit(jax.shard_map(lambda v: function(comm, v), mesh=comm.mesh, in_specs=spec, out_specs=spec))
    if x.dtype.itemsize < 8 or x.dtype.kind == "c":
        raw = plain(x.jax).block_until_ready()
        assert isinstance(raw, jax.Array)
        np.testing.assert_array_equal(np.asarray(raw), np.asarray(eager))
    assert eager.dtype == ours.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(ours), np.asarray(eager))
    return np.asarray(eager)


class TestValues:
    @pytest.mark.parametrize("op", ["sum", "prod", "min", "max"])
    @pytest.mark.parametrize("dtype", ["float32", "int32"])
    def test_all_reduce(self, op, dtype):
        np.testing.assert_array_equal(_both(lambda c, v: c.all_reduce(v, op), ROWS, dtype), _folded(op))

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_dtypes(self, dtype):
        x = xp.asarray(ROWS, dtype=getattr(xp, dtype))
        for op in ("sum", "prod") if dtype == "complex64" else ("sum", "max"):
            got = COMM.all_reduce(x, op).block_until_ready()
            assert got.dtype == x.dtype
            np.testing.assert_array_equal(np.asarray(got).astype(complex), _folded(op))
        moved = COMM.shift(COMM.broadcast(x, 3)).block_until_ready()
        assert moved.dtype == x.dtype
        np.testing.assert_array_equal(np.asarray(moved).astype(complex), np.tile(ROWS[3], (W, 1)))

    @pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
    def test_nan_wins_on_whichever_rank_it_is(self, dtype):
        host = np.arange(64.0).reshape(W, 8)
        host[np.arange(W), np.arange(W)] = np.nan  # column r is NaN on rank r alone
        host[:, 7] = [0, 1, -np.inf, 3, np.inf, 5, 6, 7]
        x = xp.asarray(host, dtype=getattr(xp, dtype))
        for op in ("min", "max"):
            for comm in (COMM, COMM.split([0] * W, list(range(W, 0, -1)))):
                got = np.asarray(comm.all_reduce(x, op)).astype(np.float64)
                np.testing.assert_array_equal(got, np.tile(FOLDS[op](host, axis=0), (W, 1)))

    def test_bool_is_any_and_all(self):
        host = np.array([[True, False, True]] * 3 + [[True, False, False]] * 5)
        x = xp.asarray(host)
        np.testing.assert_array_equal(np.asarray(COMM.all_reduce(x, "max")), np.tile(host.any(0), (W, 1)))
        np.testing.assert_array_equal(np.asarray(COMM.all_reduce(x, "min")), np.tile(host.all(0), (W, 1)))
        np.testing.assert_array_equal(np.asarray(COMM.broadcast(x, 7)), np.tile(host[7], (W, 1)))

    def test_broadcast_keeps_every_bit(self):
        row = np.array([-0.0, np.nan, np.inf, 1e-40, -np.inf], np.float32)
        host = np.where(np.arange(W)[:, None] == 5, row, np.float32(np.nan)).astype(np.float32)
        got = _both(lambda c, v: c.broadcast(v, 5), host)
        np.testing.assert_array_equal(got.view(np.uint32), np.tile(row.view(np.uint32), (W, 1)))
        spun = xp.asarray(host.astype(np.complex64))
        np.testing.assert_array_equal(np.asarray(COMM.broadcast(spun, 5))[0].real, row)

    def test_all_gather(self):
        got = _both(lambda c, v: c.all_gather(v), ROWS)
        np.testing.assert_array_equal(got, np.tile(ROWS, (W, 1)))

    @pytest.mark.parametrize("op", ["sum", "max"])
    def test_reduce_scatter(self, op):
        host = np.arange(W * W * 2).reshape(W * W, 2) * 7 % 23
        got = _both(lambda c, v: c.reduce_scatter(v, op), host)
        # Rank r has rows 8r to 8r + 7; it gets row r of what they are folded to.
        np.testing.assert_array_equal(got, FOLDS[op](host.reshape(W, W, 2), axis=0))

    @pytest.mark.parametrize("by", [1, -3, 8, 0])
    def test_shift_in_a_ring(self, by):
        np.testing.assert_array_equal(_both(lambda c, v: c.shift(v, by), ROWS), np.roll(ROWS, by, axis=0))

    @pytest.mark.parametrize("by", [2, -1, 9])
    def test_shift_on_a_line(self, by):
        expected = np.array([ROWS[r - by] if 0 <= r - by < W else [0, 0, 0] for r in range(W)])
        np.testing.assert_array_equal(_both(lambda c, v: c.shift(v, by, wrap=False), ROWS), expected)

    def test_send_recv(self):
        pairs = [(0, 3), (5, 0), (7, 7)]
        into = -ROWS
        expected = into.copy()
        for source, dest in pairs:
            expected[dest] = ROWS[source]
        got = _both(lambda c, v: c.send_recv(v, pairs, into=-v), ROWS)
        np.testing.assert_array_equal(got, expected)
        zeros = _both(lambda c, v: c.send_recv(v, pairs), ROWS)
        np.testing.assert_array_equal(zeros, np.where(np.isin(np.arange(W), [3, 0, 7])[:, None], expected, 0))

    def test_another_dimension(self):
        host = np.arange(3 * W * 2).reshape(3, W * 2)
        x = xp.asarray(host)
        pieces = host.reshape(3, W, 2)
        summed = np.tile(pieces.sum(1), (1, W))
        np.testing.assert_array_equal(np.asarray(COMM.all_reduce(x, dim=1)), summed)
        np.testing.assert_array_equal(np.asarray(COMM.all_reduce(x, dim=-1)), summed)
        np.testing.assert_array_equal(np.asarray(COMM.shift(x, dim=1)), np.roll(pieces, 1, axis=1).reshape(3, -1))
        np.testing.assert_array_equal(np.asarray(COMM.all_gather(x, dim=1)), np.tile(host, (1, W)))

    def test_numpy_operands_become_arrays(self):
        got = COMM.all_reduce(ROWS.astype(np.float32))
        assert isinstance(got, xp.Array)
        np.testing.assert_array_equal(np.asarray(got), _folded("sum"))

    def test_nothing_in_a_value(self):
        assert COMM.all_reduce(xp.ones((W, 0))).shape == (W, 0)
        assert COMM.all_gather(xp.ones((0, 2))).shape == (0, 2)
        assert COMM.reduce_scatter(xp.ones((64, 0)), "max").shape == (8, 0)


class TestWhereItRuns:
    def test_the_result_is_divided_among_the_ranks(self):
        got = COMM.all_reduce(xp.asarray(ROWS, device=NamedSharding(MESH, P("rank"))))
        assert got.jax.sharding.is_equivalent_to(NamedSharding(MESH, P("rank")), 2)

    def test_the_program_has_collectives(self):
        for name, word in (
            ("all_reduce", "all-reduce"),
            ("all_gather", "all-gather"),
            ("shift", "collective-permute"),
        ):
            x = jax.device_put(jnp.zeros((W, 3)), NamedSharding(MESH, P("rank")))
            text = jax.jit(getattr(COMM, name)).lower(x).compile().as_text()
            assert word in text

    def test_replicated_results_pass_the_check_of_shard_map(self):
        """What all ranks have alike may leave with out_specs that say so."""

        def body(v):
            return c.all_reduce(v), c.all_reduce(v, "prod"), c.all_reduce(v, "max"), c.broadcast(v, 2), c.all_gather(v)

        c = COMM
        results = jax.jit(jax.shard_map(body, mesh=MESH, in_specs=P("rank"), out_specs=P()))(
            jnp.asarray(ROWS, jnp.float32)
        )
        expected = [ROWS.sum(0), ROWS.prod(0), ROWS.max(0), ROWS[2]]
        for got, want in zip(results[:4], expected, strict=True):
            np.testing.assert_array_equal(np.asarray(got), want[None])
        np.testing.assert_array_equal(np.asarray(results[4]), ROWS)

    def test_one_axis_of_a_grid(self):
        comm = Communicator(GRID, "row")
        assert comm.world_size == 4
        host = np.arange(32.0).reshape(8, 4)
        x = xp.asarray(host, device=NamedSharding(GRID, P("row", "column")))
        got = comm.all_reduce(x).block_until_ready()
        np.testing.assert_array_equal(np.asarray(got), np.tile(host.reshape(4, 2, 4).sum(0), (4, 1)))
        assert got.jax.sharding.is_equivalent_to(NamedSharding(GRID, P("row", "column")), 2)

    def test_both_axes_of_a_grid(self):
        comm = Communicator(GRID, ["row", "column"])
        assert comm.world_size == W and comm.axis == ("row", "column")
        np.testing.assert_array_equal(_both(lambda c, v: c.shift(v), ROWS, comm=comm), np.roll(ROWS, 1, axis=0))

    @pytest.mark.parametrize("spec", [P(), P("rank"), P(None, "rank")])
    def test_a_mesh_with_explicit_axes(self, spec):
        comm = Communicator(EXPLICIT, "rank")
        host = np.arange(64.0).reshape(8, 8)
        x = jax.device_put(jnp.asarray(host, jnp.float32), NamedSharding(EXPLICIT, spec))
        got = comm.all_reduce(x).block_until_ready()
        np.testing.assert_array_equal(np.asarray(got), np.tile(host.sum(0), (W, 1)))

    def test_under_jit_and_vmap(self):
        x = xp.asarray(ROWS, dtype=xp.float32)
        got = xp.jit(lambda v: COMM.all_reduce(v * 2) + 1)(x).block_until_ready()
        np.testing.assert_array_equal(np.asarray(got), 2 * _folded("sum") + 1)
        mapped = xp.vmap(lambda v: COMM.shift(v), in_axes=1, out_axes=1)(x).block_until_ready()
        np.testing.assert_array_equal(np.asarray(mapped), np.roll(ROWS, 1, axis=0))

    def test_without_the_check_of_shard_map(self):
        def body(v):
            return COMM.shift(COMM.all_reduce(v, "max")), COMM.reduce_scatter(COMM.all_gather(v))

        mapped = jax.shard_map(body, mesh=MESH, in_specs=P("rank"), out_specs=P("rank"), check_vma=False)
        top, scattered = jax.jit(mapped)(jnp.asarray(ROWS))
        np.testing.assert_array_equal(np.asarray(top), _folded("max"))
        np.testing.assert_array_equal(np.asarray(scattered), W * ROWS)

    def test_in_a_loop_and_in_a_batch_inside_of_shard_map(self):
        """Values that go round the ring meet those of every rank."""

        def ring(v):
            def step(carry, _):
                moving, total = carry
                moving = COMM.shift(moving)
                return (moving, total + moving), None

            return xp.scan(step, (v, v), xp.arange(W - 1))[0][1]

        def body(v):
            return ring(v), xp.vmap(COMM.all_reduce, in_axes=1, out_axes=1)(v)

        x = xp.asarray(ROWS, dtype=xp.float32)
        summed, mapped = xp.shard_map(body, mesh=MESH, in_specs=P("rank"), out_specs=P("rank"))(x)
        np.testing.assert_array_equal(np.asarray(summed), _folded("sum"))
        np.testing.assert_array_equal(np.asarray(mapped), _folded("sum"))

    def test_on_trees(self):
        tree = {"weight": xp.asarray(ROWS), "bias": [xp.ones(W)]}
        got = jax.tree.map(COMM.all_reduce, tree)
        assert isinstance(got["weight"], xp.Array)
        np.testing.assert_array_equal(np.asarray(got["weight"]), _folded("sum"))
        np.testing.assert_array_equal(np.asarray(got["bias"][0]), np.full(W, 8.0))

    def test_what_is_recorded_for_fusion(self):
        x = xp.asarray(ROWS, dtype=xp.float32)
        with xp.fusion():
            got = COMM.all_reduce(x * 2 + 1) * 3
            np.testing.assert_array_equal(np.asarray(got), 3 * (2 * _folded("sum") + W))

    def test_rank(self):
        got = xp.shard_map(lambda v: v * 0 + COMM.rank, mesh=MESH, in_specs=P("rank"), out_specs=P("rank"))(
            xp.asarray(np.zeros(W, np.int32))
        )
        np.testing.assert_array_equal(np.asarray(got), np.arange(W))
        assert COMM.ranks == tuple(range(W))
        with pytest.raises(InvalidArgument, match="8 of 8 ranks"):
            _ = COMM.rank

    def test_one_rank(self):
        alone = Communicator.world(devices=CPUS[:1])
        assert (alone.world_size, alone.rank, alone.ranks) == (1, 0, (0,))
        x = xp.asarray([1.0, 2.0])
        for result in (alone.all_reduce(x), alone.all_gather(x), alone.reduce_scatter(x, "max"), alone.shift(x)):
            np.testing.assert_array_equal(np.asarray(result), [1.0, 2.0])
        alone.barrier()

    def test_compiled_once(self):
        x = xp.asarray(ROWS, dtype=xp.float32)
        COMM.all_reduce(x).block_until_ready()
        again = Communicator(MESH, "rank")
        assert again == COMM and hash(again) == hash(COMM)
        with xp.explain_compiles() as report:
            again.all_reduce(x + 1).block_until_ready()
        assert not [event for event in getattr(report, "events", []) if "all_reduce" in str(event)]


class TestDerivatives:
    """The loss is the sum of w * result; its gradient is the transpose of the collective, worked by hand."""

    WEIGHTS = np.arange(24.0).reshape(W, 3) % 5 - 2

    def _gradient(self, function, host=ROWS, weights=WEIGHTS):
        w = xp.asarray(weights)

        def loss(x):
            return xp.sum(w * function(COMM, x))

        eager = np.asarray(xp.grad(loss)(xp.asarray(host, dtype=xp.float64)))

        def inside(x):
            return xp.shard_map(
                lambda v, u: COMM.all_reduce(xp.sum(u * function(COMM, v))),
                mesh=MESH,
                in_specs=(P("rank"), P("rank")),
                out_specs=P(),
            )(x, w)

        np.testing.assert_allclose(np.asarray(xp.grad(inside)(xp.asarray(host, dtype=xp.float64))), eager, rtol=1e-12)
        return eager

    def test_sum(self):
        got = self._gradient(lambda c, v: c.all_reduce(v))
        np.testing.assert_allclose(got, np.tile(self.WEIGHTS.sum(0), (W, 1)), rtol=1e-12)

    def test_prod(self):
        got = self._gradient(lambda c, v: c.all_reduce(v, "prod"))
        np.testing.assert_allclose(got, self.WEIGHTS.sum(0) * ROWS.prod(0) / ROWS, rtol=1e-12)

    @pytest.mark.parametrize("op", ["min", "max"])
    def test_extremes_share_ties(self, op):
        got = self._gradient(lambda c, v: c.all_reduce(v, op))
        held = ROWS == FOLDS[op](ROWS, axis=0)
        np.testing.assert_allclose(got, self.WEIGHTS.sum(0) * held / held.sum(0), rtol=1e-12)

    def test_broadcast(self):
        got = self._gradient(lambda c, v: c.broadcast(v, 4))
        np.testing.assert_allclose(got, np.where(np.arange(W)[:, None] == 4, self.WEIGHTS.sum(0), 0), rtol=1e-12)

    def test_shift(self):
        got = self._gradient(lambda c, v: c.shift(v, 2))
        np.testing.assert_allclose(got, np.roll(self.WEIGHTS, -2, axis=0), rtol=1e-12)

    def test_reduce_scatter(self):
        host = np.arange(128.0).reshape(64, 2)
        weights = np.arange(16.0).reshape(W, 2)
        got = self._gradient(lambda c, v: c.reduce_scatter(v), host, weights)
        np.testing.assert_allclose(got, np.tile(weights, (W, 1)), rtol=1e-12)

    def test_all_gather(self):
        weights = np.arange(W * W * 3.0).reshape(W * W, 3) % 7
        got = self._gradient(lambda c, v: c.all_gather(v), ROWS, weights)
        np.testing.assert_allclose(got, weights.reshape(W, W, 3).sum(0), rtol=1e-12)

    def test_second_derivative(self):
        def loss(x):
            return xp.sum(COMM.all_reduce(x**3))

        def directional(x):
            return xp.sum(xp.grad(loss)(x))

        x = np.arange(8.0)
        got = xp.grad(directional)(xp.asarray(x))
        np.testing.assert_allclose(np.asarray(got), W * 6 * x, rtol=1e-12)


class TestSplit:
    # Even and odd ranks, the odd ones in reverse.
    COLOR, KEY = [0, 1] * 4, [0, 7, 1, 6, 2, 5, 3, 4]
    GROUPS = ([0, 2, 4, 6], [7, 5, 3, 1])

    def _expected(self, function):
        """`function` takes the values of a group in the order of its ranks and gives theirs."""
        out = np.empty_like(ROWS)
        for group in self.GROUPS:
            out[group] = function(ROWS[group])
        return out

    def test_groups(self):
        comm = COMM.split(self.COLOR, self.KEY)
        assert comm.world_size == 4 and comm.ranks == (0, 1, 2, 3)
        for op, fold in FOLDS.items():
            expected = self._expected(lambda v, fold=fold: np.tile(fold(v, axis=0), (4, 1)))
            np.testing.assert_array_equal(_both(lambda c, v, op=op: c.all_reduce(v, op), ROWS, comm=comm), expected)
        expected = self._expected(lambda v: np.roll(v, 1, axis=0))
        np.testing.assert_array_equal(_both(lambda c, v: c.shift(v), ROWS, comm=comm), expected)
        expected = self._expected(lambda v: np.tile(v[1], (4, 1)))
        np.testing.assert_array_equal(_both(lambda c, v: c.broadcast(v, 1), ROWS, comm=comm), expected)

    def test_gather_and_scatter(self):
        comm = COMM.split(self.COLOR, self.KEY)
        gathered = _both(lambda c, v: c.all_gather(v), ROWS, comm=comm).reshape(W, 4, 3)
        for group in self.GROUPS:
            for r in group:
                np.testing.assert_array_equal(gathered[r], ROWS[group])
        host = np.arange(W * 4 * 2).reshape(W * 4, 2) % 13
        for op in ("sum", "min"):
            got = _both(lambda c, v, op=op: c.reduce_scatter(v, op), host, comm=comm)
            for group in self.GROUPS:
                folded = FOLDS[op](host.reshape(W, 4, 2)[group], axis=0)
                for place, r in enumerate(group):
                    np.testing.assert_array_equal(got[r], folded[place])

    def test_rank_in_the_group(self):
        comm = COMM.split(self.COLOR, self.KEY)
        got = jax.jit(jax.shard_map(lambda v: v + comm.rank, mesh=MESH, in_specs=P("rank"), out_specs=P("rank")))(
            jnp.zeros(W, jnp.int32)
        )
        np.testing.assert_array_equal(np.asarray(got), [0, 3, 1, 2, 2, 1, 3, 0])

    def test_messages_stay_in_the_group(self):
        comm = COMM.split(self.COLOR, self.KEY)
        got = np.asarray(comm.send_recv(xp.asarray(ROWS), [(0, 3)], into=xp.zeros_like(xp.asarray(ROWS))))
        expected = np.zeros_like(ROWS)
        for group in self.GROUPS:
            expected[group[3]] = ROWS[group[0]]
        np.testing.assert_array_equal(got, expected)

    def test_split_again(self):
        comm = COMM.split(self.COLOR, self.KEY).split([0, 0, 1, 1])
        assert comm.world_size == 2
        out = np.empty_like(ROWS)
        for pair in ([0, 2], [4, 6], [7, 5], [3, 1]):
            out[pair] = ROWS[pair].sum(0)
        np.testing.assert_array_equal(np.asarray(comm.all_reduce(xp.asarray(ROWS))), out)

    def test_one_color_is_the_whole(self):
        assert COMM.split([5] * W) == COMM
        turned = COMM.split([5] * W, list(range(W, 0, -1)))
        assert turned != COMM
        np.testing.assert_array_equal(np.asarray(turned.shift(xp.asarray(ROWS))), np.roll(ROWS, -1, axis=0))

    def test_gradient(self):
        comm = COMM.split(self.COLOR, self.KEY)
        w = np.arange(24.0).reshape(W, 3)
        got = xp.grad(lambda x: xp.sum(xp.asarray(w) * comm.all_reduce(x)))(xp.asarray(ROWS, dtype=xp.float64))
        expected = np.empty_like(w)
        for group in self.GROUPS:
            expected[group] = w[group].sum(0)
        np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-12)


class TestWaiting:
    def test_sync_and_barrier(self):
        comm = Communicator(MESH, "rank")
        results = [comm.all_reduce(xp.asarray(ROWS) + i) for i in range(3)]
        comm.sync()
        assert all(result.jax.is_ready() for result in results)
        assert comm.barrier() is None
        x = comm.shift(xp.asarray(ROWS))
        assert comm.barrier(x) is x and x.jax.is_ready()
        for axis in ("row", "column", ("row", "column")):
            Communicator(GRID, axis).barrier()
        Communicator(EXPLICIT, "rank").barrier()

    def test_results_that_are_gone_are_forgotten(self):
        comm = Communicator(MESH, "rank")
        x = xp.asarray(ROWS)
        for _ in range(300):
            comm.broadcast(x, 0).block_until_ready()
        assert len(comm._pending) <= 257

    def test_inside(self):
        def body(v):
            return COMM.barrier(v) + 1

        mapped = functools.partial(xp.shard_map, mesh=MESH, in_specs=P("rank"), out_specs=P("rank"))
        x = xp.asarray(ROWS, dtype=xp.float32)
        np.testing.assert_array_equal(np.asarray(mapped(body)(x)), ROWS + 1)
        plain = jax.jit(jax.shard_map(COMM.barrier, mesh=MESH, in_specs=P("rank"), out_specs=P("rank")))
        assert "all-reduce" in plain.lower(x.jax).compile().as_text()
        np.testing.assert_array_equal(np.asarray(xp.grad(lambda x: xp.sum(mapped(body)(x)))(x)), np.ones_like(ROWS))
        np.testing.assert_array_equal(np.asarray(mapped(lambda v: xp.vmap(COMM.barrier)(v))(x)), ROWS)
        with pytest.raises(InvalidArgument, match="comm.barrier"):
            mapped(lambda v: COMM.barrier() or v)(x)

    def test_inside_of_jit(self):
        x = xp.asarray(ROWS, dtype=xp.float32)[:5]  # need not be divided
        np.testing.assert_array_equal(np.asarray(xp.jit(lambda v: COMM.barrier(v * 2) + 1)(x)), 2 * ROWS[:5] + 1)
        assert "all-reduce" in jax.jit(COMM.barrier).lower(x.jax).compile().as_text()
        with pytest.raises(InvalidArgument, match="traced function"):
            xp.jit(lambda v: COMM.barrier() or v)(x)

    def test_what_was_given_up_is_not_waited_for(self):
        comm = Communicator(MESH, "rank")
        x = comm.all_reduce(xp.asarray(ROWS))
        y = x.take() + 1
        raw = comm.all_reduce(jnp.asarray(ROWS))
        raw.delete()
        comm.sync()
        np.testing.assert_array_equal(np.asarray(y), _folded("sum") + 1)


class TestBadInput:
    X = xp.ones((W, 3))

    @pytest.mark.parametrize(
        ("call", "error", "text"),
        [
            (lambda x: COMM.all_reduce(x, "mean"), InvalidArgument, "'mean'"),
            (lambda x: COMM.reduce_scatter(x, "avg"), InvalidArgument, "'avg'"),
            (lambda x: COMM.all_reduce(x > 0, "sum"), UnsupportedDType, "astype"),
            (lambda x: COMM.all_reduce(xp.astype(x, xp.complex64), "max"), UnsupportedDType, "no order"),
            (lambda x: COMM.all_reduce(x[:5]), ShapeMismatch, "multiple of 8"),
            (lambda x: COMM.reduce_scatter(x), ShapeMismatch, "multiple of 64"),
            (lambda x: COMM.all_gather(x, dim=2), InvalidDimension, "rank 2"),
            (lambda x: COMM.all_reduce(xp.asarray(1.0)), InvalidDimension, "rank 0"),
            (lambda x: COMM.all_reduce(x, dim="rank"), InvalidArgument, "integer"),
            (lambda x: COMM.broadcast(x, 8), IndexOutOfBounds, "0..7"),
            (lambda x: COMM.broadcast(x, -1), IndexOutOfBounds, "0..7"),
            (lambda x: COMM.broadcast(x, 1.5), InvalidArgument, "integer"),
            (lambda x: COMM.shift(x, 0.5), InvalidArgument, "integer"),
            (lambda x: COMM.send_recv(x, [(0, 1), (0, 2)]), InvalidArgument, "sends 2 times"),
            (lambda x: COMM.send_recv(x, [(0, 1), (3, 1)]), InvalidArgument, "receives 2 times"),
            (lambda x: COMM.send_recv(x, [(0, 9)]), IndexOutOfBounds, "0..7"),
            (lambda x: COMM.send_recv(x, [3]), InvalidArgument, "destination"),
            (lambda x: COMM.send_recv(x, [(0, 1)], into=x[:, :1]), ShapeMismatch, "into"),
            (lambda x: COMM.all_reduce("x"), UnsupportedDType, "x"),
            (lambda x: COMM.split([0, 1]), ShapeMismatch, "8 ranks"),
            (lambda x: COMM.split([0] * 3 + [1] * 5), BackendLimitation, "3, 5 ranks"),
            (lambda x: COMM.split([0.5] * 8), InvalidArgument, "integer"),
            (lambda x: COMM.split(0), InvalidArgument, "a number for each rank"),
            (lambda x: COMM.send_recv(x, 3), InvalidArgument, "source, destination"),
            (lambda x: Communicator.world(devices=4), InvalidArgument, r"jax\.devices\(\)"),
            (lambda x: Communicator.world(devices=[0, 1]), InvalidArgument, r"jax\.devices\(\)"),
            (lambda x: Communicator(MESH, "column"), InvalidArgument, "'rank'"),
            (lambda x: Communicator(MESH, ()), InvalidArgument, "'rank'"),
            (lambda x: Communicator(GRID, ("column", "row")), InvalidArgument, "in its order"),
            (lambda x: Communicator(MESH, ("rank", "rank")), InvalidArgument, "'rank'"),
            (lambda x: Communicator(MESH.abstract_mesh, "rank").all_reduce(x), InvalidArgument, "abstract mesh"),
            (lambda x: COMM.all_reduce(xp.asarray(x, device=CPUS[3], copy=True)), DeviceMismatch, "device"),
        ],
    )
    def test_typed_errors(self, call, error, text):
        with pytest.raises(error, match=text) as caught:
            call(self.X)
        assert isinstance(caught.value, RtxError)
        # Nothing is broken by it.
        np.testing.assert_array_equal(np.asarray(COMM.all_reduce(self.X)), np.full((W, 3), 8.0))

    def test_inside_of_another_mesh(self):
        comm = Communicator(GRID, ("row", "column"))
        with pytest.raises(InvalidArgument, match="all axes of the communicator"):
            jax.shard_map(
                lambda v: comm.all_reduce(v), mesh=GRID, in_specs=P("row"), out_specs=P("row"), axis_names={"row"}
            )(jnp.ones((8, 2)))

    def test_reduce_scatter_inside(self):
        with pytest.raises(ShapeMismatch, match="multiple of 8"):
            jax.shard_map(COMM.reduce_scatter, mesh=MESH, in_specs=P("rank"), out_specs=P("rank"))(jnp.ones((8, 2)))


def test_an_abstract_mesh_serves_inside():
    comm = Communicator(MESH.abstract_mesh, "rank")
    got = jax.jit(jax.shard_map(comm.all_reduce, mesh=MESH, in_specs=P("rank"), out_specs=P("rank")))(jnp.asarray(ROWS))
    np.testing.assert_array_equal(np.asarray(got), _folded("sum"))


def test_gradients_are_summed_by_a_hook():
    """Each rank has its own row of data and of weights; the hook gives all the sum of the gradients."""
    from rtx_jax.backend import Autodiff, CpuBackend

    backend = Autodiff(CpuBackend())

    def reduce(gradients):
        for key in list(gradients):
            gradients.replace(key, COMM.all_reduce(gradients[key]))

    w = backend.require_grad(backend.from_data(np.ones((W, 3)).ravel().tolist(), (W, 3)))
    x = backend.from_data(ROWS.ravel().astype(float).tolist(), (W, 3))
    with backend.register_hook(reduce):
        found = backend.backward(backend.mul(backend.mul(w, w), x))
    np.testing.assert_array_equal(np.asarray(found[w]), 2 * _folded("sum"))
    new = backend.sub(backend.detach(w), found[w])
    np.testing.assert_array_equal(np.asarray(new), 1 - 2 * _folded("sum"))
