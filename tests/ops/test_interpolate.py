"""Interpolation: values against sums of weights at float64 places, literals, gradients, dtypes, errors."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import jax
import ml_dtypes
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors, nn, ops
from tests.ops.checking import array, assert_gradients, assert_ulp, under_jit
from tests.ops.spatial_formulas import adaptive, cubic_taps, linear_taps, resample

BF16, F16, F32 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16), np.dtype(np.float32)
INF, NAN = math.inf, math.nan

Taps = Callable[[int, int, int], dict[int, float]]


def taps_of(mode: str, out: tuple[int, ...], align: bool = False, factors: tuple[float, ...] | None = None) -> Taps:
    """Weights of the elements of an axis of size n in sample i of the result."""

    def taps(i: int, n: int, axis: int) -> dict[int, float]:
        m = out[axis]
        step = n / m if factors is None else 1 / factors[axis]
        if mode == "nearest":
            return {min(i * n // m if factors is None else math.floor(i * step), n - 1): 1.0}
        if mode == "nearest-exact":
            return {min(math.floor((i + 0.5) * step), n - 1): 1.0}
        place = i * (n - 1) / max(m - 1, 1) if align else (i + 0.5) * step - 0.5
        return cubic_taps(place, n) if mode == "bicubic" else linear_taps(place, n)

    return taps


SIZES: dict[int, tuple[tuple[int, ...], list[tuple[int, ...]]]] = {
    1: ((6,), [(1,), (6,), (4,), (12,), (11,)]),
    2: ((4, 5), [(8, 5), (3, 9), (1, 2)]),
    3: ((2, 3, 4), [(4, 2, 5)]),
}
MODES = [
    ("nearest", 1),
    ("nearest", 2),
    ("nearest", 3),
    ("nearest-exact", 1),
    ("nearest-exact", 2),
    ("nearest-exact", 3),
    ("linear", 1),
    ("bilinear", 2),
    ("bicubic", 2),
    ("trilinear", 3),
]


@pytest.mark.parametrize(("mode", "spatial"), MODES)
def test_sizes(mode: str, spatial: int) -> None:
    size, outs = SIZES[spatial]
    x = np.random.default_rng(0).standard_normal((2, 3, *size))
    for out in outs:
        for align in (None,) if mode.startswith("nearest") else (False, True):
            want = resample(x, out, taps_of(mode, out, bool(align)))
            got = np.asarray(nn.interpolate(array(x), size=out, mode=mode, align_corners=align))
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12, err_msg=f"{out} {align}")
    raw = under_jit(functools.partial(ops.interpolate, size=out, mode=mode, align_corners=align), array(x))
    np.testing.assert_allclose(raw, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("mode", "spatial"), [("nearest", 2), ("nearest-exact", 1), ("bilinear", 2), ("bicubic", 2)])
@pytest.mark.parametrize("factor", [2.0, 0.5, 1.7])
def test_scale_factors(mode: str, spatial: int, factor: float) -> None:
    size, _ = SIZES[spatial]
    x = np.random.default_rng(1).standard_normal((1, 2, *size))
    out = tuple(math.floor(n * factor) for n in size)
    want = resample(x, out, taps_of(mode, out, factors=(factor,) * spatial))
    np.testing.assert_allclose(
        np.asarray(nn.interpolate(array(x), scale_factor=factor, mode=mode)), want, rtol=1e-12, atol=1e-12
    )
    recomputed = resample(x, out, taps_of(mode, out))
    got = nn.interpolate(array(x), scale_factor=(factor,) * spatial, mode=mode, recompute_scale_factor=True)
    np.testing.assert_allclose(np.asarray(got), recomputed, rtol=1e-12, atol=1e-12)


def test_area_is_the_mean_under_each_sample() -> None:
    x = np.random.default_rng(2).standard_normal((2, 2, 5, 6))
    got = nn.interpolate(array(x), size=(3, 4), mode="area")
    np.testing.assert_allclose(np.asarray(got), adaptive(x, (3, 4), np.mean), rtol=1e-12)


def test_values_by_hand() -> None:
    x = xp.asarray([[[0.0, 10.0]]], dtype=xp.float32)

    def row(**params: object) -> list[float]:
        return np.asarray(nn.interpolate(x, **params)).ravel().tolist()

    assert row(size=4) == [0, 0, 10, 10]
    assert row(size=5) == [0, 0, 0, 10, 10]
    assert row(size=5, mode="nearest-exact") == [0, 0, 10, 10, 10]
    assert row(size=4, mode="linear") == [0, 2.5, 7.5, 10]
    assert row(size=5, mode="linear", align_corners=True) == [0, 2.5, 5, 7.5, 10]
    assert row(size=1, mode="linear", align_corners=True) == [0]
    assert row(size=1, mode="linear") == [5]
    assert row(scale_factor=2, mode="LINEAR") == [0, 2.5, 7.5, 10]
    ramp = xp.reshape(xp.arange(4.0, dtype=xp.float64), (1, 1, 1, 4))
    # Half way between two elements the cubic kernel has the weights -3/32, 19/32, 19/32, -3/32.
    cubic = np.asarray(nn.interpolate(ramp, size=(1, 2), mode="bicubic")).ravel()
    np.testing.assert_allclose(
        cubic, [(-3 * 0 + 19 * 0 + 19 * 1 - 3 * 2) / 32, (-3 * 1 + 19 * 2 + 19 * 3 - 3 * 3) / 32]
    )


def test_places_of_nearest_samples_are_exact() -> None:
    # In float32, i * (n / m) falls below the integer it stands for: 41 * (7 / 287) gives 0.99999994.
    for n, m in ((7, 287), (3, 57), (49, 7), (1000, 3)):
        x = xp.reshape(xp.arange(n, dtype=xp.int32), (1, 1, n))
        assert np.asarray(nn.interpolate(x, size=m)).ravel().tolist() == [i * n // m for i in range(m)]


@pytest.mark.parametrize("mode", ["linear", "bilinear", "bicubic"])
def test_the_same_size_is_the_identity_even_beside_infinities(mode: str) -> None:
    x = np.asarray([1.0, INF, -2.0, NAN, 4.0])
    shape = (1, 1, 5) if mode == "linear" else (1, 1, 1, 5)
    for align in (False, True):
        got = nn.interpolate(array(x.reshape(shape)), size=shape[2:], mode=mode, align_corners=align)
        np.testing.assert_array_equal(np.asarray(got), x.reshape(shape))


def test_elements_of_weight_zero_take_no_part() -> None:
    x = array([[[1.0, INF, 3.0]]])
    got = np.asarray(nn.interpolate(x, size=5, mode="linear", align_corners=True))
    np.testing.assert_array_equal(got, [[[1.0, INF, INF, INF, 3.0]]])
    grad = xp.grad(lambda v: nn.interpolate(v, size=5, mode="linear", align_corners=True)[0, 0, 0])(x)
    assert np.asarray(grad).ravel().tolist() == [1, 0, 0]


def test_taps_beyond_the_border_are_one_element() -> None:
    x = np.asarray([[[[INF, 1.0, 2.0, 3.0, -INF]]]])
    got = np.asarray(nn.interpolate(array(x), size=(1, 9), mode="bicubic"))
    with np.errstate(invalid="ignore"):
        want = resample(x, (1, 9), taps_of("bicubic", (1, 9)))
    assert np.isinf(want[..., [0, 1, -2, -1]]).all() and want[0, 0, 0, 4] == 2.0
    np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize(
    ("mode", "size", "params"),
    [
        ("nearest", (3,), {"size": 6}),
        ("nearest", (5,), {"size": 3}),
        ("linear", (4,), {"size": 7}),
        ("bilinear", (3, 4), {"size": (5, 3), "align_corners": True}),
        ("bicubic", (3, 4), {"size": (5, 3)}),
        ("trilinear", (2, 3, 2), {"size": (3, 2, 4)}),
    ],
)
def test_gradients(mode: str, size: tuple[int, ...], params: dict[str, object]) -> None:
    out = params["size"] if isinstance(params["size"], tuple) else (params["size"],) * len(size)
    taps = taps_of(mode, out, bool(params.get("align_corners")))
    assert_gradients(
        lambda x: nn.interpolate(x, mode=mode, **params),
        lambda x: resample(x, out, taps),
        [np.random.default_rng(3).standard_normal((1, 1, *size))],
    )


@pytest.mark.parametrize("dtype", [F32, F16, BF16, np.dtype(ml_dtypes.float8_e4m3fn)], ids=str)
def test_dtypes(dtype: np.dtype) -> None:
    x = np.random.default_rng(4).standard_normal((1, 2, 4, 5)).astype(dtype)
    exact = x.astype(np.float64)
    for mode in ("bilinear", "bicubic"):
        want = resample(exact, (7, 3), taps_of(mode, (7, 3)))
        assert_ulp(
            nn.interpolate(xp.asarray(x), size=(7, 3), mode=mode), want, 0.51 if dtype.itemsize < 4 else 4, dtype, 1.0
        )
    nearest = nn.interpolate(xp.asarray(x), size=(7, 3))
    assert nearest.dtype == dtype
    np.testing.assert_array_equal(
        np.asarray(nearest).astype(np.float64), resample(exact, (7, 3), taps_of("nearest", (7, 3)))
    )


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "complex64"])
def test_nearest_samples_of_other_dtypes(dtype: str) -> None:
    x = (np.arange(10).reshape(1, 2, 5) % 2 if dtype == "bool" else np.arange(10).reshape(1, 2, 5)).astype(dtype)
    for out in (3, 10):
        got = np.asarray(nn.interpolate(xp.asarray(x), size=out))
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(got, x[:, :, [i * 5 // out for i in range(out)]])


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_gradients_of_16_bit_floats_add_up_in_float32(dtype: np.dtype) -> None:
    for size in (5000, 4999):
        grad = xp.grad(lambda v, m=size: xp.sum(nn.interpolate(v, size=m), dtype=xp.float32))(
            xp.ones((1, 1, 2), dtype=dtype)
        )
        assert np.asarray(grad)[0, 0, 0] == np.asarray(2500.0).astype(dtype)


def test_float64_with_the_default_settings_of_jax() -> None:
    assert not jax.config.jax_enable_x64
    x = xp.asarray([[[1.0, 1.0 + 2**-40]]], dtype=xp.float64)
    assert np.asarray(nn.interpolate(x, size=1, mode="linear")).ravel().tolist() == [1.0 + 2**-41]


def test_empty_batch_and_vmap() -> None:
    for mode in ("nearest", "bilinear", "bicubic", "area"):
        x = xp.zeros((0, 2, 4, 4), dtype=xp.float32)
        assert nn.interpolate(x, size=(3, 8), mode=mode).shape == (0, 2, 3, 8)
    x = np.random.default_rng(5).standard_normal((3, 1, 2, 4))
    got = xp.vmap(lambda v: nn.interpolate(v, size=7, mode="linear"))(array(x))
    np.testing.assert_allclose(
        np.asarray(got), np.stack([resample(part, (7,), taps_of("linear", (7,))) for part in x]), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("shape", "params", "error", "text"),
    [
        ((1, 1, 4, 4), {}, errors.InvalidArgument, "neither size nor scale_factor"),
        ((1, 1, 4, 4), {"size": 2, "scale_factor": 2}, errors.InvalidArgument, "one of them"),
        ((1, 1, 4, 4), {"size": 2, "mode": "cubic"}, errors.InvalidArgument, "bicubic"),
        ((1, 1, 4, 4), {"size": 2, "mode": None}, errors.InvalidArgument, "mode"),
        ((1, 1, 4, 4), {"size": 2, "mode": "linear"}, errors.InvalidDimension, "bilinear"),
        ((1, 1, 4), {"size": 2, "mode": "bilinear"}, errors.InvalidDimension, "linear"),
        ((4, 4), {"size": 2}, errors.InvalidDimension, "axes"),
        ((1, 1, 4, 4), {"size": 2, "align_corners": True}, errors.InvalidArgument, "align_corners"),
        ((1, 1, 4, 4), {"size": 2, "align_corners": False, "mode": "area"}, errors.InvalidArgument, "align_corners"),
        ((1, 1, 4, 4), {"size": 0}, errors.InvalidArgument, "size"),
        ((1, 1, 4, 4), {"size": (2, -1)}, errors.InvalidArgument, "size"),
        ((1, 1, 4, 4), {"size": (2, 2, 2)}, errors.InvalidArgument, "2 integers"),
        ((1, 1, 4, 4), {"size": 2.5}, errors.InvalidArgument, "integer"),
        ((1, 1, 4, 4), {"scale_factor": 0.0}, errors.InvalidArgument, "more than 0"),
        ((1, 1, 4, 4), {"scale_factor": NAN}, errors.InvalidArgument, "finite"),
        ((1, 1, 4, 4), {"scale_factor": INF}, errors.InvalidArgument, "finite"),
        ((1, 1, 4, 4), {"scale_factor": 0.2}, errors.InvalidArgument, "at least one element"),
        ((1, 1, 4, 4), {"scale_factor": (2.0,)}, errors.InvalidArgument, "2 numbers"),
        ((1, 1, 4, 4), {"scale_factor": 1e30}, MemoryError, "63 bits"),
        ((1, 1, 0, 4), {"size": 2}, errors.ShapeMismatch, "at least one element"),
    ],
)
def test_bad_input(shape: tuple[int, ...], params: dict[str, object], error: type[Exception], text: str) -> None:
    x = xp.ones(shape, dtype=xp.float32)
    with pytest.raises(error, match=text):
        nn.interpolate(x, **params)


def test_bad_dtypes() -> None:
    x = xp.ones((1, 1, 4), dtype=xp.int32)
    for mode in ("linear", "area"):
        with pytest.raises(errors.UnsupportedDType, match="int32"):
            nn.interpolate(x, size=2, mode=mode)
