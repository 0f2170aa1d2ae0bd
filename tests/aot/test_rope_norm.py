"""The kernels of rope and of the norms compile for TPUs and Hopper, through their faces, with each feature."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest

from rtx_jax import errors
from rtx_jax.kernels.norm import layer_norm, rms_norm
from rtx_jax.kernels.rope import rope, rope_frequencies
from tests.aot.targets import aval, gfx942, h200, metal, tpu

BF16 = jnp.bfloat16
MIB = 1 << 20
T, N = 1024, 8
TARGETS = {
    "H200": (h200, "mosaic_gpu"),
    "v5e": (lambda: tpu("v5e"), "tpu_custom_call"),
    "v5p": (lambda: tpu("v5p"), "tpu_custom_call"),
    "v6e": (lambda: tpu("v6e"), "tpu_custom_call"),
}
FAST = pytest.mark.parametrize("target", TARGETS)
EACH = pytest.mark.parametrize("target", ["H200", "v5e"])


def compiles(target: str, function: Callable[..., object], *avals: object, most: int = 8 * MIB) -> None:
    ready, kernel = TARGETS[target]
    program = ready().compile(function, *avals)
    assert any(name.startswith(kernel) for name in program.kernels), program.kernels
    assert program.temp_bytes is not None and program.temp_bytes <= most
    assert program.spills is not True


def back(x: jax.Array, cos: jax.Array, sin: jax.Array, seed: jax.Array) -> jax.Array:
    found: jax.Array = jax.vjp(lambda x: rope(x, cos, sin), x)[1](seed)[0]
    return found


HEADS, TABLE = aval(1, T, N, 128, dtype=BF16), aval(T, 64)


@FAST
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_rope(target: str, direction: str) -> None:
    if direction == "forward":
        compiles(target, rope, HEADS, TABLE, TABLE)
    else:
        compiles(target, back, HEADS, TABLE, TABLE, HEADS)


@EACH
@pytest.mark.parametrize("feature", ["interleaved", "partial", "positions", "heads first", "float32", "in place"])
def test_features_of_rope(target: str, feature: str) -> None:
    if feature == "positions":
        frequencies = rope_frequencies(128)
        traced = aval(1, T, dtype=jnp.int32)
        compiles(target, lambda x, p: rope(x, positions=p, frequencies=frequencies), HEADS, traced)
    elif feature == "partial":
        small = aval(T, 32)
        compiles(target, lambda x, c, s: rope(x, c, s, rotary_dim=64), HEADS, small, small)
    elif feature == "heads first":
        compiles(target, lambda x, c, s: rope(x, c, s, seq_axis=2), aval(2, N, T, 128, dtype=BF16), TABLE, TABLE)
    elif feature == "float32":
        compiles(target, rope, aval(1, T, N, 128), TABLE, TABLE)
    else:
        more = {"layout": "interleaved"} if feature == "interleaved" else {"in_place": True}
        compiles(target, lambda x, c, s: rope(x, c, s, **more), HEADS, TABLE, TABLE)  # type: ignore[arg-type]


def _norm(which: str, passing: bool) -> Callable[..., object]:
    def fn(x: jax.Array, residual: jax.Array, weight: jax.Array, bias: jax.Array) -> object:
        more = {"residual": residual} if passing else {}
        if which == "rms":
            return rms_norm(x, weight, **more)  # type: ignore[call-overload]
        return layer_norm(x, weight, bias, **more)  # type: ignore[call-overload]

    def run(*operands: jax.Array) -> object:
        value, pull = jax.vjp(fn, *operands)
        return pull(value)

    return run


@FAST
@pytest.mark.parametrize("which", ["rms", "layer"])
def test_norm_backward(target: str, which: str) -> None:
    rows, vector = aval(1, T, 1024, dtype=BF16), aval(1024)
    compiles(target, _norm(which, False), rows, rows, vector, vector)


@EACH
@pytest.mark.parametrize(("which", "size", "dtype"), [("layer", 768, jnp.float32), ("rms", 4096, BF16)])
def test_norm_backward_with_a_residual(target: str, which: str, size: int, dtype: object) -> None:
    rows, vector = aval(1001, size, dtype=dtype), aval(size)
    # The sum, the norm's result and its partial sums are held.
    compiles(target, _norm(which, True), rows, rows, vector, vector, most=32 * MIB)


@pytest.mark.parametrize("lowered", [gfx942, metal])
def test_other_devices_have_plain_xla(lowered: Callable[[], object]) -> None:
    device = lowered()
    rows, vector = aval(2, T, 256, dtype=BF16), aval(256)
    for fn, avals in ((back, (HEADS, TABLE, TABLE, HEADS)), (_norm("rms", True), (rows, rows, vector, vector))):
        assert device.lower(fn, *avals).kernels == ()  # type: ignore[attr-defined]


def test_what_cannot_run_is_refused_when_it_is_lowered() -> None:
    with pytest.raises(errors.BackendLimitation, match="not on rocm"):
        gfx942().lower(lambda x, c, s: rope(x, c, s, implementation="pallas_mosaic_gpu"), HEADS, TABLE, TABLE)
