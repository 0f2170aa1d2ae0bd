"""quantize and dequantize: against literals, the NumPy reference and the bounds on errors."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.backend.reference import quant as reference
from rtx_jax.errors import InvalidArgument, InvalidDimension, ShapeMismatch, UnsupportedDType
from rtx_jax.quant import PerBlock, PerChannel, PerTensor, QTensor, QuantScheme, dequantize, quantize

TINY = 2.0**-126


def numbers(shape: tuple[int, int] = (16, 64)) -> np.ndarray:
    """Rows of ordinary, tied, one-sided, tiny, huge and zero numbers."""
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x[0] = 0
    x[1] *= 1e-38
    x[2] *= 1e37
    x[3] = np.round(x[3] * 4) / 2
    x[3, 0] = 63.5  # scale 1/2: halves are ties
    x[4] *= 1e-36
    x[5] = np.arange(shape[1]) - shape[1] / 2 + 0.5
    x[6] = -np.abs(x[6])
    x[7] = 1e-45
    x[8] = -0.0
    return x


def by_reference(x: np.ndarray, scheme: QuantScheme, calibration: str) -> list[np.ndarray]:
    *parts, finite = reference.quantize(
        x,
        value=scheme.value,
        block=scheme.block(x.shape),
        scale_dtype=scheme.scale_dtype,
        global_scale=scheme.global_scale,
        symmetric=scheme.symmetric,
        calibration=calibration,
        packed=scheme.packed,
    )
    assert finite
    return parts


# Each format, granularity, scale type, calibration, symmetry and storage, in few compilations.
TABLE = [
    (QuantScheme("int8"), "minmax"),
    (QuantScheme("int8", PerChannel(0)), "mse"),
    (QuantScheme("int8", PerChannel(0), symmetric=False), "absmean"),
    (QuantScheme("int8", PerBlock((4, 16)), "e8m0", symmetric=False), "minmax"),
    (QuantScheme("int4", PerBlock((32,)), "bfloat16"), "absmax"),
    (QuantScheme("int4", PerBlock((16,)), "bfloat16", symmetric=False), "mse"),
    (QuantScheme("int4", PerChannel(1), "e4m3", True, "native"), "minmax"),
    (QuantScheme("fp8_e4m3", PerChannel(0), "bfloat16"), "minmax"),
    (QuantScheme("fp8_e4m3", PerBlock((32,)), "e8m0"), "absmean"),
    (QuantScheme("fp8_e5m2", PerChannel(0)), "mse"),
    (QuantScheme("fp4_e2m1", PerBlock((32,)), "e8m0"), "minmax"),
    (QuantScheme("fp4_e2m1", PerBlock((16,)), "e4m3", True), "mse"),
]


@pytest.mark.parametrize(("scheme", "calibration"), TABLE)
def test_the_reference_finds_the_same_bytes(scheme: QuantScheme, calibration: str) -> None:
    x = numbers()
    q = quantize(jnp.asarray(x), scheme, calibration=calibration)  # type: ignore[arg-type]
    for got, wanted in zip(q.parts(), by_reference(x, scheme, calibration), strict=True):
        assert got.dtype == wanted.dtype and got.shape == wanted.shape
        assert np.asarray(got).tobytes() == wanted.tobytes()
    assert sum(part.nbytes for part in q.parts()) == scheme.storage_bytes(x.shape) == q.storage_bytes


@pytest.mark.parametrize(("scheme", "calibration"), [row for row in TABLE if row[1] in ("minmax", "absmax")])
def test_errors_are_within_the_bound(scheme: QuantScheme, calibration: str) -> None:
    x = numbers()
    q = quantize(jnp.asarray(x), scheme, calibration=calibration)  # type: ignore[arg-type]
    back = np.asarray(dequantize(q)).astype(np.float64)
    scale = np.asarray(q.scale).astype(np.float64) * (1 if q.overall is None else float(q.overall))
    for axis, size in enumerate(scheme.block(x.shape)):
        scale = np.repeat(scale, size, axis)
    scale = scale[: x.shape[0], : x.shape[1]]
    error = np.abs(back - x.astype(np.float64))
    form = scheme.format
    if form.integer:
        bound = scale / 2
    else:
        exponent = np.floor(np.log2(np.maximum(np.abs(x.astype(np.float64)) / scale, 2.0**form.min_exponent)))
        bound = scale * 2.0 ** (exponent - form.mantissa) / 2
    # One rounding of the product, and of the quotient that was rounded to the code.
    assert (error <= bound * (1 + 2.0**-20) + np.abs(x) * 2.0**-22 + TINY).all()


@pytest.mark.parametrize("kind", [xp.asarray, jnp.asarray, np.asarray])
def test_the_kind_of_array_is_kept(kind: object) -> None:
    x = kind(np.asarray([0.5, -1.27, 1.0], np.float32))  # type: ignore[operator]
    q = quantize(x, QuantScheme())
    wanted = jax.Array if kind is jnp.asarray else xp.Array
    assert isinstance(q, QTensor) and isinstance(q.data, wanted) and isinstance(q.scale, wanted)
    assert isinstance(dequantize(q), wanted)
    np.testing.assert_array_equal(np.asarray(q.data), np.asarray([50, -127, 100], np.int8))


def test_scale_as_burn_computes_it() -> None:
    # Its test of a symmetric 8-bit scheme: [-1.8, -1.0, 0.0, 0.5] has scale 0.0141732 and codes -127, -71, 0, 35.
    q = quantize(xp.asarray([-1.8, -1.0, 0.0, 0.5], dtype=xp.float32), QuantScheme("int8"))
    assert float(q.scale[0]) == pytest.approx(0.0141732, abs=1e-7)
    assert np.asarray(q.data).tolist() == [-127, -71, 0, 35]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_dtypes(dtype: str) -> None:
    x = xp.asarray([-1.0, 0.25, 1.0], dtype=getattr(xp, dtype))
    q = quantize(x, QuantScheme("int8"))
    assert np.asarray(q.data).tolist() == [-127, 32, 127]
    assert q.dtype == x.dtype and dequantize(q).dtype == x.dtype
    assert dequantize(q, dtype=xp.float32).dtype == xp.float32


def test_ties_go_to_even_and_the_range_is_symmetric() -> None:
    scheme = QuantScheme("int8")
    q = quantize(xp.asarray([0.5, 1.5, 2.5, -0.5, -1.5, -2.5]), scheme, scale=1.0)
    assert np.asarray(q.data).tolist() == [0, 2, 2, 0, -2, -2]
    q = quantize(xp.asarray([1e9, -1e9]), scheme, scale=1.0)
    assert np.asarray(q.data).tolist() == [127, -127]


def test_scales_are_rounded_up_to_their_type() -> None:
    x = np.asarray([[1.0, 0.3], [127.0 * 0.75, 0.0]], np.float32)
    power = quantize(jnp.asarray(x), QuantScheme("int8", PerChannel(0), "e8m0"))
    assert np.asarray(power.scale).astype(np.float32).tolist() == [[2.0**-6], [1.0]]  # 1/127 <= 1/64, 3/4 <= 1
    half = quantize(jnp.asarray(x), QuantScheme("int8", PerChannel(0), "bfloat16"))
    for got, ideal in zip(np.asarray(half.scale).ravel(), (1 / 127, 0.75), strict=True):
        below = np.asarray(got).view(np.uint16) - np.uint16(1)
        assert float(got) >= ideal > float(below.view(ml_dtypes.bfloat16))
    # float32: the smallest s with 127 s >= x, exactly, for many x.
    x = np.random.default_rng(1).uniform(1e-30, 3e38, (500, 1)).astype(np.float32)
    s = np.asarray(quantize(jnp.asarray(x), QuantScheme("int8", PerChannel(0))).scale)
    assert (s.astype(np.float64) * 127 >= x).all()
    assert (np.nextafter(s, np.float32(0)).astype(np.float64) * 127 < x).all()


def test_a_block_of_zeros_has_scale_1() -> None:
    x = np.zeros((2, 8), np.float32)
    x[1] = np.linspace(-1, 1, 8)
    for value in ("int8", "int4", "fp8_e4m3", "fp4_e2m1"):
        q = quantize(jnp.asarray(x), QuantScheme(value, PerBlock((8,))))  # type: ignore[arg-type]
        assert float(q.scale[0, 0]) == 1.0 and not np.asarray(dequantize(q))[0].any()


def test_zero_is_exact_in_an_asymmetric_scheme() -> None:
    x = np.asarray([[3.0, 0.0, 7.0, 5.0], [-9.0, 0.0, -1.0, -0.5]], np.float32)
    for value in ("int8", "int4"):
        q = quantize(jnp.asarray(x), QuantScheme(value, PerChannel(0), symmetric=False))  # type: ignore[arg-type]
        back = np.asarray(dequantize(q))
        assert (back[:, 1] == 0).all()
        steps = 255 if value == "int8" else 15
        assert np.abs(back - x).max() <= 9 / steps / 2 * (1 + 1e-6)


def test_float8_saturates() -> None:
    x = jnp.asarray([1000.0, 448.0, 465.0, -1000.0], jnp.float32)
    q = quantize(x, QuantScheme("fp8_e4m3"), scale=1.0)
    assert q.data.dtype == ml_dtypes.float8_e4m3fn
    assert np.asarray(q.data).astype(np.float32).tolist() == [448.0, 448.0, 448.0, -448.0]


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ("fp8_e4m3", ml_dtypes.float8_e4m3fn),
        ("fp8_e5m2", ml_dtypes.float8_e5m2),
        ("fp4_e2m1", ml_dtypes.float4_e2m1fn),
    ],
)
def test_floats_round_once_to_nearest_even(value: str, dtype: type) -> None:
    """Every number of the format, every midpoint of two, and the neighbours of midpoints."""
    scheme = QuantScheme(value, store="native")  # type: ignore[arg-type]
    codes = np.arange(16 if value == "fp4_e2m1" else 256, dtype=np.uint8).view(dtype).astype(np.float64)
    points = np.unique(codes[np.isfinite(codes)])
    middle = ((points[1:] + points[:-1]) / 2).astype(np.float32)
    x = np.concatenate([points.astype(np.float32), middle, np.nextafter(middle, 1e9), np.nextafter(middle, -1e9)])
    x = x[np.abs(x) >= TINY].astype(np.float32)
    q = quantize(jnp.asarray(x), scheme, scale=1.0)
    distance = np.abs(points[None] - x.astype(np.float64)[:, None])
    nearest = distance == distance.min(1, keepdims=True)
    order = np.arange(points.size) - np.flatnonzero(points == 0)[0]
    even = nearest & (order % 2 == 0)
    wanted = np.where(nearest.sum(1) == 1, points[nearest.argmax(1)], points[even.argmax(1)])
    np.testing.assert_array_equal(np.asarray(dequantize(q)), wanted)


def test_int4_lies_two_in_a_byte_the_first_in_the_low_half() -> None:
    x = jnp.asarray([[1.0, -2.0, 7.0, -7.0]], jnp.float32)
    q = quantize(x, QuantScheme("int4"))
    assert q.data.dtype == np.uint8 and np.asarray(q.data).tolist() == [[0xE1, 0x97]]
    odd = quantize(x[:, :3], QuantScheme("int4"))
    assert np.asarray(odd.data).tolist() == [0xE1, 0x07]
    assert np.asarray(dequantize(odd)).tolist() == [[1.0, -2.0, 7.0]]


def test_fp4_codes() -> None:
    x = jnp.asarray([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.5, -6.0], jnp.float32)
    q = quantize(x, QuantScheme("fp4_e2m1", store="native"))
    assert np.asarray(q.data).tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 9, 15]
    np.testing.assert_array_equal(np.asarray(dequantize(q)), np.asarray(x))


@pytest.mark.parametrize("value", ["int8", "int4", "fp8_e5m2", "fp4_e2m1"])
def test_quantizing_again_changes_nothing(value: str) -> None:
    scheme = QuantScheme(value, PerBlock((16,)), "bfloat16")  # type: ignore[arg-type]
    once = dequantize(quantize(jnp.asarray(numbers()), scheme))
    twice = quantize(once, scheme, scale=quantize(jnp.asarray(numbers()), scheme).scale.astype(jnp.float32))
    np.testing.assert_array_equal(np.asarray(dequantize(twice)), np.asarray(once))


def test_mse_is_no_worse_than_minmax_and_cuts_outliers() -> None:
    x = np.random.default_rng(2).standard_normal((8, 64)).astype(np.float32)
    x[:, 0] = 8
    errors = {}
    for calibration in ("minmax", "mse"):
        q = quantize(jnp.asarray(x), QuantScheme("int4", PerChannel(0)), calibration=calibration)  # type: ignore[arg-type]
        errors[calibration] = ((np.asarray(dequantize(q)) - x) ** 2).sum(1)
    assert (errors["mse"] <= errors["minmax"] * (1 + 1e-5)).all() and errors["mse"].sum() < errors["minmax"].sum()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [xp.asarray, jnp.asarray])
def test_numbers_that_are_not_finite_are_refused(bad: float, kind: object) -> None:
    with pytest.raises(InvalidArgument, match="NaN or infinity.*where"):
        quantize(kind(np.asarray([1.0, bad], np.float32)), QuantScheme())  # type: ignore[operator]


def test_a_float64_beyond_float32_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="infinity"):
        quantize(xp.asarray([1.0, 1e300], dtype=xp.float64), QuantScheme())


@pytest.mark.parametrize("scale_dtype", ["float32", "e8m0"])
def test_under_a_trace_they_poison_their_block(scale_dtype: str) -> None:
    scheme = QuantScheme("int8", PerChannel(0), scale_dtype)  # type: ignore[arg-type]
    x = jnp.asarray([[1.0, np.nan], [2.0, np.inf], [1.0, -1.0]], jnp.float32)
    back = np.asarray(jax.jit(lambda x: dequantize(quantize(x, scheme)))(x))
    assert not np.isfinite(back[:2]).any() and np.isfinite(back[2]).all()


def test_bad_operands() -> None:
    x = xp.ones((4, 6), dtype=xp.float32)
    with pytest.raises(UnsupportedDType, match="real floating"):
        quantize(xp.asarray([1, 2]), QuantScheme())
    with pytest.raises(UnsupportedDType, match="real floating"):
        quantize(xp.asarray([1j]), QuantScheme())
    with pytest.raises(ShapeMismatch, match="divide"):
        quantize(x, QuantScheme("int8", PerBlock((4,))))
    with pytest.raises(InvalidDimension):
        quantize(x, QuantScheme("int8", PerChannel(2)))
    with pytest.raises(InvalidArgument, match="calibration"):
        quantize(x, QuantScheme(), calibration="median")  # type: ignore[call-overload]
    for scale in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(InvalidArgument, match="scale"):
            quantize(x, QuantScheme(), scale=scale)
    with pytest.raises(ShapeMismatch, match="scale"):
        quantize(x, QuantScheme(), scale=xp.ones(3, dtype=xp.float32))
    with pytest.raises(UnsupportedDType, match="real floating"):
        dequantize(quantize(x, QuantScheme()), dtype=xp.int32)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (0, 4), (3, 1)])
def test_small_shapes(shape: tuple[int, ...]) -> None:
    x = np.full(shape, -2.5, np.float32)
    for scheme in (QuantScheme("int4"), QuantScheme("int8", PerTensor(), symmetric=False)):
        q = quantize(jnp.asarray(x), scheme)
        back = dequantize(q)
        assert back.shape == shape and sum(p.nbytes for p in q.parts()) == scheme.storage_bytes(shape)
        np.testing.assert_allclose(np.asarray(back), x, rtol=1e-6)
