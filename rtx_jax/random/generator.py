"""The generator: NumPy's methods on a stream of keys."""

from __future__ import annotations

import builtins

import jax
import numpy as np

from .._array import Array
from ..core.axes import as_int
from ..core.devices import DeviceLike
from ..core.dtypes import DTypeLike
from ..core.random import Stream, fold_in, seed_data, wrap_key
from ..errors import InvalidArgument
from . import continuous, discrete
from .keys import Key, Parameter, Size, typed_key

__all__ = ["Generator", "default_rng"]


class Generator:
    """Random numbers with the methods of ``numpy.random.Generator``; made by `default_rng`.

    The values depend on the seed and on the draws before, and on nothing else: not on the device, on how the result
    is sharded, on the version of JAX or on its configuration (floating-point results may differ in the last places
    where a device's logarithm does). They are not NumPy's values.

    Notes
    -----
    Inside of a function that rtx_jax transforms, a draw uses a key that the transform takes from this generator for
    each call. While plain JAX traces it raises RngUnderTrace, unless the generator was made in that function, as
    ``default_rng(key)``: pass ``key=`` to the functions of `rtx_jax.random` instead.
    """

    __slots__ = ("__weakref__", "_stream")

    def __init__(self, stream: Stream, /) -> None:
        self._stream = stream

    def __repr__(self) -> str:
        return f"Generator(threefry2x32, {self._stream.count} draws)"

    def __reduce__(self) -> tuple[object, ...]:
        stream = self._stream
        return _rebuild, (np.asarray(stream.data), stream.count, stream.children)

    def key(self) -> jax.Array:
        """Return the key of the next draw, for ``key=`` or for `jax.random`."""
        data, step = self._stream.next("random.key")
        return wrap_key(fold_in(data, step))

    def spawn(self, n_children: int) -> list[Generator]:
        """Return `n_children` new generators, independent of this one and of each other."""
        return [Generator(stream) for stream in self._stream.spawn(as_int(n_children, "random.spawn", "n_children"))]

    def random(self, size: Size = None, dtype: DTypeLike | None = None, *, device: DeviceLike | None = None) -> Array:
        """Return values of ``[0, 1)``."""
        return continuous.random(size, dtype=dtype, device=device, key=self)

    def uniform(
        self,
        low: Parameter = 0.0,
        high: Parameter = 1.0,
        size: Size = None,
        dtype: DTypeLike | None = None,
        *,
        device: DeviceLike | None = None,
    ) -> Array:
        """Return values of ``[low, high)``."""
        return continuous.uniform(low, high, size, dtype=dtype, device=device, key=self)

    def standard_normal(
        self, size: Size = None, dtype: DTypeLike | None = None, *, device: DeviceLike | None = None
    ) -> Array:
        """Return normal values of mean 0 and standard deviation 1."""
        return continuous.standard_normal(size, dtype=dtype, device=device, key=self)

    def normal(
        self,
        loc: Parameter = 0.0,
        scale: Parameter = 1.0,
        size: Size = None,
        dtype: DTypeLike | None = None,
        *,
        device: DeviceLike | None = None,
    ) -> Array:
        """Return normal values of mean `loc` and standard deviation `scale`."""
        return continuous.normal(loc, scale, size, dtype=dtype, device=device, key=self)

    def standard_exponential(
        self, size: Size = None, dtype: DTypeLike | None = None, *, device: DeviceLike | None = None
    ) -> Array:
        """Return exponential values of mean 1."""
        return continuous.standard_exponential(size, dtype=dtype, device=device, key=self)

    def exponential(
        self,
        scale: Parameter = 1.0,
        size: Size = None,
        dtype: DTypeLike | None = None,
        *,
        device: DeviceLike | None = None,
    ) -> Array:
        """Return exponential values of mean `scale`."""
        return continuous.exponential(scale, size, dtype=dtype, device=device, key=self)

    def standard_gamma(
        self, shape: Parameter, size: Size = None, dtype: DTypeLike | None = None, *, device: DeviceLike | None = None
    ) -> Array:
        """Return gamma values of shape parameter `shape` and scale 1."""
        return continuous.standard_gamma(shape, size, dtype=dtype, device=device, key=self)

    def gamma(
        self,
        shape: Parameter,
        scale: Parameter = 1.0,
        size: Size = None,
        dtype: DTypeLike | None = None,
        *,
        device: DeviceLike | None = None,
    ) -> Array:
        """Return gamma values of shape parameter `shape` and scale `scale`; their mean is the product."""
        return continuous.gamma(shape, scale, size, dtype=dtype, device=device, key=self)

    def beta(
        self,
        a: Parameter,
        b: Parameter,
        size: Size = None,
        dtype: DTypeLike | None = None,
        *,
        device: DeviceLike | None = None,
    ) -> Array:
        """Return beta values of `a` and `b`, both above 0."""
        return continuous.beta(a, b, size, dtype=dtype, device=device, key=self)

    def chisquare(
        self, df: Parameter, size: Size = None, dtype: DTypeLike | None = None, *, device: DeviceLike | None = None
    ) -> Array:
        """Return chi-square values of `df` degrees of freedom, above 0."""
        return continuous.chisquare(df, size, dtype=dtype, device=device, key=self)

    def f(
        self,
        dfnum: Parameter,
        dfden: Parameter,
        size: Size = None,
        dtype: DTypeLike | None = None,
        *,
        device: DeviceLike | None = None,
    ) -> Array:
        """Return F values of `dfnum` and `dfden` degrees of freedom, above 0."""
        return continuous.f(dfnum, dfden, size, dtype=dtype, device=device, key=self)

    def standard_t(
        self, df: Parameter, size: Size = None, dtype: DTypeLike | None = None, *, device: DeviceLike | None = None
    ) -> Array:
        """Return Student's t values of `df` degrees of freedom, above 0."""
        return continuous.standard_t(df, size, dtype=dtype, device=device, key=self)

    def standard_cauchy(
        self, size: Size = None, dtype: DTypeLike | None = None, *, device: DeviceLike | None = None
    ) -> Array:
        """Return Cauchy values of location 0 and scale 1."""
        return continuous.standard_cauchy(size, dtype=dtype, device=device, key=self)

    def laplace(
        self,
        loc: Parameter = 0.0,
        scale: Parameter = 1.0,
        size: Size = None,
        dtype: DTypeLike | None = None,
        *,
        device: DeviceLike | None = None,
    ) -> Array:
        """Return Laplace values around `loc`."""
        return continuous.laplace(loc, scale, size, dtype=dtype, device=device, key=self)

    def logistic(
        self,
        loc: Parameter = 0.0,
        scale: Parameter = 1.0,
        size: Size = None,
        dtype: DTypeLike | None = None,
        *,
        device: DeviceLike | None = None,
    ) -> Array:
        """Return logistic values around `loc`."""
        return continuous.logistic(loc, scale, size, dtype=dtype, device=device, key=self)

    def gumbel(
        self,
        loc: Parameter = 0.0,
        scale: Parameter = 1.0,
        size: Size = None,
        dtype: DTypeLike | None = None,
        *,
        device: DeviceLike | None = None,
    ) -> Array:
        """Return Gumbel values, the distribution of maxima, of mode `loc`."""
        return continuous.gumbel(loc, scale, size, dtype=dtype, device=device, key=self)

    def lognormal(
        self,
        mean: Parameter = 0.0,
        sigma: Parameter = 1.0,
        size: Size = None,
        dtype: DTypeLike | None = None,
        *,
        device: DeviceLike | None = None,
    ) -> Array:
        """Return the exponential function of normal values of `mean` and `sigma`."""
        return continuous.lognormal(mean, sigma, size, dtype=dtype, device=device, key=self)

    def pareto(
        self, a: Parameter, size: Size = None, dtype: DTypeLike | None = None, *, device: DeviceLike | None = None
    ) -> Array:
        """Return Pareto II (Lomax) values of `a`, from 0, as NumPy does; add 1 for the classical distribution."""
        return continuous.pareto(a, size, dtype=dtype, device=device, key=self)

    def power(
        self, a: Parameter, size: Size = None, dtype: DTypeLike | None = None, *, device: DeviceLike | None = None
    ) -> Array:
        """Return values of ``[0, 1]`` with density ``a * x**(a - 1)``."""
        return continuous.power(a, size, dtype=dtype, device=device, key=self)

    def rayleigh(
        self,
        scale: Parameter = 1.0,
        size: Size = None,
        dtype: DTypeLike | None = None,
        *,
        device: DeviceLike | None = None,
    ) -> Array:
        """Return Rayleigh values of mode `scale`."""
        return continuous.rayleigh(scale, size, dtype=dtype, device=device, key=self)

    def weibull(
        self, a: Parameter, size: Size = None, dtype: DTypeLike | None = None, *, device: DeviceLike | None = None
    ) -> Array:
        """Return Weibull values of shape parameter `a` and scale 1."""
        return continuous.weibull(a, size, dtype=dtype, device=device, key=self)

    def wald(
        self,
        mean: Parameter,
        scale: Parameter,
        size: Size = None,
        dtype: DTypeLike | None = None,
        *,
        device: DeviceLike | None = None,
    ) -> Array:
        """Return inverse Gaussian values of `mean` and `scale`, both above 0."""
        return continuous.wald(mean, scale, size, dtype=dtype, device=device, key=self)

    def triangular(
        self,
        left: Parameter,
        mode: Parameter,
        right: Parameter,
        size: Size = None,
        dtype: DTypeLike | None = None,
        *,
        device: DeviceLike | None = None,
    ) -> Array:
        """Return triangular values on ``[left, right]`` with the given mode."""
        return continuous.triangular(left, mode, right, size, dtype=dtype, device=device, key=self)

    def dirichlet(
        self, alpha: Parameter, size: Size = None, dtype: DTypeLike | None = None, *, device: DeviceLike | None = None
    ) -> Array:
        """Return points of the simplex, ``size + (K,)``, for `alpha` of shape ``(K,)``."""
        return continuous.dirichlet(alpha, size, dtype=dtype, device=device, key=self)

    def multivariate_normal(
        self,
        mean: Parameter,
        cov: Parameter,
        size: Size = None,
        dtype: DTypeLike | None = None,
        *,
        method: str = "cholesky",
        device: DeviceLike | None = None,
    ) -> Array:
        """Return normal vectors, ``size + (N,)``; see `rtx_jax.random.multivariate_normal`."""
        return continuous.multivariate_normal(mean, cov, size, method=method, dtype=dtype, device=device, key=self)

    def poisson(
        self,
        lam: Parameter = 1.0,
        size: Size = None,
        dtype: DTypeLike | None = None,
        *,
        device: DeviceLike | None = None,
    ) -> Array:
        """Return Poisson counts of mean `lam`."""
        return discrete.poisson(lam, size, dtype=dtype, device=device, key=self)

    def binomial(
        self,
        n: Parameter,
        p: Parameter,
        size: Size = None,
        dtype: DTypeLike | None = None,
        *,
        device: DeviceLike | None = None,
    ) -> Array:
        """Return counts of successes in `n` trials of probability `p`."""
        return discrete.binomial(n, p, size, dtype=dtype, device=device, key=self)

    def geometric(
        self, p: Parameter, size: Size = None, dtype: DTypeLike | None = None, *, device: DeviceLike | None = None
    ) -> Array:
        """Return the number of trials of probability `p` up to the first success, from 1."""
        return discrete.geometric(p, size, dtype=dtype, device=device, key=self)

    def negative_binomial(
        self,
        n: Parameter,
        p: Parameter,
        size: Size = None,
        dtype: DTypeLike | None = None,
        *,
        device: DeviceLike | None = None,
    ) -> Array:
        """Return failures before `n` successes of probability `p`."""
        return discrete.negative_binomial(n, p, size, dtype=dtype, device=device, key=self)

    def multinomial(
        self,
        n: Parameter,
        pvals: Parameter,
        size: Size = None,
        dtype: DTypeLike | None = None,
        *,
        device: DeviceLike | None = None,
    ) -> Array:
        """Return counts per outcome, ``size + (K,)``, of `n` draws with probabilities `pvals` of shape ``(K,)``."""
        return discrete.multinomial(n, pvals, size, dtype=dtype, device=device, key=self)

    def integers(
        self,
        low: int | Array | jax.Array | np.ndarray,
        high: int | Array | jax.Array | np.ndarray | None = None,
        size: Size = None,
        dtype: DTypeLike | None = None,
        endpoint: bool = False,
        *,
        device: DeviceLike | None = None,
    ) -> Array:
        """Return integers of ``[low, high)``, or of ``[0, low)`` without `high`; `endpoint` includes the bound."""
        return discrete.integers(low, high, size, dtype=dtype, endpoint=endpoint, device=device, key=self)

    def choice(
        self,
        a: int | Array | jax.Array | np.ndarray,
        size: Size = None,
        replace: bool = True,
        p: Array | jax.Array | np.ndarray | list[float] | None = None,
        axis: int = 0,
        shuffle: bool = True,
        *,
        device: DeviceLike | None = None,
    ) -> Array:
        """Return a random sample of the integers below `a` or of slices of `a`; see `rtx_jax.random.choice`."""
        return discrete.choice(a, size, replace, p, axis, shuffle, device=device, key=self)

    def permutation(
        self, x: int | Array | jax.Array | np.ndarray, axis: int = 0, *, device: DeviceLike | None = None
    ) -> Array:
        """Return the integers below `x` in random order, or an array with its slices along `axis` in random order."""
        return discrete.permutation(x, axis, device=device, key=self)

    def permuted(
        self, x: Array | jax.Array | np.ndarray, *, axis: int | None = None, device: DeviceLike | None = None
    ) -> Array:
        """Return `x` with each slice along `axis` in an order of its own; None: all elements together."""
        return discrete.permuted(x, axis=axis, device=device, key=self)

    def shuffle(self, x: Array | np.ndarray, axis: int = 0) -> None:
        """Put the slices of `x` along `axis` in random order, in place."""
        discrete.shuffle(x, axis, key=self)

    def bytes(self, length: int) -> builtins.bytes:
        """Return random bytes."""
        return discrete.bytes(length, key=self)


def _rebuild(data: np.ndarray, count: int, children: int) -> Generator:
    return Generator(Stream(data, count, children))


def default_rng(seed: int | Key | Generator | None = None, /) -> Generator:
    """Return a generator.

    Parameters
    ----------
    seed
        0 to 2**64 - 1 (all 64 bits count), a key, a Generator (returned as it is), or None for a seed from the
        operating system.

    Raises
    ------
    InvalidArgument
        The seed is none of these.

    Examples
    --------
    >>> import rtx_jax as xp
    >>> rng = xp.random.default_rng(2**40 + 1)
    >>> rng.integers(0, 10, size=3).shape
    (3,)
    """
    if isinstance(seed, Generator):
        return seed
    if seed is None or isinstance(seed, int | np.integer):
        return Generator(Stream(seed_data(None if seed is None else seed, "default_rng")))
    typed = typed_key(seed, "default_rng")
    data = jax.random.key_data(typed)
    if data.shape != (2,):
        raise InvalidArgument(
            "default_rng",
            "seed",
            got=f"a key of implementation {jax.random.key_impl(typed)}",
            wanted="a threefry2x32 key",
            remedy="Use the functions of rtx_jax.random with key=.",
            arg="seed",
            reason="implementation",
        )
    return Generator(Stream(data))
