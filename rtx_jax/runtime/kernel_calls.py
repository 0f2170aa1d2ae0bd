"""What a call of a kernel says beside its operands: results, attributes and aliases, as hashable values."""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import jax
import numpy as np

from ..core.dtypes import KIND
from ..errors import InvalidArgument, ShapeMismatch, UnsupportedDType

__all__ = ["Attribute", "AttributeValue", "Call", "Like", "call_of"]


class Like(Protocol):
    """What has a shape and a dtype: an Array, a `BufferView`, a ``jax.ShapeDtypeStruct``, a NumPy array."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""

    @property
    def dtype(self) -> np.dtype:
        """The dtype."""


AttributeValue: TypeAlias = bool | int | float | str | np.generic | np.ndarray
"""A static parameter of a kernel."""

Facts: TypeAlias = tuple[tuple[int, ...], np.dtype]


@dataclass(frozen=True, slots=True)
class Attribute:
    """A static parameter by its bytes, so that 0.0 and -0.0, and 1 and True, are different ones.

    Attributes
    ----------
    name
        Name of the parameter.
    dtype, shape
        Those of the value as an array; ``str`` for a text.
    data
        Its bytes.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @classmethod
    def of(cls, kernel: str, name: str, value: object) -> Attribute:
        """Take a value; Python numbers become int64 and float64.

        Raises
        ------
        InvalidArgument
            It is no number, text or one-dimensional array of numbers.
        """
        if isinstance(value, str):
            return cls(name, "str", (), value.encode())
        if isinstance(value, bool | int | float | np.generic | np.ndarray):
            array = np.asarray(value)
            if array.dtype.kind in "biuf" and array.dtype.isbuiltin and array.ndim <= 1:
                return cls(name, array.dtype.str, array.shape, array.tobytes())
        raise InvalidArgument(
            kernel,
            f"attributes[{name!r}]",
            got=repr(value),
            wanted="a bool, an integer of 64 bits, a float, a str, or a one-dimensional array of them",
            arg="attributes",
            reason="not an attribute",
        )

    def value(self) -> str | np.generic | np.ndarray:
        """Return the value as a scalar of NumPy, a text or an array."""
        if self.dtype == "str":
            return self.data.decode()
        array = np.frombuffer(self.data, np.dtype(self.dtype)).reshape(self.shape)
        found: np.generic | np.ndarray = array if self.shape else array[()]
        return found

    def plain(self) -> str | bool | int | float | np.ndarray:
        """Return the value as Python has it."""
        value = self.value()
        return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True, slots=True)
class Call:
    """The static part of a call of a kernel.

    Attributes
    ----------
    results
        Shape and dtype of each result.
    single
        Whether the one result is returned itself, not as a tuple.
    attributes
        Static parameters, by name.
    aliases
        ``(operand, result)``: the result is written in the operand's memory where nothing else needs it.
    is_ticketed
        Whether a number comes before the operands, under which a failure is reported instead of raised.
    """

    results: tuple[Facts, ...]
    single: bool
    attributes: tuple[Attribute, ...]
    aliases: tuple[tuple[int, int], ...]
    is_ticketed: bool = False

    def specs(self) -> list[jax.ShapeDtypeStruct]:
        """Return the results as JAX describes them."""
        return [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in self.results]


def call_of(
    kernel: str,
    operands: Sequence[Like],
    results: Like | Sequence[Like],
    attributes: Mapping[str, AttributeValue] | None,
    aliases: Mapping[int, int] | None,
) -> Call:
    """Check what a call says.

    Raises
    ------
    InvalidArgument
        A result has no shape and dtype, an attribute is no number or text, or an alias names no operand or result.
    UnsupportedDType
        A result has a dtype that JAX does not have.
    ShapeMismatch
        An alias joins an operand and a result of different shapes or dtypes.
    """
    key = None if aliases else _plain_key(results, attributes)
    known = _plain_calls.get(key)
    if known is not None:
        return known
    single = hasattr(results, "shape")
    listed: Sequence[object] = [results] if single else results if isinstance(results, Sequence) else [results]
    facts = tuple(_facts(kernel, result) for result in listed)
    if not facts:
        raise InvalidArgument(
            kernel, "results", got="none", wanted="at least one result", arg="results", reason="no results"
        )
    named = tuple(Attribute.of(kernel, name, value) for name, value in sorted((attributes or {}).items()))
    joined = tuple(sorted((aliases or {}).items()))
    for source, target in joined:
        if not (_is_index(source, len(operands)) and _is_index(target, len(facts))):
            raise InvalidArgument(
                kernel,
                "aliases",
                got=f"{{{source!r}: {target!r}}}",
                wanted=f"numbers of operands below {len(operands)} and of results below {len(facts)}",
                arg="aliases",
                reason="no such operand or result",
            )
        operand = operands[source]
        if (tuple(operand.shape), np.dtype(operand.dtype)) != facts[target]:
            raise ShapeMismatch(
                kernel,
                "aliases",
                got=f"operand {source} of {operand.dtype}{list(operand.shape)}",
                wanted=f"{facts[target][1]}{list(facts[target][0])}, as result {target}",
                expected=facts[target][0],
                got_shape=tuple(operand.shape),
            )
    call = Call(facts, single, named, joined)
    if key is not None:
        if len(_plain_calls) >= _MAX_PLAIN_CALLS:
            _plain_calls.clear()
        _plain_calls[key] = call
    return call


# Calls that were checked before. Nothing of their checks depends on the operands.
_plain_calls: dict[Hashable, Call] = {}
_MAX_PLAIN_CALLS = 1024


def _plain_key(results: object, attributes: Mapping[str, AttributeValue] | None) -> Hashable:
    """Return a key of a call with one result and plain attributes, None for another one."""
    shape, dtype = getattr(results, "shape", None), getattr(results, "dtype", None)
    if type(shape) is not tuple or not isinstance(dtype, np.dtype):
        return None
    if not attributes:
        return shape, dtype
    named: list[object] = []
    for name, value in attributes.items():
        if type(value) is float:
            named.append((name, value, math.copysign(1.0, value)))
        elif type(value) in (bool, int, str):
            named.append((name, type(value), value))
        else:
            return None
    return shape, dtype, *named


def _facts(kernel: str, result: object) -> Facts:
    try:
        shape = tuple(operator.index(n) for n in result.shape)  # type: ignore[attr-defined]
        dtype: np.dtype = np.dtype(result.dtype)  # type: ignore[attr-defined]
    except (AttributeError, TypeError):
        shape, dtype = (-1,), np.dtype(object)
    if any(n < 0 for n in shape) or math.prod(shape) >= 2**62:
        raise InvalidArgument(
            kernel,
            "results",
            got=repr(result),
            wanted="what has a shape and a dtype, such as an Array or a jax.ShapeDtypeStruct",
            arg="results",
            reason="no shape and dtype",
        )
    if dtype not in KIND:
        raise UnsupportedDType(kernel, "results", got=str(dtype), wanted="a dtype of JAX", dtype=dtype, op=kernel)
    return shape, dtype


def _is_index(number: object, size: int) -> bool:
    return type(number) is int and 0 <= number < size
