"""The safetensors format: the length of a JSON header in 8 bytes, the header, the arrays without gaps.

Source: https://github.com/huggingface/safetensors, section "Format" of its README.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import BinaryIO

import numpy as np

from ..core import dtypes as d
from ..errors import FormatError, UnsupportedDType

__all__ = ["layout", "read", "write"]

_NAMES: dict[np.dtype, str] = {
    d.bool_: "BOOL",
    d.int8: "I8",
    d.int16: "I16",
    d.int32: "I32",
    d.int64: "I64",
    d.uint8: "U8",
    d.uint16: "U16",
    d.uint32: "U32",
    d.uint64: "U64",
    d.float16: "F16",
    d.bfloat16: "BF16",
    d.float32: "F32",
    d.float64: "F64",
    d.complex64: "C64",
    d.float8_e4m3fn: "F8_E4M3",
    d.float8_e5m2: "F8_E5M2",
    d.float8_e8m0fnu: "F8_E8M0",
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_HEADER_LIMIT_BYTES = 100_000_000  # the format's own
_METADATA, _OURS = "__metadata__", "rtx_jax"


def layout(arrays: Mapping[str, tuple[np.ndarray, str | None]]) -> tuple[bytes, list[np.ndarray]]:
    """Return the header and the arrays in the order of the file.

    Raises
    ------
    UnsupportedDType
        The format has no name for a dtype.
    """
    header: dict[str, object] = {}
    records = {name: record for name, (_, record) in arrays.items() if record is not None}
    if records:
        header[_METADATA] = {_OURS: json.dumps({"sharding": records})}
    # Wide dtypes first keeps every array aligned, as the format's own library does.
    ordered = sorted(arrays.items(), key=lambda item: (-item[1][0].dtype.itemsize, item[0]))
    offset = 0
    for name, (array, _) in ordered:
        if array.dtype not in _NAMES:
            raise UnsupportedDType(
                "save",
                name,
                got=f"dtype {array.dtype}",
                wanted=f"one of {', '.join(str(dtype) for dtype in _NAMES)}",
                remedy="Save as .npz, which keeps every dtype.",
                dtype=array.dtype,
                op="save",
            )
        header[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return text, [array for _, (array, _) in ordered]


def write(f: BinaryIO, parts: tuple[bytes, list[np.ndarray]]) -> None:
    """Write what `layout` returned."""
    header, arrays = parts
    f.write(len(header).to_bytes(8, "little"))
    f.write(header)
    for array in arrays:
        f.write(array.reshape(-1).view(np.uint8).data if array.size else b"")


def read(f: BinaryIO) -> dict[str, tuple[np.ndarray, str | None]]:
    """Read named arrays and the records of their shardings.

    Raises
    ------
    FormatError
        The header is damaged, or the arrays overlap, leave a gap or end early.
    """
    size = int.from_bytes(_exactly(f, 8, "the length of its header"), "little")
    if size > _HEADER_LIMIT_BYTES:
        raise _bad(f"a header of {size} bytes")
    header = json.loads(_exactly(f, size, "its header"))
    if not isinstance(header, dict):
        raise _bad("a header that is no mapping")
    metadata = header.pop(_METADATA, {})
    ours = json.loads(metadata.get(_OURS, "{}"))
    records = ours.get("sharding", {}) if isinstance(ours, dict) else {}
    found: dict[str, tuple[np.ndarray, str | None]] = {}
    end = 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        dtype, shape = _DTYPES.get(entry["dtype"]), tuple(entry["shape"])
        if dtype is None:
            raise _bad(f"{name!r} of dtype {entry['dtype']!r}")
        begin, stop = entry["data_offsets"]
        if begin != end or stop - begin != math.prod(shape) * dtype.itemsize or any(n < 0 for n in shape):
            raise _bad(f"{name!r} of shape {shape} in bytes {begin} to {stop}, after {end}")
        data = bytearray(_exactly(f, stop - begin, repr(name)))
        found[name] = np.frombuffer(data, dtype).reshape(shape), records.get(name)
        end = stop
    if f.read(1):
        raise _bad("bytes after its arrays")
    return found


def _exactly(f: BinaryIO, size: int, what: str) -> bytes:
    data = f.read(size)
    if len(data) != size:
        raise _bad(f"a file that ends within {what}")
    return data


def _bad(got: str) -> FormatError:
    return FormatError("load", "path", got=got, wanted="a safetensors file", remedy="The file is damaged.")
