"""Attention on Triton, compiled for NVIDIA's cards and lowered for AMD's: forward and every kernel of the backward."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rtx_jax.kernels.attention import flash_attention, pallas_triton
from rtx_jax.kernels.attention.spec import AttentionSpec, Operands
from rtx_jax.kernels.target import Target
from tests.aot.targets import AbsentDevice, Program, aval, gfx942, h200

TRITON = "__gpu$xla.gpu.triton"
FORWARD = ["rtx_attention_forward"]
BACKWARD = ["rtx_attention_backward_key_value", "rtx_attention_backward_query"]
L4 = AbsentDevice("L4", "cuda", "NVIDIA L4", 58, "1x1x1")

LENGTH = 512
BASE = AttentionSpec(1, LENGTH, LENGTH, 4, 2, 64, 64, jnp.dtype("bfloat16"), scale=0.125, window=(None, 0))
F32 = np.dtype(np.float32)
FEATURES: dict[str, dict[str, Any]] = {
    "causal": {},
    "full": {"window": (None, None)},
    "window, ends": {"window": (100, 7), "layout": "BNTH", "queries": 500, "keys": 300, "size": 72, "value_size": 40},
    "mask": {"mask": (1, 4, LENGTH, LENGTH)},
    "bias, softcap, sinks": {
        "bias": (1, 4, LENGTH, LENGTH),
        "bias_dtype": F32,
        "softcap": 30.0,
        "sinks_dtype": F32,
    },
    "bias of keys": {"bias": (1, 1, 1, LENGTH), "bias_dtype": F32},
    "segments": {"segments": True},
    "lengths, offset": {"query_lengths": True, "key_lengths": True, "q_offset": None},
}
TYPES: dict[str, dict[str, Any]] = {
    "float16": {"dtype": jnp.dtype("float16")},
    "float32": {"dtype": F32},
    "float32, high": {"dtype": F32, "precision": "high"},
    "float32, default": {"dtype": F32, "precision": "default"},
    "float8_e4m3fn": {"dtype": jnp.dtype("float8_e4m3fn")},
}


def operands_of(spec: AttentionSpec) -> Operands:
    """Shapes and dtypes of the operands of a call."""

    def head(length: int, heads: int, size: int) -> jax.ShapeDtypeStruct:
        shape = (length, heads) if spec.layout == "BTNH" else (heads, length)
        return aval(spec.batch, *shape, size, dtype=spec.dtype)

    def whole(*shape: int) -> jax.ShapeDtypeStruct:
        return aval(*shape, dtype=np.int32)

    segments = (whole(spec.batch, spec.queries), whole(spec.batch, spec.keys)) if spec.segments else (None, None)
    given: tuple[Any, ...] = (
        head(spec.queries, spec.heads, spec.size),
        head(spec.keys, spec.key_heads, spec.size),
        head(spec.keys, spec.key_heads, spec.value_size),
        None if spec.mask is None else aval(*spec.mask, dtype=bool),
        None if spec.bias is None else aval(*spec.bias, dtype=spec.bias_dtype),
        *segments,
        whole(spec.batch) if spec.query_lengths else None,
        whole(spec.batch) if spec.key_lengths else None,
        None if spec.sinks_dtype is None else aval(spec.heads, dtype=spec.sinks_dtype),
        whole(spec.batch) if spec.q_offset is None else None,
    )
    return Operands(*given)


def forward_of(spec: AttentionSpec, module: Any = pallas_triton) -> tuple[Callable[..., object], tuple[object, ...]]:
    return lambda operands: module.forward(spec, operands), (operands_of(spec),)


def backward_of(spec: AttentionSpec, module: Any = pallas_triton) -> tuple[Callable[..., object], tuple[object, ...]]:
    operands = operands_of(spec)
    out = aval(*operands.query.shape[:3], spec.value_size, dtype=spec.dtype)
    lse = aval(spec.batch, spec.heads, spec.queries)

    def gradients(*results: Any) -> object:
        return module.backward(spec, *results, bias=spec.bias is not None, sinks=spec.sinks_dtype is not None)

    return gradients, (operands, out, lse, out, lse)


def kernels_of(program: Program) -> list[str]:
    return sorted(set(re.findall(r"rtx_attention_[a-z_]+", program.text)))


def linear_bytes(spec: AttentionSpec) -> int:
    """Bytes of float32 rows of all queries and keys: what a pass may take beside its operands, three times over."""
    rows = spec.queries * spec.heads + spec.keys * spec.heads
    return 3 * 4 * spec.batch * rows * (max(spec.size, spec.value_size) + 4)


def assert_compiles(device: AbsentDevice, spec: AttentionSpec, directions: tuple[str, ...]) -> None:
    target = Target("cuda", device.kind, (8, 9) if device is L4 else (9, 0))
    assert pallas_triton.unsupported(spec, target) == []
    for direction in directions:
        function, arguments = (forward_of if direction == "forward" else backward_of)(spec)
        program = device.compile(function, *arguments)
        assert program.kernels == (TRITON,)
        wanted = FORWARD if direction == "forward" else sorted([*BACKWARD, *_bias_kernel(spec)])
        assert kernels_of(program) == wanted
        assert program.spills is False
        assert program.temp_bytes is not None
        assert program.temp_bytes <= linear_bytes(spec)


def _bias_kernel(spec: AttentionSpec) -> list[str]:
    return [] if spec.bias is None else ["rtx_attention_backward_bias"]


def test_forward_of_the_h200() -> None:
    assert_compiles(h200(), BASE, ("forward",))


def test_backward_of_the_h200() -> None:
    spec = dataclasses.replace(BASE, **FEATURES["bias of keys"])
    assert_compiles(h200(), spec, ("backward",))


def squares(implementation: str) -> Callable[..., jax.Array]:
    def loss(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
        out = flash_attention(query, key, value, causal=True, implementation=implementation)
        return jnp.sum(out.astype(np.float32) ** 2)

    return loss


def test_the_face_differentiates_the_kernel() -> None:
    row = aval(1, LENGTH, 4, 64, dtype=BASE.dtype)
    program = gfx942().lower(jax.grad(squares("auto"), (0, 1, 2)), row, row, row)
    assert program.kernels == (TRITON,)
    assert kernels_of(program) == sorted([*FORWARD, *BACKWARD])


@pytest.mark.slow
def test_the_face_maps_and_differentiates_the_kernel_for_the_h200() -> None:
    row, rows = aval(1, LENGTH, 4, 64, dtype=BASE.dtype), aval(3, 1, LENGTH, 4, 64, dtype=BASE.dtype)
    gradients = jax.vmap(jax.grad(squares("pallas_triton"), (0, 1)), in_axes=(0, None, 0))
    program = h200().compile(gradients, rows, row, rows)
    assert kernels_of(program) == sorted([*FORWARD, *BACKWARD])
    assert program.spills is False


@pytest.mark.slow
@pytest.mark.parametrize("name", FEATURES)
def test_features_of_the_h200(name: str) -> None:
    assert_compiles(h200(), dataclasses.replace(BASE, **FEATURES[name]), ("forward", "backward"))


@pytest.mark.slow
@pytest.mark.parametrize("name", TYPES)
def test_types_of_the_h200(name: str) -> None:
    assert_compiles(h200(), dataclasses.replace(BASE, **TYPES[name]), ("forward", "backward"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["causal", "mask"])
@pytest.mark.parametrize("size", [128, 256])
def test_sizes_of_the_h200(name: str, size: int) -> None:
    spec = dataclasses.replace(BASE, **FEATURES[name], size=size, value_size=size)
    assert_compiles(h200(), spec, ("forward", "backward"))


@pytest.mark.slow
@pytest.mark.parametrize("size", [64, 128, 256])
def test_the_l4_has_the_shared_memory(size: int) -> None:
    h200()  # the same tools
    spec = dataclasses.replace(BASE, **FEATURES["mask"], size=size, value_size=size)
    assert_compiles(L4, spec, ("forward", "backward"))


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in ("causal", "bias of keys") else pytest.mark.slow) for name in FEATURES],
)
def test_lowering_for_gfx942(name: str) -> None:
    spec = dataclasses.replace(BASE, **FEATURES[name])
    assert pallas_triton.unsupported(spec, Target("rocm", "gfx942")) == []
    for make, count in ((forward_of, 1), (backward_of, 2 + len(_bias_kernel(spec)))):
        function, arguments = make(spec)
        program = gfx942().lower(function, *arguments)
        assert program.kernels == (TRITON,)
        assert len(re.findall(r"stablehlo\.custom_call @", program.text)) == count
