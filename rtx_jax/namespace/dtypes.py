"""The names of the dtypes: the array API standard's, and the floats below 32 bits."""

from __future__ import annotations

from ..core import dtypes as _d
from ..core.dtypes import DTypeName

__all__ = [
    "bfloat16",
    "bool",
    "complex64",
    "complex128",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

bfloat16 = DTypeName(_d.bfloat16)
bool = DTypeName(_d.bool_)
complex64 = DTypeName(_d.complex64)
complex128 = DTypeName(_d.complex128)
float8_e3m4 = DTypeName(_d.float8_e3m4)
float8_e4m3 = DTypeName(_d.float8_e4m3)
float8_e4m3b11fnuz = DTypeName(_d.float8_e4m3b11fnuz)
float8_e4m3fn = DTypeName(_d.float8_e4m3fn)
float8_e4m3fnuz = DTypeName(_d.float8_e4m3fnuz)
float8_e5m2 = DTypeName(_d.float8_e5m2)
float8_e5m2fnuz = DTypeName(_d.float8_e5m2fnuz)
float8_e8m0fnu = DTypeName(_d.float8_e8m0fnu)
float16 = DTypeName(_d.float16)
float32 = DTypeName(_d.float32)
float64 = DTypeName(_d.float64)
int8 = DTypeName(_d.int8)
int16 = DTypeName(_d.int16)
int32 = DTypeName(_d.int32)
int64 = DTypeName(_d.int64)
uint8 = DTypeName(_d.uint8)
uint16 = DTypeName(_d.uint16)
uint32 = DTypeName(_d.uint32)
uint64 = DTypeName(_d.uint64)
