from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors

X = np.array([[3.0, -1.5, 2.25, 8.0], [0.5, 4.0, -7.0, 1.0]])


def check(x: Any, expected: Any) -> None:
    want = np.asarray(expected)
    assert type(x) is xp.Array
    assert x.dtype == want.dtype and x.shape == want.shape
    np.testing.assert_array_equal(np.asarray(x), want)


class TestIsclose:
    @pytest.mark.parametrize("equal_nan", [False, True])
    def test_special_values(self, equal_nan: bool) -> None:
        a = np.array([1.0, 1.0, math.inf, math.inf, -math.inf, math.nan, math.nan, 0.0, 1e300, 1e308])
        b = np.array([1.0 + 1e-9, 1.1, math.inf, -math.inf, 1.0, math.nan, 1.0, 1e-9, -1e300, -1e308])
        want = [True, False, True, False, False, equal_nan, False, True, False, False]
        check(xp.isclose(xp.asarray(a), xp.asarray(b), equal_nan=equal_nan), want)

    def test_tolerances(self) -> None:
        a, b = xp.asarray([100.0, 0.0]), xp.asarray([101.0, 0.5])
        check(xp.isclose(a, b, rtol=0.01, atol=0), [True, False])
        check(xp.isclose(a, b, 0.0, 0.5), [False, True])

    def test_it_is_not_symmetric(self) -> None:
        check(xp.isclose(xp.asarray([100.0]), xp.asarray([110.0]), rtol=0.095, atol=0), [True])
        check(xp.isclose(xp.asarray([110.0]), xp.asarray([100.0]), rtol=0.095, atol=0), [False])

    def test_integers(self) -> None:
        big = 2**62
        check(xp.isclose(xp.asarray([big, 5]), xp.asarray([big, 6])), [True, False])
        check(xp.isclose(xp.asarray([3], dtype=xp.uint8), xp.asarray([4], dtype=xp.uint8)), [False])
        check(xp.isclose(xp.asarray([True, False]), xp.asarray([True, True])), [True, False])

    def test_the_absolute_tolerance_does_not_vanish_in_float16(self) -> None:
        tiny = np.array([6e-8], np.float16)
        check(xp.isclose(xp.asarray(tiny), xp.asarray([0.0], dtype=xp.float16), rtol=0, atol=1e-7), [True])

    def test_complex_and_mixed(self) -> None:
        check(xp.isclose(xp.asarray([1 + 1j, 1 + 1j]), xp.asarray([1 + 1j, 1 + 2j])), [True, False])
        check(xp.isclose(xp.asarray([1.0, 2.0]), 1), [True, False])
        check(xp.isclose(xp.ones((2, 1)), xp.ones(3)), np.ones((2, 3), bool))

    def test_allclose(self) -> None:
        out = xp.allclose(xp.asarray([1.0, 2.0]), xp.asarray([1.0, 2.0 + 1e-12]))
        check(out, np.True_)
        assert not bool(xp.allclose(xp.asarray([1.0, 2.0]), xp.asarray([1.0, 2.1])))
        assert bool(xp.allclose(xp.zeros((0,)), xp.zeros((0,))))
        assert not bool(xp.allclose(xp.asarray(math.nan), xp.asarray(math.nan)))
        assert bool(xp.allclose(xp.asarray(math.nan), xp.asarray(math.nan), equal_nan=True))

    def test_errors(self) -> None:
        with pytest.raises(errors.BroadcastError):
            xp.isclose(xp.ones(2), xp.ones(3))
        with pytest.raises(errors.InvalidArgument):
            xp.isclose(xp.ones(2), xp.ones(2), rtol="small")  # type: ignore[arg-type]


class TestArray:
    def test_it_copies(self) -> None:
        x = xp.asarray([1.0, 2.0])
        y = xp.array(x)
        assert y is not x
        y[0] = 5.0
        check(x, [1.0, 2.0])
        j = jnp.ones(2)
        z = xp.array(j)
        z[0] = 3.0
        np.testing.assert_array_equal(j, [1, 1])
        assert xp.array(x, copy=None) is x

    def test_dtype_and_ndmin(self) -> None:
        check(xp.array([1, 2], xp.float32), np.array([1, 2], np.float32))
        check(xp.array(5, ndmin=2), np.array([[5]]))
        check(xp.array([1, 2], ndmin=1), np.array([1, 2]))
        check(xp.array([[1.5]], dtype=xp.int8, ndmin=3), np.ones((1, 1, 1), np.int8))


WIDTHS: list[Any] = [0, 2, (1, 2), ((1, 2),), ((0, 1), (2, 0)), ((3, 3), (4, 1)), ((1,), (2,))]


class TestPad:
    @pytest.mark.parametrize("widths", WIDTHS)
    @pytest.mark.parametrize("mode", ["constant", "edge", "linear_ramp", "maximum", "mean", "minimum", "median"])
    @pytest.mark.parametrize("dtype", [np.float64, np.int32])
    def test_modes(self, widths: Any, mode: Any, dtype: Any) -> None:
        x = X.astype(dtype)
        got, want = xp.pad(xp.asarray(x), widths, mode), np.pad(x, widths, mode)
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6, atol=1e-6)

    @pytest.mark.parametrize("widths", [*WIDTHS, 9])
    @pytest.mark.parametrize("mode", ["reflect", "symmetric", "wrap"])
    def test_modes_that_repeat(self, widths: Any, mode: Any) -> None:
        check(xp.pad(xp.asarray(X), widths, mode), np.pad(X, widths, mode))
        if mode != "wrap":
            got = xp.pad(xp.asarray(X), widths, mode, reflect_type="odd")
            np.testing.assert_allclose(np.asarray(got), np.pad(X, widths, mode, reflect_type="odd"), rtol=1e-12)

    def test_constants(self) -> None:
        x = xp.asarray(X)
        for values in (5, -1.5, (1, 2), ((1, 2), (3, 4)), ((1, 2),)):
            check(xp.pad(x, 1, constant_values=values), np.pad(X, 1, constant_values=values))
        check(xp.pad(x, 1, constant_values=xp.asarray(2.5)), np.pad(X, 1, constant_values=2.5))
        check(xp.pad(x, 2, "linear_ramp", end_values=(4, 0)), np.pad(X, 2, "linear_ramp", end_values=(4, 0)))
        bools = xp.asarray([True])
        check(xp.pad(bools, 1), np.array([False, True, False]))
        check(xp.pad(bools, 1, constant_values=True), np.ones(3, bool))

    def test_stat_length(self) -> None:
        for length in (1, (2, 1), ((1, 2), (3, 1))):
            want = np.pad(X, 2, "mean", stat_length=length)
            np.testing.assert_allclose(np.asarray(xp.pad(xp.asarray(X), 2, "mean", stat_length=length)), want)

    def test_by_axis(self) -> None:
        check(xp.pad(xp.asarray(X), {1: (1, 2)}), np.pad(X, ((0, 0), (1, 2))))
        check(xp.pad(xp.asarray(X), {-1: 1}), np.pad(X, ((0, 0), (1, 1))))

    def test_other_dtypes(self) -> None:
        x = np.ones(2, ml_dtypes.bfloat16)
        check(xp.pad(xp.asarray(x), 1), np.array([0, 1, 1, 0], ml_dtypes.bfloat16))
        check(xp.pad(xp.asarray(x), 1, "mean"), np.ones(4, ml_dtypes.bfloat16))
        check(xp.pad(xp.asarray([1j]), 1), np.array([0, 1j, 0]))
        check(xp.pad(xp.asarray(3.0), 2), np.asarray(3.0))
        assert xp.pad(xp.ones(2), 1, "empty").shape == (4,)
        check(xp.pad(np.ones(1), 1), np.array([0.0, 1.0, 0.0]))

    def test_errors(self) -> None:
        x = xp.asarray(X)
        for widths in (-1, 1.5, (1, 2, 3), ((1, 1),) * 3, "ab"):
            with pytest.raises(errors.InvalidArgument):
                xp.pad(x, widths)
        with pytest.raises(errors.InvalidArgument, match="mode"):
            xp.pad(x, 1, "mirror")  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidArgument):
            xp.pad(x, 1, "reflect", reflect_type="other")  # type: ignore[arg-type]
        for mode in ("edge", "linear_ramp", "maximum"):
            with pytest.raises(errors.InvalidArgument):
                xp.pad(xp.zeros((0,)), 1, mode)
        with pytest.raises(errors.DTypeMismatch):
            xp.pad(x, 1, constant_values=1j)
        with pytest.raises(errors.DTypeMismatch):
            xp.pad(xp.ones(2, dtype=xp.int32), 1, constant_values=1.5)
