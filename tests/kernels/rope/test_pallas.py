"""The kernels of rope in interpret mode, one case a feature, and what they say that they cannot."""

from __future__ import annotations

from types import ModuleType

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from rtx_jax._compat import JAX_VERSION
from rtx_jax.kernels.rope import pallas_mosaic_gpu, pallas_tpu
from rtx_jax.kernels.rope.shape import TurnShape
from rtx_jax.kernels.target import Target
from tests.kernels.rope.oracle import turned

F32, F16, BF16 = np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
BOUND = {F32: 2e-6, F16: 4e-3, BF16: 3.2e-2}
HOPPER, TPU = Target("cuda", "NVIDIA H200", (9, 0)), Target("tpu", "TPU v5 lite")
RNG = np.random.default_rng(1)
# Mosaic GPU's interface of older releases is another one, and the kernel says so.
needs_new_jax = pytest.mark.skipif(JAX_VERSION < (0, 11), reason="needs Mosaic GPU of JAX 0.11")


def check(
    module: ModuleType, shape: tuple[int, ...], table: tuple[int, ...], layout: str, dtype: np.dtype = F32
) -> None:
    angle = RNG.uniform(-3, 3, table)
    x = jnp.asarray(RNG.standard_normal(shape), dtype)
    form = TurnShape.of(shape, table)
    assert form is not None and form.size == x.size
    cos, sin = (jnp.asarray(fn(angle), jnp.float32) for fn in (np.cos, np.sin))
    got = module.turn(x, cos, sin, layout=layout, shape=form, interpret=True)
    assert got.shape == shape and got.dtype == dtype
    want = turned(np.asarray(x), angle, layout)
    np.testing.assert_allclose(np.asarray(got, np.float64), want, atol=BOUND[dtype], rtol=0)
    np.testing.assert_array_equal(np.asarray(got)[..., 2 * table[-1] :], np.asarray(x)[..., 2 * table[-1] :])


@pytest.mark.parametrize(
    ("shape", "table", "layout", "dtype"),
    [
        pytest.param((2, 7, 3, 128), (1, 7, 1, 64), "half", F32, id="half"),
        pytest.param((2, 7, 3, 128), (1, 7, 1, 64), "interleaved", F32, id="interleaved"),
        pytest.param((1, 7, 2, 128), (1, 7, 1, 64), "half", BF16, id="bfloat16"),
        pytest.param((2, 7, 3, 128), (2, 7, 1, 32), "half", F32, id="partial, positions of each row"),
        pytest.param((2, 3, 7, 128), (2, 1, 7, 64), "half", F32, id="heads before positions"),
        pytest.param((1, 37, 4, 64), (1, 37, 1, 32), "half", F32, id="two heads in a register"),
        pytest.param((1, 7, 4, 96), (1, 7, 1, 40), "interleaved", F32, id="heads across registers"),
    ],
)
def test_tpu(
    shape: tuple[int, ...], table: tuple[int, ...], layout: str, dtype: np.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pallas_tpu, "_BLOCK_BYTES", 1 << 14)  # so that 37 rows are several blocks, the last not full
    check(pallas_tpu, shape, table, layout, dtype)


@needs_new_jax
@pytest.mark.parametrize(
    ("shape", "table", "layout", "dtype"),
    [
        pytest.param((2, 16, 3, 32), (1, 16, 1, 16), "half", F32, id="half"),
        pytest.param((1, 16, 2, 32), (1, 16, 1, 16), "interleaved", BF16, id="interleaved"),
        pytest.param((1, 16, 2, 32), (1, 16, 1, 16), "half", F16, id="float16"),
        pytest.param((1, 16, 2, 48), (1, 16, 1, 16), "half", F32, id="partial"),
        pytest.param((1, 16, 2, 48), (1, 16, 1, 16), "interleaved", BF16, id="partial, interleaved"),
        pytest.param((2, 2, 16, 32), (2, 1, 16, 16), "half", F32, id="heads before positions"),
        pytest.param((1, 256, 1, 32), (1, 256, 1, 16), "half", F32, id="several tiles"),
    ],
)
def test_hopper(shape: tuple[int, ...], table: tuple[int, ...], layout: str, dtype: np.dtype) -> None:
    check(pallas_mosaic_gpu, shape, table, layout, dtype)


@needs_new_jax
def test_hopper_rounds_to_even_and_keeps_nan() -> None:
    # Turned by nothing, a number stays; turned by a quarter, its partner comes without rounding.
    x = jnp.asarray(np.array([1.0, -2.5, np.nan, np.inf] * 8).reshape(1, 1, 1, 32), jnp.bfloat16)
    x = jnp.tile(x, (1, 16, 1, 1))
    one, zero = jnp.ones((1, 16, 1, 16)), jnp.zeros((1, 16, 1, 16))
    form = TurnShape.of(x.shape, one.shape)
    got = pallas_mosaic_gpu.turn(x, one, zero, layout="interleaved", shape=form, interpret=True)
    host = np.asarray(got, np.float32)[0, 0, 0, :4]
    # Infinity times a sine of 0 is no number, and the partner of NaN becomes one.
    np.testing.assert_array_equal(host, np.array([1.0, -2.5, np.nan, np.nan], np.float32))
    half = jnp.asarray(np.full((1, 16, 1, 32), 1.0), jnp.bfloat16)
    # 1 + 2**-8 lies between two bfloat16 numbers, of which 1 has the even last bit.
    got = pallas_mosaic_gpu.turn(half, one * (1 + 2**-8), zero, layout="interleaved", shape=form, interpret=True)
    np.testing.assert_array_equal(np.asarray(got, np.float32), np.ones((1, 16, 1, 32)))


def test_how_axes_lie() -> None:
    assert TurnShape.of((2, 5, 3, 8), (1, 5, 1, 4)) == TurnShape(1, 2, 5, 3, 8, 4)
    assert TurnShape.of((2, 5, 3, 8), (2, 5, 1, 3)) == TurnShape(1, 1, 10, 3, 8, 3)
    assert TurnShape.of((2, 3, 5, 8), (1, 1, 5, 4)) == TurnShape(1, 6, 5, 1, 8, 4)
    assert TurnShape.of((2, 3, 5, 8), (2, 1, 5, 4)) == TurnShape(2, 3, 5, 1, 8, 4)
    assert TurnShape.of((7, 2, 5, 3, 8), (7, 1, 5, 1, 4)) == TurnShape(7, 2, 5, 3, 8, 4)
    assert TurnShape.of((4, 7, 2, 5, 3, 8), (1, 7, 1, 5, 1, 4)) is None


def test_what_they_cannot() -> None:
    form = TurnShape.of((1, 16, 2, 128), (1, 16, 1, 64))
    assert not pallas_tpu.unsupported(form, F32, TPU)
    assert "float64" in "".join(pallas_tpu.unsupported(form, np.dtype(np.float64), TPU))
    assert "float16" in "".join(pallas_tpu.unsupported(form, F16, TPU))
    assert "not on cuda" in "".join(pallas_tpu.unsupported(form, F32, HOPPER))
    assert "two places" in "".join(pallas_tpu.unsupported(None, F32, TPU))
    odd = TurnShape.of((1, 16, 1, 64), (1, 16, 1, 32))
    assert "lanes" in "".join(pallas_tpu.unsupported(odd, F32, TPU))

    def hopper(form: TurnShape | None, dtype: np.dtype = BF16, layout: str = "half", target: Target = HOPPER) -> str:
        return "; ".join(pallas_mosaic_gpu.unsupported(form, dtype, layout, target))

    assert ("0.11" in hopper(form)) == (JAX_VERSION < (0, 11))
    assert "compute capability 9.0" in hopper(form, target=Target("cuda", "NVIDIA L4", (8, 9)))
    assert "bfloat16 fits, not float32" in hopper(form, F32, "interleaved")
    assert "float64" in hopper(form, np.dtype(np.float64))
    assert "tiles" in hopper(TurnShape.of((1, 7, 2, 32), (1, 7, 1, 16)))
    assert "copies" in hopper(TurnShape.of((1, 16, 2, 12), (1, 16, 1, 6)))
    assert "two places" in hopper(None)


def test_gradients_are_turns_back() -> None:
    """The kernel's own way of the backward pass, which the face binds."""
    x = jnp.asarray(RNG.standard_normal((1, 7, 1, 128)), jnp.float32)
    angle = RNG.uniform(-3, 3, (1, 7, 1, 64))
    cos, sin = (jnp.asarray(fn(angle), jnp.float32) for fn in (np.cos, np.sin))
    form = TurnShape.of(x.shape, cos.shape)
    there = pallas_tpu.turn(x, cos, sin, layout="half", shape=form, interpret=True)
    back = pallas_tpu.turn(there, cos, -sin, layout="half", shape=form, interpret=True, aliased=True)
    np.testing.assert_allclose(np.asarray(back), np.asarray(x), atol=2e-6)
    assert isinstance(back, jax.Array)
