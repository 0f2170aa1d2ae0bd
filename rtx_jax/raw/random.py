"""Random draws on raw arrays: ``sampler(key, *parameters, *, shape, dtype)``.

`shape` is None (the broadcast shape of the parameters) or a tuple that they broadcast to. Values below 32 bits are
drawn in float32 and rounded once. The methods are our own where those of `jax.random` differ between the supported
versions or fail for 64 bits under `jax.jit` (see `random_bits`).
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import lax

from ..core.random import wrap_key
from ..errors import BroadcastError, InvalidArgument, ShapeMismatch
from . import random_bits as rb
from . import random_counts as rc

Shape = tuple[int, ...] | None


def keyed(sampler: Callable[..., jax.Array], /) -> Callable[..., jax.Array]:
    """Make a sampler take key data and a step: the operation that the face compiles.

    The static ``impl`` is None for threefry2x32 data to which ``step`` is folded, or the implementation of a key
    that is used as it is. The static ``sharding`` is None or the sharding of the result.
    """

    def raw(
        data: jax.Array, step: jax.Array, *parameters: jax.Array, impl: object, sharding: object, **static: object
    ) -> jax.Array:
        # Without this setting the bits depend on how the array is sharded, and on the user's configuration.
        with jax.threefry_partitionable(True):
            if impl is None:
                key = jr.fold_in(wrap_key(data), step)
            else:
                key = jr.wrap_key_data(data, impl=impl)
            result = sampler(key, *parameters, **static)
        return result if sharding is None else _constrain(result, sharding)

    return raw


def _constrain(x: jax.Array, sharding: object) -> jax.Array:
    try:
        sharding.shard_shape(x.shape)  # type: ignore[attr-defined]
    except ValueError as error:
        raise InvalidArgument(
            "random",
            "device",
            got=f"a sharding for shape {x.shape}",
            wanted="a sharding that divides the shape",
            remedy=str(error).splitlines()[0],
            arg="device",
            reason=str(error),
        ) from error
    constrained: jax.Array = lax.with_sharding_constraint(x, sharding)
    return constrained


def _work(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.float32) if dtype.itemsize < 4 else dtype


def _prepare(
    name: str, shape: Shape, dtype: np.dtype, *parameters: jax.Array
) -> tuple[tuple[int, ...], list[jax.Array]]:
    """Return the shape of the result, and the parameters in the dtype of the computation with that shape."""
    shapes = [p.shape for p in parameters]
    try:
        together = jnp.broadcast_shapes(*shapes)
        full = together if shape is None else jnp.broadcast_shapes(shape, together)
        if shape is not None and full != shape:
            raise ValueError("the parameters have more elements than size")
    except ValueError as error:
        raise BroadcastError(
            name,
            "size",
            got=f"{shape} with parameters of shapes {', '.join(map(str, shapes))}",
            wanted="shapes that broadcast to size",
            lhs=shape or (),
            rhs=shapes[0] if shapes else (),
        ) from error
    return full, [jnp.broadcast_to(p.astype(_work(dtype)), full) for p in parameters]


def uniform(key: jax.Array, low: jax.Array, high: jax.Array, *, shape: Shape, dtype: np.dtype) -> jax.Array:
    """Return values of ``[low, high)``."""
    full, (a, b) = _prepare("uniform", shape, dtype, low, high)
    # Rounding can reach `high` when the interval is wide for the dtype; the largest value below it is kept.
    value = a + (b - a) * rb.uniform(key, full, _work(dtype))
    value = jnp.where((value >= b) & (a < b), jnp.nextafter(b, a), value)
    return value.astype(dtype)


def random(key: jax.Array, *, shape: Shape, dtype: np.dtype) -> jax.Array:
    """Return values of ``[0, 1)``, multiples of the spacing of `dtype` just below 1."""
    return rb.uniform(key, shape or (), dtype)


def normal(key: jax.Array, loc: jax.Array, scale: jax.Array, *, shape: Shape, dtype: np.dtype) -> jax.Array:
    """Return normal values of mean `loc` and standard deviation `scale`."""
    full, (mean, deviation) = _prepare("normal", shape, dtype, loc, scale)
    return (mean + _nonnegative(deviation) * rb.normal(key, full, _work(dtype))).astype(dtype)


def standard_normal(key: jax.Array, *, shape: Shape, dtype: np.dtype) -> jax.Array:
    """Return normal values of mean 0 and standard deviation 1."""
    return rb.normal(key, shape or (), _work(dtype)).astype(dtype)


def _nonnegative(x: jax.Array) -> jax.Array:
    return jnp.where(x >= 0, x, jnp.nan)


def _positive(x: jax.Array) -> jax.Array:
    return jnp.where(x > 0, x, jnp.nan)


def exponential(key: jax.Array, scale: jax.Array, *, shape: Shape, dtype: np.dtype) -> jax.Array:
    """Return exponential values of mean `scale`."""
    full, (mean,) = _prepare("exponential", shape, dtype, scale)
    return (_nonnegative(mean) * rb.exponential(key, full, _work(dtype))).astype(dtype)


def gamma(key: jax.Array, a: jax.Array, scale: jax.Array, *, shape: Shape, dtype: np.dtype) -> jax.Array:
    """Return gamma values of shape parameter `a` (0 gives 0) and `scale`."""
    _, (alpha, s) = _prepare("gamma", shape, dtype, a, scale)
    value = rb.gamma(key, jnp.where(alpha == 0, 1, alpha))
    return (_nonnegative(s) * jnp.where(alpha == 0, 0, value)).astype(dtype)


def beta(key: jax.Array, a: jax.Array, b: jax.Array, *, shape: Shape, dtype: np.dtype) -> jax.Array:
    """Return beta values."""
    _, (x, y) = _prepare("beta", shape, dtype, a, b)
    first, second = rb.split(key)
    # exp(X) / (exp(X) + exp(Y)) without overflow, and right where both values are as small as 0.
    return jax.nn.sigmoid(rb.loggamma(first, x) - rb.loggamma(second, y)).astype(dtype)


def chisquare(key: jax.Array, df: jax.Array, *, shape: Shape, dtype: np.dtype) -> jax.Array:
    """Return chi-square values: twice a gamma value of ``df / 2``."""
    _, (k,) = _prepare("chisquare", shape, dtype, df)
    return (2 * rb.gamma(key, k / 2)).astype(dtype)


def f(key: jax.Array, dfnum: jax.Array, dfden: jax.Array, *, shape: Shape, dtype: np.dtype) -> jax.Array:
    """Return values of the F distribution: a ratio of two chi-square values, each by its degrees of freedom."""
    _, (m, n) = _prepare("f", shape, dtype, dfnum, dfden)
    first, second = rb.split(key)
    return (rb.gamma(first, m / 2) / m / (rb.gamma(second, n / 2) / n)).astype(dtype)


def standard_t(key: jax.Array, df: jax.Array, *, shape: Shape, dtype: np.dtype) -> jax.Array:
    """Return values of Student's t distribution."""
    full, (k,) = _prepare("standard_t", shape, dtype, df)
    first, second = rb.split(key)
    half = k / 2
    return (rb.normal(first, full, _work(dtype)) * jnp.sqrt(half / rb.gamma(second, half))).astype(dtype)


def standard_cauchy(key: jax.Array, *, shape: Shape, dtype: np.dtype) -> jax.Array:
    """Return Cauchy values."""
    angle = rb.symmetric(key, shape or (), _work(dtype)) * np.asarray(np.pi / 2, _work(dtype))
    return jnp.tan(angle).astype(dtype)


def laplace(key: jax.Array, loc: jax.Array, scale: jax.Array, *, shape: Shape, dtype: np.dtype) -> jax.Array:
    """Return Laplace values."""
    full, (m, s) = _prepare("laplace", shape, dtype, loc, scale)
    u = rb.symmetric(key, full, _work(dtype))
    return (m - _nonnegative(s) * jnp.sign(u) * jnp.log1p(-jnp.abs(u))).astype(dtype)


def logistic(key: jax.Array, loc: jax.Array, scale: jax.Array, *, shape: Shape, dtype: np.dtype) -> jax.Array:
    """Return logistic values."""
    full, (m, s) = _prepare("logistic", shape, dtype, loc, scale)
    u = rb.symmetric(key, full, _work(dtype))
    return (m + _nonnegative(s) * (jnp.log1p(u) - jnp.log1p(-u))).astype(dtype)


def gumbel(key: jax.Array, loc: jax.Array, scale: jax.Array, *, shape: Shape, dtype: np.dtype) -> jax.Array:
    """Return Gumbel values."""
    full, (m, s) = _prepare("gumbel", shape, dtype, loc, scale)
    return (m + _nonnegative(s) * _standard_gumbel(key, full, _work(dtype))).astype(dtype)


def _standard_gumbel(key: jax.Array, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
    # The exponential value is 0 with probability 2**-24 in float32; the largest Gumbel value stays finite.
    return -jnp.log(jnp.maximum(rb.exponential(key, shape, dtype), np.finfo(dtype).tiny))


def lognormal(key: jax.Array, mean: jax.Array, sigma: jax.Array, *, shape: Shape, dtype: np.dtype) -> jax.Array:
    """Return the exponential function of normal values."""
    full, (m, s) = _prepare("lognormal", shape, dtype, mean, sigma)
    return jnp.exp(m + _nonnegative(s) * rb.normal(key, full, _work(dtype))).astype(dtype)


def pareto(key: jax.Array, a: jax.Array, *, shape: Shape, dtype: np.dtype) -> jax.Array:
    """Return Lomax values (Pareto II, from 0), as NumPy has them."""
    full, (b,) = _prepare("pareto", shape, dtype, a)
    return jnp.expm1(rb.exponential(key, full, _work(dtype)) / _positive(b)).astype(dtype)


def power(key: jax.Array, a: jax.Array, *, shape: Shape, dtype: np.dtype) -> jax.Array:
    """Return values of ``[0, 1]`` with density ``a * x**(a - 1)``."""
    full, (b,) = _prepare("power", shape, dtype, a)
    return jnp.exp(-rb.exponential(key, full, _work(dtype)) / _positive(b)).astype(dtype)


def rayleigh(key: jax.Array, scale: jax.Array, *, shape: Shape, dtype: np.dtype) -> jax.Array:
    """Return Rayleigh values."""
    full, (s,) = _prepare("rayleigh", shape, dtype, scale)
    return (_nonnegative(s) * jnp.sqrt(2 * rb.exponential(key, full, _work(dtype)))).astype(dtype)


def weibull(key: jax.Array, a: jax.Array, *, shape: Shape, dtype: np.dtype) -> jax.Array:
    """Return Weibull values of scale 1."""
    full, (b,) = _prepare("weibull", shape, dtype, a)
    return (rb.exponential(key, full, _work(dtype)) ** (1 / _positive(b))).astype(dtype)


def wald(key: jax.Array, mean: jax.Array, scale: jax.Array, *, shape: Shape, dtype: np.dtype) -> jax.Array:
    """Return inverse Gaussian values; with mean 1 they are JAX's, and ``m * IG(1, scale / m)`` has mean m."""
    full, (m, s) = _prepare("wald", shape, dtype, mean, scale)
    normal_key, choice_key = rb.split(key)
    # Michael, Schucany and Haas (1976): the smaller root of a chi-square equation, or the larger one.
    y = m * jnp.square(rb.normal(normal_key, full, _work(dtype))) / (2 * _positive(s))
    root = m / (1 + y + jnp.sqrt(y * (2 + y)))
    u = rb.uniform(choice_key, full, _work(dtype))
    return jnp.where(u * (_positive(m) + root) <= m, root, m * m / root).astype(dtype)


def triangular(
    key: jax.Array, left: jax.Array, mode: jax.Array, right: jax.Array, *, shape: Shape, dtype: np.dtype
) -> jax.Array:
    """Return triangular values."""
    full, (a, c, b) = _prepare("triangular", shape, dtype, left, mode, right)
    u = rb.uniform(key, full, _work(dtype))
    width = jnp.where((a <= c) & (c <= b) & (a < b), b - a, jnp.nan)
    rising = a + jnp.sqrt(u * width * (c - a))
    falling = b - jnp.sqrt((1 - u) * width * (b - c))
    return jnp.where(u * width < c - a, rising, falling).astype(dtype)


def dirichlet(key: jax.Array, alpha: jax.Array, *, shape: Shape, dtype: np.dtype) -> jax.Array:
    """Return points of the simplex, ``shape + (K,)``."""
    a = alpha.astype(_work(dtype))
    logs = rb.loggamma(key, jnp.broadcast_to(a, (shape or ()) + a.shape))
    return jax.nn.softmax(logs, axis=-1).astype(dtype)


def multivariate_normal(
    key: jax.Array, mean: jax.Array, cov: jax.Array, *, shape: Shape, dtype: np.dtype, method: str
) -> jax.Array:
    """Return normal vectors, ``shape + (N,)``."""
    work = _work(dtype)
    m, c = mean.astype(work), cov.astype(work)
    if m.ndim != 1 or c.shape != (m.shape[0], m.shape[0]):
        raise ShapeMismatch(
            "multivariate_normal",
            "cov",
            got=f"shape {c.shape} with a mean of shape {m.shape}",
            wanted="(N, N) and (N,)",
            expected=(*m.shape, *m.shape),
            got_shape=c.shape,
        )
    if method == "cholesky":
        factor = jnp.linalg.cholesky(c)
    elif method == "eigh":
        values, vectors = jnp.linalg.eigh(c)
        factor = vectors * jnp.sqrt(jnp.maximum(values, 0))
    else:
        left, values, _ = jnp.linalg.svd(c)
        factor = left * jnp.sqrt(values)
    z = rb.normal(key, (*(shape or ()), m.shape[0]), work)
    return (m + jnp.einsum("...j,ij->...i", z, factor, precision="highest")).astype(dtype)


# --- integers -----------------------------------------------------------------------------------------------------


def integers(key: jax.Array, low: jax.Array, last: jax.Array, *, shape: Shape, dtype: np.dtype) -> jax.Array:
    """Return integers from `low` to `last`, both included.

    Not `jax.random.randint`, whose exclusive bound cannot say the whole range of a 64-bit dtype in an array, and
    whose product overflows for wide ranges. Here bits of twice the width are scaled (Lemire 2019), so that the
    probability of a value is off by at most 2**-32 of itself for the narrow dtypes, and 2**-64 for 64 bits.
    """
    full = jnp.broadcast_shapes(low.shape, last.shape) if shape is None else shape
    word = np.dtype(np.uint64 if dtype.itemsize == 8 else np.uint32)
    # Two's complement: the distance is right modulo 2**bits also where it does not fit the signed dtype.
    first = low.astype(dtype).astype(word)
    count = last.astype(dtype).astype(word) - first + jnp.ones((), word)  # 0 stands for all 2**bits values
    high_key, low_key = rb.split(key)
    high, tail = rb.bits(high_key, full, word), rb.bits(low_key, full, word)
    middle = high * count
    carry = (middle + _high_product(tail, count) < middle).astype(word)
    offset = _high_product(high, count) + carry
    return (first + jnp.where(count == 0, high, offset)).astype(dtype)


def _high_product(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return the upper half of the product of two unsigned words, from products of their halves."""
    half = a.dtype.type(a.dtype.itemsize * 4)
    mask = a.dtype.type(2 ** int(half) - 1)
    a1, a0, b1, b0 = a >> half, a & mask, b >> half, b & mask
    cross, other = a0 * b1, a1 * b0
    middle = (a0 * b0 >> half) + (cross & mask) + (other & mask)
    product: jax.Array = a1 * b1 + (cross >> half) + (other >> half) + (middle >> half)
    return product


def poisson(key: jax.Array, lam: jax.Array, *, shape: Shape, dtype: np.dtype, real: np.dtype) -> jax.Array:
    """Return Poisson counts; -1 where `lam` is negative or NaN."""
    _, (rate,) = _prepare("poisson", shape, real, lam)
    return _counts(rc.poisson(key, rate), dtype)


def binomial(key: jax.Array, n: jax.Array, p: jax.Array, *, shape: Shape, dtype: np.dtype, real: np.dtype) -> jax.Array:
    """Return counts of successes in `n` trials."""
    _, (trials, chance) = _prepare("binomial", shape, real, n, p)
    return _counts(rc.binomial(key, trials, chance), dtype)


def _counts(x: jax.Array, dtype: np.dtype) -> jax.Array:
    return jnp.where(jnp.isnan(x), -1, x).astype(dtype)


def geometric(key: jax.Array, p: jax.Array, *, shape: Shape, dtype: np.dtype, real: np.dtype) -> jax.Array:
    """Return the number of trials up to the first success, from 1."""
    full, (chance,) = _prepare("geometric", shape, real, p)
    wait = rb.exponential(key, full, _work(real))
    trials = jnp.ceil(wait / -jnp.log1p(-jnp.where((chance > 0) & (chance <= 1), chance, jnp.nan)))
    return _counts(jnp.maximum(trials, 1), dtype)


def negative_binomial(
    key: jax.Array, n: jax.Array, p: jax.Array, *, shape: Shape, dtype: np.dtype, real: np.dtype
) -> jax.Array:
    """Return failures before `n` successes: Poisson counts whose rate is a gamma value."""
    _, (successes, chance) = _prepare("negative_binomial", shape, real, n, p)
    rate_key, count_key = rb.split(key)
    rate = rb.gamma(rate_key, successes) * (1 - chance) / _positive(chance)
    return _counts(rc.poisson(count_key, rate), dtype)


def multinomial(
    key: jax.Array, n: jax.Array, pvals: jax.Array, *, shape: Shape, dtype: np.dtype, real: np.dtype
) -> jax.Array:
    """Return counts per outcome, ``shape + (K,)``: one binomial draw of the rest for each outcome.

    Not `jax.random.multinomial`, whose `shape` means different things in the supported versions.
    """
    p = pvals.astype(_work(real))
    outcomes = p.shape[-1]
    full = jnp.broadcast_shapes(n.shape, p.shape[:-1]) if shape is None else shape
    rest = jnp.broadcast_to(n.astype(_work(real)), full)
    after = jnp.flip(jnp.cumsum(jnp.flip(p, -1), -1), -1)
    share = jnp.clip(p / jnp.where(after > 0, after, 1), 0, 1)

    def draw(rest: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        chance, step_key = step
        count = rc.binomial(step_key, rest, jnp.broadcast_to(chance, full))
        return rest - count, count

    steps = jnp.moveaxis(share, -1, 0)[: outcomes - 1], rb.split(key, max(outcomes - 1, 1))[: outcomes - 1]
    rest, counts = lax.scan(draw, rest, steps)
    return jnp.moveaxis(jnp.concatenate([counts, rest[None]]), 0, -1).astype(dtype)


# --- orders and choices -------------------------------------------------------------------------------------------


def permutation(key: jax.Array, x: jax.Array, *, axis: int) -> jax.Array:
    """Return `x` with its slices along `axis` in random order."""
    return jr.permutation(key, x, axis)


def arrangement(key: jax.Array, *, n: int, dtype: np.dtype) -> jax.Array:
    """Return the integers below `n` in random order."""
    return jr.permutation(key, jnp.arange(n, dtype=dtype))


def permuted(key: jax.Array, x: jax.Array, *, axis: int | None) -> jax.Array:
    """Return `x` with each one-dimensional slice along `axis` in an order of its own; None: all elements."""
    if axis is None:
        return jr.permutation(key, x.reshape(-1)).reshape(x.shape)
    return jr.permutation(key, x, axis, independent=True)


def choice(
    key: jax.Array, *weights: jax.Array, n: int, shape: tuple[int, ...], replace: bool, dtype: np.dtype
) -> jax.Array:
    """Return indices below `n`, with or without repeats, by `weights` if given."""
    draws = int(np.prod(shape, dtype=np.int64))
    if weights:
        p = weights[0].astype(_work(weights[0].dtype) if weights[0].dtype.kind in "fV" else np.float32)
        if replace:
            edges = jnp.cumsum(p)
            # 1 - u lies in (0, 1], so that an outcome of probability 0 at the front is never drawn.
            u = (1 - rb.uniform(key, shape, p.dtype)) * edges[-1]
            index = jnp.searchsorted(edges, u, side="left")
            return jnp.minimum(index, n - 1).astype(dtype)
        # Gumbel top-k (Vieira 2014) is sampling without replacement by weight, largest first.
        scores = jnp.log(p) + _standard_gumbel(key, (n,), p.dtype)
        return lax.top_k(scores, draws)[1].astype(dtype).reshape(shape)
    if replace:
        bound = jnp.asarray(n - 1, dtype)
        return integers(key, jnp.zeros((), dtype), bound, shape=shape, dtype=dtype)
    return jr.permutation(key, jnp.arange(n, dtype=dtype))[:draws].reshape(shape)


def take(x: jax.Array, index: jax.Array, *, axis: int) -> jax.Array:
    """Return the slices of `x` at `index`, whose shape takes the place of `axis`."""
    return jnp.take(x, index, axis, mode="clip")  # never out of bounds; the cheapest mode
