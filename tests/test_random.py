"""The generator: NumPy's methods, distributions, dtypes, devices, shardings, keys, traces."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from scipy import stats

import rtx_jax as xp
from rtx_jax.errors import (
    BroadcastError,
    InvalidArgument,
    InvalidDimension,
    RngUnderTrace,
    ShapeMismatch,
    UnsupportedDType,
)
from tests import threefry

N = 4000
CPUS = jax.devices("cpu")


def _rng(seed=12345):
    return xp.random.default_rng(seed)


# Each: name, arguments, the distribution in SciPy's words.
CONTINUOUS = [
    ("random", (), stats.uniform()),
    ("uniform", (-2.0, 5.0), stats.uniform(-2, 7)),
    ("standard_normal", (), stats.norm()),
    ("normal", (1.5, 0.5), stats.norm(1.5, 0.5)),
    ("standard_exponential", (), stats.expon()),
    ("exponential", (3.0,), stats.expon(scale=3)),
    ("standard_gamma", (0.3,), stats.gamma(0.3)),
    ("gamma", (2.5, 2.0), stats.gamma(2.5, scale=2)),
    ("gamma", (40.0, 1.0), stats.gamma(40)),
    ("beta", (0.5, 2.0), stats.beta(0.5, 2)),
    ("chisquare", (3.0,), stats.chi2(3)),
    ("f", (4.0, 7.0), stats.f(4, 7)),
    ("standard_t", (3.0,), stats.t(3)),
    ("standard_cauchy", (), stats.cauchy()),
    ("laplace", (1.0, 2.0), stats.laplace(1, 2)),
    ("logistic", (1.0, 2.0), stats.logistic(1, 2)),
    ("gumbel", (1.0, 2.0), stats.gumbel_r(1, 2)),
    ("lognormal", (0.5, 0.7), stats.lognorm(0.7, scale=np.exp(0.5))),
    ("pareto", (3.0,), stats.lomax(3)),
    ("power", (2.5,), stats.powerlaw(2.5)),
    ("rayleigh", (2.0,), stats.rayleigh(scale=2)),
    ("weibull", (1.5,), stats.weibull_min(1.5)),
    ("wald", (1.5, 2.0), stats.invgauss(1.5 / 2, scale=2)),
    ("triangular", (-1.0, 0.5, 2.0), stats.triang(0.5, -1, 3)),
]

DISCRETE = [
    ("poisson", (0.7,), stats.poisson(0.7)),
    ("poisson", (9.9,), stats.poisson(9.9)),
    ("poisson", (10.0,), stats.poisson(10)),
    ("poisson", (50.0,), stats.poisson(50)),
    ("binomial", (10, 0.3), stats.binom(10, 0.3)),
    ("binomial", (100, 0.25), stats.binom(100, 0.25)),
    ("binomial", (100, 0.8), stats.binom(100, 0.8)),
    ("geometric", (0.3,), stats.geom(0.3)),
    ("negative_binomial", (4, 0.4), stats.nbinom(4, 0.4)),
    ("integers", (-3, 8), stats.randint(-3, 8)),
]


@pytest.mark.parametrize(("name", "arguments", "law"), CONTINUOUS)
def test_real_distributions(name, arguments, law):
    x = getattr(_rng(), name)(*arguments, size=N)
    assert isinstance(x, xp.Array) and x.shape == (N,) and x.dtype == xp.float64
    assert stats.kstest(np.asarray(x), law.cdf).pvalue > 1e-3


@pytest.mark.parametrize(("name", "arguments", "law"), DISCRETE)
def test_counts(name, arguments, law):
    x = getattr(_rng(), name)(*arguments, size=N)
    assert x.shape == (N,) and x.dtype == xp.int64
    values, seen = np.unique(np.asarray(x), return_counts=True)
    expected = law.pmf(values) * N
    rare = expected < 5
    seen = np.append(seen[~rare], seen[rare].sum())
    expected = np.append(expected[~rare], max(N - expected[~rare].sum(), 1e-9))
    assert stats.chisquare(seen + 1e-12, expected * (seen.sum() / expected.sum())).pvalue > 1e-3


@pytest.mark.parametrize("lam", [1e6, 3e9])
def test_large_counts_have_mean_and_variance(lam):
    x = np.asarray(_rng().poisson(lam, size=N), np.float64)
    assert abs(x.mean() - lam) < 5 * np.sqrt(lam / N)
    assert abs(x.var() / lam - 1) < 5 * np.sqrt(2 / N)
    y = np.asarray(_rng().binomial(4 * lam, 0.25, size=N), np.float64)
    assert abs(y.mean() - lam) < 5 * np.sqrt(0.75 * lam / N)
    assert abs(y.var() / (0.75 * lam) - 1) < 5 * np.sqrt(2 / N)


def test_vectors():
    rng = _rng()
    d = np.asarray(rng.dirichlet([1.0, 2.0, 5.0], size=N))
    assert d.shape == (N, 3)
    assert np.allclose(d.sum(-1), 1)
    assert np.allclose(d.mean(0), [0.125, 0.25, 0.625], atol=0.01)
    assert np.asarray(rng.dirichlet([1e-3, 1e-3], size=100)).sum() == pytest.approx(100)
    m = np.asarray(rng.multinomial(20, [0.2, 0.3, 0.5], size=N))
    assert m.shape == (N, 3) and m.dtype == np.int64
    assert np.all(m.sum(-1) == 20)
    assert np.allclose(m.mean(0), [4, 6, 10], atol=0.2)
    assert stats.kstest(rng.multinomial(1, [1.0], size=3).tolist(), "norm")  # one outcome is certain
    cov = np.array([[2.0, 0.6], [0.6, 1.0]])
    for method in ("cholesky", "eigh", "svd"):
        v = np.asarray(rng.multivariate_normal([1.0, -1.0], cov, size=N, method=method))
        assert v.shape == (N, 2)
        assert np.allclose(v.mean(0), [1, -1], atol=0.1)
        assert np.allclose(np.cov(v.T), cov, atol=0.15)


def test_the_bits_are_threefry_s():
    key = threefry.fold_in((0, 7), 0)
    words = threefry.words(key, 6)
    x = _rng(7).random(6, dtype=xp.float32)
    assert np.array_equal(x, (words >> 9).astype(np.float32) * np.float32(2**-23))
    y = _rng(7).random(3)
    joined = (words[0::2].astype(np.uint64) << np.uint64(32)) | words[1::2]
    assert np.array_equal(y, (joined >> np.uint64(11)) * 2.0**-53)


def test_integers_scale_the_bits():
    first, second = threefry.split(threefry.fold_in((0, 7), 0))
    bits = [int(h) << 32 | int(low) for h, low in zip(threefry.words(first, 5), threefry.words(second, 5), strict=True)]
    x = _rng(7).integers(-4, 9, size=5, dtype=xp.int32)
    assert x.tolist() == [-4 + (b * 13 >> 64) for b in bits]
    full = _rng(7).integers(0, 2**32, size=5, dtype=xp.uint32)
    assert full.tolist() == [b >> 32 for b in bits]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_reach_both_ends_of_each_dtype(dtype):
    info = np.iinfo(dtype)
    x = _rng().integers(info.min, info.max, size=64, dtype=dtype, endpoint=True)
    assert x.dtype == np.dtype(dtype)
    spread = [int(v) for v in np.asarray(x)]
    assert max(spread) - min(spread) > (info.max - info.min) // 2
    ends = _rng().integers(info.max - 1, info.max, size=64, dtype=dtype, endpoint=True)
    assert set(np.asarray(ends).tolist()) == {info.max - 1, info.max}
    assert _rng().integers(info.min, info.min + 1, dtype=dtype).tolist() == info.min


def test_integers_with_one_bound_and_with_arrays():
    x = np.asarray(_rng().integers(3, size=1000))
    assert set(x) == {0, 1, 2}
    y = np.asarray(_rng().integers([0, 100], [[1], [2]] + np.array([[0, 100]]), size=None))
    assert y.shape == (2, 2) and np.all(y[:, 0] < 2) and np.all(y[:, 1] >= 100)
    z = _rng().integers(xp.asarray([0, 10]), xp.asarray([1, 11]))
    assert z.tolist() == [0, 10]


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((5, 5), {}),
        ((5, 4), {"endpoint": True}),
        ((0, 257), {"dtype": "uint8"}),
        ((-1, 3), {"dtype": "uint8"}),
        ((0,), {}),
    ],
)
def test_impossible_intervals(arguments, options):
    with pytest.raises(InvalidArgument, match="random.integers"):
        _rng().integers(*arguments, **options)


def test_integers_refuse_fractions():
    with pytest.raises(UnsupportedDType, match="integers"):
        _rng().integers(0.5, 3)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_dtypes(dtype):
    dtype = getattr(xp, dtype)
    for draw in (lambda r: r.random(500, dtype=dtype), lambda r: r.normal(size=500, dtype=dtype)):
        x = draw(_rng())
        assert x.dtype == dtype
        assert np.asarray(x, np.float64).std() > 0.2
    u = np.asarray(_rng().random(5000, dtype=dtype), np.float64)
    assert u.min() >= 0 and u.max() < 1
    v = np.asarray(_rng().uniform(1.0, 1.0 + float(xp.finfo(dtype).eps), 200, dtype=dtype), np.float64)
    assert set(v) <= {1.0, 1.0 + float(xp.finfo(dtype).eps)}


def test_dtypes_that_draws_do_not_have():
    with pytest.raises(UnsupportedDType, match="float64, float32"):
        _rng().normal(size=3, dtype=xp.int32)
    with pytest.raises(UnsupportedDType, match="float64, float32"):
        _rng().normal(size=3, dtype=xp.complex64)
    with pytest.raises(UnsupportedDType, match="integer"):
        _rng().poisson(1.0, dtype=xp.float32)


def test_the_default_dtype_can_be_set():
    with xp.set_default_dtype(xp.float32):
        assert _rng().normal(size=3).dtype == xp.float32


def test_float32_normals_with_a_key_are_jax_s():
    for seed in (0, 99):
        ours = xp.random.standard_normal(50, dtype=xp.float32, key=xp.random.key(seed))
        assert np.array_equal(ours, jax.random.normal(jax.random.key(seed, impl="threefry2x32"), (50,), np.float32))


@pytest.mark.parametrize("x64", [True, False])
def test_the_x64_flag_does_not_matter(x64):
    expected = np.asarray(_rng().normal(size=20)), np.asarray(_rng().integers(2**40, size=20))
    with jax.enable_x64(x64):
        assert np.array_equal(_rng().normal(size=20), expected[0])
        assert np.array_equal(_rng().integers(2**40, size=20), expected[1])


def test_equal_seeds_equal_streams_and_each_draw_differs():
    a, b = _rng(3), _rng(3)
    first, second = a.random(5), a.random(5)
    assert np.array_equal(first, b.random(5)) and np.array_equal(second, b.random(5))
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, _rng(4).random(5))
    assert not np.array_equal(_rng(2**32).random(5), _rng(0).random(5))


def test_sizes():
    rng = _rng()
    assert rng.normal().shape == ()
    assert rng.normal(size=()).shape == ()
    assert rng.normal(size=(0, 3)).shape == (0, 3)
    assert rng.poisson(3.0, size=0).shape == (0,)
    assert rng.normal(np.zeros((2, 1)), [1, 2, 3]).shape == (2, 3)
    assert rng.normal(np.zeros(3), 1.0, size=(2, 3)).shape == (2, 3)
    assert np.asarray(rng.normal([0.0, 1000.0], 1e-3)).round().tolist() == [0, 1000]
    with pytest.raises(BroadcastError, match="size"):
        rng.normal(np.zeros(3), 1.0, size=(4,))
    with pytest.raises(BroadcastError, match="size"):
        rng.normal(np.zeros((2, 3)), 1.0, size=(3,))
    with pytest.raises(InvalidArgument, match="size"):
        rng.normal(size=-1)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("normal", (0.0, -1.0)),
        ("exponential", (-1.0,)),
        ("gamma", (-1.0,)),
        ("poisson", (-1.0,)),
        ("poisson", (float("nan"),)),
        ("binomial", (10, 1.5)),
        ("geometric", (-0.1,)),
        ("multinomial", (10, [0.9, 0.9])),
    ],
)
def test_parameters_out_of_their_domain(name, arguments):
    rng = _rng()
    with pytest.raises(InvalidArgument, match=f"random.{name}"):
        getattr(rng, name)(*arguments)
    # Nothing was drawn.
    assert np.array_equal(rng.random(3), _rng().random(3))


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("normal", (0.0, -1.0), np.nan),
        ("gamma", (-1.0, 1.0), np.nan),
        ("gamma", (0.0, 1.0), 0.0),
        ("beta", (-1.0, 1.0), np.nan),
        ("standard_t", (0.0,), np.nan),
        ("wald", (-1.0, 1.0), np.nan),
        ("poisson", (-1.0,), -1),
        ("poisson", (0.0,), 0),
        ("binomial", (5.0, np.nan), -1),
        ("binomial", (5.0, 1.0), 5),
        ("binomial", (100.0, 0.0), 0),
        ("geometric", (0.0,), -1),
        ("geometric", (1.0,), 1),
    ],
)
def test_parameters_on_the_device(name, arguments, expected):
    x = getattr(_rng(), name)(*(xp.asarray(a) for a in arguments), size=4)
    assert np.array_equal(x, np.full(4, expected), equal_nan=True)


def test_gamma_values_have_the_derivative_of_their_quantile():
    def f(a):
        return xp.random.standard_gamma(xp.Array(a), key=jax.random.key(1)).jax

    with jax.enable_x64(True):
        a = jnp.asarray(2.5)
        value, slope = jax.jvp(f, (a,), (jnp.ones_like(a),))
    q, h = stats.gamma(2.5).cdf(float(value)), 1e-5
    assert float(slope) == pytest.approx(
        (stats.gamma.ppf(q, 2.5 + h) - stats.gamma.ppf(q, 2.5 - h)) / (2 * h), rel=1e-6
    )


# --- orders and choices -------------------------------------------------------------------------------------------


def test_permutation():
    rng = _rng()
    p = rng.permutation(50)
    assert p.dtype == xp.int64 and sorted(p.tolist()) == list(range(50)) and p.tolist() != list(range(50))
    x = xp.reshape(xp.arange(12), (4, 3))
    rows = rng.permutation(x)
    assert sorted(map(tuple, rows.tolist())) == [(0, 1, 2), (3, 4, 5), (6, 7, 8), (9, 10, 11)]
    columns = rng.permutation(x, axis=1)
    assert sorted(zip(*columns.tolist(), strict=True)) == [(0, 3, 6, 9), (1, 4, 7, 10), (2, 5, 8, 11)]
    assert rng.permutation(0).shape == (0,)
    assert rng.permutation(np.arange(3)).dtype == xp.int64
    with pytest.raises(InvalidDimension):
        rng.permutation(x, axis=2)
    with pytest.raises(InvalidArgument):
        rng.permutation(-1)


def test_permuted_moves_each_slice_by_itself():
    x = xp.reshape(xp.arange(40), (2, 20))
    y = np.asarray(_rng().permuted(x, axis=1))
    assert np.array_equal(np.sort(y, axis=1), x)
    assert not np.array_equal(y[0] + 20, y[1])
    z = np.asarray(_rng().permuted(x))
    assert z.shape == (2, 20) and sorted(z.ravel()) == list(range(40))


def test_every_order_is_as_likely():
    rng = _rng()
    orders = np.asarray(rng.permuted(np.tile(np.arange(3), (6000, 1)), axis=1))
    _, seen = np.unique(orders, axis=0, return_counts=True)
    assert seen.shape == (6,)
    assert stats.chisquare(seen).pvalue > 1e-3


def test_shuffle_is_in_place():
    x = xp.arange(20)
    same, other = x, x.copy()
    assert _rng().shuffle(x) is None
    assert same is x and sorted(x.tolist()) == list(range(20)) and x.tolist() != list(range(20))
    assert other.tolist() == list(range(20))
    host = np.arange(20)
    _rng().shuffle(host)
    assert host.tolist() == x.tolist()
    with pytest.raises(UnsupportedDType, match="permutation"):
        _rng().shuffle([1, 2, 3])


def test_choice():
    rng = _rng()
    assert set(rng.choice(4, size=400).tolist()) == {0, 1, 2, 3}
    assert rng.choice(4).shape == ()
    assert sorted(rng.choice(10, size=10, replace=False).tolist()) == list(range(10))
    sample = rng.choice(xp.asarray([5.0, 6.0]), size=(2, 3))
    assert sample.shape == (2, 3) and set(np.asarray(sample).ravel()) <= {5.0, 6.0}
    x = xp.reshape(xp.arange(6), (3, 2))
    assert rng.choice(x, size=5).shape == (5, 2)
    assert rng.choice(x, size=5, axis=1).shape == (3, 5)
    assert sorted(map(tuple, rng.choice(x, 3, replace=False).tolist())) == [(0, 1), (2, 3), (4, 5)]
    assert rng.choice(x, size=(2, 2), axis=-1).shape == (3, 2, 2)


def test_choice_by_probability():
    p = np.array([0.0, 0.6, 0.1, 0.3])
    x = np.asarray(_rng().choice(4, size=N, p=p))
    assert stats.chisquare(np.bincount(x, minlength=4)[1:], p[1:] * N).pvalue > 1e-3
    assert 0 not in x
    firsts = np.asarray([_rng(s).choice(4, size=2, replace=False, p=p).tolist() for s in range(50)])
    assert np.all(firsts[:, 0] != firsts[:, 1]) and 0 not in firsts
    assert _rng().choice(4, size=3, p=xp.asarray(p)).shape == (3,)
    assert _rng().choice(3, size=3, p=xp.asarray([0.2, 0.3, 0.5], dtype=xp.float32)).shape == (3,)


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        ((0, 3), {}, InvalidArgument),
        ((3, 4), {"replace": False}, InvalidArgument),
        ((3, 2), {"p": [0.5, 0.5]}, ShapeMismatch),
        ((3, 2), {"p": [0.5, 0.4, 0.2]}, InvalidArgument),
        ((3, 2), {"p": [1.5, -0.5, 0.0]}, InvalidArgument),
        ((3, 2), {"p": [1.0, 0.0, 0.0], "replace": False}, InvalidArgument),
    ],
)
def test_impossible_choices(arguments, options, error):
    with pytest.raises(error, match="random.choice"):
        _rng().choice(*arguments, **options)


def test_bytes():
    assert _rng().bytes(0) == b""
    data = _rng().bytes(13)
    assert isinstance(data, bytes) and len(data) == 13 and data == _rng().bytes(13)


# --- generators ---------------------------------------------------------------------------------------------------


def test_default_rng_takes_what_numpy_s_does():
    rng = _rng()
    assert xp.random.default_rng(rng) is rng
    assert not np.array_equal(xp.random.default_rng().random(4), xp.random.default_rng(None).random(4))
    assert np.array_equal(xp.random.default_rng(np.int64(5)).random(4), _rng(5).random(4))
    assert np.array_equal(xp.random.default_rng(jax.random.key(5, impl="threefry2x32")).random(4), _rng(5).random(4))
    with pytest.raises(InvalidArgument, match="threefry2x32"):
        xp.random.default_rng(jax.random.key(5, impl="rbg"))
    with pytest.raises(InvalidArgument):
        xp.random.default_rng("seed")


def test_generators_can_be_copied_and_pickled():
    rng = _rng()
    rng.random(3)
    rng.spawn(1)
    for twin in (copy.copy(rng), copy.deepcopy(rng), pickle.loads(pickle.dumps(rng))):
        assert np.array_equal(twin.random(5), copy.copy(rng).random(5))
        assert np.array_equal(twin.spawn(1)[0].random(2), copy.copy(rng).spawn(1)[0].random(2))
    assert repr(rng) == "Generator(threefry2x32, 1 draws)"


def test_spawn():
    a, b = _rng().spawn(2)
    assert len({tuple(r.random(3).tolist()) for r in (a, b, _rng())}) == 3
    assert np.array_equal(_rng().spawn(1)[0].random(3), _rng().spawn(2)[0].random(3))


def test_the_key_of_the_next_draw():
    rng, same = _rng(), _rng()
    assert np.array_equal(xp.random.normal(size=4, key=rng.key()), same.normal(size=4))
    assert jax.random.normal(rng.key(), (2,)).shape == (2,)


# --- keys ---------------------------------------------------------------------------------------------------------


def test_keys():
    k = xp.random.key(2**32 + 9)
    assert np.array_equal(jax.random.key_data(k), [1, 9])
    assert np.array_equal(jax.random.key_data(xp.random.split(k, 3)), threefry.split((1, 9), 3))
    assert np.array_equal(jax.random.key_data(xp.random.fold_in(k, 5)), threefry.fold_in((1, 9), 5))
    assert np.array_equal(jax.random.key_data(xp.random.fold_in(k, xp.asarray(5))), threefry.fold_in((1, 9), 5))
    with pytest.raises(InvalidArgument, match="data"):
        xp.random.fold_in(k, -1)


def test_each_form_of_a_key():
    expected = xp.random.normal(size=3, key=xp.random.key(9))
    data = np.array([0, 9], np.uint32)
    for key in (data, jnp.asarray(data), xp.asarray(data), jax.random.key(9, impl="threefry2x32")):
        assert np.array_equal(xp.random.normal(size=3, key=key), expected)
    assert xp.random.normal(size=3, key=jax.random.key(9, impl="rbg")).shape == (3,)


@pytest.mark.parametrize("key", [3, "key", np.zeros(3), np.zeros((2, 2), np.uint32)])
def test_what_is_no_key(key):
    with pytest.raises(InvalidArgument, match="key"):
        xp.random.normal(size=3, key=key)


def test_the_global_generator():
    xp.random.seed(5)
    a, b = xp.random.normal(size=3), xp.random.normal(size=3)
    assert not np.array_equal(a, b)
    xp.random.seed(5)
    assert np.array_equal(xp.random.normal(size=3), a)
    assert np.array_equal(a, _rng(5).normal(size=3))


# --- traces -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["normal", "random", "gamma", "poisson", "integers", "permutation"])
def test_a_key_works_under_plain_jax_in_64_bits(name):
    arguments = {"gamma": (2.0,), "poisson": (20.0,), "integers": (100,), "permutation": (10,)}.get(name, ())
    function = getattr(xp.random, name)
    size = {} if name == "permutation" else {"size": 10}
    eager = function(*arguments, **size, key=xp.random.key(3))
    traced = jax.jit(lambda k: function(*arguments, **size, key=k).jax)(xp.random.key(3))
    assert traced.dtype == eager.dtype and eager.dtype.itemsize == 8
    np.testing.assert_allclose(traced, eager, rtol=1e-14)


def test_a_generator_under_plain_jax_raises():
    rng = _rng()
    with pytest.raises(RngUnderTrace, match="key="):
        jax.jit(lambda x: x + rng.normal().jax)(1.0)
    with pytest.raises(RngUnderTrace, match="key="):
        jax.jit(lambda x: x + xp.random.normal().jax)(1.0)
    assert np.array_equal(rng.random(3), _rng().random(3))


def test_a_generator_made_of_a_traced_key():
    def f(key):
        rng = xp.random.default_rng(key)
        return rng.normal(size=3).jax, rng.normal(size=3).jax

    a, b = jax.jit(f)(xp.random.key(12345))
    rng = _rng()
    np.testing.assert_allclose(a, rng.normal(size=3), rtol=1e-14)
    np.testing.assert_allclose(b, rng.normal(size=3), rtol=1e-14)


def test_a_captured_generator_is_drawn_from_at_each_call():
    rng, again = _rng(), _rng()
    f, g = xp.jit(lambda x: x + rng.normal(size=3)), xp.jit(lambda x: x + again.normal(size=3))
    x = xp.zeros(3, dtype=xp.float32)
    first, second = f(x), f(x)
    assert not np.array_equal(first, second)
    assert np.array_equal(g(x), first) and np.array_equal(g(x), second)


# --- devices ------------------------------------------------------------------------------------------------------


def _sharding(*spec):
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2, devices=CPUS)
    return NamedSharding(mesh, PartitionSpec(*spec))


@pytest.mark.parametrize("spec", [("x",), ("y", "x"), ("x", None), (None, ("x", "y")), ()])
def test_a_sharded_draw_has_the_same_values(spec):
    sharding = _sharding(*spec)
    for draw in (
        lambda r, d: r.random((8, 8), dtype=xp.float32, device=d),
        lambda r, d: r.integers(1000, size=(8, 8), device=d),
    ):
        x = draw(_rng(), sharding)
        assert x.sharding.is_equivalent_to(sharding, 2)
        assert np.array_equal(x, draw(_rng(), None))
    y = _rng().normal(size=(8, 8), device=sharding)
    np.testing.assert_allclose(y, _rng().normal(size=(8, 8)), rtol=1e-14)


def test_a_draw_on_another_device():
    x = _rng().normal(size=4, device="cpu:3")
    assert x.device == CPUS[3]
    assert np.array_equal(x, _rng().normal(size=4))
    assert _rng().permutation(xp.arange(4), device="cpu:2").device == CPUS[2]
    follows = _rng().normal(xp.zeros(4, device="cpu:5"))
    assert follows.device == CPUS[5]


def test_a_sharding_that_does_not_divide():
    with pytest.raises(InvalidArgument, match="sharding"):
        _rng().normal(size=3, device=_sharding("x"))
