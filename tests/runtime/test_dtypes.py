"""Element types: their numbers are frozen by a file, their values checked by NumPy and by exact fractions."""

from __future__ import annotations

import copy
import functools
import itertools
import math
import pickle
import struct
from fractions import Fraction
from pathlib import Path

import hypothesis.strategies as st
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings

import rtx_jax as xp
from rtx_jax.errors import InvalidArgument, RtxError, UnsupportedDType
from rtx_jax.runtime import DType, QDType
from rtx_jax.runtime.dtypes import DataType

GOLDEN = Path(__file__).parent / "dtypes.golden"
FLOATS = [d for d in DType if d.is_float]
INTEGERS = [d for d in DType if d.is_int]


def test_numbers_never_change():
    """Files hold these numbers: the golden file may get lines, and no line of it may change."""
    golden = dict(line.split() for line in GOLDEN.read_text().splitlines())
    assert {d.short_name: str(int(d)) for d in DType} == golden


def test_ranges_of_numbers():
    for d in DType:
        kind = d.np.kind
        if d.is_float:
            assert 0 <= d <= 9
        elif kind == "i":
            assert 10 <= d <= 19
        elif kind == "u":
            assert 20 <= d <= 29
        elif kind == "b":
            assert d == 30
        else:
            assert kind == "c" and 40 <= d <= 49


@pytest.mark.parametrize("d", DType, ids=str)
def test_facts(d):
    kind = d.np.kind
    assert isinstance(d, DataType)
    assert str(d) == f"{d}" == d.short_name
    assert d.itemsize == d.block_bytes == d.np.itemsize and d.block_size == 1 and not d.is_quantized
    assert (d.is_signed_int, d.is_unsigned_int, d.is_bool, d.is_complex) == tuple(kind == k for k in "iubc")
    assert d.is_int == (kind in "iu")
    assert sum((d.is_float, d.is_int, d.is_bool, d.is_complex)) == 1
    assert d.is_signed == (kind not in "ub")
    assert d.as_standard() is d
    assert d.storage_bytes(0) == 0 and d.storage_bytes(7) == 7 * d.np.itemsize
    assert (d.component is None) != d.is_complex
    if d.is_complex:
        assert d.component.np == np.empty(0, d.np).real.dtype


@pytest.mark.parametrize("d", DType, ids=str)
def test_every_way_to_name_it(d):
    assert np.dtype(d) == d.np
    for name in (d, d.np, d.np.type, str(d.np), d.short_name):
        assert DType.of(name) is d
    assert xp.zeros((2,), dtype=d).dtype == d.np
    assert jnp.zeros((2,), dtype=DType.F32).dtype == np.float32
    assert pickle.loads(pickle.dumps(d)) is d and copy.deepcopy(d) is d
    assert DType(int(d)) is d


def test_names_of_the_namespace():
    assert DType.of(xp.float32) is DType.F32 and DType.of(xp.bool) is DType.Bool
    assert DType.of(xp.bfloat16) is DType.BF16 and DType.of(xp.float8_e4m3fn) is DType.FP8E4M3


@pytest.mark.parametrize("bad", [None, "q4_0", "f31", np.dtype("U3"), object(), 5, xp.float8_e3m4, "int4"])
def test_no_such_type(bad):
    with pytest.raises(UnsupportedDType, match="DType.of") as caught:
        DType.of(bad)
    assert isinstance(caught.value, TypeError)


LIMITS = {
    DType.F64: (1 - Fraction(1, 2**53)) * 2**1024,
    DType.F32: (1 - Fraction(1, 2**24)) * 2**128,
    DType.F16: Fraction(65504),
    DType.BF16: (1 - Fraction(1, 2**8)) * 2**128,
    DType.FP8E4M3: Fraction(448),
    DType.FP8E5M2: Fraction(57344),
    DType.C64: (1 - Fraction(1, 2**24)) * 2**128,
    DType.C128: (1 - Fraction(1, 2**53)) * 2**1024,
}


@pytest.mark.parametrize("d", DType, ids=str)
def test_limits(d):
    if d in LIMITS:
        assert Fraction(d.max_value) == LIMITS[d] == -Fraction(d.min_value)
    elif d.is_bool:
        assert (d.min_value, d.max_value) == (0, 1)
    else:
        bits = 8 * d.itemsize
        expected = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if d.is_signed else (0, 2**bits - 1)
        assert (d.min_value, d.max_value) == expected
        assert type(d.max_value) is int


@functools.cache
def _finite_values(d):
    """All finite values of a type, in order."""
    unsigned = np.dtype(f"uint{8 * d.itemsize}")
    with np.errstate(invalid="ignore"):
        table = np.arange(2 ** (8 * d.itemsize), dtype=np.uint32).astype(unsigned).view(d.np).astype(np.float64)
    return np.unique(table[np.isfinite(table)])


class TestFill:
    @pytest.mark.parametrize("d", DType, ids=str)
    @pytest.mark.parametrize("value", [0, 1, 2.0, True])
    def test_exact_values(self, d, value):
        expected = np.full(3, bool(value) if d.is_bool else value, d.np)
        assert d.fill_bytes(value, 3) == expected.tobytes()
        assert d.fill_bytes(value, 0) == b""

    @pytest.mark.parametrize(
        ("d", "value", "expected"),
        [
            (DType.I8, 300, b"\x7f"),
            (DType.I8, -300.5, b"\x80"),
            (DType.U8, -1, b"\x00"),
            (DType.U8, math.inf, b"\xff"),
            (DType.I32, math.nan, b"\x00" * 4),
            (DType.I32, -2.9, struct.pack("<i", -2)),
            (DType.I64, 1e30, struct.pack("<q", 2**63 - 1)),
            (DType.I64, 2**63 - 1, struct.pack("<q", 2**63 - 1)),
            (DType.U64, 2**64 - 1, b"\xff" * 8),
            (DType.Bool, math.nan, b"\x01"),
            (DType.Bool, -0.0, b"\x00"),
            (DType.F16, 65520.0, struct.pack("<e", math.inf)),
            (DType.F16, 65519.0, struct.pack("<e", 65504.0)),
            (DType.F32, 10**400, struct.pack("<f", math.inf)),
            (DType.F32, -(10**400), struct.pack("<f", -math.inf)),
            (DType.FP8E4M3, 1e9, b"\x7e"),
            (DType.FP8E4M3, -math.inf, b"\xfe"),
            (DType.FP8E5M2, 1e9, b"\x7c"),
            (DType.BF16, -0.0, b"\x00\x80"),
            (DType.C64, -1.5, struct.pack("<ff", -1.5, 0.0)),
        ],
        ids=str,
    )
    def test_edges(self, d, value, expected):
        assert d.fill_bytes(value, 1) == expected

    @pytest.mark.parametrize("d", FLOATS, ids=str)
    def test_nan(self, d):
        assert np.isnan(np.frombuffer(d.fill_bytes(math.nan, 1), d.np).astype(np.float64)).all()

    @pytest.mark.parametrize("d", [DType.BF16, DType.FP8E4M3, DType.FP8E5M2, DType.F16], ids=str)
    @settings(max_examples=150, deadline=None)
    @given(data=st.data())
    def test_one_rounding_to_nearest_even(self, d, data):
        """Against the neighbours of the value among all values of the type, by exact fractions."""
        finite = _finite_values(d)
        # Half-way points, a hair beside them, and anything.
        place = data.draw(st.integers(0, len(finite) - 2))
        middle = (finite[place] + finite[place + 1]) / 2
        value = data.draw(
            st.one_of(
                st.just(middle),
                st.just(np.nextafter(middle, np.inf)),
                st.just(np.nextafter(middle, -np.inf)),
                st.floats(float(finite[0]), float(finite[-1])),
            )
        )
        got = float(np.frombuffer(d.fill_bytes(float(value), 1), d.np).astype(np.float64)[0])
        low = finite[max(np.searchsorted(finite, value, side="right") - 1, 0)]
        high = finite[min(np.searchsorted(finite, value, side="left"), len(finite) - 1)]
        nearest = min(abs(Fraction(float(c)) - Fraction(float(value))) for c in (low, high))
        assert abs(Fraction(got) - Fraction(float(value))) == nearest
        if low != high and abs(Fraction(float(low)) - Fraction(float(value))) == nearest == abs(
            Fraction(float(high)) - Fraction(float(value))
        ):
            assert not np.asarray(got, np.float64).astype(d.np).view(f"uint{8 * d.itemsize}") & 1

    @pytest.mark.parametrize("bad", [1j, "1", None, np.complex64(1)])
    def test_no_number(self, bad):
        with pytest.raises(InvalidArgument, match="real number"):
            DType.F32.fill_bytes(bad, 1)

    @pytest.mark.parametrize("bad", [-1, 1.5, None, "3"])
    def test_no_count(self, bad):
        for call in (DType.F32.storage_bytes, lambda n: DType.F32.fill_bytes(0, n), QDType("q", 32, 18).storage_bytes):
            with pytest.raises(InvalidArgument, match="0 or more"):
                call(bad)


class TestPromotion:
    @pytest.mark.parametrize(
        ("a", "b", "expected"),
        [
            ("F32", "F64", "F64"),
            ("F16", "F32", "F32"),
            ("BF16", "F32", "F32"),
            ("BF16", "F16", "BF16"),
            ("I64", "F32", "F32"),
            ("I32", "F64", "F64"),
            ("I64", "FP8E5M2", "FP8E5M2"),
            ("FP8E4M3", "FP8E5M2", "F16"),
            ("FP8E4M3", "BF16", "BF16"),
            ("I32", "U32", "I64"),
            ("I64", "U64", "I64"),
            ("I32", "U64", "I64"),
            ("I32", "U16", "I32"),
            ("I16", "U16", "I32"),
            ("I16", "U8", "I16"),
            ("I16", "U64", "I32"),
            ("I8", "U8", "I16"),
            ("I8", "U32", "I16"),
            ("U8", "U32", "U32"),
            ("I8", "I64", "I64"),
            ("Bool", "U8", "U8"),
            ("Bool", "F16", "F16"),
            ("Bool", "C64", "C64"),
            ("I64", "C64", "C64"),
            ("F32", "C64", "C64"),
            ("F64", "C64", "C128"),
            ("C64", "C128", "C128"),
        ],
    )
    def test_table(self, a, b, expected):
        assert DType[a].promote(DType[b]) is DType[b].promote(DType[a]) is DType[expected]

    def test_laws(self):
        for a, b in itertools.product(DType, DType):
            assert a.promote(a) is a
            assert a.promote(b) is b.promote(a)
            assert a.promote(b).promote(b) is a.promote(b) or {a.is_signed_int, b.is_signed_int} == {True, False}

    def test_as_numpy_where_numpy_has_the_same_rules(self):
        """Integers of one sign, and floats beside floats; NumPy widens where a signed one meets an unsigned one."""
        plain = [d for d in DType if d not in (DType.BF16, DType.FP8E4M3, DType.FP8E5M2)]
        for a, b in itertools.product(plain, plain):
            same = a.is_int == b.is_int and (not a.is_int or a.is_signed_int == b.is_signed_int)
            if same:
                assert a.promote(b).np == np.promote_types(a.np, b.np)

    def test_only_these_types(self):
        with pytest.raises(InvalidArgument, match="a DType"):
            DType.F32.promote("f32")


class TestBlocks:
    Q4 = QDType("q4_0", 32, 18)

    def test_facts(self):
        q = self.Q4
        assert isinstance(q, DataType)
        assert (q.is_float, q.is_int, q.is_quantized) == (False, False, True)
        assert q.as_standard() is None
        assert q == QDType("q4_0", 32, 18) and hash(q) == hash(QDType("q4_0", 32, 18)) and q != QDType("q4_1", 32, 20)
        assert pickle.loads(pickle.dumps(q)) == q

    @pytest.mark.parametrize(("count", "expected"), [(0, 0), (1, 18), (32, 18), (33, 36), (4096, 2304)])
    def test_storage(self, count, expected):
        assert self.Q4.storage_bytes(count) == expected

    def test_fill_is_refused(self):
        with pytest.raises(UnsupportedDType, match="rtx_jax.quant"):
            self.Q4.fill_bytes(0, 32)

    @pytest.mark.parametrize(
        "bad", [("", 1, 1), ("f32", 1, 1), ("q", 0, 1), ("q", 1, -1), ("q", True, 1), ("q", 1.0, 1)]
    )
    def test_bad_blocks(self, bad):
        with pytest.raises(InvalidArgument, match="QDType") as caught:
            QDType(*bad)
        assert isinstance(caught.value, RtxError)


def test_types_of_one_s_own():
    """Anything with these answers is an element type."""

    class Ternary:
        short_name, is_float, is_int, is_quantized, block_size, block_bytes = "t", False, False, True, 5, 1

        def storage_bytes(self, count, /):
            return -(-count // 5)

        def as_standard(self):
            return None

        def fill_bytes(self, value, count, /):
            return bytes(self.storage_bytes(count))

    assert isinstance(Ternary(), DataType) and not isinstance("f32", DataType)


@pytest.mark.parametrize("d", DType, ids=str)
def test_buffers_take_them(d):
    from rtx_jax.runtime import NumpyRuntime

    buffer = NumpyRuntime().allocate(d.storage_bytes(4))
    buffer.write(d.fill_bytes(1, 4))
    got = buffer.view(d, (4,)).read()
    assert got.dtype == d.np
    np.testing.assert_array_equal(got.astype(np.complex128), np.ones(4))


def test_the_fp8_types_are_those_of_the_accelerators():
    assert DType.FP8E4M3.np == ml_dtypes.float8_e4m3fn and DType.FP8E5M2.np == ml_dtypes.float8_e5m2
