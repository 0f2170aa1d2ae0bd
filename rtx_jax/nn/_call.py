"""Calls of operations of which some operands may be left out."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np

from .._array import Array, calln, lift
from ..core.dispatch import Op
from ..core.dtypes import int32
from ..errors import UnsupportedDType
from ..kernels.distances import offset_operand
from ..namespace.creation import asarray

__all__ = ["call", "integers", "offset", "optional"]


def integers(x: Array | int | None) -> Array | None:
    """Return a Python integer as an operand: beside arrays it would take their dtype, and float32 counts nothing."""
    # Positions that far away are all the same.
    return asarray(min(max(x, -(2**31)), 2**31 - 1), dtype=int32) if isinstance(x, int) else x


def offset(operation: str, q_offset: Array | int | None, window: tuple[int | None, int | None]) -> Array | None:
    """Return an offset as an operand, so that the next step of a decoding loop needs no new program."""
    return integers(offset_operand(operation, q_offset, window) if isinstance(q_offset, int) else q_offset)


def optional(name: str, fn: Callable[..., object], params: tuple[str, ...] = ()) -> Op:
    """Return the operation of a raw function whose operands are given by name, those that there are."""

    def raw(*arrays: jax.Array, operands: tuple[str, ...], **static: object) -> object:
        return fn(**dict(zip(operands, arrays, strict=True)), **static)

    return Op(name, raw, ("operands", *params))


def call(op: Op, operands: dict[str, Array | None], *static: object) -> object:
    """Run such an operation on the operands that are not None; several results come as a tuple."""
    given = {name: x for name, x in operands.items() if x is not None}
    # With one parameter alone, an Op takes the value instead of a tuple.
    key: object = (tuple(given), *static) if len(op.params) > 1 else tuple(given)
    try:
        return calln(op, tuple(given.values()), key)
    except UnsupportedDType:
        # The slow path knows operands by number; the name is that of the one that cannot be lifted.
        for name, x in given.items():
            if not isinstance(x, Array | jax.Array | np.ndarray | np.generic | bool | int | float | complex):
                lift(x, None, op.name, name)
        raise
