"""unfold and fold: values against loops over blocks, the adjoint, dtypes, errors."""

from __future__ import annotations

import functools

import ml_dtypes
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors, nn, ops
from tests.ops.checking import array, assert_gradients, under_jit
from tests.ops.spatial_formulas import convolve, unfold

F16, BF16 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)

# sizes of the image, kernel, dilation, padding, stride
CASES: list[tuple[tuple[int, int], tuple[int, int], object, object, object]] = [
    ((4, 5), (2, 3), 1, 0, 1),
    ((5, 6), (3, 2), (1, 2), (1, 0), (2, 1)),
    ((6, 5), (2, 2), 2, ((0, 1), (2, 1)), 3),
    ((3, 3), (3, 3), 1, 0, 1),
    ((4, 4), (1, 1), 1, 0, 2),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_unfold(case: tuple) -> None:
    size, kernel, dilation, padding, stride = case
    x = np.random.default_rng(0).standard_normal((2, 3, *size))
    params = {"kernel_size": kernel, "dilation": dilation, "padding": padding, "stride": stride}
    want = unfold(x, kernel, dilation, padding, stride)
    np.testing.assert_array_equal(np.asarray(nn.unfold(array(x), **params)), want)
    np.testing.assert_array_equal(under_jit(functools.partial(ops.unfold, **params), array(x)), want)
    np.testing.assert_array_equal(np.asarray(nn.unfold(array(x[1]), **params)), want[1])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_fold_is_the_adjoint_of_unfold(case: tuple) -> None:
    size, kernel, dilation, padding, stride = case
    r = np.random.default_rng(1)
    params = {"kernel_size": kernel, "dilation": dilation, "padding": padding, "stride": stride}
    columns = r.standard_normal(unfold(np.zeros((2, 3, *size)), kernel, dilation, padding, stride).shape)
    # Column by column: the image whose product with each unit image is that of the columns.
    want = np.zeros((2, 3, *size))
    for place in np.ndindex(3, *size):
        unit = np.zeros((1, 3, *size))
        unit[(0, *place)] = 1
        want[(slice(None), *place)] = np.sum(unfold(unit, kernel, dilation, padding, stride) * columns, (1, 2))
    got = np.asarray(nn.fold(array(columns), size, **params))
    np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13)
    raw = under_jit(functools.partial(ops.fold, output_size=size, **params), array(columns[0]))
    np.testing.assert_allclose(raw, want[0], rtol=1e-13, atol=1e-13)


def test_gradients() -> None:
    size, kernel, dilation, padding, stride = CASES[1]
    params = {"kernel_size": kernel, "dilation": dilation, "padding": padding, "stride": stride}
    x = np.random.default_rng(2).standard_normal((1, 2, *size))
    assert_gradients(lambda v: nn.unfold(v, **params), lambda v: unfold(v, kernel, dilation, padding, stride), [x])
    columns = xp.asarray(np.random.default_rng(3).standard_normal(unfold(x, kernel, dilation, padding, stride).shape))
    grad = xp.grad(lambda c: xp.sum(nn.fold(c, size, **params) * array(x)))(columns)
    np.testing.assert_allclose(np.asarray(grad), unfold(x, kernel, dilation, padding, stride), rtol=1e-13)


def test_a_convolution_is_a_product_with_the_columns() -> None:
    r = np.random.default_rng(4)
    x, w = r.standard_normal((2, 3, 5, 4)), r.standard_normal((4, 3, 2, 2))
    columns = nn.unfold(array(x), 2, padding=1)
    product = np.asarray(xp.matmul(array(w.reshape(4, -1)), columns)).reshape(2, 4, 6, 5)
    np.testing.assert_allclose(product, convolve(x, w, padding=1), rtol=1e-12, atol=1e-12)


def test_columns_by_hand() -> None:
    x = xp.reshape(xp.arange(6, dtype=xp.int32), (1, 2, 3))
    assert np.asarray(nn.unfold(x, (2, 2))).tolist() == [[0, 1], [1, 2], [3, 4], [4, 5]]
    ones = xp.ones((4, 4), dtype=xp.int8)
    assert np.asarray(nn.fold(ones, (3, 3), (2, 2))).tolist() == [[[1, 2, 1], [2, 4, 2], [1, 2, 1]]]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "bfloat16", "float64", "complex64"])
def test_dtypes_of_blocks(dtype: str) -> None:
    x = xp.astype(xp.asarray(np.arange(2 * 3 * 4).reshape(1, 2, 3, 4) % 2), dtype)
    got = nn.unfold(x, 2)
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(got), unfold(np.asarray(x), (2, 2), 1, 0, 1))


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_sums_of_16_bit_floats_are_formed_in_float32(dtype: np.dtype) -> None:
    # The middle element lies in 289 blocks; bfloat16 alone stops at 256.
    want = np.asarray(289.0).astype(dtype)
    columns = xp.ones((289, 289), dtype=dtype)
    assert np.asarray(nn.fold(columns, (33, 33), 17))[0, 16, 16] == want
    grad = xp.grad(lambda v: xp.sum(nn.unfold(v, 17), dtype=xp.float32))(xp.ones((1, 33, 33), dtype=dtype))
    assert np.asarray(grad)[0, 16, 16] == want


def test_nan_stays_in_its_blocks() -> None:
    x = np.zeros((1, 1, 3, 3))
    x[0, 0, 0, 0] = np.nan
    got = np.asarray(nn.unfold(array(x), 2))
    assert np.isnan(got).sum() == 1 and np.isnan(got[0, 0, 0])


def test_empty_batches() -> None:
    x = xp.zeros((0, 2, 4, 4), dtype=xp.float32)
    columns = nn.unfold(x, 2)
    assert columns.shape == (0, 8, 9)
    assert nn.fold(columns, 4, 2).shape == (0, 2, 4, 4)


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"kernel_size": 0}, "kernel_size"),
        ({"kernel_size": (2, 2, 2)}, "2 integers"),
        ({"kernel_size": 5}, "window that fits"),
        ({"stride": 0}, "stride"),
        ({"dilation": 0}, "dilation"),
        ({"dilation": 4}, "window that fits"),
        ({"padding": -1}, "padding"),
        ({"padding": ((0, 0), (0, -1))}, "padding"),
    ],
)
def test_bad_parameters(params: dict[str, object], text: str) -> None:
    x = xp.ones((1, 2, 4, 4), dtype=xp.float32)
    with pytest.raises(errors.InvalidArgument, match=f"unfold.*{text}"):
        nn.unfold(x, **{"kernel_size": 2, **params})
    with pytest.raises(errors.InvalidArgument, match=f"fold.*{text}"):
        nn.fold(xp.ones((1, 8, 9), dtype=xp.float32), 4, **{"kernel_size": 2, **params})


def test_bad_shapes_and_dtypes() -> None:
    for shape in ((4, 4), (1, 1, 1, 4, 4)):
        with pytest.raises(errors.InvalidDimension, match="unfold"):
            nn.unfold(xp.ones(shape, dtype=xp.float32), 2)
    for shape in ((9,), (1, 1, 8, 9)):
        with pytest.raises(errors.InvalidDimension, match="fold"):
            nn.fold(xp.ones(shape, dtype=xp.float32), 4, 2)
    for shape in ((1, 9, 9), (1, 8, 8)):
        with pytest.raises(errors.ShapeMismatch, match="multiple of 4 rows"):
            nn.fold(xp.ones(shape, dtype=xp.float32), 4, 2)
    with pytest.raises(errors.InvalidArgument, match="output_size"):
        nn.fold(xp.ones((8, 9), dtype=xp.float32), 0, 2)
    for dtype in (xp.bool, xp.complex64):
        with pytest.raises(errors.UnsupportedDType, match="fold"):
            nn.fold(xp.ones((8, 9), dtype=dtype), 4, 2)
