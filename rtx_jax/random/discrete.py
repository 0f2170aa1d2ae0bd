"""Draws of integers, orders and choices, with NumPy's names and parameters.

``size``, ``device`` and ``key`` are those of the real draws; ``dtype`` is an integer dtype (None: the device's
default).
"""

from __future__ import annotations

import builtins
import math

import jax
import ml_dtypes
import numpy as np

from .._array import Array, call2
from ..core.axes import as_int, normalize_axis
from ..core.devices import DeviceLike, resolve
from ..core.dispatch import Op
from ..core.dtypes import REAL_FLOATING, DTypeLike, default_float
from ..core.handle import data_of
from ..errors import InvalidArgument, ShapeMismatch, UnsupportedDType
from ..raw import random as _raw
from .keys import HasStream, Key, Parameter, Size, Source, draw, integer_dtype, parameter, shape_of

__all__ = [
    "binomial",
    "bytes",
    "choice",
    "geometric",
    "integers",
    "multinomial",
    "negative_binomial",
    "permutation",
    "permuted",
    "poisson",
    "shuffle",
]

_STATIC = ("impl", "sharding")
_COUNT = (*_STATIC, "shape", "dtype", "real")

_integers = Op("random.integers", _raw.keyed(_raw.integers), (*_STATIC, "shape", "dtype"))
_poisson = Op("random.poisson", _raw.keyed(_raw.poisson), _COUNT)
_binomial = Op("random.binomial", _raw.keyed(_raw.binomial), _COUNT)
_geometric = Op("random.geometric", _raw.keyed(_raw.geometric), _COUNT)
_negative_binomial = Op("random.negative_binomial", _raw.keyed(_raw.negative_binomial), _COUNT)
_multinomial = Op("random.multinomial", _raw.keyed(_raw.multinomial), _COUNT)
_permutation = Op("random.permutation", _raw.keyed(_raw.permutation), (*_STATIC, "axis"))
_arrangement = Op("random.permutation", _raw.keyed(_raw.arrangement), (*_STATIC, "n", "dtype"))
_permuted = Op("random.permuted", _raw.keyed(_raw.permuted), (*_STATIC, "axis"))
_choice = Op("random.choice", _raw.keyed(_raw.choice), (*_STATIC, "n", "shape", "replace", "dtype"))
_take = Op("random.choice", _raw.take, ("axis",))


def _draw(
    op: Op,
    parameters: tuple[tuple[str, Parameter, float | None], ...],
    size: Size,
    dtype: DTypeLike | None,
    device: DeviceLike | None,
    key: Key | HasStream | None,
) -> Array:
    placement = resolve(device, op.name)
    count, real = integer_dtype(dtype, placement, op.name), default_float(placement)
    shape = shape_of(size, op.name)
    operands = tuple(parameter(value, real, op.name, name, low) for name, value, low in parameters)
    return draw(op, Source(key, op.name), operands, (shape, count, real), placement)


def _check_probability(name: str, argument: str, value: Parameter) -> None:
    if isinstance(value, Array | jax.Array):
        return
    p = np.asarray(value, np.float64)
    bad = not np.all((p >= 0) & (p <= 1)) or (argument == "pvals" and np.any(p.sum(-1) > 1 + 1e-6))
    if bad:
        raise InvalidArgument(
            f"random.{name}", argument, got=repr(value), wanted="probabilities", arg=argument, reason="not in 0..1"
        )


def integers(
    low: int | Array | jax.Array | np.ndarray,
    high: int | Array | jax.Array | np.ndarray | None = None,
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    endpoint: bool = False,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return integers of ``[low, high)``, or of ``[0, low)`` without `high`; with `endpoint` the bound is included.

    Raises
    ------
    InvalidArgument
        The interval is empty or does not fit the dtype (checked for values on the host).
    """
    placement = resolve(device, "random.integers")
    kind = integer_dtype(dtype, placement, "random.integers")
    shape = shape_of(size, "random.integers")
    if high is None:
        low, high = 0, low
    bounds = _bound(low, kind, "low", 0), _bound(high, kind, "high", 0 if endpoint else 1)
    if all(isinstance(bound, np.ndarray) for bound in bounds) and np.any(bounds[0] > bounds[1]):
        raise InvalidArgument(
            "random.integers", "high", got=repr(high), wanted=f"above low = {low!r}", arg="high", reason="empty"
        )
    return draw(_integers, Source(key, "random.integers"), bounds, (shape, kind), placement)


def _bound(
    value: int | Array | jax.Array | np.ndarray, dtype: np.dtype, name: str, exclusive: int
) -> Array | np.ndarray | jax.Array:
    """Return a bound as an operand that is included in the interval."""
    info = np.iinfo(dtype)
    if isinstance(value, Array | jax.Array):
        if value.dtype.kind not in "iu":
            raise UnsupportedDType(
                "random.integers", name, got=value.dtype, wanted="integers", dtype=value.dtype, op="random.integers"
            )
        # A bound of 2**63 cannot be in an array, so the step to the included bound stays in the dtype.
        return value - exclusive if exclusive else value
    host = np.asarray(value, dtype=object) if isinstance(value, int) else np.asarray(value)
    if host.dtype.kind == "f" and np.all(host == np.trunc(host)):
        host = host.astype(np.int64)
    if host.dtype.kind not in "iuO":
        raise UnsupportedDType(
            "random.integers", name, got=host.dtype, wanted="integers", dtype=host.dtype, op="random.integers"
        )
    exact = np.asarray(host.astype(object) - exclusive, dtype=object)
    if exact.size and not (info.min <= exact.min() and exact.max() <= info.max):
        raise InvalidArgument(
            "random.integers",
            name,
            got=repr(value),
            wanted=f"a bound that fits {dtype}",
            arg=name,
            reason="out of the range of the dtype",
        )
    return np.asarray(exact, dtype=dtype)


def poisson(
    lam: Parameter = 1.0,
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return Poisson counts of mean `lam`."""
    return _draw(_poisson, (("lam", lam, 0),), size, dtype, device, key)


def binomial(
    n: Parameter,
    p: Parameter,
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return counts of successes in `n` trials of probability `p`."""
    _check_probability("binomial", "p", p)
    return _draw(_binomial, (("n", n, 0), ("p", p, 0)), size, dtype, device, key)


def geometric(
    p: Parameter,
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return the number of trials of probability `p` up to the first success, from 1."""
    _check_probability("geometric", "p", p)
    return _draw(_geometric, (("p", p, 0),), size, dtype, device, key)


def negative_binomial(
    n: Parameter,
    p: Parameter,
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return failures before `n` successes of probability `p`."""
    _check_probability("negative_binomial", "p", p)
    return _draw(_negative_binomial, (("n", n, 0), ("p", p, 0)), size, dtype, device, key)


def multinomial(
    n: Parameter,
    pvals: Parameter,
    size: Size = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return counts per outcome, ``size + (K,)``, of `n` draws with probabilities `pvals` of shape ``(K,)``."""
    _check_probability("multinomial", "pvals", pvals)
    return _draw(_multinomial, (("n", n, 0), ("pvals", pvals, 0)), size, dtype, device, key)


def permutation(
    x: int | Array | jax.Array | np.ndarray,
    axis: int = 0,
    *,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return the integers below `x` in random order, or an array with its slices along `axis` in random order."""
    if isinstance(x, int | np.integer):
        n = as_int(x, "random.permutation", "x")
        if n < 0:
            raise InvalidArgument("random.permutation", "x", got=n, wanted="0 or more", arg="x", reason="negative")
        placement = resolve(device, "random.permutation")
        static = (n, integer_dtype(None, placement, "random.permutation"))
        return draw(_arrangement, Source(key, "random.permutation"), (), static, placement)
    array = _array(x, "random.permutation")
    axis = normalize_axis(as_int(axis, "random.permutation", "axis"), array.ndim, "random.permutation")
    return _reorder(_permutation, array, axis, device, key)


def permuted(
    x: Array | jax.Array | np.ndarray,
    *,
    axis: int | None = None,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return `x` with each one-dimensional slice along `axis` in an order of its own; None: all elements together."""
    array = _array(x, "random.permuted")
    if axis is not None:
        axis = normalize_axis(as_int(axis, "random.permuted", "axis"), array.ndim, "random.permuted")
    return _reorder(_permuted, array, axis, device, key)


def shuffle(x: Array | np.ndarray, axis: int = 0, *, key: Key | HasStream | None = None) -> None:
    """Put the slices of `x` along `axis` in random order, in place."""
    if not isinstance(x, Array | np.ndarray):
        raise UnsupportedDType(
            "random.shuffle",
            "x",
            got=type(x).__name__,
            wanted="an Array or a NumPy array, which can be written in place",
            remedy="Use permutation.",
            dtype=type(x).__name__,
            op="random.shuffle",
        )
    shuffled = permutation(x, axis, key=key)
    x[...] = shuffled if isinstance(x, Array) else np.asarray(shuffled)


def _array(x: Array | jax.Array | np.ndarray, name: str) -> Array | jax.Array | np.ndarray:
    if isinstance(x, Array | jax.Array | np.ndarray):
        return x
    return np.asarray(x)


def _reorder(
    op: Op,
    x: Array | jax.Array | np.ndarray,
    axis: int | None,
    device: DeviceLike | None,
    key: Key | HasStream | None,
) -> Array:
    placement = resolve(device, op.name)
    if placement is not None and isinstance(x, Array):
        x = x.to_device(placement)
    return draw(op, Source(key, op.name), (x,), (axis,), placement)


def choice(
    a: int | Array | jax.Array | np.ndarray,
    size: Size = None,
    replace: bool = True,
    p: Array | jax.Array | np.ndarray | list[float] | None = None,
    axis: int = 0,
    shuffle: bool = True,
    *,
    device: DeviceLike | None = None,
    key: Key | HasStream | None = None,
) -> Array:
    """Return a random sample of the integers below `a`, or of the slices of `a` along `axis`.

    Parameters
    ----------
    a
        The number of outcomes, or the outcomes.
    size
        Shape of the sample; None is one outcome, ``()``.
    replace
        Whether an outcome can come more than once.
    p
        Probabilities, ``(n,)``, of sum 1; None: all equal.
    axis
        The axis of `a` that holds the outcomes.
    shuffle
        Accepted for NumPy's sake: a sample without repeats is always in random order here.

    Raises
    ------
    InvalidArgument
        There are no outcomes, `p` does not fit, or more are wanted than there are without repeats.
    """
    name = "random.choice"
    placement = resolve(device, name)
    index_dtype = integer_dtype(None, placement, name)
    shape = shape_of(size, name) or ()
    count = isinstance(a, int | np.integer)
    source = a if count else _array(a, name)  # type: ignore[arg-type]
    if count:
        n = as_int(a, name, "a")
    else:
        axis = normalize_axis(as_int(axis, name, "axis"), source.ndim, name)  # type: ignore[union-attr]
        n = source.shape[axis]  # type: ignore[union-attr]
    draws = math.prod(shape)
    if n <= 0 and draws:
        raise InvalidArgument(name, "a", got=f"{n} outcomes", wanted="1 or more", arg="a", reason="nothing to draw")
    if not replace and draws > n:
        raise InvalidArgument(
            name,
            "size",
            got=f"{draws} draws",
            wanted=f"at most {n} without repeats",
            arg="size",
            reason="more draws than outcomes",
        )
    weights = () if p is None else (_weights(p, n, 0 if replace else draws),)
    index = draw(_choice, Source(key, name), weights, (max(n, 1), shape, bool(replace), index_dtype), placement)
    if count:
        return index
    chosen: Array = call2(_take, source, index, axis)
    return chosen


def _weights(p: Array | jax.Array | np.ndarray | list[float], n: int, distinct: int) -> Array | jax.Array | np.ndarray:
    values = p if isinstance(p, Array | jax.Array) else np.array(p)
    if values.shape != (n,):
        raise ShapeMismatch(
            "random.choice", "p", got=f"shape {values.shape}", wanted=f"({n},)", expected=(n,), got_shape=values.shape
        )
    data = data_of(values) if isinstance(values, Array) else values
    if isinstance(data, jax.core.Tracer):
        return values
    host = np.asarray(data).astype(np.float64)
    tolerance = max(1e-8, 4 * n * float(ml_dtypes.finfo(values.dtype).eps)) if values.dtype in REAL_FLOATING else 0.0
    if not np.all(host >= 0) or abs(host.sum() - 1) > tolerance or np.count_nonzero(host) < distinct:
        raise InvalidArgument(
            "random.choice",
            "p",
            got=f"probabilities of sum {host.sum():g}, {np.count_nonzero(host)} of them above 0",
            wanted="probabilities of sum 1" + (f", {distinct} of them above 0" if distinct else ""),
            arg="p",
            reason="not probabilities",
        )
    return values


def bytes(length: int, *, key: Key | HasStream | None = None) -> builtins.bytes:
    """Return random bytes."""
    n = as_int(length, "random.bytes", "length")
    words = integers(0, 2**32, (-(-n // 4),), dtype="uint32", key=key)
    return np.asarray(words).tobytes()[:n]
