"""`inspect`: what functions compile to."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import rtx_jax as xp
from rtx_jax import runtime
from rtx_jax.backend import CpuBackend
from rtx_jax.errors import BackendLimitation, InvalidArgument, ShapeMismatch
from rtx_jax.transforms import hlo


def chain(x: xp.Array) -> xp.Array:
    """Twelve operations."""
    for _ in range(4):
        x = xp.sin(x) * 1.5 + 0.25
    return x


@pytest.mark.parametrize("size", [8, 5_000_000])
def test_a_chain_is_one_kernel(size: int) -> None:
    report = xp.inspect(chain, xp.ones(size, dtype=xp.float32))
    assert [kernel.kind for kernel in report.kernels] == ["fusion"]
    assert sorted(report.kernels[0].operations) == ["add"] * 4 + ["multiply"] * 4 + ["sine"] * 4
    assert report.fused_operations == 12 and report.kernels[0].result_bytes == 4 * size and report.kernels[0].runs == 1
    assert (report.argument_bytes, report.output_bytes, report.temporary_bytes) == (4 * size, 4 * size, 0)
    assert report.flops == 8 * size and report.transcendentals == 4 * size and report.bytes_accessed == 8 * size
    assert report.collectives == report.donations == ()
    assert report.name == "chain" and report.platform == jax.default_backend()


def test_it_takes_what_can_be_compiled() -> None:
    x = xp.ones(8, dtype=xp.float32)
    graph = runtime.capture(chain, x)
    lowered = xp.jit(chain).lower(x)
    plain = jax.jit(lambda x: jnp.sin(jnp.sin(x) * 1.5 + 0.25))
    backend = CpuBackend()
    for report, count in (
        (xp.inspect(xp.jit(chain), x), 12),
        (xp.inspect(xp.fusion()(chain), x), 12),
        (xp.inspect(xp.grad(lambda x: xp.sum(xp.sin(x) * 2)), x), 2),
        (xp.inspect(xp.vmap(chain), x), 12),
        (xp.inspect(graph), 12),
        (xp.inspect(lowered), 12),
        (xp.inspect(lowered.compile()), 12),
        (xp.inspect(plain, x.jax), 4),
        (xp.inspect(jax.jit(chain), x), 12),
        (xp.inspect(lambda x: backend.exp(backend.neg(backend.mul(x, x))), x.jax), 3),
        (xp.inspect(lambda x, *, y: x * y["a"] + 1, x, y={"a": x}), 2),
    ):
        assert len(report.kernels) == 1 and report.fused_operations == count
    assert xp.inspect(lowered).name == "chain"


def test_nothing_runs() -> None:
    x = xp.ones(8, dtype=xp.float32)

    def write(x: xp.Array) -> None:
        x[...] = 5

    report = xp.inspect(write, x)
    assert x.tolist() == [1.0] * 8
    assert [(given.output, given.nbytes) for given in report.donations] == [("", 32)]
    taken = (x * 1).take()
    report = xp.inspect(lambda x: x + 1, taken)
    assert report.donated_bytes == 32 and taken.is_alive and taken.tolist() == [1.0] * 8


def test_donations_have_the_names_of_arguments() -> None:
    def step(weight: jax.Array, rate: jax.Array, state: jax.Array) -> tuple[jax.Array, jax.Array]:
        return weight * rate, state + 1

    report = xp.inspect(jax.jit(step, donate_argnums=(0, 2)), jnp.ones(3), jnp.ones(()), jnp.ones(5))
    assert sorted((given.operand, given.output, given.nbytes) for given in report.donations) == [
        ("state", "1", 20),
        ("weight", "0", 12),
    ]
    assert "donated weight -> result 0: 12 bytes" in str(report)


def test_loops_tell_how_often_their_kernels_run() -> None:
    def known(x: xp.Array) -> xp.Array:
        return xp.fori_loop(0, 5, lambda i, v: xp.tanh(v) * 1.25, x)

    def unknown(x: xp.Array) -> xp.Array:
        return xp.while_loop(lambda v: xp.sum(v) > 1.0, lambda v: xp.tanh(v) * 0.5, x)

    x = xp.ones(64, dtype=xp.float32)
    runs = {kernel.runs for kernel in xp.inspect(known, x).kernels if "tanh" in kernel.operations}
    assert runs == {5}
    runs = {kernel.runs for kernel in xp.inspect(unknown, x).kernels if "tanh" in kernel.operations}
    assert runs == {None} and " ? " in str(xp.inspect(unknown, x))


def test_branches_count_all() -> None:
    def branch(x: xp.Array) -> xp.Array:
        return xp.cond(x[0] > 0, lambda v: xp.sin(v) * 2, lambda v: xp.cos(v) * 3, x)

    seen = {name for kernel in xp.inspect(branch, xp.ones(512, dtype=xp.float32)).kernels for name in kernel.operations}
    assert {"sine", "cosine"} <= seen


def test_temporaries_and_flops() -> None:
    def product(x: xp.Array, y: xp.Array) -> xp.Array:
        return xp.sort(x @ y, axis=1) @ y

    report = xp.inspect(product, *[xp.ones((64, 64), dtype=xp.float32)] * 2)
    assert report.temporary_bytes is not None and report.temporary_bytes >= 4 * 64 * 64
    assert report.flops is not None and report.flops >= 2 * 2 * 64**3
    assert len(report.kernels) >= 3


def test_64_bit_functions_keep_their_width() -> None:
    report = xp.inspect(lambda x: xp.exp(x) + 1.0, xp.ones(16, dtype=xp.float64))
    assert report.output_bytes == 128 and "f64[16]" in report.text and not jax.config.jax_enable_x64
    narrow = xp.inspect(jax.jit(lambda x: jnp.exp(x) + 1.0), xp.ones(16, dtype=xp.float64).jax)
    assert narrow.output_bytes == 128


def test_custom_calls_have_their_target() -> None:
    report = xp.inspect(lambda x: xp.linalg.svdvals(x), xp.ones((4, 4), dtype=xp.float32))
    assert any("gesdd" in kernel.kind for kernel in report.kernels)


def test_collectives() -> None:
    count = min(jax.device_count(), 4)
    mesh = Mesh(np.array(jax.devices()[:count]), "i")
    spread = NamedSharding(mesh, PartitionSpec("i"))
    x = jax.device_put(np.ones((8, 16), np.float32), spread)
    report = xp.inspect(jax.jit(lambda x: x.sum(0)), x)
    if count == 1:
        assert report.collectives == ()
        return
    assert [(one.kind, one.result_bytes, one.runs) for one in report.collectives] == [("all-reduce", 64, 1)]
    assert "collective all-reduce: 64 bytes, 1 runs" in str(report)
    assert "all-reduce" not in [kernel.kind for kernel in report.kernels]


def test_the_table() -> None:
    lines = str(xp.inspect(chain, xp.ones(1000, dtype=xp.float32))).splitlines()
    assert (
        lines[0].startswith("chain on ") and "1 kernel, 1 of several operations (12 fused), 0 collectives" in lines[0]
    )
    assert lines[1].split() == ["kernel", "kind", "operations", "runs", "result", "bytes", "what"]
    assert lines[2].split()[1:5] == ["fusion", "12", "1", "4,000"] and "4 sine" in lines[2]
    assert lines[-2] == "flops 8,000, transcendentals 4,000, bytes accessed 8,000"
    assert lines[-1] == "bytes of arguments 4,000, outputs 4,000, temporaries 0"

    def long(x: xp.Array) -> xp.Array:
        for axis in range(50):
            x = xp.sort(x * 1.5, axis=axis % 2)
        return x

    report = xp.inspect(long, xp.ones((4, 4), dtype=xp.float32))
    assert len(report.kernels) > 50 and f"... and {len(report.kernels) - 40} more" in str(report)


def test_bad_input() -> None:
    x = xp.ones(3)
    with pytest.raises(InvalidArgument, match="function"):
        xp.inspect(3)
    with pytest.raises(InvalidArgument, match="no|none"):
        xp.inspect(xp.jit(chain).lower(x), x)
    with pytest.raises(ShapeMismatch):
        xp.inspect(lambda x: x @ xp.ones(4), x)
    with pytest.raises(ShapeMismatch):
        xp.inspect(xp.jit(lambda x: x @ xp.ones(4)), x)
    with pytest.raises(TypeError):
        xp.inspect(chain)

    host = runtime.NumpyRuntime()
    x, y = np.ones(3), np.zeros(3)
    replayed = runtime.capture_graph_into(host.default_client(), [x], [y], lambda x, y: y.write(x + 1))
    with pytest.raises(BackendLimitation, match="compiler"):
        xp.inspect(replayed)


# --- the text --------------------------------------------------------------------------------------------------------

# Written by hand after what XLA prints for GPUs: asynchronous collectives, layouts with tiles, a library call.
GPU = """\
HloModule jit_step, is_scheduled=true, input_output_alias={ {0}: (1, {}, may-alias), {2}: (0, {}, must-alias) }, \
entry_computation_layout={(f32[8]{0}, bf16[4,2]{1,0:T(8,128)(2,1)})->(bf16[4,2]{1,0}, f32[8]{0}, f32[8]{0})}

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

%inner (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %e = f32[8]{0} exponential(f32[8]{0} %p)
}

%fused (p0: f32[8]) -> f32[8] {
  %p0 = f32[8]{0} parameter(0)
  %two = f32[] constant(2)
  %twos = f32[8]{0} broadcast(%two), dimensions={}
  %nested = f32[8]{0} fusion(%p0), kind=kLoop, calls=%inner
  ROOT %m = f32[8]{0} multiply(%nested, %twos)
}

ENTRY %main (x: f32[8], w: bf16[4,2]) -> (bf16[4,2], f32[8], f32[8]) {
  %x = f32[8]{0} parameter(0), metadata={op_name="state[\\'x\\']"}
  %w = bf16[4,2]{1,0:T(8,128)(2,1)} parameter(1)
  %start = f32[8]{0} all-reduce-start(%x), replica_groups={{0,1}}, to_apply=%add
  %done = f32[8]{0} all-reduce-done(%start)
  %gathering = (f32[8]{0:T(256)}, f32[16]{0}) all-gather-start(%x), dimensions={0}
  %gathered = f32[16]{0} all-gather-done(%gathering)
  %copying = (f32[8]{0:T(256)S(1)}, f32[8]{0}, u32[]{:S(2)}) copy-start(%x)
  %copied = f32[8]{0:T(256)S(1)} copy-done(%copying)
  %loop_fusion = f32[8]{0} fusion(%done), kind=kLoop, calls=%fused
  %call = (bf16[4,2]{1,0}, /*index=1*/s8[1024]{0}) custom-call(%w), custom_call_target="__cublas$gemm"
  %out = bf16[4,2]{1,0} get-tuple-element(%call), index=0
  ROOT %t = (bf16[4,2]{1,0}, f32[8]{0}, f32[8]{0}) tuple(%out, %loop_fusion, %done)
}
"""


def test_text_of_other_compilers() -> None:
    module = hlo.parse(GPU)
    assert module.entry == "main" and module.aliases == (("0", 1), ("2", 0))
    assert module.parameters()[0].label.startswith("state[") and module.parameters()[1].label == ""
    running = list(module.running())
    assert [(x.opcode, runs) for x, runs in running] == [
        ("all-reduce-start", 1),
        ("all-gather-start", 1),
        ("copy-start", 1),
        ("fusion", 1),
        ("custom-call", 1),
    ]
    assert module.operations(running[2][0]) == ["copy"]
    assert module.operations(running[3][0]) == ["exponential", "multiply"]
    assert running[4][0].attribute("custom_call_target") == "__cublas$gemm"
    assert [x.result_bytes() for x, _ in running] == [32, 64, 32, 32, 16 + 1024]


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ("f32[]", 4),
        ("pred[3,5]{1,0}", 15),
        ("(s32[], f64[2,2]{1,0}, token[])", 36),
        ("s4[3]", 2),
        ("f8e4m3fn[7]", 7),
        ("c128[2]", 32),
        ("bf16[0,4]", 0),
        ("u8[<=16]", 16),
    ],
)
def test_sizes(shape: str, size: int) -> None:
    assert hlo.bytes_of(shape) == size


def test_no_text() -> None:
    with pytest.raises(ValueError, match="no HLO"):
        hlo.parse("module @jit_f {}")
