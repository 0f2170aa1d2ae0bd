"""The stored values are those of mpmath at the points of the table."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from rtx_jax.parity.points import COMPLEX_SPECIALS, complex_points, real_points
from rtx_jax.parity.reference.elementwise import function
from rtx_jax.parity.reference.stored import stored
from tests.parity.make_values import BINARY, COMPLEX, PATH, UNARY, complex_, real

DATA = json.loads(PATH.read_text(encoding="utf-8"))


def same(a, b):
    return a == b or (math.isnan(a) and math.isnan(b))


def test_the_points_are_those_of_the_table():
    points = real_points(np.dtype(np.float64))
    assert DATA["points"] == points[np.isfinite(points) & (points != 0)].tolist()
    others = complex_points(np.dtype(np.complex128))[COMPLEX_SPECIALS:]
    assert [complex(*z) for z in DATA["complex points"]] == others.tolist()


@pytest.mark.parametrize("name", UNARY)
def test_real_values(name):
    for place in (0, 7, 30, 60, 90, 110):
        assert same(DATA["unary"][name][place], real(name, (DATA["points"][place],)))


@pytest.mark.parametrize("name", BINARY)
def test_values_of_pairs(name):
    for place in (0, 20, 70, -1):
        assert same(DATA["binary"][name][place], real(name, DATA["pairs"][place]))


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_values(name):
    for place in (3, 40, 70):
        want = complex_(name, complex(*DATA["complex points"][place]))
        assert complex(*DATA["complex"][name][place]) == want


def test_stored_values_take_the_place_of_numpys():
    x = np.array(DATA["points"])
    for name in ("tan", "tanh", "exp"):
        taken = stored(name, [x], np.full(x.shape, 7.0))
        assert all(map(same, taken.tolist(), DATA["unary"][name]))
    assert stored("tan", [np.array([0.123])], np.array([7.0])).tolist() == [7.0]


def test_known_digits():
    # sin 1, log 2, exp 0.5 to 20 digits.
    for name, point, digits in [
        ("sin", 1.0, 0.84147098480789650665),
        ("log", 2.0, 0.69314718055994530942),
        ("exp", 0.5, 1.6487212707001281468),
    ]:
        assert function(name)(np.array([point])).tolist() == [digits]
