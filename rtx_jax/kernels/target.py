"""The device that a kernel is chosen for, and what the names of NVIDIA's cards tell."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Target", "target_of"]

# What NVIDIA calls its cards, by the compute capability of those that the tables of choice tell apart.
_CARDS: tuple[tuple[tuple[int, int], tuple[str, ...]], ...] = (
    ((10, 0), ("B100", "B200", "B300", "GB200", "GB300")),
    ((9, 0), ("H100", "H200", "H800", "H20", "GH200")),
    ((12, 0), ("RTX 50", "RTX PRO 6000 Blackwell")),
    ((8, 9), ("L4", "L40", "RTX 40", "RTX 6000 Ada")),
    ((8, 6), ("A10", "A40", "RTX 30", "RTX A")),
    ((8, 0), ("A100", "A800", "A30")),
    ((7, 5), ("T4", "RTX 20")),
)


@dataclass(frozen=True, slots=True)
class Target:
    """The device that a call is for.

    Attributes
    ----------
    platform
        ``"cpu"``, ``"cuda"``, ``"rocm"``, ``"tpu"``, or another word of PJRT.
    kind
        The device kind, as ``"NVIDIA H200"``, ``"gfx942"`` or ``"TPU v5e"``; empty where nobody knows.
    capability
        CUDA's compute capability, as (9, 0).
    """

    platform: str
    kind: str = ""
    capability: tuple[int, int] | None = None


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
