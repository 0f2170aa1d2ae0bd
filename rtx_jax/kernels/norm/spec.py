"""The static part of a norm over the last axis."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NormSpec"]


@dataclass(frozen=True, slots=True)
class NormSpec:
    """What a norm computes; hashable.

    Attributes
    ----------
    centred
        Whether the mean is taken off first: layer norm, else RMS norm.
    weight, bias
        Whether there is one.
    eps
        Added to the mean square.
    passing
        Whether `x` is a result too. Its cotangent is then added where that of the norm is written, which is what the
        sum of a residual branch needs.
    """

    centred: bool
    weight: bool
    bias: bool
    eps: float
    passing: bool
