"""Affine maps and embeddings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors, nn, ops
from tests.ops.checking import DTYPES, array, assert_gradients, under_jit


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values(dtype: np.dtype) -> None:
    rng = np.random.default_rng(0)
    x, w, b = (array(rng.standard_normal(s), dtype) for s in ((2, 3, 40), (5, 40), (5,)))
    x64, w64, b64 = (np.asarray(v).astype(np.float64) for v in (x, w, b))
    eps = float(xp.finfo(dtype).eps)
    work = eps if dtype.itemsize > 2 else float(xp.finfo(xp.float32).eps)
    for got, want in (
        (np.asarray(nn.linear(x, w, b)), x64 @ w64.T + b64),
        (under_jit(ops.linear, x, w, b), x64 @ w64.T + b64),
        (np.asarray(nn.linear(x, w)), x64 @ w64.T),
    ):
        assert got.dtype == dtype and got.shape == (2, 3, 5)
        # The sum in the wider type, then one rounding.
        bound = 40 * work * (np.abs(x64) @ np.abs(w64).T + 3) + 0.51 * eps * np.abs(want)
        assert (np.abs(got.astype(np.float64) - want) <= bound).all()


def test_a_bias_is_added_before_the_rounding() -> None:
    # 256 + 1 in bfloat16 is 256; 256 + 1 + 1 is 258.
    x, w = xp.ones((1, 1), dtype=xp.bfloat16), xp.asarray([[257.0 - 1]], dtype=xp.bfloat16)
    got = nn.linear(xp.concat([x, x], axis=1), xp.concat([w, x], axis=1), xp.ones((1,), dtype=xp.bfloat16))
    assert float(got[0, 0]) == 258.0


def test_shapes_and_promotion() -> None:
    assert nn.linear(xp.ones((3,)), xp.ones((2, 3))).shape == (2,)
    assert nn.linear(xp.ones((4, 0)), xp.ones((2, 0)), xp.ones((2,))).shape == (4, 2)
    np.testing.assert_array_equal(np.asarray(nn.linear(xp.ones((1, 0)), xp.ones((2, 0)), xp.ones((2,)))), [[1, 1]])
    assert nn.linear(xp.ones((0, 3)), xp.ones((2, 3))).shape == (0, 2)
    mixed = nn.linear(xp.ones((1, 2), dtype=xp.bfloat16), xp.ones((3, 2), dtype=xp.float32))
    assert mixed.dtype == xp.float32


def test_gradients() -> None:
    rng = np.random.default_rng(1)
    operands = [rng.standard_normal(s) for s in ((2, 3), (4, 3), (4,))]
    assert_gradients(nn.linear, lambda x, w, b: x @ w.T + b, operands)


def test_embedding() -> None:
    table = np.random.default_rng(2).standard_normal((6, 3))
    where = np.array([[5, 0], [2, 2]])
    np.testing.assert_array_equal(np.asarray(nn.embedding(xp.asarray(where), array(table))), table[where])
    assert_gradients(lambda t: nn.embedding(xp.asarray(where), t), lambda t: t[where], [table])
    assert nn.embedding(xp.zeros((0,), dtype=xp.int32), array(table)).shape == (0, 3)
    assert nn.embedding(xp.asarray(1), array(table)).shape == (3,)


def test_the_gradient_of_an_embedding_in_halves_has_a_forward_mode() -> None:
    table = xp.ones((2, 1), dtype=xp.bfloat16)
    value, slope = xp.jvp(lambda t: nn.embedding(xp.asarray([1, 1]), t), (table,), (table * 3,))
    np.testing.assert_array_equal(np.asarray(slope).astype(np.float64), [[3], [3]])
    assert slope.dtype == value.dtype == xp.bfloat16


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: nn.linear(array(1.0), array(np.ones((2, 3)))), errors.InvalidDimension),
        (lambda: nn.linear(array(np.ones(3)), array(np.ones(3))), errors.InvalidDimension),
        (lambda: nn.linear(array(np.ones(2)), array(np.ones((2, 3)))), errors.ShapeMismatch),
        (lambda: nn.linear(array(np.ones(3)), array(np.ones((2, 3))), array(np.ones(3))), errors.ShapeMismatch),
        (lambda: nn.linear(xp.asarray([1, 2]), array(np.ones((2, 2)))), errors.UnsupportedDType),
        (lambda: ops.linear(np.ones(2), np.ones((2, 2)), precision="most"), errors.InvalidArgument),  # type: ignore[arg-type]
    ],
)
def test_bad_input(call: Callable[[], object], error: type[errors.RtxError]) -> None:
    with pytest.raises(error):
        call()


def test_a_table_of_integers() -> None:
    table = np.asarray([[1, -2], [3, 2**40]], np.int64)
    got = nn.embedding(xp.asarray([1, 0, 1]), xp.asarray(table))
    assert got.dtype == xp.int64
    np.testing.assert_array_equal(np.asarray(got), [[3, 2**40], [1, -2], [3, 2**40]])
