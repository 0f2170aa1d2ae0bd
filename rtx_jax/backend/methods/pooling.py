"""Pools: the greatest or the mean element of each window."""

from __future__ import annotations

from ...checks import elementwise as check_elementwise
from ...checks import pooling as check
from ...checks import spatial
from ...checks.choices import flag
from ...checks.spatial import Padding, Sizes
from ..core import BackendCore, T

__all__ = ["PoolingMethods"]

OutputSizes = int | tuple[int | None, ...] | None


class PoolingMethods(BackendCore[T]):
    """Pools over one, two and three spatial axes, ``(B, C, ...)``; the batch axis may be missing.

    `kernel_size`, `stride` (None: the window's size) and `dilation` are one integer or one for each spatial axis;
    `padding` also pairs (before, after), ``"same"`` or ``"valid"``. Errors of all methods: `InvalidDimension` for
    another number of axes, `InvalidArgument` for a size below 1, a negative padding, one of more than half of the
    window (it would leave windows without an element), or a result that would be empty, `UnsupportedDType`.
    """

    def max_pool1d(
        self,
        x: T,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Padding = 0,
        dilation: Sizes = 1,
        *,
        ceil_mode: bool = False,
    ) -> T:
        """Return the greatest element of each window over one axis; see `max_pool2d`."""
        return self._max_pool("max_pool1d", 1, x, kernel_size, stride, padding, dilation, ceil_mode)

    def max_pool2d(
        self,
        x: T,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Padding = 0,
        dilation: Sizes = 1,
        *,
        ceil_mode: bool = False,
    ) -> T:
        """Return the greatest element of each window; NaN if one is NaN.

        Parameters
        ----------
        x
            ``(B, C, H, W)``, integers or floating.
        kernel_size
            Sizes of the window.
        stride
            Step of the window.
        padding
            Elements around the image that no maximum takes, at most half of the window.
        dilation
            Distance of the window's elements.
        ceil_mode
            Round the number of windows up; one that would begin in the padding after the image is dropped.

        Returns
        -------
        Tensor
            ``(B, C, OH, OW)``. Of equal elements the first gets the gradient.
        """
        return self._max_pool("max_pool2d", 2, x, kernel_size, stride, padding, dilation, ceil_mode)

    def max_pool3d(
        self,
        x: T,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Padding = 0,
        dilation: Sizes = 1,
        *,
        ceil_mode: bool = False,
    ) -> T:
        """Return the greatest element of each window over three axes; see `max_pool2d`."""
        return self._max_pool("max_pool3d", 3, x, kernel_size, stride, padding, dilation, ceil_mode)

    def avg_pool1d(
        self,
        x: T,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Padding = 0,
        *,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> T:
        """Return the mean of each window over one axis; see `avg_pool2d`."""
        return self._avg_pool("avg_pool1d", 1, x, kernel_size, stride, padding, ceil_mode, count_include_pad)

    def avg_pool2d(
        self,
        x: T,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Padding = 0,
        *,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> T:
        """Return the mean of each window.

        Parameters
        ----------
        x
            ``(B, C, H, W)``, floating.
        kernel_size, stride, padding, ceil_mode
            See `max_pool2d`; the padding is zeros.
        count_include_pad
            Divide by the whole window, padding included (the default); False divides by the elements in it.

        Returns
        -------
        Tensor
            ``(B, C, OH, OW)``, summed in float32 for floats below 32 bits.
        """
        return self._avg_pool("avg_pool2d", 2, x, kernel_size, stride, padding, ceil_mode, count_include_pad)

    def avg_pool3d(
        self,
        x: T,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Padding = 0,
        *,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> T:
        """Return the mean of each window over three axes; see `avg_pool2d`."""
        return self._avg_pool("avg_pool3d", 3, x, kernel_size, stride, padding, ceil_mode, count_include_pad)

    def adaptive_avg_pool1d(self, x: T, output_size: OutputSizes) -> T:
        """Return the mean of each of `output_size` windows over one axis; see `adaptive_avg_pool2d`."""
        return self._adaptive("adaptive_avg_pool1d", 1, x, output_size)

    def adaptive_avg_pool2d(self, x: T, output_size: OutputSizes) -> T:
        """Return the mean of each of `output_size` windows that cover the image.

        Window i of m over n elements reaches from ``floor(i * n / m)`` to ``ceil((i + 1) * n / m)``.

        Parameters
        ----------
        x
            ``(B, C, H, W)``.
        output_size
            Windows along each axis; None keeps the size.

        Raises
        ------
        ShapeMismatch
            `x` has no elements along an axis.
        """
        return self._adaptive("adaptive_avg_pool2d", 2, x, output_size)

    def adaptive_avg_pool3d(self, x: T, output_size: OutputSizes) -> T:
        """Return the mean of each of `output_size` windows over three axes; see `adaptive_avg_pool2d`."""
        return self._adaptive("adaptive_avg_pool3d", 3, x, output_size)

    def adaptive_max_pool1d(self, x: T, output_size: OutputSizes) -> T:
        """Return the greatest element of each of `output_size` windows over one axis; see `adaptive_max_pool2d`."""
        return self._adaptive("adaptive_max_pool1d", 1, x, output_size)

    def adaptive_max_pool2d(self, x: T, output_size: OutputSizes) -> T:
        """Return the greatest element of each of `output_size` windows that cover the image.

        Window i of m over n elements reaches from ``floor(i * n / m)`` to ``ceil((i + 1) * n / m)``.

        Parameters
        ----------
        x
            ``(B, C, H, W)``.
        output_size
            Windows along each axis; None keeps the size.

        Raises
        ------
        ShapeMismatch
            `x` has no elements along an axis.
        """
        return self._adaptive("adaptive_max_pool2d", 2, x, output_size)

    def adaptive_max_pool3d(self, x: T, output_size: OutputSizes) -> T:
        """Return the greatest element of each of `output_size` windows over three axes; see `adaptive_max_pool2d`."""
        return self._adaptive("adaptive_max_pool3d", 3, x, output_size)

    def _max_pool(
        self,
        operation: str,
        axes: int,
        x: T,
        kernel_size: Sizes,
        stride: Sizes | None,
        padding: Padding,
        dilation: Sizes,
        ceil_mode: bool,
    ) -> T:
        facts = self._given(operation, x)
        shape, dtype = facts
        up = flag(operation, "ceil_mode", ceil_mode)

        def checked() -> tuple[object, ...]:
            spatial.numeric(operation, dtype)
            plan = check.pool(
                operation,
                axes,
                shape,
                kernel_size=kernel_size,
                stride=stride,
                padding=padding,
                dilation=dilation,
                ceil_mode=up,
            )
            return plan.kernel_size, plan.stride, plan.padding, plan.dilation, up

        key = operation, facts, _key(kernel_size, stride, padding, dilation), up
        return self._apply(operation, (x,), self._checked(key, checked))

    def _avg_pool(
        self,
        operation: str,
        axes: int,
        x: T,
        kernel_size: Sizes,
        stride: Sizes | None,
        padding: Padding,
        ceil_mode: bool,
        count_include_pad: bool,
    ) -> T:
        facts = self._given(operation, x)
        shape, dtype = facts
        up = flag(operation, "ceil_mode", ceil_mode)
        padded = flag(operation, "count_include_pad", count_include_pad)

        def checked() -> tuple[object, ...]:
            check_elementwise.floating(operation, dtype)
            plan = check.pool(
                operation,
                axes,
                shape,
                kernel_size=kernel_size,
                stride=stride,
                padding=padding,
                dilation=1,
                ceil_mode=up,
            )
            return plan.kernel_size, plan.stride, plan.padding, up, padded

        key = operation, facts, _key(kernel_size, stride, padding), up, padded
        return self._apply(operation, (x,), self._checked(key, checked))

    def _adaptive(self, operation: str, axes: int, x: T, output_size: OutputSizes) -> T:
        facts = self._given(operation, x)
        shape, dtype = facts

        def checked() -> tuple[object, ...]:
            (spatial.numeric if "max" in operation else check_elementwise.floating)(operation, dtype)
            return (check.adaptive(operation, axes, shape, output_size).output_size,)

        return self._apply(operation, (x,), self._checked((operation, facts, _key(output_size)), checked))


def _key(*params: object) -> tuple[object, ...]:
    # 1, 1.0 and True are equal, and only one of them is a size.
    return params, tuple([type(p) for p in params])
