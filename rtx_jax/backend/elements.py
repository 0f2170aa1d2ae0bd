"""Types of elements: what a scalar of each dtype can do, without a tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import ml_dtypes
import numpy as np

from ..errors import InvalidArgument, UnsupportedDType

__all__ = [
    "BF16",
    "BOOL",
    "BOOL_U8",
    "F16",
    "F32",
    "F64",
    "FP8_E4M3",
    "FP8_E5M2",
    "I8",
    "I16",
    "I32",
    "I64",
    "U8",
    "U16",
    "U32",
    "U64",
    "Bool",
    "BoolElement",
    "BoolU8",
    "Element",
    "Float",
    "FloatElement",
    "Int",
    "IntElement",
    "element_of",
]


@runtime_checkable
class Element(Protocol):
    """What every type of elements has."""

    @property
    def name(self) -> str:
        """Short name: ``"f32"``."""

    @property
    def dtype(self) -> np.dtype:
        """Dtype of tensors of it."""

    @property
    def size_in_bytes(self) -> int:
        """Bytes of one element."""


@runtime_checkable
class FloatElement(Element, Protocol):
    """A floating type."""

    @property
    def min_value(self) -> float:
        """The least finite value."""

    @property
    def max_value(self) -> float:
        """The greatest finite value."""

    @property
    def finfo(self) -> np.finfo | ml_dtypes.finfo:
        """Precision and range."""

    def zero(self) -> np.generic:
        """Return 0."""

    def from_f64(self, value: float, /) -> np.generic:
        """Return the nearest value, ties to even."""

    def to_f64(self, value: np.generic, /) -> float:
        """Return a value as a Python float, exactly."""


@runtime_checkable
class IntElement(Element, Protocol):
    """An integer type."""

    @property
    def min_value(self) -> int:
        """The least value."""

    @property
    def max_value(self) -> int:
        """The greatest value."""

    def zero(self) -> np.generic:
        """Return 0."""

    def from_int(self, value: int, /) -> np.generic:
        """Return a value of the type."""

    def to_int(self, value: np.generic, /) -> int:
        """Return a value as a Python int."""


@runtime_checkable
class BoolElement(Element, Protocol):
    """A type of truth values."""

    def from_bool(self, value: bool, /) -> np.generic:
        """Return a value of the type."""

    def to_bool(self, value: np.generic, /) -> bool:
        """Return a value as a Python bool."""


@dataclass(frozen=True, slots=True)
class Float:
    """A floating type.

    Examples
    --------
    >>> F16.from_f64(1 / 3), F16.max_value, FP8_E4M3.size_in_bytes
    (np.float16(0.3333), 65504.0, 1)
    """

    name: str
    dtype: np.dtype

    @property
    def size_in_bytes(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def finfo(self) -> np.finfo | ml_dtypes.finfo:
        """Precision and range."""
        return ml_dtypes.finfo(self.dtype)

    @property
    def min_value(self) -> float:
        """The least finite value."""
        return float(self.finfo.min)

    @property
    def max_value(self) -> float:
        """The greatest finite value."""
        return float(self.finfo.max)

    def zero(self) -> np.generic:
        """Return 0."""
        return self.from_f64(0.0)

    def one(self) -> np.generic:
        """Return 1."""
        return self.from_f64(1.0)

    def from_f64(self, value: float, /) -> np.generic:
        """Return the nearest value, ties to even; beyond the range an infinity, or NaN where the type has none."""
        from .reference.rounding import narrow

        found: np.generic = narrow(np.array([value], np.float64), self.dtype)[0]
        return found

    def to_f64(self, value: np.generic, /) -> float:
        """Return a value as a Python float, exactly."""
        return float(value)


@dataclass(frozen=True, slots=True)
class Int:
    """An integer type.

    Examples
    --------
    >>> U8.max_value, I32.from_int(-7)
    (255, np.int32(-7))
    """

    name: str
    dtype: np.dtype

    @property
    def size_in_bytes(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def min_value(self) -> int:
        """The least value."""
        return int(np.iinfo(self.dtype).min)

    @property
    def max_value(self) -> int:
        """The greatest value."""
        return int(np.iinfo(self.dtype).max)

    def zero(self) -> np.generic:
        """Return 0."""
        return self.from_int(0)

    def one(self) -> np.generic:
        """Return 1."""
        return self.from_int(1)

    def from_int(self, value: int, /) -> np.generic:
        """Return a value of the type.

        Raises
        ------
        InvalidArgument
            It is out of range.
        """
        if not self.min_value <= value <= self.max_value:
            raise InvalidArgument(
                f"{self.name}.from_int",
                "value",
                got=value,
                wanted=f"{self.min_value}..{self.max_value}",
                arg="value",
                reason="out of range",
            )
        found: np.generic = np.array([value], self.dtype)[0]
        return found

    def to_int(self, value: np.generic, /) -> int:
        """Return a value as a Python int."""
        return int(value)


@dataclass(frozen=True, slots=True)
class Bool:
    """Truth values stored as NumPy's bool."""

    name: str = "bool"
    dtype: np.dtype = np.dtype(np.bool_)

    @property
    def size_in_bytes(self) -> int:
        """Bytes of one element."""
        return 1

    def from_bool(self, value: bool, /) -> np.generic:
        """Return a value of the type."""
        return np.bool_(value)

    def to_bool(self, value: np.generic, /) -> bool:
        """Return a value as a Python bool."""
        return bool(value)


@dataclass(frozen=True, slots=True)
class BoolU8:
    """Truth values stored as bytes 0 and 1, for devices and formats without a bool.

    Examples
    --------
    >>> BOOL_U8.from_u8(2)
    True
    >>> BOOL_U8.view(BOOL_U8.store([True, False]))
    array([ True, False])
    """

    name: str = "bool_u8"
    dtype: np.dtype = np.dtype(np.uint8)

    @property
    def size_in_bytes(self) -> int:
        """Bytes of one element."""
        return 1

    def from_u8(self, value: int, /) -> bool:
        """Return the truth of a byte: every byte but 0 is True.

        Raises
        ------
        InvalidArgument
            It is no byte.
        """
        if not 0 <= value <= 255:
            raise InvalidArgument(
                "BoolU8.from_u8", "value", got=value, wanted="0..255", arg="value", reason="out of range"
            )
        return value != 0

    def from_bool(self, value: bool, /) -> np.generic:
        """Return a value of the type: 0 or 1."""
        return np.uint8(bool(value))

    def to_bool(self, value: np.generic, /) -> bool:
        """Return a value as a Python bool."""
        return bool(value)

    def store(self, values: object, /) -> np.ndarray:
        """Return truth values as bytes 0 and 1."""
        return np.asarray(values).astype(np.bool_).view(np.uint8)

    def view(self, stored: np.ndarray, /) -> np.ndarray:
        """Return bytes as NumPy's bool; those of `store` without a copy.

        Raises
        ------
        UnsupportedDType
            They are no bytes.
        """
        if stored.dtype != self.dtype:
            raise UnsupportedDType(
                "BoolU8.view", "stored", got=stored.dtype, wanted="uint8", dtype=stored.dtype, op="BoolU8.view"
            )
        return stored.view(np.bool_) if not stored.size or stored.max() <= 1 else stored != 0


F64, F32, F16 = (
    Float("f64", np.dtype(np.float64)),
    Float("f32", np.dtype(np.float32)),
    Float("f16", np.dtype(np.float16)),
)
BF16 = Float("bf16", np.dtype(ml_dtypes.bfloat16))
FP8_E4M3 = Float("fp8_e4m3", np.dtype(ml_dtypes.float8_e4m3fn))
FP8_E5M2 = Float("fp8_e5m2", np.dtype(ml_dtypes.float8_e5m2))
I8, I16, I32, I64 = (Int(f"i{8 * np.dtype(t).itemsize}", np.dtype(t)) for t in (np.int8, np.int16, np.int32, np.int64))
U8, U16, U32, U64 = (
    Int(f"u{8 * np.dtype(t).itemsize}", np.dtype(t)) for t in (np.uint8, np.uint16, np.uint32, np.uint64)
)
BOOL, BOOL_U8 = Bool(), BoolU8()

_BY_DTYPE: dict[np.dtype, Float | Int | Bool] = {
    e.dtype: e for e in (F64, F32, F16, BF16, FP8_E4M3, FP8_E5M2, I8, I16, I32, I64, U8, U16, U32, U64, BOOL)
}


def element_of(dtype: np.dtype | type | str, /) -> Float | Int | Bool:
    """Return the type of elements of a dtype.

    Raises
    ------
    UnsupportedDType
        It is no dtype of these.
    """
    try:
        return _BY_DTYPE[np.dtype(dtype)]
    except (KeyError, TypeError) as error:
        raise UnsupportedDType(
            "element_of",
            "dtype",
            got=repr(dtype),
            wanted=", ".join(e.name for e in _BY_DTYPE.values()),
            dtype=dtype,
            op="element_of",
        ) from error
