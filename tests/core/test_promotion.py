"""The promotion table against a literal table, JAX's own promotion, and the rules for scalars."""

import enum
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rtx_jax import errors
from rtx_jax.core import dtypes as d
from rtx_jax.core.promotion import inexact_dtype, integer_range, operand_dtype, result_dtype, scalar_dtype

# The table of the standard: rows and columns are the dtypes of one kind in the order of the first row.
_SIGNED = ["int8", "int16", "int32", "int64"]
_MIXED = {
    ("uint8", "int8"): "int16",
    ("uint8", "int16"): "int16",
    ("uint8", "int32"): "int32",
    ("uint8", "int64"): "int64",
    ("uint16", "int8"): "int32",
    ("uint16", "int16"): "int32",
    ("uint16", "int32"): "int32",
    ("uint16", "int64"): "int64",
    ("uint32", "int8"): "int64",
    ("uint32", "int16"): "int64",
    ("uint32", "int32"): "int64",
    ("uint32", "int64"): "int64",
    ("float32", "float64"): "float64",
    ("float32", "complex64"): "complex64",
    ("float32", "complex128"): "complex128",
    ("float64", "complex64"): "complex128",
    ("float64", "complex128"): "complex128",
    ("complex64", "complex128"): "complex128",
}


def _chain(names):
    return {(a, b): names[max(i, j)] for i, a in enumerate(names) for j, b in enumerate(names)}


_TABLE = {
    ("bool", "bool"): "bool",
    **_chain(_SIGNED),
    **_chain(["u" + n for n in _SIGNED]),
    **{(a, a): a for a in ("float32", "float64", "complex64", "complex128")},
    **_MIXED,
    **{(b, a): out for (a, b), out in _MIXED.items()},
}


@pytest.mark.parametrize(("pair", "want"), _TABLE.items(), ids=lambda p: "-".join(p) if isinstance(p, tuple) else p)
def test_the_standards_table(pair, want):
    assert result_dtype(*(np.dtype(n) for n in pair)) == np.dtype(want)


def test_beyond_the_table_it_is_jax_under_x64():
    with jax.enable_x64(True):
        for a in d.KIND:
            for b in d.KIND:
                try:
                    want = jnp.promote_types(a, b)
                except ValueError:
                    with pytest.raises(errors.DTypeMismatch, match="xp.astype"):
                        result_dtype(a, b)
                else:
                    assert result_dtype(a, b) == want, (a, b)


@pytest.mark.parametrize(
    ("names", "want"),
    [
        (("int32",), "int32"),
        (("bool", "uint8", "int8"), "int16"),
        (("uint64", "int8"), "float64"),
        (("float16", "bfloat16"), "float32"),
        (("int64", "float16"), "float16"),
        (("float16", "complex64"), "complex64"),
        (("int64", "float8_e5m2"), "float8_e5m2"),
    ],
)
def test_beyond_the_table(names, want):
    assert result_dtype(*map(d.as_dtype, names)).name == want


def test_unsupported_dtypes_raise():
    for bad in ("U3", "M8[s]", "O", np.longdouble):
        with pytest.raises(errors.UnsupportedDType):
            result_dtype(np.dtype(bad))
        with pytest.raises(TypeError):
            result_dtype(d.float32, np.dtype(bad))


@pytest.mark.parametrize(
    ("value", "array", "want"),
    [
        (True, "bool", "bool"),
        (True, "int8", "int8"),
        (True, "float32", "float32"),
        (3, "bool", "int64"),
        (3, "int8", "int8"),
        (3, "uint64", "uint64"),
        (3, "float16", "float16"),
        (3, "bfloat16", "bfloat16"),
        (10**30, "float32", "float32"),
        (3, "complex64", "complex64"),
        (2.5, "bool", "float64"),
        (2.5, "int8", "float64"),
        (2.5, "int64", "float64"),
        (2.5, "float8_e4m3fn", "float8_e4m3fn"),
        (2.5, "float16", "float16"),
        (1e300, "float32", "float32"),
        (2.5, "complex64", "complex64"),
        (1j, "bool", "complex128"),
        (1j, "int32", "complex128"),
        (1j, "float16", "complex64"),
        (1j, "float32", "complex64"),
        (1j, "float64", "complex128"),
        (1j, "complex64", "complex64"),
        (np.float64(2.5), "float32", "float64"),
        (np.float32(2.5), "float64", "float32"),
        (np.int8(1), "float32", "int8"),
        (np.bool_(True), "int8", "bool"),
        (enum.IntEnum("E", "one").one, "int8", "int8"),
    ],
)
def test_scalars(value, array, want):
    assert scalar_dtype(value, d.as_dtype(array)).name == want


@pytest.mark.parametrize(
    ("value", "array", "want"),
    [
        (2, "complex64", "float32"),
        (2.5, "complex128", "float64"),
        (2j, "complex64", "complex64"),
        (np.complex64(1), "complex128", "complex64"),
        (2.5, "float32", "float32"),
        (2.5, "int8", "float64"),
    ],
)
def test_a_real_operand_stays_real_beside_a_complex_array(value, array, want):
    assert operand_dtype(value, d.as_dtype(array)).name == want


@pytest.mark.parametrize(
    ("value", "array"), [(128, "int8"), (-129, "int8"), (-1, "uint8"), (2**64, "uint64"), (2**63, "bool"), (8, "int4")]
)
def test_an_integer_out_of_range_raises(value, array):
    with pytest.raises(errors.ScalarOverflow, match=str(value)) as caught:
        scalar_dtype(value, d.as_dtype(array))
    assert isinstance(caught.value, OverflowError)


@pytest.mark.parametrize("name", [*_SIGNED, *("u" + n for n in _SIGNED)])
def test_integer_range_is_numpys(name):
    info = np.iinfo(name)
    assert integer_range(np.dtype(name)) == (info.min, info.max)
    assert scalar_dtype(int(info.min), np.dtype(name)) == scalar_dtype(int(info.max), np.dtype(name)) == np.dtype(name)


def test_what_is_no_scalar_raises():
    for bad in ("1", None, [1]):
        with pytest.raises(errors.UnsupportedDType):
            scalar_dtype(bad, d.float32)


def test_defaults_of_the_cpu_and_their_overrides():
    assert (d.default_float(), d.default_int(), d.default_complex()) == (d.float64, d.int64, d.complex128)
    x = jnp.ones(2, np.float32)
    with d.set_default_dtype("float32"):
        assert (d.default_float(x), d.default_int(x), d.default_complex(x)) == (d.float32, d.int64, d.complex64)
        with d.set_default_dtype(np.int32):
            assert (d.default_float(), d.default_int()) == (d.float32, d.int32)
            assert scalar_dtype(2.5, d.int8) == d.float32
            assert scalar_dtype(1j, d.int8) == d.complex64
            seen = []
            thread = threading.Thread(target=lambda: seen.append(d.default_float()))
            thread.start()
            thread.join()
            assert seen == [d.float64]
        assert d.default_int() == d.int64
        d.set_default_dtype(None)
        assert d.default_float() == d.float64
    assert d.default_float(x.sharding) == d.default_float(jax.devices()[0]) == d.float64
    for bad in (bool, "int4", "U1"):
        with pytest.raises(errors.UnsupportedDType):
            d.set_default_dtype(bad)
    assert d.default_float() == d.float64


def test_defaults_of_a_device_without_64_bits():
    class Device:
        platform = "tpu"

    with d.set_default_dtype(None):  # leaves the fast path of a process with one kind of device
        assert [f(Device()) for f in (d.default_float, d.default_int, d.default_complex)] == [
            d.float32,
            d.int32,
            d.complex64,
        ]
        assert d.default_float("metal") == d.default_float("tpu:0") == d.float32
        assert d.default_float("cuda:1") == d.float64
        assert inexact_dtype(d.int8, Device()) == d.float32
        assert inexact_dtype(d.float16, Device()) == d.float16


def test_as_dtype():
    for spec in (d.float32, np.float32, jnp.float32, "float32", "f4", np.dtype(">f4")):
        assert d.as_dtype(spec) == d.float32
    assert d.as_dtype(jnp.bfloat16) == d.as_dtype("bfloat16") == d.bfloat16
    assert [d.as_dtype(t) for t in (bool, int, float, complex)] == [d.bool_, d.int64, d.float64, d.complex128]
    for bad in (None, "U3", "x", object, [], 3, np.longdouble, np.clongdouble):
        with pytest.raises(errors.UnsupportedDType, match="zeros: argument dtype"):
            d.as_dtype(bad, "zeros")
