"""The linalg extension against NumPy in float64, its identities, empty matrices, small floats, integers and errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors
from rtx_jax.linalg import _general

_RNG = np.random.default_rng(1)
_DTYPES = ["float32", "float64", "complex64", "complex128"]


def _random(*shape, dtype="float64"):
    x = _RNG.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * _RNG.standard_normal(shape)
    return x.astype(dtype)


def _positive(*shape, dtype="float64"):
    x = _random(*shape, dtype=dtype)
    return x @ np.conj(np.swapaxes(x, -1, -2)) + 3 * np.eye(shape[-1], dtype=dtype)


def _close(got, want, dtype):
    eps = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(np.asarray(got), want, rtol=300 * eps, atol=300 * eps)


def _real(dtype):
    return {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (1, 1)])
def test_square_functions(shape, dtype):
    a = _positive(*shape, dtype=dtype)
    wide = a.astype(np.complex128 if np.dtype(dtype).kind == "c" else np.float64)
    x = xp.asarray(a)
    scale = np.abs(np.linalg.det(wide)).max()
    for name in ("det", "inv", "cholesky"):
        got, want = getattr(xp.linalg, name)(x), getattr(np.linalg, name)(wide)
        assert got.dtype == np.dtype(dtype)
        assert got.shape == want.shape
        _close(got / (scale if name == "det" else 1), want / (scale if name == "det" else 1), dtype)
    upper = np.asarray(xp.linalg.cholesky(x, upper=True))
    _close(np.conj(np.swapaxes(upper, -1, -2)) @ upper, wide, dtype)
    assert np.all(np.tril(upper, -1) == 0)
    sign, log = xp.linalg.slogdet(x)
    assert sign.dtype == np.dtype(dtype)
    assert log.dtype == np.dtype(_real(dtype))
    _close(log, np.linalg.slogdet(wide)[1], dtype)


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4)])
def test_symmetric_eigenvalues(shape, dtype):
    a = _positive(*shape, dtype=dtype)
    values, vectors = xp.linalg.eigh(xp.asarray(a))
    assert values.dtype == np.dtype(_real(dtype))
    assert vectors.dtype == np.dtype(dtype)
    v, w = np.asarray(vectors), np.asarray(values)
    _close((v * w[..., None, :]) @ np.conj(np.swapaxes(v, -1, -2)), a, dtype)
    _close(xp.linalg.eigvalsh(xp.asarray(a)), w, dtype)
    assert np.all(np.diff(w, axis=-1) >= 0)


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4)])
def test_general_eigenvalues(shape, dtype):
    a = _random(*shape, dtype=dtype)
    values, vectors = xp.linalg.eig(xp.asarray(a))
    want = np.dtype("complex64" if dtype in ("float32", "complex64") else "complex128")
    assert values.dtype == vectors.dtype == want
    v, w = np.asarray(vectors), np.asarray(values)
    _close(a @ v, v * w[..., None, :], dtype)
    alone = xp.linalg.eigvals(xp.asarray(a))
    assert alone.dtype == want
    _close(np.sort_complex(np.round(np.asarray(alone), 3)), np.sort_complex(np.round(w, 3)), dtype)


def test_eigenvalues_of_real_matrices_are_complex():
    values = xp.linalg.eigvals(xp.asarray([[0.0, 1.0], [-1.0, 0.0]]))
    assert sorted(complex(v).imag for v in values) == [-1.0, 1.0]
    assert xp.linalg.eig(xp.asarray([[2.0, 0.0], [0.0, 3.0]])).eigenvalues.dtype == xp.complex128


def test_eig_names_the_remedy_where_there_is_no_implementation(monkeypatch):
    def refuse(*_):
        raise NotImplementedError("not on this platform")

    monkeypatch.setattr("rtx_jax.linalg.call1", refuse)
    with pytest.raises(errors.BackendLimitation, match="to_device"):
        _general("eig", None, xp.eye(2))


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5), (2, 4, 3)])
def test_svd_and_qr(shape, dtype):
    a = _random(*shape, dtype=dtype)
    m, n = shape[-2:]
    k = min(m, n)
    x = xp.asarray(a)
    for full in (True, False):
        u, s, vh = xp.linalg.svd(x, full_matrices=full)
        assert u.shape[-1] == (m if full else k)
        assert vh.shape[-2] == (n if full else k)
        assert s.dtype == np.dtype(_real(dtype))
        u, s, vh = np.asarray(u), np.asarray(s), np.asarray(vh)
        _close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, dtype)
        _close(
            np.conj(np.swapaxes(u, -1, -2)) @ u,
            np.broadcast_to(np.eye(u.shape[-1]), (*shape[:-2],) + u.shape[-1:] * 2),
            dtype,
        )
    _close(xp.linalg.svdvals(x), s, dtype)
    for mode in ("reduced", "complete"):
        q, r = (np.asarray(part) for part in xp.linalg.qr(x, mode=mode))
        assert q.shape[-1] == r.shape[-2] == (m if mode == "complete" else k)
        _close(q @ r, a, dtype)
        assert np.all(np.tril(r, -1) == 0)
        assert np.all(np.imag(np.diagonal(r, axis1=-2, axis2=-1)) == 0)


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [
        ((3, 3), (3,), (3,)),
        ((4, 3, 3), (3,), (4, 3)),
        ((3, 3), (3, 2), (3, 2)),
        ((4, 3, 3), (3, 2), (4, 3, 2)),
        ((3, 3), (5, 3, 2), (5, 3, 2)),
        ((2, 1, 3, 3), (4, 3, 1), (2, 4, 3, 1)),
        # Two axes are a matrix, though it could be read as a stack of vectors.
        ((3, 3, 3), (3, 3), (3, 3, 3)),
        ((0, 0), (0, 2), (0, 2)),
        ((3, 3), (3, 0), (3, 0)),
        ((0, 3, 3), (3,), (0, 3)),
    ],
)
def test_solve(a, b, want):
    x1, x2 = _random(*a) + 4 * np.eye(a[-1]), _random(*b)
    got = xp.linalg.solve(xp.asarray(x1), xp.asarray(x2))
    assert got.shape == want
    column = np.asarray(got)[..., None] if len(b) == 1 else np.asarray(got)
    back = x1 @ column
    np.testing.assert_allclose(back, np.broadcast_to(x2[:, None] if len(b) == 1 else x2, back.shape), atol=1e-13)


def test_solve_refuses_a_stack_of_vectors():
    with pytest.raises(errors.ShapeMismatch, match=r"x2\[..., None\]"):
        xp.linalg.solve(xp.ones((2, 3, 3)), xp.ones((2, 3)))
    with pytest.raises(errors.BroadcastError):
        xp.linalg.solve(xp.ones((2, 3, 3)), xp.ones((4, 3, 1)))


@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5), (2, 4, 3)])
def test_pinv(shape):
    a = _random(*shape)
    _close(xp.linalg.pinv(xp.asarray(a)), np.linalg.pinv(a), "float64")


def test_tolerances():
    a = np.diag([1.0, 1e-3, 1e-9])
    x = xp.asarray(a)
    assert int(xp.linalg.matrix_rank(x)) == 3
    assert xp.linalg.matrix_rank(x).dtype == xp.int64
    assert int(xp.linalg.matrix_rank(x, rtol=1e-6)) == 2
    stack = xp.asarray(np.stack([a, a]))
    ranks = xp.linalg.matrix_rank(stack, rtol=xp.asarray([1e-6, 1e-2]))
    assert [int(r) for r in ranks] == [2, 1]
    inverse = np.asarray(xp.linalg.pinv(stack, rtol=xp.asarray([1e-6, 1e-2])))
    np.testing.assert_allclose(inverse[0], np.diag([1.0, 1e3, 0.0]), atol=1e-9)
    np.testing.assert_allclose(inverse[1], np.diag([1.0, 0.0, 0.0]), atol=1e-9)
    # The default is max(M, N) times epsilon; JAX's own is ten times that.
    edge = xp.asarray(np.diag([1.0, 10 * np.finfo(np.float64).eps]))
    assert float(xp.linalg.pinv(edge)[1, 1]) > 0
    assert int(xp.linalg.matrix_rank(edge)) == 2
    for call in (xp.linalg.matrix_rank, xp.linalg.pinv):
        with pytest.raises(errors.BroadcastError, match=r"\(3,\)"):
            call(stack, rtol=xp.asarray([0.1, 0.2, 0.3]))
    assert int(xp.linalg.matrix_rank(xp.asarray(np.diag([1.0, 2.0]).astype(np.complex64)), rtol=0.1)) == 2


@pytest.mark.parametrize("n", [0, 1, 2, 5, -1, -3])
def test_matrix_power(n):
    a = _random(2, 3, 3) + 2 * np.eye(3)
    got = np.asarray(xp.linalg.matrix_power(xp.asarray(a), n))
    np.testing.assert_allclose(got, np.linalg.matrix_power(a, n), rtol=1e-11, atol=1e-12)


def test_matrix_power_of_integers():
    x = xp.asarray([[1, 1], [1, 0]], dtype=xp.int32)
    fibonacci = xp.linalg.matrix_power(x, 10)
    assert fibonacci.dtype == xp.int32
    assert int(fibonacci[0, 1]) == 55
    assert xp.linalg.matrix_power(x, -1).dtype == xp.float64


@pytest.mark.parametrize("ord", ["fro", "nuc", None, 1, -1, 2, -2, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_matrix_norm(ord, dtype):
    a = _random(2, 4, 3, dtype=dtype)
    for keepdims in (False, True):
        got = xp.linalg.matrix_norm(xp.asarray(a), ord=ord, keepdims=keepdims)
        want = np.linalg.norm(a, ord=ord, axis=(-2, -1), keepdims=keepdims)
        assert got.dtype == np.dtype(_real(dtype))
        assert got.shape == want.shape
        _close(got, want, _real(dtype))


@pytest.mark.parametrize("ord", [0, 1, 2, 3, 2.5, 0.5, -1, -2, np.inf, -np.inf])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (2, 1), (0, 1, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_vector_norm(ord, axis, keepdims):
    a = np.round(_random(2, 3, 2, dtype="complex128"), 3)
    axes = range(3) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = tuple(n % 3 for n in axes)
    size = np.abs(a)
    if ord == 0:
        want = (size != 0).sum(axis=axes, keepdims=keepdims)
    elif np.isinf(ord):
        want = (size.max if ord > 0 else size.min)(axis=axes, keepdims=keepdims)
    else:
        want = (size**ord).sum(axis=axes, keepdims=keepdims) ** (1 / ord)
    got = xp.linalg.vector_norm(xp.asarray(a), axis=axis, keepdims=keepdims, ord=ord)
    assert got.dtype == xp.float64
    assert got.shape == want.shape
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12)


def test_norms_of_nothing():
    for ord in (0, 1, 2, 3, np.inf):
        assert float(xp.linalg.vector_norm(xp.zeros((0,)), ord=ord)) == 0.0
    for ord in ("fro", "nuc", 1, 2, np.inf):
        assert float(xp.linalg.matrix_norm(xp.zeros((0, 3)), ord=ord)) == 0.0
        assert float(xp.linalg.matrix_norm(xp.zeros((3, 0)), ord=ord)) == 0.0
    with pytest.raises(errors.InvalidArgument):
        xp.linalg.vector_norm(xp.zeros((0,)), ord=-np.inf)
    for ord in (-1, -2, -np.inf):
        with pytest.raises(errors.InvalidArgument):
            xp.linalg.matrix_norm(xp.zeros((0, 3)), ord=ord)


def test_norms_refuse_other_orders():
    for ord in (3, "two"):
        with pytest.raises(errors.InvalidArgument, match="ord"):
            xp.linalg.matrix_norm(xp.ones((2, 2)), ord=ord)
    for ord in ("fro", float("nan")):
        with pytest.raises(errors.InvalidArgument, match="ord"):
            xp.linalg.vector_norm(xp.ones((2,)), ord=ord)


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3)])
def test_empty_square_matrices(shape):
    x = xp.zeros(shape, dtype=xp.float32)
    stack, m = shape[:-2], shape[-1]
    for name in ("cholesky", "inv"):
        assert getattr(xp.linalg, name)(x).shape == shape
    np.testing.assert_array_equal(np.asarray(xp.linalg.det(x)), np.ones(stack))
    sign, log = xp.linalg.slogdet(x)
    np.testing.assert_array_equal(np.asarray(sign), np.ones(stack))
    np.testing.assert_array_equal(np.asarray(log), np.zeros(stack))
    for name in ("eigh", "eig"):
        values, vectors = getattr(xp.linalg, name)(x)
        assert values.shape == (*stack, m)
        assert vectors.shape == shape
    assert xp.linalg.matrix_power(x, 2).shape == shape


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 3, 0), (0, 2, 3)])
def test_empty_matrices(shape):
    x = xp.zeros(shape, dtype=xp.float32)
    m, n = shape[-2:]
    stack, k = shape[:-2], min(m, n)
    u, s, vh = xp.linalg.svd(x)
    assert (u.shape, s.shape, vh.shape) == ((*stack, m, m), (*stack, k), (*stack, n, n))
    q, r = xp.linalg.qr(x)
    assert (q.shape, r.shape) == ((*stack, m, k), (*stack, k, n))
    assert xp.linalg.pinv(x).shape == (*stack, n, m)
    np.testing.assert_array_equal(np.asarray(xp.linalg.matrix_rank(x)), np.zeros(stack))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_floats_are_computed_in_float32(dtype):
    kind = getattr(xp, dtype)
    x = xp.asarray([[4.0, 1.0], [1.0, 3.0]], dtype=kind)
    assert float(xp.linalg.det(x)) == 11.0
    for got in (xp.linalg.inv(x), xp.linalg.cholesky(x), xp.linalg.eigvalsh(x), xp.linalg.solve(x, x)):
        assert got.dtype == kind
    assert all(part.dtype == kind for part in xp.linalg.svd(x))
    assert float(xp.linalg.vector_norm(xp.full((100,), 300.0, dtype=kind))) in (3000.0, 3008.0)


def test_integers_become_default_floats():
    x = xp.asarray([[4, 1], [1, 3]], dtype=xp.int8)
    for name in ("det", "inv", "cholesky", "eigvalsh", "svdvals", "pinv", "matrix_norm", "vector_norm"):
        assert getattr(xp.linalg, name)(x).dtype == xp.float64, name
    assert xp.linalg.solve(x, x).dtype == xp.float64
    assert xp.linalg.solve(x, xp.ones((2,), dtype=xp.float32)).dtype == xp.float32
    assert xp.linalg.eigvals(x).dtype == xp.complex128


def test_no_result_is_nan_or_infinity():
    assert np.isnan(np.asarray(xp.linalg.cholesky(xp.asarray([[1.0, 2.0], [2.0, 1.0]])))).any()
    assert not np.isfinite(np.asarray(xp.linalg.inv(xp.zeros((2, 2))))).any()
    sign, log = xp.linalg.slogdet(xp.zeros((2, 2)))
    assert (float(sign), float(log)) == (0.0, -np.inf)


@pytest.mark.parametrize("offset", [0, 1, -1, 2, -2, 3, -3, 9, -9])
def test_diagonal_and_trace(offset):
    a = _random(2, 3, 4)
    np.testing.assert_array_equal(
        np.asarray(xp.linalg.diagonal(xp.asarray(a), offset=offset)), np.diagonal(a, offset, -2, -1)
    )
    np.testing.assert_allclose(
        np.asarray(xp.linalg.trace(xp.asarray(a), offset=offset)), np.trace(a, offset, -2, -1), atol=1e-14
    )


def test_dtype_of_trace():
    x = xp.ones((2, 2), dtype=xp.uint8)
    assert xp.linalg.trace(x).dtype == xp.uint64
    assert xp.linalg.trace(x, dtype=xp.float32).dtype == xp.float32


@pytest.mark.parametrize(
    ("a", "b", "axis"), [((3,), (3,), -1), ((2, 3), (3,), -1), ((4, 1, 3), (2, 3), -1), ((3, 2), (3, 2), -2)]
)
def test_cross(a, b, axis):
    x, y = _random(*a), _random(*b)
    got = xp.linalg.cross(xp.asarray(x), xp.asarray(y), axis=axis)
    np.testing.assert_allclose(np.asarray(got), np.cross(x, y, axis=axis), atol=1e-14)


def test_outer():
    x, y = _random(3), _random(2)
    np.testing.assert_array_equal(np.asarray(xp.linalg.outer(xp.asarray(x), xp.asarray(y))), np.outer(x, y))
    mixed = xp.linalg.outer(xp.asarray([2], dtype=xp.int32), xp.asarray([2**32 - 1], dtype=xp.uint32))
    assert mixed.dtype == xp.int64
    assert int(mixed[0, 0]) == 2 * (2**32 - 1)


def test_shape_errors():
    square = ("cholesky", "det", "inv", "eigh", "eigvalsh", "eig", "eigvals", "slogdet")
    for name in square:
        for shape in ((3,), (2, 3)):
            with pytest.raises(errors.InvalidDimension, match=name):
                getattr(xp.linalg, name)(xp.ones(shape))
    for name in ("svd", "svdvals", "qr", "pinv", "matrix_rank", "matrix_norm", "diagonal", "trace"):
        with pytest.raises(errors.InvalidDimension, match=name):
            getattr(xp.linalg, name)(xp.ones((3,)))
    with pytest.raises(errors.InvalidDimension, match="matrix_power"):
        xp.linalg.matrix_power(xp.ones((2, 3)), 2)
    with pytest.raises(errors.InvalidArgument, match="mode"):
        xp.linalg.qr(xp.ones((2, 2)), mode="full")
    with pytest.raises(errors.ShapeMismatch, match="cross"):
        xp.linalg.cross(xp.ones((2,)), xp.ones((3,)))
    with pytest.raises(errors.ShapeMismatch, match="cross"):
        xp.linalg.cross(xp.ones((1,)), xp.ones((3,)))
    with pytest.raises(errors.UnsupportedDType, match="cross"):
        xp.linalg.cross(xp.ones((3,), dtype=xp.bool), xp.ones((3,), dtype=xp.bool))
    with pytest.raises(errors.InvalidDimension, match="outer"):
        xp.linalg.outer(xp.ones((2, 2)), xp.ones((2,)))


@pytest.mark.parametrize(
    "name", ["cholesky", "inv", "det", "eigvalsh", "svdvals", "matrix_norm", "vector_norm", "pinv"]
)
def test_gradients_match_differences(name):
    a = _positive(3, 3)
    weights = _random(3, 3)

    def f(v):
        out = getattr(xp.linalg, name)(xp.Array(v))
        return xp.sum(out * weights[: out.shape[0]] if out.ndim == 2 else out).jax

    with jax.enable_x64(True):
        direction = _random(3, 3)
        direction = direction + direction.T
        slope = float(jnp.vdot(jax.grad(f)(jnp.asarray(a)), direction))
        step = 1e-6
        want = (float(f(jnp.asarray(a + step * direction))) - float(f(jnp.asarray(a - step * direction)))) / (2 * step)
    assert abs(slope - want) <= 1e-6 * max(1.0, abs(want))


def test_vmap_over_matrices():
    a = jnp.asarray(_positive(4, 3, 3), jnp.float32)
    got = jax.vmap(lambda v: xp.linalg.inv(xp.Array(v)).jax)(a)
    np.testing.assert_allclose(np.asarray(got), np.linalg.inv(np.asarray(a, np.float64)), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 3)])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_derivative_of_the_pseudo_inverse(shape, dtype):
    a, direction = _random(*shape, dtype=dtype), _random(*shape, dtype=dtype)
    with jax.enable_x64(True):
        call = lambda v, t: xp.linalg.pinv(xp.Array(v), rtol=xp.Array(t)).jax  # noqa: E731
        primals = (jnp.asarray(a), jnp.asarray(1e-12))
        _, slope = jax.jit(lambda d: jax.jvp(call, primals, (d, jnp.zeros(()))))(jnp.asarray(direction))
    step = 1e-6
    want = (np.linalg.pinv(a + step * direction) - np.linalg.pinv(a - step * direction)) / (2 * step)
    np.testing.assert_allclose(np.asarray(slope), want, rtol=1e-5, atol=1e-6)
