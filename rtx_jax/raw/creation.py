"""Creation functions of the standard on raw arrays; values are operands, shapes and dtypes are static."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..core import dtypes as _d
from ..core.dtypes import DType
from ..errors import BroadcastError, InvalidDimension
from .data_type import astype

__all__ = ["arange", "cast", "constant", "constant_like", "eye", "full", "linspace", "meshgrid", "tril", "triu"]


def constant(*, value: int, shape: tuple[int, ...], dtype: DType) -> jax.Array:
    """Zeros or ones."""
    return lax.full(shape, value, dtype)


def constant_like(x: jax.Array, *, value: int, dtype: DType) -> jax.Array:
    """Zeros or ones with the shape of `x`."""
    return lax.full(x.shape, value, dtype)


def full(value: jax.Array, *, shape: tuple[int, ...]) -> jax.Array:
    """Repeat a value, which may be an array that broadcasts to the shape."""
    if len(value.shape) > len(shape) or any(
        have not in (1, want) for have, want in zip(value.shape[::-1], shape[::-1], strict=False)
    ):
        raise BroadcastError(
            "full",
            "fill_value",
            got=f"shape {value.shape}",
            wanted=f"a shape that broadcasts to {shape}",
            lhs=value.shape,
            rhs=shape,
        )
    return jnp.broadcast_to(value, shape)


def eye(*, n_rows: int, n_cols: int, k: int, dtype: DType) -> jax.Array:
    """Ones on the k-th diagonal, zeros elsewhere."""
    row = lax.broadcasted_iota(np.dtype(np.int32), (n_rows, n_cols), 0)
    column = lax.broadcasted_iota(np.dtype(np.int32), (n_rows, n_cols), 1)
    return lax.convert_element_type(lax.eq(row + np.int32(k), column), dtype)


def arange(start: jax.Array, step: jax.Array, *, size: int, dtype: DType) -> jax.Array:
    """``start + step * i`` for i below `size`.

    The operands have the type to compute in: an integer dtype wraps around, where only intermediate values can leave
    its range; a floating dtype of 32 or 64 bits.
    """
    out = start + step * lax.iota(start.dtype, size)
    return out if out.dtype == dtype else lax.convert_element_type(out, dtype)


def _line(start: jax.Array, stop: jax.Array, num: int, divisions: int) -> jax.Array:
    if divisions == 0:
        return jnp.broadcast_to(start, (num,))
    n = np.array(divisions, start.dtype)
    distance = stop - start
    # The distance can overflow where the steps do not.
    step = jnp.where(jnp.isfinite(distance), distance / n, stop / n - start / n)
    i = lax.iota(start.dtype, num)
    # From the nearer end, so that both ends are exact and so are equal ends; jnp.linspace is not symmetric and
    # rounds twice in each element.
    out = jnp.where(i < n / 2, start + i * step, stop - (n - i) * step)
    out = jnp.where(i == n / 2, start / 2 + stop / 2, out)
    # An infinite end leaves NaN between, but is itself what the caller asked for.
    return jnp.where(i == 0, start, jnp.where(i == n, stop, out))


def linspace(start: jax.Array, stop: jax.Array, *, num: int, endpoint: bool, compute: DType, dtype: DType) -> jax.Array:
    """Evenly spaced numbers between two 0-d arrays, found in the dtype `compute`."""
    for name, end in (("start", start), ("stop", stop)):
        if end.ndim:
            raise InvalidDimension("linspace", name, got=f"shape {end.shape}", wanted="a number", dim=end.ndim, ndim=0)
    start, stop = lax.convert_element_type(start, compute), lax.convert_element_type(stop, compute)
    divisions = num - 1 if endpoint else num
    if num == 0:
        return lax.full((0,), 0, dtype)
    if compute in _d.COMPLEX:
        # In parts: a complex product would make NaN out of infinite parts.
        out = lax.complex(_line(start.real, stop.real, num, divisions), _line(start.imag, stop.imag, num, divisions))
    else:
        out = _line(start, stop, num, divisions)
    if dtype in _d.INTEGRAL:
        out = jnp.floor(out)
    return out if out.dtype == dtype else lax.convert_element_type(out, dtype)


def meshgrid(*arrays: jax.Array, indexing: str) -> tuple[jax.Array, ...]:
    """Coordinate matrices from coordinate vectors."""
    for a in arrays:
        if a.ndim > 1:
            raise InvalidDimension(
                "meshgrid", "arrays", got=f"shape {a.shape}", wanted="arrays of one axis", dim=a.ndim, ndim=1
            )
    places = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        places[0], places[1] = 1, 0
    shape = [1] * len(arrays)
    for a, place in zip(arrays, places, strict=True):
        shape[place] = a.size
    return tuple(lax.broadcast_in_dim(a.reshape(-1), shape, (place,)) for a, place in zip(arrays, places, strict=True))


def _below(x: jax.Array, k: int, operation: str) -> jax.Array:
    if x.ndim < 2:
        raise InvalidDimension(
            operation, "x", got=f"shape {x.shape}", wanted="an array of two or more axes", dim=x.ndim, ndim=2
        )
    rows, columns = x.shape[-2:]
    k = max(-rows, min(k, columns))
    row = lax.broadcasted_iota(np.dtype(np.int32), (rows, columns), 0)
    column = lax.broadcasted_iota(np.dtype(np.int32), (rows, columns), 1)
    return jnp.broadcast_to(lax.ge(row + np.int32(k), column), x.shape)


def tril(x: jax.Array, *, k: int) -> jax.Array:
    """Zero the elements above the k-th diagonal."""
    return lax.select(_below(x, k, "tril"), x, lax.full_like(x, 0))


def triu(x: jax.Array, *, k: int) -> jax.Array:
    """Zero the elements below the k-th diagonal."""
    return lax.select(_below(x, k - 1, "triu"), lax.full_like(x, 0), x)


def cast(x: jax.Array, *, dtype: DType) -> jax.Array:
    """Return `x` as `dtype` without a weak type; floats saturate on their way to integers, and NaN becomes 0."""
    return astype(x, dtype=dtype)
