"""Checks of shapes, axes and ranks, and of the operations that only rearrange."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

from ..errors import BroadcastError, InvalidArgument, InvalidDimension, OutOfMemory, ShapeMismatch

__all__ = [
    "as_int",
    "as_shape",
    "bmm",
    "broadcast_shape",
    "dim_in",
    "even_dim",
    "matmul",
    "nonempty",
    "permutation",
    "rank",
    "rank_at_least",
    "reshape",
]

_MAX_BYTES = 2**63 - 1


def as_int(operation: str, argument: str, value: object) -> int:
    """Return an integer parameter as an int (``True`` as 1).

    Raises
    ------
    InvalidArgument
        It is not an integer.
    """
    if type(value) is int:
        return value
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError as error:
        raise InvalidArgument(
            operation,
            argument,
            got=f"{value!r} ({type(value).__name__})",
            wanted="an integer",
            arg=argument,
            reason="not an integer",
        ) from error


def as_shape(operation: str, shape: object, itemsize: int = 1) -> tuple[int, ...]:
    """Return a shape as a tuple of ints; an integer is a shape of one axis.

    Raises
    ------
    InvalidArgument
        An entry is negative or no integer.
    OutOfMemory
        The tensor would have more bytes than 63 bits count.
    """
    if isinstance(shape, (str, bytes)) or not isinstance(shape, (Sequence, int)):
        try:
            entries: Sequence[object] = (operator.index(shape),)  # type: ignore[arg-type]
        except TypeError as error:
            raise InvalidArgument(
                operation,
                "shape",
                got=f"{shape!r} ({type(shape).__name__})",
                wanted="a tuple of integers",
                arg="shape",
                reason="not a shape",
            ) from error
    else:
        entries = (shape,) if isinstance(shape, int) else shape
    out = tuple([as_int(operation, "shape", n) for n in entries])
    if any(n < 0 for n in out):
        raise InvalidArgument(
            operation, "shape", got=out, wanted="sizes of 0 or more", arg="shape", reason="negative size"
        )
    if math.prod(out) * itemsize > _MAX_BYTES or any(n > _MAX_BYTES for n in out):
        raise OutOfMemory(
            operation,
            "shape",
            got=f"{out}, more bytes than 63 bits count",
            wanted="a smaller shape",
            size=math.prod(out),
        )
    return out


def dim_in(operation: str, dim: object, ndim: int, argument: str = "dim") -> int:
    """Return an axis from 0 to ``ndim - 1``; negative ones are refused.

    Raises
    ------
    InvalidDimension
        It is out of range.
    InvalidArgument
        It is not an integer.
    """
    value = as_int(operation, argument, dim)
    if not 0 <= value < ndim:
        raise InvalidDimension(
            operation,
            argument,
            got=value,
            wanted=f"0..{ndim - 1}" if ndim else "a tensor with an axis",
            remedy="Count axes from the front: negative ones are not taken here." if value < 0 <= value + ndim else "",
            dim=value,
            ndim=ndim,
        )
    return value


def rank(operation: str, shape: tuple[int, ...], wanted: int, argument: str = "x") -> None:
    """Raise InvalidDimension unless the tensor has exactly `wanted` axes."""
    if len(shape) != wanted:
        raise InvalidDimension(
            operation, argument, got=f"shape {shape}", wanted=f"{wanted} axes", dim=len(shape), ndim=wanted
        )


def rank_at_least(operation: str, shape: tuple[int, ...], least: int, argument: str = "x") -> None:
    """Raise InvalidDimension unless the tensor has at least `least` axes."""
    if len(shape) < least:
        raise InvalidDimension(
            operation,
            argument,
            got=f"shape {shape}",
            wanted=f"at least {least} " + ("axis" if least == 1 else "axes"),
            dim=len(shape),
            ndim=least,
        )


def nonempty(operation: str, shape: tuple[int, ...], dim: int | None = None) -> None:
    """Raise InvalidArgument when a maximum or minimum over `dim` (None: over everything) has nothing to choose from."""
    if (0 in shape) if dim is None else (shape[dim] == 0):
        raise InvalidArgument(
            operation,
            "x",
            got=f"shape {shape}" + ("" if dim is None else f", reduced over axis {dim}"),
            wanted="at least one element to choose from",
            arg="x",
            reason="empty reduction",
        )


def reshape(operation: str, old: tuple[int, ...], new: object) -> tuple[int, ...]:
    """Return the new shape, in which one -1 stands for what is left.

    Raises
    ------
    ShapeMismatch
        The number of elements differs, or -1 has no answer.
    InvalidArgument
        There are several -1, or another negative size.
    """
    if type(new) is tuple:
        count = 1
        for n in new:
            if type(n) is not int or n < 0:
                break
            count *= n
        else:
            if count == math.prod(old) and (count or max(new) <= _MAX_BYTES):
                return new
    entries = (new,) if isinstance(new, int) else new
    if not isinstance(entries, Sequence) or isinstance(entries, (str, bytes)):
        try:
            entries = (operator.index(new),)  # type: ignore[arg-type]
        except TypeError:
            return as_shape(operation, new)
    out = [as_int(operation, "shape", n) for n in entries]
    if out.count(-1) > 1 or any(n < -1 for n in out):
        raise InvalidArgument(
            operation,
            "shape",
            got=tuple(out),
            wanted="sizes of 0 or more and at most one -1",
            arg="shape",
            reason="negative size",
        )
    if any(n > _MAX_BYTES for n in out):
        return as_shape(operation, out)  # no tensor has it, be it empty
    size, rest = math.prod(old), math.prod(n for n in out if n != -1)
    fits = size == rest
    if -1 in out:
        fits = rest != 0 and size % rest == 0
        if fits:
            out[out.index(-1)] = size // rest
    if not fits:
        raise ShapeMismatch(
            operation,
            "shape",
            got=f"{tuple(out)} for a tensor of shape {old}",
            wanted=f"a shape of {size} elements",
            expected=old,
            got_shape=tuple(out),
        )
    return tuple(out)


def permutation(operation: str, dims: object, ndim: int) -> tuple[int, ...]:
    """Return an order of the axes 0 to ``ndim - 1``.

    Raises
    ------
    InvalidDimension
        It is not a permutation of them.
    """
    if type(dims) is tuple and len(dims) == ndim:
        left = set(range(ndim))
        for n in dims:
            if type(n) is not int or n not in left:
                break
            left.discard(n)
        else:
            return dims
    if not isinstance(dims, Sequence) or isinstance(dims, (str, bytes)):
        dims = (as_int(operation, "dims", dims),)
    out = tuple([as_int(operation, "dims", n) for n in dims])
    if sorted(out) != list(range(ndim)):
        raise InvalidDimension(
            operation, "dims", got=out, wanted=f"each of 0..{ndim - 1} once" if ndim else "()", dim=len(out), ndim=ndim
        )
    return out


def _inner(operation: str, lhs: tuple[int, ...], rhs: tuple[int, ...]) -> None:
    if lhs[-1] != rhs[-2]:
        raise ShapeMismatch(
            operation,
            "rhs",
            got=f"shapes {lhs} and {rhs}",
            wanted=f"{lhs[-1]} rows in rhs, as lhs has columns",
            expected=(*rhs[:-2], lhs[-1], rhs[-1]),
            got_shape=rhs,
        )


def matmul(operation: str, lhs: tuple[int, ...], rhs: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the product of two matrices.

    Raises
    ------
    InvalidDimension
        One is not a matrix.
    ShapeMismatch
        The inner sizes differ.
    """
    rank(operation, lhs, 2, "lhs")
    rank(operation, rhs, 2, "rhs")
    _inner(operation, lhs, rhs)
    return lhs[0], rhs[1]


def bmm(operation: str, lhs: tuple[int, ...], rhs: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the product of two batches of matrices; the batches are not broadcast.

    Raises
    ------
    InvalidDimension
        One does not have three axes.
    ShapeMismatch
        The numbers of matrices or the inner sizes differ.
    """
    rank(operation, lhs, 3, "lhs")
    rank(operation, rhs, 3, "rhs")
    if lhs[0] != rhs[0]:
        raise ShapeMismatch(
            operation,
            "rhs",
            got=f"shapes {lhs} and {rhs}",
            wanted=f"{lhs[0]} matrices in both",
            expected=(lhs[0], *rhs[1:]),
            got_shape=rhs,
        )
    _inner(operation, lhs, rhs)
    return lhs[0], lhs[1], rhs[2]


def even_dim(operation: str, dim: object, shape: tuple[int, ...]) -> int:
    """Return an axis whose size is even; -1 is the last.

    Raises
    ------
    InvalidDimension
        It is out of range.
    ShapeMismatch
        Its size is odd.
    """
    value = as_int(operation, "dim", dim)
    axis = dim_in(operation, len(shape) - 1 if value == -1 and shape else value, len(shape))
    if shape[axis] % 2:
        raise ShapeMismatch(
            operation,
            "x",
            got=f"shape {shape}",
            wanted=f"an even size of axis {axis}, to be halved",
            expected=(*shape[:axis], shape[axis] + 1, *shape[axis + 1 :]),
            got_shape=shape,
        )
    return axis


def broadcast_shape(operation: str, *shapes: Sequence[int | None]) -> tuple[int | None, ...]:
    """Return the shape that `shapes` broadcast to; ``None`` stands for an unknown size, which the result keeps.

    Raises
    ------
    BroadcastError
        Two sizes of one axis differ and neither is 1; the text names the two shapes.
    """
    out: list[int | None] = []
    for shape in shapes:
        if len(shape) > len(out):
            out[:0] = [1] * (len(shape) - len(out))
        for place in range(-len(shape), 0):
            size, have = shape[place], out[place]
            if size == 1 or size == have or have is None:
                continue
            if have == 1 or size is None:
                out[place] = size
            else:
                # The running result is what the shapes before gave; name the one that the size came from.
                other = next(s for s in shapes if len(s) >= -place and s[place] == have)
                raise BroadcastError(
                    operation,
                    "",
                    got=f"shapes {tuple(other)} and {tuple(shape)}, which cannot be broadcast together",
                    wanted="sizes that are equal or 1, counted from the last axis",
                    lhs=tuple(other),
                    rhs=tuple(shape),
                )
    return tuple(out)
