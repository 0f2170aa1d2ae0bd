"""Checks and casts that the chapters of raw functions share: ranks, accumulators, x64."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import jax
import numpy as np
from jax import lax

from .._compat import x64
from ..core.dtypes import COMPLEX, FLOAT8, WIDE, bfloat16, float16, float32
from ..errors import InvalidDimension, UnsupportedDType

__all__ = ["accumulator", "cast", "enter", "no_complex", "of_rank", "rank_at_least", "square"]

_HALF = frozenset((float16, bfloat16)) | FLOAT8


def accumulator(dtype: np.dtype) -> np.dtype:
    """Return the dtype in which sums of `dtype` are formed: float32 for floats below 32 bits, else the same."""
    return float32 if dtype in _HALF else dtype


def cast(x: jax.Array, dtype: np.dtype) -> jax.Array:
    """Return `x` as `dtype`; floats saturate on their way to integers, and NaN becomes 0."""
    return x if x.dtype == dtype else lax.convert_element_type(x, dtype)


def of_rank(x: jax.Array, rank: int) -> jax.Array:
    """Return `x` with axes of 1 in front, `rank` in all: `jax_numpy_rank_promotion` may forbid to broadcast others."""
    found: jax.Array = lax.expand_dims(x, range(rank - x.ndim))
    return found


@contextlib.contextmanager
def enter(dtype: np.dtype) -> Iterator[None]:
    """Trace the body under x64 where `dtype` needs it, as int32 beside uint32 gives int64."""
    if dtype in WIDE:
        with x64():
            yield
    else:
        yield


def no_complex(operation: str, x: jax.Array, wanted: str = "a real dtype", argument: str = "x") -> None:
    """Refuse complex numbers, which have no order."""
    if x.dtype in COMPLEX:
        raise UnsupportedDType(operation, argument, got=x.dtype.name, wanted=wanted, dtype=x.dtype, op=operation)


def rank_at_least(operation: str, x: jax.Array, ndim: int, argument: str = "x") -> None:
    """Refuse an array of fewer than `ndim` axes."""
    if x.ndim < ndim:
        raise InvalidDimension(
            operation,
            argument,
            got=f"shape {x.shape}",
            wanted=f"at least {ndim} " + ("axis" if ndim == 1 else "axes"),
            dim=x.ndim,
            ndim=ndim,
        )


def square(operation: str, x: jax.Array, argument: str = "x") -> None:
    """Refuse what is not a stack of square matrices."""
    rank_at_least(operation, x, 2, argument)
    if x.shape[-1] != x.shape[-2]:
        raise InvalidDimension(
            operation,
            argument,
            got=f"shape {x.shape}",
            wanted="square matrices in the last two axes",
            dim=x.shape[-1],
            ndim=x.ndim,
        )
