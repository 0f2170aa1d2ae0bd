"""Products: shapes and dtypes of the standard, accumulation, precision, and a wrong fusion of JAX 0.10.2."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors

_RNG = np.random.default_rng(0)


def _random(*shape):
    return _RNG.standard_normal(shape)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 4)),
        ((3,), (5, 3, 4)),
        ((5, 2, 3), (3,)),
        ((2, 3), (3, 4)),
        ((5, 2, 3), (3, 4)),
        ((2, 3), (5, 3, 4)),
        ((6, 1, 2, 3), (5, 3, 4)),
        ((2, 0), (0, 3)),
        ((0, 3), (3, 2)),
    ],
)
def test_matmul_shapes(a, b):
    x, y = _random(*a), _random(*b)
    want = np.matmul(x, y)
    for call in (xp.matmul, lambda p, q: p @ q):
        got = call(xp.asarray(x), xp.asarray(y))
        assert got.shape == want.shape
        np.testing.assert_allclose(np.asarray(got), want, atol=1e-14)


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [
        ("float32", "float32", "float32"),
        ("float32", "float64", "float64"),
        ("int8", "int8", "int8"),
        ("int32", "uint32", "int64"),
        ("bool", "bool", "bool"),
        ("bfloat16", "bfloat16", "bfloat16"),
        ("float16", "float32", "float32"),
        ("complex64", "float32", "complex64"),
        ("int64", "float32", "float32"),
        ("float8_e4m3fn", "float8_e4m3fn", "float8_e4m3fn"),
    ],
)
def test_matmul_dtypes(a, b, want):
    x, y = xp.ones((2, 2), dtype=getattr(xp, a)), xp.ones((2, 2), dtype=getattr(xp, b))
    for got in (
        xp.matmul(x, y),
        xp.tensordot(x, y, axes=1),
        xp.vecdot(x, y),
        xp.einsum("ij,jk->ik", x, y),
    ):
        assert got.dtype == getattr(xp, want)
        assert not got.jax.weak_type
        assert np.all(np.asarray(xp.astype(got, xp.complex128)) == (1 if want == "bool" else 2))


def test_half_precision_accumulates_in_float32():
    ones = xp.ones((1, 1000), dtype=xp.bfloat16)
    assert float(xp.matmul(ones, ones.mT)[0, 0]) == 1000.0
    assert float(xp.vecdot(ones, ones)[0]) == 1000.0
    assert float(xp.tensordot(ones, ones, axes=2)) == 1000.0
    assert float(xp.einsum("ij,ij->", ones, ones)) == 1000.0
    # 70,000 is beyond float16, the product of which it is a part is not.
    big = xp.asarray([[250.0, 250.0, 250.0]], dtype=xp.float16)
    signs = xp.asarray([[250.0], [250.0], [-250.0]], dtype=xp.float16)
    assert float(xp.matmul(big, signs)[0, 0]) == 62496.0  # the float16 next to 62,500


def test_float32_is_multiplied_in_float32():
    a = np.array([[1.1111111, 2.2222222], [3.3333333, 4.4444444]], np.float32)
    got = np.asarray(xp.matmul(xp.asarray(a), xp.asarray(a.T)))
    np.testing.assert_allclose(got, a.astype(np.float64) @ a.T.astype(np.float64), rtol=2e-7)
    text = str(jax.make_jaxpr(lambda v: xp.matmul(xp.Array(v), xp.Array(v)).jax)(a))
    assert "HIGHEST" in text


@pytest.mark.parametrize("n", [17, 16385, 32769])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_reductions_fused_into_large_products(n, dtype):
    # JAX 0.10.2 on CPU gives wrong sums in the last rows at the odd sizes when these are compiled as one program.
    rows = np.zeros((n, 3), dtype)
    rows[:, 0] = np.arange(n)
    eye = xp.eye(3, dtype=dtype)

    def right(v):
        return xp.sum(xp.matmul(xp.Array(v), eye) ** 2, axis=1).jax

    def left(v):
        return xp.sum(xp.matmul(eye, xp.Array(v).T) ** 2, axis=0).jax

    def each(v):
        return jax.vmap(lambda row: xp.sum(xp.matmul(eye, xp.Array(row)) ** 2).jax)(v)

    def contracted(v):
        return xp.sum(xp.tensordot(eye, xp.Array(v), axes=((1,), (1,))) ** 2, axis=0).jax

    with jax.enable_x64(dtype == np.float64):
        x = jnp.asarray(rows)
        for f in (right, left, each, contracted):
            for call in (f, jax.jit(f)):
                np.testing.assert_allclose(np.asarray(call(x)), np.arange(n, dtype=np.float64) ** 2, rtol=1e-6)


def test_matmul_errors():
    for a, b in (((), (3,)), ((3,), ())):
        with pytest.raises(errors.InvalidDimension, match="matmul"):
            xp.matmul(xp.ones(a), xp.ones(b))
    for a, b in (((2,), (3,)), ((2, 3), (4,)), ((2,), (3, 2)), ((2, 3), (2, 3))):
        with pytest.raises(errors.ShapeMismatch, match="matmul"):
            xp.matmul(xp.ones(a), xp.ones(b))
    with pytest.raises(errors.BroadcastError, match="matmul"):
        xp.matmul(xp.ones((2, 2, 2)), xp.ones((3, 2, 2)))


@pytest.mark.parametrize("shape", [(2, 3), (4, 2, 3), (0, 2)])
def test_matrix_transpose(shape):
    x = _random(*shape)
    got = xp.matrix_transpose(xp.asarray(x))
    np.testing.assert_array_equal(np.asarray(got), np.swapaxes(x, -1, -2))
    with pytest.raises(errors.InvalidDimension):
        xp.matrix_transpose(xp.ones((3,)))


@pytest.mark.parametrize(
    ("a", "b", "axes"),
    [
        ((2, 3), (3, 4), 1),
        ((2, 3), (4, 5), 0),
        ((2, 3, 4), (3, 4, 5), 2),
        ((2, 3, 4), (4, 3, 5), ((1, 2), (1, 0))),
        ((2, 3, 4), (4, 3, 5), ([-2, -1], [1, 0])),
        ((2, 3), (3, 2), (1, 0)),
        ((2, 0), (0, 3), 1),
        ((), (), 0),
    ],
)
def test_tensordot(a, b, axes):
    x, y = _random(*a), _random(*b)
    got = xp.tensordot(xp.asarray(x), xp.asarray(y), axes=axes)
    np.testing.assert_allclose(np.asarray(got), np.tensordot(x, y, axes=axes), atol=1e-13)


def test_tensordot_errors():
    x, y = xp.ones((2, 3)), xp.ones((3, 4))
    for axes, error in (
        (3, errors.InvalidDimension),
        (-1, errors.InvalidDimension),
        (((0,), (0,)), errors.ShapeMismatch),
        (((0, 1), (0,)), errors.InvalidArgument),
        (((5,), (0,)), errors.InvalidDimension),
        (((1, 1), (0, 0)), errors.InvalidDimension),
        (((1,),), errors.InvalidArgument),
    ):
        with pytest.raises(error, match="tensordot"):
            xp.tensordot(x, y, axes=axes)


@pytest.mark.parametrize(
    ("a", "b", "axis"), [((3,), (3,), -1), ((2, 3), (3,), -1), ((4, 1, 3), (2, 3), -1), ((3, 2), (3, 1), -2)]
)
def test_vecdot(a, b, axis):
    x, y = _random(*a) + 1j * _random(*a), _random(*b) + 1j * _random(*b)
    got = xp.vecdot(xp.asarray(x), xp.asarray(y), axis=axis)
    np.testing.assert_allclose(np.asarray(got), np.sum(np.conj(x) * y, axis=axis), atol=1e-14)


def test_vecdot_errors():
    with pytest.raises(errors.ShapeMismatch):
        xp.vecdot(xp.ones((3,)), xp.ones((1,)))
    with pytest.raises(errors.InvalidDimension):
        xp.vecdot(xp.ones((3,)), xp.ones((3,)), axis=-2)
    with pytest.raises(errors.BroadcastError):
        xp.vecdot(xp.ones((2, 3)), xp.ones((4, 3)))


@pytest.mark.parametrize(
    "subscripts, shapes",
    [
        ("ij,jk", ((2, 3), (3, 4))),
        ("ij,jk->ki", ((2, 3), (3, 4))),
        ("ii->i", ((3, 3),)),
        ("...ij,...jk->...ik", ((5, 2, 3), (3, 4))),
        ("a,b,c->abc", ((2,), (3,), (4,))),
        ("i,i->", ((3,), (3,))),
    ],
)
def test_einsum(subscripts, shapes):
    operands = [_random(*s) for s in shapes]
    got = xp.einsum(subscripts, *map(xp.asarray, operands))
    np.testing.assert_allclose(np.asarray(got), np.einsum(subscripts, *operands), atol=1e-14)


def test_einsum_errors():
    x = xp.ones((2, 3))
    for call in (
        lambda: xp.einsum("ij,jk", x),
        lambda: xp.einsum("ij,ij->", x, xp.ones((3, 2))),
        lambda: xp.einsum("ij"),
        lambda: xp.einsum(x, x),
        lambda: xp.einsum("ij->", x, precision="best"),
    ):
        with pytest.raises(errors.InvalidArgument, match="einsum"):
            call()
    low = jax.make_jaxpr(lambda v: xp.einsum("ij,jk", xp.Array(v), xp.Array(v), precision="default").jax)
    assert "HIGHEST" not in str(low(jnp.ones((2, 2))))
