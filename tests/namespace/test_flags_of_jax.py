"""The namespace means the same whatever the user's flags say of `jax.numpy`."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import rtx_jax as xp

ROWS = np.asarray([[1.0, 2.0, 3.0], [4.0, 0.5, 2.5]])
ROW = np.asarray([0.5, 2.0, 4.0])


@pytest.fixture(autouse=True)
def strict_flags():
    with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
        yield


@pytest.mark.parametrize(
    "name", ["add", "pow", "less", "atan2", "hypot", "logaddexp", "remainder", "floor_divide", "maximum", "copysign"]
)
def test_operands_of_different_ranks_broadcast(name):
    expected = {"pow": np.power, "atan2": np.arctan2}.get(name) or getattr(np, name)
    found = getattr(xp, name)(xp.asarray(ROWS), xp.asarray(ROW))
    np.testing.assert_allclose(np.asarray(found), expected(ROWS, ROW), rtol=1e-15)


def test_dtypes_promote():
    found = xp.asarray(ROWS, dtype=xp.float32) + xp.asarray(ROW)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(np.asarray(found), ROWS + ROW)


def test_updates_broadcast():
    x, expected = xp.asarray(ROWS), ROWS.copy()
    x += xp.asarray(ROW)
    x[:, 1:] *= xp.asarray(ROW[1:])
    x[x > 10.0] = 0.0
    expected += ROW
    expected[:, 1:] *= ROW[1:]
    expected[expected > 10.0] = 0.0
    np.testing.assert_array_equal(np.asarray(x), expected)


def test_transforms_broadcast():
    x, y = xp.asarray(ROWS), xp.asarray(ROW)
    np.testing.assert_array_equal(np.asarray(xp.jit(lambda a, b: a * b)(x, y)), ROWS * ROW)
    np.testing.assert_array_equal(np.asarray(xp.grad(lambda a: xp.sum(a * y))(x)), np.broadcast_to(ROW, ROWS.shape))
    np.testing.assert_allclose(np.asarray(xp.clip(x, y, y + 1.0)), np.clip(ROWS, ROW, ROW + 1.0))
    assert bool(xp.allclose(x, y)) is False
