"""Which implementation of decode attention runs: one table."""

from __future__ import annotations

import importlib
from typing import Protocol

from ...checks import choices as _choices
from ..choice import Candidate
from ..choice import choose as _choose
from ..target import Target
from ..tuning import Blocks
from .spec import DecodeOperands, DecodeSpec, Partial

__all__ = ["MODULES", "Implementation", "check", "choose", "load"]


class Implementation(Protocol):
    """A module that implements decode attention."""

    NAME: str

    def unsupported(self, spec: DecodeSpec, target: Target) -> list[str]:
        """Return why it cannot do a call, in words; empty when it can."""

    # One without block sizes has no such parameter, and no `default_blocks`.
    def partial(self, spec: DecodeSpec, operands: DecodeOperands, *, blocks: Blocks | None = None) -> Partial:
        """Return the softmax over the keys, in parts."""


# Loaded when first used: Pallas takes longer to import than this package.
MODULES = {"reference": ".plain", "xla": ".xla", "pallas_triton": ".pallas_triton", "pallas_tpu": ".pallas_tpu"}
"""The words of ``implementation=``, and the modules behind them."""

_ORDER: dict[str, tuple[str, ...]] = {
    "cuda": ("pallas_triton", "xla"),
    "rocm": ("pallas_triton", "xla"),
    "tpu": ("pallas_tpu", "xla"),
}
"""What ``"auto"`` tries on each platform, the fastest first; elsewhere plain XLA alone."""


def load(implementation: str) -> Implementation:
    """Return the implementation of this word."""
    module: Implementation = importlib.import_module(MODULES[implementation], __package__)
    return module


def check(operation: str, implementation: object) -> str:
    """Return the word of an implementation, or raise InvalidArgument."""
    return _choices.implementation(operation, implementation, ("auto", *MODULES))


def choose(spec: DecodeSpec, implementation: str, target: Target, *, partitioned: bool = False) -> Implementation:
    """Return the implementation for a device.

    Parameters
    ----------
    partitioned
        Whether XLA divides the program among devices by itself, which it cannot do inside of a Pallas kernel.

    Raises
    ------
    BackendLimitation
        It was asked for by name and cannot do the call, or none can; all reasons are listed.

    Warns
    -----
    FallbackWarning
        No kernel of this device can do the call, so that plain XLA does; once for each set of reasons.
    """
    operation = "paged_attention" if spec.page else "decode_attention"
    names = _ORDER.get(target.platform, ("xla",)) if implementation == "auto" else (implementation,)
    return _choose(
        operation, implementation, target, (_candidate(name, spec, target) for name in names), partitioned=partitioned
    )


def _candidate(name: str, spec: DecodeSpec, target: Target) -> Candidate[Implementation]:
    found = load(name)
    return Candidate(name, found, found.unsupported(spec, target), plain=not found.NAME.startswith("pallas"))
