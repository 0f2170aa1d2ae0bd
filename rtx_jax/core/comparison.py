"""The doors of comparisons, where a Python integer may lie out of the range of the array's dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from ..errors import ScalarOverflow
from .dispatch import Door, Op
from .dtypes import INTEGRAL, int8
from .handle import Handle, facts_of
from .promotion import integer_range

__all__ = ["comparison"]

_H = TypeVar("_H", bound=Handle)


def comparison(door: Door[_H], op: Op) -> Callable[[object, object], _H]:
    """Return the call of a comparison, as ``door.binary`` does.

    ``x == 300`` is False for every x of uint8, and ``x > -1`` True: an integer that the dtype cannot hold is less or
    greater than all that it can, where an arithmetic operation would raise.
    """
    compare = door.binary(op)

    def against_outsider(x: jax.Array, *, above: bool, first: bool) -> jax.Array:
        zero = jnp.broadcast_to(lax.full_like(x, 0, int8, shape=()), x.shape)
        outsider = jnp.asarray(1 if above else -1, int8)
        result: jax.Array = op.fn(outsider, zero) if first else op.fn(zero, outsider)  # type: ignore[assignment]
        return result

    outside = Op(op.name, against_outsider, ("above", "first"))

    def call(x1: object, x2: object, /) -> _H:
        try:
            return compare(x1, x2)
        except ScalarOverflow:
            first = isinstance(x1, int)
            x, value = (x2, x1) if first else (x1, x2)
            dtype = facts_of(x).dtype if isinstance(x, Handle) else getattr(x, "dtype", None)
            if dtype not in INTEGRAL:  # a bool beside an integer beyond the default integer
                raise
            above = value > integer_range(dtype)[1]  # type: ignore[operator]
            return door.general(outside, (x,), (above, first))  # type: ignore[return-value]

    return call
