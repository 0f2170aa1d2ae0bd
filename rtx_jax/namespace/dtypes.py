"""The names of the dtypes: the array API standard's, and the floats below 32 bits.

They are the scalar types of NumPy and ml_dtypes, as NumPy's, CuPy's and JAX's own names are scalar types; the dtype of
an Array is an ``np.dtype`` and equals the name. (An ``np.dtype`` as a name would equal None in the case of float64.)
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

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

bool = np.bool_
bfloat16 = ml_dtypes.bfloat16
complex64 = np.complex64
complex128 = np.complex128
float8_e3m4 = ml_dtypes.float8_e3m4
float8_e4m3 = ml_dtypes.float8_e4m3
float8_e4m3b11fnuz = ml_dtypes.float8_e4m3b11fnuz
float8_e4m3fn = ml_dtypes.float8_e4m3fn
float8_e4m3fnuz = ml_dtypes.float8_e4m3fnuz
float8_e5m2 = ml_dtypes.float8_e5m2
float8_e5m2fnuz = ml_dtypes.float8_e5m2fnuz
float8_e8m0fnu = ml_dtypes.float8_e8m0fnu
float16 = np.float16
float32 = np.float32
float64 = np.float64
int8 = np.int8
int16 = np.int16
int32 = np.int32
int64 = np.int64
uint8 = np.uint8
uint16 = np.uint16
uint32 = np.uint32
uint64 = np.uint64
