"""Keys that the caller holds, and what ``key=``, ``size=``, ``dtype=`` and ``device=`` mean."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from .._array import Array, calln, wrap
from .._compat import ArrayImpl, restore_x64, swap_x64
from ..core import random as _core
from ..core.axes import as_shape
from ..core.devices import Placement, place
from ..core.dispatch import Op, raise_translated
from ..core.dtypes import as_dtype, bfloat16, default_float, default_int, float16, float32, float64, isdtype
from ..core.handle import data_of, tracing
from ..core.host import scalar_operand
from ..errors import InvalidArgument, UnsupportedDType

__all__ = [
    "HasStream",
    "Key",
    "Parameter",
    "Size",
    "Source",
    "draw",
    "fold_in",
    "integer_dtype",
    "key",
    "parameter",
    "real_dtype",
    "seed",
    "shape_of",
    "split",
    "typed_key",
]


Key: TypeAlias = "jax.Array | np.ndarray | Array"
"""A typed key of `jax.random` (of any implementation), or ``uint32[2]`` data of a threefry2x32 key."""


class HasStream(Protocol):
    """A generator: what ``key=`` takes beside a key."""

    @property
    def _stream(self) -> _core.Stream: ...


Parameter: TypeAlias = "float | Array | jax.Array | np.ndarray"
"""A parameter of a distribution; parameters broadcast together."""

Size: TypeAlias = "int | tuple[int, ...] | None"
"""The shape of a draw; None means the broadcast shape of the parameters."""

_REAL = (float32, float64, float16, bfloat16)


def key(seed: int | None = None, /) -> jax.Array:
    """Return a key, as `jax.random.key` makes it, for ``key=`` here and for `jax.random`.

    Parameters
    ----------
    seed
        0 to 2**64 - 1, all 64 bits count; None takes one from the operating system.

    Raises
    ------
    InvalidArgument
        The seed is out of range.
    """
    return _core.wrap_key(_core.seed_data(seed))


def split(key: Key, num: int = 2, /) -> jax.Array:
    """Return `num` new keys, as an array of keys; `key` is used up."""
    with jax.threefry_partitionable(True):
        return jax.random.split(typed_key(key, "split"), num)


def fold_in(key: Key, data: int | Array | jax.Array, /) -> jax.Array:
    """Return a new key that depends on `key` and on `data`, an integer from 0 to 2**32 - 1."""
    step = data_of(data) if isinstance(data, Array) else data
    if isinstance(step, int):
        if not 0 <= step < 2**32:
            raise InvalidArgument(
                "fold_in", "data", got=step, wanted="0 to 2**32 - 1", arg="data", reason="out of range"
            )
        step = np.uint32(step)  # type: ignore[assignment]
    with jax.threefry_partitionable(True):
        return jax.random.fold_in(typed_key(key, "fold_in"), step)


def seed(seed: int | None = None, /) -> None:
    """Start the global generator anew; it serves the draws that name no generator and no key."""
    _core.global_stream.seed(seed)


def typed_key(key: Key, operation: str) -> jax.Array:
    """Return a typed key for one draw."""
    data = data_of(key) if isinstance(key, Array) else key
    if isinstance(data, jax.Array) and jax.dtypes.issubdtype(data.dtype, jax.dtypes.prng_key):  # type: ignore[attr-defined]
        typed = data
    elif isinstance(data, jax.Array | np.ndarray) and data.dtype == np.uint32 and data.shape[-1:] == (2,):
        typed = _core.wrap_key(data)
    else:
        raise InvalidArgument(
            operation,
            "key",
            got=f"{getattr(key, 'dtype', type(key).__name__)}",
            wanted="a key of rtx_jax.random.key or jax.random.key, or uint32[2]",
            arg="key",
            reason="not a key",
        )
    if typed.ndim:
        raise InvalidArgument(
            operation,
            "key",
            got=f"an array of keys of shape {typed.shape}",
            wanted="one key",
            remedy="Draw for each with vmap.",
            arg="key",
            reason="several keys",
        )
    return typed


class Source:
    """Where a draw takes its bits from: an explicit key, or the next key of a stream."""

    __slots__ = ("data", "impl", "step")

    def __init__(self, key: Key | HasStream | None, operation: str) -> None:
        self.impl: object = None
        self.step = 0
        self.data: jax.Array | np.ndarray
        stream = _core.global_stream.get() if key is None else getattr(key, "_stream", None)
        if stream is not None:
            self.data, self.step = stream.next(operation)
        else:
            typed = typed_key(key, operation)  # type: ignore[arg-type]
            self.data, self.impl = jax.random.key_data(typed), jax.random.key_impl(typed)


def draw(
    op: Op,
    source: Source,
    parameters: tuple[Array | jax.Array | np.ndarray, ...],
    static: tuple[object, ...],
    placement: Placement | None,
) -> Array:
    """Run a draw where its result is wanted.

    The bits are made on the devices of the result, so nothing travels; a draw of a sharded result gives the same
    values as a draw of one that is not.
    """
    data: jax.Array | np.ndarray | Array = source.data
    sharding = None
    if isinstance(placement, NamedSharding):
        sharding = placement
        placement = NamedSharding(sharding.mesh, PartitionSpec())
    if placement is not None:
        data = place(_core.device_data(data), placement, op.name)  # type: ignore[arg-type]
    operands = (data, np.uint32(source.step), *parameters)
    fixed = (source.impl, sharding, *static)
    if tracing.active or not all(type(x) is ArrayImpl or type(x) is np.uint32 for x in operands):
        result: Array = calln(op, operands, fixed)  # type: ignore[assignment]
        return result
    # The doors copy what comes from the host; the step and the interned parameters are our own.
    compiled, wide = op.cache.get(fixed) or op.build(fixed)
    previous = swap_x64(True) if wide else None
    try:
        drawn = compiled(*operands)
    except Exception as error:
        raise_translated(op.name, error)
    finally:
        if wide:
            restore_x64(previous)
    return wrap(drawn)  # type: ignore[arg-type]


def real_dtype(dtype: object, placement: Placement | None, operation: str) -> np.dtype:
    """Return the floating-point dtype of a draw; the device's default when None."""
    if dtype is None:
        return default_float(placement)
    found = as_dtype(dtype, operation, "dtype", placement)
    if found not in _REAL:
        raise UnsupportedDType(
            operation,
            "dtype",
            got=found,
            wanted="float64, float32, float16 or bfloat16",
            remedy="Cast the result with astype.",
            dtype=found,
            op=operation,
        )
    return found


def integer_dtype(dtype: object, placement: Placement | None, operation: str) -> np.dtype:
    """Return the integer dtype of a draw; the device's default when None."""
    if dtype is None:
        return default_int(placement)
    found = as_dtype(dtype, operation, "dtype", placement)
    if not isdtype(found, "integral") or found.itemsize * 8 != np.iinfo(found).bits:
        raise UnsupportedDType(operation, "dtype", got=found, wanted="an integer dtype", dtype=found, op=operation)
    return found


def shape_of(size: Size, operation: str) -> tuple[int, ...] | None:
    """Return ``size=`` as a shape, or None."""
    return None if size is None else as_shape(size, operation, "size")


def parameter(
    value: Parameter, dtype: np.dtype, operation: str, name: str, low: float | None = None
) -> Array | jax.Array | np.ndarray:
    """Return a parameter as an operand; host values are checked against `low` and brought to `dtype`.

    Arrays on a device are not read: a value out of the domain gives NaN there.
    """
    if isinstance(value, Array | jax.Array):
        return value
    if low is None and type(value) in (int, float):
        return scalar_operand(value, dtype)[0]  # type: ignore[arg-type]
    host = np.asarray(value)
    if host.dtype.kind not in "biuf":
        raise UnsupportedDType(operation, name, got=host.dtype, wanted="real numbers", dtype=host.dtype, op=operation)
    if low is not None and not np.all(host >= low):
        raise InvalidArgument(
            operation, name, got=repr(value), wanted=f"at least {low:g}", arg=name, reason="out of the domain"
        )
    return scalar_operand(float(host), dtype)[0] if host.ndim == 0 else host.astype(dtype)
