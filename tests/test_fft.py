"""The fft extension against NumPy in float64: norms, sizes, axes, dtypes, frequencies, shifts and errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors

_RNG = np.random.default_rng(2)
_X = _RNG.standard_normal((4, 6))
_Z = _X + 1j * _RNG.standard_normal((4, 6))
_NORMS = ["backward", "ortho", "forward"]


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
@pytest.mark.parametrize("norm", _NORMS)
@pytest.mark.parametrize("n", [None, 1, 4, 5, 9])
@pytest.mark.parametrize("axis", [0, -1])
def test_one_axis(name, norm, n, axis):
    x = _X if name in ("rfft", "ihfft") else _Z
    want = getattr(np.fft, name)(x, n=n, axis=axis, norm=norm)
    got = getattr(xp.fft, name)(xp.asarray(x), n=n, axis=axis, norm=norm)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    np.testing.assert_allclose(np.asarray(got), want, atol=1e-13)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
@pytest.mark.parametrize("norm", _NORMS)
@pytest.mark.parametrize(
    "s, axes", [(None, None), (None, (0,)), (None, (1, 0)), ((3, 8), (0, 1)), ((5,), (-1,)), ([4, 4], [-2, -1])]
)
def test_several_axes(name, norm, s, axes):
    x = _X if name == "rfftn" else _Z
    want = getattr(np.fft, name)(x, s=s, axes=axes, norm=norm)
    got = getattr(xp.fft, name)(xp.asarray(x), s=s, axes=axes, norm=norm)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    np.testing.assert_allclose(np.asarray(got), want, atol=1e-13)


def test_more_than_three_axes():
    x = _RNG.standard_normal((2, 3, 2, 3, 2))
    np.testing.assert_allclose(np.asarray(xp.fft.fftn(xp.asarray(x))), np.fft.fftn(x), atol=1e-12)
    half = xp.fft.rfftn(xp.asarray(x))
    np.testing.assert_allclose(np.asarray(half), np.fft.rfftn(x), atol=1e-12)
    np.testing.assert_allclose(np.asarray(xp.fft.irfftn(half, s=x.shape, axes=range(5))), x, atol=1e-12)


def test_minus_one_takes_the_whole_axis():
    z = xp.asarray(_Z)
    np.testing.assert_array_equal(
        np.asarray(xp.fft.fftn(z, s=(-1, 3), axes=(0, 1))), np.asarray(xp.fft.fftn(z, s=(4, 3), axes=(0, 1)))
    )
    assert xp.fft.irfftn(z, s=(3, -1), axes=(0, 1)).shape == (3, 10)


@pytest.mark.parametrize(
    ("dtype", "cplx", "real"),
    [
        ("float32", "complex64", "float32"),
        ("float64", "complex128", "float64"),
        ("float16", "complex64", "float32"),
        ("bfloat16", "complex64", "float32"),
        ("int8", "complex128", "float64"),
        ("bool", "complex128", "float64"),
    ],
)
def test_dtypes(dtype, cplx, real):
    x = xp.ones((4,), dtype=getattr(xp, dtype))
    for name in ("fft", "ifft", "rfft", "ihfft", "fftn", "rfftn"):
        assert getattr(xp.fft, name)(x).dtype == getattr(xp, cplx), name
    for name in ("irfft", "hfft", "irfftn"):
        assert getattr(xp.fft, name)(x).dtype == getattr(xp, real), name


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("d", [1.0, 0.1, 3])
def test_frequencies(n, d):
    for name in ("fftfreq", "rfftfreq"):
        got = getattr(xp.fft, name)(n, d=d)
        assert got.dtype == xp.float64
        np.testing.assert_allclose(np.asarray(got), getattr(np.fft, name)(n, d), rtol=1e-15)
        narrow = getattr(xp.fft, name)(n, d=d, dtype=xp.float32)
        assert narrow.dtype == xp.float32
        assert not narrow.jax.weak_type


def test_frequencies_on_a_device():
    device = jax.devices()[-1]
    assert xp.fft.fftfreq(4, device=device).device == device
    assert xp.fft.rfftfreq(4, device="cpu:1").device == jax.devices("cpu")[1]


@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
@pytest.mark.parametrize("axes", [None, 0, -1, (0, 1), [1], ()])
def test_shifts(name, axes):
    x = np.arange(15.0).reshape(3, 5)
    got = getattr(xp.fft, name)(xp.asarray(x), axes=axes)
    np.testing.assert_array_equal(np.asarray(got), getattr(np.fft, name)(x, axes=axes))


def test_errors():
    x = xp.ones((4,))
    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
        call = getattr(xp.fft, name)
        with pytest.raises(errors.InvalidArgument, match="norm"):
            call(x, norm="both")
        with pytest.raises(errors.InvalidArgument, match="data points|at least 1"):
            call(x, n=0)
        with pytest.raises(errors.InvalidArgument, match="at least 1"):
            call(xp.zeros((0,)))
        with pytest.raises(errors.InvalidDimension, match=name):
            call(x, axis=1)
    for name in ("rfft", "ihfft", "rfftn"):
        with pytest.raises(errors.UnsupportedDType, match=name):
            getattr(xp.fft, name)(xp.ones((4,), dtype=xp.complex64))
    for name in ("fftn", "ifftn", "rfftn", "irfftn"):
        call = getattr(xp.fft, name)
        with pytest.raises(errors.InvalidArgument, match="one for each axis"):
            call(x, s=(2, 2), axes=(0,))
        with pytest.raises(errors.InvalidDimension):
            call(xp.ones((2, 2)), axes=(0, 0))
    for name in ("fftfreq", "rfftfreq"):
        call = getattr(xp.fft, name)
        with pytest.raises(errors.InvalidArgument, match="at least 1"):
            call(0)
        with pytest.raises(errors.InvalidArgument, match="spacing"):
            call(3, d=0.0)
        with pytest.raises(errors.UnsupportedDType):
            call(3, dtype=xp.int32)


def test_under_jit_and_grad():
    x = jnp.asarray(_X[0], jnp.float32)
    got = jax.jit(lambda v: xp.fft.rfft(xp.Array(v)).jax)(x)
    np.testing.assert_allclose(np.asarray(got), np.fft.rfft(_X[0]), rtol=1e-5, atol=1e-5)
    # By Parseval's theorem the energy of the spectrum has the gradient 2 n x.
    energy = jax.grad(lambda v: xp.sum(xp.abs(xp.fft.fft(xp.Array(v))) ** 2).jax)
    np.testing.assert_allclose(np.asarray(energy(x)), 12 * _X[0], rtol=1e-4, atol=1e-4)
