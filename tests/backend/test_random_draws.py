"""Random draws of backends: 64-bit seeds, the same bits everywhere, and what transforms make of them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.backend import Backend, CpuBackend, NumpyBackend
from rtx_jax.errors import RngUnderTrace
from tests.backend.toy import ToyBackend

CPU, NUMPY = CpuBackend(), NumpyBackend()
BACKENDS = [CPU, NUMPY, ToyBackend()]
every_backend = pytest.mark.parametrize("B", BACKENDS, ids=lambda B: B.name())
DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16, np.float64]
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)


def draw(B: Backend, seed: int, *shape: int, dtype: object = None) -> np.ndarray:
    B.seed(seed)
    return B.to_data(B.rand(shape, dtype=dtype))


@every_backend
def test_seeds(B: Backend) -> None:
    assert np.array_equal(draw(B, 1, 8), draw(B, 1, 8))
    seeds = [0, 1, 2**32, 2**32 + 1, 2**63 + 5, 2**64 - 1]
    assert len({draw(B, seed, 8).tobytes() for seed in seeds}) == len(seeds)
    B.seed(1)
    first, second = B.to_data(B.rand((8,))), B.to_data(B.rand((8,)))
    assert not np.array_equal(first, second)
    B.seed(np.uint64(1))
    assert np.array_equal(B.to_data(B.rand((8,))), first)


def test_a_backend_that_was_not_seeded_draws() -> None:
    B = ToyBackend()
    assert not np.array_equal(B.to_data(B.rand((8,))), B.to_data(ToyBackend().rand((8,))))


@every_dtype
def test_the_same_bits_everywhere(dtype: type) -> None:
    want = draw(NUMPY, 2**40 + 7, 3, 5, dtype=dtype)
    for B in (CPU, BACKENDS[2]):
        got = draw(B, 2**40 + 7, 3, 5, dtype=dtype)
        assert got.dtype == np.dtype(dtype) and np.array_equal(got.view(np.uint8), want.view(np.uint8))
    key = np.array([3, 4], np.uint32)
    by_key = NUMPY.to_data(NUMPY.rand((6,), dtype=dtype, key=key))
    for same in (key, jnp.asarray(key), jax.random.wrap_key_data(key, impl="threefry2x32")):
        assert np.array_equal(CPU.to_data(CPU.rand((6,), dtype=dtype, key=same)), by_key)


def test_a_seed_below_32_bits_is_jax_s_key() -> None:
    key = jax.random.key(7)
    got = CPU.to_data(CPU.rand((6,), key=key))
    with jax.threefry_partitionable(True):
        assert np.array_equal(got, jax.random.uniform(key, (6,)))


@every_dtype
def test_normal_values_agree(dtype: type) -> None:
    drawn = []
    for B in (CPU, NUMPY):
        B.seed(11)
        drawn.append(B.to_data(B.randn((500,), dtype=dtype)).astype(np.float64))
    # The inverse error function of JAX 0.10 is off by up to 15 in float64.
    bound = (24 if dtype is np.float64 else 4) * float(ml_dtypes.finfo(dtype).eps)
    assert (np.abs(drawn[0] - drawn[1]) <= bound * np.maximum(np.abs(drawn[1]), 0.1)).all()
    assert abs(drawn[0].mean()) < 0.15 and abs(drawn[0].std() - 1) < 0.1


@every_dtype
def test_uniform_values_lie_in_the_interval(dtype: type) -> None:
    CPU.seed(5)
    values = CPU.to_data(CPU.rand((2_000_000,), dtype=dtype)).astype(np.float64)
    assert values.min() >= 0 and values.max() < 1
    # Kolmogorov and Smirnov at 1e-6, less the spacing of the narrow dtypes.
    grid = np.linspace(0, 1, 101)
    spacing = float(ml_dtypes.finfo(dtype).eps)
    share = np.searchsorted(np.sort(values), grid) / values.size
    assert np.abs(share - grid).max() < 2.7 / np.sqrt(values.size) + spacing


def test_draws_in_a_compiled_function_differ_between_calls_and_follow_the_seed() -> None:
    f = xp.jit(lambda: xp.asarray(CPU.rand((4,))))
    CPU.seed(1)
    first, second = np.asarray(f()), np.asarray(f())
    assert not np.array_equal(first, second)
    CPU.seed(1)
    assert np.array_equal(np.asarray(f()), first)
    seeded = xp.jit(lambda: (CPU.seed(9), xp.asarray(CPU.rand((4,))))[1])
    assert np.array_equal(np.asarray(seeded()), np.asarray(seeded()))
    CPU.seed(9)
    assert np.array_equal(np.asarray(seeded()), CPU.to_data(CPU.rand((4,))))


def test_rows_of_vmap_differ() -> None:
    CPU.seed(2)
    rows = np.asarray(xp.vmap(lambda x: x + xp.asarray(CPU.rand((3,))))(xp.zeros((4, 3), dtype=xp.float32)))
    assert len({row.tobytes() for row in rows}) == 4


def test_value_and_gradient_under_checkpoint_use_one_draw() -> None:
    CPU.seed(3)

    def noisy(x: xp.Array) -> xp.Array:
        return xp.sum(x * xp.asarray(CPU.rand((8,))))

    value, gradient = xp.value_and_grad(xp.checkpoint(noisy))(xp.ones(8, dtype=xp.float32))
    np.testing.assert_allclose(float(value), float(xp.sum(gradient)), rtol=1e-6)


def test_plain_jax_needs_a_key() -> None:
    with pytest.raises(RngUnderTrace, match="key="):
        jax.jit(lambda: CPU.rand((2,)))()
    keyed = jax.jit(lambda key: CPU.rand((2,), key=key))
    got = keyed(jax.random.key(1))
    assert np.array_equal(np.asarray(got), CPU.to_data(CPU.rand((2,), key=jax.random.key(1))))


def test_a_keyed_draw_survives_export() -> None:
    exported = jax.export.export(jax.jit(lambda data: CPU.rand((4,), key=data)))(jax.ShapeDtypeStruct((2,), np.uint32))
    key = np.array([0, 1], np.uint32)
    assert np.array_equal(np.asarray(exported.call(key)), NUMPY.rand((4,), key=key))


def test_the_first_draw_of_a_process_may_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    B = CpuBackend()
    monkeypatch.setattr(B, "_keys", None)
    drawn = xp.jit(lambda x: x + xp.asarray(B.rand((4,))))
    x = xp.zeros(4, dtype=xp.float32)
    assert drawn(x).tolist() != drawn(x).tolist()
