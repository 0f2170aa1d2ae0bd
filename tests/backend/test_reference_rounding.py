"""One rounding, to nearest with ties to even, into every dtype."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from rtx_jax.backend.reference.rounding import exact, integer_range, is_float, is_integer, narrow, scalar, wide

SMALL = [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn]


def bits_to_float(bits, dtype):
    return bits.astype(f"u{np.dtype(dtype).itemsize}").view(dtype).astype(np.float64)


@pytest.mark.parametrize("dtype", SMALL, ids=lambda d: np.dtype(d).name)
def test_nearest_even_between_neighbours(dtype):
    # Positive numbers ascend as their bits do: all of the 8-bit types, a sample with the subnormals of the others.
    info, target = ml_dtypes.finfo(dtype), np.dtype(dtype)
    last = int(np.asarray(info.max, dtype).view(f"u{target.itemsize}"))
    bits = np.unique(np.concatenate([np.arange(min(last, 300)), np.arange(0, last, max(1, last // 500)), [last - 1]]))
    low, high = bits_to_float(bits, dtype), bits_to_float(bits + 1, dtype)
    middle = (low + high) / 2
    even = np.where(bits % 2, high, low)
    for sign in (1, -1):
        for value, want in (
            (np.nextafter(middle, 0), low),
            (np.nextafter(middle, np.inf), high),
            (middle, even),
            (low, low),
        ):
            assert np.array_equal(narrow(sign * value, target).astype(float), sign * want)


@pytest.mark.parametrize(
    ("value", "dtype", "want"),
    [
        (1 + 2**-8 + 2**-40, ml_dtypes.bfloat16, 1 + 2**-7),  # a cast by way of float32 gives 1
        (1 + 2**-8, ml_dtypes.bfloat16, 1.0),
        (1 + 3 * 2**-8, ml_dtypes.bfloat16, 1 + 2**-6),
        (1 + 2**-4 + 2**-40, ml_dtypes.float8_e4m3fn, 1.125),
        (1 + 2**-3 + 2**-40, ml_dtypes.float8_e5m2, 1.25),
        (65519.99, np.float16, 65504.0),
        (65520.0, np.float16, np.inf),
        (2**-25, np.float16, 0.0),
        (2**-25 * 1.0000001, np.float16, 2**-24),
        (2**-150 * 1.0000001, np.float32, 2**-149),
        (448.0, ml_dtypes.float8_e4m3fn, 448.0),
        (-np.inf, ml_dtypes.bfloat16, -np.inf),
    ],
)
def test_literals(value, dtype, want):
    got = narrow(np.asarray([value]), np.dtype(dtype))
    assert got.dtype == dtype
    assert float(got[0]) == want


def test_overflow_and_nan_of_types_without_infinity():
    got = narrow(np.asarray([1000.0, np.inf, np.nan, -0.0]), np.dtype(ml_dtypes.float8_e4m3fn)).astype(float)
    assert np.isnan(got[:3]).all()
    assert np.signbit(got[3])


def test_longdouble_is_rounded_once():
    if np.finfo(np.longdouble).nmant <= 52:
        pytest.skip("needs a long double wider than float64")
    value = np.longdouble(1) + np.longdouble(2) ** -8 + np.longdouble(2) ** -60
    assert float(narrow(np.asarray([value]), np.dtype(ml_dtypes.bfloat16))[0]) == 1 + 2**-7
    value = np.longdouble(1) + np.longdouble(2) ** -53 + np.longdouble(2) ** -63
    assert narrow(np.asarray([value]), np.dtype(np.float64))[0] == 1 + 2**-52


@pytest.mark.parametrize(
    ("dtype", "want"),
    [
        (np.uint8, [0, 255, 255, 0, 1, 0, 255, 0]),
        (np.int8, [-20, 127, 127, 0, 1, -1, 127, -128]),
        (np.int32, [-20, 300, 2147483647, 0, 1, -1, 2147483647, -2147483648]),
        (np.uint32, [0, 300, 3000000000, 0, 1, 0, 4294967295, 0]),
        (np.int64, [-20, 300, 3000000000, 0, 1, -1, 2**63 - 1, -(2**63)]),
        (np.uint64, [0, 300, 3000000000, 0, 1, 0, 2**64 - 1, 0]),
        (ml_dtypes.int4, [-8, 7, 7, 0, 1, -1, 7, -8]),
    ],
    ids=lambda v: np.dtype(v).name if isinstance(v, type) else "",
)
def test_floats_saturate_to_integers(dtype, want):
    x = np.asarray([-20, 300, 3e9, np.nan, 1.9, -1.9, np.inf, -np.inf])
    assert [int(v) for v in narrow(x, np.dtype(dtype))] == want


def test_whole_values_near_2_to_the_63_are_kept():
    x = np.asarray([2.0**62, 2.0**63 - 1024, -(2.0**63)])
    assert narrow(x, np.dtype(np.int64)).tolist() == [2**62, 2**63 - 1024, -(2**63)]
    assert narrow(np.asarray([2.0**63, 2.0**64 - 2048]), np.dtype(np.uint64)).tolist() == [2**63, 2**64 - 2048]


def test_kinds_and_working_types():
    assert is_float(np.dtype(ml_dtypes.float8_e8m0fnu)) and not is_float(np.dtype(ml_dtypes.int4))
    assert is_integer(np.dtype(ml_dtypes.uint2)) and not is_integer(np.dtype(bool))
    assert exact(np.zeros(1, np.float16)).dtype == np.float64
    assert exact(np.zeros(1, np.uint8)).dtype == np.uint8
    assert wide(np.zeros(1, np.float64)).dtype == np.longdouble
    assert wide(np.zeros(1, np.float32)).dtype == np.float64
    assert integer_range(np.dtype(ml_dtypes.int4)) == (-8, 7)


def test_a_scalar_becomes_an_element():
    assert float(scalar(0.1, np.dtype(ml_dtypes.bfloat16))) == 0.10009765625
    assert Fraction(float(scalar(0.1, np.dtype(np.float32)))) == Fraction(13421773, 2**27)
