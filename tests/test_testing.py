"""The assertions: what they let pass, and what the text of a failure names."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.errors import ConcretizationError, DTypeMismatch, InvalidArgument, UnsupportedDType
from rtx_jax.testing import assert_allclose, assert_array_equal, assert_ulp, ulp_distance

CPUS = jax.devices("cpu")


def _fails(call, *words):
    with pytest.raises(AssertionError) as caught:
        call()
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_equal_arrays_pass():
    x = xp.asarray([1.0, float("nan"), float("inf")])
    assert_array_equal(x, xp.asarray([1.0, float("nan"), float("inf")]))
    assert_array_equal(x, np.array([1.0, np.nan, np.inf]))
    assert_array_equal(x, [1.0, np.nan, np.inf])
    assert_array_equal(xp.asarray([1, 2]), [1, 2])
    assert_array_equal(xp.ones((2, 3)), 1.0)
    assert_array_equal(xp.zeros((0, 3)), np.zeros((0, 3)))
    assert_array_equal(xp.asarray(True), True)
    assert_array_equal(xp.asarray([1 + 2j]), [1 + 2j])


def test_the_first_difference_is_named():
    x = xp.asarray([[1, 2, 3], [4, 5, 6]])
    _fails(
        lambda: assert_array_equal(x, [[1, 2, 3], [4, 0, 7]], err_msg="after the update"),
        "after the update",
        "2 of 6 elements",
        "at index (1, 1)",
        "got np.int64(5), wanted np.int64(0)",
        "largest difference 5",
    )
    _fails(lambda: assert_array_equal(xp.asarray(1.5), 2.0), "got np.float64(1.5), wanted np.float64(2.0)")


def test_nan_and_the_sign_of_zero():
    nan = xp.asarray([float("nan")])
    _fails(lambda: assert_array_equal(nan, nan, equal_nan=False), "index (0,)")
    _fails(lambda: assert_array_equal(nan, [0.0]), "nan")
    zeros = xp.asarray([0.0, -0.0])
    assert_array_equal(zeros, [0.0, 0.0])
    _fails(lambda: assert_array_equal(zeros, [0.0, 0.0], signed_zeros=True), "index (1,)")
    assert_array_equal(zeros, [0.0, -0.0], signed_zeros=True)
    _fails(lambda: assert_array_equal(xp.asarray([complex(0.0, -0.0)]), [0j], signed_zeros=True), "index (0,)")


@pytest.mark.parametrize("check", [assert_array_equal, assert_allclose, assert_ulp])
def test_strict_looks_at_namespace_device_dtype_and_shape(check):
    x = xp.ones(3)
    _fails(lambda: check(np.ones(3), x), "numpy.ndarray", "wanted an Array")
    _fails(lambda: check(x, np.ones(3, np.float32)), "dtype float64, wanted float32")
    _fails(lambda: check(x, xp.ones(3, dtype=xp.float32)), "dtype float64, wanted float32")
    _fails(lambda: check(x, xp.ones((1, 3))), "shape (3,), wanted (1, 3)")
    _fails(lambda: check(x, [[1.0, 1.0, 1.0]]), "shape (3,), wanted (1, 3)")
    _fails(lambda: check(x, xp.ones(3, device=CPUS[2])), "on cpu:0, wanted on cpu:2")
    check(x, jnp.ones(3, np.float32), strict=False)
    check(x, np.ones((2, 3)), strict=False)
    check(np.ones(3), x, strict=False)
    check(x, xp.ones(3, device=CPUS[2]), strict=False)
    _fails(lambda: check(x, np.ones(4), strict=False), "does not fit")


def test_close_arrays():
    x = xp.asarray([1.0, 2.0, float("inf"), float("nan")])
    assert_allclose(x, [1.0 + 5e-8, 2.0, np.inf, np.nan])
    assert_allclose(x, [1.1, 2.0, np.inf, np.nan], atol=0.2)
    assert_allclose(x, [1.1, 2.0, np.inf, np.nan], rtol=0.1)
    _fails(lambda: assert_allclose(x, [1.1, 2.0, np.inf, np.nan]), "index (0,)", "rtol=1e-07", "0.1")
    _fails(lambda: assert_allclose(x, [1.0, 2.0, -np.inf, np.nan]), "index (2,)")
    _fails(lambda: assert_allclose(x, [1.0, 2.0, 1e308, np.nan], rtol=10), "index (2,)")
    _fails(lambda: assert_allclose(x, [1.0, 2.0, np.inf, np.nan], equal_nan=False), "index (3,)")
    _fails(lambda: assert_allclose(xp.asarray([3 + 4j]), [3 + 5j]), "largest difference 1,")


@pytest.mark.parametrize(
    ("dtype", "near", "far"),
    [
        ("float64", 1 + 9e-8, 1 + 2e-7),
        ("float32", 1 + 9e-6, 1 + 2e-5),
        ("float16", 1 + 2**-10, 1 + 2**-8),
        ("bfloat16", 1 + 2**-6, 1 + 2**-4),
        ("float8_e4m3fn", 1.125, 1.5),
        ("int32", 1, 2),
    ],
)
def test_the_tolerance_follows_the_dtype(dtype, near, far):
    x = xp.astype(xp.asarray([near]), getattr(xp, dtype))
    assert_allclose(x, [1])
    y = xp.astype(xp.asarray([far]), getattr(xp, dtype))
    _fails(lambda: assert_allclose(y, [1]), "index (0,)")


def test_a_negative_tolerance():
    with pytest.raises(InvalidArgument, match="rtol"):
        assert_allclose(xp.ones(1), 1.0, rtol=-1.0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2])
def test_distances(dtype):
    dtype = np.dtype(dtype)
    info = ml_dtypes.finfo(dtype)
    tiny, top = info.smallest_subnormal, info.max
    one = np.ones((), dtype)
    above = (one + info.eps).astype(dtype)
    cases = [
        (one, one, 0),
        (one, above, 1),
        (dtype.type(0.0), dtype.type(-0.0), 0),
        (dtype.type(0.0), tiny, 1),
        (-tiny, tiny, 2),
        (top, dtype.type(np.inf), 1),
    ]
    for a, b, steps in cases:
        for x, y in ((a, b), (b, a)):
            found = ulp_distance(np.asarray(x, dtype), np.asarray(y, dtype))
            assert found.dtype == np.uint64 and int(found) == steps, (a, b)
    span = ulp_distance(np.asarray(-np.inf, dtype), np.asarray(np.inf, dtype))
    word = np.asarray(np.inf, dtype).view(f"u{dtype.itemsize}")
    assert int(span) == 2 * int(word)


def test_distances_of_nan_and_of_arrays():
    nan, one = np.array(np.nan), np.array(1.0)
    assert int(ulp_distance(nan, nan)) == 0
    assert int(ulp_distance(nan, nan, equal_nan=False)) == 2**64 - 1
    assert int(ulp_distance(nan, one)) == 2**64 - 1
    x = xp.asarray([1.0, 2.0])
    assert ulp_distance(x, xp.asarray([1.0, 2.0 + 2**-51])).tolist() == [0, 1]
    assert ulp_distance(x, xp.asarray(1.0)).tolist() == [0, 2**52]
    z = xp.asarray([complex(1.0, 1.0)])
    assert ulp_distance(z, xp.asarray([complex(1.0, 1.0 + 2**-51)])).tolist() == [2]


def test_what_has_no_distance():
    with pytest.raises(DTypeMismatch, match="float64 and float32"):
        ulp_distance(np.ones(2), np.ones(2, np.float32))
    with pytest.raises(UnsupportedDType, match="int64"):
        ulp_distance(np.ones(2, int), np.ones(2, int))


def test_ulp():
    x = xp.asarray([1.0, 3.0], dtype=xp.float32)
    step = np.float32(2**-23)
    assert_ulp(x, np.array([1.0, 3.0], np.float32), 0)
    assert_ulp(x, np.array([1 + step, 3.0], np.float32))
    assert_ulp(x, [1.0, 3.0], 0)
    assert_ulp(x, np.array([1.0 + 1e-9, 3.0]), 0, strict=False)  # rounded to float32 first
    _fails(
        lambda: assert_ulp(x, np.array([1.0, 3 + 8 * step], np.float32), 3),
        "1 of 2 elements",
        "max_ulp=3, measured 4 ulp",
        "index (1,)",
    )
    _fails(lambda: assert_ulp(x, [1.0, np.nan]), "infinitely many")


def test_tracers_have_no_values_to_compare():
    with pytest.raises(ConcretizationError, match="assert_allclose"):
        xp.jit(lambda x: assert_allclose(x, 1.0))(xp.ones(2))
