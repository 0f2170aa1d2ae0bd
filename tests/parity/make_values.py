"""Writes ``rtx_jax/parity/values.json``: elementwise functions at the points of float64 and complex128, by mpmath.

Run ``python -m tests.parity.make_values`` after the points change; needs mpmath. Each value is computed with 700 bits
and rounded once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path

import mpmath
import numpy as np

from rtx_jax.parity.points import COMPLEX_SPECIALS, complex_points, real_pairs, real_points

PATH = Path(__file__).parents[2] / "rtx_jax" / "parity" / "values.json"
BITS = 700

UNARY = "acos acosh asin asinh atan atanh cos cosh exp expm1 log log10 log1p log2 sin sinh tan tanh".split()
BINARY = "atan2 hypot logaddexp pow".split()
COMPLEX = [*(name for name in UNARY if name != "sqrt"), "sqrt"]


def function(name: str) -> Callable[..., mpmath.mpf | mpmath.mpc]:
    special = {
        "log2": lambda x: mpmath.log(x) / mpmath.log(2),
        "log10": lambda x: mpmath.log(x) / mpmath.log(10),
        "logaddexp": lambda x, y: mpmath.log(mpmath.exp(x) + mpmath.exp(y)),
        "pow": power,
    }
    return special.get(name) or getattr(mpmath, name)


def power(x: mpmath.mpf, y: mpmath.mpf) -> mpmath.mpf | mpmath.mpc:
    """x to the y; 1 where x is 1 or y is 0, whatever the other is: not all versions of mpmath have it so for NaN."""
    return mpmath.mpf(1) if x == 1 or y == 0 else mpmath.power(x, y)


def real(name: str, operands: Iterable[float]) -> float:
    """The function at a point, nan where it is not real."""
    with mpmath.workprec(BITS):
        try:
            value = function(name)(*(mpmath.mpf(x) for x in operands))
        except (ValueError, ZeroDivisionError):
            return math.nan
        if isinstance(value, mpmath.mpc):
            if value.imag != 0:
                return math.nan
            value = value.real
        return rounded(value)


def rounded(value: mpmath.mpf) -> float:
    """Rounds once, to subnormal numbers too, and overflows to infinity."""
    if mpmath.isnan(value) or mpmath.isinf(value):
        return float(value)
    man, exp = mpmath.frexp(value)
    bits = min(53, int(exp) + 1074)
    if bits < 1:
        return math.copysign(0.0 if abs(man) <= 0.5 or bits < 0 else 5e-324, man)
    with mpmath.workprec(bits):
        near = +value
    try:
        return float(near)
    except OverflowError:
        return math.copysign(math.inf, near)


def complex_(name: str, point: complex) -> complex:
    with mpmath.workprec(BITS):
        value = mpmath.mpc(function(name)(mpmath.mpc(point)))
        return complex(rounded(value.real), rounded(value.imag))


def table() -> dict[str, object]:
    real_dtype, complex_dtype = np.dtype(np.float64), np.dtype(np.complex128)
    xs = [float(x) for x in real_points(real_dtype)]
    finite = [x for x in xs if math.isfinite(x) and x != 0]
    first, second = real_pairs(real_dtype)
    pairs = [
        (float(x), float(y))
        for x, y in zip(first, second, strict=True)
        if 1e-100 < min(abs(x), abs(y)) and max(abs(x), abs(y)) < 1e100
    ]
    points = [complex(z) for z in complex_points(complex_dtype)[COMPLEX_SPECIALS:]]
    return {
        "points": finite,
        "pairs": pairs,
        "complex points": [(z.real, z.imag) for z in points],
        "unary": {name: [real(name, (x,)) for x in finite] for name in UNARY},
        "binary": {name: [real(name, pair) for pair in pairs] for name in BINARY},
        "complex": {name: [(w.real, w.imag) for w in (complex_(name, z) for z in points)] for name in COMPLEX},
    }


if __name__ == "__main__":
    rows = table()
    parts = []
    for key, value in rows.items():
        if isinstance(value, dict):
            inner = ",\n  ".join(f"{json.dumps(name)}: {json.dumps(numbers)}" for name, numbers in value.items())
            parts.append(f"{json.dumps(key)}: {{\n  {inner}\n }}")
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(value)}")
    PATH.write_text("{\n " + ",\n ".join(parts) + "\n}\n")
