"""`GradientMap`: what a backward pass returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np

from ...errors import InvalidArgument, MissingGradient, ShapeMismatch
from ..base import Backend
from ..core import Tensor
from .tensor import TrackedTensor

__all__ = ["GradientMap"]

Key: TypeAlias = "TrackedTensor | int"


class GradientMap(Mapping[Key, Tensor]):
    """Gradients by tensor, or by the number of a tensor.

    The gradients are tensors of the inner backend: they have no graph of the backend that made them.

    Parameters
    ----------
    backend
        The backend whose tensors the gradients are; `accumulate` adds with it. None where it will not have to.

    Examples
    --------
    >>> from rtx_jax.backend import Autodiff, CpuBackend
    >>> B = Autodiff(CpuBackend())
    >>> x = B.require_grad(B.from_data([1.0, 2.0], (2,)))
    >>> grads = B.backward(B.sum(B.mul(x, x)))
    >>> grads[x]
    Array([2., 4.], dtype=float32)
    >>> x in grads, len(grads), grads.get(B.ones((2,)))
    (True, 1, None)
    """

    __slots__ = ("_backend", "_gradients")

    def __init__(self, backend: Backend[Tensor] | None = None, /) -> None:
        self._backend = backend
        self._gradients: dict[int, Tensor] = {}

    @classmethod
    def _of(cls, backend: Backend[Tensor], gradients: dict[int, Tensor]) -> GradientMap:
        made = cls(backend)
        made._gradients = gradients
        return made

    def __getitem__(self, key: Key, /) -> Tensor:
        found = self._gradients.get(_number(key))
        if found is None:
            raise self._missing("GradientMap[key]", key)
        return found

    def __contains__(self, key: object, /) -> bool:
        return _number(key) in self._gradients

    def __iter__(self) -> Iterator[int]:
        """Go through the numbers of the tensors, in the order in which they came in."""
        return iter(self._gradients)

    def __len__(self) -> int:
        return len(self._gradients)

    def get(self, key: object, default: Tensor | None = None, /) -> Tensor | None:  # type: ignore[override]
        """Return the gradient of a tensor, or `default` where there is none.

        Parameters
        ----------
        key
            A tensor or its ``id``. A tensor without a graph has no gradient.
        """
        found = self._gradients.get(_number(key))
        return default if found is None else found

    def remove(self, key: Key, /) -> Tensor | None:
        """Take the gradient of a tensor out of the map and return it; None where there is none."""
        return self._gradients.pop(_number(key), None)

    def replace(self, key: Key, gradient: Tensor, /) -> Tensor:
        """Put another gradient in the place of one, and return that.

        Raises
        ------
        MissingGradient
            There is none to replace.
        ShapeMismatch
            It has another shape.
        InvalidArgument
            It is no tensor, or one with a graph.
        """
        before = self._gradients.get(_number(key))
        if before is None:
            raise self._missing("GradientMap.replace", key)
        self._check("GradientMap.replace", gradient)
        _same_shape("GradientMap.replace", before, gradient)
        self._gradients[_number(key)] = gradient
        return before

    def accumulate(self, key: Key, gradient: Tensor, /) -> None:
        """Add to the gradient of a tensor; where there is none, this is it.

        Raises
        ------
        InvalidArgument
            The key is neither a tracked tensor nor a number, or the gradient no tensor, or one with a graph.
        ShapeMismatch
            It has another shape than the one it is added to.
        """
        number = _number(key)
        if number == 0:
            raise InvalidArgument(
                "GradientMap.accumulate",
                "key",
                got=type(key).__name__,
                wanted="a tensor from require_grad, or its id",
                arg="key",
                reason="not a key",
            )
        self._check("GradientMap.accumulate", gradient)
        before = self._gradients.get(number)
        if before is None:
            self._gradients[number] = gradient
            return
        _same_shape("GradientMap.accumulate", before, gradient)
        if self._backend is not None:
            self._gradients[number] = self._backend.add(before, gradient)
        else:
            self._gradients[number] = before + gradient  # type: ignore[operator]

    def _check(self, operation: str, gradient: object) -> None:
        """Raise InvalidArgument for what is no tensor, or has a graph that the inner backend knows nothing of."""
        has_graph = (
            self._backend is not None
            and isinstance(gradient, TrackedTensor)
            and gradient._level > getattr(self._backend, "_level", 0)
        )
        if has_graph or not isinstance(getattr(gradient, "dtype", None), np.dtype):
            raise InvalidArgument(
                operation,
                "gradient",
                got="a tensor with a graph" if has_graph else type(gradient).__name__,
                wanted="a tensor of the inner backend",
                remedy="Use detach(gradient)." if has_graph else "Make one with from_data or full.",
                arg="gradient",
                reason="not a tensor of the inner backend",
            )

    def _missing(self, operation: str, key: object) -> MissingGradient:
        return MissingGradient(
            operation,
            "key",
            got=f"tensor {_number(key)}" if _number(key) else f"an object of type {type(key).__name__} without a graph",
            wanted="a leaf that the differentiated tensor was computed from"
            + (f": {', '.join(map(str, self._gradients))}" if len(self) <= 8 else ""),
            remedy="Mark it with require_grad before it is used.",
        )

    def __repr__(self) -> str:
        return f"GradientMap({self._gradients!r})"


def _number(key: object) -> int:
    """Return the number of a tensor; 0, which none has, for what is no key."""
    if isinstance(key, TrackedTensor):
        return key.id
    return key if type(key) is int else 0


def _same_shape(operation: str, before: Tensor, gradient: Tensor) -> None:
    if before.shape != gradient.shape:
        raise ShapeMismatch(
            operation,
            "gradient",
            got=f"shape {gradient.shape}",
            wanted=f"shape {before.shape}",
            expected=before.shape,
            got_shape=gradient.shape,
        )
