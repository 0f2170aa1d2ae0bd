"""What `asarray` does with each kind of object."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
from jax.core import Tracer

from .. import _interop
from .._array import Array, call1, calln, interned, wrap, wrap_shared
from .._compat import ArrayImpl
from ..core.devices import Placement, device_of, resolve
from ..core.devices import place as place_on
from ..core.dispatch import Op
from ..core.dtypes import (
    COMPLEX,
    INTEGRAL,
    KIND,
    DType,
    as_dtype,
    bool_,
    default_complex,
    default_float,
    default_int,
)
from ..core.handle import held, share
from ..core.lazy import Lazy
from ..core.op import no_numbers
from ..core.promotion import integer_range, result_dtype, scalar_dtype
from ..errors import DTypeMismatch, InvalidArgument, ShapeMismatch, UnsupportedDType
from ..raw import creation as raw_creation
from ..raw import manipulation as raw_manipulation
from ._host import check_dtype, host_cast, host_scalar, out_of_range, put, scalar_key

__all__ = ["convert", "scalar_default"]

_SCALARS = frozenset((bool, int, float, complex))
_cast = Op("asarray", raw_creation.cast, ("dtype",))
_stack = Op("asarray", raw_manipulation.stack, ("axis",))


def convert(
    obj: object, dtype: object, device: object, copy: bool | None, operation: str = "asarray", argument: str = "obj"
) -> Array:
    """Return `obj` as an Array; see `rtx_jax.asarray`."""
    placement = None if device is None else resolve(device, operation)
    wanted = None if dtype is None else as_dtype(dtype, operation, device=placement)
    kind = type(obj)
    if kind in _SCALARS:
        if copy is False:
            raise _needs_copy(operation, "a Python scalar")
        return _scalar(obj, wanted, placement, operation, argument)  # type: ignore[arg-type]
    if isinstance(obj, Array):
        return _array(obj, wanted, placement, copy, operation)
    if isinstance(obj, jax.Array):
        return _array(_jax_array(obj, copy), wanted, placement, None if copy else copy, operation)
    if isinstance(obj, (np.ndarray, np.generic)):
        return _host(obj, wanted, placement, copy, operation, argument)
    if isinstance(obj, (list, tuple, range)):
        if copy is False:
            raise _needs_copy(operation, "a sequence")
        return _sequence(obj, wanted, placement, operation, argument)
    return _foreign(obj, wanted, placement, copy, operation, argument)


def scalar_default(value: complex, placement: Placement | None) -> DType:
    """Return the default dtype for the kind of a Python scalar."""
    if isinstance(value, bool):
        return bool_
    if isinstance(value, int):
        return default_int(placement)
    return default_float(placement) if isinstance(value, float) else default_complex(placement)


def _needs_copy(operation: str, got: str) -> InvalidArgument:
    return InvalidArgument(
        operation,
        "copy",
        got=f"False with {got}",
        wanted="None or True",
        remedy="It cannot become an Array without a copy.",
        arg="copy",
        reason="a copy is needed",
    )


def _scalar(value: complex, dtype: DType | None, placement: Placement | None, operation: str, argument: str) -> Array:
    if dtype is None:
        dtype = scalar_default(value, placement)
    key = ("asarray", *scalar_key(value), dtype, placement, jax.config.jax_default_device)  # type: ignore[attr-defined]
    return interned(key, lambda: put(host_scalar(value, dtype, operation, argument), placement, operation))


def _array(x: Array, dtype: DType | None, placement: Placement | None, copy: bool | None, operation: str) -> Array:
    out = x
    if dtype is not None and dtype != x.dtype:
        if copy is False:
            raise _needs_copy(operation, f"dtype {x.dtype.name} for dtype {dtype.name}")
        if x.dtype in COMPLEX and dtype not in COMPLEX and dtype != bool_:
            raise DTypeMismatch(
                operation,
                "dtype",
                got=f"{dtype.name} for an array of dtype {x.dtype.name}",
                wanted="a complex dtype",
                remedy="Take xp.real or xp.abs first.",
            )
        out = call1(_cast, x, dtype)
    if placement is not None and not _is_on(out, placement):
        if copy is False:
            raise _needs_copy(operation, "an array on another device")
        out = wrap_shared(place_on(share(out), placement, operation))
    return x.copy() if out is x and copy else out


def _is_on(x: Array, placement: Placement) -> bool:
    data = x._data
    return isinstance(data, ArrayImpl | Lazy) and placement in (device_of(data), data.sharding)


def _jax_array(x: jax.Array, copy: bool | None) -> Array:
    if not isinstance(x.dtype, np.dtype):
        raise no_numbers("asarray", str(x.dtype))
    # Somebody else may donate the buffer, so a copy that was asked for is made now. A weak type does not enter.
    if copy or x.weak_type:
        copied = call1(_cast, x, x.dtype)
        held(copied)  # fusion has not copied it yet
        return copied
    return wrap_shared(x)


def _host(
    obj: np.ndarray | np.generic,
    dtype: DType | None,
    placement: Placement | None,
    copy: bool | None,
    operation: str,
    argument: str,
) -> Array:
    if copy is False:
        raise _needs_copy(operation, "host memory, which its owner can write to later")
    check_dtype(obj.dtype, operation, argument)
    native = obj.dtype.newbyteorder("=")
    # The copy is what makes it private: JAX reads host memory after the call has returned.
    host = np.array(obj, native, order="C")
    return wrap(put(host if dtype is None else host_cast(host, dtype, operation, argument), placement, operation))


def _foreign(
    obj: object, dtype: DType | None, placement: Placement | None, copy: bool | None, operation: str, argument: str
) -> Array:
    inner = getattr(obj, "__jax_array__", None)
    if inner is not None:
        return _array(_jax_array(inner(), copy), dtype, placement, None if copy else copy, operation)
    if hasattr(obj, "__dlpack__") and hasattr(obj, "__dlpack_device__"):
        try:
            data, alone = _interop.from_dlpack(obj, copy=copy)
        except (BufferError, TypeError):
            # A dtype or layout that DLPack cannot tell; the other protocol may.
            if not hasattr(obj, "__array__"):
                raise
        else:
            return _array(wrap(data) if alone else wrap_shared(data), dtype, placement, None, operation)
    if hasattr(obj, "__array__"):
        return _host(np.asarray(obj), dtype, placement, copy, operation, argument)
    if isinstance(obj, (int, float, complex)):  # a subclass of Python's numbers, such as IntEnum
        plain = int(obj) if isinstance(obj, int) else float(obj) if isinstance(obj, float) else complex(obj)
        return convert(plain, dtype, placement, copy, operation, argument)
    if not isinstance(obj, str):
        try:
            view = memoryview(obj)  # type: ignore[arg-type]
        except TypeError:
            pass
        else:
            return _host(np.asarray(view), dtype, placement, copy, operation, argument)
        if isinstance(obj, Sequence) or (
            hasattr(obj, "__len__") and hasattr(obj, "__getitem__") and not hasattr(obj, "keys")
        ):
            return convert(list(obj), dtype, placement, copy, operation, argument)  # type: ignore[call-overload]
    raise UnsupportedDType(
        operation,
        argument,
        got=f"an object of type {type(obj).__name__}",
        wanted="an array, a number, a nested sequence of these, a buffer or a DLPack object",
        dtype=type(obj).__name__,
        op=operation,
    )


# --- sequences ----------------------------------------------------------------------------------------------------


def _sequence(
    obj: list[object] | tuple[object, ...] | range,
    dtype: DType | None,
    placement: Placement | None,
    operation: str,
    argument: str,
) -> Array:
    kinds: set[type] = set()
    _collect(obj, kinds)
    if any(issubclass(kind, (Array, ArrayImpl, Tracer)) for kind in kinds):
        if dtype is None:
            dtype = _joint_dtype(obj)
        return _array(_join(obj, dtype, operation, argument), None, placement, None, operation)
    if kinds <= _SCALARS:
        host = _numbers(obj, kinds, dtype, placement, operation, argument)
    else:
        host = _mixed(obj, kinds, dtype, operation, argument)
    return wrap(put(host, placement, operation))


def _collect(obj: Sequence[object], kinds: set[type]) -> None:
    """Add the types of the leaves of a nested sequence."""
    found = {int} if isinstance(obj, range) else set(map(type, obj))
    nested = tuple(kind for kind in found if issubclass(kind, (list, tuple, range)))
    kinds.update(found.difference(nested))
    if nested:
        for part in obj:
            if isinstance(part, nested):
                _collect(part, kinds)


def _to_numpy(obj: object, dtype: DType | None, operation: str, argument: str) -> np.ndarray:
    try:
        return np.array(obj, dtype)
    except OverflowError as error:
        raise out_of_range(str(error), dtype or np.dtype(np.int64), operation, argument) from error
    except ValueError as error:
        raise ShapeMismatch(
            operation,
            argument,
            got="a ragged nested sequence",
            wanted="rows of equal length",
            remedy=str(error),
            expected=None,
            got_shape=None,
        ) from error


def _numbers(
    obj: object, kinds: set[type], dtype: DType | None, placement: Placement | None, operation: str, argument: str
) -> np.ndarray:
    """Return nested Python numbers as private host memory."""
    if complex in kinds:
        target = dtype or default_complex(placement)
        host = _to_numpy(obj, np.dtype(np.complex128), operation, argument)
    elif float in kinds or not kinds:
        target = dtype or default_float(placement)
        host = _to_numpy(obj, np.dtype(np.float64), operation, argument)
    elif int in kinds:
        target = dtype or default_int(placement)
        if target not in INTEGRAL:
            host = _to_numpy(obj, np.dtype(np.float64) if target != bool_ else bool_, operation, argument)
        else:
            # NumPy makes uint64, float64 or objects of integers that do not fit int64, according to their signs.
            host = _to_numpy(obj, None, operation, argument)
            if host.dtype.kind not in "bi":
                host = _to_numpy(obj, target if target.itemsize == 8 else None, operation, argument)
            least, greatest = integer_range(target)
            for extreme in (host.min(initial=0), host.max(initial=0)):
                if not least <= extreme <= greatest:
                    raise out_of_range(extreme, target, operation, argument)
    else:
        target = dtype or bool_
        host = _to_numpy(obj, bool_, operation, argument)
    return host_cast(host, target, operation, argument)


def _mixed(obj: object, kinds: set[type], dtype: DType | None, operation: str, argument: str) -> np.ndarray:
    """Return a nested sequence that holds NumPy's scalars and arrays, or anything that NumPy reads."""
    host = _to_numpy(obj, None, operation, argument)
    check_dtype(host.dtype, operation, argument)
    host = host.astype(host.dtype.newbyteorder("="), copy=False)
    numpy_kinds = [kind for kind in kinds if issubclass(kind, np.generic)]
    if dtype is None and len(numpy_kinds) < len(kinds) and kinds <= _SCALARS.union(numpy_kinds):
        # Python's numbers do not widen those that have a dtype.
        dtype = result_dtype(*[np.dtype(kind) for kind in numpy_kinds])
        for kind in (bool, int, float, complex):
            if kind in kinds:
                dtype = scalar_dtype(kind(0), dtype)
        if dtype in INTEGRAL and host.dtype in INTEGRAL and host.size:
            least, greatest = integer_range(dtype)
            for extreme in (int(host.min()), int(host.max())):
                if not least <= extreme <= greatest:
                    raise out_of_range(extreme, dtype, operation, argument)
    return host if dtype is None else host_cast(host, dtype, operation, argument)


def _joint_dtype(obj: Sequence[object]) -> DType:
    """Return the dtype of a nested sequence that holds Arrays; Python's numbers do not widen it."""
    dtypes: list[DType] = []
    scalars: list[complex] = []

    def walk(part: object) -> None:
        if isinstance(part, (list, tuple, range)):
            for inner in part:
                walk(inner)
        elif type(part) in _SCALARS:
            scalars.append(part)  # type: ignore[arg-type]
        else:
            dtypes.append(part.dtype if hasattr(part, "dtype") else np.asarray(part).dtype)

    walk(obj)
    out = result_dtype(*dtypes)
    for scalar in scalars:
        out = scalar_dtype(scalar, out)
    return out


def _join(obj: object, dtype: DType, operation: str, argument: str) -> Array:
    if not isinstance(obj, (list, tuple, range)):
        return convert(obj, dtype if dtype in KIND else None, None, None, operation, argument)
    if not obj:
        return convert(np.empty(0, dtype), None, None, None, operation, argument)
    return calln(_stack, [_join(part, dtype, operation, argument) for part in obj], 0)  # type: ignore[return-value]
