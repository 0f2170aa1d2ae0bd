"""Normalizations, and the affine map of features."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np

from ...checks import linear as check_linear
from ...checks import norm as check
from ...checks.choices import flag
from ..core import BackendCore, Facts, T
from .shape import product_precision

__all__ = ["NormalizationMethods"]

_NOTHING: Facts = ((), np.dtype(np.float32))


class NormalizationMethods(BackendCore[T]):
    """Normalizations of floating tensors.

    The statistics are two-pass, in float32 for floats below 32 bits, and the result is rounded once to the dtype of
    `x`. `weight` and `bias` have one element for each feature; None leaves them out. Errors of all methods:
    `ShapeMismatch` for a weight or bias of another shape, `UnsupportedDType`, `InvalidDimension` for a tensor of too
    few axes, `InvalidArgument` for a negative `eps`.
    """

    def layer_norm(self, x: T, weight: T | None = None, bias: T | None = None, eps: float = 1e-5) -> T:
        """Return ``(x - mean) / sqrt(variance + eps) * weight + bias`` over the last axis.

        Parameters
        ----------
        x
            ``(..., D)``.
        weight, bias
            ``(D,)``.
        eps
            Added to the biased variance under the root, 0 or more.
        """
        facts = self._given("layer_norm", x), self._facts("layer_norm", weight), self._facts("layer_norm", bias)
        params = self._checked(("layer_norm", facts, eps), lambda: _last_axis("layer_norm", facts, eps))
        return self._apply("layer_norm", (x, weight, bias), params)

    def rms_norm(self, x: T, weight: T | None = None, eps: float = 1e-6) -> T:
        """Return ``x / sqrt(mean(x**2) + eps) * weight`` over the last axis (Zhang and Sennrich 2019).

        Parameters
        ----------
        x
            ``(..., D)``.
        weight
            ``(D,)``.
        eps
            Added to the mean square under the root, 0 or more.
        """
        facts = self._given("rms_norm", x), self._facts("rms_norm", weight), None
        params = self._checked(("rms_norm", facts, eps), lambda: _last_axis("rms_norm", facts, eps))
        return self._apply("rms_norm", (x, weight), params)

    def group_norm(self, x: T, num_groups: int, weight: T | None = None, bias: T | None = None, eps: float = 1e-5) -> T:
        """Return each group of channels of each row normalized (Wu and He 2018).

        Parameters
        ----------
        x
            ``(B, C, ...)``.
        num_groups
            A divisor of C.
        weight, bias
            ``(C,)``.

        Raises
        ------
        InvalidArgument
            `num_groups` does not divide C.
        """
        facts = self._given("group_norm", x), self._facts("group_norm", weight), self._facts("group_norm", bias)

        def checked() -> tuple[int, float]:
            groups = check.group_norm(*(facts[0] or _NOTHING), num_groups)
            return groups, _channels("group_norm", facts, eps)

        params = self._checked(("group_norm", facts, num_groups, type(num_groups), eps), checked)
        return self._apply("group_norm", (x, weight, bias), params)

    def instance_norm(self, x: T, weight: T | None = None, bias: T | None = None, eps: float = 1e-5) -> T:
        """Return each channel of each row normalized.

        Parameters
        ----------
        x
            ``(B, C, ...)``.
        weight, bias
            ``(C,)``.
        """
        facts = (
            self._given("instance_norm", x),
            self._facts("instance_norm", weight),
            self._facts("instance_norm", bias),
        )
        params = self._checked(("instance_norm", facts, eps), lambda: (_channels("instance_norm", facts, eps),))
        return self._apply("instance_norm", (x, weight, bias), params)

    @overload
    def batch_norm(
        self,
        x: T,
        running_mean: T | None,
        running_var: T | None,
        weight: T | None = None,
        bias: T | None = None,
        training: Literal[False] = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> T: ...

    @overload
    def batch_norm(
        self,
        x: T,
        running_mean: T | None,
        running_var: T | None,
        weight: T | None = None,
        bias: T | None = None,
        *,
        training: Literal[True],
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> tuple[T, T, T]: ...

    def batch_norm(
        self,
        x: T,
        running_mean: T | None,
        running_var: T | None,
        weight: T | None = None,
        bias: T | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> T | tuple[T, T, T]:
        """Return each channel normalized over the whole batch (Ioffe and Szegedy 2015).

        Parameters
        ----------
        x
            ``(B, C, ...)``.
        running_mean, running_var
            ``(C,)``: what is used unless training, and what training moves.
        weight, bias
            ``(C,)``.
        training
            Use the statistics of the batch, and return the moved running ones beside the result.
        momentum
            How far the running statistics move towards those of the batch, 0 to 1.

        Returns
        -------
        Tensor, or a tuple of three while training
            The result, the new running mean and the new running variance (with the divisor n - 1).

        Raises
        ------
        InvalidArgument
            There are no statistics, or training has fewer than two values in a channel.
        """
        operands = x, running_mean, running_var, weight, bias
        facts = self._given("batch_norm", x), *[self._facts("batch_norm", operand) for operand in operands[1:]]
        train = flag("batch_norm", "training", training)

        def checked() -> tuple[bool, float, float]:
            given = (facts[1] is not None) + (facts[2] is not None)
            size, rate = check.batch_norm(
                *(facts[0] or _NOTHING),
                training=train,
                momentum=momentum,
                has_statistics=given == 2 or (train and given == 0),
            )
            for name, fact in zip(("running_mean", "running_var", "weight", "bias"), facts[1:], strict=True):
                if fact is not None:
                    check.affine("batch_norm", size, "channel", *fact, name)
            return train, rate, check.eps("batch_norm", eps)

        return self._apply("batch_norm", operands, self._checked(("batch_norm", facts, train, momentum, eps), checked))

    def linear(self, x: T, weight: T, bias: T | None = None, *, precision: str | None = None) -> T:
        """Return ``x @ weight.T + bias``.

        Parameters
        ----------
        x
            ``(..., D)``.
        weight
            ``(F, D)``: outputs by inputs.
        bias
            ``(F,)``.
        precision
            See `matmul`.

        Returns
        -------
        Tensor
            ``(..., F)``; floats below 32 bits are accumulated in float32 and rounded once.

        Raises
        ------
        ShapeMismatch
            The sizes do not fit.
        """
        exactness = product_precision("linear", precision)
        facts = self._given("linear", x), self._given("linear", weight), self._facts("linear", bias)

        def checked() -> tuple[str]:
            check_linear.linear(*(facts[0] or _NOTHING), *(facts[1] or _NOTHING), *(facts[2] or (None, None)))
            return (exactness,)

        return self._apply("linear", (x, weight, bias), self._checked(("linear", facts, exactness), checked))


def _last_axis(operation: str, facts: tuple[Facts | None, ...], eps: float) -> tuple[float]:
    size = check.last_axis(operation, *(facts[0] or _NOTHING))
    for name, fact in zip(("weight", "bias"), facts[1:], strict=True):
        if fact is not None:
            check.affine(operation, size, "element of the last axis", *fact, name)
    return (check.eps(operation, eps),)


def _channels(operation: str, facts: tuple[Facts | None, ...], eps: float) -> float:
    size = check.channels(operation, *(facts[0] or _NOTHING))
    for name, fact in zip(("weight", "bias"), facts[1:], strict=True):
        if fact is not None:
            check.affine(operation, size, "channel", *fact, name)
    return check.eps(operation, eps)
