"""Threefry in NumPy: published vectors, JAX's bits, and the draws made of them."""

import jax
import ml_dtypes
import numpy as np
import pytest
import scipy.stats

from rtx_jax.backend import CpuBackend, NumpyBackend
from rtx_jax.backend.reference import FUNCTIONS as R
from rtx_jax.backend.reference import random as r
from rtx_jax.backend.reference.special import erfinv
from rtx_jax.errors import InvalidArgument, UnsupportedDType

SEEDS = [0, 1, 2**32 - 1, 2**32 + 1, 2**63 + 5, 2**64 - 1]
NARROW = [np.float32, np.float16, ml_dtypes.bfloat16]


@pytest.mark.parametrize(
    ("key", "counter", "want"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_known_answers(key, counter, want):
    # The vectors of Random123 for threefry2x32 with 20 rounds.
    words = r.threefry2x32(np.array(key, np.uint32), *(np.array([c], np.uint32) for c in counter))
    assert [int(w[0]) for w in words] == list(want)


@pytest.mark.parametrize("seed", SEEDS)
def test_keys_and_folds_are_jax_s(seed):
    key = jax.random.wrap_key_data(r.key_of(seed), impl="threefry2x32")
    for step in (0, 1, 2**32 - 1):
        want = jax.random.key_data(jax.random.fold_in(key, np.uint32(step)))
        assert np.array_equal(r.fold_in(r.key_of(seed), step), want)


@pytest.mark.parametrize("seed", [-1, 2**64, 0.5, "1", True])
def test_what_is_no_seed(seed):
    with pytest.raises(InvalidArgument):
        r.key_of(seed)


@pytest.mark.parametrize("dtype", NARROW, ids=lambda d: np.dtype(d).name)
def test_uniform_values_are_jax_s_bit_for_bit(dtype):
    draw = jax.jit(lambda key: jax.random.uniform(jax.random.wrap_key_data(key, impl="threefry2x32"), (3, 5), dtype))
    for seed in SEEDS:
        key = r.key_of(seed)
        with jax.threefry_partitionable(True):
            want = np.asarray(draw(key))
        got = R["rand"](key, shape=(3, 5), dtype=np.dtype(dtype))
        assert got.dtype == dtype and got.tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", [np.float64, *NARROW], ids=lambda d: np.dtype(d).name)
def test_a_seed_gives_the_same_stream_on_every_backend(dtype):
    device, host = CpuBackend(), NumpyBackend()
    for seed in (7, 2**63 + 5):
        device.seed(seed)
        host.seed(seed)
        for _ in range(2):
            want = device.to_data(device.rand((2, 9), dtype=dtype))
            assert host.to_data(host.rand((2, 9), dtype=dtype)).tobytes() == want.tobytes()
        want = device.to_data(device.randn((50,), dtype=dtype))
        # float64: XLA's logarithm in the supported versions of JAX is off by up to 15 ULP.
        assert ulps(host.randn((50,), dtype=dtype), want).max() <= (64 if dtype is np.float64 else 3)


def test_64_bit_values_use_two_words():
    key = r.key_of(2**32 + 7)
    with jax.threefry_partitionable(True):
        words = np.asarray(jax.random.bits(jax.random.wrap_key_data(key, impl="threefry2x32"), (4, 2), np.uint32))
    got = R["rand"](key, shape=(4,), dtype=np.dtype(np.float64))
    assert got.tolist() == [(((int(a) << 32) | int(b)) >> 11) * 2.0**-53 for a, b in words]


@pytest.mark.parametrize("dtype", [np.float64, *NARROW], ids=lambda d: np.dtype(d).name)
def test_uniform_values_stay_below_one(dtype):
    x = R["rand"](r.key_of(3), shape=(200_000,), dtype=np.dtype(dtype)).astype(float)
    mantissa = 52 if dtype is np.float64 else ml_dtypes.finfo(dtype).nmant
    assert x.min() >= 0 and x.max() <= 1 - 2.0 ** -(mantissa + (dtype is np.float64))
    centred = x if mantissa > 12 else x + 2.0**-mantissa * np.random.default_rng(0).random(x.size)
    assert scipy.stats.kstest(centred, "uniform").pvalue > 0.01


def ulps(a, b):
    word = f"i{a.dtype.itemsize}"
    a, b = (x.view(word).astype(np.int64) for x in (a, b))
    low = np.iinfo(word).min
    return np.abs(np.where(a < 0, low - a, a) - np.where(b < 0, low - b, b))


@pytest.mark.parametrize(("dtype", "bound"), [(np.float32, 3), (np.float16, 1), (ml_dtypes.bfloat16, 1)])
def test_normal_values_are_those_of_the_device(dtype, bound):
    # In float32, 7 in 10,000 differ by 3 ULP, the others by up to 2: the rounding of XLA's logarithm.
    def draw(data):
        key = jax.random.wrap_key_data(data, impl="threefry2x32")
        return jax.random.normal(key, (20_000,), np.float32).astype(dtype)

    with jax.threefry_partitionable(True):
        want = np.asarray(jax.jit(draw)(r.key_of(11)))
    got = R["randn"](r.key_of(11), shape=(20_000,), dtype=np.dtype(dtype))
    distance = ulps(got, want)
    assert distance.max() <= bound
    assert (distance > 2).mean() < 2e-3


@pytest.mark.parametrize("dtype", [np.float64, *NARROW], ids=lambda d: np.dtype(d).name)
def test_normal_values_are_normal(dtype):
    x = R["randn"](r.key_of(5), shape=(50_000,), dtype=np.dtype(dtype)).astype(float)
    assert abs(x.mean()) < 0.02 and abs(x.var() - 1) < 0.03
    assert scipy.stats.kstest(x, "norm").statistic < (0.01 if dtype is not ml_dtypes.bfloat16 else 0.02)


def test_normal_values_are_the_inverse_of_the_distribution():
    key = r.key_of(9)
    u = ((r.bits(key, (2000,), 64) >> np.uint64(12)).astype(np.float64) * 2 + 1) * 2.0**-52 - 1
    got = R["randn"](key, shape=(2000,), dtype=np.dtype(np.float64))
    np.testing.assert_allclose(got, np.sqrt(2) * erfinv(u), rtol=1e-12)


def test_dropout():
    key, x = r.key_of(4), np.linspace(1, 2, 5000, dtype=np.float32)
    kept = R["rand"](key, shape=(5000,), dtype=np.dtype(np.float32)) >= np.float32(0.3)
    got = r.dropout(x, key, p=0.3)
    assert np.array_equal(got, np.where(kept, x.astype(float) / 0.7, 0).astype(np.float32))
    assert 0.27 < (got == 0).mean() < 0.33
    assert np.array_equal(r.dropout(x, key, p=0.0), x) and not r.dropout(np.full(3, np.nan), key, p=1.0).any()
    with pytest.raises(InvalidArgument):
        r.dropout(x, key, p=1.5)


def test_shapes_and_dtypes():
    key = r.key_of(1)
    assert R["rand"](key, shape=(), dtype=np.dtype(np.float32)).shape == ()
    assert R["randn"](key, shape=(0, 3), dtype=np.dtype(np.float64)).shape == (0, 3)
    flat = R["rand"](key, shape=(6,), dtype=np.dtype(np.float32))
    assert np.array_equal(R["rand"](key, shape=(2, 3), dtype=np.dtype(np.float32)).ravel(), flat)
    for name in ("rand", "randn"):
        with pytest.raises(UnsupportedDType):
            R[name](key, shape=(1,), dtype=np.dtype(np.int32))
        with pytest.raises(InvalidArgument):
            R[name](key, shape=(-1,), dtype=np.dtype(np.float32))
