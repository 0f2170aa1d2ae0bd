"""Division is correctly rounded in eager calls, also where XLA would multiply by the reciprocal of one divisor."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import rtx_jax as xp


def _in_place(x: xp.Array, y: object) -> xp.Array:
    x = xp.asarray(x, copy=True)
    x /= y
    return x


DIVISIONS: dict[str, Callable[[xp.Array, object], xp.Array]] = {
    "/": lambda x, y: x / y,
    "divide": xp.divide,
    "/=": _in_place,
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", DIVISIONS)
def test_a_number_divided_by_itself_is_one(name: str, dtype: str) -> None:
    divide = DIVISIONS[name]
    for n in range(1, 200):
        x = xp.full(3, float(n), dtype=dtype)
        for divisor in (n, float(n), xp.asarray(n, dtype=dtype), xp.full((1,), float(n), dtype=dtype)):
            assert np.asarray(divide(x, divisor)).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", DIVISIONS)
@pytest.mark.parametrize("shape", [(), (1,), (6,), (5, 1, 1), (7, 1), (1, 6), (5, 7, 6)])
def test_quotients_are_those_of_ieee_754(shape: tuple[int, ...], name: str, dtype: str) -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((5, 7, 6)).astype(dtype)
    y = generator.standard_normal(shape).astype(dtype)
    result = np.asarray(DIVISIONS[name](xp.asarray(x), xp.asarray(y)))
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, x / y)
    np.testing.assert_array_equal(np.asarray(xp.divide(xp.asarray(y), xp.asarray(x))), y / x)


@pytest.mark.parametrize("divisor", [0.0, -0.0, np.inf, -np.inf, np.nan, 3.0])
def test_special_values_by_one_divisor(divisor: float) -> None:
    x = np.asarray([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan])
    with np.errstate(all="ignore"):
        wanted = x / divisor
    for result in (xp.asarray(x) / divisor, xp.asarray(x) / xp.asarray(divisor)):
        np.testing.assert_array_equal(np.asarray(result), wanted)
        np.testing.assert_array_equal(
            np.signbit(np.asarray(result))[~np.isnan(wanted)], np.signbit(wanted)[~np.isnan(wanted)]
        )


@pytest.mark.parametrize("divisor", [49, 49.0])
def test_integers_by_one_number(divisor: float) -> None:
    x = np.asarray([49, 98, 103])
    for result in (xp.asarray(x) / divisor, xp.asarray(x) / xp.asarray(divisor)):
        assert result.dtype == xp.float64
        np.testing.assert_array_equal(np.asarray(result), x / 49)


def test_gradients_of_an_in_place_division() -> None:
    def function(x: xp.Array, y: xp.Array) -> xp.Array:
        x = xp.asarray(x, copy=True)
        x /= y
        return xp.sum(x)

    x, y = xp.asarray([1.0, 2.0, 4.0]), xp.asarray(2.0)
    np.testing.assert_allclose(np.asarray(xp.grad(function, argnums=0)(x, y)), [0.5, 0.5, 0.5])
    np.testing.assert_allclose(np.asarray(xp.grad(function, argnums=1)(x, y)), -7.0 / 4.0)


def test_shapes_that_do_not_fit_are_refused() -> None:
    for divide in DIVISIONS.values():
        with pytest.raises(ValueError, match="broadcast|shape"):
            divide(xp.ones(3), xp.ones(2))
