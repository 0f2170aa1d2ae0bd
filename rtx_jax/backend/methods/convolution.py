"""Convolutions and their transposes, in the layouts NC... and OI...."""

from __future__ import annotations

import numpy as np

from ...checks import convolution as check
from ...checks.spatial import Padding, Sizes
from ..core import BackendCore, T
from .shape import product_precision

__all__ = ["ConvolutionMethods"]


class ConvolutionMethods(BackendCore[T]):
    """Convolutions of one, two and three spatial axes.

    They are correlations, as everywhere in this field: the kernel is not mirrored. `stride`, `dilation` and the like
    are one integer or one for each spatial axis; `padding` also pairs (before, after), ``"same"`` or ``"valid"``. Sums
    of floats below 32 bits are formed in float32 and rounded once. `dtype` is that of the result, None the common one
    of the operands; integers need int32 for sums that do not wrap. The batch axis may be missing. Errors of all
    methods: `InvalidDimension` for another number of axes, `ShapeMismatch` for channels or a bias that do not fit,
    `InvalidArgument` for a stride or dilation below 1, a negative padding, groups that do not divide the channels or a
    result that would be empty, `DTypeMismatch`.
    """

    def conv1d(
        self,
        x: T,
        weight: T,
        bias: T | None = None,
        stride: Sizes = 1,
        padding: Padding = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        *,
        dtype: object = None,
        precision: str | None = None,
    ) -> T:
        """Return the convolution of ``(B, C, L)`` with ``(O, C / groups, K)``; see `conv2d`."""
        return self._convolve("conv1d", 1, x, weight, bias, stride, padding, dilation, groups, dtype, precision)

    def conv2d(
        self,
        x: T,
        weight: T,
        bias: T | None = None,
        stride: Sizes = (1, 1),
        padding: Padding = (0, 0),
        dilation: Sizes = (1, 1),
        groups: int = 1,
        *,
        dtype: object = None,
        precision: str | None = None,
    ) -> T:
        """Return the convolution of images with kernels.

        Parameters
        ----------
        x
            ``(B, C, H, W)``.
        weight
            ``(O, C / groups, KH, KW)``.
        bias
            ``(O,)``, added to each channel of the result.
        stride
            Step of the window, 1 or more.
        padding
            Zeros around the image, 0 or more.
        dilation
            Distance of the window's elements, 1 or more.
        groups
            Channels of x and of the result fall into as many groups, of which each sees its own.

        Returns
        -------
        Tensor
            ``(B, O, OH, OW)`` with ``OH = (H + before + after - dilation * (KH - 1) - 1) // stride + 1``.
        """
        return self._convolve("conv2d", 2, x, weight, bias, stride, padding, dilation, groups, dtype, precision)

    def conv3d(
        self,
        x: T,
        weight: T,
        bias: T | None = None,
        stride: Sizes = 1,
        padding: Padding = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        *,
        dtype: object = None,
        precision: str | None = None,
    ) -> T:
        """Return the convolution of ``(B, C, D, H, W)`` with ``(O, C / groups, KD, KH, KW)``; see `conv2d`."""
        return self._convolve("conv3d", 3, x, weight, bias, stride, padding, dilation, groups, dtype, precision)

    def conv_transpose1d(
        self,
        x: T,
        weight: T,
        bias: T | None = None,
        stride: Sizes = 1,
        padding: Padding = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        dilation: Sizes = 1,
        *,
        dtype: object = None,
        precision: str | None = None,
    ) -> T:
        """Return the transposed convolution of ``(B, C, L)`` with ``(C, O / groups, K)``; see `conv_transpose2d`."""
        args = stride, padding, output_padding, groups, dilation
        return self._transpose_of("conv_transpose1d", 1, x, weight, bias, args, dtype, precision)

    def conv_transpose2d(
        self,
        x: T,
        weight: T,
        bias: T | None = None,
        stride: Sizes = 1,
        padding: Padding = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        dilation: Sizes = 1,
        *,
        dtype: object = None,
        precision: str | None = None,
    ) -> T:
        """Return the transpose of the convolution with the same parameters: its gradient in x.

        Parameters
        ----------
        x
            ``(B, C, H, W)``.
        weight
            ``(C, O / groups, KH, KW)``: the kernel of the convolution that takes the result to x.
        bias
            ``(O,)``.
        stride, dilation, groups
            Of that convolution.
        padding
            Of that convolution: it takes elements away from the result. ``"same"`` gives ``H * stride``.
        output_padding
            Elements added after each axis of the result, below `stride` or `dilation`.

        Returns
        -------
        Tensor
            ``(B, O, OH, OW)`` with ``OH = (H - 1) * stride - before - after + dilation * (KH - 1) + 1 +
            output_padding``.
        """
        args = stride, padding, output_padding, groups, dilation
        return self._transpose_of("conv_transpose2d", 2, x, weight, bias, args, dtype, precision)

    def conv_transpose3d(
        self,
        x: T,
        weight: T,
        bias: T | None = None,
        stride: Sizes = 1,
        padding: Padding = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        dilation: Sizes = 1,
        *,
        dtype: object = None,
        precision: str | None = None,
    ) -> T:
        """Return the transpose of a convolution of ``(B, C, D, H, W)``; see `conv_transpose2d`."""
        args = stride, padding, output_padding, groups, dilation
        return self._transpose_of("conv_transpose3d", 3, x, weight, bias, args, dtype, precision)

    def _convolve(
        self,
        operation: str,
        spatial: int,
        x: T,
        weight: T,
        bias: T | None,
        stride: Sizes,
        padding: Padding,
        dilation: Sizes,
        groups: int,
        dtype: object,
        precision: str | None,
    ) -> T:
        exactness = product_precision(operation, precision)
        facts = self._given(operation, x), self._given(operation, weight), self._facts(operation, bias)

        def checked() -> tuple[object, ...]:
            target = self._result_dtype(operation, facts, dtype)
            plan = check.convolution(
                operation,
                spatial,
                *_shapes(facts),
                stride=stride,
                padding=padding,
                dilation=dilation,
                groups=groups,
            )
            return plan.stride, plan.padding, plan.dilation, plan.groups, target, exactness

        key = operation, facts, _key(stride, padding, dilation, groups), dtype, exactness
        return self._apply(operation, (x, weight, bias), self._checked(key, checked))

    def _transpose_of(
        self,
        operation: str,
        spatial: int,
        x: T,
        weight: T,
        bias: T | None,
        args: tuple[Sizes, Padding, Sizes, int, Sizes],
        dtype: object,
        precision: str | None,
    ) -> T:
        exactness = product_precision(operation, precision)
        facts = self._given(operation, x), self._given(operation, weight), self._facts(operation, bias)

        def checked() -> tuple[object, ...]:
            stride, padding, output_padding, groups, dilation = args
            target = self._result_dtype(operation, facts, dtype)
            plan = check.transposed(
                operation,
                spatial,
                *_shapes(facts),
                stride=stride,
                padding=padding,
                output_padding=output_padding,
                dilation=dilation,
                groups=groups,
            )
            # "same" means something else here than the pairs that a convolution would have.
            kept = padding.lower() if isinstance(padding, str) else plan.padding
            return plan.stride, kept, plan.output_padding, plan.groups, plan.dilation, target, exactness

        key = operation, facts, _key(*args), dtype, exactness
        return self._apply(operation, (x, weight, bias), self._checked(key, checked))

    def _result_dtype(
        self, operation: str, facts: tuple[tuple[tuple[int, ...], np.dtype] | None, ...], dtype: object
    ) -> np.dtype | None:
        target = None if dtype is None else self._dtype(operation, dtype, self.float_dtype)
        x, weight, bias = facts
        assert x is not None and weight is not None
        check.dtypes(operation, x[1], weight[1], None if bias is None else bias[1], target)
        return target


def _shapes(
    facts: tuple[tuple[tuple[int, ...], np.dtype] | None, ...],
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None]:
    x, weight, bias = facts
    assert x is not None and weight is not None
    return x[0], weight[0], None if bias is None else bias[0]


def _key(*params: object) -> tuple[object, ...]:
    # 1, 1.0 and True are equal, and only one of them is a size.
    return params, tuple([type(p) for p in params])
