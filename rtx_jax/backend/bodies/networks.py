"""Default bodies of normalizations, RoPE, pools and blocks of images."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ...checks import fold as check_fold
from ...checks import pooling as check_pooling
from ..core import Tensor
from .tools import Body, constant, in_float32, put_rows, take_rows, tensor

if TYPE_CHECKING:
    from ..base import Backend

__all__ = ["BODIES"]

T = TypeVar("T", bound=Tensor)


def _affine(B: Backend[T], x: T, weight: T | None, bias: T | None, shape: tuple[int, ...]) -> T:
    if weight is not None:
        x = B.mul(x, B.reshape(weight, shape))
    return x if bias is None else B.add(x, B.reshape(bias, shape))


def _scaled(B: Backend[T], rest: T, square: T, eps: float) -> T:
    return B.mul(rest, B.pow(B.add(square, constant(B, rest, eps)), -0.5))


def _standardized(B: Backend[T], x: T, dim: int, eps: float) -> T:
    rest = B.sub(x, B.mean_dim(x, dim))
    rest = B.sub(rest, B.mean_dim(rest, dim))  # what rounding left of the mean
    return _scaled(B, rest, B.mean_dim(B.mul(rest, rest), dim), eps)


def layer_norm(B: Backend[T], x: T, weight: T | None, bias: T | None, eps: float) -> T:
    """Over the last axis."""
    return x if 0 in x.shape else _affine(B, _standardized(B, x, x.ndim - 1, eps), weight, bias, (-1,))


def rms_norm(B: Backend[T], x: T, weight: T | None, eps: float) -> T:
    """By the root of the mean square."""
    if 0 in x.shape:
        return x
    return _affine(B, _scaled(B, x, B.mean_dim(B.mul(x, x), x.ndim - 1), eps), weight, None, (-1,))


def group_norm(B: Backend[T], x: T, weight: T | None, bias: T | None, num_groups: int, eps: float) -> T:
    """Over each group of each row."""
    if 0 in x.shape:
        return x
    rows = B.reshape(x, (x.shape[0], num_groups, -1))
    out = B.reshape(_standardized(B, rows, 2, eps), x.shape)
    return _affine(B, out, weight, bias, (-1, *(1,) * (x.ndim - 2)))


def instance_norm(B: Backend[T], x: T, weight: T | None, bias: T | None, eps: float) -> T:
    """Groups of one channel."""
    return group_norm(B, x, weight, bias, x.shape[1], eps)


def rope(
    B: Backend[T],
    x: T,
    cos: T,
    sin: T,
    positions: T | np.ndarray | None,
    layout: str,
    seq_axis: int,
    rotary_dim: int | None,
) -> T:
    """Products of the two channels of each pair with the tables, put back to their places."""
    last = x.ndim - 1
    size = x.shape[last]
    width = size if rotary_dim is None else rotary_dim
    half = width // 2
    if layout == "half":
        first, second = np.arange(half), np.arange(half, width)
    else:
        first, second = np.arange(0, width, 2), np.arange(1, width, 2)
    if cos.shape[1] == width and width:
        cos, sin = take_rows(B, cos, 1, first), take_rows(B, sin, 1, first)
    shape = [1] * x.ndim
    shape[seq_axis], shape[last] = x.shape[seq_axis], half
    if positions is not None:
        if positions.ndim == 2:
            shape[0] = positions.shape[0]
        cos, sin = B.embedding(positions, cos), B.embedding(positions, sin)
    cos, sin = B.reshape(cos, shape), B.reshape(sin, shape)
    a, b = take_rows(B, x, last, first), take_rows(B, x, last, second)
    turned = B.add(
        put_rows(B, B.sub(B.mul(a, cos), B.mul(b, sin)), last, first, size),
        put_rows(B, B.add(B.mul(b, cos), B.mul(a, sin)), last, second, size),
    )
    if width == size:
        return turned
    rest = np.arange(width, size)
    return B.add(turned, put_rows(B, take_rows(B, x, last, rest), last, rest, size))


def _windows(size: tuple[int, ...], axes: list[list[list[int]]]) -> np.ndarray:
    """Return the flat positions of the elements of each window, -1 for the padding: ``(windows, elements)``.

    ``axes[i][j]`` lists the positions of window j along spatial axis i.
    """
    out = np.zeros((1, 1), np.int64)
    for n, windows in zip(size, axes, strict=True):
        step = np.asarray(windows, np.int64).reshape(len(windows), -1)
        step = np.where((step < 0) | (step >= n), -1, step)
        joined = out[:, None, :, None] * n + step[None, :, None, :]
        joined = np.where((out[:, None, :, None] < 0) | (step[None, :, None, :] < 0), -1, joined)
        out = joined.reshape(out.shape[0] * step.shape[0], -1)
    return out


def _strided(plan: check_pooling.Pool, spatial: int) -> list[list[list[int]]]:
    return [
        [[i * s - lo + j * d for j in range(k)] for i in range(count)]
        for k, s, d, (lo, _), count in zip(
            plan.kernel_size, plan.stride, plan.dilation, plan.padding, plan.shape[-spatial:], strict=True
        )
    ]


def _gathered(B: Backend[T], x: T, spatial: int, places: np.ndarray) -> T:
    """Return ``(windows, elements, rows)`` of `x`, whose spatial axes are flattened; -1 reads zero."""
    size = math.prod(x.shape[-spatial:])
    columns = B.permute(B.reshape(x, (math.prod(x.shape[:-spatial]), size)), (1, 0))
    if (places < 0).any():
        columns = B.index_add(columns, range(size), size + 1)  # a row of zeros at the end
        places = np.where(places < 0, size, places)
    return B.reshape(B.index_select(columns, places.reshape(-1)), (*places.shape, columns.shape[1]))


def _spread(B: Backend[T], reduced: T, shape: tuple[int, ...]) -> T:
    return B.reshape(B.permute(B.reshape(reduced, (reduced.shape[0], reduced.shape[2])), (1, 0)), shape)


def _greatest(B: Backend[T], x: T, spatial: int, places: np.ndarray, shape: tuple[int, ...]) -> T:
    if 0 in shape:
        return B.zeros(shape, dtype=x.dtype, device=B.device(x))
    # Padding is replaced by another element of its window, which changes no maximum.
    places = np.where(places < 0, places.max(axis=1, keepdims=True), places)
    return _spread(B, B.max_dim(_gathered(B, x, spatial, places), 1), shape)


def _averaged(B: Backend[T], x: T, spatial: int, places: np.ndarray, counts: np.ndarray, shape: tuple[int, ...]) -> T:
    if 0 in shape:
        return B.zeros(shape, dtype=x.dtype, device=B.device(x))
    total = B.sum_dim(_gathered(B, x, spatial, places), 1)
    return _spread(B, B.div(total, tensor(B, x, counts.reshape(-1, 1, 1).astype(x.dtype))), shape)


def _max_pool(spatial: int) -> Body:
    def body(
        B: Backend[T],
        x: T,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: tuple[tuple[int, int], ...],
        dilation: tuple[int, ...],
        ceil_mode: bool,
    ) -> T:
        plan = check_pooling.pool(
            f"max_pool{spatial}d",
            spatial,
            x.shape,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            ceil_mode=ceil_mode,
        )
        return _greatest(B, x, spatial, _windows(x.shape[-spatial:], _strided(plan, spatial)), plan.shape)

    return body


def _avg_pool(spatial: int) -> Body:
    def body(
        B: Backend[T],
        x: T,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: tuple[tuple[int, int], ...],
        ceil_mode: bool,
        count_include_pad: bool,
    ) -> T:
        plan = check_pooling.pool(
            f"avg_pool{spatial}d",
            spatial,
            x.shape,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            dilation=1,
            ceil_mode=ceil_mode,
        )
        size = x.shape[-spatial:]
        each = plan.counts(size, include_pad=count_include_pad)
        counts = np.array([math.prod(c) for c in itertools.product(*each)])
        return _averaged(B, x, spatial, _windows(size, _strided(plan, spatial)), counts, plan.shape)

    body.__name__ = f"avg_pool{spatial}d"
    return in_float32(body)


def _adaptive(kind: str, spatial: int) -> Body:
    def body(B: Backend[T], x: T, output_size: tuple[int, ...]) -> T:
        name = f"adaptive_{kind}_pool{spatial}d"
        size, shape = x.shape[-spatial:], check_pooling.adaptive(name, spatial, x.shape, output_size).shape
        bounds = [check_pooling.bounds(n, m) for n, m in zip(size, output_size, strict=True)]
        axes = []
        for windows in bounds:
            width = max(stop - start for start, stop in windows)
            axes.append([[*range(start, stop), *[-1] * (width - stop + start)] for start, stop in windows])
        places = _windows(size, axes)
        if kind == "max":
            return _greatest(B, x, spatial, places, shape)
        return _averaged(B, x, spatial, places, (places >= 0).sum(axis=1), shape)

    body.__name__ = f"adaptive_{kind}_pool{spatial}d"
    return body if kind == "max" else in_float32(body)


def _blocks(plan: check_fold.Blocks) -> np.ndarray:
    axes = [
        [[i * s - lo + j * d for j in range(k)] for i in range(count)]
        for k, s, d, (lo, _), count in zip(
            plan.kernel_size, plan.stride, plan.dilation, plan.padding, plan.counts, strict=True
        )
    ]
    return _windows(plan.image, axes)


def unfold(
    B: Backend[T],
    x: T,
    kernel_size: tuple[int, ...],
    dilation: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    stride: tuple[int, ...],
) -> T:
    """Elements of the image at the places of all blocks."""
    plan = check_fold.unfold(x.shape, kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)
    blocks = _gathered(B, x, 2, _blocks(plan))  # (blocks, elements, rows)
    return B.reshape(B.permute(blocks, (2, 1, 0)), plan.shape)


def fold(
    B: Backend[T],
    x: T,
    output_size: tuple[int, ...],
    kernel_size: tuple[int, ...],
    dilation: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    stride: tuple[int, ...],
) -> T:
    """Elements of all blocks added at their places of the image; those of the padding go to a row that is dropped."""
    plan = check_fold.fold(
        x.shape,
        output_size=output_size,
        kernel_size=kernel_size,
        dilation=dilation,
        padding=padding,
        stride=stride,
    )
    places, size = _blocks(plan), math.prod(plan.image)
    count = math.prod(plan.kernel_size)
    rows = math.prod(x.shape) // (count * places.shape[0])
    values = B.permute(B.reshape(x, (rows, count, places.shape[0])), (2, 1, 0))
    flat = B.reshape(values, (places.size, rows))
    image = B.index_add(flat, np.where(places < 0, size, places).reshape(-1), size + 1)
    return B.reshape(B.permute(B.index_select(image, range(size)), (1, 0)), plan.shape)


def _conv1d(B: Backend[T], x: T, weight: T, bias: T | None, *params: object) -> T:
    """A convolution of images of one row."""
    stride, padding, dilation, groups, dtype, precision = params
    image = B.reshape(x, (*x.shape[:-1], 1, x.shape[-1]))
    kernel = B.reshape(weight, (*weight.shape[:2], 1, weight.shape[2]))
    out = B._apply(
        "conv2d",
        (image, kernel, bias),
        ((1, *stride), ((0, 0), *padding), (1, *dilation), groups, dtype, precision),  # type: ignore[misc]
    )
    return B.reshape(out, (*out.shape[:-2], out.shape[-1]))


BODIES: dict[str, Body] = {
    "layer_norm": in_float32(layer_norm),
    "rms_norm": in_float32(rms_norm),
    "group_norm": in_float32(group_norm),
    "instance_norm": in_float32(instance_norm),
    "rope": in_float32(rope),
    "conv1d": _conv1d,
    **{f"max_pool{n}d": _max_pool(n) for n in (1, 2, 3)},
    **{f"avg_pool{n}d": _avg_pool(n) for n in (1, 2, 3)},
    **{f"adaptive_{kind}_pool{n}d": _adaptive(kind, n) for kind in ("avg", "max") for n in (1, 2, 3)},
    "unfold": unfold,
    "fold": in_float32(fold),
}
