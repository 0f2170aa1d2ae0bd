"""What Array needs for NumPy and DLPack; the methods of Array call these functions.

One rule about memory: nobody writes through, and no write is lost in silence. Host memory that comes in is copied; on
the CPU a DLPack export is a private copy unless the consumer asks for ``copy=False``, because a consumer such as torch
writes into what it gets and the buffer of an Array may be shared by several handles. NumPy's view (``np.asarray(x)``)
costs nothing and is read-only, so that code which writes its results there raises instead of leaving `x` as it was.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable

import jax
import numpy as np
from jax.core import Tracer

from ._compat import x64
from .core.devices import Placement, default_device, device_name, device_of, devices, place, platform_of, resolve
from .core.dispatch import given_away
from .core.dispatch import place as place_host
from .core.dtypes import WIDE
from .core.handle import INTERNED, Handle, data_of, share
from .errors import ConcretizationError, DTypeMismatch, InvalidArgument, NotContiguous, NotImplementedOp

__all__ = [
    "REDUCTIONS",
    "UFUNCS",
    "array_ufunc",
    "copy_now",
    "dlpack",
    "dlpack_device",
    "from_dlpack",
    "to_numpy",
    "values",
]

UFUNCS: dict[np.ufunc, Callable[..., object]] = {}
"""The function of the namespace for each ufunc of NumPy; `rtx_jax.namespace.ufuncs` fills it."""

REDUCTIONS: dict[np.ufunc, Callable[..., object]] = {}
"""The function for ``ufunc.reduce``, with the standard's ``axis`` and ``keepdims``."""

_CPU, _PINNED_HOSTS = 1, (3, 11)  # DLPack's device types: kDLCPU, kDLCUDAHost and kDLROCMHost
_copy = jax.jit(lambda x: x)


# --- NumPy --------------------------------------------------------------------------------------------------------


def to_numpy(h: Handle, dtype: np.dtype | None = None, copy: builtins.bool | None = None) -> np.ndarray:
    """Return the values as a NumPy array, for ``Array.__array__``.

    Parameters
    ----------
    h
        The Array.
    dtype
        Cast to it with NumPy's rules.
    copy
        None: a read-only view of the buffer where it is host memory and keeps its dtype, else a copy. True: a
        writable copy. False: the view or an error.

    Raises
    ------
    ConcretizationError
        The values are not known while tracing.
    InvalidArgument
        ``copy=False`` and a copy is needed.
    """
    data = _concrete(h, "__array__")
    if copy is False:
        if not _on_host(data) or len(data.sharding.device_set) > 1:
            raise _must_copy("__array__", f"an Array on {device_name(data.sharding)}")
        if dtype is not None and np.dtype(dtype) != data.dtype:
            raise _must_copy("__array__", f"dtype {data.dtype} for dtype {np.dtype(dtype)}")
    host = np.asarray(data)
    if copy:
        return np.array(host, dtype, order="C")
    return host if dtype is None or np.dtype(dtype) == host.dtype else host.astype(dtype)


def values(h: Handle, operation: str) -> np.ndarray:
    """Return NumPy's view of the values.

    Raises
    ------
    ConcretizationError
        They are not known while tracing.
    UseAfterMove
        The buffer was donated.
    """
    return np.asarray(_concrete(h, operation))


def _concrete(h: Handle, operation: str) -> jax.Array:
    data = data_of(h)
    if isinstance(data, Tracer):
        raise ConcretizationError(
            operation,
            got="an Array whose values are not known while tracing",
            wanted="an Array outside of the traced function",
            remedy="Use where, cond or while_loop, or compute it outside of the traced function.",
        )
    if data.is_deleted():
        raise given_away(operation)
    return data


def _on_host(data: jax.Array) -> builtins.bool:
    return all(platform_of(device) == "cpu" for device in data.sharding.device_set)


def _must_copy(operation: str, got: str) -> InvalidArgument:
    return InvalidArgument(
        operation,
        "copy",
        got=f"False with {got}",
        wanted="None or True",
        remedy="It cannot be had without a copy.",
        arg="copy",
        reason="a copy is needed",
    )


# --- DLPack -------------------------------------------------------------------------------------------------------


def dlpack_device(h: Handle) -> tuple[int, int]:
    """Return DLPack's (device type, number), for ``Array.__dlpack_device__``; host memory is (kDLCPU, 0)."""
    data = _concrete(h, "__dlpack_device__")
    if _on_host(data):
        return _CPU, 0
    kind, number = data.__dlpack_device__()  # type: ignore[attr-defined]
    return int(kind), int(number)


def dlpack(
    h: Handle,
    *,
    stream: object = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: builtins.bool | None = None,
) -> object:
    """Return a DLPack capsule, for ``Array.__dlpack__``.

    Parameters
    ----------
    h
        The Array.
    stream
        The consumer's stream, on devices that have streams; None for host memory.
    max_version
        The newest DLPack version that the consumer reads. From (1, 0) on, memory that may not be written is marked
        read-only.
    dl_device
        Where the consumer wants it: None, the Array's own device or (kDLCPU, 0).
    copy
        None: a private copy for host memory, the buffer itself on other devices. True: always a copy. False: the
        buffer itself; the consumer must not write to it.

    Raises
    ------
    NotContiguous
        (a BufferError) The memory cannot be had there, in this dtype or without a copy.
    """
    data = _concrete(h, "__dlpack__")
    here = dlpack_device(h)
    wanted = here if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
    if here[0] == _CPU or wanted[0] == _CPU:
        if wanted != (_CPU, 0):
            raise _no_export("dl_device", f"{wanted} for an Array on {device_name(data.sharding)}", "None or (1, 0)")
        if stream is not None:
            raise _no_export("stream", repr(stream), "None for host memory")
        return _host_capsule(h, data, max_version, copy, moved=here[0] != _CPU)
    if wanted != here:
        raise _no_export("dl_device", f"{wanted} for an Array on {device_name(data.sharding)}", f"{here} or (1, 0)")
    exported = copy_now(data) if copy else _exclusive(h)
    capsule: object = exported.__dlpack__(stream=stream, max_version=max_version)  # type: ignore[call-arg]
    return capsule


def _host_capsule(
    h: Handle, data: jax.Array, max_version: tuple[int, int] | None, copy: builtins.bool | None, moved: builtins.bool
) -> object:
    if copy is False and (moved or len(data.sharding.device_set) > 1):
        raise _no_export("copy", f"False for an Array on {device_name(data.sharding)}", "None or True")
    versioned = max_version is not None and max_version[0] >= 1
    try:
        if data.dtype.type.__module__ != "numpy" or (copy is False and not versioned):
            # NumPy exports neither ml_dtypes nor read-only memory without a version; JAX exports both.
            exported = _exclusive(h) if copy is False else jax.device_put(np.array(np.asarray(data)))
            # JAX refuses to be asked for less than version 0.5, and gives its oldest format when it is not asked.
            return exported.__dlpack__(max_version=max_version if versioned else None)  # type: ignore[call-arg]
        if copy is False:
            _exclusive(h)
            return np.asarray(data_of(h)).__dlpack__(max_version=max_version, copy=False)
        return np.asarray(data).__dlpack__(max_version=max_version, copy=True)
    except jax.errors.JaxRuntimeError as error:
        raise _no_export("x", f"dtype {data.dtype}", "a dtype that DLPack has") from error


def _exclusive(h: Handle) -> jax.Array:
    """Return the buffer for somebody else to keep; never that of a cached constant."""
    if h._owned is INTERNED:
        h._data = copy_now(data_of(h))
        h._owned = False
    return share(h)


def copy_now(data: jax.Array) -> jax.Array:
    """Return a buffer of its own with the same values, once they are there."""
    with x64(data.dtype in WIDE):
        copied: jax.Array = _copy(data)
        return copied.block_until_ready()


def _no_export(argument: str, got: str, wanted: str) -> NotContiguous:
    return NotContiguous("__dlpack__", argument, got=got, wanted=wanted)


def from_dlpack(
    x: object, /, *, device: object = None, copy: builtins.bool | None = None
) -> tuple[jax.Array, builtins.bool]:
    """Return the values of `x` as a raw array, and whether the array is ours alone.

    Parameters
    ----------
    x
        An Array, or any object with ``__dlpack__`` and ``__dlpack_device__``. A read-only source is welcome.
    device
        Where the result is placed; None: where `x` is. Host memory then goes to the CPU, and is committed there
        when that is not the default device.
    copy
        None: host memory is copied, other memory is shared. True: always a copy. False: never; then `x` must be on
        a device, or be an Array or ``jax.Array``.

    Raises
    ------
    InvalidArgument
        ``copy=False`` and a copy is needed.
    AttributeError, BufferError
        From `x`, when it cannot be exported.
    """
    placement = resolve(device, "from_dlpack")
    if isinstance(x, Handle):
        x = share(x)
    if isinstance(x, jax.Array):
        return _placed(x, placement, copy)
    kind = int(x.__dlpack_device__()[0])  # type: ignore[attr-defined]
    if kind == _CPU or kind in _PINNED_HOSTS:
        if copy is False:
            raise _must_copy("from_dlpack", "host memory of another library, which it could write to later")
        return _from_host(x, placement), True
    with x64():
        return _placed(jax.dlpack.from_dlpack(x), placement, copy)


def _placed(
    data: jax.Array, placement: Placement | None, copy: builtins.bool | None
) -> tuple[jax.Array, builtins.bool]:
    moves = placement is not None and placement not in (data.sharding, device_of(data))
    if copy is False and moves:
        raise _must_copy("from_dlpack", f"an array on {device_name(data.sharding)}")
    if copy:
        data = copy_now(data)
    if placement is not None:
        data = place(data, placement, "from_dlpack")
    return data, builtins.bool(copy)


def _from_host(x: object, placement: Placement | None) -> jax.Array:
    try:
        view = np.from_dlpack(x)  # type: ignore[arg-type]
    except (BufferError, RuntimeError):
        # bfloat16 and the 8-bit floats: JAX reads them. Its array aliases the memory of `x`, so it is copied.
        host = np.array(np.asarray(jax.dlpack.from_dlpack(x)))
    else:
        host = np.array(view, order="C")
    if placement is None:
        if default_device().platform == "cpu":
            return place_host(host)
        placement = next(device for device in devices() if device.platform == "cpu")
    with x64(host.dtype in WIDE):
        placed: jax.Array = jax.device_put(host, placement)
        return placed


# --- ufuncs -------------------------------------------------------------------------------------------------------


def array_ufunc(h: Handle, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object) -> object:
    """Run a NumPy ufunc on Arrays, for ``Array.__array_ufunc__``.

    Parameters
    ----------
    h
        The Array that NumPy asked.
    ufunc, method
        ``np.add`` and the like; ``"__call__"``, ``"reduce"``, ``"accumulate"`` (of add and multiply) or ``"outer"``.
    *inputs
        The operands: Arrays, NumPy arrays, scalars. The result is an Array, whatever they are.
    **kwargs
        NumPy's: ``out`` (an Array or ndarray, written in place), ``where``, ``dtype``; ``axis`` and ``keepdims`` of
        reductions.

    Raises
    ------
    NotImplementedOp
        No function here does this; nothing is computed on the host in silence.
    """
    where, dtype, out = kwargs.pop("where", True), kwargs.pop("dtype", None), kwargs.pop("out", None)
    targets: tuple[object, ...] = out if isinstance(out, tuple) else (out,)
    if kwargs.get("casting", "same_kind") == "same_kind":
        kwargs.pop("casting", None)
    if method == "__call__" and not kwargs and ufunc in UFUNCS:
        result = UFUNCS[ufunc](*_cast(h, inputs, dtype))
    elif method == "outer" and not kwargs and ufunc in UFUNCS and ufunc.nin == 2:
        a, b = _cast(h, inputs, dtype)
        result = UFUNCS[ufunc](_trailing_axes(h, a, np.ndim(b)), b)  # type: ignore[arg-type]
    elif method == "reduce" and ufunc in REDUCTIONS and where is True and kwargs.keys() <= {"axis", "keepdims"}:
        # NumPy reduces the first axis when none is given.
        options = {"axis": kwargs.get("axis", 0), "keepdims": builtins.bool(kwargs.get("keepdims", False))}
        if dtype is not None and ufunc not in (np.logical_and, np.logical_or):
            options["dtype"] = np.dtype(dtype)  # type: ignore[call-overload]
        result = REDUCTIONS[ufunc](inputs[0], **options)
    elif method == "accumulate" and ufunc in (np.add, np.multiply) and where is True and kwargs.keys() <= {"axis"}:
        result = _accumulate(h, ufunc, inputs[0], kwargs.get("axis", 0), dtype)
    else:
        raise _no_ufunc(ufunc, method, kwargs)
    if where is not True:
        result = _masked(h, ufunc, where, result, targets)
    if all(target is None for target in targets):
        return result
    results = result if isinstance(result, tuple) else (result,)
    written = tuple(_write(r, t, ufunc) for r, t in zip(results, targets, strict=True))
    return written if len(written) > 1 else written[0]


def _no_ufunc(ufunc: np.ufunc, method: str, kwargs: dict[str, object]) -> NotImplementedOp:
    name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
    options = f" with {', '.join(kwargs)}" if kwargs else ""
    return NotImplementedOp(
        f"numpy.{name}",
        got=f"an Array{options}",
        wanted="a ufunc that has a function in rtx_jax",
        remedy="Convert with numpy.asarray to compute on the host.",
        feature=f"numpy.{name}",
    )


def _cast(h: Handle, inputs: tuple[object, ...], dtype: object) -> tuple[object, ...]:
    if dtype is None:
        return inputs
    xp = h.__array_namespace__()  # type: ignore[attr-defined]
    return tuple(xp.asarray(x, dtype=np.dtype(dtype)) for x in inputs)  # type: ignore[call-overload]


def _trailing_axes(h: Handle, a: object, count: int) -> object:
    xp = h.__array_namespace__()  # type: ignore[attr-defined]
    array = xp.asarray(a)
    return xp.reshape(array, array.shape + (1,) * count)


def _accumulate(h: Handle, ufunc: np.ufunc, x: object, axis: object, dtype: object) -> object:
    xp = h.__array_namespace__()  # type: ignore[attr-defined]
    function = xp.cumulative_sum if ufunc is np.add else xp.cumulative_prod
    wanted = None if dtype is None else np.dtype(dtype)  # type: ignore[call-overload]
    return function(x, axis=axis, dtype=wanted)


def _masked(h: Handle, ufunc: np.ufunc, where: object, result: object, targets: tuple[object, ...]) -> object:
    if isinstance(result, tuple) or targets[0] is None:
        raise InvalidArgument(
            f"numpy.{ufunc.__name__}",
            "where",
            got="a mask without out",
            wanted="out, whose values stay where the mask is False",
            arg="where",
            reason="the other elements would have no value",
        )
    xp = h.__array_namespace__()  # type: ignore[attr-defined]
    return xp.where(xp.asarray(where), result, xp.asarray(targets[0]))


def _write(result: object, target: object, ufunc: np.ufunc) -> object:
    """Write a result into the caller's `out` and return that; same-kind casts only."""
    if target is None:
        return result
    name = f"numpy.{ufunc.__name__}"
    shape, dtype = result.shape, result.dtype  # type: ignore[attr-defined]
    found: tuple[int, ...] = target.shape  # type: ignore[attr-defined]
    if found != shape:
        raise InvalidArgument(name, "out", got=f"shape {found}", wanted=f"shape {shape}", arg="out", reason="shape")
    if isinstance(target, np.ndarray):
        if not np.can_cast(dtype, target.dtype, "same_kind"):
            raise DTypeMismatch(name, "out", got=f"dtype {target.dtype}", wanted=f"a dtype that takes {dtype}")
        np.copyto(target, np.asarray(result), casting="same_kind")
    else:
        target[...] = result  # type: ignore[index]
    return target
