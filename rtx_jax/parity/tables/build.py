"""The short forms in which the tables are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

import numpy as np

import rtx_jax as xp

from ..case import MODES, Case, Edge, Mode, Operand, Operation, Scale

__all__ = [
    "ALL",
    "COMPLEX",
    "EAGER",
    "FLOATS",
    "INDEX",
    "INTEGERS",
    "NO_GRAD",
    "NUMERIC",
    "REAL",
    "SMALL_FLOATS",
    "case",
    "constants",
    "edges",
    "namespace",
    "numpy_function",
    "shapes",
]

FLOATS = ("float16", "bfloat16", "float32", "float64")
SMALL_FLOATS = ("float8_e4m3fn", "float8_e5m2")
COMPLEX = ("complex64", "complex128")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
REAL = (*INTEGERS, *FLOATS)
NUMERIC = (*REAL, *COMPLEX)
ALL = ("bool", *NUMERIC)

NO_GRAD: tuple[Mode, ...] = ("eager", "jit", "vmap")
EAGER: tuple[Mode, ...] = ("eager",)

INDEX = "int64"


def case(edge: Edge, *operands: Operand | tuple[int, ...], **params: object) -> Case:
    """Return a case; a shape alone stands for an operand of ordinary values."""
    made = tuple(Operand(x) if isinstance(x, tuple) else x for x in operands)
    return Case(edge, made, params)


def shapes(*several: tuple[int, ...], values: str = "normal", **params: object) -> tuple[Case, ...]:
    """Return a case for each shape, of one operand; the edge is read off the shape."""
    return tuple(case(_edge_of(shape), Operand(shape, values), **params) for shape in several)


def constants(*several: tuple[int, ...], values: str = "normal", **params: object) -> tuple[Case, ...]:
    """Return a case for each shape, of one operand that no gradient is taken of."""
    return tuple(case(_edge_of(shape), Operand(shape, values, None, True), **params) for shape in several)


def edges(names: Iterable[Edge], *operands: Operand | tuple[int, ...], **params: object) -> tuple[Case, ...]:
    """Return the same call with each of the edges."""
    return tuple(case(name, *operands, **params) for name in names)


def _edge_of(shape: tuple[int, ...]) -> Edge:
    if 0 in shape:
        return "empty"
    if shape == ():
        return "0-d"
    return "size 1" if all(n == 1 for n in shape) else "normal"


@cache
def _namespace_function(name: str) -> Callable[..., object]:
    found: object = xp
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[return-value]


def numpy_function(name: str, /) -> Callable[..., object]:
    """Return NumPy's function of a name of the standard."""
    found: object = np
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[return-value]


def namespace(
    name: str,
    cases: Iterable[Case],
    dtypes: tuple[str, ...],
    /,
    *,
    expected: Callable[..., object] | None = None,
    call: Callable[..., object] | None = None,
    scale: Scale = "value",
    modes: tuple[Mode, ...] = MODES,
    elementwise: bool = False,
    native: bool = False,
    signed_zeros: bool = False,
    canonical: Callable[[list[object]], list[object]] | None = None,
    typed: bool = False,
    packs: bool = False,
) -> Operation:
    """Return an operation of the namespace, which is compared with NumPy's function of that name."""
    return Operation(
        name,
        tuple(cases),
        dtypes,
        call or _Call(name, packs),
        expected or _numpy_call(name, packs),
        scale,
        modes,
        elementwise,
        native,
        signed_zeros,
        canonical,
        typed,
        packs=packs,
    )


class _Call:
    """A function of the namespace, looked up when it is called."""

    def __init__(self, name: str, packs: bool) -> None:
        self._name, self._packs = name, packs

    def __call__(self, *operands: object, **params: object) -> object:
        function = _namespace_function(self._name)
        return function(operands, **params) if self._packs else function(*operands, **params)


def _numpy_call(name: str, packs: bool) -> Callable[..., object]:
    function = numpy_function(name)
    return (lambda *operands, **params: function(operands, **params)) if packs else function
