"""Element types of buffers: the dtypes by numbers that never change, and types that are stored in blocks."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, Self, TypeAlias, runtime_checkable

import ml_dtypes
import numpy as np

from ..errors import InvalidArgument, UnsupportedDType

__all__ = ["DType", "DataType", "QDType"]

_Dtype: TypeAlias = np.dtype  # `DType` has a member of the name np


@runtime_checkable
class DataType(Protocol):
    """What a buffer's element type answers; for element types of one's own beside `DType` and `QDType`."""

    @property
    def short_name(self) -> str:
        """Name for texts: ``"f32"``, ``"q4_0"``."""

    @property
    def is_float(self) -> bool:
        """Whether elements are real floating-point numbers."""

    @property
    def is_int(self) -> bool:
        """Whether elements are integers."""

    @property
    def is_quantized(self) -> bool:
        """Whether elements are stored in blocks."""

    @property
    def block_size(self) -> int:
        """Elements of a block; 1 where each stands alone."""

    @property
    def block_bytes(self) -> int:
        """Bytes of a block."""

    def storage_bytes(self, count: int, /) -> int:
        """Return the bytes that `count` elements take."""

    def as_standard(self) -> DType | None:
        """Return the `DType` that it is, or None."""

    def fill_bytes(self, value: float, count: int, /) -> bytes:
        """Return the bytes of `count` elements of one value."""


class DType(IntEnum):
    """A dtype by its number, which stays the same for ever: it may be written to files.

    Floats have 0 to 9, signed integers 10 to 19, unsigned integers 20 to 29, Bool 30, complex numbers 40 to 49.
    ``np.dtype(DType.F32)`` and every ``dtype=`` take one.

    Examples
    --------
    >>> DType.BF16.short_name, int(DType.BF16), DType.BF16.itemsize
    ('bf16', 3, 2)
    >>> DType.of("float32")
    <DType.F32: 1>
    """

    F64 = 0
    F32 = 1
    F16 = 2
    BF16 = 3
    FP8E4M3 = 4
    FP8E5M2 = 5
    I64 = 10
    I32 = 11
    I16 = 12
    I8 = 13
    U64 = 20
    U32 = 21
    U16 = 22
    U8 = 23
    Bool = 30
    C64 = 40
    C128 = 41

    def __str__(self) -> str:
        return self.short_name

    @classmethod
    def of(cls, dtype: object, /) -> Self:
        """Return the member for a dtype of NumPy or of rtx_jax, a name (``"float32"`` or ``"f32"``), or a member.

        Raises
        ------
        UnsupportedDType
            There is no such dtype, or it has no number.
        """
        if isinstance(dtype, cls):
            return dtype
        if isinstance(dtype, str) and dtype in _BY_SHORT_NAME:
            return cls(_BY_SHORT_NAME[dtype])
        try:
            # NumPy takes None for float64.
            number = None if dtype is None else _NUMBERS.get(np.dtype(dtype))  # type: ignore[call-overload]
        except TypeError:
            number = None
        if number is None:
            raise UnsupportedDType(
                "DType.of",
                "dtype",
                got=repr(dtype),
                wanted="one of " + ", ".join(str(d) for d in _NUMBERS),
                dtype=dtype,
                op="DType.of",
            )
        return cls(number)

    @property
    def np(self) -> _Dtype:
        """The ``np.dtype``."""
        return _DTYPES[self]

    @property
    def dtype(self) -> _Dtype:
        """The ``np.dtype``, under the name by which NumPy asks for it."""
        return _DTYPES[self]

    @property
    def short_name(self) -> str:
        """``"f32"``, ``"bf16"``, ``"fp8e4m3"``, ``"i64"``, ``"u8"``, ``"bool"``, ``"c64"``, ..."""
        return self.name.lower()

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.np.itemsize

    @property
    def is_float(self) -> bool:
        """Whether elements are real floating-point numbers."""
        return self < 10

    @property
    def is_signed_int(self) -> bool:
        """Whether elements are integers with a sign."""
        return 10 <= self < 20

    @property
    def is_unsigned_int(self) -> bool:
        """Whether elements are integers without a sign."""
        return 20 <= self < 30

    @property
    def is_int(self) -> bool:
        """Whether elements are integers."""
        return 10 <= self < 30

    @property
    def is_bool(self) -> bool:
        """Whether elements are truth values."""
        return self == 30

    @property
    def is_complex(self) -> bool:
        """Whether elements are complex numbers."""
        return self >= 40

    @property
    def is_signed(self) -> bool:
        """Whether elements can be negative."""
        return not (self.is_unsigned_int or self.is_bool)

    @property
    def is_quantized(self) -> bool:
        """Whether elements are stored in blocks: no."""
        return False

    @property
    def component(self) -> DType | None:
        """The float of the two parts of a complex number, None for the other types."""
        return {DType.C64: DType.F32, DType.C128: DType.F64}.get(self)

    @property
    def min_value(self) -> int | float:
        """The lowest finite value, exactly; of a complex type that of each part."""
        return _limits(self)[0]

    @property
    def max_value(self) -> int | float:
        """The highest finite value, exactly; of a complex type that of each part."""
        return _limits(self)[1]

    @property
    def block_size(self) -> int:
        """Elements of a block: 1."""
        return 1

    @property
    def block_bytes(self) -> int:
        """Bytes of a block, which is one element."""
        return self.itemsize

    def storage_bytes(self, count: int, /) -> int:
        """Return the bytes that `count` elements take.

        Raises
        ------
        InvalidArgument
            `count` is not an integer of 0 or more.
        """
        return _count("storage_bytes", count) * self.itemsize

    def as_standard(self) -> DType:
        """Return the member itself."""
        return self

    def fill_bytes(self, value: float, count: int, /) -> bytes:
        """Return the bytes of `count` elements of one value.

        Parameters
        ----------
        value
            Rounded to the nearest, ties to even. Beyond the range it becomes infinity, or the nearest finite value
            where the type has no infinity (integers, FP8E4M3). An integer type cuts fractions off and takes NaN as
            0; Bool is whether it is not 0.
        count
            0 or more.

        Raises
        ------
        InvalidArgument
            `count` is not an integer of 0 or more, or `value` no real number.
        """
        size = _count("fill_bytes", count)
        return _element(self, value).tobytes() * size

    def promote(self, other: DType, /) -> DType:
        """Return the type of the result of an operation on two types.

        The higher kind wins: Bool, then integers, floats, complex numbers. Among floats the wider wins; of the two
        of 16 bits it is BF16, and of the two of 8 bits F16, which holds both. A signed and an unsigned integer give a
        signed one that holds both, at most I64. A float gives with a complex number the complex type of its width,
        at least C64.

        Raises
        ------
        InvalidArgument
            `other` is none of these types.
        """
        if not isinstance(other, DType):
            raise InvalidArgument(
                "promote", "other", got=repr(other), wanted="a DType", arg="other", reason="not a DType"
            )
        low, high = sorted((self, other), key=_ORDER.index)
        if high.is_complex:
            return DType.C128 if low is DType.F64 else high
        if low.is_unsigned_int and high.is_signed_int or low.is_signed_int and high.is_unsigned_int:
            signed, unsigned = (low, high) if low.is_signed_int else (high, low)
            return _mixed(signed, unsigned)
        if {low, high} == {DType.FP8E4M3, DType.FP8E5M2}:
            return DType.F16
        return high


@dataclass(frozen=True, slots=True)
class QDType:
    """An element type that is stored in blocks, such as 4-bit weights with one scale for 32 of them.

    Parameters
    ----------
    short_name
        Name for texts: ``"q4_0"``.
    block_size
        Elements of a block, 1 or more.
    block_bytes
        Bytes of a block, 1 or more.

    Raises
    ------
    InvalidArgument
        A number is not an integer of 1 or more, or the name is empty or that of a `DType`.

    Examples
    --------
    >>> q4 = QDType("q4_0", 32, 18)
    >>> q4.storage_bytes(33)
    36
    """

    short_name: str
    block_size: int
    block_bytes: int

    def __post_init__(self) -> None:
        if not isinstance(self.short_name, str) or not self.short_name or self.short_name in _BY_SHORT_NAME:
            raise InvalidArgument(
                "QDType",
                "short_name",
                got=repr(self.short_name),
                wanted="a name that no DType has",
                arg="short_name",
                reason="not a name of its own",
            )
        for name in ("block_size", "block_bytes"):
            number = getattr(self, name)
            if type(number) is not int or number < 1:
                raise InvalidArgument(
                    "QDType", name, got=repr(number), wanted="an int of 1 or more", arg=name, reason="not a size"
                )

    @property
    def is_float(self) -> bool:
        """Whether elements are plain floating-point numbers: no."""
        return False

    @property
    def is_int(self) -> bool:
        """Whether elements are plain integers: no."""
        return False

    @property
    def is_quantized(self) -> bool:
        """Whether elements are stored in blocks: yes."""
        return True

    def storage_bytes(self, count: int, /) -> int:
        """Return the bytes that `count` elements take: those of ``ceil(count / block_size)`` blocks.

        Raises
        ------
        InvalidArgument
            `count` is not an integer of 0 or more.
        """
        return -(-_count("storage_bytes", count) // self.block_size) * self.block_bytes

    def as_standard(self) -> None:
        """Return None: no `DType` is stored in blocks."""
        return None

    def fill_bytes(self, value: float, count: int, /) -> bytes:
        """Refuse: only the scheme that packs the blocks knows what a value looks like in them.

        Raises
        ------
        UnsupportedDType
            Always.
        """
        raise UnsupportedDType(
            "fill_bytes",
            "dtype",
            got=self.short_name,
            wanted="a DType",
            remedy="Quantize an array with rtx_jax.quant and write its bytes.",
            dtype=self,
            op="fill_bytes",
        )


_DTYPES: dict[DType, np.dtype] = {
    DType.F64: np.dtype(np.float64),
    DType.F32: np.dtype(np.float32),
    DType.F16: np.dtype(np.float16),
    DType.BF16: np.dtype(ml_dtypes.bfloat16),
    DType.FP8E4M3: np.dtype(ml_dtypes.float8_e4m3fn),
    DType.FP8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    DType.I64: np.dtype(np.int64),
    DType.I32: np.dtype(np.int32),
    DType.I16: np.dtype(np.int16),
    DType.I8: np.dtype(np.int8),
    DType.U64: np.dtype(np.uint64),
    DType.U32: np.dtype(np.uint32),
    DType.U16: np.dtype(np.uint16),
    DType.U8: np.dtype(np.uint8),
    DType.Bool: np.dtype(np.bool_),
    DType.C64: np.dtype(np.complex64),
    DType.C128: np.dtype(np.complex128),
}
_NUMBERS = {dtype: int(member) for member, dtype in _DTYPES.items()}
_BY_SHORT_NAME = {member.short_name: int(member) for member in DType}
# What wins over what, the winners last.
_ORDER = [
    DType[name] for name in "Bool U8 I8 U16 I16 U32 I32 U64 I64 FP8E4M3 FP8E5M2 F16 BF16 F32 F64 C64 C128".split()
]


def _mixed(signed: DType, unsigned: DType) -> DType:
    """Return the type for a signed and an unsigned integer."""
    if signed is DType.I8:
        return DType.I16
    if signed is DType.I16:
        return DType.I16 if unsigned is DType.U8 else DType.I32
    if signed is DType.I32:
        return DType.I64 if unsigned in (DType.U32, DType.U64) else DType.I32
    return DType.I64


def _limits(member: DType) -> tuple[int | float, int | float]:
    if member.is_bool:
        return 0, 1
    if member.is_int:
        integers = np.iinfo(member.np)
        return int(integers.min), int(integers.max)
    floats = ml_dtypes.finfo((member.component or member).np)
    return float(floats.min), float(floats.max)


def _element(member: DType, value: float) -> np.ndarray:
    """Return one element of a value, as an array of shape ``()``."""
    if isinstance(value, complex) or not isinstance(value, int | float | np.integer | np.floating | np.bool_):
        raise InvalidArgument(
            "fill_bytes", "value", got=repr(value), wanted="a real number", arg="value", reason="not a real number"
        )
    if member.is_bool:
        return np.asarray(value != 0)
    if member.is_int:
        low, high = _limits(member)
        if isinstance(value, float | np.floating) and math.isnan(value):
            return np.zeros((), member.np)
        return np.asarray(int(min(max(value, low), high)), member.np)
    try:
        number = np.float64(value)
    except OverflowError:  # an integer beyond all floats
        number = np.float64(math.inf if value > 0 else -math.inf)
    if member is DType.FP8E4M3 and not math.isnan(number):
        number = np.clip(number, -448.0, 448.0)
    with np.errstate(over="ignore"):
        if member in (DType.BF16, DType.FP8E4M3, DType.FP8E5M2):
            return np.asarray(_odd_float32(number)).astype(member.np)
        return np.asarray(number).astype(member.np)


def _odd_float32(number: np.float64) -> np.float32:
    """Return a neighbour in float32, the odd one where it is not exact.

    ml_dtypes rounds by way of float32, and two roundings to nearest are not one; after one to odd they are.
    """
    near = np.float32(number)
    if not np.isfinite(near) or near == number or near.view(np.uint32) & 1:
        return near
    odd: np.float32 = np.nextafter(near, np.float32(math.inf if number > near else -math.inf))
    return odd


def _count(operation: str, count: object) -> int:
    try:
        number = operator.index(count)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if number < 0:
        raise InvalidArgument(
            operation, "count", got=repr(count), wanted="an integer of 0 or more", arg="count", reason="not a count"
        )
    return number
