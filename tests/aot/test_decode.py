"""Decode attention compiles for devices that are not here, without a copy of the cache."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import pytest

from rtx_jax.kernels.decode import decode_attention, paged_attention
from tests.aot.targets import AbsentDevice, aval, gfx942, h200, metal, tpu

B, N, K, H, S, PAGE = 4, 32, 8, 128, 8192, 16
HALF = jnp.bfloat16
LENGTHS = aval(B, dtype="int32")

TRITON = "__gpu$xla.gpu.triton"
MOSAIC = "tpu_custom_call"


def contiguous(dtype: object = HALF, layout: str = "BTNH", queries: int = 1) -> list[jax.ShapeDtypeStruct]:
    cache = (B, S, K, H) if layout == "BTNH" else (B, K, S, H)
    query = (B, queries, N, H) if layout == "BTNH" else (B, N, queries, H)
    return [aval(*query, dtype=HALF), *[aval(*cache, dtype=dtype)] * 2, LENGTHS]


def paged(dtype: object = HALF) -> list[jax.ShapeDtypeStruct]:
    pool = aval(2048, PAGE, K, H, dtype=dtype)
    return [aval(B, 1, N, H, dtype=HALF), pool, pool, aval(B, S // PAGE, dtype="int32"), LENGTHS]


def quantized(
    query: jax.Array, keys: jax.Array, values: jax.Array, table: jax.Array, lengths: jax.Array, scale: jax.Array
) -> object:
    return paged_attention(query, keys, values, table, lengths, key_scale=scale, value_scale=scale)


def bytes_of(avals: list[jax.ShapeDtypeStruct]) -> int:
    return sum(x.size * x.dtype.itemsize for x in avals)


CALLS = {
    "contiguous": (decode_attention, contiguous()),
    "heads first, window": (
        functools.partial(decode_attention, layout="BNTH", window=512, softcap=30.0),
        contiguous(layout="BNTH", queries=4),
    ),
    "pages": (paged_attention, paged()),
    "int8 pages": (quantized, [*paged("int8"), aval(2048, PAGE, K)]),
    "float8 pages": (quantized, [*paged(jnp.float8_e4m3fn), aval(2048, PAGE, K)]),
}


def check(device: AbsentDevice, name: str, kernel: str) -> None:
    function, avals = CALLS[name]
    program = device.compile(function, *avals)
    assert kernel in program.kernels
    assert program.spills is not True
    # Partial sums of some parts, and scales in another order; never the cache.
    assert program.temp_bytes is not None and program.temp_bytes <= bytes_of(avals) // 16


@pytest.mark.parametrize("name", CALLS)
def test_the_h200_has_a_kernel(name: str) -> None:
    check(h200(), name, TRITON)


@pytest.mark.parametrize("generation", ["v5e", "v5p", "v6e"])
@pytest.mark.parametrize("name", CALLS)
def test_a_tpu_has_a_kernel(name: str, generation: str) -> None:
    check(tpu(generation), name, MOSAIC)


@pytest.mark.parametrize("name", ["contiguous", "heads first, window", "pages", "int8 pages"])
def test_gfx942_has_a_kernel(name: str) -> None:
    function, avals = CALLS[name]
    assert TRITON in gfx942().lower(function, *avals).kernels


def test_metal_takes_plain_xla() -> None:
    function, avals = CALLS["int8 pages"]
    program = metal().lower(function, *avals)
    assert program.kernels == () and "stablehlo.while" in program.text
