"""The attention kernels of TPU compile, with every feature, and take no memory beside their operands and results."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from rtx_jax.kernels.attention import flash_attention, pallas_tpu
from rtx_jax.kernels.attention.spec import AttentionSpec, Operands
from rtx_jax.kernels.target import Target
from tests.aot.targets import TPU, Program, aval, tpu

MIB = 1 << 20


def call(
    queries: int = 1024,
    keys: int = 1024,
    *,
    heads: int = 4,
    key_heads: int = 4,
    size: int = 128,
    value_size: int = 128,
    dtype: Any = jnp.bfloat16,
    layout: str = "BNTH",
    arrays: dict[str, jax.ShapeDtypeStruct] | None = None,
    **static: Any,
) -> tuple[AttentionSpec, Operands]:
    """One row of the batch, causal unless `static` says otherwise."""

    def rows(count: int, length: int, width: int) -> jax.ShapeDtypeStruct:
        shape = (1, count, length, width) if layout == "BNTH" else (1, length, count, width)
        return aval(*shape, dtype=dtype)

    operands: Any = Operands(
        rows(heads, queries, size), rows(key_heads, keys, size), rows(key_heads, keys, value_size), **(arrays or {})
    )
    spec = AttentionSpec(
        1,
        queries,
        keys,
        heads,
        key_heads,
        size,
        value_size,
        np.dtype(dtype),
        layout,
        scale=size**-0.5,
        q_offset=None if operands.q_offset is not None else keys - queries,
        mask=getattr(operands.mask, "shape", None),
        bias=getattr(operands.bias, "shape", None),
        bias_dtype=getattr(operands.bias, "dtype", None),
        sinks_dtype=getattr(operands.sinks, "dtype", None),
        segments=operands.segment_ids is not None,
        query_lengths=operands.query_lengths is not None,
        key_lengths=operands.key_lengths is not None,
        **{"window": (None, 0), **static},
    )
    return spec, operands


def forward(generation: str, spec: AttentionSpec, operands: Operands) -> Program:
    device = tpu(generation)
    assert pallas_tpu.unsupported(spec, Target("tpu", device.kind)) == []
    return device.compile(functools.partial(pallas_tpu.forward, spec), operands)


def backward(generation: str, spec: AttentionSpec, operands: Operands) -> Program:
    device = tpu(generation)
    out = aval(*operands.query.shape[:-1], spec.value_size, dtype=spec.dtype)
    lse = aval(1, spec.heads, spec.queries)
    wanted = {"bias": spec.bias is not None, "sinks": spec.sinks_dtype is not None}
    function = functools.partial(pallas_tpu.backward, spec, **wanted)
    return device.compile(function, operands, out, lse, out, lse)


def temp_bytes(program: Program) -> int:
    assert program.temp_bytes is not None
    return program.temp_bytes


@pytest.mark.parametrize("generation", TPU)
def test_forward(generation: str) -> None:
    spec, operands = call()
    program = forward(generation, spec, operands)
    assert program.kernels == ("tpu_custom_call",)
    assert "rtx_jax_attention_forward" in program.text
    # Lists of tiles, and the log-sum-exp before it loses its axis of 1.
    assert temp_bytes(program) < MIB // 16


@pytest.mark.parametrize("generation", TPU)
def test_backward(generation: str) -> None:
    spec, operands = call()
    program = backward(generation, spec, operands)
    assert program.kernels == ("tpu_custom_call",)
    assert "rtx_jax_attention_backward" in program.text
    assert "rtx_jax_attention_bias_gradient" not in program.text
    assert temp_bytes(program) < MIB // 8


@pytest.mark.parametrize("generation", TPU)
def test_backward_with_bias(generation: str) -> None:
    spec, operands = call(512, 512, arrays={"bias": aval(1, 4, 512, 512)})
    program = backward(generation, spec, operands)
    assert "rtx_jax_attention_backward" in program.text
    assert "rtx_jax_attention_bias_gradient" in program.text
    assert temp_bytes(program) < MIB // 8


FEATURES: dict[str, dict[str, Any]] = {
    "seven": {"queries": 7, "keys": 7, "size": 7, "value_size": 9},
    "odd": {"queries": 1000, "keys": 1300, "size": 96, "value_size": 40},
    "grouped": {"key_heads": 1, "size": 64, "value_size": 64},
    "btnh": {"layout": "BTNH"},
    "btnh-narrow": {"layout": "BTNH", "size": 64, "value_size": 64},
    "wide": {"size": 256, "value_size": 256},
    "wider": {"size": 576, "value_size": 512, "dtype": np.float32},
    "window": {"window": (300, 20)},
    "offset": {"arrays": {"q_offset": aval(1, dtype=np.int32)}},
    "lengths": {"arrays": {"query_lengths": aval(1, dtype=np.int32), "key_lengths": aval(1, dtype=np.int32)}},
    "segments": {
        "arrays": {"segment_ids": aval(1, 1024, dtype=np.int32), "key_segment_ids": aval(1, 1024, dtype=np.int32)}
    },
    "mask": {"arrays": {"mask": aval(1, 4, 1024, 1024, dtype=bool)}},
    "mask-of-keys": {"arrays": {"mask": aval(1, 1, 1, 1024, dtype=bool)}},
    "mask-of-queries": {"arrays": {"mask": aval(1, 1, 1024, 1, dtype=bool)}},
    "bias": {"arrays": {"bias": aval(1, 4, 1024, 1024, dtype=jnp.bfloat16)}},
    "bias-of-heads": {"arrays": {"bias": aval(1, 1, 1024, 1024)}},
    "bias-of-keys": {"arrays": {"bias": aval(1, 1, 1, 1024)}},
    "bias-of-queries": {"arrays": {"bias": aval(1, 4, 1024, 1)}},
    "softcap": {"softcap": 30.0},
    "sinks": {"arrays": {"sinks": aval(4)}},
    "nan-safe": {"nan_safe": True},
    "float32": {"dtype": np.float32},
    "float32-quick": {"dtype": np.float32, "precision": "default"},
    "float16": {"dtype": np.float16},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FEATURES)
def test_feature(name: str) -> None:
    spec, operands = call(**FEATURES[name])
    for program in (forward("v5e", spec, operands), backward("v5e", spec, operands)):
        assert program.kernels == ("tpu_custom_call",)
        given = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(operands))
        # What is not in the kernels' layout or dtype is copied, once each way.
        assert temp_bytes(program) < MIB // 2 + 12 * given


@pytest.mark.slow
@pytest.mark.parametrize("generation", TPU)
def test_entropy(generation: str) -> None:
    spec, operands = call(arrays={"sinks": aval(4)})
    program = tpu(generation).compile(functools.partial(pallas_tpu.forward, spec, entropy=True), operands)
    assert program.kernels == ("tpu_custom_call",)
    assert temp_bytes(program) < MIB // 8


@pytest.mark.slow
@pytest.mark.parametrize("length", [1 << 14, 1 << 16, 1 << 18])
def test_memory_grows_with_the_length(length: int) -> None:
    """At the last length, what a key head's queries take on the chip is cut into chunks."""
    spec, operands = call(length, length, heads=2, key_heads=1)
    row = 2 * 128 * 2  # Bytes of one position of all query heads.
    assert temp_bytes(forward("v5p", spec, operands)) < length * 16 + MIB
    # In chunks, operands are cut up, and gradients of keys and values are added up in float32.
    chunked = length > pallas_tpu._chunk_rows(spec, pallas_tpu.default_blocks(spec, "backward"), backward=True)
    assert temp_bytes(backward("v5p", spec, operands)) < length * (6 * row if chunked else 64) + 8 * MIB


@pytest.mark.slow
@pytest.mark.parametrize("length", [4096])
def test_wide_types_stay_out(length: int) -> None:
    """Where 64-bit types are on, nothing 64 bits wide gets into a kernel."""
    spec, operands = call(length, length, arrays={"q_offset": aval(1, dtype=np.int32)})
    with jax.enable_x64(True):
        assert forward("v5e", spec, operands).kernels == ("tpu_custom_call",)
        assert backward("v5e", spec, operands).kernels == ("tpu_custom_call",)


@pytest.mark.parametrize("generation", ["v5e"])
def test_face(generation: str) -> None:
    """The face takes these kernels on TPU by itself, each device its own part inside of shard_map."""
    device = tpu(generation)
    assert device.device is not None and device.topology is not None
    devices = topologies.get_topology_desc(platform="tpu", topology_name=device.topology).devices
    mesh = Mesh(np.array(devices).reshape(2, 2), ("rows", "heads"))
    parts = PartitionSpec("rows", None, "heads")
    x = jax.ShapeDtypeStruct((2, 512, 4, 128), jnp.bfloat16, sharding=NamedSharding(mesh, parts))

    @functools.partial(jax.shard_map, mesh=mesh, in_specs=(parts,) * 3, out_specs=parts)
    def attention(query: jax.Array, key: jax.Array, value: jax.Array) -> Any:
        return flash_attention(query, key, value, causal=True)

    def both(query: jax.Array, key: jax.Array, value: jax.Array, d_out: jax.Array) -> tuple[jax.Array, ...]:
        out, pullback = jax.vjp(attention, query, key, value)
        return out, *pullback(d_out)

    program = device.compile(both, x, x, x, x)
    assert program.kernels == ("tpu_custom_call",)
    assert "rtx_jax_attention_forward" in program.text and "rtx_jax_attention_backward" in program.text
    assert "all-gather" not in program.text and "all-reduce" not in program.text
