"""A NaN is never passed over by max and min, whatever the size: XLA's vectorized reductions on the CPU do that."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import rtx_jax as xp

SHAPES = [((7,), None), ((2049,), None), ((5000,), None), ((10, 5000), 1), ((5000, 10), 0), ((20, 30, 40), (0, 2))]
DTYPES = ["float32", "float64", "float16", "bfloat16"]


def reference(name: str, values: np.ndarray, axis: int | tuple[int, ...] | None) -> np.ndarray:
    """NumPy's result in float64."""
    return getattr(np, name)(values.astype(np.float64), axis=axis)


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_nan_and_infinities(shape: tuple[int, ...], axis: int | tuple[int, ...] | None, dtype: str, name: str) -> None:
    function: Callable[..., xp.Array] = getattr(xp, name)
    generator = np.random.default_rng(0)
    plain = generator.integers(-50, 50, shape).astype(np.float64)
    places = [tuple(generator.integers(n) for n in shape) for _ in range(4)]
    cases = [plain.copy() for _ in range(4)]
    cases[1][places[0]] = np.nan
    cases[2][places[0]], cases[2][places[1]] = np.inf, -np.inf
    cases[3][places[0]], cases[3][places[1]], cases[3][places[2]] = np.inf, -np.inf, np.nan
    for values in cases:
        x = xp.asarray(values, dtype=dtype)
        wanted = reference(name, values, axis)
        for result in (function(x, axis=axis), xp.jit(lambda a: function(a, axis=axis))(x)):
            assert result.dtype == x.dtype
            np.testing.assert_array_equal(np.asarray(result).astype(np.float64), wanted)


@pytest.mark.parametrize("name", ["max", "min"])
def test_gradients_of_large_arrays_are_shared_by_ties(name: str) -> None:
    values = np.zeros(5000)
    values[[10, 4000]] = 3.0 if name == "max" else -3.0
    gradient = np.asarray(xp.grad(getattr(xp, name))(xp.asarray(values)))
    wanted = np.zeros(5000)
    wanted[[10, 4000]] = 0.5
    np.testing.assert_array_equal(gradient, wanted)


def test_large_arrays_under_vmap() -> None:
    values = np.arange(3 * 5000.0).reshape(3, 5000)
    values[1, 7] = np.nan
    np.testing.assert_array_equal(np.asarray(xp.vmap(xp.max)(xp.asarray(values))), [4999.0, np.nan, 14999.0])


@pytest.mark.parametrize("order", [np.inf, -np.inf])
def test_norms_of_large_arrays(order: float) -> None:
    values = np.ones(5000)
    values[17] = np.nan
    assert np.isnan(np.asarray(xp.linalg.vector_norm(xp.asarray(values), ord=order)))
    wide = np.ones((5000, 3))
    wide[11, 1] = np.nan
    assert np.isnan(np.asarray(xp.linalg.matrix_norm(xp.asarray(wide), ord=order)))
