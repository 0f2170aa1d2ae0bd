"""`TrackedTensor`: a tensor and where it came from."""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING, NoReturn, TypeAlias

import numpy as np

from ...core.recorder import Ref
from ...errors import InvalidArgument
from ..core import Tensor
from ..operations import OPERATIONS

__all__ = ["Leaf", "Source", "TrackedTensor"]

_ids = itertools.count(1)

_INSTEAD = {
    "T": "B.transpose(x)",
    "backward": "B.backward(x)",
    "cpu": "B.to_data(x)",
    "detach": "B.detach(x)",
    "grad": "B.backward(loss)[x]",
    "numpy": "B.to_data(x)",
    "register_hook": "B.register_hook(hook)",
    "requires_grad": "B.require_grad(x)",
    "requires_grad_": "B.require_grad(x)",
    "tolist": "B.to_data(x).tolist()",
}
"""By the name of an attribute that other libraries' tensors have, what to write instead."""


class Leaf:
    """A tensor with respect to which gradients are taken, as graphs refer to it.

    Attributes
    ----------
    value
        The tensor of the inner backend.
    id
        The number of the tracked tensor.
    """

    __slots__ = ("id", "value")

    def __init__(self, value: Tensor) -> None:
        self.value = value
        self.id = next(_ids)


Source: TypeAlias = "Leaf | Ref"
"""Where a tracked tensor came from: it is a leaf, or a result of a recorded call."""


class TrackedTensor:
    """A tensor of an `Autodiff` backend: a value that was computed already, and the graph that it came from.

    `Autodiff.require_grad` makes the first, and operations on it the others. The graph belongs to its tensors: what no
    tensor leads to any more is forgotten. Tensors are immutable and may be shared by threads.
    """

    __slots__ = ("__weakref__", "_id", "_level", "_source", "_value")

    _value: Tensor
    _source: Source
    _level: int  # how many Autodiff backends are nested where it belongs
    _id: int  # 0 until it is asked for

    # What functions say that cannot take it.
    _remedy = "Use the methods of the Autodiff backend that it belongs to, or its detach(x) to go on without a graph."

    # NumPy's functions would drop the graph.
    __array_ufunc__ = None

    def __init__(self, value: Tensor, source: Source, level: int, number: int = 0, /) -> None:
        self._value, self._source, self._level, self._id = value, source, level, number

    @property
    def id(self) -> int:
        """A number that no other tensor of this process has; `GradientMap` knows it."""
        if not self._id:
            self._id = next(_ids)
        return self._id

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self._value.shape

    @property
    def dtype(self) -> np.dtype:
        """Type of the elements."""
        return self._value.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._value.ndim

    @property
    def is_leaf(self) -> bool:
        """Whether `Autodiff.require_grad` made it of a tensor without a graph."""
        return type(self._source) is Leaf

    def __bool__(self) -> bool:
        return bool(self._value)

    def item(self) -> bool | int | float | complex:
        """Return the only element as a Python scalar."""
        value: bool | int | float | complex = self._value.item()  # type: ignore[attr-defined]
        return value

    def __float__(self) -> float:
        return float(self.item())  # type: ignore[arg-type]

    def __int__(self) -> int:
        return int(self.item())  # type: ignore[arg-type]

    if not TYPE_CHECKING:  # a checker is to find wrong names itself

        def __getattr__(self, name: str) -> object:
            text = f"'TrackedTensor' object has no attribute {name!r}"
            if name.startswith("_"):  # protocols that others look for
                raise AttributeError(text)
            instead = f"B.{name}(x)" if name in OPERATIONS else _INSTEAD.get(name)
            raise AttributeError(f"{text}. With its backend B, write {instead}." if instead else text, name=name)

        def _no_operator(self, other: object = None) -> NoReturn:
            raise TypeError(
                "a TrackedTensor has no operators. With its backend B, write B.add(x, y) for x + y, and so on."
            )

        __add__ = __sub__ = __mul__ = __truediv__ = __matmul__ = __pow__ = _no_operator
        __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rmatmul__ = __rpow__ = _no_operator
        __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __abs__ = __getitem__ = _no_operator

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NoReturn:
        raise InvalidArgument(
            "np.asarray",
            "x",
            got="a tensor that gradients are taken through, which NumPy would not know",
            wanted="a tensor without a graph",
            remedy="Use to_data(x), or detach(x) first.",
            arg="x",
            reason="tracked",
        )

    def __copy__(self) -> TrackedTensor:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> TrackedTensor:
        if not self.is_leaf:
            raise InvalidArgument(
                "copy.deepcopy",
                "x",
                got="a result of operations",
                wanted="a leaf, or a tensor without a graph",
                remedy="Use detach(x) first.",
                arg="x",
                reason="has a graph",
            )
        leaf = Leaf(copy.deepcopy(self._value, memo))
        return TrackedTensor(leaf.value, leaf, self._level, leaf.id)

    def __reduce__(self) -> NoReturn:
        raise InvalidArgument(
            "pickle",
            "x",
            got="a tensor with a graph of compiled calls, which do not pickle",
            wanted="a tensor without a graph",
            remedy="Pickle detach(x), and call require_grad on what is read.",
            arg="x",
            reason="tracked",
        )

    def __repr__(self) -> str:
        what = "leaf" if self.is_leaf else "result"
        return f"<TrackedTensor {self.id}, {what}: {self._value!r}>"
