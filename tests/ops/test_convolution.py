"""Convolutions and their transposes: values against NumPy loops, gradients, accumulation, dtypes, errors."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import rtx_jax as xp
from rtx_jax import errors, nn, ops
from tests.ops.checking import array, assert_gradients, assert_ulp, under_jit
from tests.ops.spatial_formulas import convolve, convolve_transposed, each, pairs

F32, F64, BF16 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(ml_dtypes.bfloat16)
LOW = (np.dtype(np.float16), BF16)

# spatial sizes, kernel, parameters
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, object]]] = {
    "1d": ((7,), (3,), {}),
    "1d_all": ((9,), (3,), {"stride": 2, "padding": 2, "dilation": 2, "groups": 2}),
    "1d_pairs": ((6,), (2,), {"padding": ((0, 3),), "stride": (3,)}),
    "2d": ((5, 6), (3, 2), {}),
    "2d_1x1": ((4, 3), (1, 1), {"stride": 2}),
    "2d_stride": ((7, 6), (2, 3), {"stride": (3, 2), "padding": (1, 0)}),
    "2d_dilation": ((7, 8), (3, 2), {"dilation": (2, 3), "padding": 2}),
    "2d_groups": ((4, 5), (2, 2), {"groups": 2, "padding": ((1, 0), (0, 1))}),
    "2d_depthwise": ((4, 5), (3, 3), {"groups": 4, "padding": 1}),
    "2d_wide_padding": ((3, 2), (1, 2), {"padding": ((3, 0), (4, 2)), "stride": 2}),
    "2d_whole": ((3, 4), (3, 4), {}),
    "2d_no_elements": ((0, 2), (2, 2), {"padding": 1}),
    "3d": ((3, 4, 5), (2, 3, 2), {"stride": (1, 2, 1), "padding": (1, 0, 1), "groups": 2}),
}
# As above; output_padding too.
TRANSPOSED: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, object]]] = {
    "1d": ((5,), (3,), {"stride": 2, "padding": 1, "output_padding": 1}),
    "1d_gaps": ((4,), (2,), {"stride": 3, "output_padding": 2}),
    "2d": ((3, 4), (2, 3), {}),
    "2d_all": (
        (3, 4),
        (3, 2),
        {"stride": (2, 3), "padding": (1, 2), "dilation": (2, 1), "groups": 2, "output_padding": (1, 2)},
    ),
    "2d_wide_padding": ((5, 4), (1, 2), {"stride": 2, "padding": ((1, 2), (3, 0))}),
    "2d_stride_4": ((3, 2), (4, 4), {"stride": 4}),
    "3d": ((2, 3, 2), (2, 2, 3), {"stride": (2, 1, 2), "padding": (0, 1, 1), "groups": 2}),
}


def operands(case: tuple, transposed: bool, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    size, kernel, params = case
    groups = params.get("groups", 1)
    r = np.random.default_rng(seed)
    x = r.standard_normal((2, 4, *size))
    w = r.standard_normal((4, 6 // groups, *kernel) if transposed else (8, 4 // groups, *kernel))
    return x, w, r.standard_normal(6 if transposed else 8)


def bound(fn: Callable[..., np.ndarray], x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The same sum of absolute values."""
    return fn(abs(x), abs(w), abs(b))


@pytest.mark.parametrize("case", CASES)
def test_values(case: str) -> None:
    size, _, params = CASES[case]
    x, w, b = operands(CASES[case], False)
    name = f"conv{len(size)}d"
    want = convolve(x, w, b, **params)
    for got in (
        np.asarray(getattr(nn, name)(array(x), array(w), bias=array(b), **params)),
        under_jit(functools.partial(getattr(ops, name), **params), array(x), array(w), array(b)),
    ):
        assert got.dtype == F64
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    no_bias = np.asarray(getattr(nn, name)(array(x[0]), array(w), **params))
    np.testing.assert_allclose(no_bias, convolve(x[:1], w, **params)[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", TRANSPOSED)
def test_values_of_transposes(case: str) -> None:
    size, _, params = TRANSPOSED[case]
    x, w, b = operands(TRANSPOSED[case], True)
    name = f"conv_transpose{len(size)}d"
    want = convolve_transposed(x, w, b, **params)
    for got in (
        np.asarray(getattr(nn, name)(array(x), array(w), bias=array(b), **params)),
        under_jit(functools.partial(getattr(ops, name), **params), array(x), array(w), array(b)),
    ):
        assert got.dtype == F64
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    no_bias = np.asarray(getattr(nn, name)(array(x[0]), array(w), **params))
    np.testing.assert_allclose(no_bias, convolve_transposed(x[:1], w, **params)[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", ["1d_all", "2d_stride", "2d_groups", "2d_wide_padding", "3d"])
def test_gradients(case: str) -> None:
    size, _, params = CASES[case]
    assert_gradients(
        lambda x, w, b: getattr(nn, f"conv{len(size)}d")(x, w, b, **params),
        lambda x, w, b: convolve(x, w, b, **params),
        [part[:1] if i == 0 else part for i, part in enumerate(operands(CASES[case], False))],
    )


@pytest.mark.parametrize("case", ["1d_gaps", "2d_all", "2d_wide_padding"])
def test_gradients_of_transposes(case: str) -> None:
    size, _, params = TRANSPOSED[case]
    assert_gradients(
        lambda x, w, b: getattr(nn, f"conv_transpose{len(size)}d")(x, w, b, **params),
        lambda x, w, b: convolve_transposed(x, w, b, **params),
        [part[:1] if i == 0 else part for i, part in enumerate(operands(TRANSPOSED[case], True))],
    )


@pytest.mark.parametrize("dtype", [F32, *LOW], ids=str)
@pytest.mark.parametrize("transposed", [False, True], ids=["conv", "transpose"])
def test_dtypes(dtype: np.dtype, transposed: bool) -> None:
    params = {"padding": 1, "stride": 2}
    r = np.random.default_rng(1)
    host = [r.standard_normal(shape).astype(dtype) for shape in ((2, 4, 5, 5), (4, 4, 3, 3), (4,))]
    x, w, b = (xp.asarray(part) for part in host)
    exact = [part.astype(np.float64) for part in host]
    fn, formula = (nn.conv_transpose2d, convolve_transposed) if transposed else (nn.conv2d, convolve)
    want = formula(*exact, **params)
    room = 40 * 2.0**-24 * formula(*map(abs, exact), **params)  # of the float32 sums of 36 products
    for run in (fn, xp.jit(functools.partial(fn, **params))):
        got = run(x, w, b, **params) if run is fn else run(x, w, b)
        error = abs(np.asarray(got).astype(np.float64) - want)
        assert got.dtype == dtype
        assert (error <= room + 0.5 * float(ml_dtypes.finfo(dtype).eps) * abs(want)).all()


@pytest.mark.parametrize("dtype", LOW, ids=str)
def test_sums_of_16_bit_floats_are_formed_in_float32(dtype: np.dtype) -> None:
    # 5000 ones: bfloat16 alone stops at 256, float16 at 2048.
    x, w = xp.ones((1, 5000, 1), dtype=dtype), xp.ones((1, 5000, 1), dtype=dtype)
    want = np.asarray(5000.0).astype(dtype)
    assert np.asarray(nn.conv1d(x, w))[0, 0, 0] == want
    row = xp.ones((1, 1, 5000), dtype=dtype)
    grad = xp.grad(lambda k: xp.astype(xp.sum(nn.conv1d(row, k), dtype=xp.float32), xp.float32))(
        xp.ones((1, 1, 1), dtype=dtype)
    )
    assert np.asarray(grad)[0, 0, 0] == want
    bias = xp.grad(lambda b: xp.sum(nn.conv1d(row, row[:, :, :1], b), dtype=xp.float32))(xp.zeros(1, dtype=dtype))
    assert np.asarray(bias)[0] == want


@pytest.mark.parametrize("dtype", LOW, ids=str)
def test_gradients_of_16_bit_floats(dtype: np.dtype) -> None:
    r = np.random.default_rng(2)
    x, w, seed = (r.standard_normal(s).astype(dtype) for s in ((1, 3, 6, 6), (2, 3, 3, 3), (1, 2, 6, 6)))

    def loss(x: xp.Array, w: xp.Array) -> xp.Array:
        return xp.sum(nn.conv2d(x, w, padding=1) * xp.asarray(seed), dtype=xp.float32)

    gx, gw = xp.grad(loss, argnums=(0, 1))(xp.asarray(x), xp.asarray(w))
    x64, w64, s64 = (part.astype(np.float64) for part in (x, w, seed))
    want_x = convolve_transposed(s64, w64, padding=1)
    want_w = convolve(np.swapaxes(x64, 0, 1), np.swapaxes(s64, 0, 1), padding=1).swapaxes(0, 1)
    assert_ulp(gx, want_x, 0.51, dtype, least=1.0)
    assert_ulp(gw, want_w, 0.51, dtype, least=1.0)


def test_8_bit_floats_are_convolved_in_float32() -> None:
    dtype = np.dtype(ml_dtypes.float8_e4m3fn)
    r = np.random.default_rng(3)
    x, w = (r.standard_normal(s).astype(dtype) for s in ((1, 2, 4, 4), (3, 2, 2, 2)))
    got = nn.conv2d(xp.asarray(x), xp.asarray(w))
    assert_ulp(got, convolve(x.astype(np.float64), w.astype(np.float64)), 0.501, dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("transposed", [False, True], ids=["conv", "transpose"])
def test_integers_wrap_around_in_the_dtype_of_the_result(dtype: str, transposed: bool) -> None:
    info = np.iinfo(dtype)
    r = np.random.default_rng(4)
    x = r.integers(info.min, info.max, (1, 2, 4, 3), dtype=dtype, endpoint=True)
    w = r.integers(info.min, info.max, (2, 2, 2, 2), dtype=dtype, endpoint=True)
    b = r.integers(info.min, info.max, 2, dtype=dtype, endpoint=True)
    fn, formula = (nn.conv_transpose2d, convolve_transposed) if transposed else (nn.conv2d, convolve)
    with np.errstate(over="ignore"):
        want = formula(*(part.astype(np.int64) for part in (x, w, b))).astype(dtype)
    got = np.asarray(fn(xp.asarray(x), xp.asarray(w), xp.asarray(b)))
    assert got.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(got, want)
    wide = fn(xp.asarray(x[:, :, :3]), xp.asarray(w), dtype=xp.int64)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(np.asarray(wide), formula(x[:, :, :3].astype(np.int64), w.astype(np.int64)))


def test_the_dtype_of_the_result_can_be_wider() -> None:
    # jax-ml/jax#14585, #7637
    x = xp.full((1, 1, 3, 3), 100, dtype=xp.int8)
    for run in (nn.conv2d, xp.jit(lambda x, w, dtype: nn.conv2d(x, w, dtype=dtype), static_argnums=2)):
        got = run(x, x, dtype=xp.int32) if run is nn.conv2d else run(x, x, xp.int32)
        assert got.dtype == xp.int32 and int(got[0, 0, 0, 0]) == 90000
    assert int(nn.conv2d(x, x)[0, 0, 0, 0]) == 90000 % 256 - 256  # -112
    mixed = nn.conv2d(xp.full((1, 1, 3, 3), 200, dtype=xp.uint8), -x, dtype=xp.int64)
    assert mixed.dtype == xp.int64 and int(mixed[0, 0, 0, 0]) == -180000
    assert float(nn.conv2d(x, x, dtype=xp.float32)[0, 0, 0, 0]) == 90000.0
    halves = xp.full((1, 1, 1, 4), 1.5, dtype=xp.float16)
    assert nn.conv2d(halves, halves, dtype=xp.float64).dtype == F64
    assert nn.conv2d(halves, xp.astype(halves, xp.float64)).dtype == F64
    narrowed = nn.conv2d(xp.astype(halves, xp.float64), xp.astype(halves, xp.float64), dtype=xp.bfloat16)
    assert narrowed.dtype == BF16 and float(narrowed[0, 0, 0, 0]) == 9.0


def test_64_bits_with_the_default_settings_of_jax() -> None:
    assert not jax.config.jax_enable_x64
    x = xp.asarray(np.full((1, 1, 2), 2**40), dtype=xp.int64)
    assert np.asarray(nn.conv1d(x, xp.asarray([[[1, 3]]], dtype=xp.int64))).tolist() == [[[2**42]]]
    tiny = nn.conv1d(xp.asarray([[[1.0, 1e-12]]], dtype=xp.float64), xp.ones((1, 1, 2), dtype=xp.float64))
    assert float(tiny[0, 0, 0]) == 1.0 + 1e-12
    assert not jax.config.jax_enable_x64


# "same"


@pytest.mark.parametrize(("n", "k", "s", "d"), [(5, 3, 1, 1), (5, 3, 2, 1), (6, 4, 3, 1), (7, 2, 2, 3), (4, 1, 3, 1)])
def test_same_padding(n: int, k: int, s: int, d: int) -> None:
    r = np.random.default_rng(5)
    x, w = r.standard_normal((1, 2, n)), r.standard_normal((3, 2, k))
    count = -(-n // s)
    total = max(0, (count - 1) * s + d * (k - 1) + 1 - n)
    want = convolve(x, w, stride=s, dilation=d, padding=[(total // 2, total - total // 2)])
    for word in ("same", "SAME"):
        got = nn.conv1d(array(x), array(w), stride=s, dilation=d, padding=word)
        assert got.shape == (1, 3, count)
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12)
    np.testing.assert_array_equal(
        np.asarray(nn.conv1d(array(x), array(w), padding="valid")), np.asarray(nn.conv1d(array(x), array(w)))
    )


@pytest.mark.parametrize(("k", "s", "d"), [(3, 2, 1), (4, 2, 1), (3, 1, 1), (2, 3, 1), (1, 2, 1), (3, 2, 2)])
def test_the_transpose_with_same_padding_is_the_adjoint(k: int, s: int, d: int) -> None:
    r = np.random.default_rng(6)
    w, y, image = r.standard_normal((2, 3, k)), r.standard_normal((1, 2, 4)), r.standard_normal((1, 3, 4 * s))
    forward = np.asarray(nn.conv1d(array(image), array(w), stride=s, dilation=d, padding="same"))
    back = np.asarray(nn.conv_transpose1d(array(y), array(w), stride=s, dilation=d, padding="same"))
    assert forward.shape == y.shape and back.shape == image.shape
    np.testing.assert_allclose(np.sum(forward * y), np.sum(image * back), rtol=1e-12)


def test_shape_and_alignment_of_transposes() -> None:
    # jax-ml/jax#17618, #11252, keras-team/keras#22876
    x, w = xp.ones((1, 1, 8, 8), dtype=xp.float32), xp.ones((1, 1, 4, 4), dtype=xp.float32)
    assert nn.conv_transpose2d(x, w, stride=4, padding=((0, 0), (0, 0))).shape == (1, 1, 32, 32)
    row = xp.asarray([[[[1.0, 2.0, 3.0, 4.0]]]], dtype=xp.float32)
    kernel = xp.asarray([[[[1.0, 10.0, 100.0]]]], dtype=xp.float32)
    for run in (nn.conv_transpose2d, xp.jit(functools.partial(nn.conv_transpose2d, stride=(1, 2), padding="SAME"))):
        got = run(row, kernel, stride=(1, 2), padding="SAME") if run is nn.conv_transpose2d else run(row, kernel)
        assert np.asarray(got).ravel().tolist() == [1, 10, 102, 20, 203, 30, 304, 40]


@pytest.mark.parametrize("case", ["1d", "2d_all", "2d_wide_padding", "3d"])
def test_the_transpose_is_the_gradient_of_the_convolution(case: str) -> None:
    size, _, params = TRANSPOSED[case]
    x, w, _ = operands(TRANSPOSED[case], True)
    name = len(size)
    extra = params.get("output_padding", 0)
    rest = {key: value for key, value in params.items() if key != "output_padding"}
    got = np.asarray(getattr(nn, f"conv_transpose{name}d")(array(x), array(w), **params))
    # The convolution that leads from an image of that size back to the size of x.
    pads = [(lo, hi) for lo, hi in pairs(rest.get("padding", 0), name)]
    assert got.shape[2:] == tuple(
        (n - 1) * s - lo - hi + d * (k - 1) + 1 + e
        for n, s, (lo, hi), d, k, e in zip(
            size,
            each(rest.get("stride", 1), name),
            pads,
            each(rest.get("dilation", 1), name),
            w.shape[2:],
            each(extra, name),
            strict=True,
        )
    )
    image = np.random.default_rng(7).standard_normal(got.shape)
    forward = convolve(image, w, **rest)
    assert forward.shape == x.shape
    np.testing.assert_allclose(np.sum(forward * x), np.sum(image * got), rtol=1e-11)


# The engine


def test_vmap_over_either_operand_and_both() -> None:
    r = np.random.default_rng(8)
    x, w = r.standard_normal((3, 2, 4, 5, 5)), r.standard_normal((3, 6, 2, 2, 2))
    params = {"stride": 2, "padding": 1, "groups": 2}
    call = functools.partial(nn.conv2d, **params)
    np.testing.assert_allclose(
        np.asarray(xp.vmap(call)(array(x), array(w))),
        np.stack([convolve(a, b, **params) for a, b in zip(x, w, strict=True)]),
        rtol=1e-12,
        atol=1e-12,
    )
    np.testing.assert_allclose(
        np.asarray(xp.vmap(lambda b: call(array(x[0]), b))(array(w))),
        np.stack([convolve(x[0], b, **params) for b in w]),
        rtol=1e-12,
        atol=1e-12,
    )


def test_the_program_is_that_of_plain_jax() -> None:
    x, w = jnp.ones((2, 4, 8, 8), jnp.float32), jnp.ones((6, 2, 3, 3), jnp.float32)

    def plain(x: jax.Array, w: jax.Array) -> jax.Array:
        return lax.conv_general_dilated(x, w, (2, 1), ((1, 1), (0, 1)), feature_group_count=2, precision="highest")

    def ours(x: jax.Array, w: jax.Array) -> jax.Array:
        return ops.conv2d(x, w, stride=(2, 1), padding=((1, 1), (0, 1)), groups=2)

    texts = []
    for fn in (plain, ours):
        compiled = jax.jit(fn).lower(x, w).compile().as_text()
        texts.append([line.split(", metadata=")[0] for line in compiled.splitlines() if "conv" in line and "=" in line])
    drop = [[line.replace("jit_plain", "").replace("jit_ours", "") for line in text] for text in texts]
    assert drop[0] and drop[0] == drop[1]


def test_precision() -> None:
    x, w = xp.ones((1, 1, 3, 3), dtype=xp.float32), xp.ones((1, 1, 2, 2), dtype=xp.float32)

    def program() -> str:
        return str(xp.jit(nn.conv2d).lower(x, w).as_text())

    assert "HIGHEST" in program()
    with xp.set_matmul_precision("default"):
        assert "HIGHEST" not in program()
    with pytest.raises(errors.InvalidArgument, match="precision"):
        ops.conv2d(x.jax, w.jax, precision="exact")


def test_empty_batches_and_channels() -> None:
    w = xp.ones((3, 2, 2, 2), dtype=xp.float32)
    assert nn.conv2d(xp.zeros((0, 2, 4, 4), dtype=xp.float32), w).shape == (0, 3, 3, 3)
    assert nn.conv_transpose2d(xp.zeros((0, 3, 4, 4), dtype=xp.float32), w).shape == (0, 2, 5, 5)
    none = nn.conv2d(xp.zeros((1, 0, 2, 2), dtype=xp.float32), xp.zeros((3, 0, 2, 2), dtype=xp.float32), xp.ones(3))
    np.testing.assert_array_equal(np.asarray(none), np.ones((1, 3, 1, 1)))
    assert nn.conv2d(xp.zeros((1, 2, 4, 4), dtype=xp.float32), w[:0]).shape == (1, 0, 3, 3)


def test_infinities_and_nan() -> None:
    x = np.asarray([[[np.inf, 1.0, np.nan, 2.0, 3.0]]])
    got = np.asarray(nn.conv1d(array(x), array([[[1.0, 2.0]]])))
    np.testing.assert_array_equal(got, [[[np.inf, np.nan, np.nan, 8.0]]])


# Bad input

SHAPES = {
    "conv": ((2, 4, 6, 6), (8, 2, 3, 3)),
    "transpose": ((2, 4, 6, 6), (4, 3, 3, 3)),
}
BAD: list[tuple[dict[str, object], type[Exception], str]] = [
    ({"stride": 0}, errors.InvalidArgument, "stride"),
    ({"stride": (1, -1)}, errors.InvalidArgument, "stride"),
    ({"stride": (1, 1, 1)}, errors.InvalidArgument, "2 integers"),
    ({"stride": 1.5}, errors.InvalidArgument, "integer"),
    ({"stride": True}, errors.InvalidArgument, "stride"),
    ({"stride": None}, errors.InvalidArgument, "stride"),
    ({"padding": -1}, errors.InvalidArgument, "Slice x first"),
    ({"padding": (0, -2)}, errors.InvalidArgument, "padding"),
    ({"padding": ((0, 0), (-1, 0))}, errors.InvalidArgument, "padding"),
    ({"padding": ((0, 0, 0), (0, 0, 0))}, errors.InvalidArgument, "pairs"),
    ({"padding": (1,)}, errors.InvalidArgument, "pairs"),
    ({"padding": "full"}, errors.InvalidArgument, '"same"'),
    ({"padding": 2**31}, errors.InvalidArgument, "padding"),
    ({"padding": 2**30}, MemoryError, "63 bits"),
    ({"dilation": 0}, errors.InvalidArgument, "dilation"),
    ({"groups": 3}, errors.InvalidArgument, "divisor"),
    ({"groups": 0}, errors.InvalidArgument, "groups"),
    ({"groups": -2}, errors.InvalidArgument, "groups"),
    ({"dtype": xp.int32}, errors.DTypeMismatch, "kind"),
    ({"dtype": xp.complex64}, errors.UnsupportedDType, "complex64"),
]


@pytest.mark.parametrize(
    ("params", "error", "text"), BAD, ids=lambda value: str(value) if isinstance(value, dict) else ""
)
@pytest.mark.parametrize("kind", SHAPES)
def test_bad_parameters(kind: str, params: dict[str, object], error: type[Exception], text: str) -> None:
    x, w = (xp.ones(shape, dtype=xp.float32) for shape in SHAPES[kind])
    fn = nn.conv2d if kind == "conv" else nn.conv_transpose2d
    if kind == "transpose" and params == {"padding": 2**30}:
        error, text = errors.InvalidArgument, "at least one element"
    with pytest.raises(error, match=text):
        fn(x, w, **{"groups": 2, **params})


@pytest.mark.parametrize(
    ("x", "w", "b", "groups", "error"),
    [
        ((6, 6), (8, 4, 3, 3), None, 1, errors.InvalidDimension),
        ((1, 1, 4, 6, 6), (8, 4, 3, 3), None, 1, errors.InvalidDimension),
        ((2, 4, 6, 6), (8, 4, 3), None, 1, errors.InvalidDimension),
        ((2, 4, 6, 6), (8, 3, 3, 3), None, 1, errors.ShapeMismatch),
        ((2, 4, 6, 6), (8, 4, 3, 3), None, 2, errors.ShapeMismatch),
        ((2, 4, 6, 6), (7, 2, 3, 3), None, 2, errors.InvalidArgument),
        ((2, 4, 6, 6), (8, 4, 3, 3), (4,), 1, errors.ShapeMismatch),
        ((2, 4, 6, 6), (8, 4, 3, 3), (8, 1), 1, errors.ShapeMismatch),
        ((2, 4, 6, 6), (8, 4, 7, 3), None, 1, errors.InvalidArgument),
        ((2, 4, 6, 6), (8, 4, 0, 3), None, 1, errors.InvalidArgument),
        ((2, 4, 0, 6), (8, 4, 1, 3), None, 1, errors.InvalidArgument),
    ],
)
def test_bad_shapes(
    x: tuple[int, ...], w: tuple[int, ...], b: tuple[int, ...] | None, groups: int, error: type[Exception]
) -> None:
    arrays = [None if s is None else xp.zeros(s, dtype=xp.float32) for s in (x, w, b)]
    with pytest.raises(error, match="conv2d: argument"):
        nn.conv2d(*arrays, groups=groups)
    with pytest.raises(error):
        jax.jit(functools.partial(ops.conv2d, groups=groups))(*(None if a is None else a.jax for a in arrays))


@pytest.mark.parametrize(
    ("x", "w", "params", "error"),
    [
        ((2, 4, 6, 6), (3, 4, 3, 3), {}, errors.ShapeMismatch),
        ((2, 4, 6, 6), (4, 3, 3, 3), {"groups": 3}, errors.InvalidArgument),
        ((2, 4, 6, 6), (4, 3, 3, 3), {"output_padding": 1}, errors.InvalidArgument),
        ((2, 4, 6, 6), (4, 3, 3, 3), {"output_padding": -1}, errors.InvalidArgument),
        ((2, 4, 6, 6), (4, 3, 3, 3), {"output_padding": 1, "padding": "same", "stride": 2}, errors.InvalidArgument),
        ((2, 4, 6, 6), (4, 3, 3, 3), {"padding": 4}, errors.InvalidArgument),
        ((2, 4, 0, 6), (4, 3, 3, 3), {}, errors.InvalidArgument),
        ((4, 6), (4, 3, 3, 3), {}, errors.InvalidDimension),
    ],
)
def test_bad_transposes(
    x: tuple[int, ...], w: tuple[int, ...], params: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error, match="conv_transpose2d: argument"):
        nn.conv_transpose2d(xp.zeros(x, dtype=xp.float32), xp.zeros(w, dtype=xp.float32), **params)


def test_bad_dtypes() -> None:
    x, w = xp.ones((1, 1, 3, 3), dtype=xp.float32), xp.ones((1, 1, 2, 2), dtype=xp.float32)
    with pytest.raises(errors.UnsupportedDType, match="bool"):
        nn.conv2d(x > 0, w)
    with pytest.raises(errors.UnsupportedDType, match="complex64"):
        nn.conv2d(x, xp.astype(w, xp.complex64))
    with pytest.raises(errors.DTypeMismatch, match="int32"):
        nn.conv2d(x, xp.astype(w, xp.int32))
    with pytest.raises(errors.DTypeMismatch, match="bias"):
        nn.conv2d(x, w, xp.ones(1, dtype=xp.int32))
    with pytest.raises(errors.UnsupportedDType, match="int4"):
        nn.conv2d(xp.astype(x, "int4"), xp.astype(w, "int4"))
