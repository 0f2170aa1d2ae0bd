"""Creation functions of the array API standard.

Small results are made once for each set of arguments and shared between handles; the first write to one copies it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import jax
import numpy as np

from .. import _interop
from .._array import Array, call1, calln, interned, lift, wrap, wrap_shared
from .._compat import ArrayImpl
from ..core.axes import as_int, as_shape
from ..core.devices import DeviceLike, Placement, device_of, resolve
from ..core.dispatch import Op
from ..core.dtypes import (
    COMPLEX,
    INTEGRAL,
    DType,
    DTypeLike,
    as_dtype,
    bool_,
    default_complex,
    default_float,
    default_int,
)
from ..core.handle import tracing
from ..core.lazy import Lazy
from ..errors import DTypeMismatch, InvalidArgument, UnsupportedDType
from ..raw import creation as raw
from ._conversion import convert, scalar_default
from ._host import host_scalar, make_constant, number, scalar_key
from ._ranges import arange_size, linspace_op, linspace_static, make_arange, make_linspace

if TYPE_CHECKING:
    from collections.abc import Sequence

    Scalar: TypeAlias = bool | int | float | complex
    ArrayLike: TypeAlias = Array | jax.Array | np.ndarray
    Nested: TypeAlias = Sequence["Scalar | ArrayLike | Nested"]
    Shape: TypeAlias = int | tuple[int, ...]

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]


class SupportsDLPack(Protocol):
    """An array of any library that can be exported through DLPack."""

    def __dlpack__(self) -> object: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...


_constant = Op("zeros", raw.constant, ("value", "shape", "dtype"))
_constant_like = Op("zeros_like", raw.constant_like, ("value", "dtype"))
_eye = Op("eye", raw.eye, ("n_rows", "n_cols", "k", "dtype"))
_fill = Op("full", raw.full, ("shape",))
_meshgrid = Op("meshgrid", raw.meshgrid, ("indexing",))
_tril = Op("tril", raw.tril, ("k",))
_triu = Op("triu", raw.triu, ("k",))

_settings = jax.config


def _filled(value: int, shape: Shape, dtype: DTypeLike | None, device: DeviceLike | None, operation: str) -> Array:
    placement = None if device is None else resolve(device, operation)
    sizes = as_shape(shape, operation)
    found = default_float(placement) if dtype is None else as_dtype(dtype, operation, device=placement)
    return _constants(value, sizes, found, placement)


def _constants(value: int, shape: tuple[int, ...], dtype: DType, placement: Placement | None) -> Array:
    static = (value, shape, dtype)
    # A constant made while jax.default_device is set is not the one that is made otherwise.
    return interned(
        (value, shape, dtype, placement, _settings.jax_default_device),  # type: ignore[attr-defined]
        lambda: make_constant(
            _constant,
            (),
            static,
            placement,
            lambda: np.full(shape, value, dtype),
            math.prod(shape) * dtype.itemsize,
        ),
    )


def _data(x: ArrayLike, operation: str) -> jax.Array | Lazy:
    data = getattr(x, "_data", None)
    return data if type(data) is ArrayImpl or type(data) is Lazy else lift(x, None, operation)


def _filled_like(value: int, x: ArrayLike, dtype: DTypeLike | None, device: DeviceLike | None, operation: str) -> Array:
    data = _data(x, operation)
    if device is not None:
        placement = resolve(device, operation)
    elif not isinstance(data, ArrayImpl | Lazy) or tracing.traced():
        found = data.dtype if dtype is None else as_dtype(dtype, operation, device=data)
        return call1(_constant_like, x, (value, found))
    else:
        placement = device_of(data) if data.committed else None
    found = data.dtype if dtype is None else as_dtype(dtype, operation, device=placement)
    return _constants(value, data.shape, found, placement)


def arange(
    start: int | float,
    /,
    stop: int | float | None = None,
    step: int | float = 1,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Array:
    """Return evenly spaced values of the half-open interval ``[start, stop)``.

    Parameters
    ----------
    start
        First value; the end of the interval, which then begins at 0, if `stop` is not given.
    stop
        End of the interval, not included.
    step
        Distance between neighbours, not 0.
    dtype
        Default: the default integer dtype if all three are integers, else the default float.
    device
        Where to create it.

    Returns
    -------
    Array
        Shape ``(max(0, ceil((stop - start) / step)),)``.

    Raises
    ------
    ScalarOverflow
        A value does not fit the integer dtype.
    InvalidArgument
        `step` is 0, or the length is not finite.
    UnsupportedDType
        `dtype` is bool, or an argument is complex.
    """
    if stop is None:
        start, stop = 0, start
    first, end = number(start, "arange", "start"), number(stop, "arange", "stop")
    by = number(step, "arange", "step")
    placement = None if device is None else resolve(device, "arange")
    integers = type(first) is int and type(end) is int and type(by) is int
    if dtype is not None:
        found = as_dtype(dtype, "arange", device=placement)
    else:
        found = default_int(placement) if integers else default_float(placement)
    size = arange_size(first, end, by)
    key = ("arange", *scalar_key(first), *scalar_key(by), size, found, placement, _settings.jax_default_device)  # type: ignore[attr-defined]
    return interned(key, lambda: make_arange(first, by, size, found, placement))


def asarray(
    obj: Array | jax.Array | np.ndarray | Scalar | Nested | SupportsDLPack | memoryview | bytes,
    /,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    copy: bool | None = None,
) -> Array:
    """Return an object as an Array.

    Parameters
    ----------
    obj
        An Array, ``jax.Array`` or NumPy array; a Python scalar or a nested sequence of scalars and arrays; an object
        with ``__dlpack__`` or ``__array__``, such as a torch tensor; a buffer.
    dtype
        Default: that of `obj`. Python scalars take the default dtype of their kind; beside arrays in a sequence they
        take the arrays' dtype. A given dtype casts: floats saturate on their way to integers, and NaN becomes 0.
    device
        Default: that of `obj` if it is an array, else the default device.
    copy
        None: share what can be shared. True: always independent. False: never copy.

    Returns
    -------
    Array
        `obj` itself if it is an Array and nothing changes. An Array around a ``jax.Array`` shares its buffer until
        one of the two is written. Host memory is always copied, so neither side sees the other's writes.

    Raises
    ------
    ScalarOverflow
        A Python integer does not fit the dtype (int64 if none is given); it is an ``OverflowError``.
    InvalidArgument
        ``copy=False`` and a copy is needed, as always for host memory.
    ShapeMismatch
        The rows of a nested sequence differ in length.
    DTypeMismatch
        Complex numbers for a real dtype.
    UnsupportedDType
        There is no such dtype on a device (text, objects, dates, extended precision).
    """
    if type(obj) is Array and device is None and (dtype is None or dtype == obj.dtype):
        return obj.copy() if copy else obj
    return convert(obj, dtype, device, copy)


def empty(shape: Shape, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Array:
    """Return an Array whose values are not specified (they are zeros, as XLA has no uninitialized memory).

    Parameters
    ----------
    shape
        Size of each axis.
    dtype
        Default: the default float.
    device
        Where to create it.

    Raises
    ------
    InvalidArgument
        A size is negative or not an integer.
    """
    return _filled(0, shape, dtype, device, "empty")


def empty_like(x: ArrayLike, /, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Array:
    """Return an Array of the shape of `x` whose values are not specified.

    Parameters
    ----------
    x
        Gives the shape, and the dtype and device where they are not given.
    dtype, device
        Default: those of `x`.
    """
    return _filled_like(0, x, dtype, device, "empty_like")


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Array:
    """Return a matrix with ones on one diagonal and zeros elsewhere.

    Parameters
    ----------
    n_rows, n_cols
        Its shape; as many columns as rows if `n_cols` is None.
    k
        The diagonal: 0 the main one, positive above, negative below it.
    dtype
        Default: the default float.
    device
        Where to create it.

    Raises
    ------
    InvalidArgument
        A size is negative or not an integer.
    """
    shape = as_shape((n_rows, n_rows if n_cols is None else n_cols), "eye", "n_rows, n_cols")
    placement = None if device is None else resolve(device, "eye")
    found = default_float(placement) if dtype is None else as_dtype(dtype, "eye", device=placement)
    diagonal = max(-shape[0], min(as_int(k, "eye", "k"), shape[1]))
    static = (*shape, diagonal, found)
    return interned(
        ("eye", *static, placement, _settings.jax_default_device),  # type: ignore[attr-defined]
        lambda: make_constant(
            _eye,
            (),
            static,
            placement,
            lambda: np.eye(shape[0], shape[1], diagonal, dtype=np.bool_).astype(found),
            math.prod(shape) * found.itemsize,
        ),
    )


def from_dlpack(x: SupportsDLPack, /, *, device: DeviceLike | None = None, copy: bool | None = None) -> Array:
    """Return an Array of the values of an array of any library that has DLPack.

    Parameters
    ----------
    x
        The array. It may be read-only.
    device
        Where to place the result; default: the device of `x`.
    copy
        None: share memory where neither side can then write to it, else copy. True: always copy. False: never.

    Returns
    -------
    Array
        Host memory is copied, so that later writes on either side stay there; a ``jax.Array`` or Array is shared
        until it is written.

    Raises
    ------
    InvalidArgument
        ``copy=False`` and a copy is needed.
    AttributeError, BufferError
        From `x`, when it cannot be exported.
    """
    data, alone = _interop.from_dlpack(x, device=device, copy=copy)
    return wrap(data) if alone else wrap_shared(data)


def full(
    shape: Shape,
    fill_value: Scalar | ArrayLike,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Array:
    """Return an Array that repeats one value.

    Parameters
    ----------
    shape
        Size of each axis.
    fill_value
        A Python scalar, or an array that broadcasts to the shape.
    dtype
        Default: the default dtype of the kind of `fill_value`, or its dtype if it is an array.
    device
        Where to create it.

    Raises
    ------
    ScalarOverflow
        An integer does not fit the dtype.
    DTypeMismatch
        A complex value for a real dtype.
    BroadcastError
        `fill_value` is an array that does not broadcast to the shape.
    """
    sizes = as_shape(shape, "full")
    placement = None if device is None else resolve(device, "full")
    if type(fill_value) not in _SCALARS:
        return _full_of_array(sizes, fill_value, dtype, placement, "full")
    found = (
        scalar_default(fill_value, placement)  # type: ignore[arg-type]
        if dtype is None
        else as_dtype(dtype, "full", device=placement)
    )
    return _full(sizes, fill_value, found, placement, "full")  # type: ignore[arg-type]


_SCALARS = frozenset((bool, int, float, complex))


def _full(shape: tuple[int, ...], value: Scalar, dtype: DType, placement: Placement | None, operation: str) -> Array:
    key = ("full", shape, *scalar_key(value), dtype, placement, _settings.jax_default_device)  # type: ignore[attr-defined]
    return interned(key, lambda: _make_full(shape, host_scalar(value, dtype, operation, "fill_value"), placement))


def _make_full(shape: tuple[int, ...], value: np.ndarray, placement: Placement | None) -> jax.Array:
    nbytes = math.prod(shape) * value.itemsize
    return make_constant(_fill, [value], shape, placement, lambda: np.full(shape, value, value.dtype), nbytes)


def _full_of_array(
    shape: tuple[int, ...], value: object, dtype: DTypeLike | None, placement: Placement | None, operation: str
) -> Array:
    filled = call1(_fill, convert(value, dtype, None, None, operation, "fill_value"), shape)
    return filled if placement is None else convert(filled, None, placement, None, operation)


def full_like(
    x: ArrayLike,
    /,
    fill_value: Scalar | ArrayLike,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Array:
    """Return an Array of the shape of `x` that repeats one value.

    Parameters
    ----------
    x
        Gives the shape, and the dtype and device where they are not given.
    fill_value
        A Python scalar, or an array that broadcasts to the shape.
    dtype, device
        Default: those of `x`.

    Raises
    ------
    ScalarOverflow
        An integer does not fit the dtype.
    DTypeMismatch
        `dtype` is not given and that of `x` cannot hold the value: a complex number in a real array, 1.5 or NaN in
        an integer array.
    """
    data = _data(x, "full_like")
    traced = tracing.traced() or not isinstance(data, ArrayImpl | Lazy)
    if device is not None:
        placement = resolve(device, "full_like")
    else:
        placement = device_of(data) if not traced and data.committed else None
    if dtype is not None:
        found = as_dtype(dtype, "full_like", device=placement)
    else:
        found = data.dtype
        if isinstance(fill_value, float) and found in INTEGRAL and not fill_value.is_integer():
            raise DTypeMismatch(
                "full_like",
                "fill_value",
                got=f"{fill_value} for an array of dtype {found.name}",
                wanted="an integer",
                remedy="Give a dtype.",
            )
    if type(fill_value) not in _SCALARS:
        return _full_of_array(data.shape, fill_value, found, placement, "full_like")
    return _full(data.shape, fill_value, found, placement, "full_like")  # type: ignore[arg-type]


def linspace(
    start: int | float | complex | ArrayLike,
    stop: int | float | complex | ArrayLike,
    /,
    num: int,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    endpoint: bool = True,
) -> Array:
    """Return evenly spaced numbers over an interval.

    Parameters
    ----------
    start, stop
        Ends of the interval: numbers or 0-d arrays.
    num
        How many numbers.
    dtype
        Default: the default float, or the default complex dtype if an end is complex.
    device
        Where to create it.
    endpoint
        Whether `stop` is the last number. If not, the numbers are the first `num` of ``num + 1``.

    Returns
    -------
    Array
        Shape ``(num,)``. Both ends are exact.

    Raises
    ------
    InvalidArgument
        `num` is negative or not an integer.
    DTypeMismatch
        An end is complex and `dtype` is real.
    UnsupportedDType
        `dtype` is bool.
    """
    (count,) = as_shape(as_int(num, "linspace", "num"), "linspace", "num")
    placement = None if device is None else resolve(device, "linspace")
    ends = [end.item() if isinstance(end, np.generic) else end for end in (start, stop)]
    is_complex = any(isinstance(e, complex) or getattr(e, "dtype", bool_) in COMPLEX for e in ends)
    if dtype is not None:
        found = as_dtype(dtype, "linspace", device=placement)
    else:
        found = default_complex(placement) if is_complex else default_float(placement)
    if found == bool_ or (is_complex and found not in COMPLEX):
        wrong = UnsupportedDType if found == bool_ else DTypeMismatch
        raise wrong("linspace", "dtype", got=found.name, wanted="a complex dtype" if is_complex else "a real dtype")
    static = linspace_static(count, bool(endpoint), found)
    if all(type(e) in _SCALARS for e in ends):
        key = ("linspace", *scalar_key(ends[0]), *scalar_key(ends[1]), *static, placement, _settings.jax_default_device)  # type: ignore[arg-type, attr-defined]
        return interned(key, lambda: make_linspace(ends[0], ends[1], static, placement))  # type: ignore[arg-type]
    made = calln(linspace_op, [convert(e, None, None, None, "linspace", "start") for e in ends], static)
    return made if placement is None else convert(made, None, placement, None, "linspace")  # type: ignore[return-value]


def meshgrid(*arrays: ArrayLike, indexing: Literal["xy", "ij"] = "xy") -> tuple[Array, ...]:
    """Return coordinate matrices from coordinate vectors.

    Parameters
    ----------
    *arrays
        N arrays of one axis (or none), of sizes ``N1, N2, ...``; each keeps its dtype.
    indexing
        ``"ij"``: results of shape ``(N1, N2, N3, ...)``. ``"xy"``: of shape ``(N2, N1, N3, ...)``.

    Raises
    ------
    InvalidArgument
        Another `indexing`.
    InvalidDimension
        An array of two or more axes.
    """
    if indexing not in ("xy", "ij"):
        raise InvalidArgument(
            "meshgrid", "indexing", got=repr(indexing), wanted="'xy' or 'ij'", arg="indexing", reason="unknown"
        )
    return calln(_meshgrid, arrays, indexing) if arrays else ()  # type: ignore[return-value]


def ones(shape: Shape, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Array:
    """Return an Array of ones.

    Parameters
    ----------
    shape
        Size of each axis.
    dtype
        Default: the default float.
    device
        Where to create it.

    Raises
    ------
    InvalidArgument
        A size is negative or not an integer.
    """
    return _filled(1, shape, dtype, device, "ones")


def ones_like(x: ArrayLike, /, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Array:
    """Return an Array of ones of the shape of `x`.

    Parameters
    ----------
    x
        Gives the shape, and the dtype and device where they are not given.
    dtype, device
        Default: those of `x`.
    """
    return _filled_like(1, x, dtype, device, "ones_like")


def tril(x: ArrayLike, /, *, k: int = 0) -> Array:
    """Return the lower triangle of each matrix in the last two axes, with zeros above it.

    Parameters
    ----------
    x
        Shape ``(..., M, N)``.
    k
        The last diagonal that is kept: 0 the main one, positive above, negative below it.

    Raises
    ------
    InvalidDimension
        `x` has fewer than two axes.
    """
    return call1(_tril, x, k if type(k) is int else as_int(k, "tril", "k"))


def triu(x: ArrayLike, /, *, k: int = 0) -> Array:
    """Return the upper triangle of each matrix in the last two axes, with zeros below it.

    Parameters
    ----------
    x
        Shape ``(..., M, N)``.
    k
        The first diagonal that is kept: 0 the main one, positive above, negative below it.

    Raises
    ------
    InvalidDimension
        `x` has fewer than two axes.
    """
    return call1(_triu, x, k if type(k) is int else as_int(k, "triu", "k"))


def zeros(shape: Shape, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Array:
    """Return an Array of zeros.

    Parameters
    ----------
    shape
        Size of each axis.
    dtype
        Default: the default float.
    device
        Where to create it.

    Raises
    ------
    InvalidArgument
        A size is negative or not an integer.
    """
    return _filled(0, shape, dtype, device, "zeros")


def zeros_like(x: ArrayLike, /, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Array:
    """Return an Array of zeros of the shape of `x`.

    Parameters
    ----------
    x
        Gives the shape, and the dtype and device where they are not given.
    dtype, device
        Default: those of `x`.
    """
    return _filled_like(0, x, dtype, device, "zeros_like")
