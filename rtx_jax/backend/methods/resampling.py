"""Methods that resample images, and take them apart into blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...checks import elementwise as check_elementwise
from ...checks import fold as check_fold
from ...checks import interpolate as check
from ...checks.choices import flag
from ...checks.spatial import Padding, Sizes, numeric
from ..core import BackendCore, T

__all__ = ["ResamplingMethods"]


class ResamplingMethods(BackendCore[T]):
    """Interpolation, and blocks of images as columns."""

    def interpolate(
        self,
        x: T,
        size: Sizes | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        *,
        align_corners: bool | None = None,
        recompute_scale_factor: bool = False,
    ) -> T:
        """Return `x` resampled to another size.

        Parameters
        ----------
        x
            ``(B, C, ...)`` with one, two or three spatial axes.
        size
            New sizes of the spatial axes.
        scale_factor
            Or their factors: the new size is ``floor(n * scale_factor)``.
        mode
            ``"nearest"``, ``"nearest-exact"``, ``"linear"``, ``"bilinear"``, ``"bicubic"``, ``"trilinear"`` or
            ``"area"``.
        align_corners
            Whether the outermost samples of both coincide; for the linear and cubic modes.
        recompute_scale_factor
            Take the factor from the sizes instead of `scale_factor`.

        Raises
        ------
        InvalidArgument
            Not exactly one of `size` and `scale_factor` is given, or a parameter is out of range.
        InvalidDimension
            The mode is not for this number of axes.
        ShapeMismatch
            `x` has no elements along an axis.
        """
        facts = self._given("interpolate", x)
        shape, dtype = facts
        again = flag("interpolate", "recompute_scale_factor", recompute_scale_factor)

        def checked() -> tuple[object, ...]:
            plan = check.interpolation(
                shape,
                size=size,
                scale_factor=scale_factor,
                mode=mode,
                align_corners=align_corners,
                recompute_scale_factor=again,
            )
            if plan.mode.startswith("nearest"):
                numeric("interpolate", dtype)
            else:
                check_elementwise.floating("interpolate", dtype)
            if scale_factor is None:
                return plan.size, None, plan.mode, align_corners, again
            factors = plan.factors or (scale_factor if isinstance(scale_factor, Sequence) else (scale_factor,))
            given = tuple([float(f) for f in factors])
            return None, given if len(given) > 1 else given[0], plan.mode, align_corners, again

        key = "interpolate", facts, size, type(size), scale_factor, mode, align_corners, again
        return self._apply("interpolate", (x,), self._checked(key, checked))

    def unfold(self, x: T, kernel_size: Sizes, dilation: Sizes = 1, padding: Padding = 0, stride: Sizes = 1) -> T:
        """Return the blocks of images as columns.

        Parameters
        ----------
        x
            ``(B, C, H, W)``; the batch axis may be missing.
        kernel_size, dilation, padding, stride
            Of the blocks, as of the windows of `conv2d`.

        Returns
        -------
        Tensor
            ``(B, C * KH * KW, L)`` for L blocks in row-major order.

        Raises
        ------
        InvalidArgument
            A parameter is out of range, or no block fits.
        InvalidDimension
            `x` has another number of axes.
        """
        facts = self._given("unfold", x)

        def checked() -> tuple[object, ...]:
            numeric("unfold", facts[1])
            plan = check_fold.unfold(
                facts[0], kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride
            )
            return plan.kernel_size, plan.dilation, plan.padding, plan.stride

        params = kernel_size, dilation, padding, stride
        key = "unfold", facts, params, tuple([type(p) for p in params])
        return self._apply("unfold", (x,), self._checked(key, checked))

    def fold(
        self,
        x: T,
        output_size: Sizes,
        kernel_size: Sizes,
        dilation: Sizes = 1,
        padding: Padding = 0,
        stride: Sizes = 1,
    ) -> T:
        """Return images to which columns of blocks are added up: the transpose of `unfold`.

        Parameters
        ----------
        x
            ``(B, C * KH * KW, L)``; the batch axis may be missing.
        output_size
            H and W of the images.
        kernel_size, dilation, padding, stride
            Of the blocks, as of the windows of `conv2d`.

        Returns
        -------
        Tensor
            ``(B, C, H, W)``.

        Raises
        ------
        ShapeMismatch
            The columns are not those of such images.
        InvalidArgument
            A parameter is out of range, or no block fits.
        InvalidDimension
            `x` has another number of axes.
        """
        facts = self._given("fold", x)

        def checked() -> tuple[object, ...]:
            numeric("fold", np.dtype(facts[1]))
            plan = check_fold.fold(
                facts[0],
                output_size=output_size,
                kernel_size=kernel_size,
                dilation=dilation,
                padding=padding,
                stride=stride,
            )
            return plan.image, plan.kernel_size, plan.dilation, plan.padding, plan.stride

        params = output_size, kernel_size, dilation, padding, stride
        key = "fold", facts, params, tuple([type(p) for p in params])
        return self._apply("fold", (x,), self._checked(key, checked))
