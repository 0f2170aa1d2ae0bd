"""What a case and an operation of the table are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

__all__ = ["EDGES", "MODES", "Case", "Edge", "Mode", "Operand", "Operation", "Params", "Scale", "TESTED"]

Edge: TypeAlias = Literal["normal", "empty", "0-d", "size 1", "nan", "inf", "extreme"]
Mode: TypeAlias = Literal["eager", "jit", "vmap", "grad"]
Scale: TypeAlias = Literal["value", "largest", "absolute"]
Params: TypeAlias = Mapping[str, object]

EDGES: tuple[Edge, ...] = ("normal", "empty", "0-d", "size 1", "nan", "inf", "extreme")
MODES: tuple[Mode, ...] = ("eager", "jit", "vmap", "grad")

TESTED = object()
"""A parameter that stands for the dtype under test."""


@dataclass(frozen=True, slots=True)
class Operand:
    """An array of a case: its shape and where its values come from.

    Attributes
    ----------
    shape
        The shape.
    values
        Name of a generator in `operands`, with its argument after a colon. A ``!`` at the end keeps the values ordinary
        whatever the case's edge.
    dtype
        Name of its dtype; None for the one under test.
    is_constant
        Whether no gradient is taken of it.
    """

    shape: tuple[int, ...]
    values: str = "normal"
    dtype: str | None = None
    is_constant: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """One call of an operation.

    Attributes
    ----------
    edge
        What is special about it.
    operands
        The arrays.
    params
        The static parameters, by name.
    """

    edge: Edge
    operands: tuple[Operand, ...]
    params: Params = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """An operation with its cases and with what is right.

    Attributes
    ----------
    name
        As it is called: ``"sin"``, ``"linalg.det"``, ``"backend.softmax"``.
    cases
        The calls to make.
    dtypes
        Names of the dtypes that its operands may have.
    call
        Computes it: tensors by position, parameters by keyword.
    expected
        The same on NumPy arrays that are as wide as NumPy has them.
    scale
        Whose spacing is the unit of the error: each value's own; the largest value's of the result; or that of the
        result for the operands' magnitudes, which is what bounds the rounding of a sum.
    modes
        How it can run.
    elementwise
        Whether one element of the result depends on one element of each operand alone.
    native
        `expected` takes the operands in their own dtype.
    signed_zeros
        Whether the sign of a zero counts.
    canonical
        Applied to the results of both sides, where several results are right.
    typed
        Whether `expected` returns the very dtypes that the results must have; otherwise they follow from the dtype
        under test.
    floor
        The smallest magnitude that has its own unit: numbers below count in the unit of this one.
    packs
        Whether the function takes its arrays as one list.
    own
        Whether the function is a user's: its name is then not one of the namespace.
    """

    name: str
    cases: tuple[Case, ...]
    dtypes: tuple[str, ...]
    call: Callable[..., object]
    expected: Callable[..., object]
    scale: Scale = "value"
    modes: tuple[Mode, ...] = MODES
    elementwise: bool = False
    native: bool = False
    signed_zeros: bool = False
    canonical: Callable[[list[object]], list[object]] | None = None
    typed: bool = False
    floor: float = 0.0
    packs: bool = False
    own: bool = False
