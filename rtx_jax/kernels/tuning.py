"""Measured block sizes: kept as JSON in the user's cache, read when a kernel is lowered.

The file is ``tuning.json`` in the cache folder (``RTX_JAX_CACHE_DIR``, else ``rtx_jax`` in the user's cache):

    {"version": 1, "kernels": {KERNEL: {DEVICE KIND: {SHAPE CLASS: {"blocks": {NAME: SIZE}, "microseconds": ...}}}}}

Nothing needs it: a kernel without an entry takes its defaults. ``rtx-jax tune`` writes entries. An entry holds the
names and sizes of one frozen dataclass of integers, the ``Blocks`` of an implementation; fields that the entry does not
name keep their defaults.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from .._config import cache_folder
from ..errors import FallbackWarning, InvalidArgument, RtxError

__all__ = ["Blocks", "Entry", "block_sizes", "entries", "file", "forget", "has", "shape_class", "store", "tuned"]

VERSION = 1


class Blocks(Protocol):
    """Any frozen dataclass; its integer fields are block sizes."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


B = TypeVar("B", bound=Blocks)


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One measured choice.

    Attributes
    ----------
    kernel
        Name of the kernel and its direction, as ``"attention.pallas_triton.forward"``.
    kind
        The device kind, as ``"NVIDIA H200"``.
    shapes
        The shape class, see `shape_class`.
    blocks
        Name and size of each block.
    microseconds, default_microseconds
        The time of one call with these blocks, and with the default ones.
    """

    kernel: str
    kind: str
    shapes: str
    blocks: Mapping[str, int]
    microseconds: float
    default_microseconds: float


def file() -> Path:
    """Return where the entries are kept; nobody may have made it yet."""
    return cache_folder() / "tuning.json"


def shape_class(*words: str, **sizes: int) -> str:
    """Name the class of a call: lengths that share their blocks share their class.

    Parameters
    ----------
    *words
        What else the choice depends on, as ``"bfloat16"`` or ``"causal"``; empty ones are left out.
    **sizes
        Sizes, each rounded up to a power of two.

    Examples
    --------
    >>> shape_class("float32", "causal", queries=1000, keys=1024, size=64)
    'float32 causal queries=1024 keys=1024 size=64'
    """
    rounded = [f"{name}={1 << max(size - 1, 0).bit_length()}" for name, size in sizes.items()]
    return " ".join([*filter(None, words), *rounded])


def has(kernel: str, kind: str, shapes: str, /) -> bool:
    """Tell whether block sizes were measured for this kernel, device kind and shape class."""
    return shapes in _read(file()).get(kernel, {}).get(kind, {})


def tuned(kernel: str, kind: str, shapes: str, default: B, /) -> B:
    """Return `default` with the sizes that were measured for this kernel, device kind and shape class, if any were.

    Parameters
    ----------
    kernel, kind, shapes
        As in `Entry`.
    default
        A frozen dataclass; its integer fields are block sizes.

    Notes
    -----
    A damaged file, or an entry that does not fit, gives a `FallbackWarning` and the defaults. The file is read when it
    has changed. Programs compiled before keep their blocks.
    """
    sizes = _read(file()).get(kernel, {}).get(kind, {}).get(shapes, {}).get("blocks")
    if not sizes:
        return default
    known = set(block_sizes(default))
    if unknown := sorted(set(sizes) - known):
        _warn(
            f"the entry of {kernel} names {', '.join(unknown)}, which is no block of it",
            f"the blocks are {', '.join(sorted(known))}",
        )
        return default
    try:
        return dataclasses.replace(default, **sizes)
    except RtxError as error:  # the kernel's own check of its blocks
        _warn(f"the entry of {kernel} does not fit it ({error})", "run rtx-jax tune again")
        return default


def block_sizes(blocks: Blocks, /) -> dict[str, int]:
    """Return the integer fields of a dataclass by name."""
    values = {field.name: getattr(blocks, field.name) for field in dataclasses.fields(blocks)}
    return {name: value for name, value in values.items() if isinstance(value, int) and not isinstance(value, bool)}


def entries() -> list[Entry]:
    """Return what the file holds, in its order; nothing where there is no file."""
    return [
        Entry(kernel, kind, shapes, dict(entry["blocks"]), entry["microseconds"], entry["default_microseconds"])
        for kernel, kinds in _read(file()).items()
        for kind, classes in kinds.items()
        for shapes, entry in classes.items()
    ]


def store(entry: Entry, /) -> Path:
    """Write one entry, in place of an earlier one for the same call.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InvalidArgument
        A block is no positive size, or the file cannot be written.

    Notes
    -----
    The file is replaced as a whole, so that a reader never sees half of it. A damaged one is kept beside it, as
    ``tuning.json.damaged``.
    """
    path = file()
    if not entry.blocks or not all(_is_size(size) for size in entry.blocks.values()):
        raise InvalidArgument(
            "store", "blocks", got=dict(entry.blocks), wanted="a positive size for each block", arg="blocks",
            reason="no sizes",
        )  # fmt: skip
    damaged: list[str] = []
    table = _parse(path, damaged)
    times = {"microseconds": entry.microseconds, "default_microseconds": entry.default_microseconds}
    table.setdefault(entry.kernel, {}).setdefault(entry.kind, {})[entry.shapes] = {"blocks": {**entry.blocks}, **times}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if damaged:
            path.replace(path.with_name(f"{path.name}.damaged"))
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump({"version": VERSION, "kernels": table}, stream, indent=1, sort_keys=True)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise InvalidArgument(
            "store", "RTX_JAX_CACHE_DIR", got=f"{path} ({error.strerror})", wanted="a folder that can be written",
            arg="RTX_JAX_CACHE_DIR", reason="not writable",
        ) from error  # fmt: skip
    return path


def forget() -> None:
    """Remove all entries."""
    file().unlink(missing_ok=True)


# --- reading --------------------------------------------------------------------------------------------------------

Table = dict[str, dict[str, dict[str, dict[str, Any]]]]
# The file's path, time and size, and what it held: one table is enough, as a process reads one file.
_last: tuple[tuple[str, int, int], Table] | None = None


def _read(path: Path) -> Table:
    """What the file holds now; damage is told once for each state of the file."""
    global _last
    try:
        status = path.stat()
    except OSError:
        return {}
    state = (str(path), status.st_mtime_ns, status.st_size)
    if _last is None or _last[0] != state:
        damaged: list[str] = []
        table = _parse(path, damaged)
        _last = (state, table)
        if damaged:
            more = f" and {len(damaged) - 1} more" if len(damaged) > 1 else ""
            _warn(f"{path}: {damaged[0]}{more}", "remove the file, or run rtx-jax tune again")
    return _last[1]


def _parse(path: Path, damaged: list[str]) -> Table:
    """Read the file and keep what is whole; the rest is described in `damaged`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        damaged.append(f"not readable as JSON ({error})")
        return {}
    if not isinstance(content, dict) or content.get("version") != VERSION:
        damaged.append(f"not a file of version {VERSION}")
        return {}
    table: Table = {}
    for kernel, kinds in _items(content.get("kernels"), "kernels", damaged):
        for kind, classes in _items(kinds, kernel, damaged):
            for shapes, entry in _items(classes, f"{kernel}, {kind}", damaged):
                if _is_entry(entry):
                    table.setdefault(kernel, {}).setdefault(kind, {})[shapes] = entry
                else:
                    damaged.append(f"no block sizes and times at {kernel}, {kind}, {shapes}")
    return table


def _items(value: object, where: str, damaged: list[str]) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    damaged.append(f"no table at {where}")
    return []


def _is_entry(entry: object) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("blocks"), dict) or not entry["blocks"]:
        return False
    times = (entry.get("microseconds"), entry.get("default_microseconds"))
    return all(map(_is_size, entry["blocks"].values())) and all(_is_time(time) for time in times)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 31


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")


def _warn(what: str, remedy: str) -> None:
    text = f"measured block sizes: {what}; the default sizes are taken instead. Remedy: {remedy}"
    warnings.warn(text, FallbackWarning, stacklevel=4)
