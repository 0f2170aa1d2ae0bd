"""The reference's quantization: hand-worked scales and codes, bounds of the error, packing, products."""

import ml_dtypes
import numpy as np
import pytest

from rtx_jax.backend.reference.quant import (
    dequantize,
    integer_matmul,
    quantize,
    quantized_matmul,
    weight_matmul,
)
from rtx_jax.errors import ShapeMismatch

rng = np.random.default_rng(12)
STEPS = {"int8": None, "int4": None, "fp8_e4m3": 2.0**-4, "fp8_e5m2": 2.0**-3, "fp4_e2m1": 2.0**-2}


def encode(x, scale=None, **params):
    x = np.asarray(x, np.float32)
    options = {
        "value": "int8",
        "block": x.shape,
        "scale_dtype": "float32",
        "global_scale": False,
        "symmetric": True,
        "calibration": "minmax",
        "packed": False,
        **params,
    }
    return quantize(x, None if scale is None else np.asarray(scale, np.float32), **options)


def test_scale_of_a_literal():
    codes, scale, finite = encode([1.8, -1.0, 0.0])
    assert scale.shape == (1,) and scale.dtype == np.float32
    assert float(scale[0]) == pytest.approx(0.0141732, abs=1e-7)
    assert float(scale[0]) * 127 >= float(np.float32(1.8))
    assert codes.dtype == np.int8 and codes.tolist() == [127, -71, 0]
    assert finite


def test_ties_go_to_even_and_the_range_is_symmetric():
    codes, *_ = encode([0.5, 1.5, 2.5, -0.5, -1.5, -2.5], [1.0])
    assert codes.tolist() == [0, 2, 2, 0, -2, -2]
    assert encode([-1.0, 1.0, 0.25])[0].tolist() == [-127, 127, 32]
    assert encode([1e9, -1e9], [1.0])[0].tolist() == [127, -127]
    assert encode([1e9, -1e9], [1.0], value="int4")[0].tolist() == [7, -7]


def test_float8_saturates():
    codes, scale, _ = encode([1000, 448, 465, -1000], [1.0], value="fp8_e4m3")
    assert codes.dtype == ml_dtypes.float8_e4m3fn
    assert codes.astype(float).tolist() == [448, 448, 448, -448]
    assert scale.tolist() == [1]


def test_a_block_of_zeros_has_scale_1():
    x = np.zeros((2, 8), np.float32)
    x[1] = np.linspace(-1, 1, 8)
    codes, scale, _ = encode(x, block=(1, 8))
    assert scale.shape == (2, 1) and scale[0] == 1 and not codes[0].any()
    # Numbers that devices flush to zero count as zero.
    assert encode([1e-41, 0.0])[1].tolist() == [1]


def test_zero_points():
    # From 0 to 255 in steps of 1: scale 1, and -128 stands for 0.
    codes, scale, zero, _ = encode([0.0, 255.0, 100.4], symmetric=False)
    assert (scale.tolist(), zero.tolist()) == ([1], [-128]) and zero.dtype == np.int8
    assert codes.tolist() == [-128, 127, -28]
    # A range that does not reach zero is widened to it.
    codes, scale, zero, _ = encode([510.0, 300.0], symmetric=False)
    assert (scale.tolist(), zero.tolist(), codes.tolist()) == ([2], [-128], [127, 22])


@pytest.mark.parametrize(("scale_dtype", "want"), [("float32", 1.3), ("bfloat16", 1.3046875), ("e8m0", 2.0)])
def test_scales_are_rounded_up(scale_dtype, want):
    scale = encode([1.3 * 127], [1.3], scale_dtype=scale_dtype)[1]
    assert float(scale[0]) == float(np.float32(want))
    assert float(encode([4.0], [0.25], scale_dtype=scale_dtype)[1][0]) == 0.25


def test_global_scales():
    x = np.stack([np.full(4, 7.0), np.full(4, 1.75)])
    codes, scale, overall, _ = encode(x, value="int4", block=(1, 4), global_scale=True)
    assert (overall.shape, overall.dtype) == ((), np.float32)
    assert (scale.ravel().tolist(), float(overall)) == ([1, 0.25], 1.0)
    assert codes.tolist() == [[7] * 4] * 2
    codes, scale, overall, _ = encode(x, value="fp4_e2m1", block=(1, 4), global_scale=True, scale_dtype="e4m3")
    assert scale.dtype == ml_dtypes.float8_e4m3fn
    back = scale.astype(float) * float(overall)
    assert (back.ravel() * 6 >= [7, 1.75]).all() and float(scale.astype(float).max()) <= 448


def test_calibrations():
    x = np.array([-1.0, 0.0, 0.0, 3.0])
    assert float(encode(x, calibration="absmax", symmetric=False)[1][0]) == pytest.approx(6 / 255, rel=1e-6)
    assert float(encode(x, calibration="minmax", symmetric=False)[1][0]) == pytest.approx(4 / 255, rel=1e-6)
    codes, scale, zero, _ = encode(-x, calibration="minmax", symmetric=False)
    assert float(scale[0]) == pytest.approx(4 / 255, rel=1e-6)
    assert (zero.tolist(), codes.tolist()) == ([63], [127, 63, 63, -128])
    assert float(encode(x, calibration="absmean")[1][0]) == pytest.approx(1 / 127, rel=1e-6)
    # One outlier: a smaller range costs it less than it saves the others.
    x = np.concatenate([np.linspace(-1, 1, 200), [1.4]])

    def error(calibration):
        codes, scale, _ = encode(x, value="int4", calibration=calibration)
        return float(((codes * scale.astype(float) - x) ** 2).sum())

    assert error("mse") < error("absmax")


@pytest.mark.parametrize("value", STEPS)
@pytest.mark.parametrize("block", [(6, 32), (1, 32), (3, 8)])
def test_round_trips(value, block):
    x = (rng.standard_normal((6, 32)) * 10.0 ** rng.integers(-3, 3, (6, 1))).astype(np.float32)
    shape = {"value": value, "block": block, "scale_dtype": "float32"}
    for packed in (False, True):
        codes, scale, _ = encode(x, packed=packed, **shape)
        assert scale.shape == (6 // block[0], 32 // block[1])
        if packed and value in ("int4", "fp4_e2m1"):
            assert codes.shape == (6, 16) and codes.dtype == np.uint8
        back = dequantize(codes, scale, shape=x.shape, packed=packed, dtype=np.dtype(np.float32), **shape)
        steps = np.repeat(np.repeat(scale, block[0], 0), block[1], 1)
        relative = STEPS[value]
        half = (
            0.5
            if relative is None
            else np.maximum(np.abs(x) / steps * relative, {"fp4_e2m1": 0.25}.get(value, 2.0**-10))
        )
        assert (np.abs(back - x) <= steps * half * (1 + 1e-6)).all()
        again = encode(back, packed=packed, **shape)
        np.testing.assert_allclose(
            dequantize(again[0], again[1], shape=x.shape, packed=packed, dtype=np.dtype(np.float32), **shape),
            back,
            rtol=1e-6,
        )


def test_packing_of_an_odd_number_of_codes():
    x = np.array([[1.0, -2.0, 3.0], [-4.0, 5.0, 7.0]])
    codes, scale, _ = encode(x, [[1.0]], value="int4", packed=True)
    assert codes.tolist() == [0xE1, 0xC3, 0x75]
    back = dequantize(
        codes,
        scale,
        value="int4",
        shape=(2, 3),
        block=(2, 3),
        scale_dtype="float32",
        packed=True,
        dtype=np.dtype(np.float64),
    )
    assert back.tolist() == x.tolist()
    codes, *_ = encode([1.0, 2.0, 3.0], [1.0], value="int4", packed=True)
    assert codes.tolist() == [0x21, 0x03]


def test_e2m1_codes():
    numbers = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    codes, *_ = encode([*numbers, *(-n for n in numbers)], [1.0], value="fp4_e2m1")
    assert codes.tolist() == [*range(8), 0, *range(9, 16)]  # what counts as zero is positive
    # Ties: 0.25 and 5 lie in the middle.
    assert encode([0.25, 0.75, 5.0, 100.0], [1.0], value="fp4_e2m1")[0].tolist() == [0, 2, 6, 7]


def test_what_is_not_finite_is_told():
    for bad in (np.nan, np.inf):
        assert not encode([1.0, bad])[-1]


def test_blocks_that_do_not_divide():
    with pytest.raises(ShapeMismatch):
        encode(np.ones((4, 6)), block=(1, 4))


def test_empty():
    codes, scale, finite = encode(np.zeros((0, 4)), block=(0, 4))
    assert codes.shape == (0, 4) and finite


def test_products():
    a, b = rng.integers(-128, 128, (3, 300), np.int8), rng.integers(-128, 128, (300, 2), np.int8)
    want = a.astype(int) @ b.astype(int)
    assert integer_matmul(a, b).tolist() == want.tolist() and integer_matmul(a, b).dtype == np.int32
    assert integer_matmul(a, b.T.copy(), transposed=True).tolist() == want.tolist()
    scale = np.full((1, 1), 0.5, np.float32)
    params = {"value": "int8", "shape": (300, 2), "block": (300, 2), "scale_dtype": "float32", "packed": False}
    rows = rng.standard_normal((3, 300)).astype(np.float32)
    got = weight_matmul(rows, b, scale, None, None, transposed=False, **params)
    np.testing.assert_allclose(got, rows.astype(float) @ (b * 0.5), rtol=1e-6, atol=1e-5)
    row_scale, zero = np.array([[1.0], [2.0], [0.25]], np.float32), np.array([[3.0], [0.0], [-5.0]], np.float32)
    got = quantized_matmul(a, row_scale, zero, b, scale, None, None, transposed=False, pairs=False, **params)
    exact = ((a.astype(int) - zero.astype(int)) @ b.astype(int)) * row_scale.astype(float) * 0.5
    assert got.dtype == np.float32 and np.array_equal(got, exact.astype(np.float32))
