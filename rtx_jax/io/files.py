"""`save` and `load`."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias, overload

import jax
import numpy as np
from jax.sharding import Sharding

from .._array import Array, wrap
from .._compat import x64
from ..core.devices import DeviceLike, Placement, place, resolve
from ..core.dtypes import KIND, WIDE
from ..core.handle import data_of
from ..core.host import place as place_host
from ..errors import ConcretizationError, FormatError, InvalidArgument, UnsupportedDType
from . import numpy_format, safetensors_format
from .shardings import read_sharding, write_sharding

__all__ = ["load", "save"]

Storable: TypeAlias = Array | jax.Array | np.ndarray | np.generic
Path_: TypeAlias = str | os.PathLike[str]

_ONE, _MANY = (".npy",), (".npz", ".safetensors")


def save(path: Path_, arrays: Storable | Mapping[str, Storable], /, *, compressed: bool = False) -> None:
    """Write an array, or a mapping of names to arrays, to a file.

    Parameters
    ----------
    path
        Its suffix is the format: ``.npy`` (one array), ``.npz`` or ``.safetensors`` (a mapping).
    arrays
        Arrays of any dtype that the format has. An array over several devices is gathered, and its sharding kept.
    compressed
        Compress, ``.npz`` only.

    Raises
    ------
    InvalidArgument
        The suffix is none of these, or does not fit what is saved.
    UnsupportedDType
        The format has no such dtype (safetensors: complex128 and some 8-bit floats).
    OSError
        The file cannot be written (no room, no permission, no such folder); what was there before is unchanged.
    """
    target = Path(path)
    suffix = _suffix(target, "save")
    if compressed and suffix != ".npz":
        raise InvalidArgument(
            "save", "compressed", got=f"True for {suffix}", wanted=".npz", arg="compressed", reason="not compressible"
        )
    if isinstance(arrays, Mapping) != (suffix in _MANY):
        wanted = "a mapping of names to arrays" if suffix in _MANY else "one array"
        raise InvalidArgument(
            "save", "arrays", got=type(arrays).__name__, wanted=f"{wanted} for {suffix}", arg="arrays", reason="kind"
        )
    if isinstance(arrays, Mapping):
        named = {}
        for name, array in arrays.items():
            if not isinstance(name, str) or not name:
                raise InvalidArgument(
                    "save", "arrays", got=f"the name {name!r}", wanted="names", arg="arrays", reason="not a name"
                )
            named[name] = _host(array, name)
        if suffix == ".npz":
            _write_atomic(target, lambda f: numpy_format.write_npz(f, named, compressed))
        else:
            parts = safetensors_format.layout(named)
            _write_atomic(target, lambda f: safetensors_format.write(f, parts))
    else:
        host, record = _host(arrays, "arrays")
        _write_atomic(target, lambda f: numpy_format.write_npy(f, host, record))


@overload
def load(
    path: Path_, /, *, device: DeviceLike | None = None, sharding: Literal["restore", "drop"] = "restore"
) -> Array | dict[str, Array]: ...
@overload
def load(
    path: Path_, /, *, device: DeviceLike | None = None, sharding: str = "restore"
) -> Array | dict[str, Array]: ...
def load(path: Path_, /, *, device: DeviceLike | None = None, sharding: str = "restore") -> Array | dict[str, Array]:
    """Read what `save`, NumPy or another program wrote.

    Parameters
    ----------
    path
        A ``.npy`` file gives an Array, ``.npz`` and ``.safetensors`` a dict of them.
    device
        Where the arrays go, whatever the file says; None: to the sharding that the file keeps, else to the default
        device.
    sharding
        ``"restore"`` the sharding that the file keeps, or ``"drop"`` it.

    Raises
    ------
    FormatError
        The file is damaged, is not of that format, or holds what is no array of numbers.
    BackendUnavailable
        A sharding is to be restored and the devices that it names are not all there.
    OSError
        The file cannot be read.
    """
    source = Path(path)
    suffix = _suffix(source, "load")
    if sharding not in ("restore", "drop"):
        raise InvalidArgument(
            "load", "sharding", got=repr(sharding), wanted="restore or drop", arg="sharding", reason="unknown"
        )
    placement = resolve(device, "load")
    with source.open("rb") as f:
        try:
            if suffix == ".npy":
                found = {"": numpy_format.read_npy(f)}
            elif suffix == ".npz":
                found = numpy_format.read_npz(f)
            else:
                found = safetensors_format.read(f)
        except Exception as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            reason = error.got if isinstance(error, FormatError) else str(error) or type(error).__name__
            raise _damaged(source, suffix, str(reason)) from error
    result = {}
    for name, (host, record) in found.items():
        if host.dtype not in KIND:
            raise _damaged(source, suffix, f"{name or 'the array'} has dtype {host.dtype}")
        keep = record is not None and placement is None and sharding == "restore"
        where = read_sharding(record, str(source)) if keep else placement  # type: ignore[arg-type]
        result[name] = _array(host, where)
    return result[""] if suffix == ".npy" else result


def _damaged(path: Path, suffix: str, reason: str) -> FormatError:
    return FormatError(
        "load",
        "path",
        got=f"{str(path)!r}: {reason}",
        wanted=f"a {suffix} file of arrays of numbers",
        remedy="The file is damaged or of another format.",
        path=str(path),
    )


def _suffix(path: Path, operation: str) -> str:
    suffix = path.suffix.lower()
    if suffix not in _ONE + _MANY:
        raise InvalidArgument(
            operation,
            "path",
            got=repr(str(path)),
            wanted="a file name that ends in .npy, .npz or .safetensors",
            arg="path",
            reason="unknown format",
        )
    return suffix


def _host(array: Storable, name: str) -> tuple[np.ndarray, str | None]:
    """Return the values and the record of the sharding."""
    data = data_of(array) if isinstance(array, Array) else array
    if isinstance(data, jax.core.Tracer):
        raise ConcretizationError(
            "save", name, got="an array whose values are not known while tracing", remedy="Save outside of jit."
        )
    if not isinstance(data, jax.Array | np.ndarray | np.generic):
        raise UnsupportedDType(
            "save", name, got=type(array).__name__, wanted="an array", dtype=type(array).__name__, op="save"
        )
    record = write_sharding(data.sharding) if isinstance(data, jax.Array) else None
    host = np.asarray(data)
    if not host.dtype.isnative:
        host = host.astype(host.dtype.newbyteorder("="))
    if host.dtype not in KIND:
        raise UnsupportedDType(
            "save", name, got=f"dtype {host.dtype}", wanted="numbers or booleans", dtype=host.dtype, op="save"
        )
    # asarray, as ascontiguousarray would make 0-d arrays 1-d.
    return np.asarray(host, order="C"), record


def _array(host: np.ndarray, placement: Placement | Sharding | None) -> Array:
    owned = np.array(host, order="C")
    if placement is None:
        return wrap(place_host(owned))
    with x64(owned.dtype in WIDE):
        return wrap(place(owned, placement, "load"))  # type: ignore[arg-type]


def _write_atomic(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Write beside `path` and rename; errors of the system name `path`."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    created = False
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        created = True
        with os.fdopen(handle, "wb") as f:
            write(f)
            f.flush()
            os.fsync(f.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        if created:
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
