"""The distance in units in the last place, by literals."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from rtx_jax.parity.ulp import flushed, format_of, spacing, ulp_error

INF, NAN = math.inf, math.nan
EPS32 = 2.0**-23


def error(got, exact, dtype="float32", **options):
    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    return float(ulp_error(np.array(got).astype(dtype), np.array(exact, np.float64), **options))


@pytest.mark.parametrize(
    ("dtype", "at", "step"),
    [
        ("float32", 1.0, 2.0**-23),
        ("float32", 1.999, 2.0**-23),
        ("float32", 2.0, 2.0**-22),
        ("float32", 0.0, 2.0**-149),
        ("float32", 1e-40, 2.0**-149),
        ("float64", 1.0, 2.0**-52),
        ("float16", 1.0, 2.0**-10),
        ("float16", 6e-8, 2.0**-24),
        ("bfloat16", 1.0, 2.0**-7),
        ("float8_e4m3fn", 1.0, 2.0**-3),
        ("float8_e5m2", 1.0, 2.0**-2),
        ("complex64", 1.0, 2.0**-23),
    ],
)
def test_spacing(dtype, at, step):
    form = format_of(np.dtype(getattr(ml_dtypes, dtype, dtype)))
    assert float(spacing(np.array(at), form)) == step


@pytest.mark.parametrize(
    ("got", "exact", "distance"),
    [
        (1.0, 1.0, 0.0),
        (1.0, 1.0 + EPS32 / 4, 0.25),
        (1.0, 1.0 + EPS32, 1.0),
        (1.0 + 16 * EPS32, 1.0, 16.0),
        (-1.0, 1.0, 2.0**24),
        (0.0, 1e-40, 0.0),  # flushed to zero
        (0.0, 2.0**-126, 0.0),  # half of it was
        (0.0, 2.0**-125, 2.0**23),
        (2.0**-140, 2.0**-140, 0.0),
        (INF, INF, 0.0),
        (-INF, INF, INF),
        (1.0, INF, INF),
        (NAN, NAN, 0.0),
        (NAN, 1.0, INF),
        (1.0, NAN, INF),
        (NAN, INF, INF),
        (0.0, -0.0, 0.0),
        (INF, 3.5e38, 0.0),  # beyond the range
        (INF, 3.4028234663852886e38, 1.0),  # the largest number
        (3.4028234663852886e38, 3.5e38, 1.0),
        (INF, 1.0, 2.0**151),
    ],
)
def test_distance_in_float32(got, exact, distance):
    measured = error(got, exact)
    assert measured == pytest.approx(distance, abs=2e-3)


def test_signed_zeros_count_where_asked():
    assert error(0.0, -0.0, signed_zeros=True) == INF
    assert error(-0.0, -0.0, signed_zeros=True) == 0


def test_a_scale_makes_the_unit_larger():
    assert error(EPS32, 0.0, scale=np.array(1.0)) == 1.0
    assert error(EPS32, 0.0) > 1e6


@pytest.mark.parametrize(("dtype", "got"), [("float8_e4m3fn", NAN), ("float8_e4m3fn", 448.0), ("float8_e5m2", INF)])
def test_overflow_of_small_formats(dtype, got):
    assert error(got, 1e6, dtype) == 0


def test_a_complex_number_counts_by_its_larger_component():
    got = np.array(1 + 1j * EPS32, np.complex64)
    assert float(ulp_error(got, np.array(1.0 + 0j))) == 1.0
    nan = np.array(complex(INF, NAN), np.complex64)
    assert float(ulp_error(nan, np.array(complex(NAN, INF)))) == INF
    assert float(ulp_error(nan, np.array(complex(NAN, INF)), by_component=False)) == 0
    assert float(ulp_error(got, np.array(complex(NAN, INF)), by_component=False)) == INF


def test_exact_types_count_in_ones():
    assert ulp_error(np.array([3, 3, 200], np.uint8), np.array([3, 5, 100], np.uint8)).tolist() == [0, 2, 100]
    assert ulp_error(np.array([True, False]), np.array([True, True])).tolist() == [0, 1]
    big = np.array([2**63 - 1]), np.array([2**63 - 2])
    assert ulp_error(*big).tolist() == [1]
    assert ulp_error(np.array("int8"), np.array("int16")).tolist() == INF


def test_flushing():
    x = np.array([1e-40, -1e-40, 1.0, 0.0], np.float32)
    assert flushed(x).tolist() == [0.0, 0.0, 1.0, 0.0]
    assert np.signbit(flushed(x)).tolist() == [False, True, False, False]
    ordinary = np.ones(2, np.float32)
    assert flushed(ordinary) is ordinary
