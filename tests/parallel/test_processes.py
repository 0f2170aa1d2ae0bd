"""Collectives of two processes, each with its own devices, that meet on the loopback address."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys

import jax

port, number, each = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
jax.config.update("jax_num_cpu_devices", each)
jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=number)

import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

import rtx_jax as xp
from rtx_jax.errors import InvalidArgument
from rtx_jax.parallel import Communicator

comm = Communicator.world()
world = 2 * each
assert comm.world_size == world
assert comm.ranks == tuple(range(number * each, (number + 1) * each)), comm.ranks
if each == 1:
    assert comm.rank == number
else:
    try:
        comm.rank
    except InvalidArgument as error:
        assert f"{each} of {world} ranks" in str(error)
    else:
        raise AssertionError("several ranks")

host = np.arange(world * 2.0).reshape(world, 2)
x = xp.asarray(jax.make_array_from_callback(host.shape, NamedSharding(comm.mesh, P("rank")), lambda key: host[key]))


def check(result, expected):
    for shard in result.jax.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), expected[shard.index])


check(comm.all_reduce(x), np.tile(host.sum(0), (world, 1)))
check(comm.all_reduce(x, "prod"), np.tile(host.prod(0), (world, 1)))
check(comm.broadcast(x, world - 1), np.tile(host[-1], (world, 1)))
check(comm.shift(x), np.roll(host, 1, axis=0))
check(comm.all_gather(x), np.tile(host, (world, 1)))
# Groups across the processes: the ranks of one place in each process.
pairs = comm.split([i % each for i in range(world)])
check(pairs.all_reduce(x), np.tile(host.reshape(2, each, 2).sum(0), (2, 1)))
comm.barrier()
comm.sync()
print("done", number)
jax.distributed.shutdown()
"""


@pytest.mark.parametrize("each", [1, 2])
def test_two_processes(each: int, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    root = str(Path(__file__).parents[2])
    environment = {k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "JAX_COMPILATION_CACHE_DIR")}
    environment.update(JAX_PLATFORMS="cpu", PYTHONPATH=root)
    running = [
        subprocess.Popen(
            [sys.executable, str(program), port, str(number), str(each)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in range(2)
    ]
    try:
        outputs = [process.communicate(timeout=120)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    for number, (process, output) in enumerate(zip(running, outputs, strict=True)):
        assert process.returncode == 0 and f"done {number}" in output, output
