"""Which implementation of decode attention runs: one table."""

from __future__ import annotations

import functools
import importlib
import warnings
from typing import Protocol

from ...checks import choices as _choices
from ...errors import BackendLimitation, FallbackWarning
from ..attention.spec import Target
from .spec import DecodeOperands, DecodeSpec, Partial

__all__ = ["MODULES", "Implementation", "check", "choose", "load"]


class Implementation(Protocol):
    """A module that implements decode attention."""

    NAME: str

    def unsupported(self, spec: DecodeSpec, target: Target) -> list[str]:
        """Return why it cannot do a call, in words; empty when it can."""

    def partial(self, spec: DecodeSpec, operands: DecodeOperands) -> Partial:
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
        It was asked for by name, and cannot do the call; all reasons are listed.
    """
    operation = "paged_attention" if spec.page else "decode_attention"
    if implementation != "auto":
        chosen = load(implementation)
        reasons = _reasons(chosen, spec, target, partitioned)
        if reasons:
            raise BackendLimitation(
                operation,
                "implementation",
                got=f"{implementation!r}, which cannot do this: {'; '.join(reasons)}",
                wanted="one that can",
                remedy="'auto' takes one that can.",
                backend=implementation,
                reason="; ".join(reasons),
            )
        return chosen
    for name in _ORDER.get(target.platform, ("xla",)):
        chosen = load(name)
        reasons = _reasons(chosen, spec, target, partitioned)
        if not reasons:
            return chosen
        _notice(operation, name, target.platform, tuple(reasons))
    return load("xla")


def _reasons(chosen: Implementation, spec: DecodeSpec, target: Target, partitioned: bool) -> list[str]:
    reasons = chosen.unsupported(spec, target)
    if partitioned and chosen.NAME.startswith("pallas"):
        reasons.append("the program is divided among devices by XLA: put the call under jax.shard_map")
    return reasons


@functools.lru_cache(maxsize=256)
def _notice(operation: str, name: str, platform: str, reasons: tuple[str, ...]) -> None:
    """Say once that a faster implementation was passed over."""
    warnings.warn(
        FallbackWarning(
            f"{operation}: implementation {name!r} of {platform} is passed over: {'; '.join(reasons)}. "
            "A slower one runs instead."
        ),
        stacklevel=2,
    )
