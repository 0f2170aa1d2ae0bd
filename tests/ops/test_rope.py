"""Rotary position embedding: both layouts, table shapes, positions, partial rotation, against complex products."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors, nn, ops
from tests.ops.checking import DTYPES, array, assert_gradients, assert_ulp, under_jit

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)


def angles(positions: np.ndarray, dim: int, base: float = 1e4) -> np.ndarray:
    return np.asarray(positions, np.float64)[..., None] * base ** (-2.0 * np.arange(dim // 2) / dim)


def turn(x: np.ndarray, angle: np.ndarray, layout: str, width: int | None = None) -> np.ndarray:
    """Pairs of channels times ``exp(1j * angle)``, of which the axes broadcast with those of `x`."""
    width = x.shape[-1] if width is None else width
    first = np.arange(width // 2) if layout == "half" else np.arange(0, width, 2)
    second = first + (width // 2 if layout == "half" else 1)
    turned = (x[..., first] + 1j * x[..., second]) * np.exp(1j * angle)
    out = x.copy()
    out[..., first], out[..., second] = turned.real, turned.imag
    return out


LAYOUT = pytest.mark.parametrize("layout", ["half", "interleaved"])


@LAYOUT
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values(layout: str, dtype: np.dtype) -> None:
    x = array(np.random.default_rng(0).standard_normal((2, 5, 3, 8)), dtype)
    cos, sin = nn.rope_tables(5, 8, dtype=xp.float64)
    wide = np.asarray(x).astype(np.float64)
    want = turn(wide, angles(np.arange(5), 8)[:, None], layout)
    ulp = 4 if dtype.itemsize > 2 else 0.51
    assert_ulp(nn.rope(x, cos, sin, layout=layout), want, ulp, dtype, least=1.0)
    # The raw operation has positions before channels: (B, N, S, D).
    swapped = xp.permute_dims(x, (0, 2, 1, 3))
    got = under_jit(functools.partial(ops.rope, layout=layout), swapped, cos, sin)
    assert_ulp(np.swapaxes(got, 1, 2), want, ulp, dtype, least=1.0)


@LAYOUT
def test_tables_of_the_whole_width(layout: str) -> None:
    x = np.random.default_rng(1).standard_normal((4, 6))
    half = angles(np.arange(4), 6)
    # Repeated as each layout has it; only the column of the first channel of a pair is read.
    full = np.concatenate([half, half + 9], -1) if layout == "half" else np.stack([half, half + 9], -1).reshape(4, 6)
    got = nn.rope(array(x), array(np.cos(full)), array(np.sin(full)), layout=layout, seq_axis=0)
    assert_ulp(got, turn(x, half, layout), 4, F64, least=1.0)


def test_where_a_unit_vector_goes() -> None:
    cos, sin = nn.rope_tables(2, 4, dtype=xp.float64)
    unit = array(np.array([1.0, 0, 0, 0]).reshape(1, 1, 1, 4))
    at = xp.asarray([1])
    c, s = math.cos(1), math.sin(1)
    np.testing.assert_allclose(np.asarray(nn.rope(unit, cos, sin, positions=at))[0, 0, 0], [c, 0, s, 0])
    np.testing.assert_allclose(
        np.asarray(nn.rope(unit, cos, sin, positions=at, layout="interleaved"))[0, 0, 0], [c, s, 0, 0]
    )
    np.testing.assert_array_equal(np.asarray(nn.rope(unit, cos, sin, positions=xp.asarray([0]))), np.asarray(unit))


@LAYOUT
def test_positions(layout: str) -> None:
    x = np.random.default_rng(2).standard_normal((2, 3, 2, 4))
    cos, sin = nn.rope_tables(50, 4, dtype=xp.float64)
    for positions in (np.array([7, 0, 49]), np.array([[1, 2, 3], [40, 41, 7]]), np.array([[5, 5, 6]])):
        got = nn.rope(array(x), cos, sin, positions=xp.asarray(positions), layout=layout)
        assert_ulp(got, turn(x, angles(positions, 4)[..., None, :], layout), 4, F64, least=1.0)


def test_a_position_that_the_tables_do_not_have_is_nan() -> None:
    x = xp.ones((1, 3, 1, 2))
    cos, sin = nn.rope_tables(4, 2, dtype=xp.float64)
    got = np.isnan(np.asarray(nn.rope(x, cos, sin, positions=xp.asarray([3, 4, -1]))))
    np.testing.assert_array_equal(got[0, :, 0], [[False, False], [True, True], [True, True]])
    error, _ = xp.checked(lambda p: nn.rope(x, cos, sin, positions=p))(xp.asarray([0, 1, 4]))
    assert error


@LAYOUT
def test_partial_rotation(layout: str) -> None:
    x = np.random.default_rng(3).standard_normal((1, 6, 1, 16)).astype(np.float32)
    positions = np.array([0, 1, 7, 100, 700, 2355])
    cos, sin = nn.rope_tables(2356, 4)
    got = np.asarray(nn.rope(xp.asarray(x), cos, sin, positions=xp.asarray(positions), rotary_dim=4, layout=layout))
    np.testing.assert_array_equal(got[..., 4:], x[..., 4:])
    want = turn(x.astype(np.float64), angles(positions, 4)[:, None], layout, 4)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=3e-7)
    nothing = nn.rope(xp.asarray(x), *nn.rope_tables(6, 0), rotary_dim=0, layout=layout)
    np.testing.assert_array_equal(np.asarray(nothing), x)


def test_tables_are_exact_far_out() -> None:
    cos, sin = nn.rope_tables(200_001, 2)
    assert cos.dtype == xp.float32 and cos.shape == (200_001, 1)
    for position in (1, 99_999, 200_000):
        assert float(cos[position, 0]) == np.float32(math.cos(position))
        assert float(sin[position, 0]) == np.float32(math.sin(position))
    cos, _ = nn.rope_tables(3, 4, base=100.0, dtype=xp.float64)
    np.testing.assert_allclose(np.asarray(cos), np.cos(np.outer(np.arange(3), [1, 0.1])), rtol=1e-15)
    assert nn.rope_tables(0, 4)[0].shape == (0, 2)


@LAYOUT
def test_norm_relative_position_and_inverse(layout: str) -> None:
    rng = np.random.default_rng(4)
    q, k = rng.standard_normal((2, 8))
    cos, sin = nn.rope_tables(64, 8, dtype=xp.float64)
    everywhere = [nn.rope(array(np.tile(v, (64, 1))), cos, sin, layout=layout, seq_axis=0) for v in (q, k)]
    at_q, at_k = (np.asarray(v) for v in everywhere)
    np.testing.assert_allclose(np.linalg.norm(at_q, axis=-1), np.linalg.norm(q), rtol=1e-14)
    # Scores depend on the distance alone.
    scores = at_q @ at_k.T
    np.testing.assert_allclose(np.diagonal(scores, 5), scores[0, 5], rtol=1e-12)
    back = nn.rope(everywhere[0], cos, -sin, layout=layout, seq_axis=0)
    np.testing.assert_allclose(np.asarray(back), np.tile(q, (64, 1)), rtol=1e-12, atol=1e-14)


@LAYOUT
def test_gradients(layout: str) -> None:
    x = np.random.default_rng(5).standard_normal((3, 6))
    angle = angles(np.arange(3), 4)

    def run(x: xp.Array, cos: xp.Array, sin: xp.Array) -> xp.Array:
        return nn.rope(x, cos, sin, positions=xp.asarray([2, 0, 2]), layout=layout, seq_axis=0, rotary_dim=4)

    def oracle(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
        first = [0, 1] if layout == "half" else [0, 2]
        second = [2, 3] if layout == "half" else [1, 3]
        c, s, out = cos[[2, 0, 2]], sin[[2, 0, 2]], x.copy()
        out[:, first] = x[:, first] * c - x[:, second] * s
        out[:, second] = x[:, second] * c + x[:, first] * s
        return out

    assert_gradients(run, oracle, [x, np.cos(angle), np.sin(angle)])


def test_nan_stays_in_its_pair() -> None:
    x = np.ones((1, 6))
    x[0, 1] = np.nan
    cos, sin = nn.rope_tables(1, 6)
    got = np.isnan(np.asarray(nn.rope(array(x, F32), cos, sin, seq_axis=0)))
    np.testing.assert_array_equal(got[0], [0, 1, 0, 0, 1, 0])


def _tables(rows: int, columns: int) -> tuple[xp.Array, xp.Array]:
    return xp.ones((rows, columns)), xp.ones((rows, columns))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: nn.rope(xp.ones((1, 3, 1, 5)), *_tables(3, 2)), errors.ShapeMismatch),
        (lambda: nn.rope(xp.ones((1, 3, 1, 6)), *_tables(3, 2)), errors.ShapeMismatch),
        (lambda: nn.rope(xp.ones((1, 3, 1, 6)), *_tables(4, 3)), errors.ShapeMismatch),
        (lambda: nn.rope(xp.ones((1, 3, 1, 6)), xp.ones((3, 3)), xp.ones((3, 6))), errors.ShapeMismatch),
        (lambda: nn.rope(xp.ones((1, 3, 1, 6)), xp.ones(3), xp.ones(3)), errors.ShapeMismatch),
        (lambda: nn.rope(xp.ones(6), *_tables(3, 3)), errors.ShapeMismatch),
        (lambda: nn.rope(xp.ones((1, 3, 1, 6)), *_tables(3, 3), rotary_dim=3), errors.ShapeMismatch),
        (lambda: nn.rope(xp.ones((1, 3, 1, 6)), *_tables(3, 4), rotary_dim=8), errors.ShapeMismatch),
        (lambda: nn.rope(xp.ones((1, 3, 1, 6)), *_tables(3, 3), layout="neox"), errors.InvalidArgument),
        (lambda: nn.rope(xp.ones((3, 6)), *_tables(3, 3)), errors.InvalidArgument),
        (lambda: nn.rope(xp.ones((3, 6)), *_tables(3, 3), seq_axis=2), errors.InvalidDimension),
        (lambda: nn.rope(xp.ones((2, 3, 6)), *_tables(9, 3), positions=xp.asarray([1, 2])), errors.ShapeMismatch),
        (
            lambda: nn.rope(xp.ones((2, 3, 6)), *_tables(9, 3), positions=xp.ones(3)),
            errors.UnsupportedDType,
        ),
        (lambda: nn.rope(xp.ones((2, 3, 6), dtype=xp.int32), *_tables(3, 3)), errors.UnsupportedDType),
        (lambda: nn.rope_tables(4, 3), errors.InvalidArgument),
        (lambda: nn.rope_tables(-1, 4), errors.InvalidArgument),
        (lambda: nn.rope_tables(4, 4, base=0.0), errors.InvalidArgument),
    ],
)
def test_bad_input(call: Callable[[], object], error: type[errors.RtxError]) -> None:
    with pytest.raises(error) as caught:
        call()
    assert caught.value.wanted
