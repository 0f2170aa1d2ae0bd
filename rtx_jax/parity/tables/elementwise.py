"""Elementwise functions: every point in one array, then the shapes that are special."""

from __future__ import annotations

from ..case import MODES, Case, Mode, Operand, Operation
from ..reference import elementwise as _right
from .build import (
    ALL,
    COMPLEX,
    FLOATS,
    INTEGERS,
    NO_GRAD,
    NUMERIC,
    REAL,
    SMALL_FLOATS,
    case,
    edges,
    namespace,
)

__all__ = ["operations"]

_INEXACT = (*FLOATS, *COMPLEX)
_COMPLEX_FUNCTIONS = "acos acosh asin asinh atan atanh cos cosh exp expm1 log log10 log1p log2 sin sinh sqrt tan tanh"


def _unary(values: str = "normal") -> tuple[Case, ...]:
    return (
        case("normal", Operand((8, 16), "points")),
        case("normal", Operand((2, 3), values)),
        case("empty", Operand((0, 3), values)),
        case("0-d", Operand((), values)),
        case("size 1", Operand((1, 1), values)),
        *edges(("nan", "inf", "extreme"), Operand((2, 3), values)),
    )


def _binary(first: str = "normal", second: str = "normal") -> tuple[Case, ...]:
    return (
        case("normal", Operand((16, 16), "left"), Operand((16, 16), "right")),
        case("normal", Operand((3, 1), first), Operand((1, 4), second)),
        case("empty", Operand((0, 3), first), Operand((1, 3), second)),
        case("0-d", Operand((), first), Operand((), second)),
        case("size 1", Operand((1, 1), first), Operand((1,), second)),
        *edges(("nan", "inf", "extreme"), Operand((2, 3), first), Operand((3,), second)),
    )


def _one(
    name: str,
    dtypes: tuple[str, ...],
    *,
    values: str = "normal",
    modes: tuple[Mode, ...] = MODES,
    signed_zeros: bool = True,
    native: bool = False,
) -> Operation:
    return namespace(
        name,
        _unary(values),
        dtypes,
        expected=_right.function(name),
        elementwise=True,
        signed_zeros=signed_zeros,
        native=native,
        modes=modes,
    )


def _two(
    name: str,
    dtypes: tuple[str, ...],
    *,
    values: tuple[str, str] = ("normal", "normal"),
    modes: tuple[Mode, ...] = MODES,
    signed_zeros: bool = True,
    native: bool = False,
    cases: tuple[Case, ...] | None = None,
) -> Operation:
    return namespace(
        name,
        cases or _binary(*values),
        dtypes,
        expected=_right.function(name),
        elementwise=True,
        signed_zeros=signed_zeros,
        native=native,
        modes=modes,
    )


# Where the values of the small cases have to lie, so that results are numbers.
_DOMAINS = {
    "acos": "unit",
    "acosh": "offset:3",
    "asin": "unit",
    "atanh": "unit",
    "log": "positive",
    "log10": "positive",
    "log1p": "positive",
    "log2": "positive",
    "sqrt": "positive",
}


def operations() -> tuple[Operation, ...]:
    """Return the operations of the standard's chapter on elementwise functions."""
    shift_cases = (
        case("normal", Operand((4, 4), "normal"), Operand((4, 4), "index:7")),
        case("empty", Operand((0, 3)), Operand((1, 3), "index:7")),
        case("0-d", (), Operand((), "index:7")),
        case("size 1", (1, 1), Operand((1,), "index:7")),
        *edges(("extreme",), (2, 3), Operand((3,), "index:7")),
    )
    # An integer divided by zero is anything.
    quotients = (
        case("normal", Operand((16, 16), "left"), Operand((16, 16), "positive!")),
        *_binary("normal", "positive!")[1:],
    )
    # The powers of infinite complex numbers are anything, too.
    powers = (case("normal", (8, 16), (8, 16)), *(c for c in _binary()[1:] if c.edge not in ("inf", "extreme")))
    clip_cases = (
        case("normal", Operand((8, 16), "points"), min=-1.0, max=2.0),
        case("normal", Operand((3, 4)), min=2.0, max=1.0),
        case("empty", (0, 3), min=0.0, max=1.0),
        case("0-d", (), min=None, max=1.0),
        case("size 1", (1, 1), min=0.0, max=None),
        *edges(("nan", "inf", "extreme"), (2, 3), min=0.0, max=1.0),
    )
    return (
        *(_one(name, _INEXACT, values=_DOMAINS.get(name, "normal")) for name in _COMPLEX_FUNCTIONS.split()),
        *(_one(name, _INEXACT) for name in ("reciprocal", "square")),
        _one("abs", (*NUMERIC, *SMALL_FLOATS)),
        *(_one(name, (*NUMERIC, *SMALL_FLOATS)) for name in ("negative", "positive", "sign")),
        *(_one(name, REAL, modes=NO_GRAD) for name in ("ceil", "floor", "trunc")),
        _one("round", NUMERIC, modes=NO_GRAD),
        *(_one(name, (*NUMERIC, *SMALL_FLOATS), modes=NO_GRAD) for name in ("isfinite", "isinf", "isnan")),
        _one("signbit", FLOATS, modes=NO_GRAD, native=True),
        *(_one(name, COMPLEX, modes=NO_GRAD) for name in ("conj", "imag", "real")),
        _one("logical_not", ALL, modes=NO_GRAD),
        _one("bitwise_invert", ("bool", *INTEGERS), modes=NO_GRAD),
        *(_two(name, (*NUMERIC, *SMALL_FLOATS)) for name in ("add", "subtract", "multiply")),
        _two("divide", _INEXACT),
        *(_two(name, FLOATS, modes=NO_GRAD, values=("normal", "positive")) for name in ("floor_divide", "remainder")),
        *(_two(name, INTEGERS, modes=NO_GRAD, cases=quotients) for name in ("floor_divide", "remainder")),
        _two("pow", REAL, values=("positive", "positive")),
        _two("pow", COMPLEX, cases=powers),
        *(_two(name, FLOATS) for name in ("atan2", "hypot", "logaddexp")),
        _two("copysign", FLOATS, modes=NO_GRAD, native=True),
        _two("nextafter", FLOATS, modes=NO_GRAD, native=True),
        *(_two(name, REAL, signed_zeros=False) for name in ("maximum", "minimum")),
        *(_two(name, ALL, modes=NO_GRAD) for name in ("equal", "not_equal")),
        *(_two(name, REAL, modes=NO_GRAD) for name in ("greater", "greater_equal", "less", "less_equal")),
        *(_two(name, ALL, modes=NO_GRAD) for name in ("logical_and", "logical_or", "logical_xor")),
        *(_two(name, ("bool", *INTEGERS), modes=NO_GRAD) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")),
        *(
            _two(name, INTEGERS, modes=NO_GRAD, cases=shift_cases)
            for name in ("bitwise_left_shift", "bitwise_right_shift")
        ),
        namespace("clip", clip_cases, FLOATS, expected=_right.function("clip"), elementwise=True, signed_zeros=False),
        namespace(
            "clip",
            tuple(
                Case(c.edge, c.operands, {k: v if v is None else int(v) for k, v in c.params.items()})  # type: ignore
                for c in clip_cases
            ),
            INTEGERS,
            expected=_right.function("clip"),
            elementwise=True,
            modes=NO_GRAD,
        ),
    )
