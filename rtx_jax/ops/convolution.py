"""Convolutions in one to three dimensions and their transposes on raw arrays: (B, C, ...) with weights (O, C, ...).

They are cross-correlations, as in every library of networks. Floats below 32 bits are multiplied and added in float32
and rounded once; integers wrap around in the dtype of the result, which ``dtype`` widens. ``precision`` is that of
float32 products, ``"highest"`` when None.
"""

from __future__ import annotations

import jax
import numpy as np
from jax import lax

from ..checks import convolution as _check
from ..checks.elementwise import kind_of
from ..checks.linear import precision as _precision
from ..checks.spatial import Padding, Pairs, Sizes
from ..core.dtypes import FLOAT8, INTEGRAL, int32, uint32
from ..raw._kinds import accumulator, cast, enter

__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]


def conv1d(
    x: jax.Array,
    weight: jax.Array,
    bias: jax.Array | None = None,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    dtype: np.dtype | None = None,
    precision: str | None = None,
) -> jax.Array:
    """Convolve `x` (B, C, W) with `weight` (O, C / groups, k)."""
    return _convolve("conv1d", 1, x, weight, bias, stride, padding, dilation, groups, dtype, precision)


def conv2d(
    x: jax.Array,
    weight: jax.Array,
    bias: jax.Array | None = None,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    dtype: np.dtype | None = None,
    precision: str | None = None,
) -> jax.Array:
    """Convolve `x` (B, C, H, W) with `weight` (O, C / groups, kh, kw)."""
    return _convolve("conv2d", 2, x, weight, bias, stride, padding, dilation, groups, dtype, precision)


def conv3d(
    x: jax.Array,
    weight: jax.Array,
    bias: jax.Array | None = None,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    dtype: np.dtype | None = None,
    precision: str | None = None,
) -> jax.Array:
    """Convolve `x` (B, C, D, H, W) with `weight` (O, C / groups, kd, kh, kw)."""
    return _convolve("conv3d", 3, x, weight, bias, stride, padding, dilation, groups, dtype, precision)


def conv_transpose1d(
    x: jax.Array,
    weight: jax.Array,
    bias: jax.Array | None = None,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
    dtype: np.dtype | None = None,
    precision: str | None = None,
) -> jax.Array:
    """Apply the transpose of `conv1d` to `x` (B, C, W); `weight` is (C, O / groups, k)."""
    name = "conv_transpose1d"
    return _transpose(name, 1, x, weight, bias, stride, padding, output_padding, dilation, groups, dtype, precision)


def conv_transpose2d(
    x: jax.Array,
    weight: jax.Array,
    bias: jax.Array | None = None,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
    dtype: np.dtype | None = None,
    precision: str | None = None,
) -> jax.Array:
    """Apply the transpose of `conv2d` to `x` (B, C, H, W); `weight` is (C, O / groups, kh, kw)."""
    name = "conv_transpose2d"
    return _transpose(name, 2, x, weight, bias, stride, padding, output_padding, dilation, groups, dtype, precision)


def conv_transpose3d(
    x: jax.Array,
    weight: jax.Array,
    bias: jax.Array | None = None,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
    dtype: np.dtype | None = None,
    precision: str | None = None,
) -> jax.Array:
    """Apply the transpose of `conv3d` to `x` (B, C, D, H, W); `weight` is (C, O / groups, kd, kh, kw)."""
    name = "conv_transpose3d"
    return _transpose(name, 3, x, weight, bias, stride, padding, output_padding, dilation, groups, dtype, precision)


def _convolve(
    operation: str,
    spatial: int,
    x: jax.Array,
    weight: jax.Array,
    bias: jax.Array | None,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes,
    groups: int,
    dtype: np.dtype | None,
    precision: str | None,
) -> jax.Array:
    plan = _check.convolution(
        operation,
        spatial,
        x.shape,
        weight.shape,
        None if bias is None else bias.shape,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
    )
    common, out = _check.dtypes(operation, x.dtype, weight.dtype, None if bias is None else bias.dtype, dtype)
    with enter(common), enter(out):
        # The gradient of a convolution padded by more than its window has negative padding, so such padding is put
        # in by itself.
        reach = [d * (k - 1) for d, k in zip(plan.dilation, weight.shape[2:], strict=True)]
        if spatial == 3 and common == np.float64:
            # So is all padding here: XLA on a CPU ends the process when it compiles the gradient of a padded
            # convolution with strides in three dimensions of float64 (JAX 0.12.0).
            reach = [0] * spatial
        inner = tuple([(min(lo, r), min(hi, r)) for (lo, hi), r in zip(plan.padding, reach, strict=True)])
        outer = [(lo - a, hi - b) for (lo, hi), (a, b) in zip(plan.padding, inner, strict=True)]
        if any(map(any, outer)):
            x = lax.pad(x, np.zeros((), x.dtype), [(0, 0, 0)] * (x.ndim - spatial) + [(*side, 0) for side in outer])
        product = _product(
            x if plan.batched else lax.expand_dims(x, (0,)),
            weight,
            common,
            out,
            stride=plan.stride,
            padding=inner,
            lhs_dilation=(1,) * spatial,
            rhs_dilation=plan.dilation,
            groups=plan.groups,
            precision=_precision(operation, precision),
        )
        return _finish(product, bias, plan, out)


def _transpose(
    operation: str,
    spatial: int,
    x: jax.Array,
    weight: jax.Array,
    bias: jax.Array | None,
    stride: Sizes,
    padding: Padding,
    output_padding: Sizes,
    dilation: Sizes,
    groups: int,
    dtype: np.dtype | None,
    precision: str | None,
) -> jax.Array:
    plan = _check.transposed(
        operation,
        spatial,
        x.shape,
        weight.shape,
        None if bias is None else bias.shape,
        stride=stride,
        padding=padding,
        output_padding=output_padding,
        dilation=dilation,
        groups=groups,
    )
    common, out = _check.dtypes(operation, x.dtype, weight.dtype, None if bias is None else bias.dtype, dtype)
    kernel = weight.shape[2:]
    with enter(common), enter(out):
        # x with stride - 1 zeros between its elements, convolved with the mirrored kernel at every place where the
        # two meet. Padding takes the places at the border away: more than there are in the convolution, of the
        # result.
        reach = [d * (k - 1) for d, k in zip(plan.dilation, kernel, strict=True)]
        ends = [
            (r - lo, r - hi + more) for r, (lo, hi), more in zip(reach, plan.padding, plan.output_padding, strict=True)
        ]
        flipped = lax.rev(weight, tuple(range(2, weight.ndim)))
        per_group = weight.shape[0] // plan.groups
        split = lax.reshape(flipped, (plan.groups, per_group, weight.shape[1], *kernel))
        split = lax.transpose(split, (0, 2, 1, *range(3, split.ndim)))
        product = _product(
            x if plan.batched else lax.expand_dims(x, (0,)),
            lax.reshape(split, (plan.groups * weight.shape[1], per_group, *kernel)),
            common,
            out,
            stride=(1,) * spatial,
            padding=tuple([(max(0, lo), max(0, hi)) for lo, hi in ends]),
            lhs_dilation=plan.stride,
            rhs_dilation=plan.dilation,
            groups=plan.groups,
            precision=_precision(operation, precision),
        )
        for axis, (lo, hi) in enumerate(ends, 2):
            if lo < 0 or hi < 0:
                product = lax.slice_in_dim(product, max(0, -lo), product.shape[axis] + min(0, hi), axis=axis)
        return _finish(product, bias, plan, out)


def _product(
    x: jax.Array,
    weight: jax.Array,
    common: np.dtype,
    out: np.dtype,
    *,
    stride: tuple[int, ...],
    padding: Pairs,
    lhs_dilation: tuple[int, ...],
    rhs_dilation: tuple[int, ...],
    groups: int,
    precision: str,
) -> jax.Array:
    """Convolve in the dtype in which sums for `out` are formed."""
    sums = accumulator(out)
    if common in INTEGRAL and out in INTEGRAL:
        # Modulo 2**bits all the same, and what hardware for 8-bit integers adds in.
        sums = out if out.itemsize >= 4 else uint32 if common.kind == "u" else int32
        operands = common if common.kind == sums.kind and common.itemsize <= sums.itemsize else sums
    elif kind_of(common) == "floating" and accumulator(common).itemsize > sums.itemsize:
        sums = operands = accumulator(common)
    else:
        operands = common if accumulator(common) == sums and common not in FLOAT8 else sums
    return lax.conv_general_dilated(
        cast(x, operands),
        cast(weight, operands),
        stride,
        padding,
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
        feature_group_count=groups,
        precision=lax.Precision(precision),
        preferred_element_type=sums,
    )


def _finish(product: jax.Array, bias: jax.Array | None, plan: _check.Convolution, out: np.dtype) -> jax.Array:
    if bias is not None:
        product = product + lax.expand_dims(cast(bias, product.dtype), (0, *range(2, product.ndim)))
    result = cast(product, out)
    return result if plan.batched else lax.squeeze(result, (0,))
