"""Convolutions, pools and resampling written as loops over NumPy arrays: what the operations are compared with.

Everything is computed in the dtype of the operands, float64 or integers; arrays are (B, C, ...).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

Pairs = Sequence[tuple[int, int]]


def each(value: object, spatial: int) -> list:
    """One value for each spatial axis; a single one stands for all."""
    return list(value) if isinstance(value, (tuple, list)) else [value] * spatial


def pairs(value: object, spatial: int) -> list[tuple[int, int]]:
    return [part if isinstance(part, tuple) else (part, part) for part in each(value, spatial)]


def convolve(
    x: np.ndarray,
    w: np.ndarray,
    b: np.ndarray | None = None,
    stride: object = 1,
    padding: object = 0,
    dilation: object = 1,
    groups: int = 1,
) -> np.ndarray:
    """y[n, o, i] = sum over c, k of x[n, c, i * stride + k * dilation - padding] * w[o, c, k]."""
    spatial = w.ndim - 2
    strides, dilations, pads = each(stride, spatial), each(dilation, spatial), pairs(padding, spatial)
    x = np.pad(x, [(0, 0), (0, 0), *pads])
    kernel = w.shape[2:]
    out = [(n - d * (k - 1) - 1) // s + 1 for n, d, k, s in zip(x.shape[2:], dilations, kernel, strides, strict=True)]
    y = np.zeros((x.shape[0], w.shape[0], *out), x.dtype)
    inputs, outputs = w.shape[1], w.shape[0] // groups
    for group in range(groups):
        mine = x[:, group * inputs : (group + 1) * inputs]
        kernels = w[group * outputs : (group + 1) * outputs]
        for tap in itertools.product(*map(range, kernel)):
            part = mine[
                (
                    slice(None),
                    slice(None),
                    *(
                        slice(t * d, t * d + (n - 1) * s + 1, s)
                        for t, d, n, s in zip(tap, dilations, out, strides, strict=True)
                    ),
                )
            ]
            product = np.tensordot(kernels[(slice(None), slice(None), *tap)], part, ((1,), (1,)))
            y[:, group * outputs : (group + 1) * outputs] += np.moveaxis(product, 0, 1)
    return y if b is None else y + b.reshape(-1, *(1,) * spatial)


def convolve_transposed(
    x: np.ndarray,
    w: np.ndarray,
    b: np.ndarray | None = None,
    stride: object = 1,
    padding: object = 0,
    dilation: object = 1,
    groups: int = 1,
    output_padding: object = 0,
) -> np.ndarray:
    """Every element of x puts its multiple of the kernel into the result, `stride` apart; the border is cut off."""
    spatial = w.ndim - 2
    strides, dilations, pads = each(stride, spatial), each(dilation, spatial), pairs(padding, spatial)
    extra = each(output_padding, spatial)
    inputs, outputs = w.shape[0] // groups, w.shape[1]
    full = [
        (n - 1) * s + d * (k - 1) + 1 + e
        for n, s, d, k, e in zip(x.shape[2:], strides, dilations, w.shape[2:], extra, strict=True)
    ]
    y = np.zeros((x.shape[0], groups * outputs, *full), x.dtype)
    for place in np.ndindex(*x.shape[2:]):
        for tap in np.ndindex(*w.shape[2:]):
            target = tuple(p * s + t * d for p, s, t, d in zip(place, strides, tap, dilations, strict=True))
            for group in range(groups):
                chosen = x[(slice(None), slice(group * inputs, (group + 1) * inputs), *place)]
                kernel = w[(slice(group * inputs, (group + 1) * inputs), slice(None), *tap)]
                y[(slice(None), slice(group * outputs, (group + 1) * outputs), *target)] += chosen @ kernel
    y = y[(slice(None), slice(None), *(slice(lo, n - hi) for n, (lo, hi) in zip(full, pads, strict=True)))]
    return y if b is None else y + b.reshape(-1, *(1,) * spatial)


def window_bounds(n: int, k: int, s: int, pad: tuple[int, int], d: int = 1, ceil: bool = False) -> list[list[int]]:
    """The indices of the elements that each window along an axis holds; those in the padding are absent."""
    lo, hi = pad
    rest = n + lo + hi - d * (k - 1) - 1
    count = (-(-rest // s) if ceil else rest // s) + 1
    starts = [i * s - lo for i in range(count)]
    return [[i for i in range(start, start + d * k, d) if 0 <= i < n] for start in starts if not ceil or start < n]


def pool(x: np.ndarray, windows: Sequence[list[list[int]]], reduce: Callable[..., np.ndarray]) -> np.ndarray:
    """`reduce` of the elements (B, C, n) of each window in row-major order, and of the place of the window."""
    out = np.zeros((*x.shape[:2], *map(len, windows)), x.dtype)
    for place in np.ndindex(*out.shape[2:]):
        chosen = [axis[i] for axis, i in zip(windows, place, strict=True)]
        block = x[(slice(None), slice(None), *np.ix_(*chosen))].reshape(*x.shape[:2], -1)
        out[(slice(None), slice(None), *place)] = reduce(block, place)
    return out


def max_pool(
    x: np.ndarray, kernel: object, stride: object, padding: object = 0, dilation: object = 1, ceil: bool = False
) -> np.ndarray:
    spatial = x.ndim - 2
    parameters = each(kernel, spatial), each(stride, spatial), pairs(padding, spatial), each(dilation, spatial)
    windows = [window_bounds(n, k, s, p, d, ceil) for n, k, s, p, d in zip(x.shape[2:], *parameters, strict=True)]
    return pool(x, windows, lambda block, _: block.max(-1))


def avg_pool(
    x: np.ndarray, kernel: object, stride: object, padding: object = 0, ceil: bool = False, include: bool = True
) -> np.ndarray:
    spatial = x.ndim - 2
    kernels, strides, pads = each(kernel, spatial), each(stride, spatial), pairs(padding, spatial)
    windows = [
        window_bounds(n, k, s, p, 1, ceil) for n, k, s, p in zip(x.shape[2:], kernels, strides, pads, strict=True)
    ]

    def mean(block: np.ndarray, place: tuple[int, ...]) -> np.ndarray:
        if not include:
            return block.sum(-1) / block.shape[-1]
        count = 1
        for i, n, k, s, (lo, hi) in zip(place, x.shape[2:], kernels, strides, pads, strict=True):
            count *= min(i * s - lo + k, n + hi) - (i * s - lo)
        return block.sum(-1) / count

    return pool(x, windows, mean)


def adaptive(x: np.ndarray, out: Sequence[int], reduce: Callable[..., np.ndarray]) -> np.ndarray:
    windows = [
        [list(range(math.floor(i * n / m), math.ceil((i + 1) * n / m))) for i in range(m)]
        for n, m in zip(x.shape[2:], out, strict=True)
    ]
    return pool(x, windows, lambda block, _: reduce(block, -1))


def resample(x: np.ndarray, out: Sequence[int], taps: Callable[[int, int, int], dict[int, float]]) -> np.ndarray:
    """Each element of the result is a sum over all axes of weights: `taps(i, n, axis)` gives {index: weight}."""
    y = np.zeros((*x.shape[:2], *out), x.dtype)
    for place in np.ndindex(*out):
        along = [taps(i, n, axis) for axis, (i, n) in enumerate(zip(place, x.shape[2:], strict=True))]
        for chosen in itertools.product(*(axis.items() for axis in along)):
            weight = math.prod(w for _, w in chosen)
            if weight:
                y[(slice(None), slice(None), *place)] += weight * x[(slice(None), slice(None), *(i for i, _ in chosen))]
    return y


def gathered(pairs_of: Sequence[tuple[int, float]]) -> dict[int, float]:
    """Weights by index; those of one index add up."""
    out: dict[int, float] = {}
    for index, weight in pairs_of:
        out[index] = out.get(index, 0.0) + weight
    return out


def linear_taps(place: float, n: int) -> dict[int, float]:
    place = min(max(place, 0.0), n - 1)
    low = math.floor(place)
    return gathered([(low, 1 - (place - low)), (min(low + 1, n - 1), place - low)])


def cubic_taps(place: float, n: int) -> dict[int, float]:
    """Keys' kernel with a = -0.75, written as its two polynomials."""
    a = -0.75

    def weight(d: float) -> float:
        d = abs(d)
        if d <= 1:
            return (a + 2) * d**3 - (a + 3) * d**2 + 1
        return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0

    low = math.floor(place)
    return gathered([(min(max(i, 0), n - 1), weight(place - i)) for i in range(low - 1, low + 3)])


def unfold(x: np.ndarray, kernel: Sequence[int], dilation: object, padding: object, stride: object) -> np.ndarray:
    (kh, kw), (dh, dw), (sh, sw) = kernel, each(dilation, 2), each(stride, 2)
    x = np.pad(x, [(0, 0), (0, 0), *pairs(padding, 2)])
    rows = range(0, x.shape[2] - dh * (kh - 1), sh)
    columns = range(0, x.shape[3] - dw * (kw - 1), sw)
    blocks = [
        x[:, :, i : i + dh * (kh - 1) + 1 : dh, j : j + dw * (kw - 1) + 1 : dw].reshape(x.shape[0], -1)
        for i in rows
        for j in columns
    ]
    return np.stack(blocks, -1)
