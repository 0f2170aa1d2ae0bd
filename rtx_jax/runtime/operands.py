"""`Operands`: the inputs and outputs of a captured function, each piece of memory once."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from ..errors import InvalidArgument
from .graph import Operand
from .view import BufferView

__all__ = ["Operands"]


class Operands:
    """The inputs and outputs of a captured function.

    Attributes
    ----------
    inputs, outputs
        As they were given.
    distinct
        All of them; one that is both an input and an output is there once.
    input_places, output_places
        Where each of them is in `distinct`.

    Raises
    ------
    InvalidArgument
        Two outputs lie in the same memory.
    """

    __slots__ = ("distinct", "input_places", "inputs", "output_places", "outputs")

    def __init__(self, inputs: Sequence[Operand], outputs: Sequence[Operand]) -> None:
        _check_disjoint(outputs)
        self.inputs, self.outputs = list(inputs), list(outputs)
        found = {_key(x): x for x in (*inputs, *outputs)}
        self.distinct = list(found.values())
        place = {key: i for i, key in enumerate(found)}
        self.input_places = [place[_key(x)] for x in inputs]
        self.output_places = [place[_key(x)] for x in outputs]

    def check_writes(self, written: Sequence[int]) -> None:
        """Raise InvalidArgument when one of the places that the function writes is no output."""
        for place in written:
            if place not in self.output_places:
                label = f"inputs[{self.input_places.index(place)}]"
                raise InvalidArgument(
                    "capture",
                    label,
                    got="an input that the function writes",
                    wanted="writes to outputs alone",
                    remedy="List it among the outputs too.",
                    arg=label,
                    reason="written",
                )


def _key(operand: Operand) -> Hashable:
    if isinstance(operand, BufferView):
        return id(operand.buffer), operand.offset, operand.dtype, operand.shape
    return id(operand)


def _check_disjoint(outputs: Sequence[Operand]) -> None:
    taken: dict[int, list[tuple[int, float, float]]] = {}
    for position, x in enumerate(outputs):
        owner, start, stop = id(x), 0.0, math.inf
        if isinstance(x, BufferView):
            owner, start, stop = id(x.buffer), x.offset, x.offset + x.nbytes
        for other, first, last in taken.get(owner, ()):
            if start < last and first < stop:
                label = f"outputs[{position}]"
                raise InvalidArgument(
                    "capture",
                    label,
                    got=f"memory that outputs[{other}] lies in too",
                    wanted="outputs that do not overlap",
                    arg=label,
                    reason="overlap",
                )
        taken.setdefault(owner, []).append((position, start, stop))
