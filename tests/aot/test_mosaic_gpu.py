"""The Hopper kernels of attention, compiled for an H200: that they compile, fit, and keep registers from memory."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rtx_jax._compat import JAX_VERSION
from rtx_jax.kernels.attention import pallas_mosaic_gpu
from rtx_jax.kernels.attention.spec import AttentionSpec, Operands
from tests.aot.targets import Program, aval, h200

pytestmark = pytest.mark.skipif(JAX_VERSION < (0, 12), reason="needs JAX 0.12: its Pallas for Mosaic GPU")

BF16, F32 = np.dtype(jnp.bfloat16), np.dtype(np.float32)
# 32 numbers a thread: what a warpgroup has of the scores of 64 by 64. Less than that are flags and addresses, which
# the kernels' loops do not touch.
ONE_TILE_BYTES = 128


def spec_of(**change: Any) -> AttentionSpec:
    given = {"batch": 2, "queries": 1024, "keys": 1024, "heads": 4, "key_heads": 2, "size": 64, **change}
    given = {"value_size": given["size"], "dtype": BF16, "scale": given["size"] ** -0.5, **given}
    return AttentionSpec(**given)


def operands_of(spec: AttentionSpec) -> Operands:
    def head(length: int, heads: int, size: int) -> jax.ShapeDtypeStruct:
        middle = (length, heads) if spec.layout == "BTNH" else (heads, length)
        return aval(spec.batch, *middle, size, dtype=spec.dtype)

    def row(there: bool, *shape: int) -> Any:
        return aval(spec.batch, *shape, dtype=np.int32) if there else None

    return Operands(
        head(spec.queries, spec.heads, spec.size),  # type: ignore[arg-type]
        head(spec.keys, spec.key_heads, spec.size),  # type: ignore[arg-type]
        head(spec.keys, spec.key_heads, spec.value_size),  # type: ignore[arg-type]
        None if spec.mask is None else aval(*spec.mask, dtype=bool),  # type: ignore[arg-type]
        None if spec.bias is None else aval(*spec.bias, dtype=spec.bias_dtype),  # type: ignore[arg-type]
        row(spec.segments, spec.queries),
        row(spec.segments, spec.keys),
        row(spec.query_lengths),
        row(spec.key_lengths),
        None if spec.sinks_dtype is None else aval(spec.heads, dtype=spec.sinks_dtype),  # type: ignore[arg-type]
        row(spec.q_offset is None),
    )


def compile_forward(spec: AttentionSpec, **options: Any) -> Program:
    return h200().compile(lambda operands: pallas_mosaic_gpu.forward(spec, operands, **options), operands_of(spec))


def compile_backward(spec: AttentionSpec) -> Program:
    operands = operands_of(spec)
    middle = (spec.queries, spec.heads) if spec.layout == "BTNH" else (spec.heads, spec.queries)
    out = aval(spec.batch, *middle, spec.value_size, dtype=spec.dtype)
    lse = aval(spec.batch, spec.heads, spec.queries)
    wanted = {"bias": spec.bias is not None, "sinks": spec.sinks_dtype is not None}
    return h200().compile(
        lambda *given: pallas_mosaic_gpu.backward(spec, *given, **wanted), operands, out, lse, out, lse
    )


def spilled_bytes(program: Program) -> list[int]:
    """Return what each kernel writes of its registers to memory."""
    return [int(n) for line in program.resources for n in re.findall(r"stack frame, (\d+) bytes spill stores", line)]


def row_bytes(spec: AttentionSpec) -> int:
    return spec.batch * spec.heads * spec.queries * 4


CASES = {
    "causal": {"window": (None, 0)},
    "wide, window, segments": {"size": 128, "window": (300, 0), "segments": True},
    "bias and mask": {
        "size": 32,
        "bias": (2, 4, 1024, 1024),
        "bias_dtype": BF16,
        "mask": (2, 1, 1024, 1024),
        "layout": "BNTH",
    },
}
MORE = {
    "whole": {},
    "wide, whole": {"size": 128},
    "wide": {"size": 128, "window": (None, 0)},
    "widest": {"size": 256, "window": (None, 0)},
    "widest, whole": {"size": 256},
    "narrow values": {"size": 192, "value_size": 128, "window": (None, 0)},
    "heads of 96": {"size": 96, "window": (None, 0)},
    "heads of 20": {"size": 20, "window": (None, 0), "queries": 1000, "keys": 777},
    "float16": {"dtype": np.dtype(np.float16), "window": (None, 0)},
    "lengths": {"query_lengths": True, "key_lengths": True, "window": (50, 0), "q_offset": None},
    "softcap, sinks": {"softcap": 5.0, "sinks_dtype": F32},
    "bias": {"bias": (2, 4, 1024, 1024), "bias_dtype": F32},
    "bias of heads": {"bias": (1, 4, 1, 1024), "bias_dtype": F32, "mask": (1, 1, 1024, 1)},
    "bias of rows": {"bias": (1, 4, 1024, 1), "bias_dtype": F32, "mask": (2, 1, 1, 1024)},
    "all": {
        "size": 128,
        "softcap": 5.0,
        "window": (300, 2),
        "segments": True,
        "query_lengths": True,
        "key_lengths": True,
        "q_offset": None,
        "mask": (2, 1, 1024, 1024),
        "bias": (2, 4, 1024, 1024),
        "bias_dtype": F32,
        "sinks_dtype": F32,
    },
}


def check_forward(spec: AttentionSpec) -> None:
    program = compile_forward(spec)
    assert "mosaic_gpu_v2" in program.kernels and "attention_forward" in program.text
    assert spilled_bytes(program) == [0]


def check_backward(spec: AttentionSpec) -> None:
    program = compile_backward(spec)
    assert "attention_query_gradient" in program.text and "attention_key_gradient" in program.text
    spilled = spilled_bytes(program)
    assert len(spilled) == 2
    plain = spec.size <= 64 and spec.bias is None
    assert spilled == [0, 0] if plain else max(spilled) < ONE_TILE_BYTES


@pytest.mark.parametrize("name", CASES)
def test_forward(name: str) -> None:
    check_forward(spec_of(**CASES[name]))


@pytest.mark.parametrize("name", CASES)
def test_backward(name: str) -> None:
    check_backward(spec_of(**CASES[name]))


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE)
def test_forward_of_each_kind(name: str) -> None:
    check_forward(spec_of(**MORE[name]))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MORE if name != "all"])
def test_backward_of_each_kind(name: str) -> None:
    check_backward(spec_of(**MORE[name]))


def test_memory_grows_with_the_length_alone() -> None:
    spec = spec_of(queries=32768, keys=32768, window=(None, 0))
    assert compile_forward(spec).temp_bytes == 0
    # The log-sum-exp in units of log2, and the sums of the cotangents, each a number a row, with their layouts.
    backward = compile_backward(replace(spec, window=(None, None))).temp_bytes
    assert backward is not None and backward <= 4 * row_bytes(spec)
    # Where keys are hidden from some queries also the keys without NaN and infinities.
    keys = spec.batch * spec.keys * spec.key_heads * spec.size * spec.dtype.itemsize
    backward = compile_backward(spec).temp_bytes
    assert backward is not None and backward <= 4 * row_bytes(spec) + keys


def test_entropy_and_column_scores() -> None:
    spec = spec_of(size=128, window=(None, 0))
    assert spilled_bytes(compile_forward(spec, entropy=True)) == [0]
    program = h200().compile(
        lambda operands, lse: pallas_mosaic_gpu.column_scores(spec, operands, lse, 32),
        operands_of(spec),
        aval(spec.batch, spec.heads, spec.queries),
    )
    assert "attention_column_sums" in program.text
    assert spilled_bytes(program) == [0]


@pytest.mark.slow
@pytest.mark.parametrize("change", [{"size": 256}, {"window": (None, 0), "segments": True}])
def test_64_bit_types_change_nothing(change: dict[str, Any]) -> None:
    with jax.enable_x64(True):
        check_forward(spec_of(**change))
        check_backward(spec_of(**change))
