"""One program for each kernel and direction: what the tests compile for each target, and the table in the docs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rtx_jax.kernels.attention import flash_attention
from rtx_jax.kernels.cross_entropy import cross_entropy
from rtx_jax.kernels.decode import decode_attention, paged_attention
from rtx_jax.kernels.norm import layer_norm, rms_norm
from rtx_jax.kernels.rope import rope
from rtx_jax.kernels.swiglu import swiglu
from tests.aot.targets import DEVICES, GFX942, H200, TPU, AbsentDevice, aval

__all__ = ["PROGRAMS", "Case"]

BFLOAT16 = np.dtype(jnp.bfloat16)
TPUS = tuple(TPU.values())
TRITON, MOSAIC_GPU, MOSAIC_TPU, CUDNN = "__gpu$xla.gpu.triton", "mosaic_gpu", "tpu_custom_call", "__cudnn$fmha"


@dataclass(frozen=True)
class Case:
    """A program, and where it has to compile.

    Attributes
    ----------
    operation, implementation, direction
        Words of the table.
    function, avals
        What is compiled, and for which arguments.
    devices
        Where.
    kernel
        Start of the target of a custom call that must be in the text; None where there may be none at all.
    temp_bytes, spilled_bytes
        Bounds of the temporary memory, and of what a thread of Mosaic's kernels may spill.
    """

    operation: str
    implementation: str
    direction: str
    function: Callable[..., object]
    avals: Sequence[jax.ShapeDtypeStruct]
    devices: tuple[AbsentDevice, ...]
    kernel: str | None
    temp_bytes: int
    spilled_bytes: int = 0

    @property
    def name(self) -> str:
        """For the test's id."""
        return f"{self.operation}-{self.implementation}-{self.direction}".replace(" ", "_")


def _both(
    operation: str,
    implementation: str,
    function: Callable[..., jax.Array],
    avals: Sequence[jax.ShapeDtypeStruct],
    devices: tuple[AbsentDevice, ...],
    kernel: str | None,
    temp_bytes: int,
    *,
    linear: int,
    scalar: bool = False,
) -> list[Case]:
    """The forward pass, and the gradients to the first arguments together with it; the result is like the first one."""
    d_out = aval() if scalar else avals[0]

    def backward(d_out: jax.Array, *arrays: jax.Array) -> tuple[jax.Array, ...]:
        fixed = arrays[linear:]
        out, pullback = jax.vjp(lambda *given: function(*given, *fixed), *arrays[:linear])
        return out, *pullback(d_out)

    shared = (devices, kernel, temp_bytes)
    return [
        Case(operation, implementation, "forward", function, avals, *shared),
        Case(operation, implementation, "backward", backward, [d_out, *avals], *shared),
    ]


def _attention(implementation: str, devices: tuple[AbsentDevice, ...], kernel: str | None) -> list[Case]:
    length, heads, key_heads, size = 1024, 8, 2, 128
    query = aval(1, length, heads, size, dtype=BFLOAT16)
    key = aval(1, length, key_heads, size, dtype=BFLOAT16)

    def function(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
        result: Any = flash_attention(query, key, value, causal=True, implementation=implementation)
        return result

    # Below one table of float32 scores of all heads: 32 MiB.
    avals = [query, key, key]
    forward, backward = _both("attention", implementation, function, avals, devices, kernel, 31 << 20, linear=3)
    # The gradient of keys and values holds two tiles of 64 x 128 in registers: a few of 168 do not fit.
    return [forward, replace(backward, spilled_bytes=64 if kernel == MOSAIC_GPU else 0)]


def _decode(implementation: str, devices: tuple[AbsentDevice, ...], kernel: str | None) -> list[Case]:
    batch, length, heads, key_heads, size, page = 4, 4096, 8, 2, 128, 64
    query = aval(batch, 1, heads, size, dtype=BFLOAT16)
    cache = aval(batch, length, key_heads, size, dtype=BFLOAT16)
    pages = aval(batch * length // page, page, key_heads, size, dtype=BFLOAT16)
    small = aval(batch, length, key_heads, size, dtype=np.int8)
    scale = aval(batch, length, key_heads)
    table = aval(batch, length // page, dtype=np.int32)
    lengths = aval(batch, dtype=np.int32)

    def contiguous(query: jax.Array, key: jax.Array, value: jax.Array, lengths: jax.Array) -> object:
        return decode_attention(query, key, value, lengths, implementation=implementation)

    def paged(query: jax.Array, key: jax.Array, value: jax.Array, table: jax.Array, lengths: jax.Array) -> object:
        return paged_attention(query, key, value, table, lengths, implementation=implementation)

    def int8(
        query: jax.Array, key: jax.Array, value: jax.Array, lengths: jax.Array, key_scale: jax.Array,
        value_scale: jax.Array,
    ) -> object:  # fmt: skip
        return decode_attention(
            query, key, value, lengths, key_scale=key_scale, value_scale=value_scale, implementation=implementation
        )

    # Below keys and values in float32, which nothing may make of them: 32 MiB.
    shared = (devices, kernel, 31 << 20)
    return [
        Case("decode, contiguous", implementation, "forward", contiguous, [query, cache, cache, lengths], *shared),
        Case("decode, paged", implementation, "forward", paged, [query, pages, pages, table, lengths], *shared),
        Case("decode, int8", implementation, "forward", int8, [query, small, small, lengths, scale, scale], *shared),
    ]


def _rows(implementation: str, devices: tuple[AbsentDevice, ...], kernel: str | None) -> list[Case]:
    """RoPE, and the backward passes of the norms: their forward passes are plain XLA everywhere."""
    length, heads, size, width = 2048, 8, 128, 1024
    x, half = aval(1, length, heads, size, dtype=BFLOAT16), aval(length, size // 2)
    rows, weight = aval(length, width, dtype=BFLOAT16), aval(width, dtype=BFLOAT16)

    def turn(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
        return rope(x, cos, sin, implementation=implementation)

    def root_mean_square(x: jax.Array, weight: jax.Array) -> jax.Array:
        return rms_norm(x, weight, implementation=implementation)

    def layer(x: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
        return layer_norm(x, weight, bias, implementation=implementation)

    few = 20 << 20
    norms = [
        *_both("rms_norm", implementation, root_mean_square, [rows, weight], devices, kernel, few, linear=2),
        *_both("layer_norm", implementation, layer, [rows, weight, weight], devices, kernel, few, linear=3),
    ]
    if kernel is not None:
        norms = [case for case in norms if case.direction == "backward"]
    return [*_both("rope", implementation, turn, [x, half, half], devices, kernel, few, linear=1), *norms]


def _plain() -> list[Case]:
    """What is plain XLA on every device."""
    tokens, width, words = 1024, 256, 131072
    hidden, weight = aval(tokens, width, dtype=BFLOAT16), aval(words, width, dtype=BFLOAT16)
    gate = aval(2048, 1024, dtype=BFLOAT16)
    labels = aval(tokens, dtype=np.int32)
    # Half of all logits in float32: 512 MiB. The gradient of the weight is summed in float32: 128 MiB.
    loss = _both(
        "cross_entropy", "xla", cross_entropy, [hidden, weight, labels], DEVICES, None, 256 << 20, linear=2, scalar=True
    )
    return [*loss, *_both("swiglu", "xla", swiglu, [gate, gate], DEVICES, None, 20 << 20, linear=2)]


PROGRAMS: tuple[Case, ...] = (
    *_attention("xla", DEVICES, None),
    *_attention("pallas_triton", (H200, GFX942), TRITON),
    *_attention("pallas_mosaic_gpu", (H200,), MOSAIC_GPU),
    *_attention("cudnn", (H200,), CUDNN),
    *_attention("pallas_tpu", TPUS, MOSAIC_TPU),
    *_decode("xla", DEVICES, None),
    *_decode("pallas_triton", (H200, GFX942), TRITON),
    *_decode("pallas_tpu", TPUS, MOSAIC_TPU),
    *_rows("xla", DEVICES, None),
    *_rows("pallas_tpu", TPUS, MOSAIC_TPU),
    *_rows("pallas_mosaic_gpu", (H200,), MOSAIC_GPU),
    *_plain(),
)
