"""Checks of interpolation: the size of the result, and how far apart its samples lie in the input."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import InvalidArgument, InvalidDimension, ShapeMismatch
from .choices import flag, is_one_of
from .parameters import positive
from .spatial import entries, room, sizes

__all__ = ["MODES", "Interpolation", "factors", "interpolation"]

MODES: dict[str, tuple[int, ...]] = {
    "nearest": (1, 2, 3),
    "nearest-exact": (1, 2, 3),
    "linear": (1,),
    "bilinear": (2,),
    "bicubic": (2,),
    "trilinear": (3,),
    "area": (1, 2, 3),
}
"""The modes, and how many spatial axes each takes."""

_ALIGNING = ("linear", "bilinear", "bicubic", "trilinear")


@dataclass(frozen=True, slots=True)
class Interpolation:
    """An interpolation whose parameters are checked.

    Attributes
    ----------
    mode
        One of `MODES`.
    size
        Of the result, for each spatial axis.
    factors
        Samples of the result to one of the input, as the caller gave them, or None where the sizes decide.
    align_corners
        Whether the outermost samples of both coincide.
    shape
        Of the result.
    """

    mode: str
    size: tuple[int, ...]
    factors: tuple[float, ...] | None
    align_corners: bool
    shape: tuple[int, ...]


def interpolation(
    shape: tuple[int, ...],
    *,
    size: object,
    scale_factor: object,
    mode: str,
    align_corners: bool | None,
    recompute_scale_factor: bool,
) -> Interpolation:
    """Check an interpolation of `x` (B, C, ...) to `size`, or to ``floor(n * scale_factor)``.

    Raises
    ------
    InvalidDimension
        The mode is not for this number of axes.
    InvalidArgument
        Not exactly one of `size` and `scale_factor` is given, or a parameter is out of range.
    ShapeMismatch
        `x` has no elements along an axis.
    """
    operation = "interpolate"
    spatial = len(shape) - 2
    word = mode.lower() if isinstance(mode, str) else mode
    if not is_one_of(word, MODES):
        raise InvalidArgument(
            operation, "mode", got=repr(mode), wanted="one of " + ", ".join(MODES), arg="mode", reason="unknown mode"
        )
    if spatial not in MODES[word]:
        fit = [name for name, counts in MODES.items() if spatial in counts]
        raise InvalidDimension(
            operation,
            "x",
            got=f"shape {shape} in mode {word!r}",
            wanted=" or ".join(str(n + 2) for n in MODES[word]) + " axes (B, C, ...)",
            remedy=f"Modes for {len(shape)} axes: {', '.join(fit)}." if fit else "",
            dim=len(shape),
            ndim=MODES[word][0] + 2,
        )
    if align_corners is not None and word not in _ALIGNING:
        raise InvalidArgument(
            operation,
            "align_corners",
            got=f"{align_corners} in mode {word!r}",
            wanted="None",
            remedy=f"It has a meaning in the modes {', '.join(_ALIGNING)}.",
            arg="align_corners",
            reason="no meaning in this mode",
        )
    if (size is None) == (scale_factor is None):
        raise InvalidArgument(
            operation,
            "size",
            got="neither size nor scale_factor" if size is None else "size and scale_factor",
            wanted="one of them",
            arg="size",
            reason="one of two",
        )
    have = shape[2:]
    if 0 in have:
        raise ShapeMismatch(
            operation,
            "x",
            got=f"shape {shape}",
            wanted="at least one element along each spatial axis",
            expected=(*shape[:2], *[max(n, 1) for n in have]),
            got_shape=shape,
        )
    ratios: tuple[float, ...] | None = None
    if size is not None:
        wanted = sizes(operation, "size", size, spatial)
    else:
        ratios = factors(scale_factor, spatial)
        wanted = tuple([math.floor(n * factor) for n, factor in zip(have, ratios, strict=True)])
        if min(wanted) < 1:
            raise InvalidArgument(
                operation,
                "scale_factor",
                got=f"{scale_factor} for sizes {have}, which gives {wanted}",
                wanted="a result of at least one element along each axis",
                arg="scale_factor",
                reason="empty output",
            )
    if flag(operation, "recompute_scale_factor", recompute_scale_factor):
        ratios = None
    return Interpolation(
        word,
        wanted,
        ratios,
        align_corners is not None and flag(operation, "align_corners", align_corners),
        room(operation, (*shape[:2], *wanted)),
    )


def factors(value: object, spatial: int) -> tuple[float, ...]:
    """Return a scale factor for each spatial axis; one number stands for all.

    Raises
    ------
    InvalidArgument
        There is another number of them, or one is not a finite number above 0.
    """
    parts = list(value) if isinstance(value, (tuple, list)) else [value] * spatial
    if len(parts) != spatial:
        raise InvalidArgument(
            "interpolate",
            "scale_factor",
            got=f"{value}, of {len(parts)} entries",
            wanted=f"a number or {entries(spatial, 'number')}",
            arg="scale_factor",
            reason="wrong length",
        )
    return tuple([positive("interpolate", "scale_factor", part) for part in parts])
