"""The methods that arrays of NumPy and of JAX share and the standard leaves out: ``x.sum()``, ``x.reshape(2, 3)``, ...

Each is the namespace's function of that name, with NumPy's parameters; ``np.sum(x)`` and its like call them. Methods
that write in place in NumPy (``sort``, ``fill``, ``put``) are not here, as JAX's return a new array instead; nor is
``take``, which gives an Array up.
"""

from __future__ import annotations

import builtins
import operator
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, SupportsIndex

from .errors import InvalidArgument

if TYPE_CHECKING:
    import rtx_jax as xp

    from ._array import Array
    from .core.dtypes import DTypeLike

else:
    xp = sys.modules[__package__]  # the namespace is being imported now, and full when a method is called

Axis = int | tuple[int, ...] | None


def _only(operation: str, argument: str, value: object, *accepted: object, remedy: str = "") -> None:
    """Refuse a value of a NumPy parameter that has no meaning here."""
    if not builtins.any(value is good or (isinstance(value, str) and value == good) for good in accepted):
        raise InvalidArgument(
            operation,
            argument,
            got=repr(value) if isinstance(value, str | int) else f"an object of type {type(value).__name__}",
            wanted=" or ".join(map(repr, accepted)),
            remedy=remedy,
            arg=argument,
            reason="not supported",
        )


def _integers(values: tuple[SupportsIndex | Sequence[SupportsIndex], ...]) -> tuple[int, ...]:
    """Integers given one by one or as one sequence."""
    first = values[0] if len(values) == 1 else values
    return tuple(map(operator.index, first if isinstance(first, Sequence) else (first,)))  # type: ignore[arg-type]


def _no_out(operation: str, out: object) -> None:
    _only(operation, "out", out, None, remedy="Assign the result: out[...] = result.")


def _cast(x: Array, dtype: DTypeLike | None) -> Array:
    """Return `x` in the dtype in which to compute."""
    return x if dtype is None else xp.astype(x, dtype, copy=False)


def sum(
    x: Array, /, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False
) -> Array:
    """Sum over axes; see `rtx_jax.sum`."""
    _no_out("sum", out)
    return xp.sum(x, axis=axis, dtype=dtype, keepdims=keepdims)


def prod(
    x: Array, /, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False
) -> Array:
    """Multiply over axes; see `rtx_jax.prod`."""
    _no_out("prod", out)
    return xp.prod(x, axis=axis, dtype=dtype, keepdims=keepdims)


def mean(
    x: Array, /, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False
) -> Array:
    """Average over axes, in `dtype` where it is given; see `rtx_jax.mean`."""
    _no_out("mean", out)
    return xp.mean(_cast(x, dtype), axis=axis, keepdims=keepdims)


def var(
    x: Array,
    /,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
) -> Array:
    """Variance over axes with divisor n - `ddof`; see `rtx_jax.var`."""
    _no_out("var", out)
    return xp.var(_cast(x, dtype), axis=axis, correction=ddof, keepdims=keepdims)


def std(
    x: Array,
    /,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
) -> Array:
    """Standard deviation over axes with divisor n - `ddof`; see `rtx_jax.std`."""
    _no_out("std", out)
    return xp.std(_cast(x, dtype), axis=axis, correction=ddof, keepdims=keepdims)


def max(x: Array, /, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """Greatest element over axes; see `rtx_jax.max`."""
    _no_out("max", out)
    return xp.max(x, axis=axis, keepdims=keepdims)


def min(x: Array, /, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """Least element over axes; see `rtx_jax.min`."""
    _no_out("min", out)
    return xp.min(x, axis=axis, keepdims=keepdims)


def all(x: Array, /, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """Whether all elements over axes are true; see `rtx_jax.all`."""
    _no_out("all", out)
    return xp.all(x, axis=axis, keepdims=keepdims)


def any(x: Array, /, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """Whether any element over axes is true; see `rtx_jax.any`."""
    _no_out("any", out)
    return xp.any(x, axis=axis, keepdims=keepdims)


def argmax(x: Array, /, axis: int | None = None, out: None = None, *, keepdims: bool = False) -> Array:
    """Index of the first greatest element; see `rtx_jax.argmax`."""
    _no_out("argmax", out)
    return xp.argmax(x, axis=axis, keepdims=keepdims)


def argmin(x: Array, /, axis: int | None = None, out: None = None, *, keepdims: bool = False) -> Array:
    """Index of the first least element; see `rtx_jax.argmin`."""
    _no_out("argmin", out)
    return xp.argmin(x, axis=axis, keepdims=keepdims)


def cumsum(x: Array, /, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """Running sums along an axis, or of the flattened array; see `rtx_jax.cumulative_sum`."""
    _no_out("cumsum", out)
    x, axis = (x.ravel(), 0) if axis is None else (x, axis)
    return xp.cumulative_sum(x, axis=axis, dtype=dtype)


def cumprod(x: Array, /, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """Running products along an axis, or of the flattened array; see `rtx_jax.cumulative_prod`."""
    _no_out("cumprod", out)
    x, axis = (x.ravel(), 0) if axis is None else (x, axis)
    return xp.cumulative_prod(x, axis=axis, dtype=dtype)


def reshape(
    x: Array, /, *shape: SupportsIndex | Sequence[SupportsIndex], order: str = "C", copy: bool | None = None
) -> Array:
    """Return the elements in another shape, in C order; see `rtx_jax.reshape`. Never a view."""
    _only("reshape", "order", order, "C", "A", remedy="Transpose before and after for Fortran's order.")
    return xp.reshape(x, _integers(shape), copy=copy)


def ravel(x: Array, /, order: str = "C") -> Array:
    """Return the elements in one axis. Never a view."""
    return x.reshape(-1, order=order)


def flatten(x: Array, /, order: str = "C") -> Array:
    """Return the elements in one axis."""
    return x.reshape(-1, order=order)


def transpose(x: Array, /, *axes: SupportsIndex | Sequence[SupportsIndex] | None) -> Array:
    """Permute the axes, or reverse them; see `rtx_jax.permute_dims`."""
    given = tuple(part for part in axes if part is not None)
    return xp.permute_dims(x, _integers(given) if given else tuple(range(x.ndim))[::-1])


def swapaxes(x: Array, axis1: int, axis2: int, /) -> Array:
    """Exchange two axes."""
    order = list(range(x.ndim))
    if not (-x.ndim <= axis1 < x.ndim and -x.ndim <= axis2 < x.ndim):
        return xp.moveaxis(x, axis1, axis2)  # raises, and names the axis
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return xp.permute_dims(x, tuple(order))


def squeeze(x: Array, /, axis: Axis = None) -> Array:
    """Drop axes of length 1: those given, or all; see `rtx_jax.squeeze`."""
    if axis is None:
        axis = tuple(i for i, length in enumerate(x.shape) if length == 1)
    return xp.squeeze(x, axis)


def repeat(x: Array, /, repeats: int | Array, axis: int | None = None) -> Array:
    """Repeat elements along an axis, or of the flattened array; see `rtx_jax.repeat`."""
    return xp.repeat(x, repeats, axis=axis)


def real(x: Array, /) -> Array:
    """The real parts; a copy of a real array."""
    return xp.real(x) if xp.isdtype(x.dtype, "complex floating") else x.copy()


def imag(x: Array, /) -> Array:
    """The imaginary parts; zeros for a real array."""
    return xp.imag(x) if xp.isdtype(x.dtype, "complex floating") else xp.zeros_like(x)


def conj(x: Array, /) -> Array:
    """The complex conjugates; see `rtx_jax.conj`."""
    return xp.conj(x)


conjugate = conj


def astype(x: Array, /, dtype: DTypeLike, copy: bool = True) -> Array:
    """Cast to a dtype; see `rtx_jax.astype`."""
    return xp.astype(x, dtype, copy=copy)


def clip(x: Array, /, min: float | Array | None = None, max: float | Array | None = None, out: None = None) -> Array:
    """Limit the elements to an interval; see `rtx_jax.clip`."""
    _no_out("clip", out)
    return xp.clip(x, min, max)


def round(x: Array, /, decimals: int = 0, out: None = None) -> Array:
    """Round to `decimals` places after the point, halves to even; see `rtx_jax.round`."""
    _no_out("round", out)
    if decimals == 0:
        return xp.round(x)
    if xp.isdtype(x.dtype, "integral"):
        return x.copy() if decimals > 0 else xp.astype(xp.round(x / 10**-decimals), x.dtype) * 10**-decimals
    scale = 10.0 ** abs(decimals)
    return xp.round(x * scale) / scale if decimals > 0 else xp.round(x / scale) * scale


def dot(x: Array, other: Array, /) -> Array:
    """Sum of products over the last axis here and the last but one of `other`; the product where one is 0-d."""
    other = xp.asarray(other)
    if x.ndim == 0 or other.ndim == 0:
        return xp.multiply(x, other)
    return xp.tensordot(x, other, axes=((x.ndim - 1,), (builtins.max(other.ndim - 2, 0),)))


def nonzero(x: Array, /) -> tuple[Array, ...]:
    """Indices of the elements that are not zero, an array for each axis; see `rtx_jax.nonzero`."""
    return xp.nonzero(x)


def argsort(
    x: Array, /, axis: int | None = -1, kind: str | None = None, order: None = None, *, stable: bool | None = None
) -> Array:
    """Indices that sort along an axis, or the flattened array; always stable; see `rtx_jax.argsort`."""
    _only("argsort", "order", order, None)
    x, axis = (x.ravel(), 0) if axis is None else (x, axis)
    return xp.argsort(x, axis=axis)
