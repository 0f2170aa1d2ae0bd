"""Which implementation runs a call: one table by device, in the order in which they are tried."""

from __future__ import annotations

import functools
import importlib
import warnings
from dataclasses import replace
from typing import Protocol

import jax

from ...checks.choices import implementation
from ...errors import BackendLimitation, FallbackWarning
from ..tuning import Blocks
from .spec import AttentionSpec, Gradients, Operands, Target

__all__ = ["IMPLEMENTATIONS", "Implementation", "check_word", "choose", "explain", "order", "target_of"]

IMPLEMENTATIONS = ("reference", "xla", "cudnn", "pallas_triton", "pallas_mosaic_gpu", "pallas_tpu")
"""The words of `implementation=`, beside ``"auto"``; each is the module of that name."""

# What NVIDIA calls its cards, by the compute capability of the ones the table tells apart.
_CARDS: tuple[tuple[tuple[int, int], tuple[str, ...]], ...] = (
    ((10, 0), ("B100", "B200", "B300", "GB200", "GB300")),
    ((9, 0), ("H100", "H200", "H800", "H20", "GH200")),
    ((12, 0), ("RTX 50", "RTX PRO 6000 Blackwell")),
    ((8, 9), ("L4", "L40", "RTX 40", "RTX 6000 Ada")),
    ((8, 6), ("A10", "A40", "RTX 30", "RTX A")),
    ((8, 0), ("A100", "A800", "A30")),
    ((7, 5), ("T4", "RTX 20")),
)


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


def target_of(platform: str, kind: str = "", capability: tuple[int, int] | None = None) -> Target:
    """Return the device that a program is lowered for, with the compute capability that its name tells."""
    if platform == "cuda" and capability is None:
        words = kind.replace("NVIDIA ", "")
        capability = next((c for c, names in _CARDS for name in names if _names(words, name)), None)
    return Target(platform, kind, capability)


def _names(words: str, name: str) -> bool:
    """Tell whether a card is of that name, so that "L4" is not "L40" but "RTX 40" is "RTX 4090"."""
    at = words.find(name)
    if at < 0 or (at and words[at - 1].isalnum()):
        return False
    return name.startswith("RTX") or not words[at + len(name) :][:1].isdigit()


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
    refused: dict[str, list[str]] = {}
    able: list[tuple[Implementation, AttentionSpec]] = []
    for name in names:
        reasons, taken = _reasons(name, spec, target, partitioned, relaxed)
        if reasons:
            refused[name] = reasons
            continue
        if offering is None or hasattr(module(name), offering):
            able = [(module(name), taken)]
            break
        able.append((module(name), taken))
    if not able:
        raise _refusal(word, target, refused)
    if able[0][0].NAME == "xla" and refused:
        _notice(target.platform, tuple((n, tuple(r)) for n, r in refused.items()))
    return able[0]


def _reasons(
    name: str, spec: AttentionSpec, target: Target, partitioned: bool, relaxed: bool
) -> tuple[list[str], AttentionSpec]:
    """Return why an implementation cannot run a call, and the call as it could."""
    reasons = module(name).unsupported(spec, target)
    if reasons and relaxed and spec.nan_safe:
        spec = replace(spec, nan_safe=False)
        reasons = module(name).unsupported(spec, target)
    reasons = reasons + _eight_bits(spec, target)
    if partitioned and (name == "cudnn" or name.startswith("pallas")):
        reasons.append("XLA divides the arrays among devices, which it cannot do in a kernel: use jax.shard_map")
    return reasons, spec


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


def _refusal(word: str, target: Target, refused: dict[str, list[str]]) -> BackendLimitation:
    reasons = ". ".join(f"{name}: {'; '.join(why)}" for name, why in refused.items())
    remedy = "Leave out what they cannot do." if word == "auto" else "Use 'auto', or leave out what it cannot do."
    return BackendLimitation(
        "flash_attention",
        "implementation",
        got=f"{word!r} on {target.kind or target.platform or 'an unknown platform'}",
        wanted="one that can run this call",
        remedy=f"{reasons}. {remedy}",
        backend=word,
        reason=reasons,
    )


@functools.lru_cache(maxsize=256)
def _notice(platform: str, refused: tuple[tuple[str, tuple[str, ...]], ...]) -> None:
    reasons = ". ".join(f"{name}: {'; '.join(why)}" for name, why in refused)
    warnings.warn(
        FallbackWarning(f"flash_attention on {platform} runs as plain XLA, as no kernel can run it ({reasons})"),
        stacklevel=2,
    )
