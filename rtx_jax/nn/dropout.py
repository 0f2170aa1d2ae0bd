"""Dropout."""

from __future__ import annotations

import jax

from .._array import Array, call1
from ..checks.choices import flag
from ..checks.linear import dropout as check
from ..core.dispatch import Op
from ..ops.dropout import dropout as _raw
from ..random.keys import HasStream, Key, Source, draw
from ..raw.random import keyed

__all__ = ["dropout"]


def _drop(key: jax.Array, x: jax.Array, *, p: float) -> jax.Array:
    return _raw(x, key, p=p)


def _keep(x: jax.Array) -> jax.Array:
    check(x.dtype, 0.0)
    return x


_dropout = Op("dropout", keyed(_drop), ("impl", "sharding", "p"))
_identity = Op("dropout", _keep)


def dropout(x: Array, /, p: float = 0.5, *, training: bool = True, key: Key | HasStream | None = None) -> Array:
    """Return `x` with elements set to 0 with probability `p`, and the others divided by ``1 - p``.

    Parameters
    ----------
    x
        Real floating, of any shape.
    p
        Probability of a 0, from 0 to 1.
    training
        False returns `x` as it is.
    key
        A key, which is used up; a `rtx_jax.random.Generator`; or None for the global generator, which is safe under
        `rtx_jax.jit`, `grad`, `vmap`, `scan` and `checkpoint`.

    Returns
    -------
    Array
        An element that is dropped is 0 also where `x` is NaN or infinite.

    Raises
    ------
    InvalidArgument
        `p` is not in 0..1, or `training` is not a bool.
    UnsupportedDType
        `x` is not real floating.
    RngUnderTrace
        No key is given and plain JAX is tracing.
    """
    rate = check(x.dtype, p)
    if not flag("dropout", "training", training) or rate == 0:
        return call1(_identity, x)
    return draw(_dropout, Source(key, "dropout"), (x,), (rate,), None)
