"""Casts, limits, kinds and promotion of dtypes, the names of dtypes, constants and inspection."""

from __future__ import annotations

import copy
import math
import pickle

import jax
import ml_dtypes
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors

STANDARD = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float32", "float64", "complex64", "complex128",
]  # fmt: skip
SMALL_FLOATS = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]


def array(values, dtype=None):
    return xp.asarray(np.asarray(values, dtype))


# names and constants


@pytest.mark.parametrize("name", [*STANDARD, *SMALL_FLOATS])
def test_the_names_are_dtypes(name):
    dtype = getattr(xp, name)
    x = xp.zeros(2, dtype=dtype)
    assert isinstance(x.dtype, np.dtype)
    assert dtype.name == repr(dtype) == x.dtype.name == name
    assert dtype == x.dtype and x.dtype == dtype and hash(dtype) == hash(x.dtype)
    assert {dtype: 1}[x.dtype] == {x.dtype: 1}[dtype] == 1
    assert np.dtype(dtype) == x.dtype
    with jax.enable_x64(True):
        assert jax.numpy.zeros(2, dtype=dtype).dtype == x.dtype
    assert pickle.loads(pickle.dumps(dtype)) == copy.deepcopy(dtype) == dtype
    # np.dtype("float64") == None is True, so a name is not an np.dtype.
    assert (dtype == None) is False  # noqa: E711
    assert (None == dtype) is False  # noqa: E711


def test_constants():
    assert (xp.e, xp.pi, xp.inf, xp.newaxis) == (math.e, math.pi, math.inf, None)
    assert math.isnan(xp.nan)


# astype


@pytest.mark.parametrize("source", STANDARD)
@pytest.mark.parametrize("target", STANDARD)
def test_astype_between_the_standards_dtypes(source, target):
    x = np.array([0, 1, 3, 100]).astype(source)
    if source.startswith("complex") and not target.startswith("complex") and target != "bool":
        with pytest.raises(errors.DTypeMismatch, match="astype: argument dtype: got"):
            xp.astype(array(x), target)
        return
    out = xp.astype(array(x), getattr(xp, target))
    assert out.dtype.name == target
    np.testing.assert_array_equal(np.asarray(out), x.astype(target))


@pytest.mark.parametrize(
    ("target", "want"),
    [
        ("int8", [-20, 127, 127, -128, 0, 127, -128, 2]),
        ("uint8", [0, 255, 255, 0, 0, 255, 0, 2]),
        ("int32", [-20, 300, 2**31 - 1, -(2**31), 0, 2**31 - 1, -(2**31), 2]),
        ("uint32", [0, 300, 3_000_000_000, 0, 0, 2**32 - 1, 0, 2]),
        ("int64", [-20, 300, 3_000_000_000, -3_000_000_000, 0, 2**63 - 1, -(2**63), 2]),
    ],
)
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_floats_saturate_on_their_way_to_integers(source, target, want):
    x = array([-20.0, 300.0, 3e9, -3e9, math.nan, math.inf, -math.inf, 2.9], source)
    assert np.asarray(xp.astype(x, target)).tolist() == want
    assert np.asarray(xp.jit(lambda x: xp.astype(x, target))(x)).tolist() == want


def test_integers_wrap_and_everything_but_zero_is_true():
    assert np.asarray(xp.astype(array([-1, 256, 300]), xp.uint8)).tolist() == [255, 0, 44]
    assert np.asarray(xp.astype(array([0.0, -0.0, math.nan, 0.5]), xp.bool)).tolist() == [False, False, True, True]
    assert np.asarray(xp.astype(array([0j, 1j, 1.0]), xp.bool)).tolist() == [False, True, True]
    assert np.asarray(xp.astype(array([True, False]), xp.complex64)).tolist() == [1 + 0j, 0j]


def test_astype_copies_unless_told_otherwise():
    x = array([1.0, 2.0])
    assert xp.astype(x, xp.float64, copy=False) is x
    y = xp.astype(x, xp.float64)
    assert y is not x
    y[0] = 5.0
    assert np.asarray(x).tolist() == [1.0, 2.0]
    z = xp.astype(x, xp.float32, copy=False)
    z[0] = 5.0
    assert np.asarray(x).tolist() == [1.0, 2.0]


def test_astype_takes_pythons_types_and_a_device():
    x = array([1, 2], "int8")
    assert [xp.astype(x, t).dtype.name for t in (bool, int, float, complex)] == [
        "bool",
        "int64",
        "float64",
        "complex128",
    ]
    with xp.set_default_dtype(xp.float32):
        assert xp.astype(x, float).dtype == xp.float32
    device = jax.devices()[1]
    out = xp.astype(x, xp.float32, device=device)
    assert (out.device, out.dtype) == (device, xp.float32)
    assert xp.astype(out, xp.float32, device="cpu:0", copy=False).device == jax.devices()[0]
    assert xp.astype(out, xp.float32, device=device, copy=False) is out
    for bad in ("U3", object, "x"):
        with pytest.raises(errors.UnsupportedDType, match="astype: argument dtype"):
            xp.astype(x, bad)


# kinds and promotion


def test_can_cast():
    for source, target, want in [
        ("int8", "int16", True),
        ("int16", "int8", False),
        ("uint8", "int16", True),
        ("int8", "uint8", False),
        ("float32", "complex64", True),
        ("float64", "complex64", False),
        ("float64", "complex128", True),
        ("complex64", "float32", False),
        ("bool", "int8", True),
        ("int64", "float32", True),
        ("float16", "bfloat16", False),
        ("float8_e5m2", "float16", False),
        ("float32", "float32", True),
    ]:
        assert xp.can_cast(getattr(xp, source), getattr(xp, target)) is want, (source, target)
    assert xp.can_cast(array([1.0], "float32"), xp.float64) is True
    with pytest.raises(errors.UnsupportedDType, match="can_cast: argument to"):
        xp.can_cast(xp.float32, "x")


def test_isdtype():
    kinds = {
        "bool": ["bool"],
        "signed integer": STANDARD[1:5],
        "unsigned integer": STANDARD[5:9],
        "integral": STANDARD[1:9],
        "real floating": ["float32", "float64", *SMALL_FLOATS],
        "complex floating": ["complex64", "complex128"],
        "numeric": [*STANDARD[1:], *SMALL_FLOATS],
    }
    for kind, members in kinds.items():
        for name in [*STANDARD, *SMALL_FLOATS]:
            assert xp.isdtype(getattr(xp, name), kind) is (name in members)
    assert xp.isdtype(xp.float32, (xp.int8, "bool", xp.float32))
    assert not xp.isdtype(xp.float32, (xp.int8, "bool"))
    assert not xp.isdtype(xp.float32, ())
    with pytest.raises(errors.InvalidArgument, match="isdtype: argument kind: got 'float'"):
        xp.isdtype(xp.float32, "float")
    with pytest.raises(errors.UnsupportedDType):
        xp.isdtype(xp.float32, None)


def test_result_type():
    x = array([1, 2], "int8")
    for arguments, want in [
        ((x, 1), "int8"),
        ((1, x), "int8"),
        ((x, 1000), "int8"),
        ((x, 2.5), "float64"),
        ((x, 1j), "complex128"),
        ((xp.float32, 2.5), "float32"),
        ((xp.float32, 1j), "complex64"),
        ((xp.complex64, 1.5), "complex64"),
        ((xp.bool, True), "bool"),
        ((xp.bool, True, 1), "int64"),
        ((x, xp.uint8), "int16"),
        ((x, np.float32(1.0)), "float32"),
        ((np.ones(2), xp.float32), "float64"),
        ((x.jax, xp.int16), "int16"),
        ((xp.float16, xp.bfloat16), "float32"),
        ((x, float), "float64"),
    ]:
        assert xp.result_type(*arguments).name == want, arguments
    with xp.set_default_dtype(xp.float32):
        assert xp.result_type(x, 2.5) == xp.float32
    for bad in ((), (1, 2.5)):
        with pytest.raises(errors.InvalidArgument, match="result_type"):
            xp.result_type(*bad)
    with pytest.raises(errors.DTypeMismatch):
        xp.result_type(xp.float8_e5m2, xp.float32)
    with pytest.raises(errors.UnsupportedDType):
        xp.result_type("nonsense")


# limits


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_finfo(name):
    info, want = xp.finfo(getattr(xp, name)), ml_dtypes.finfo(name)
    assert info.bits == want.bits
    assert (info.eps, info.max, info.min) == (float(want.eps), float(want.max), float(want.min))
    assert info.smallest_normal == info.tiny == float(want.smallest_normal)
    assert info.smallest_subnormal == float(want.smallest_subnormal)
    assert {type(v) for v in (info.eps, info.max, info.min, info.tiny)} == {float}
    assert info.dtype == getattr(xp, name)


def test_finfo_of_complex_numbers_and_arrays():
    assert xp.finfo(xp.complex64) == xp.finfo(xp.float32) == xp.finfo(array([1j], "complex64"))
    assert xp.finfo(xp.complex128).dtype == xp.float64
    assert (xp.finfo(xp.float32).eps, xp.finfo(xp.float64).max) == (2.0**-23, 1.7976931348623157e308)
    with pytest.raises(errors.UnsupportedDType, match="finfo: argument type: got int8"):
        xp.finfo(xp.int8)


@pytest.mark.parametrize("name", STANDARD[1:9])
def test_iinfo(name):
    info, want = xp.iinfo(getattr(xp, name)), np.iinfo(name)
    assert (info.bits, info.min, info.max) == (want.bits, int(want.min), int(want.max))
    assert info.dtype == getattr(xp, name)
    assert xp.iinfo(array([1], name)) == info
    with pytest.raises(errors.UnsupportedDType, match="iinfo: argument type: got float32"):
        xp.iinfo(xp.float32)


# inspection


def test_inspection():
    info = xp.__array_namespace_info__()
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    assert info.default_device() == jax.devices()[0]
    assert info.devices() == tuple(jax.devices())
    assert list(info.dtypes()) == STANDARD
    assert list(info.dtypes(kind="complex floating", device="cpu:1")) == ["complex64", "complex128"]
    assert list(info.dtypes(kind=("bool", "real floating"))) == ["bool", "float32", "float64"]
    assert info.default_dtypes(device=jax.devices()[1]) == {
        "real floating": xp.float64,
        "complex floating": xp.complex128,
        "integral": xp.int64,
        "indexing": xp.int64,
    }
    with xp.set_default_dtype("float32"):
        assert info.default_dtypes()["complex floating"] == xp.complex64
    with pytest.raises(errors.InvalidArgument):
        info.dtypes(kind="float")
    with pytest.raises(errors.BackendUnavailable):
        info.dtypes(device="cuda:7")


def test_a_device_without_64_bit_floats():
    from rtx_jax.core import dtypes as core

    class Device:
        platform = "METAL"

    assert not core.has_wide_floats(Device())
    assert core.has_wide_floats(jax.devices()[0])
