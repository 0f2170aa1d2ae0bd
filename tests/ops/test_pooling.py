"""Pools: values against NumPy loops, NaN and infinities, ties, gradients, dtypes, empty windows, errors."""

from __future__ import annotations

import functools
import math

import jax
import ml_dtypes
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors, nn, ops
from tests.ops.checking import array, assert_gradients, assert_ulp, under_jit
from tests.ops.spatial_formulas import adaptive, avg_pool, max_pool

F32, F64, BF16 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(ml_dtypes.bfloat16)
F16 = np.dtype(np.float16)
INF, NAN = math.inf, math.nan

# spatial sizes, kernel, stride, padding, ceil_mode
CASES: dict[str, tuple[tuple[int, ...], object, object, object, bool]] = {
    "1d": ((7,), 3, 3, 0, False),
    "1d_ceil": ((7,), 2, 3, 1, True),
    "1d_overlap": ((9,), 4, 1, 2, False),
    "2d": ((6, 8), 2, 2, 0, False),
    "2d_rest": ((7, 5), (2, 3), (2, 1), 0, False),
    "2d_padded": ((5, 6), 3, 2, 1, False),
    "2d_pairs": ((4, 5), (2, 3), (1, 2), ((0, 1), (1, 0)), False),
    "2d_ceil": ((7, 6), 3, 2, 1, True),
    "2d_ceil_drops": ((5, 5), 3, 3, 1, True),
    "2d_whole": ((4, 6), (4, 6), 1, 0, False),
    "2d_gaps": ((7, 7), 1, 3, 0, False),
    "3d": ((4, 5, 6), (2, 3, 2), (2, 1, 3), (1, 1, 0), False),
}


def values(size: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Distinct values, so that maxima are away from ties."""
    shape = (2, 3, *size)
    order = np.random.default_rng(seed).permutation(math.prod(shape)).reshape(shape)
    return order / 7.0 - 10.0


@pytest.mark.parametrize("case", CASES)
def test_max_pool(case: str) -> None:
    size, kernel, stride, padding, ceil = CASES[case]
    x = values(size)
    params = {"kernel_size": kernel, "stride": stride, "padding": padding, "ceil_mode": ceil}
    want = max_pool(x, kernel, stride, padding, 1, ceil)
    name = f"max_pool{len(size)}d"
    np.testing.assert_array_equal(np.asarray(getattr(nn, name)(array(x), **params)), want)
    np.testing.assert_array_equal(under_jit(functools.partial(getattr(ops, name), **params), array(x)), want)
    np.testing.assert_array_equal(np.asarray(getattr(nn, name)(array(x[1]), **params)), want[1])


@pytest.mark.parametrize("include", [True, False], ids=["with_padding", "without"])
@pytest.mark.parametrize("case", CASES)
def test_avg_pool(case: str, include: bool) -> None:
    size, kernel, stride, padding, ceil = CASES[case]
    x = values(size)
    params = {
        "kernel_size": kernel,
        "stride": stride,
        "padding": padding,
        "ceil_mode": ceil,
        "count_include_pad": include,
    }
    want = avg_pool(x, kernel, stride, padding, ceil, include)
    name = f"avg_pool{len(size)}d"
    for got in (
        np.asarray(getattr(nn, name)(array(x), **params)),
        under_jit(functools.partial(getattr(ops, name), **params), array(x)),
    ):
        assert got.dtype == F64
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(np.asarray(getattr(nn, name)(array(x[1]), **params)), want[1], rtol=1e-13, atol=1e-13)


ADAPTIVE = [
    ((7,), (3,)),
    ((6,), (6,)),
    ((4,), (7,)),
    ((6, 8), (3, 2)),
    ((5, 7), (3, 4)),
    ((5, 6), (1, 4)),
    ((3, 5, 4), (2, 3, 4)),
]


@pytest.mark.parametrize(("size", "out"), ADAPTIVE, ids=str)
def test_adaptive_pools(size: tuple[int, ...], out: tuple[int, ...]) -> None:
    x, spatial = values(size), len(size)
    for kind, reduce in (("avg", np.mean), ("max", np.max)):
        name = f"adaptive_{kind}_pool{spatial}d"
        want = adaptive(x, out, reduce)
        np.testing.assert_allclose(np.asarray(getattr(nn, name)(array(x), out)), want, rtol=1e-13, atol=1e-13)
        got = under_jit(functools.partial(getattr(ops, name), output_size=out), array(x[0]))
        np.testing.assert_allclose(got, want[0], rtol=1e-13, atol=1e-13)


def test_none_keeps_the_size_of_an_axis() -> None:
    x = values((5, 6))
    np.testing.assert_allclose(
        np.asarray(nn.adaptive_avg_pool2d(array(x), (None, 4))), adaptive(x, (5, 4), np.mean), rtol=1e-13
    )
    np.testing.assert_array_equal(np.asarray(nn.adaptive_max_pool2d(array(x), None)), x)
    np.testing.assert_allclose(np.asarray(nn.adaptive_avg_pool2d(array(x), 1))[..., 0, 0], x.mean((2, 3)), rtol=1e-13)


def test_dilated_maxima() -> None:
    x = values((8, 7))
    want = max_pool(x, (2, 3), (1, 2), (1, 2), (3, 2))
    got = nn.max_pool2d(array(x), (2, 3), stride=(1, 2), padding=(1, 2), dilation=(3, 2))
    np.testing.assert_array_equal(np.asarray(got), want)
    assert_gradients(
        lambda x: nn.max_pool2d(x, (2, 3), stride=1, dilation=(3, 2)),
        lambda x: max_pool(x, (2, 3), 1, 0, (3, 2)),
        [x[:1, :1]],
    )


def test_the_stride_is_the_window_by_default() -> None:
    x = values((7, 6))
    np.testing.assert_array_equal(np.asarray(nn.max_pool2d(array(x), (3, 2))), max_pool(x, (3, 2), (3, 2)))
    np.testing.assert_allclose(np.asarray(nn.avg_pool2d(array(x), [3, 2])), avg_pool(x, (3, 2), (3, 2)), rtol=1e-13)


def test_same_padding() -> None:
    x = values((5, 6))
    got = nn.max_pool2d(array(x), 3, stride=2, padding="same")
    np.testing.assert_array_equal(np.asarray(got), max_pool(x, 3, 2, ((1, 1), (0, 1))))


# Reported problems


def test_padding_in_the_divisor() -> None:
    # google/flax#2401, #2448
    x = xp.asarray([[[[1.0, 2.0], [3.0, 4.0]]]], dtype=xp.float32)
    pad = ((0, 1), (0, 1))
    for run in (lambda f: f, xp.jit):
        with_padding = run(lambda x: nn.avg_pool2d(x, (2, 2), stride=(1, 1), padding=pad))(x)
        without = run(lambda x: nn.avg_pool2d(x, 2, stride=1, padding=pad, count_include_pad=False))(x)
        assert np.asarray(with_padding).tolist() == [[[[2.5, 1.5], [1.75, 1.0]]]]
        assert np.asarray(without).tolist() == [[[[2.5, 3.0], [3.5, 4.0]]]]


@pytest.mark.parametrize("dtype", [F32, F16, BF16, F64], ids=str)
def test_no_window_lies_wholly_in_padding(dtype: np.dtype) -> None:
    # webmachinelearning/webnn#935, pytorch/pytorch#46929
    x = xp.ones((1, 1, 5, 5), dtype=dtype)
    got = nn.max_pool2d(x, 3, stride=3, padding=((1, 1), (1, 1)), ceil_mode=True)
    np.testing.assert_array_equal(np.asarray(got), np.ones((1, 1, 2, 2)))
    mean = nn.avg_pool2d(x, 3, stride=3, padding=1, ceil_mode=True, count_include_pad=False)
    np.testing.assert_array_equal(np.asarray(mean), np.ones((1, 1, 2, 2)))


# NaN, infinities, ties


@pytest.mark.parametrize("dtype", [F32, F64, F16, BF16], ids=str)
@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [(2, 2, 0), (2, 2, 1), (3, 2, 1), ((1, 36), 1, 0), (33, 1, 0)]
)
def test_nan_is_never_passed_over(kernel: object, stride: int, padding: int, dtype: np.dtype) -> None:
    # XLA for the CPU loses NaN in disjoint windows of arrays of some thousand elements.
    r = np.random.default_rng(1)
    x = r.standard_normal((2, 4, 33, 36)).astype(dtype)
    x[r.random(x.shape) < 0.01] = np.nan
    x[r.random(x.shape) < 0.01] = -np.inf
    want = max_pool(x.astype(np.float64), kernel, stride, padding)
    got = nn.max_pool2d(xp.asarray(x), kernel, stride=stride, padding=padding)
    np.testing.assert_array_equal(np.asarray(got).astype(np.float64), want)


def test_nan_and_infinities_in_adaptive_maxima() -> None:
    x = np.asarray([[[-INF, NAN, -INF, -INF, INF, 1.0, -INF]]])
    got = np.asarray(nn.adaptive_max_pool1d(array(x), 3))
    np.testing.assert_array_equal(got, [[[NAN, INF, INF]]])


def test_infinities_and_nan_in_means() -> None:
    x = np.asarray([[[INF, NAN, 1.0, 2.0, -INF, 3.0, 4.0]]])
    np.testing.assert_array_equal(np.asarray(nn.avg_pool1d(array(x), 2)), [[[NAN, 1.5, -INF]]])
    np.testing.assert_array_equal(np.asarray(nn.adaptive_avg_pool1d(array(x), 3)), [[[NAN, -INF, -INF]]])


@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_the_gradient_of_a_maximum_goes_to_the_first(dtype: np.dtype) -> None:
    def gradient(x: object, kernel: object, **params: object) -> list[list[float]]:
        grad = xp.grad(lambda v: xp.sum(nn.max_pool2d(v, kernel, **params), dtype=xp.float32))
        return np.asarray(grad(xp.asarray(np.asarray([[x]]).astype(dtype))))[0, 0].astype(np.float64).tolist()

    assert gradient([[1, 1], [1, 1]], 2) == [[1, 0], [0, 0]]
    assert gradient([[0, 2], [2, 1]], 2) == [[0, 1], [0, 0]]
    # Overlapping windows share elements.
    assert gradient([[1, 1, 1], [1, 1, 1]], 2, stride=1) == [[1, 1, 0], [0, 0, 0]]
    # Padding takes no gradient, also where all elements are -inf.
    assert gradient([[-INF, -INF], [-INF, -INF]], 2, padding=1) == [[1, 1], [1, 1]]
    assert gradient([[-INF, -INF], [-INF, -INF]], 3, padding=1, stride=3) == [[1, 0], [0, 0]]
    # The first NaN is what is chosen.
    assert gradient([[1, NAN], [NAN, 2]], 2) == [[0, 1], [0, 0]]


def test_gradients_of_ties_in_adaptive_maxima() -> None:
    grad = xp.grad(lambda v: xp.sum(nn.adaptive_max_pool2d(v, (2, 2))))
    ones = np.asarray(grad(xp.ones((1, 1, 3, 3), dtype=xp.float32)))[0, 0]
    assert ones.tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 0]]


@pytest.mark.parametrize("case", ["1d_ceil", "2d", "2d_pairs", "2d_ceil", "3d"])
def test_gradients(case: str) -> None:
    size, kernel, stride, padding, ceil = CASES[case]
    x = values(size)[:1, :2]
    name = f"pool{len(size)}d"
    params = {"kernel_size": kernel, "stride": stride, "padding": padding, "ceil_mode": ceil}
    assert_gradients(
        lambda v: getattr(nn, f"max_{name}")(v, **params), lambda v: max_pool(v, kernel, stride, padding, 1, ceil), [x]
    )
    assert_gradients(
        lambda v: getattr(nn, f"avg_{name}")(v, count_include_pad=False, **params),
        lambda v: avg_pool(v, kernel, stride, padding, ceil, False),
        [x],
        rtol=1e-5,
    )


@pytest.mark.parametrize(("size", "out"), [ADAPTIVE[0], ADAPTIVE[3], ADAPTIVE[4]], ids=str)
def test_gradients_of_adaptive_pools(size: tuple[int, ...], out: tuple[int, ...]) -> None:
    x, spatial = values(size)[:1, :2], len(size)
    for kind, reduce in (("avg", np.mean), ("max", np.max)):
        fn = getattr(nn, f"adaptive_{kind}_pool{spatial}d")
        assert_gradients(lambda v, fn=fn: fn(v, out), lambda v, reduce=reduce: adaptive(v, out, reduce), [x], rtol=1e-5)


def test_second_derivatives_of_maxima() -> None:
    x = xp.asarray([[[1.0, 3.0, 2.0, 5.0]]], dtype=xp.float64)

    def loss(v: xp.Array) -> xp.Array:
        return xp.sum(nn.max_pool1d(v, 2) ** 3)

    hessian = xp.jit(xp.grad(lambda v: xp.sum(xp.grad(loss)(v))))(x)
    assert np.asarray(hessian).ravel().tolist() == [0.0, 18.0, 0.0, 30.0]


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_gradients_of_16_bit_floats_add_up_in_float32(dtype: np.dtype) -> None:
    # One element is the maximum of 401 windows; bfloat16 alone stops at 256.
    x = np.zeros((1, 1, 801))
    x[0, 0, 400] = 1
    grad = xp.grad(lambda v: xp.sum(nn.max_pool1d(v, 401, stride=1), dtype=xp.float32))(xp.asarray(x.astype(dtype)))
    assert float(grad[0, 0, 400]) == float(np.asarray(401).astype(dtype))


# Dtypes


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_maxima_of_integers(dtype: str) -> None:
    info = np.iinfo(dtype)
    x = np.random.default_rng(2).integers(info.min, info.max, (1, 2, 5, 6), dtype=dtype, endpoint=True)
    x[0, 0] = info.min
    got = np.asarray(nn.max_pool2d(xp.asarray(x), 2, padding=1))
    assert got.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(got, max_pool(x, 2, 2, 1))
    np.testing.assert_array_equal(
        np.asarray(nn.adaptive_max_pool2d(xp.asarray(x), (2, 4))), adaptive(x, (2, 4), np.max)
    )


@pytest.mark.parametrize("dtype", [F32, F16, BF16, np.dtype(ml_dtypes.float8_e5m2)], ids=str)
def test_means_of_floats(dtype: np.dtype) -> None:
    x = np.random.default_rng(3).standard_normal((2, 2, 7, 6)).astype(dtype)
    exact = x.astype(np.float64)
    ulp = 0.51 if dtype.itemsize < 4 else 4
    assert_ulp(nn.avg_pool2d(xp.asarray(x), 3, stride=2, padding=1), avg_pool(exact, 3, 2, 1), ulp, dtype, 1.0)
    assert_ulp(nn.adaptive_avg_pool2d(xp.asarray(x), (3, 4)), adaptive(exact, (3, 4), np.mean), ulp, dtype, 1.0)
    np.testing.assert_array_equal(
        np.asarray(nn.max_pool2d(xp.asarray(x), 3, stride=2, padding=1)).astype(np.float64), max_pool(exact, 3, 2, 1)
    )


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_means_of_16_bit_floats_are_formed_in_float32(dtype: np.dtype) -> None:
    # The sum of 3000 times 60 is beyond float16, and bfloat16 stops adding ones at 256.
    x = xp.full((1, 1, 3000), 60.0, dtype=dtype)
    assert float(nn.avg_pool1d(x, 3000)[0, 0, 0]) == 60.0
    assert float(nn.adaptive_avg_pool1d(x, 1)[0, 0, 0]) == 60.0


def test_64_bits_with_the_default_settings_of_jax() -> None:
    assert not jax.config.jax_enable_x64
    x = np.asarray([[[2**60 + 1, 2**60]]])
    assert np.asarray(nn.max_pool1d(xp.asarray(x), 2)).tolist() == [[[2**60 + 1]]]
    pair = xp.asarray([[[1.0, 1.0 + 2**-40]]], dtype=xp.float64)
    assert float(nn.avg_pool1d(pair, 2)[0, 0, 0]) == 1.0 + 2**-41


def test_empty_batches() -> None:
    x = xp.zeros((0, 3, 6, 6), dtype=xp.float32)
    assert nn.max_pool2d(x, 2).shape == (0, 3, 3, 3)
    assert nn.avg_pool2d(x, 2, padding=1).shape == (0, 3, 4, 4)
    assert nn.adaptive_avg_pool2d(x, 4).shape == (0, 3, 4, 4)
    assert nn.adaptive_max_pool2d(x, 4).shape == (0, 3, 4, 4)
    grad = xp.grad(lambda v: xp.sum(nn.max_pool2d(v, 2)))(x)
    assert grad.shape == x.shape
    assert nn.max_pool2d(xp.zeros((2, 0, 6, 6), dtype=xp.float32), 2).shape == (2, 0, 3, 3)


def test_vmap() -> None:
    x = np.stack([values((6, 5), seed) for seed in range(3)])
    got = xp.vmap(xp.grad(lambda v: xp.sum(nn.max_pool2d(v, 2, stride=1) ** 2)))(array(x))
    one = [np.asarray(xp.grad(lambda v: xp.sum(nn.max_pool2d(v, 2, stride=1) ** 2))(array(part))) for part in x]
    np.testing.assert_allclose(np.asarray(got), np.stack(one), rtol=1e-13)
    np.testing.assert_allclose(
        np.asarray(xp.vmap(lambda v: nn.avg_pool2d(v, 2))(array(x))),
        np.stack([avg_pool(part, 2, 2) for part in x]),
        rtol=1e-13,
    )


@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (1, 2), (2, 1), (2, 3)])
def test_gradients_of_means_under_jit_of_plain_jax(kernel: int, stride: int) -> None:
    # Negative padding in a window reduction ends the process: the gradient must not have it.
    x = values((5, 4)).astype(np.float32)
    padding = kernel // 2

    def loss(v: jax.Array) -> jax.Array:
        return ops.avg_pool2d(v, kernel_size=kernel, stride=stride, padding=padding).sum()

    got = np.asarray(jax.jit(jax.grad(loss))(x))
    want = np.zeros_like(x)
    for i in range(0, 5 + 2 * padding - kernel + 1, stride):
        for j in range(0, 4 + 2 * padding - kernel + 1, stride):
            rows = slice(max(0, i - padding), max(0, i - padding + kernel))
            columns = slice(max(0, j - padding), max(0, j - padding + kernel))
            want[:, :, rows, columns] += 1 / kernel**2
    np.testing.assert_allclose(got, want, rtol=1e-6)


# Bad input

BAD: list[tuple[dict[str, object], type[Exception], str]] = [
    ({"stride": 0}, errors.InvalidArgument, "stride"),
    ({"stride": -1}, errors.InvalidArgument, "stride"),
    ({"kernel_size": 0}, errors.InvalidArgument, "kernel_size"),
    ({"kernel_size": None}, errors.InvalidArgument, "kernel_size"),
    ({"kernel_size": (2, 2, 2)}, errors.InvalidArgument, "2 integers"),
    ({"kernel_size": 2.0}, errors.InvalidArgument, "integer"),
    ({"kernel_size": 7}, errors.InvalidArgument, "window that fits"),
    ({"padding": -1}, errors.InvalidArgument, "Slice x first"),
    ({"padding": ((0, 0), (0, -1))}, errors.InvalidArgument, "padding"),
    ({"padding": 2}, errors.InvalidArgument, "half of the window"),
    ({"padding": (0, 2)}, errors.InvalidArgument, "spatial axis 1"),
    ({"padding": ((0, 2), (0, 0))}, errors.InvalidArgument, "half of the window"),
    ({"kernel_size": 1, "padding": 1}, errors.InvalidArgument, "half of the window"),
]


@pytest.mark.parametrize(
    ("params", "error", "text"), BAD, ids=lambda value: str(value) if isinstance(value, dict) else ""
)
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_bad_parameters(kind: str, params: dict[str, object], error: type[Exception], text: str) -> None:
    x = xp.ones((1, 2, 6, 6), dtype=xp.float32)
    fn, raw = getattr(nn, f"{kind}_pool2d"), getattr(ops, f"{kind}_pool2d")
    with pytest.raises(error, match=text):
        fn(x, **{"kernel_size": 2, **params})
    with pytest.raises(error, match=text):
        jax.jit(functools.partial(raw, **{"kernel_size": 2, **params}))(x.jax)


def test_windows_without_an_element_are_refused() -> None:
    x = xp.ones((1, 1, 0, 4), dtype=xp.float32)
    with pytest.raises(errors.InvalidArgument, match="every window"):
        nn.max_pool2d(x, 2, padding=1)
    with pytest.raises(errors.InvalidArgument, match="every window"):
        nn.avg_pool2d(x, 2, padding=1, count_include_pad=False)
    with pytest.raises(errors.InvalidArgument, match="every window"):
        nn.max_pool1d(xp.ones((1, 1, 1), dtype=xp.float32), 2, dilation=2, padding=1)
    with pytest.raises(errors.InvalidArgument, match="dilation"):
        nn.max_pool2d(x, 2, dilation=0)
    with pytest.raises(errors.InvalidArgument, match="window that fits"):
        nn.max_pool2d(x, 1)


@pytest.mark.parametrize("shape", [(6, 6), (1, 1, 2, 6, 6), (6,), ()])
def test_bad_ranks(shape: tuple[int, ...]) -> None:
    x = xp.ones(shape, dtype=xp.float32)
    for call in (
        lambda: nn.max_pool2d(x, 2),
        lambda: nn.avg_pool2d(x, 2),
        lambda: nn.adaptive_avg_pool2d(x, 2),
        lambda: nn.adaptive_max_pool2d(x, 2),
    ):
        with pytest.raises(errors.InvalidDimension, match=r"B, C, H, W"):
            call()


@pytest.mark.parametrize("output_size", [0, -1, (2, 0), (1, 2, 3), 1.5, "all"])
def test_bad_output_sizes(output_size: object) -> None:
    x = xp.ones((1, 2, 6, 6), dtype=xp.float32)
    for fn in (nn.adaptive_avg_pool2d, nn.adaptive_max_pool2d):
        with pytest.raises(errors.InvalidArgument, match="output_size"):
            fn(x, output_size)
        with pytest.raises(errors.ShapeMismatch, match="at least one element"):
            fn(x[:, :, :0], 2)


def test_bad_dtypes() -> None:
    x = xp.ones((1, 1, 4, 4), dtype=xp.int32)
    for call in (lambda: nn.avg_pool2d(x, 2), lambda: nn.adaptive_avg_pool2d(x, 2)):
        with pytest.raises(errors.UnsupportedDType, match="int32"):
            call()
    for dtype in (xp.bool, xp.complex64, "uint4"):
        with pytest.raises(errors.UnsupportedDType):
            nn.max_pool2d(xp.astype(x, dtype), 2)
        with pytest.raises(errors.UnsupportedDType):
            nn.adaptive_max_pool2d(xp.astype(x, dtype), 2)
