"""The settings that a user changes: each is a context manager over one entry of the table in `_config`.

Called on its own, a setting holds for the whole process; in a ``with`` statement for the body, in that context.
"""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Self

from . import _config
from .errors import InvalidArgument

__all__ = ["check_bounds", "debug_nans", "donation", "set_matmul_precision"]


class _Change:
    """A setting that was changed for the process; as a context manager it is put back at the end."""

    def __init__(self, name: str, value: object) -> None:
        self._name, self._value = name, value
        self._before = _config.SETTINGS[name].get()
        self._stack = contextlib.ExitStack()
        _config.update(name, value)

    def __enter__(self) -> Self:
        # The body's own context holds the value; the process gets the old one back at once.
        _config.update(self._name, self._before)
        self._stack.enter_context(_config.override(self._name, self._value))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


def check_bounds(enabled: bool | None = True) -> _Change:
    """Check integer-array keys against the axis, so that one out of range raises.

    Parameters
    ----------
    enabled
        None checks on CPU only, where reading the indices is cheap; this is the default.
        Environment: ``RTX_JAX_CHECK_BOUNDS``.
    """
    return _Change("check_bounds", None if enabled is None else bool(enabled))


def debug_nans(enabled: bool = True) -> _Change:
    """Raise at the first eager operation that makes a NaN from operands without one, naming it and the shapes.

    Every result is read back then, so it is slow. Environment: ``RTX_JAX_DEBUG_NANS``.
    """
    return _Change("debug_nans", bool(enabled))


def donation(enabled: bool = True) -> _Change:
    """Let updates reuse the buffer of an Array that owns it alone (on by default), or make each update copy.

    Environment: ``RTX_JAX_DONATION``.
    """
    return _Change("donation", bool(enabled))


def set_matmul_precision(precision: str) -> _Change:
    """Set the precision of float32 matmul, einsum and convolution.

    Parameters
    ----------
    precision
        ``"highest"``: full float32, the default on every device. ``"high"``: three bfloat16 passes or TF32 where
        the device has them. ``"default"``: the device's fastest. Environment: ``RTX_JAX_MATMUL_PRECISION``.

    Raises
    ------
    InvalidArgument
        For another word.
    """
    if precision not in ("highest", "high", "default"):
        raise InvalidArgument(
            "set_matmul_precision",
            "precision",
            got=repr(precision),
            wanted="'highest', 'high' or 'default'",
            arg="precision",
            reason="unknown precision",
        )
    return _Change("matmul_precision", precision)
