"""rtx-jax info: what is installed, which devices there are and why others are not."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

import jax
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .._cache import enable_compilation_cache
from ..core.devices import device_name, platforms
from ..core.dtypes import default_complex, default_float, default_int

__all__ = ["show"]

_PACKAGES = ("rtx-jax", "jax", "jaxlib", "numpy", "ml_dtypes", "array-api-compat", "scipy", "scikit-learn")
_PLUGINS = (
    "jax-cuda12-plugin",
    "jax-cuda13-plugin",
    "jax-rocm7-plugin",
    "jax-rocm60-plugin",
    "libtpu",
    "jax-metal",
    "jax-mps",
)


def show(console: Console | None = None) -> None:
    """Print versions, platforms, devices with memory and default dtypes, and the state of the compilation cache."""
    console = console or Console()
    cache = enable_compilation_cache()
    found = platforms()
    console.print(_versions())
    console.print(_platforms(found))
    console.print(_devices([device for devices in found.values() if isinstance(devices, list) for device in devices]))
    console.print(_cache(cache))


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for heading in headings:
        table.add_column(heading, no_wrap=heading not in ("State", "Default dtypes", "Folder"))
    return table


def _versions() -> Table:
    table = _table("Versions", "Package", "Version")
    table.add_row("Python", f"{platform.python_version()} ({platform.system()} {platform.machine()})")
    for name in (*_PACKAGES, *_PLUGINS):
        version = _version(name)
        if version is not None or name in _PACKAGES:
            table.add_row(name, version or "not installed")
    return table


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _platforms(found: dict[str, list[jax.Device] | str]) -> Table:
    table = _table("Platforms", "Platform", "State")
    for name, devices in found.items():
        if isinstance(devices, str):
            table.add_row(name, f"[yellow]not here:[/yellow] {escape(devices)}")
        else:
            table.add_row(name, f"[green]{len(devices)} device{'s' * (len(devices) != 1)}[/green]")
    return table


def _devices(devices: list[jax.Device]) -> Table:
    table = _table("Devices", "Device", "Kind", "Memory", "Default dtypes")
    for device in devices:
        defaults = (default_float(device), default_int(device), default_complex(device))
        table.add_row(device_name(device), device.device_kind, _memory(device), ", ".join(map(str, defaults)))
    return table


def _memory(device: jax.Device) -> str:
    """In use and in total, as far as the device tells; the machine's memory for a CPU."""
    stats = device.memory_stats() or {}
    limit = stats.get("bytes_limit")
    if limit:
        return f"{_bytes(stats.get('bytes_in_use', 0))} of {_bytes(limit)} in use"
    if device.platform == "cpu" and "SC_PHYS_PAGES" in os.sysconf_names:
        return f"{_bytes(os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE'))}, shared with the machine"
    return "unknown"


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def _cache(folder: Path) -> Table:
    table = _table("Compilation cache", "Folder", "Entries", "Size")
    sizes = [entry.stat().st_size for entry in folder.rglob("*") if entry.is_file()]
    table.add_row(escape(str(folder)), f"{len(sizes):,}", _bytes(sum(sizes)))
    return table
