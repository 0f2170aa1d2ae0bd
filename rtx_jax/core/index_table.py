"""What indexing keeps between calls: compiled functions by plan and shape, interned positions, counts of use.

On CPU a function is compiled only for what recurs: the first uses are served from the host's view of the array, which
costs about as much as a compiled call on a small array, and a compilation costs as much as a thousand of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, SingleDeviceSharding

from .._compat import X64_UNSET, ArrayImpl, place_like, restore_x64, swap_x64
from . import dtypes as _d

__all__ = [
    "Function",
    "Pair",
    "Planned",
    "Table",
    "clear",
    "hot_array_reads",
    "hot_array_writes",
    "hot_reads",
    "hot_writes",
    "limits",
    "local",
    "starts",
]

Function: TypeAlias = "Callable[..., jax.Array]"
Pair: TypeAlias = "tuple[Function, Function]"
"""One function without and with donation of its first operand."""
Planned: TypeAlias = "tuple[Function, Function, Sequence[object], bool]"
"""A pair, its operands after the array, and whether 64-bit types take part."""


@dataclass(slots=True)
class Limits:
    """When to compile, and how much to keep."""

    reads: int = 24
    """Uses of one key and shape that the host serves before it is compiled."""
    writes: int = 8
    shapes: int = 64
    """Compiled keys of one array shape and dtype, beyond which the host serves every new one."""
    write_bytes: int = 1 << 20
    """Largest array that the host writes: it copies all of it."""
    entries: int = 4096
    """Entries of each table; the oldest go first."""
    in_order: tuple[str, ...] = ("cpu",)
    """Platforms that apply scattered writes in order, so that the last of repeated ones wins."""


limits = Limits()

# Under these keys the fast paths find what was compiled: (shape, dtype) for one integer on the first axis,
# (count, shape, dtype) for a slice of it with step 1, (plan, shape, dtype) for tuples.
hot_reads: dict[Hashable, Function] = {}
hot_writes: dict[Hashable, Pair] = {}
# (shape and dtype of the index, shape and dtype of the array): an index array on the first axis, checked before.
hot_array_reads: dict[Hashable, tuple[Function, bool]] = {}
# The same, and masks of whole axes beside 0-d values: the pair, whether the index is 64-bit, whether it is a mask.
hot_array_writes: dict[Hashable, tuple[Pair, bool, bool]] = {}
# Shardings on the default device: their arrays take interned positions as uncommitted arrays do.
local: set[jax.sharding.Sharding] = set()

_E = TypeVar("_E", Function, Pair)
_K = TypeVar("_K")
_T = TypeVar("_T")

_INTERNED_STARTS = 4096
_place = jax.jit(lambda x: x)


class _Starts(dict[int, object]):
    """Positions as int32 operands: the small ones as interned arrays, the others as NumPy scalars."""

    def __missing__(self, position: int) -> object:
        host = np.int32(position)
        if position < _INTERNED_STARTS:
            array = _place(host)
            if type(array) is ArrayImpl:
                self[position] = array
                return array
        return host


starts = _Starts()


class Table(Generic[_E]):
    """Compiled functions of one kind (reads, or writes as pairs without and with donation)."""

    def __init__(self) -> None:
        self.functions: dict[Hashable, _E] = {}
        self.uses: dict[Hashable, int] = {}
        self.compiled: dict[Hashable, int] = {}
        _tables.append(self)

    def defer(self, key: Hashable, family: Hashable, uses: int) -> bool:
        """Count a use of something that is not compiled; True while it should be served in another way."""
        if uses <= 0:
            return False
        if self.compiled.get(family, 0) >= limits.shapes:
            return True
        seen = self.uses.get(key, 0) + 1
        if seen > uses:
            del self.uses[key]
            self.compiled[family] = self.compiled.get(family, 0) + 1
            return False
        if len(self.uses) >= limits.entries:
            self.uses.clear()
        self.uses[key] = seen
        return True

    def add(self, key: Hashable, entry: _E) -> None:
        """Keep what was compiled."""
        keep(self.functions, key, entry)

    def clear(self) -> None:
        """Forget everything."""
        for entry in self.functions.values():
            for function in entry if isinstance(entry, tuple) else (entry,):
                function.clear_cache()  # type: ignore[attr-defined]
        self.functions.clear()
        self.uses.clear()
        self.compiled.clear()


_tables: list[Table[Function] | Table[Pair]] = []


def keep(table: dict[Hashable, _T], key: Hashable, entry: _T) -> None:
    """Put an entry into a bounded table."""
    make_room(table, limits.entries)
    table[key] = entry


def make_room(table: dict[_K, _T], most: int) -> None:
    """Drop the oldest entry of a full table. Other threads may do so at the same time."""
    if len(table) >= most:
        try:
            table.pop(next(iter(table)), None)
        except (RuntimeError, StopIteration):
            table.clear()


def clear() -> None:
    """Forget every compiled index function, position and count of use."""
    for table in _tables:
        table.clear()
    for hot in (hot_reads, hot_writes, hot_array_reads, hot_array_writes):
        hot.clear()
    starts.clear()
    local.clear()


# --- where arrays are ------------------------------------------------------------------------------------------------


def is_fast(d: jax.Array) -> bool:
    """Tell whether the fast paths may serve this array: one default device, and positions that fit int32."""
    if any(size >= 2**31 for size in d.shape):
        return False
    if not d.committed:
        return True
    sharding = d.sharding
    if sharding in local:
        return True
    if type(sharding) is not SingleDeviceSharding or jax.config.jax_default_device is not None:  # type: ignore[attr-defined]
        return False
    if sharding.device_set != {jax.local_devices()[0]}:
        return False
    local.add(sharding)
    return True


def platform_of(d: jax.Array) -> str:
    """Return the platform of the array's devices."""
    device: jax.Device = next(iter(d.sharding.device_set))
    return str(device.platform)


def on_host(d: jax.Array) -> bool:
    """Tell whether NumPy can look at the array without a copy."""
    sharding = d.sharding
    return type(sharding) is SingleDeviceSharding and platform_of(d) == "cpu" and d.dtype not in _d.NARROW_INT


def same_place(d: jax.Array, arrays: Sequence[object]) -> bool:
    """Tell whether the host may serve these operands: none is committed to another device than `d`."""
    return not any(
        isinstance(a, jax.Array) and a.committed and a.sharding.device_set != d.sharding.device_set for a in arrays
    )


def on_one_device(d: jax.Array) -> bool:
    """Tell whether the array is not spread over devices."""
    return type(d.sharding) is SingleDeviceSharding


def applies_in_order(d: jax.Array) -> bool:
    """Tell whether the array's device applies scattered writes in order."""
    return platform_of(d) in limits.in_order


def is_explicit(d: jax.Array) -> bool:
    """Tell whether the array lies on a mesh with explicit axes, on which JAX does not slice sharded axes."""
    sharding = d.sharding
    return isinstance(sharding, NamedSharding) and AxisType.Explicit in sharding.mesh.axis_types


def as_automatic(d: jax.Array) -> jax.Array:
    """Return the same buffers on the same mesh with automatic axes."""
    sharding = d.sharding
    assert isinstance(sharding, NamedSharding)
    mesh = Mesh(sharding.mesh.devices, sharding.mesh.axis_names)
    moved: jax.Array = jax.device_put(d, NamedSharding(mesh, sharding.spec))
    return moved


def as_explicit(d: jax.Array, source: jax.Array) -> jax.Array:
    """Return the same buffers on the mesh of `source`, which has explicit axes."""
    assert isinstance(source.sharding, NamedSharding)
    spec = d.sharding.spec if isinstance(d.sharding, NamedSharding) else jax.sharding.PartitionSpec()
    moved: jax.Array = jax.device_put(d, NamedSharding(source.sharding.mesh, spec))
    return moved


def automatic_key(key: object) -> object:
    """Return a key or value with its arrays on automatic axes."""
    if type(key) is tuple:
        return tuple(automatic_key(part) for part in key)
    data = getattr(key, "_data", key)
    return as_automatic(data) if type(data) is ArrayImpl and is_explicit(data) else key


def around_explicit(write: Function) -> Function:
    """Return a write for an array on explicit axes, carried out on the same buffers with automatic ones."""

    def run(d: jax.Array, *operands: object) -> jax.Array:
        moved: jax.Array = jax.device_put(write(as_automatic(d), *operands), d.sharding)
        return moved

    return run


def keep_sharding(planned: Planned) -> Planned:
    """Return a write whose result is spread over devices as the array was."""

    def around(write: Function) -> Function:
        def run(d: jax.Array, *operands: object) -> jax.Array:
            sharding = d.sharding
            written = write(d, *operands)
            return written if written.sharding == sharding else jax.device_put(written, sharding)

        return run

    plain, donating, operands, wide = planned
    return around(plain), around(donating), operands, wide


# --- calls -----------------------------------------------------------------------------------------------------------


def call(function: Function, wide: bool, *operands: object) -> jax.Array:
    """Call a compiled function, with x64 on where 64-bit types take part."""
    if not wide:
        return function(*operands)
    previous = X64_UNSET
    try:
        previous = swap_x64(True)
        return function(*operands)
    finally:
        restore_x64(previous)


def start_operands(d: jax.Array, positions: Sequence[int]) -> list[object]:
    """Return positions as operands of one width."""
    if any(size >= 2**31 for size in d.shape):
        return [np.int64(position) for position in positions]
    if is_fast(d):
        return [starts[position] for position in positions]
    # An interned position would be moved to the array's device in every call.
    return [np.int32(position) for position in positions]


def compile_pair(function: Function) -> Pair:
    """Return a function compiled without and with donation of its first operand."""
    # An overwritten array is donated too, although nothing of it is read.
    return jax.jit(function), jax.jit(function, donate_argnums=0, keep_unused=True)


def read_on_host(d: jax.Array, parts: Sequence[object]) -> jax.Array:
    """Return ``d[parts]`` through NumPy, where `d` is."""
    view = np.asarray(d)
    host_parts = tuple(np.asarray(part) if isinstance(part, jax.Array) else part for part in parts)
    if len(host_parts) == 1 and isinstance(host_parts[0], np.ndarray):
        return place(np.take(view, host_parts[0], axis=0), d)
    return place(view[host_parts], d)  # type: ignore[index]


def place(found: object, d: jax.Array) -> jax.Array:
    """Put what NumPy read from the view of `d` where `d` is; copied unless it is memory of its own."""
    if not isinstance(found, np.ndarray) or not found.flags.owndata or not found.flags.c_contiguous:
        found = np.array(found, d.dtype, order="C")
    return place_like(found, d)


def write_on_host(parts: Sequence[object], ndim: int) -> Pair:
    """Return the function that writes through NumPy to a copy of the array; it never donates.

    `ndim` is the number of axes of the place that is written; leading axes of the value beyond it are dropped.
    """
    host_parts = tuple(np.asarray(part) if isinstance(part, jax.Array) else part for part in parts)

    def write(d: jax.Array, value: object) -> jax.Array:
        copied = np.array(d)
        host_value = np.asarray(value)
        if host_value.ndim > ndim:
            host_value = host_value.reshape(host_value.shape[host_value.ndim - ndim :])
        with np.errstate(all="ignore"):
            copied[host_parts] = host_value  # type: ignore[index]
        return place_like(copied, d)

    return write, write
