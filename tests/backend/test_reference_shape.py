"""The reference's shapes, rows by index and products of matrices."""

import ml_dtypes
import numpy as np
import pytest

from rtx_jax.backend.reference import FUNCTIONS as R
from rtx_jax.errors import (
    DTypeMismatch,
    IndexOutOfBounds,
    InvalidArgument,
    InvalidDimension,
    ShapeMismatch,
    UnsupportedDType,
)

X = np.arange(24.0).reshape(2, 3, 4)


def test_full():
    got = R["full"](shape=(2, 0, 3), value=1.5, dtype=np.dtype(np.float16))
    assert got.shape == (2, 0, 3) and got.dtype == np.float16
    assert np.isnan(R["full"](shape=(), value=np.nan, dtype=np.dtype(ml_dtypes.bfloat16)).astype(float))
    assert R["full"](shape=(1,), value=2**63 - 1, dtype=np.dtype(np.int64)).tolist() == [2**63 - 1]
    assert float(R["full"](shape=(1,), value=1 + 2**-8 + 2**-30, dtype=np.dtype(ml_dtypes.bfloat16))[0]) == 1 + 2**-7
    with pytest.raises(InvalidArgument):
        R["full"](shape=(2, -1), value=0.0, dtype=np.dtype(np.float32))


def test_reshape():
    assert R["reshape"](X, shape=(4, -1)).tolist() == X.reshape(4, 6).tolist()
    assert R["reshape"](np.zeros((0, 3)), shape=(5, 0)).shape == (5, 0)
    assert R["reshape"](np.ones(()), shape=(1, 1)).shape == (1, 1)
    assert not np.shares_memory(R["reshape"](X, shape=(24,)), X)
    for shape in ((5, 5), (0, -1), (7, -1)):
        with pytest.raises(ShapeMismatch):
            R["reshape"](X, shape=shape)
    for shape in ((-1, -1), (-2, 12)):
        with pytest.raises(InvalidArgument):
            R["reshape"](X, shape=shape)


def test_axes_in_another_order():
    assert R["permute"](X, dims=(2, 0, 1))[3, 1, 2] == X[1, 2, 3]
    assert R["transpose"](X)[1, 3, 2] == X[1, 2, 3]
    assert R["transpose"](X[0]).tolist() == X[0].T.tolist()
    assert R["swap_dims"](X, dim1=0, dim2=2)[3, 2, 1] == X[1, 2, 3]
    assert np.array_equal(R["swap_dims"](X, dim1=1, dim2=1), X)
    for call in (
        lambda: R["transpose"](np.ones(3)),
        lambda: R["swap_dims"](X, dim1=-1, dim2=0),
        lambda: R["swap_dims"](X, dim1=0, dim2=3),
        lambda: R["permute"](X, dims=(0, 1, 1)),
    ):
        with pytest.raises(InvalidDimension):
            call()


def test_index_select():
    rows = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert R["index_select"](rows, [2, 0, 2]).tolist() == [[5, 6], [1, 2], [5, 6]]
    assert R["index_select"](rows, []).shape == (0, 2)
    assert R["index_select"](np.zeros((3, 0)), [1]).shape == (1, 0)
    assert R["index_select"](rows, [-1, 7], mode="clip").tolist() == [[1, 2], [5, 6]]
    got = R["index_select"](rows, [1, 3], mode="fill")
    assert got[0].tolist() == [3, 4] and np.isnan(got[1]).all()
    assert R["index_select"](np.array([7, 8], np.int8), [5], mode="fill").tolist() == [-128]
    with pytest.raises(IndexOutOfBounds, match="index 3 for 3 rows"):
        R["index_select"](rows, [0, 3])
    with pytest.raises(IndexOutOfBounds):
        R["index_select"](rows, [-1])
    with pytest.raises(IndexOutOfBounds):
        R["index_select"](np.zeros((0, 2)), [0])
    with pytest.raises(InvalidArgument):
        R["index_select"](rows, [0.5])
    with pytest.raises(InvalidDimension):
        R["index_select"](np.ones(()), [0])


def test_index_add():
    rows = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert R["index_add"](rows, [1, 1, 3], num_rows=4).tolist() == [[0, 0], [4, 6], [0, 0], [5, 6]]
    assert R["index_add"](np.ones(1000, ml_dtypes.bfloat16), [0] * 1000, num_rows=1).tolist() == [1000]
    assert R["index_add"](np.zeros((0, 2)), [], num_rows=0).shape == (0, 2)
    assert R["index_add"](np.zeros((0, 2)), [], num_rows=2).tolist() == [[0, 0], [0, 0]]
    assert R["index_add"](rows, [0, 9, 9], num_rows=2, mode="fill").tolist() == [[1, 2], [0, 0]]
    assert R["index_add"](rows, [0, 9, 9], num_rows=2, mode="clip").tolist() == [[1, 2], [8, 10]]
    assert R["index_add"](np.array([100, 100], np.int8), [0, 0], num_rows=1).tolist() == [-56]
    with pytest.raises(UnsupportedDType):
        R["index_add"](np.array([True]), [0], num_rows=1)
    with pytest.raises(ShapeMismatch):
        R["index_add"](rows, [0, 1], num_rows=2)
    with pytest.raises(IndexOutOfBounds):
        R["index_add"](rows, [0, 1, 2], num_rows=2)


def test_index_add_is_the_transpose_of_index_select():
    rng = np.random.default_rng(2)
    x, g, indices = rng.standard_normal((5, 3)), rng.standard_normal((7, 3)), rng.integers(0, 5, 7)
    left = (R["index_select"](x, indices) * g).sum()
    right = (x * R["index_add"](g, indices, num_rows=5)).sum()
    assert left == pytest.approx(right, rel=1e-13)


def test_embedding():
    table = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert R["embedding"](np.array([[1, 0], [1, 1]]), table).tolist() == [[[3, 4], [1, 2]], [[3, 4], [3, 4]]]
    assert R["embedding"](np.array(1), table).tolist() == [3, 4]
    with pytest.raises(IndexOutOfBounds):
        R["embedding"](np.array([2]), table)
    assert R["embedding"](np.array([1]), table.astype(np.int8)).dtype == np.int8
    with pytest.raises(InvalidArgument):
        R["embedding"](np.array([1.0]), table)
    with pytest.raises(InvalidDimension):
        R["embedding"](np.array([1]), table[0])


def test_products_of_matrices():
    a, b = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0], [6.0]])
    assert R["matmul"](a, b).tolist() == [[17], [39]]
    assert R["matmul"](np.ones((2, 0)), np.ones((0, 3))).tolist() == [[0] * 3] * 2
    assert R["bmm"](np.stack([a, a]), np.stack([b, b * 2])).tolist() == [[[17], [39]], [[34], [78]]]
    assert R["bmm"](np.ones((0, 2, 3)), np.ones((0, 3, 4))).shape == (0, 2, 4)
    # Bits that a float32 sum of products loses.
    x = np.array([[1.0, 2.0**-30, -1.0]], np.float32)
    assert R["matmul"](x, np.ones((3, 1), np.float32)).tolist() == [[2.0**-30]]
    ones = np.ones((1, 1000), ml_dtypes.bfloat16)
    assert R["matmul"](ones, ones.T).tolist() == [[1000]]
    assert R["matmul"](np.full((1, 2), 100, np.int8), np.full((2, 1), 100, np.int8)).tolist() == [[32]]  # 20000 mod 256
    assert R["matmul"](a.astype(np.float16), b.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize(
    ("name", "lhs", "rhs", "error"),
    [
        ("matmul", (2, 3), (2, 3), ShapeMismatch),
        ("matmul", (3,), (3, 2), InvalidDimension),
        ("bmm", (2, 3, 4), (3, 4, 5), ShapeMismatch),
        ("bmm", (1, 3, 4), (2, 4, 5), ShapeMismatch),
        ("bmm", (3, 4), (4, 5), InvalidDimension),
    ],
)
def test_products_that_do_not_fit(name, lhs, rhs, error):
    with pytest.raises(error):
        R[name](np.ones(lhs), np.ones(rhs))


def test_products_of_mixed_kinds():
    with pytest.raises(DTypeMismatch):
        R["matmul"](np.ones((2, 2)), np.ones((2, 2), int))


def test_linear():
    x, weight, bias = np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]), np.array([1.0, 0.0, -1.0])
    assert R["linear"](x, weight).tolist() == [[11, 17, 23]]
    assert R["linear"](x, weight, bias).tolist() == [[12, 17, 22]]
    assert R["linear"](x[0], weight).tolist() == [11, 17, 23]
    with pytest.raises(ShapeMismatch):
        R["linear"](np.ones((1, 3)), weight)
    with pytest.raises(ShapeMismatch):
        R["linear"](x, weight, np.ones(2))
