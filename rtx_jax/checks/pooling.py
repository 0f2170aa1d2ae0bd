"""Checks of pools: the windows of each axis, and the shape of the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ..errors import InvalidArgument, ShapeMismatch
from .parameters import whole
from .spatial import Pairs, batched, entries, pads, room, sizes, windows

__all__ = ["Adaptive", "OutputSizes", "Pool", "adaptive", "bounds", "pool"]

OutputSizes: TypeAlias = int | Sequence[int | None] | None
"""One integer for all spatial axes, or one for each; None keeps the size of the axis."""


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool whose parameters are checked.

    Attributes
    ----------
    kernel_size, stride, dilation
        Of the window, for each spatial axis.
    padding
        Before and after each spatial axis, as the caller asked for.
    reach
        The same, with what the last window of `ceil_mode` reaches beyond.
    batched
        Whether `x` has a batch axis.
    shape
        Of the result.
    """

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: Pairs
    dilation: tuple[int, ...]
    reach: Pairs
    batched: bool
    shape: tuple[int, ...]

    def counts(self, shape: tuple[int, ...], *, include_pad: bool) -> tuple[tuple[int, ...], ...]:
        """Return how many elements each window has along each axis of sizes `shape`.

        The padding that the caller asked for counts with `include_pad`; what `ceil_mode` reaches beyond never does.
        """
        out = []
        spatial = len(self.kernel_size)
        for n, k, s, (lo, hi), count in zip(
            shape, self.kernel_size, self.stride, self.padding, self.shape[-spatial:], strict=True
        ):
            first, last = (-lo, n + hi) if include_pad else (0, n)
            starts = np.arange(count) * s - lo
            out.append(tuple((np.minimum(starts + k, last) - np.maximum(starts, first)).tolist()))
        return tuple(out)


@dataclass(frozen=True, slots=True)
class Adaptive:
    """An adaptive pool whose parameters are checked.

    Attributes
    ----------
    output_size
        For each spatial axis.
    batched
        Whether `x` has a batch axis.
    shape
        Of the result.
    """

    output_size: tuple[int, ...]
    batched: bool
    shape: tuple[int, ...]


def pool(
    operation: str,
    spatial: int,
    shape: tuple[int, ...],
    *,
    kernel_size: object,
    stride: object,
    padding: object,
    dilation: object,
    ceil_mode: bool,
) -> Pool:
    """Check a pool of `x` (B, C, ...); `stride` None is the size of the window.

    With `ceil_mode` the number of windows is rounded up, but a window that would begin beyond the elements and the
    padding before them is dropped. Every window holds at least one element.

    Raises
    ------
    InvalidDimension
        `x` has another number of axes.
    InvalidArgument
        A parameter is out of range, the padding is more than half of the window, or no window fits.
    """
    has_batch = batched(operation, shape, spatial)
    kernel = sizes(operation, "kernel_size", kernel_size, spatial)
    strides = kernel if stride is None else sizes(operation, "stride", stride, spatial)
    dilations = sizes(operation, "dilation", dilation, spatial)
    size = shape[-spatial:]
    pairs = pads(operation, padding, size, kernel, strides, dilations)
    count = list(windows(operation, size, kernel, strides, dilations, pairs, "kernel_size"))
    reach = list(pairs)
    for axis, (n, k, s, d, (lo, hi)) in enumerate(zip(size, kernel, strides, dilations, pairs, strict=True)):
        width = d * (k - 1) + 1
        if max(lo, hi) > width // 2:
            raise InvalidArgument(
                operation,
                "padding",
                got=f"({lo}, {hi}) for a window of {width} along spatial axis {axis}",
                wanted=f"at most {width // 2}, half of the window",
                remedy="Windows that lie in the padding alone have no value.",
                arg="padding",
                reason="more than half of the window",
            )
        if ceil_mode:
            number = -(-(n + lo + hi - width) // s) + 1
            if (number - 1) * s >= n + lo:
                number -= 1
            count[axis] = number
            reach[axis] = (lo, max(hi, (number - 1) * s + width - n - lo))
        _no_empty_window(operation, axis, n, k, s, d, lo, count[axis])
    out = room(operation, (*shape[:-spatial], *count))
    return Pool(kernel, strides, pairs, dilations, tuple(reach), has_batch, out)


def _no_empty_window(operation: str, axis: int, n: int, k: int, s: int, d: int, lo: int, count: int) -> None:
    """Refuse a window without an element: only those that begin in the padding, and the last one, can be such."""
    starts = [*range(-lo, min(0, -lo + count * s), s), -lo + (count - 1) * s]
    for start in starts:
        steps = max(0, -(start // d))  # to the first element at or after 0
        if steps >= k or start + steps * d >= n:
            raise InvalidArgument(
                operation,
                "padding",
                got=f"a window over the padding alone along spatial axis {axis}, of size {n}",
                wanted="an element in every window",
                remedy="Pad less, or make the window larger.",
                arg="padding",
                reason="empty window",
            )


def adaptive(operation: str, spatial: int, shape: tuple[int, ...], output_size: object) -> Adaptive:
    """Check a pool of `x` (B, C, ...) into `output_size` windows; None keeps the size of an axis.

    Window i of m over n elements is ``floor(i * n / m)`` to ``ceil((i + 1) * n / m)``.

    Raises
    ------
    InvalidDimension
        `x` has another number of axes.
    InvalidArgument
        A size is below 1, or there is another number of them.
    ShapeMismatch
        `x` has no elements along an axis.
    """
    has_batch = batched(operation, shape, spatial)
    size = shape[-spatial:]
    wanted = list(output_size) if isinstance(output_size, (tuple, list)) else [output_size] * spatial
    if len(wanted) != spatial:
        raise InvalidArgument(
            operation,
            "output_size",
            got=f"{tuple(wanted)}, of {len(wanted)} entries",
            wanted=f"an integer or {entries(spatial, 'integer')}; None keeps a size",
            arg="output_size",
            reason="wrong length",
        )
    if 0 in size:
        raise ShapeMismatch(
            operation,
            "x",
            got=f"shape {shape}",
            wanted="at least one element along each spatial axis",
            expected=tuple([max(n, 1) for n in size]),
            got_shape=shape,
        )
    out = tuple([n if m is None else whole(operation, "output_size", m, 1) for n, m in zip(size, wanted, strict=True)])
    return Adaptive(out, has_batch, room(operation, (*shape[:-spatial], *out)))


def bounds(n: int, m: int) -> tuple[tuple[int, int], ...]:
    """Return the first element of each of `m` windows over `n` elements, and the first one after it."""
    return tuple([(i * n // m, -(-(i + 1) * n // m)) for i in range(m)])
