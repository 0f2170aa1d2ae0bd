"""Draws of real numbers, with NumPy's names and parameters.

Every function takes ``size`` (None: the broadcast shape of the parameters, which is ``()`` for scalars), ``dtype``
(float64, float32, float16 or bfloat16; None: the device's default), ``device`` (where the result is made) and ``key``
(a key, which is used up; a `Generator`; or None for the global generator). A parameter outside of its domain raises
InvalidArgument when it is a host value, and gives NaN when it is on a device.
"""

from __future__ import annotations

from .._array import Array
from ..core.devices import DeviceLike, resolve
from ..core.dispatch import Op
from ..core.dtypes import DTypeLike
from ..errors import InvalidArgument, InvalidDimension
from ..raw import random as _raw
from .keys import HasStream, Key, Parameter, Size, Source, draw, parameter, real_dtype, shape_of

__all__ = [
    "beta",
    "chisquare",
    "dirichlet",
    "exponential",
    "f",
    "gamma",
    "gumbel",
    "laplace",
    "logistic",
    "lognormal",
    "multivariate_normal",
    "normal",
    "pareto",
    "power",
    "random",
    "rayleigh",
    "standard_cauchy",
    "standard_exponential",
    "standard_gamma",
    "standard_normal",
    "standard_t",
    "triangular",
    "uniform",
    "wald",
    "weibull",
]

_STATIC = ("impl", "sharding", "shape", "dtype")


def _op(name: str, sampler: object, *more: str) -> Op:
    return Op(f"random.{name}", _raw.keyed(sampler), _STATIC + more)  # type: ignore[arg-type]


def _draw(
    op: Op,
    parameters: tuple[tuple[str, Parameter, float | None], ...],
    size: Size,
    dtype: DTypeLike | None,
    device: DeviceLike | None,
    key: Key | HasStream | None,
    *static: object,
) -> Array:
    placement = resolve(device, op.name)
    real = real_dtype(dtype, placement, op.name)
    shape = shape_of(size, op.name)
    operands = tuple(parameter(value, real, op.name, name, low) for name, value, low in parameters)
    return draw(op, Source(key, op.name), operands, (shape, real, *static), placement)


_random = _op("random", _raw.random)
_uniform = _op("uniform", _raw.uniform)
_standard_normal = _op("standard_normal", _raw.standard_normal)
_normal = _op("normal", _raw.normal)
_exponential = _op("exponential", _raw.exponential)
_gamma = _op("gamma", _raw.gamma)
_beta = _op("beta", _raw.beta)
_chisquare = _op("chisquare", _raw.chisquare)
_f = _op("f", _raw.f)
_standard_t = _op("standard_t", _raw.standard_t)
_standard_cauchy = _op("standard_cauchy", _raw.standard_cauchy)
_laplace = _op("laplace", _raw.laplace)
_logistic = _op("logistic", _raw.logistic)
_gumbel = _op("gumbel", _raw.gumbel)
_lognormal = _op("lognormal", _raw.lognormal)
_pareto = _op("pareto", _raw.pareto)
_power = _op("power", _raw.power)
_rayleigh = _op("rayleigh", _raw.rayleigh)
_weibull = _op("weibull", _raw.weibull)
_wald = _op("wald", _raw.wald)
_triangular = _op("triangular", _raw.triangular)
_dirichlet = _op("dirichlet", _raw.dirichlet)
_multivariate_normal = _op("multivariate_normal", _raw.multivariate_normal, "method")


def random(
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return values of ``[0, 1)``."""
    return _draw(_random, (), size, dtype, device, key)


def uniform(
    low: Parameter = 0.0,
    high: Parameter = 1.0,
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return values of ``[low, high)``."""
    return _draw(_uniform, (("low", low, None), ("high", high, None)), size, dtype, device, key)


def standard_normal(
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return normal values of mean 0 and standard deviation 1."""
    return _draw(_standard_normal, (), size, dtype, device, key)


def normal(
    loc: Parameter = 0.0,
    scale: Parameter = 1.0,
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return normal values of mean `loc` and standard deviation `scale`."""
    return _draw(_normal, (("loc", loc, None), ("scale", scale, 0)), size, dtype, device, key)


def standard_exponential(
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return exponential values of mean 1."""
    return _draw(_exponential, (("scale", 1.0, 0),), size, dtype, device, key)


def exponential(
    scale: Parameter = 1.0,
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return exponential values of mean `scale`."""
    return _draw(_exponential, (("scale", scale, 0),), size, dtype, device, key)


def standard_gamma(
    shape: Parameter,
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return gamma values of shape parameter `shape` and scale 1."""
    return _draw(_gamma, (("shape", shape, 0), ("scale", 1.0, 0)), size, dtype, device, key)


def gamma(
    shape: Parameter,
    scale: Parameter = 1.0,
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return gamma values of shape parameter `shape` and scale `scale`; their mean is the product."""
    return _draw(_gamma, (("shape", shape, 0), ("scale", scale, 0)), size, dtype, device, key)


def beta(
    a: Parameter,
    b: Parameter,
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return beta values of `a` and `b`, both above 0."""
    return _draw(_beta, (("a", a, 0), ("b", b, 0)), size, dtype, device, key)


def chisquare(
    df: Parameter,
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return chi-square values of `df` degrees of freedom, above 0."""
    return _draw(_chisquare, (("df", df, 0),), size, dtype, device, key)


def f(
    dfnum: Parameter,
    dfden: Parameter,
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return F values of `dfnum` and `dfden` degrees of freedom, above 0."""
    return _draw(_f, (("dfnum", dfnum, 0), ("dfden", dfden, 0)), size, dtype, device, key)


def standard_t(
    df: Parameter,
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return Student's t values of `df` degrees of freedom, above 0."""
    return _draw(_standard_t, (("df", df, 0),), size, dtype, device, key)


def standard_cauchy(
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return Cauchy values of location 0 and scale 1."""
    return _draw(_standard_cauchy, (), size, dtype, device, key)


def laplace(
    loc: Parameter = 0.0,
    scale: Parameter = 1.0,
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return Laplace values around `loc`."""
    return _draw(_laplace, (("loc", loc, None), ("scale", scale, 0)), size, dtype, device, key)


def logistic(
    loc: Parameter = 0.0,
    scale: Parameter = 1.0,
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return logistic values around `loc`."""
    return _draw(_logistic, (("loc", loc, None), ("scale", scale, 0)), size, dtype, device, key)


def gumbel(
    loc: Parameter = 0.0,
    scale: Parameter = 1.0,
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return Gumbel values, the distribution of maxima, of mode `loc`."""
    return _draw(_gumbel, (("loc", loc, None), ("scale", scale, 0)), size, dtype, device, key)


def lognormal(
    mean: Parameter = 0.0,
    sigma: Parameter = 1.0,
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return the exponential function of normal values of `mean` and `sigma`."""
    return _draw(_lognormal, (("mean", mean, None), ("sigma", sigma, 0)), size, dtype, device, key)


def pareto(
    a: Parameter,
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return Pareto II (Lomax) values of `a`, from 0, as NumPy does; add 1 for the classical distribution."""
    return _draw(_pareto, (("a", a, 0),), size, dtype, device, key)


def power(
    a: Parameter,
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return values of ``[0, 1]`` with density ``a * x**(a - 1)``."""
    return _draw(_power, (("a", a, 0),), size, dtype, device, key)


def rayleigh(
    scale: Parameter = 1.0,
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return Rayleigh values of mode `scale`."""
    return _draw(_rayleigh, (("scale", scale, 0),), size, dtype, device, key)


def weibull(
    a: Parameter,
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return Weibull values of shape parameter `a` and scale 1."""
    return _draw(_weibull, (("a", a, 0),), size, dtype, device, key)


def wald(
    mean: Parameter,
    scale: Parameter,
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return inverse Gaussian values of `mean` and `scale`, both above 0."""
    return _draw(_wald, (("mean", mean, 0), ("scale", scale, 0)), size, dtype, device, key)


def triangular(
    left: Parameter,
    mode: Parameter,
    right: Parameter,
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return triangular values on ``[left, right]`` with the given mode."""
    return _draw(
        _triangular, (("left", left, None), ("mode", mode, None), ("right", right, None)), size, dtype, device, key
    )


def dirichlet(
    alpha: Parameter,
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return points of the simplex, ``size + (K,)``, for `alpha` of shape ``(K,)``, above 0."""
    if getattr(alpha, "ndim", 1) < 1:
        raise InvalidDimension("random.dirichlet", "alpha", got="0 axes", wanted="1", dim=0, ndim=1)
    return _draw(_dirichlet, (("alpha", alpha, 0),), size, dtype, device, key)


def multivariate_normal(
    mean: Parameter,
    cov: Parameter,
    size: Size = None,
    *,
    method: str = "cholesky",
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return normal vectors, ``size + (N,)``.

    Parameters
    ----------
    mean, cov
        Shapes ``(N,)`` and ``(N, N)``; `cov` symmetric and positive semidefinite, which is not checked.
    method
        How `cov` is factored: ``"cholesky"`` (positive definite only; NaN otherwise), ``"eigh"`` or ``"svd"``.
    """
    if method not in ("cholesky", "eigh", "svd"):
        raise InvalidArgument(
            "random.multivariate_normal",
            "method",
            got=repr(method),
            wanted="cholesky, eigh or svd",
            arg="method",
            reason="unknown",
        )
    parameters: tuple[tuple[str, Parameter, float | None], ...] = (("mean", mean, None), ("cov", cov, None))
    return _draw(_multivariate_normal, parameters, size, dtype, device, key, method)
