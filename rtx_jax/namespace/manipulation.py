"""Manipulation functions of the array API standard.

XLA has no views: a result never shares memory with its operand in a way that a write could show.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import jax
import numpy as np
from jax.core import Tracer

from .._array import Array, call1, call2, calln, interned, lift
from .._compat import ArrayImpl
from ..checks.shape import broadcast_shape
from ..core.axes import as_axis, as_int, as_shape, normalize_axis
from ..core.dispatch import Op, place
from ..core.dtypes import INTEGRAL
from ..core.handle import tracing
from ..core.lazy import Lazy
from ..errors import BroadcastError, DataDependentShape, InvalidArgument, UnsupportedDType
from ..raw import manipulation as raw

if TYPE_CHECKING:
    ArrayLike: TypeAlias = Array | jax.Array | np.ndarray
    Axis: TypeAlias = int | tuple[int, ...]

__all__ = [
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "concat",
    "expand_dims",
    "flip",
    "moveaxis",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "squeeze",
    "stack",
    "tile",
    "unstack",
]

_broadcast_arrays = Op("broadcast_arrays", raw.broadcast_arrays)
_broadcast_to = Op("broadcast_to", raw.broadcast_to, ("shape",))
_concat = Op("concat", raw.concat, ("axis",))
_expand_dims = Op("expand_dims", raw.expand_dims, ("axis",))
_flip = Op("flip", raw.flip, ("axis",))
_moveaxis = Op("moveaxis", raw.moveaxis, ("source", "destination"))
_permute_dims = Op("permute_dims", raw.permute_dims, ("axes",))
_repeat = Op("repeat", raw.repeat, ("repeats", "axis"))
_repeat_each = Op("repeat", raw.repeat_each, ("total", "axis"))
_reshape = Op("reshape", raw.reshape, ("shape",))
_roll = Op("roll", raw.roll, ("shift", "axis"))
_roll_by = Op("roll", raw.roll_by, ("axis",))
_squeeze = Op("squeeze", raw.squeeze, ("axis",))
_stack = Op("stack", raw.stack, ("axis",))
_tile = Op("tile", raw.tile, ("repetitions",))
_unstack = Op("unstack", raw.unstack, ("axis",))


def broadcast_arrays(*arrays: ArrayLike) -> tuple[Array, ...]:
    """Broadcast arrays against one another.

    Parameters
    ----------
    *arrays
        Any number of arrays.

    Returns
    -------
    tuple of Array
        All of one shape; each keeps its dtype, and is independent of the others and of its source.

    Raises
    ------
    BroadcastError
        The shapes do not fit.
    """
    return calln(_broadcast_arrays, arrays) if arrays else ()  # type: ignore[return-value]


def broadcast_shapes(*shapes: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """Broadcast shapes against one another.

    Parameters
    ----------
    *shapes
        Any number of shapes; None stands for an unknown size.

    Returns
    -------
    tuple
        The common shape, ``()`` for no shapes. A size is None where it is unknown in one of them.

    Raises
    ------
    BroadcastError
        The shapes do not fit.
    InvalidArgument
        A size is negative or not an integer.
    """
    return broadcast_shape("broadcast_shapes", *[_known(shape) for shape in shapes])


def _known(shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
    if isinstance(shape, (tuple, list)) and None in shape:
        return tuple(
            [None if n is None else as_shape(n, "broadcast_shapes", "shapes", needs_memory=False)[0] for n in shape]
        )
    return as_shape(shape, "broadcast_shapes", "shapes", needs_memory=False)


def broadcast_to(x: ArrayLike, /, shape: tuple[int, ...]) -> Array:
    """Broadcast an array to a shape.

    Parameters
    ----------
    x
        The array.
    shape
        The new shape.

    Returns
    -------
    Array
        With memory of its own for every element.

    Raises
    ------
    BroadcastError
        The shape of `x` does not fit.
    """
    return call1(_broadcast_to, x, as_shape(shape, "broadcast_to"))


def concat(arrays: Sequence[ArrayLike], /, *, axis: int | None = 0) -> Array:
    """Join arrays along an axis that they have.

    Parameters
    ----------
    arrays
        Arrays that differ in the size of this axis alone. Different dtypes are promoted.
    axis
        The axis; None flattens the arrays first.

    Raises
    ------
    ShapeMismatch
        The shapes do not fit.
    InvalidDimension
        There is no such axis.
    InvalidArgument
        There are no arrays.
    """
    return calln(_concat, _arrays(arrays, "concat"), axis if type(axis) is int else as_axis(axis, "concat"))  # type: ignore[return-value]


def _arrays(arrays: Sequence[ArrayLike], operation: str) -> Sequence[ArrayLike]:
    kind = type(arrays)
    if kind is not list and kind is not tuple:
        if isinstance(arrays, (Array, jax.Array, np.ndarray)):
            return tuple(arrays)
        if not isinstance(arrays, Sequence):
            raise InvalidArgument(
                operation,
                "arrays",
                got=f"an object of type {kind.__name__}",
                wanted="a tuple or list of arrays",
                arg="arrays",
                reason="not a sequence",
            )
    if not arrays:
        raise InvalidArgument(operation, "arrays", got="none", wanted="one or more", arg="arrays", reason="empty")
    return arrays


def expand_dims(x: ArrayLike, /, axis: Axis) -> Array:
    """Insert axes of size one.

    Parameters
    ----------
    x
        The array.
    axis
        Position of each new axis in the result, negative ones from its end.

    Raises
    ------
    InvalidDimension
        A position does not exist in the result, or is given twice.
    """
    return call1(_expand_dims, x, axis if type(axis) is int else _required(axis, "expand_dims"))


def _required(axis: object, operation: str, argument: str = "axis") -> int | tuple[int, ...]:
    found = as_axis(axis, operation, argument)
    if found is None:
        raise InvalidArgument(
            operation, argument, got="None", wanted="an integer or a tuple of integers", arg=argument, reason="missing"
        )
    return found


def flip(x: ArrayLike, /, *, axis: Axis | None = None) -> Array:
    """Reverse the order of elements.

    Parameters
    ----------
    x
        The array.
    axis
        The axis or axes to reverse; all of them if None.

    Raises
    ------
    InvalidDimension
        There is no such axis.
    """
    return call1(_flip, x, as_axis(axis, "flip"))


def moveaxis(x: ArrayLike, source: Axis, destination: Axis, /) -> Array:
    """Move axes to new positions; the others keep their order.

    Parameters
    ----------
    x
        The array.
    source
        The axis or axes to move.
    destination
        The new position of each.

    Raises
    ------
    InvalidDimension
        An axis or position does not exist, or is given twice.
    InvalidArgument
        `source` and `destination` differ in length.
    """
    static = _required(source, "moveaxis", "source"), _required(destination, "moveaxis", "destination")
    return call1(_moveaxis, x, static)


def permute_dims(x: ArrayLike, /, axes: tuple[int, ...]) -> Array:
    """Permute the axes.

    Parameters
    ----------
    x
        The array.
    axes
        Each axis once, in the new order; negative ones count from the end.

    Raises
    ------
    InvalidDimension
        It is not a permutation of the axes.
    """
    found = _required(axes, "permute_dims", "axes")
    return call1(_permute_dims, x, (found,) if isinstance(found, int) else found)


def repeat(x: ArrayLike, repeats: int | ArrayLike, /, *, axis: int | None = None) -> Array:
    """Repeat each element.

    Parameters
    ----------
    x
        The array.
    repeats
        How often: an integer, or an integer array of one axis with a count for each element (or one for all).
    axis
        The axis to repeat along; None flattens `x` first.

    Returns
    -------
    Array
        The dtype of `x`.

    Raises
    ------
    InvalidArgument
        A count is negative.
    InvalidDimension
        There is no such axis.
    BroadcastError
        There are neither as many counts as elements, nor one.
    DataDependentShape
        `repeats` is an array whose values are not known while tracing.

    Notes
    -----
    An array of counts is read by the host, as the shape of the result depends on it: on an accelerator this waits.
    """
    found = as_axis(axis, "repeat")
    if isinstance(repeats, (Array, jax.Array, np.ndarray, list, tuple)):
        counts = lift(np.asarray(repeats) if isinstance(repeats, (list, tuple)) else repeats, None, "repeat", "repeats")
        if counts.ndim or isinstance(counts, Tracer):
            return _repeat_by_array(x, repeats, counts, found)  # type: ignore[arg-type]
        repeats = counts
    return call1(_repeat, x, (as_int(repeats, "repeat", "repeats"), found))


def _repeat_by_array(x: ArrayLike, repeats: ArrayLike, counts: jax.Array, axis: int | None) -> Array:
    if counts.dtype not in INTEGRAL:
        raise UnsupportedDType(
            "repeat",
            "repeats",
            got=counts.dtype.name,
            wanted="an integer dtype",
            dtype=counts.dtype,
            op="repeat",
        )
    if isinstance(counts, Tracer):
        raise DataDependentShape(
            "repeat",
            "repeats",
            got="an array whose values are not known while tracing",
            wanted="an integer",
            remedy="Compute the counts outside of the traced function, or use an integer.",
        )
    shape = lift(x, None, "repeat").shape
    size = int(np.prod(shape)) if axis is None else shape[normalize_axis(axis, len(shape), "repeat")]
    if counts.shape not in ((1,), (size,)):
        raise BroadcastError(
            "repeat",
            "repeats",
            got=f"shape {counts.shape}",
            wanted=f"shape (1,) or ({size},)",
            lhs=(size,),
            rhs=counts.shape,
        )
    host = np.asarray(counts)
    if host.size and host.min() < 0:
        raise InvalidArgument(
            "repeat", "repeats", got=int(host.min()), wanted="0 or more", arg="repeats", reason="negative"
        )
    total = sum(host.tolist()) * (size if counts.shape == (1,) else 1)
    return call2(_repeat_each, x, Array(counts) if not isinstance(repeats, Array) else repeats, (total, axis))


def reshape(x: ArrayLike, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Array:
    """Give a new shape to the elements, in row-major order.

    Parameters
    ----------
    x
        The array.
    shape
        The new shape. One size may be -1 and follows from the others.
    copy
        False is satisfied only when nothing changes, as XLA copies to reshape. In every case a write to the result
        leaves `x` as it is, and the other way round.

    Raises
    ------
    ShapeMismatch
        The number of elements differs.
    InvalidArgument
        More than one -1; or ``copy=False`` and the shape changes.
    """
    found = _required(list(shape) if isinstance(shape, Sequence) else shape, "reshape", "shape")
    sizes = (found,) if isinstance(found, int) else found
    if copy is False:
        return _reshape_in_place(x, sizes)
    return call1(_reshape, x, sizes)


def _reshape_in_place(x: ArrayLike, shape: tuple[int, ...]) -> Array:
    if not isinstance(x, (Array, jax.Array)):
        got = f"an object of type {type(x).__name__}"
    else:
        if raw.infer_shape(x.shape, shape) == x.shape:
            return x.copy() if isinstance(x, Array) else Array(x)
        got = f"{shape} for an array of shape {x.shape}"
    raise InvalidArgument(
        "reshape",
        "copy",
        got=f"False with {got}",
        wanted="None or True",
        remedy="An XLA array takes another shape only by a copy.",
        arg="copy",
        reason="a copy is needed",
    )


def roll(x: ArrayLike, /, shift: Axis, *, axis: Axis | None = None) -> Array:
    """Roll elements along axes; those that leave at the end come in at the start.

    Parameters
    ----------
    x
        The array.
    shift
        By how many places, towards larger indices if positive: one for all axes, or one for each.
    axis
        The axis or axes; None rolls the flattened array and restores its shape.

    Raises
    ------
    InvalidDimension
        There is no such axis.
    InvalidArgument
        `shift` and `axis` are tuples of different lengths.
    """
    axes = as_axis(axis, "roll")
    shifts = _required(shift, "roll", "shift")
    if isinstance(shifts, int):
        shifts = (shifts,) * (len(axes) if isinstance(axes, tuple) else 1)
    elif not isinstance(axes, tuple):
        # As in NumPy, all shifts go to the one axis.
        shifts = (sum(shifts),)
    if type(x) is Array and type(x._data) in (ArrayImpl, Lazy) and not tracing.traced():
        # The amounts are run-time operands, so a loop over them compiles once.
        places = axes if isinstance(axes, tuple) else (axes,)
        if len(places) == len(shifts):
            reduced = tuple([s % (_extent(x, a) or 1) for s, a in zip(shifts, places, strict=True)])
            return call2(_roll_by, x, interned(("roll", reduced), lambda: _amounts(reduced)), axes)
    return call1(_roll, x, (shifts, axes))


def _extent(x: Array, axis: int | None) -> int:
    return x.size if axis is None else x.shape[normalize_axis(axis, x.ndim, "roll")]


def _amounts(shifts: tuple[int, ...]) -> jax.Array:
    wide = any(s >= 2**31 for s in shifts)
    return place(np.array(shifts, np.int64 if wide else np.int32))


def squeeze(x: ArrayLike, /, axis: Axis) -> Array:
    """Remove axes of size one.

    Parameters
    ----------
    x
        The array.
    axis
        The axis or axes to remove.

    Raises
    ------
    ShapeMismatch
        An axis has another size.
    InvalidDimension
        There is no such axis.
    """
    return call1(_squeeze, x, axis if type(axis) is int else _required(axis, "squeeze"))


def stack(arrays: Sequence[ArrayLike], /, *, axis: int = 0) -> Array:
    """Join arrays along a new axis.

    Parameters
    ----------
    arrays
        Arrays of one shape. Different dtypes are promoted.
    axis
        Position of the new axis in the result.

    Raises
    ------
    ShapeMismatch
        The shapes differ.
    InvalidDimension
        There is no such position.
    InvalidArgument
        There are no arrays.
    """
    return calln(_stack, _arrays(arrays, "stack"), axis if type(axis) is int else as_int(axis, "stack", "axis"))  # type: ignore[return-value]


def tile(x: ArrayLike, repetitions: tuple[int, ...], /) -> Array:
    """Repeat the whole array along its axes.

    Parameters
    ----------
    x
        The array.
    repetitions
        How often along each axis. The shorter of this and the shape of `x` is filled up with ones in front.

    Raises
    ------
    InvalidArgument
        A number is negative or not an integer.
    """
    return call1(_tile, x, as_shape(repetitions, "tile", "repetitions"))


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Split an array into its slices along an axis.

    Parameters
    ----------
    x
        The array.
    axis
        The axis, which the slices lose.

    Raises
    ------
    InvalidDimension
        There is no such axis.
    """
    return call1(_unstack, x, axis if type(axis) is int else as_int(axis, "unstack", "axis"))  # type: ignore[return-value]
