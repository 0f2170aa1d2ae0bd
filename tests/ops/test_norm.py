"""Norms: values against float64 formulas, large means, overflow in float16, gradients, bad input."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors, nn, ops
from tests.ops.checking import DTYPES, array, assert_gradients, assert_ulp, under_jit

F32, F64, F16 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16)


def layer_norm(x: np.ndarray, w: np.ndarray, b: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * w + b


def rms_norm(x: np.ndarray, w: np.ndarray, eps: float = 1e-6) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def group_norm(x: np.ndarray, w: np.ndarray, b: np.ndarray, groups: int, eps: float = 1e-5) -> np.ndarray:
    y = x.reshape(x.shape[0], groups, -1)
    y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + eps)
    shape = (1, -1, *(1,) * (x.ndim - 2))
    return y.reshape(x.shape) * w.reshape(shape) + b.reshape(shape)


def batch_norm(x: np.ndarray, w: np.ndarray, b: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    axes, shape = (0, *range(2, x.ndim)), (1, -1, *(1,) * (x.ndim - 2))
    y = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)
    return y * w.reshape(shape) + b.reshape(shape)


def _data(shape: tuple[int, ...], size: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape) * 3 + 1, rng.uniform(0.5, 1.5, size), rng.standard_normal(size)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values(dtype: np.dtype) -> None:
    x, w, b = (array(v, dtype) for v in _data((2, 6, 4), 4))
    v, c = (array(t, dtype) for t in _data((1,), 6)[1:])
    x64, w64, b64, v64, c64 = (np.asarray(t).astype(np.float64) for t in (x, w, b, v, c))
    ulp = 6 if dtype.itemsize > 2 else 0.51

    def every(x: jax.Array, w: jax.Array, b: jax.Array, v: jax.Array, c: jax.Array) -> list[jax.Array]:
        return [
            ops.layer_norm(x, w, b),
            ops.rms_norm(x, w),
            ops.group_norm(x, v, c, num_groups=3),
            ops.instance_norm(x, v, c),
            ops.batch_norm(x, None, None, v, c, training=True)[0],
        ]

    faces = [
        nn.layer_norm(x, w, b),
        nn.rms_norm(x, w),
        nn.group_norm(x, 3, v, c),
        nn.instance_norm(x, v, c),
        nn.batch_norm(x, None, None, v, c, training=True)[0],
    ]
    want = [
        layer_norm(x64, w64, b64),
        rms_norm(x64, w64),
        group_norm(x64, v64, c64, 3),
        group_norm(x64, v64, c64, 6),
        batch_norm(x64, v64, c64),
    ]
    for out, raw, wanted in zip(faces, under_jit(every, x, w, b, v, c), want, strict=True):
        assert_ulp(out, wanted, ulp, dtype, least=1.0)
        assert_ulp(raw, wanted, ulp, dtype, least=1.0)


def test_parameters_may_be_left_out() -> None:
    x = _data((3, 4), 4)[0]
    one, zero = np.ones(4), np.zeros(4)
    assert_ulp(nn.layer_norm(array(x)), layer_norm(x, one, zero), 6, F64, least=1.0)
    assert_ulp(nn.layer_norm(array(x), bias=array(one)), layer_norm(x, one, one), 6, F64, least=1.0)
    assert_ulp(nn.rms_norm(array(x)), rms_norm(x, one), 6, F64, least=1.0)
    assert_ulp(nn.group_norm(array(x), 2), group_norm(x, one, zero, 2), 6, F64, least=1.0)
    assert_ulp(nn.layer_norm(array(x), eps=0.5), layer_norm(x, one, zero, 0.5), 6, F64, least=1.0)
    assert_ulp(nn.rms_norm(array(x), eps=0.5), rms_norm(x, one, 0.5), 6, F64, least=1.0)


def test_the_parameters_may_be_wider() -> None:
    x, w, b = _data((2, 8), 8)
    half = array(x, F16)
    got = nn.layer_norm(half, array(w, F32), array(b, F32))
    want = layer_norm(np.asarray(half).astype(np.float64), np.float32(w).astype(np.float64), np.float32(b))
    assert_ulp(got, want, 0.51, F16, least=1.0)


@pytest.mark.parametrize("mean", [0.0, 100.0, 1e4, -1e6])
def test_deviations_beside_a_large_mean(mean: float) -> None:
    # The naive variance is -8.0 for data at 1e4.
    x = (np.float32(mean) + np.linspace(-1, 1, 64, dtype=np.float32) * np.float32(max(abs(mean) / 1e5, 0.1))).reshape(
        2, -1
    )
    wide = x.astype(np.float64)
    one, zero = np.ones(32), np.zeros(32)
    assert_ulp(nn.layer_norm(xp.asarray(x)), layer_norm(wide, one, zero), 6, F32, least=1.0)
    assert_ulp(nn.instance_norm(xp.asarray(x.reshape(1, 2, 32))), layer_norm(wide, one, zero)[None], 6, F32, least=1.0)
    got = nn.batch_norm(xp.asarray(np.ascontiguousarray(x.T)), training=True)
    assert_ulp(got[0], layer_norm(wide, one, zero).T, 6, F32, least=1.0)
    np.testing.assert_allclose(np.asarray(got[1]), wide.mean(-1), rtol=1e-7)
    np.testing.assert_allclose(np.asarray(got[2]), wide.var(-1, ddof=1), rtol=1e-6)


def test_float16_neither_overflows_nor_vanishes() -> None:
    x = array(np.full((2, 512), 300.0), F16)
    np.testing.assert_array_equal(np.asarray(nn.rms_norm(x)), np.ones((2, 512), F16))
    small = array(np.full((1, 64), 1e-4), F16)
    want = rms_norm(np.asarray(small).astype(np.float64), np.ones(64), 1e-12)
    assert_ulp(nn.rms_norm(small, eps=1e-12), want, 0.51, F16)
    ramp = array(np.linspace(-6e4, 6e4, 64)[None], F16)
    want = layer_norm(np.asarray(ramp).astype(np.float64), np.ones(64), np.zeros(64))
    assert_ulp(nn.layer_norm(ramp), want, 0.51, F16, least=1.0)


def test_constant_and_zero_rows() -> None:
    np.testing.assert_array_equal(np.asarray(nn.rms_norm(array(np.zeros((1, 4)), F32))), np.zeros((1, 4)))
    np.testing.assert_array_equal(np.asarray(nn.layer_norm(array(np.full((1, 4), 7.1), F32))), np.zeros((1, 4)))
    slopes = np.asarray(xp.grad(lambda x: xp.sum(nn.rms_norm(x)))(array(np.zeros((1, 4)))))
    np.testing.assert_allclose(slopes, np.full((1, 4), 1e3))


def test_nan_stays_in_its_row() -> None:
    x = array([[np.nan, 1.0], [1.0, 2.0]], F32)
    for out in (nn.layer_norm(x), nn.rms_norm(x)):
        np.testing.assert_array_equal(np.isnan(np.asarray(out)), [[True, True], [False, False]])


def test_empty() -> None:
    for shape in ((0, 4), (2, 0)):
        x = xp.zeros(shape, dtype=xp.float32)
        assert nn.layer_norm(x).shape == nn.rms_norm(x).shape == shape
    assert nn.group_norm(xp.zeros((2, 4, 0)), 2).shape == (2, 4, 0)


def test_an_input_is_left_alone() -> None:
    x = xp.asarray([[3.0, 4.0]])
    for fn in (nn.rms_norm, nn.layer_norm, lambda x: nn.batch_norm(x, xp.zeros(2), xp.ones(2), eps=0.0)):
        out = fn(x)
        out[0, 0] = 99.0
        np.testing.assert_array_equal(np.asarray(x), [[3.0, 4.0]])


# Batch norm


def test_running_statistics_are_used_and_moved() -> None:
    x, w, b = _data((5, 3, 2), 3)
    mean, var = np.array([0.5, -1.0, 2.0]), np.array([1.0, 4.0, 0.25])
    shape = (1, 3, 1)
    want = (x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + 1e-5) * w.reshape(shape) + b.reshape(shape)
    got = nn.batch_norm(array(x), array(mean), array(var), array(w), array(b))
    assert_ulp(got, want, 6, F64, least=1.0)
    out, new_mean, new_var = nn.batch_norm(
        array(x), array(mean, F32), array(var, F32), array(w), array(b), training=True, momentum=0.25
    )
    assert_ulp(out, batch_norm(x, w, b), 6, F64, least=1.0)
    assert_ulp(new_mean, 0.75 * mean + 0.25 * x.mean((0, 2)), 2, F32, least=1.0)
    assert_ulp(new_var, 0.75 * var + 0.25 * x.var((0, 2), ddof=1), 2, F32, least=1.0)
    kept = nn.batch_norm(array(x), array(mean), array(var), training=True, momentum=0.0)
    np.testing.assert_array_equal(np.asarray(kept[1]), mean)


def test_no_gradient_passes_through_the_running_statistics() -> None:
    x, *_ = _data((4, 2), 2)

    def loss(x: xp.Array, mean: xp.Array, var: xp.Array) -> xp.Array:
        _, m, v = nn.batch_norm(x, mean, var, training=True)
        return xp.sum(m) + xp.sum(v)

    for slope in xp.grad(loss, argnums=(0, 1, 2))(array(x), array([0.0, 1.0]), array([1.0, 2.0])):
        np.testing.assert_array_equal(np.asarray(slope), np.zeros(slope.shape))


# Gradients


def _batch(x: xp.Array, w: xp.Array, b: xp.Array) -> xp.Array:
    return nn.batch_norm(x, None, None, w, b, training=True)[0]


@pytest.mark.parametrize(
    ("fn", "oracle", "shape", "size"),
    [
        (nn.layer_norm, layer_norm, (2, 5), 5),
        (lambda x, w, b: nn.group_norm(x, 2, w, b), functools.partial(group_norm, groups=2), (2, 4, 2), 4),
        (_batch, batch_norm, (3, 2, 2), 2),
    ],
    ids=["layer", "group", "batch"],
)
def test_gradients(
    fn: Callable[..., xp.Array], oracle: Callable[..., np.ndarray], shape: tuple[int, ...], size: int
) -> None:
    assert_gradients(fn, oracle, _data(shape, size))


def test_gradient_of_rms_norm() -> None:
    assert_gradients(nn.rms_norm, rms_norm, _data((2, 5), 5)[:2])


def test_a_gradient_beside_a_large_mean() -> None:
    # Normalizing does not see the mean, so the gradients are those of the deviations alone.
    rest = np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 8)
    seed = xp.asarray(np.arange(8, dtype=np.float32) ** 2)
    slope = xp.grad(lambda x: xp.sum(nn.layer_norm(x) * seed))
    near, far = slope(xp.asarray(rest)), slope(xp.asarray(rest + np.float32(4096)))
    np.testing.assert_allclose(np.asarray(far), np.asarray(near), rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: nn.layer_norm(xp.asarray([1, 2])), errors.UnsupportedDType),
        (lambda: nn.layer_norm(array(1.0)), errors.InvalidDimension),
        (lambda: nn.layer_norm(array(np.ones((2, 3))), array(np.ones(2))), errors.ShapeMismatch),
        (lambda: nn.layer_norm(array(np.ones((2, 3))), None, array(np.ones((1, 3)))), errors.ShapeMismatch),
        (lambda: nn.layer_norm(array(np.ones(3)), xp.asarray([1, 1, 1])), errors.UnsupportedDType),
        (lambda: nn.layer_norm(array(np.ones(3)), eps=-1.0), errors.InvalidArgument),
        (lambda: nn.rms_norm(array(np.ones(3)), eps=float("nan")), errors.InvalidArgument),
        (lambda: nn.rms_norm(array(np.ones((2, 3))), array(np.ones(2))), errors.ShapeMismatch),
        (lambda: nn.group_norm(array(np.ones((2, 6))), 4), errors.InvalidArgument),
        (lambda: nn.group_norm(array(np.ones((2, 6))), 0), errors.InvalidArgument),
        (lambda: nn.group_norm(array(np.ones(6)), 1), errors.InvalidDimension),
        (lambda: nn.instance_norm(array(np.ones((2, 6))), array(np.ones(2))), errors.ShapeMismatch),
        (lambda: nn.batch_norm(array(np.ones((2, 6)))), errors.InvalidArgument),
        (lambda: nn.batch_norm(array(np.ones((2, 6))), array(np.ones(6)), training=True), errors.InvalidArgument),
        (lambda: nn.batch_norm(array(np.ones((1, 6))), training=True), errors.InvalidArgument),
        (lambda: nn.batch_norm(array(np.ones((2, 6))), training=True, momentum=1.5), errors.InvalidArgument),
        (lambda: nn.batch_norm(array(np.ones((2, 6))), array(np.ones(5)), array(np.ones(6))), errors.ShapeMismatch),
    ],
)
def test_bad_input(call: Callable[[], object], error: type[errors.RtxError]) -> None:
    with pytest.raises(error) as caught:
        call()
    assert caught.value.wanted
