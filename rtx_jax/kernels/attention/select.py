"""Which implementation runs a call: one table by device, in the order in which they are tried."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Protocol

import jax

from ...checks.choices import implementation
from ..choice import Candidate
from ..choice import choose as _choose
from ..target import Target
from ..tuning import Blocks
from .spec import AttentionSpec, Gradients, Operands

__all__ = ["IMPLEMENTATIONS", "Implementation", "check_word", "choose", "explain", "module", "order"]

IMPLEMENTATIONS = ("reference", "xla", "cudnn", "pallas_triton", "pallas_mosaic_gpu", "pallas_tpu")
"""The words of `implementation=`, beside ``"auto"``; each is the module of that name."""


class Implementation(Protocol):
    """What a module of an implementation has."""

    NAME: str

    def unsupported(self, spec: AttentionSpec, target: Target) -> list[str]:
        """Return why it cannot run a call, forward and backward; nothing where it can."""
        ...

    def forward(
        self, spec: AttentionSpec, operands: Operands, *, blocks: Blocks | None = None
    ) -> tuple[jax.Array, jax.Array]:
        """Return the result and the log-sum-exp."""
        ...

    def backward(
        self,
        spec: AttentionSpec,
        operands: Operands,
        out: jax.Array,
        lse: jax.Array,
        d_out: jax.Array,
        d_lse: jax.Array,
        *,
        bias: bool = False,
        sinks: bool = False,
        blocks: Blocks | None = None,
    ) -> Gradients:
        """Return the cotangents of the operands."""
        ...


def check_word(operation: str, word: object) -> str:
    """Return the word of an implementation.

    Raises
    ------
    InvalidArgument
        There is none of that name.
    """
    return implementation(operation, word, ("auto", *IMPLEMENTATIONS))


def order(spec: AttentionSpec, target: Target) -> tuple[str, ...]:
    """Return the implementations for a device, the fastest first.

    Notes
    -----
    With a bias or a mask cuDNN reads a full table of scores, and with value heads of another size it fills up: it
    comes after the kernels then.
    """
    if target.platform == "cuda":
        kernels: tuple[str, ...] = ("pallas_triton",)
        if target.capability == (9, 0):
            kernels = ("pallas_mosaic_gpu", "pallas_triton")
        last = spec.mask is not None or spec.bias is not None or spec.size != spec.value_size
        if (target.capability or (8, 0)) < (8, 0):
            return (*kernels, "xla")
        return (*kernels, "cudnn", "xla") if last else ("cudnn", *kernels, "xla")
    if target.platform == "rocm":
        return ("pallas_triton", "xla")
    if target.platform == "tpu":
        return ("pallas_tpu", "xla")
    return ("xla",)


def explain(spec: AttentionSpec, target: Target) -> dict[str, list[str]]:
    """Return for each implementation, in the order in which they are tried, why it cannot run a call."""
    return {name: module(name).unsupported(spec, target) for name in order(spec, target)}


def choose(
    spec: AttentionSpec,
    target: Target,
    word: str = "auto",
    partitioned: bool = False,
    relaxed: bool = False,
    offering: str | None = None,
) -> tuple[Implementation, AttentionSpec]:
    """Return the implementation of a call, and the call as it is to have it.

    Parameters
    ----------
    spec
        The call.
    target
        The device.
    word
        The implementation that is asked for, or ``"auto"``.
    partitioned
        Whether XLA will divide the arrays among devices by itself.
    relaxed
        Whether ``nan_safe`` is given up where an implementation does not offer it.
    offering
        What an implementation that has it is taken first for, ``"ENTROPY"`` or ``"column_scores"``.

    Raises
    ------
    BackendLimitation
        The one that was asked for cannot run the call; the text has every reason.

    Warns
    -----
    FallbackWarning
        None of a device's kernels can run it, once for each set of reasons.
    """
    names = order(spec, target) if word == "auto" else (word,)
    return _choose(
        "flash_attention",
        word,
        target,
        (_candidate(name, spec, target, relaxed) for name in names),
        partitioned=partitioned,
        suits=None if offering is None else lambda able: hasattr(able[0], offering),
    )


def _candidate(
    name: str, spec: AttentionSpec, target: Target, relaxed: bool
) -> Candidate[tuple[Implementation, AttentionSpec]]:
    """Return an implementation with the call as it could run it, and why it cannot."""
    found = module(name)
    reasons = found.unsupported(spec, target)
    if reasons and relaxed and spec.nan_safe:
        spec = replace(spec, nan_safe=False)
        reasons = found.unsupported(spec, target)
    reasons = reasons + _eight_bits(spec, target)
    return Candidate(name, (found, spec), reasons, plain=name in ("reference", "xla"))


def _eight_bits(spec: AttentionSpec, target: Target) -> list[str]:
    """Return why numbers of 8 bits cannot be had; an emulation would be slower than wider ones, and hide it."""
    if spec.dtype.itemsize > 1:
        return []
    if target.platform == "cuda" and (target.capability is None or target.capability >= (8, 9)):
        return []
    if target.platform == "rocm" and (not target.kind or target.kind.startswith(("gfx94", "gfx95", "gfx12"))):
        return []
    device = target.kind or target.platform or "this device"
    return [f"{spec.dtype.name}: {device} has no products of 8-bit floating point; convert to bfloat16"]


def module(name: str) -> Implementation:
    """Return the module of an implementation; those for accelerators are imported on first use."""
    found: Implementation = importlib.import_module(f".{name}", __package__)
    return found
