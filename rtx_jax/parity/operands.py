"""The arrays of a case: shapes, generators of values and edges, made again the same on every machine."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import ml_dtypes
import numpy as np

from .case import Case, Edge, Operand
from .points import complex_points, real_pairs, real_points
from .ulp import Values, format_of, is_floating, is_inexact

__all__ = ["applies", "dtype_named", "make", "widest"]

# Generators that pack the edges into one array by themselves.
_PACKED = ("points", "left", "right")


def dtype_named(name: str, /) -> np.dtype:
    """Return the dtype of that name, those of ml_dtypes included."""
    return np.dtype(getattr(ml_dtypes, name, name))


def applies(case: Case, dtype: np.dtype, /) -> bool:
    """Whether the dtype has the case's edge: integers have no NaN, 8-bit floats no room for extremes."""
    if case.edge in ("nan", "inf"):
        return is_inexact(dtype) and (dtype.itemsize > 1)
    if case.edge == "extreme":
        return dtype.itemsize > 1 and dtype.kind != "b"
    return True


def make(case: Case, dtype: np.dtype, name: str, /) -> list[Values]:
    """Return the operands of a case in the dtype under test."""
    seed = zlib.crc32(f"{name} {case.edge} {sorted(case.params)}".encode())
    rng = np.random.default_rng(seed)
    return [_make(operand, dtype, case.edge, rng) for operand in case.operands]


def _make(operand: Operand, dtype: np.dtype, edge: Edge, rng: np.random.Generator) -> Values:
    own = dtype if operand.dtype is None else dtype_named(operand.dtype)
    kind, _, argument = operand.values.removesuffix("!").partition(":")
    with np.errstate(all="ignore"):
        if kind in _PACKED and is_inexact(own):
            return _packed(kind, operand.shape, own)
        values: Values = _GENERATORS[kind](rng, operand.shape, own, argument)
        is_steady = operand.dtype is not None or kind in _FIXED or operand.values.endswith("!")
        if edge in _EDITS and values.size and not is_steady:
            values = _EDITS[edge](values, own)
        return np.asarray(values).astype(own).reshape(operand.shape)


def _packed(kind: str, shape: tuple[int, ...], dtype: np.dtype) -> Values:
    if dtype.kind == "c":
        points = complex_points(dtype)
        if kind == "right":
            points = np.roll(points, 37)
    elif kind == "points":
        points = real_points(dtype)  # type: ignore[assignment]
    else:
        points = real_pairs(dtype)[kind == "right"]  # type: ignore[assignment]
    return np.resize(points, shape).astype(dtype)


def _normal(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, argument: str) -> Values:
    """Numbers of both signs, from 1/4 to 5/2 in size; small whole ones for integers."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -6, 10, shape)
    values: Values = rng.uniform(0.25, 2.5, shape) * rng.choice(np.array([-1.0, 1.0]), shape)
    if dtype.kind == "c":
        values = values + 1j * rng.uniform(0.25, 2.5, shape) * rng.choice(np.array([-1.0, 1.0]), shape)
    return values


def _positive(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, argument: str) -> Values:
    if dtype.kind in "iub":
        return rng.integers(1, 10, shape)
    values = rng.uniform(0.25, 2.5, shape)
    return values + 1j * rng.uniform(0.25, 1, shape) if dtype.kind == "c" else values


def _points(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, argument: str) -> Values:
    """Integers of every magnitude, the bounds of the dtype first."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    info = np.iinfo(dtype)
    size = int(np.prod(shape))
    values = [info.max, info.min, 0, 1, info.max - 1, info.min + 1]
    while len(values) < size:
        bits = int(rng.integers(1, info.bits))
        value = int(rng.integers(0, 2**bits, dtype=np.uint64)) - (2 ** (bits - 1) if info.min else 0)
        values.append(value)
    return np.array(values[:size], dtype).reshape(shape) if size else np.zeros(shape, dtype)


def _right(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, argument: str) -> Values:
    """Integers in another order, so that pairs with those of `_points` differ."""
    return np.roll(_points(rng, shape, dtype, ""), 5)


def _distinct(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, argument: str) -> Values:
    """Every number once, in steps that 8-bit types hold."""
    size = int(np.prod(shape))
    values: Values = rng.permutation(size).reshape(shape)
    if dtype.kind == "b":
        values = values % 2 == 0
    elif dtype.kind == "c":
        values = (values - size // 2) / 4 + 0.5j * rng.integers(-3, 4, shape)
    elif dtype.kind not in "iu":
        values = (values - size // 2 + 0.25) / 4
    return values


def _few(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, argument: str) -> Values:
    """Only a few different numbers, zero among them."""
    values = rng.integers(0 if dtype.kind in "ub" else -1, 2 if dtype.kind == "b" else 3, shape)
    return values + 1j * rng.integers(0, 2, shape) if dtype.kind == "c" else values


def _sorted(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, argument: str) -> Values:
    return np.sort(_distinct(rng, shape, dtype, ""), axis=-1)


def _index(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, argument: str) -> Values:
    """Positions below the number after the colon."""
    return rng.integers(0, int(argument), shape)


def _matrix(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, argument: str) -> Values:
    """Matrices far from singular, with singular values far apart."""
    values = _normal(rng, shape, dtype, "") * 0.25
    rows = np.arange(min(shape[-2:]))
    values = values.astype(np.complex128 if dtype.kind == "c" else np.float64)
    values[..., rows, rows] += 1.5 * (rows + 1)
    return values


def _spd(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, argument: str) -> Values:
    """Symmetric positive definite matrices with eigenvalues far apart."""
    values = _matrix(rng, shape, dtype, "")
    out: Values = values @ np.conj(np.swapaxes(values, -1, -2)) / 2
    return out


def _turning(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, argument: str) -> Values:
    """Normal matrices that are not symmetric, so that eigenvalues are complex and well determined."""
    values = _normal(rng, shape, dtype, "")
    out: Values = values - np.conj(np.swapaxes(values, -1, -2)) + 2 * np.eye(shape[-1])
    return out


def _unit(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, argument: str) -> Values:
    """Between 0 and 1."""
    return rng.uniform(0.05, 0.95, shape)


def _offset(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, argument: str) -> Values:
    """Numbers near the one after the colon, which they are small beside."""
    return float(argument) + rng.uniform(-1, 1, shape)


def _constant(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, argument: str) -> Values:
    return np.full(shape, float(argument))


_GENERATORS: dict[str, Callable[[np.random.Generator, tuple[int, ...], np.dtype, str], Values]] = {
    "normal": _normal,
    "positive": _positive,
    "points": _points,
    "left": _points,
    "right": _right,
    "distinct": _distinct,
    "few": _few,
    "sorted": _sorted,
    "index": _index,
    "matrix": _matrix,
    "spd": _spd,
    "turning": _turning,
    "unit": _unit,
    "offset": _offset,
    "constant": _constant,
}
# Values that an edge must leave as they are.
_FIXED = frozenset({"index", "points", "left", "right", "constant"})


def _placed(values: Values, dtype: np.dtype, numbers: list[float]) -> Values:
    """Put the numbers at places three apart, the last row left alone where there is more than one."""
    out = values.astype(np.complex128 if dtype.kind == "c" else np.float64)
    flat = out.reshape(-1)
    for place, number in zip(range(0, max(1, 2 * flat.size // 3), 3), numbers * flat.size, strict=False):
        flat[place] = number
    return out


def _with_nan(values: Values, dtype: np.dtype) -> Values:
    return _placed(values, dtype, [np.nan])


def _with_infinity(values: Values, dtype: np.dtype) -> Values:
    return _placed(values, dtype, [np.inf, -np.inf])


def _extreme(values: Values, dtype: np.dtype) -> Values:
    """Numbers a sixtyfourth of the largest, so that a short sum of them still fits, beside the smallest."""
    if not is_inexact(dtype):
        info = np.iinfo(dtype)
        out = values.astype(dtype)
        flat = out.reshape(-1)
        flat[::3], flat[1::3] = info.max, info.min
        return out
    form = format_of(dtype)
    return _placed(values, dtype, [form.largest / 64, form.tiny * 4, -form.largest / 128, -form.tiny])


_EDITS: dict[str, Callable[[Values, np.dtype], Values]] = {
    "nan": _with_nan,
    "inf": _with_infinity,
    "extreme": _extreme,
}


def widest(dtype: np.dtype, /) -> np.dtype:
    """Return the dtype that the reference computes in."""
    if dtype.kind == "c":
        return np.dtype(np.complex128)
    return np.dtype(np.float64) if is_floating(dtype) else dtype
