"""NumPy's formats, with a place for dtypes and shardings that they do not know."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from typing import BinaryIO

import ml_dtypes
import numpy as np
from numpy.lib import format as npy

from ..core.dtypes import KIND, bfloat16
from ..errors import FormatError

__all__ = ["read_npy", "read_npz", "write_npy", "write_npz"]

# After the data of a .npy file, where NumPy does not read: mark, length of the record in 8 bytes, record.
_MARK = b"\x93rtx_jax-sharding\n"
_EXTENDED = {dtype.name: dtype for dtype in KIND if hasattr(ml_dtypes, dtype.name)}


def write_npy(f: BinaryIO, array: np.ndarray, record: str | None) -> None:
    """Write one array, and the record of its sharding after it."""
    stored = array
    if array.dtype.name in _EXTENDED:
        # NumPy would call it raw bytes; a field keeps the name and can be viewed by whoever knows it.
        stored = array.view(np.dtype([(array.dtype.name, f"<u{array.dtype.itemsize}")]))
    npy.write_array_header_1_0(f, npy.header_data_from_array_1_0(stored))
    # Not ndarray.tofile: its error on a full disk has no number.
    f.write(array.reshape(-1).view(np.uint8).data if array.size else b"")
    if record is not None:
        text = record.encode()
        f.write(_MARK + len(text).to_bytes(8, "little") + text)


def read_npy(f: BinaryIO) -> tuple[np.ndarray, str | None]:
    """Read one array and the record of its sharding."""
    array = known(npy.read_array(f, allow_pickle=False))
    if f.read(len(_MARK)) != _MARK:
        return array, None
    size = int.from_bytes(f.read(8), "little")
    text = f.read(min(size, 1 << 24))
    if len(text) != size:
        raise FormatError("load", "path", got="a file that ends within the record of its sharding")
    return array, text.decode()


def known(array: np.ndarray) -> np.ndarray:
    """Return an array as it was before it was stored under a field or as raw bytes."""
    names = array.dtype.names
    if names is not None and len(names) == 1 and names[0] in _EXTENDED:
        return array[names[0]].view(_EXTENDED[names[0]])
    if array.dtype == np.dtype("V2"):
        # What numpy.save writes for bfloat16; no other dtype of two bytes is stored like this.
        return array.view(bfloat16)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def write_npz(f: BinaryIO, arrays: Mapping[str, tuple[np.ndarray, str | None]], compressed: bool) -> None:
    """Write named arrays, each with the record of its sharding in the comment of its entry."""
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(f, "w", method, allowZip64=True) as archive:
        for name, (array, record) in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")  # its fixed date makes equal contents equal files
            entry.compress_type = method
            if record is not None:
                entry.comment = record.encode()
            with archive.open(entry, "w", force_zip64=True) as member:
                write_npy(member, array, None)  # type: ignore[arg-type]


def read_npz(f: BinaryIO) -> dict[str, tuple[np.ndarray, str | None]]:
    """Read named arrays and the records of their shardings."""
    found = {}
    with zipfile.ZipFile(f) as archive:
        for entry in archive.infolist():
            if not entry.filename.endswith(".npy"):
                raise FormatError("load", "path", got=f"an entry {entry.filename!r} that is no array")
            with archive.open(entry) as member:
                array = known(npy.read_array(member, allow_pickle=False))
                if member.read(1):
                    raise FormatError("load", "path", got=f"bytes after the array {entry.filename!r}")
            found[entry.filename[: -len(".npy")]] = array, entry.comment.decode() or None
    return found
