"""Checks of the arguments of collectives."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import TypeVar

import jax
import numpy as np

from .._array import Array
from ..errors import IndexOutOfBounds, InvalidArgument, InvalidDimension, ShapeMismatch, UnsupportedDType
from .collectives import Pairs

__all__ = ["array_axis", "devices", "integer", "messages", "numbers", "rank_number", "receiver", "reduction"]

_T = TypeVar("_T")

_OPS = ("sum", "prod", "min", "max")


def integer(name: str, argument: str, value: object) -> int:
    """Return an integer argument.

    Raises
    ------
    InvalidArgument
        It is none.
    """
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidArgument(
            name, argument, got=repr(value), wanted="an integer", arg=argument, reason="not an integer"
        ) from None


def reduction(name: str, op: str, dtype: np.dtype) -> None:
    """Raise InvalidArgument for an unknown reduction, UnsupportedDType for one that the dtype does not have."""
    if op not in _OPS:
        raise InvalidArgument(
            name, "op", got=repr(op), wanted=" or ".join(map(repr, _OPS)), arg="op", reason="unknown reduction"
        )
    allowed = ("min", "max") if dtype == np.bool_ else ("sum", "prod") if dtype.kind == "c" else _OPS
    if op not in allowed:
        raise UnsupportedDType(
            name,
            "x",
            got=f"{dtype} with op={op!r}",
            wanted=f"{' or '.join(map(repr, allowed))} for this dtype",
            remedy="Convert with astype to count." if dtype == np.bool_ else "Complex numbers have no order.",
            dtype=dtype,
            op=name,
        )


def array_axis(name: str, dim: object, ndim: int) -> int:
    """Return an axis of an array as a number of 0 or more; raise InvalidDimension where there is no such axis."""
    axis = integer(name, "dim", dim)
    if not -ndim <= axis < ndim:
        raise InvalidDimension(name, "dim", got=axis, wanted=f"an axis of an array of rank {ndim}", dim=axis, ndim=ndim)
    return axis % ndim


def rank_number(name: str, argument: str, value: object, size: int) -> int:
    """Return a rank; raise IndexOutOfBounds where there is no such rank."""
    number = integer(name, argument, value)
    if not 0 <= number < size:
        raise IndexOutOfBounds(name, argument, got=number, wanted=f"a rank of 0..{size - 1}", index=number, size=size)
    return number


def messages(name: str, pairs: Iterable[tuple[int, int]], size: int) -> Pairs:
    """Return messages between ranks.

    Raises
    ------
    IndexOutOfBounds
        There is no such rank.
    InvalidArgument
        They are no sequence, a message is no pair, or a rank sends, or receives, more than once.
    """
    found: list[tuple[int, int]] = []
    for pair in _listed(name, "pairs", pairs, "pairs (source, destination)"):
        try:
            source, dest = pair
        except (TypeError, ValueError):
            raise InvalidArgument(
                name, "pairs", got=repr(pair), wanted="(source, destination)", arg="pairs", reason="not a pair"
            ) from None
        found.append((rank_number(name, "pairs", source, size), rank_number(name, "pairs", dest, size)))
    for side, word in enumerate(("sends", "receives")):
        ranks = [pair[side] for pair in found]
        twice = next((r for r in ranks if ranks.count(r) > 1), None)
        if twice is not None:
            raise InvalidArgument(
                name,
                "pairs",
                got=f"rank {twice}, which {word} {ranks.count(twice)} times",
                wanted="each rank at most once on each side",
                remedy="Use broadcast, or several calls.",
                arg="pairs",
                reason="ranks repeat",
            )
    return tuple(found)


def receiver(name: str, into: Array | jax.Array, x: Array | jax.Array) -> None:
    """Raise ShapeMismatch where a receiving array is not as the array that is sent."""
    if into.shape != x.shape or into.dtype != x.dtype:
        raise ShapeMismatch(
            name,
            "into",
            got=f"{into.dtype} of shape {into.shape}",
            wanted=f"{x.dtype} of shape {x.shape}",
            expected=x.shape,
            got_shape=into.shape,
        )


def devices(name: str, values: object) -> None:
    """Raise InvalidArgument for what is no sequence of devices."""
    if not isinstance(values, Sequence | np.ndarray) or not all(isinstance(x, jax.Device) for x in values):
        raise InvalidArgument(
            name,
            "devices",
            got=repr(values),
            wanted="a platform, or a sequence of devices of JAX",
            remedy="The first four are jax.devices()[:4].",
            arg="devices",
            reason="not devices",
        )


def numbers(name: str, argument: str, values: Sequence[int], size: int) -> list[int]:
    """Return one integer for each rank; raise ShapeMismatch where there are more or fewer."""
    found = [integer(name, argument, value) for value in _listed(name, argument, values, "a number for each rank")]
    if len(found) != size:
        raise ShapeMismatch(
            name,
            argument,
            got=f"{len(found)} numbers",
            wanted=f"one for each of {size} ranks",
            expected=size,
            got_shape=(len(found),),
        )
    return found


def _listed(name: str, argument: str, values: Iterable[_T], wanted: str) -> Iterable[_T]:
    if not isinstance(values, Iterable):
        raise InvalidArgument(
            name, argument, got=repr(values), wanted=f"a sequence: {wanted}", arg=argument, reason="not a sequence"
        )
    return values
