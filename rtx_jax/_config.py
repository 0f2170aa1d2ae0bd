"""Settings: one table, read from ``RTX_JAX_*`` variables on first use, overridden per context.

A value set in one thread or asyncio task is not seen by others, unless it was set with `update` before they began.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from .errors import InvalidArgument

__all__ = [
    "PRECISIONS",
    "SETTINGS",
    "Setting",
    "cache_folder",
    "check_bounds",
    "debug_nans",
    "donation",
    "matmul_precision",
    "override",
    "update",
]

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
PRECISIONS = ("highest", "high", "default")
_UNSET = object()


def _flag(name: str, text: str) -> bool | None:
    lowered = text.strip().lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    if lowered == "auto":
        return None
    raise InvalidArgument(name, "", got=repr(text), wanted="1, 0 or auto", arg=name, reason="not a flag")


def _precision(name: str, text: str) -> str:
    lowered = text.strip().lower()
    if lowered not in PRECISIONS:
        wanted = ", ".join(PRECISIONS)
        raise InvalidArgument(name, "precision", got=repr(text), wanted=wanted, arg=name, reason="unknown precision")
    return lowered


@dataclass(slots=True)
class Setting:
    """One setting: its variable in the environment, how its text is read, and the default."""

    name: str
    variable: str
    parse: Callable[[str, str], object]
    default: object
    meaning: str
    _global: object = field(default=None, repr=False)
    _known: bool = field(default=False, repr=False)
    # Whether any context ever had a value of its own: reading a context variable costs more than all the rest.
    _overridden: bool = field(default=False, repr=False)
    _local: ContextVar[object] = field(init=False, repr=False)
    listeners: list[Callable[[], None]] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self._local = ContextVar(self.name)

    def get(self) -> object:
        """Return the value in this context."""
        if self._overridden:
            value = self._local.get(_UNSET)  # a default costs a tenth of a LookupError
            if value is not _UNSET:
                return value
        if not self._known:
            text = os.environ.get(self.variable)
            self._global = self.default if text is None else self.parse(self.variable, text)
            self._known = True
        return self._global

    def set_global(self, value: object) -> None:
        """Set the value for every context that has none of its own."""
        self._global, self._known = value, True
        for listener in self.listeners:
            listener()


SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting(
            "check_bounds",
            "RTX_JAX_CHECK_BOUNDS",
            _flag,
            None,
            "integer-array keys out of range raise; auto: on CPU, where reading the indices is cheap",
        ),
        Setting(
            "debug_nans",
            "RTX_JAX_DEBUG_NANS",
            _flag,
            False,
            "the first operation that makes a NaN out of numbers raises, with its shapes",
        ),
        Setting(
            "donation",
            "RTX_JAX_DONATION",
            _flag,
            True,
            "updates of an Array that owns its buffer alone reuse the buffer",
        ),
        Setting(
            "matmul_precision",
            "RTX_JAX_MATMUL_PRECISION",
            _precision,
            "highest",
            "precision of float32 matmul, einsum and convolution: highest, high or default (the device's own)",
        ),
    )
}


def cache_folder() -> Path:
    """Return where files are kept between processes: ``RTX_JAX_CACHE_DIR``, else ``rtx_jax`` in the user's cache."""
    named = os.environ.get("RTX_JAX_CACHE_DIR")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rtx_jax"


def update(name: str, value: object) -> None:
    """Set a setting for the whole process."""
    _find(name).set_global(value)


@contextlib.contextmanager
def override(name: str, value: object) -> Iterator[None]:
    """Set a setting for the body, in this context only."""
    setting = _find(name)
    setting._overridden = True
    token = setting._local.set(value)
    for listener in setting.listeners:
        listener()
    try:
        yield
    finally:
        setting._local.reset(token)
        for listener in setting.listeners:
            listener()


def _find(name: str) -> Setting:
    try:
        return SETTINGS[name]
    except KeyError:
        raise InvalidArgument(
            "settings", "name", got=repr(name), wanted=", ".join(SETTINGS), arg="name", reason="unknown setting"
        ) from None


_check_bounds, _debug_nans = SETTINGS["check_bounds"], SETTINGS["debug_nans"]
_donation, _matmul_precision = SETTINGS["donation"], SETTINGS["matmul_precision"]


def check_bounds() -> bool | None:
    """Whether array keys are checked: True, False, or None for "on CPU only"."""
    value = _check_bounds.get()
    return None if value is None else bool(value)


def debug_nans() -> bool:
    """Whether eager results are searched for NaN."""
    return bool(_debug_nans.get())


def donation() -> bool:
    """Whether updates may reuse buffers."""
    return _donation.get() is True


def matmul_precision() -> str:
    """Precision of float32 contractions: ``"highest"``, ``"high"`` or ``"default"``."""
    return _matmul_precision.get()  # type: ignore[return-value]
