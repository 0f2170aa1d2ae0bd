"""Calls of operations of which some operands may be left out."""

from __future__ import annotations

from collections.abc import Callable

import jax

from .._array import Array, calln
from ..core.dispatch import Op

__all__ = ["call", "optional"]


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
    return calln(op, tuple(given.values()), key)
