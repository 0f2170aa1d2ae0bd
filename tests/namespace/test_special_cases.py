"""The special cases of `special_cases`, and those that follow from them by symmetry."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import rtx_jax as xp
from tests.namespace.special_cases import COMPLEX, EVEN, ODD, REAL, ROTATED, SCALED, Any, Operand

# Derived numbers (pi / 4, cos 1 ...) may be off by this many units in the last place.
ULP = 4


def _samples(operand):
    return operand if isinstance(operand, list) else [operand]


def _expanded(rows):
    """Turn rows into (function, condition, operands, result) without lists and references to operands."""
    for function, condition, operands, result in rows:
        for values in itertools.product(*map(_samples, operands)):
            yield function, condition, values, result.of(values) if isinstance(result, Operand) else result


def _grouped(rows):
    """Group rows by function and condition, as one compiled call serves them all."""
    groups = {}
    for function, condition, operands, result in rows:
        kinds = "".join("z" if isinstance(value, complex) else "x" for value in operands)
        groups.setdefault((function, kinds), []).append((condition, operands, result))
    return groups


def _conj(result):
    return (result[0], _negate(result[1])) if isinstance(result, tuple) else result


def _negate(component):
    return component if isinstance(component, Any) else -component


def _minus(result):
    return tuple(map(_negate, result))


def _derived(rows):
    """Return the rows of `COMPLEX` with what their symmetries say about other operands."""
    rows = list(_expanded(rows))
    rows += [
        (function, f"{condition}, conjugate", tuple(v.conjugate() for v in operands), _conj(result))
        for function, condition, operands, result in rows
        if len(operands) == 1
    ]
    rows += [
        (function, f"{condition}, opposite", (-operands[0],), _minus(result) if function in ODD else result)
        for function, condition, operands, result in rows
        if function in ODD + EVEN
    ]
    symmetric = tuple(rows)
    for name, hyperbolic in ROTATED.items():
        for function, condition, operands, result in symmetric:
            if function == hyperbolic:
                (z,) = operands
                turned = result if name == "cos" else (result[1], _negate(result[0]))
                rows.append((name, f"{hyperbolic} of i z: {condition}", (complex(z.imag, -z.real),), turned))
    for name, scale in SCALED.items():
        for function, condition, operands, result in symmetric:
            if function == "log":
                rows.append((name, f"log: {condition}", operands, tuple(part / scale for part in result)))
    return rows


def _component_is(got, want, eps, sign_of_nan):
    if isinstance(want, Any):
        got, want = abs(got), abs(float(want))
    if math.isnan(want):
        return math.isnan(got) and (not sign_of_nan or math.copysign(1, got) == math.copysign(1, want))
    if want == 0 or math.isinf(want):
        return got == want and math.copysign(1, got) == math.copysign(1, want)
    return abs(got - want) <= ULP * eps * abs(want)


def _is(function, got, want, eps):
    if isinstance(want, bool):
        return got is want
    parts = [got.real, got.imag] if isinstance(want, tuple) else [got]
    wanted = want if isinstance(want, tuple) else (want,)
    return all(_component_is(g, w, eps, function == "copysign") for g, w in zip(parts, wanted, strict=True))


def _arrays(rows, kinds, real, complex_):
    columns = zip(*(operands for _, operands, _ in rows), strict=True)
    dtypes = [complex_ if kind == "z" else real for kind in kinds]
    return [xp.asarray(np.array(column, dtype)) for column, dtype in zip(columns, dtypes, strict=True)]


def _check(function, kinds, rows, precision, call):
    real, complex_ = (np.float32, np.complex64) if precision == 32 else (np.float64, np.complex128)
    out = call(*_arrays(rows, kinds, real, complex_))
    result = rows[0][2]
    want_dtype = np.dtype(bool if isinstance(result, bool) else complex_ if isinstance(result, tuple) else real)
    assert out.dtype == want_dtype
    eps = float(np.finfo(real).eps)
    wrong = [
        f"{function}{operands} is {got}, not {want} ({condition})"
        for (condition, operands, want), got in zip(rows, np.asarray(out).tolist(), strict=True)
        if not _is(function, got, want, eps)
    ]
    assert not wrong, "\n".join(wrong)


_GROUPS = {**_grouped(_expanded(REAL)), **_grouped(_derived(COMPLEX))}


@pytest.mark.parametrize("precision", [32, 64])
@pytest.mark.parametrize(("function", "kinds"), _GROUPS, ids=lambda part: part)
def test_special_cases(function, kinds, precision):
    _check(function, kinds, _GROUPS[function, kinds], precision, getattr(xp, function))


@pytest.mark.parametrize(("function", "kinds"), _GROUPS, ids=lambda part: part)
def test_special_cases_under_jit(function, kinds):
    _check(function, kinds, _GROUPS[function, kinds], 64, xp.jit(lambda *x: getattr(xp, function)(*x)))


_OPERATORS = {
    "add": lambda x, y: x + y,
    "divide": lambda x, y: x / y,
    "floor_divide": lambda x, y: x // y,
    "multiply": lambda x, y: x * y,
    "pow": lambda x, y: x**y,
    "remainder": lambda x, y: x % y,
    "subtract": lambda x, y: x - y,
}


def _in_place(name, x, y):
    if name == "add":
        x += y
    elif name == "divide":
        x /= y
    elif name == "floor_divide":
        x //= y
    elif name == "multiply":
        x *= y
    elif name == "pow":
        x **= y
    elif name == "remainder":
        x %= y
    else:
        x -= y
    return x


@pytest.mark.parametrize("name", _OPERATORS)
def test_operators_are_the_functions(name):
    _check(name, "xx", _GROUPS[name, "xx"], 64, _OPERATORS[name])
    _check(name, "xx", _GROUPS[name, "xx"], 64, lambda x, y: _in_place(name, x, y))


def test_every_elementwise_function_of_the_table_has_cases():
    without = {
        "bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor conj greater"
        " greater_equal imag less less_equal logical_and logical_not logical_or logical_xor negative positive real"
    }
    names = {function for function, _ in _GROUPS}
    from rtx_jax.namespace import elementwise

    assert set(elementwise.__all__) - names == set(" ".join(without).split())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nextafter_steps_through_subnormal_numbers(dtype):
    least = float(np.finfo(dtype).smallest_subnormal)
    normal = float(np.finfo(dtype).smallest_normal)
    rows = [
        (0.0, 1.0, least),
        (-0.0, -1.0, -least),
        (least, 0.0, 0.0),
        (-least, 1.0, -0.0),
        (least, 1.0, 2 * least),
        (normal, 0.0, normal - least),
        (-normal + least, -1.0, -normal),
        (1.0, 2.0, 1.0 + float(np.finfo(dtype).eps)),
        (math.inf, 0.0, float(np.finfo(dtype).max)),
        (float(np.finfo(dtype).max), math.inf, math.inf),
    ]
    x1, x2, want = (np.array(column, dtype) for column in zip(*rows, strict=True))
    got = np.asarray(xp.nextafter(xp.asarray(x1), xp.asarray(x2)))
    assert got.dtype == np.dtype(dtype)
    assert got.tobytes() == want.tobytes()
