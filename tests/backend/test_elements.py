"""Types of elements."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from rtx_jax.backend import BoolElement, FloatElement, IntElement, element_of, elements
from rtx_jax.errors import InvalidArgument, UnsupportedDType

FLOATS = [elements.F64, elements.F32, elements.F16, elements.BF16, elements.FP8_E4M3, elements.FP8_E5M2]
INTS = [getattr(elements, f"{kind}{width}") for kind in "IU" for width in (8, 16, 32, 64)]
LIMITS = {
    "f64": 1.7976931348623157e308,
    "f32": 3.4028234663852886e38,
    "f16": 65504.0,
    "bf16": 3.3895313892515355e38,
    "fp8_e4m3": 448.0,
    "fp8_e5m2": 57344.0,
}


@pytest.mark.parametrize("element", FLOATS, ids=lambda e: e.name)
def test_floats(element: elements.Float) -> None:
    assert isinstance(element, FloatElement)
    assert element_of(element.dtype) is element
    assert element.max_value == LIMITS[element.name]
    assert element.min_value == -element.max_value and element.size_in_bytes == element.dtype.itemsize
    for value in (0.0, 1.0, -2.5, element.max_value):
        made = element.from_f64(value)
        assert made.dtype == element.dtype and element.to_f64(made) == value
    assert element.zero() == 0 and element.one() == 1 and math.isnan(element.to_f64(element.from_f64(math.nan)))


def test_rounding_is_once() -> None:
    # Between 1 and the next bfloat16, 1 + 2**-7, just above the middle: by way of float32 it would be a tie.
    value = 1 + 2.0**-8 + 2.0**-40
    assert elements.BF16.to_f64(elements.BF16.from_f64(value)) == 1 + 2.0**-7
    assert elements.BF16.to_f64(elements.BF16.from_f64(1 + 2.0**-8)) == 1.0  # a tie goes to even


@pytest.mark.parametrize("element", INTS, ids=lambda e: e.name)
def test_integers(element: elements.Int) -> None:
    assert isinstance(element, IntElement) and element_of(element.dtype) is element
    bits = 8 * element.size_in_bytes
    signed = element.name[0] == "i"
    assert element.max_value == 2 ** (bits - signed) - 1 and element.min_value == (-(2 ** (bits - 1)) if signed else 0)
    for value in (element.min_value, 0, element.max_value):
        assert element.to_int(element.from_int(value)) == value
    with pytest.raises(InvalidArgument, match="value"):
        element.from_int(element.max_value + 1)


def test_bools() -> None:
    for element in (elements.BOOL, elements.BOOL_U8):
        assert isinstance(element, BoolElement)
        assert element.to_bool(element.from_bool(True)) is True and element.size_in_bytes == 1
    u8 = elements.BOOL_U8
    assert u8.from_u8(2) is True and u8.from_u8(0) is False
    stored = u8.store([True, False, 3])
    assert stored.dtype == np.uint8 and stored.tolist() == [1, 0, 1]
    assert u8.view(stored).base is not None and u8.view(np.array([0, 2], np.uint8)).tolist() == [False, True]
    with pytest.raises(InvalidArgument):
        u8.from_u8(256)
    with pytest.raises(UnsupportedDType):
        u8.view(np.zeros(2))


@pytest.mark.parametrize("wrong", ["U3", "complex64", 3, ml_dtypes.int4])
def test_other_dtypes(wrong: object) -> None:
    with pytest.raises(UnsupportedDType):
        element_of(wrong)
