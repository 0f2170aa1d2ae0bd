"""The dtypes, their kinds, and the dtypes that a device takes by default.

A dtype is an ``np.dtype`` (of NumPy or of ml_dtypes), as in JAX; two names of one type compare equal and hash equal.
The namespace's names for them are `DTypeName`s.
"""

from __future__ import annotations

import contextvars
from types import TracebackType
from typing import TypeAlias

import jax
import ml_dtypes
import numpy as np

from ..errors import InvalidArgument, UnsupportedDType

DType: TypeAlias = np.dtype
"""The type of a dtype."""

DTypeLike: TypeAlias = "np.dtype | DTypeName | type | str"
"""What `as_dtype` takes for a dtype."""

bool_ = np.dtype(np.bool_)
int8, int16, int32, int64 = (np.dtype(t) for t in (np.int8, np.int16, np.int32, np.int64))
uint8, uint16, uint32, uint64 = (np.dtype(t) for t in (np.uint8, np.uint16, np.uint32, np.uint64))
float32, float64 = np.dtype(np.float32), np.dtype(np.float64)
complex64, complex128 = np.dtype(np.complex64), np.dtype(np.complex128)
float16, bfloat16 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
float8_e3m4, float8_e4m3 = np.dtype(ml_dtypes.float8_e3m4), np.dtype(ml_dtypes.float8_e4m3)
float8_e4m3fn, float8_e4m3fnuz = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e4m3fnuz)
float8_e4m3b11fnuz, float8_e8m0fnu = np.dtype(ml_dtypes.float8_e4m3b11fnuz), np.dtype(ml_dtypes.float8_e8m0fnu)
float8_e5m2, float8_e5m2fnuz = np.dtype(ml_dtypes.float8_e5m2), np.dtype(ml_dtypes.float8_e5m2fnuz)
int2, int4 = np.dtype(ml_dtypes.int2), np.dtype(ml_dtypes.int4)
uint2, uint4 = np.dtype(ml_dtypes.uint2), np.dtype(ml_dtypes.uint4)


class DTypeName:
    """A dtype's name in the namespace, such as ``xp.float64``: the ``np.dtype`` in every respect but two.

    It equals and hashes as its dtype does, NumPy and JAX take it wherever they take a dtype, and attributes are the
    dtype's. It never equals None, whereas ``np.dtype("float64") == None`` is true (NumPy reads None as float64), and
    it prints as its name.

    Attributes
    ----------
    dtype
        The ``np.dtype``, which is also what ``x.dtype`` is.
    """

    __slots__ = ("dtype",)

    def __init__(self, dtype: DType, /) -> None:
        self.dtype = dtype

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DTypeName):
            return self.dtype is other.dtype or self.dtype == other.dtype
        return other is not None and bool(self.dtype == other)

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # protocols of pickle and copy, asked before `dtype` is set
            raise AttributeError(name)
        return getattr(self.dtype, name)

    def __call__(self, *values: object) -> object:
        raise TypeError(f"{self}: a dtype is no function. Write asarray(x, dtype={self}), or astype(x, {self}).")

    def __reduce__(self) -> tuple[type[DTypeName], tuple[DType]]:
        return DTypeName, (self.dtype,)

    def __repr__(self) -> str:
        return self.dtype.name

    __str__ = __repr__


STANDARD: dict[str, DType] = {
    "bool": bool_,
    "int8": int8,
    "int16": int16,
    "int32": int32,
    "int64": int64,
    "uint8": uint8,
    "uint16": uint16,
    "uint32": uint32,
    "uint64": uint64,
    "float32": float32,
    "float64": float64,
    "complex64": complex64,
    "complex128": complex128,
}
"""The dtypes of the array API standard by their canonical names."""

WIDE: frozenset[DType] = frozenset((int64, uint64, float64, complex128))
"""The dtypes that JAX keeps only while x64 is on."""

FLOAT8: frozenset[DType] = frozenset(
    (
        float8_e3m4,
        float8_e4m3,
        float8_e4m3fn,
        float8_e4m3fnuz,
        float8_e4m3b11fnuz,
        float8_e8m0fnu,
        float8_e5m2,
        float8_e5m2fnuz,
    )
)
"""The 8-bit floating-point dtypes."""

NARROW_INT: frozenset[DType] = frozenset((int2, int4, uint2, uint4))
"""The integer dtypes below one byte; arrays of them can be cast, and little else."""

_SIGNED = (int2, int4, int8, int16, int32, int64)
_UNSIGNED = (uint2, uint4, uint8, uint16, uint32, uint64)
_REAL = (float16, bfloat16, float32, float64, *FLOAT8)
_COMPLEX = (complex64, complex128)

KIND: dict[DType, str] = {
    bool_: "bool",
    **dict.fromkeys(_SIGNED, "signed integer"),
    **dict.fromkeys(_UNSIGNED, "unsigned integer"),
    **dict.fromkeys(_REAL, "real floating"),
    **dict.fromkeys(_COMPLEX, "complex floating"),
}
"""The standard's kind of each dtype; a dtype that is not here is not supported."""

KINDS: dict[str, frozenset[DType]] = {
    "bool": frozenset((bool_,)),
    "signed integer": frozenset(_SIGNED),
    "unsigned integer": frozenset(_UNSIGNED),
    "integral": frozenset(_SIGNED + _UNSIGNED),
    "real floating": frozenset(_REAL),
    "complex floating": frozenset(_COMPLEX),
    "numeric": frozenset(_SIGNED + _UNSIGNED + _REAL + _COMPLEX),
}
"""The dtypes of each kind that `isdtype` knows."""

SIGNED, UNSIGNED, INTEGRAL = KINDS["signed integer"], KINDS["unsigned integer"], KINDS["integral"]
REAL_FLOATING, COMPLEX, NUMERIC = KINDS["real floating"], KINDS["complex floating"], KINDS["numeric"]
INEXACT: frozenset[DType] = REAL_FLOATING | COMPLEX
"""Real and complex floating-point dtypes."""


def real_of(dtype: DType, /) -> DType:
    """Return the dtype of the components of a complex dtype, any other dtype unchanged."""
    return float32 if dtype == complex64 else float64 if dtype == complex128 else dtype


def complex_of(dtype: DType, /) -> DType:
    """Return the complex dtype that holds a real floating dtype: complex128 for float64, else complex64."""
    return complex128 if dtype in (float64, complex128) else complex64


def isdtype(dtype: DType, kind: object, /) -> bool:
    """Tell whether `dtype` is `kind`: a dtype, the name of a kind, or a tuple of these.

    Raises
    ------
    InvalidArgument
        For a kind that the standard does not have.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, part) for part in kind)
    if isinstance(kind, str):
        members = KINDS.get(kind)
        if members is None:
            raise InvalidArgument(
                "isdtype", "kind", got=repr(kind), wanted="one of " + ", ".join(map(repr, KINDS)), arg="kind"
            )
        return dtype in members
    return dtype == as_dtype(kind, "isdtype", "kind")


# Specifications of a dtype that were resolved before; Python's own types are absent, as they depend on the device.
_resolved: dict[object, DType] = {d: d for d in KIND}


def as_dtype(dtype: object, operation: str = "", argument: str = "dtype", device: object = None) -> DType:
    """Return the ``np.dtype`` for what a caller gave as dtype.

    Parameters
    ----------
    dtype
        A dtype, a scalar type of NumPy, ml_dtypes or ``jax.numpy``, the name of a dtype, or one of Python's
        ``bool``, ``int``, ``float`` and ``complex``, which mean the default of their kind.
    operation, argument
        Named in the error.
    device
        A ``jax.Array``, device or None whose defaults Python's types take.

    Raises
    ------
    UnsupportedDType
        If it is no dtype, or one that JAX does not have (strings, objects, dates, extended precision).
    """
    known = _resolved.get(dtype) if dtype.__hash__ is not None else None
    if known is not None:
        return known
    if dtype is float:
        return default_float(device)
    if dtype is int:
        return default_int(device)
    if dtype is complex:
        return default_complex(device)
    try:
        if dtype is None:
            raise TypeError
        found: DType = np.dtype(dtype).newbyteorder("=")  # type: ignore[call-overload]
    except TypeError as error:
        raise UnsupportedDType(
            operation, argument, got=repr(dtype), wanted="a dtype such as xp.float32", dtype=dtype, op=operation
        ) from error
    if found not in KIND:
        raise UnsupportedDType(
            operation,
            argument,
            got=repr(dtype),
            wanted="a dtype of JAX: " + ", ".join(STANDARD) + ", float16, bfloat16, float8_*",
            dtype=dtype,
            op=operation,
        )
    if len(_resolved) < 256 and isinstance(dtype, (str, type, np.dtype)):
        _resolved[dtype] = found
    return found


# Defaults. Devices with 64-bit floats take NumPy's defaults, the others 32 bits.

_Defaults: TypeAlias = tuple[DType, DType, DType]  # float, int, complex
_WIDE_DEFAULTS: _Defaults = (float64, int64, complex128)
_NARROW_DEFAULTS: _Defaults = (float32, int32, complex64)
_WIDE_PLATFORMS = frozenset(("cpu", "cuda", "rocm", "gpu"))

_override: contextvars.ContextVar[tuple[DType | None, DType | None, DType | None]] = contextvars.ContextVar(
    "rtx_jax_default_dtypes", default=(None, None, None)
)
_everywhere_wide = False  # True once it is known that no device of this process and no override narrows a default
_overridden = False  # set by the first set_default_dtype, never cleared: other contexts may hold an override


def _one_width() -> bool:
    # Plugins rank above the CPU, so a default platform with 64 bits means that no other kind of device is there,
    # except where the user listed the platforms.
    if jax.default_backend() not in _WIDE_PLATFORMS:
        return False
    listed = jax.config.jax_platforms  # type: ignore[attr-defined]
    return not listed or all(name.strip().lower() in _WIDE_PLATFORMS for name in listed.split(","))


def _platform(device: object) -> str:
    if isinstance(device, jax.Array):
        device = None if isinstance(device, jax.core.Tracer) else device.sharding
    if isinstance(device, jax.sharding.Sharding):
        device = next(iter(device.device_set), None)
    if device is None:
        device = jax.config.jax_default_device  # type: ignore[attr-defined]
    if device is None:
        return jax.default_backend()
    return device if isinstance(device, str) else getattr(device, "platform", "cpu")


def has_wide_floats(device: object = None, /) -> bool:
    """Tell whether the hardware has 64-bit floats, for the same argument as `default_float`."""
    return _platform(device).partition(":")[0].lower() in _WIDE_PLATFORMS


def _defaults(device: object) -> _Defaults:
    global _everywhere_wide
    if not _overridden and _one_width():
        _everywhere_wide = True
        if _overridden:  # by another thread, just now
            _everywhere_wide = False
        return _WIDE_DEFAULTS
    found = _WIDE_DEFAULTS if has_wide_floats(device) else _NARROW_DEFAULTS
    if _overridden:
        floating, integer, cplx = _override.get()
        return (
            found[0] if floating is None else floating,
            found[1] if integer is None else integer,
            found[2] if cplx is None else cplx,
        )
    return found


def default_float(device: object = None, /) -> DType:
    """Return the default real floating dtype of a ``jax.Array``, device, sharding, or (None) the default device.

    float64 where the hardware has it (CPU, CUDA, ROCm), else float32; `set_default_dtype` changes it.
    """
    return float64 if _everywhere_wide else _defaults(device)[0]


def default_int(device: object = None, /) -> DType:
    """Return the default integer dtype, for the same argument as `default_float`: int64, or int32 without 64 bits."""
    return int64 if _everywhere_wide else _defaults(device)[1]


def default_complex(device: object = None, /) -> DType:
    """Return the default complex dtype, for the same argument as `default_float`: complex128 or complex64."""
    return complex128 if _everywhere_wide else _defaults(device)[2]


class set_default_dtype:
    """Change the default dtype of its kind in the current context; as a context manager, until the block ends.

    Parameters
    ----------
    dtype
        A real or complex floating dtype changes the default of both kinds to the matching pair (complex64 beside
        16-bit and 8-bit floats); an integer dtype that of integers; None gives all of them back to the device.

    Raises
    ------
    UnsupportedDType
        For bool, and for integers below one byte.

    Notes
    -----
    The setting belongs to the current ``contextvars`` context: a new thread starts with the device's defaults.

    Examples
    --------
    >>> import rtx_jax as xp
    >>> with xp.set_default_dtype(xp.float32):
    ...     xp.ones(2).dtype
    dtype('float32')
    """

    __slots__ = ("_before",)

    def __init__(self, dtype: DTypeLike | None, /) -> None:
        global _overridden, _everywhere_wide
        now = self._before = _override.get()
        if dtype is None:
            new: tuple[DType | None, DType | None, DType | None] = (None, None, None)
        else:
            wanted = as_dtype(dtype, "set_default_dtype")
            if wanted in INEXACT:
                new = (real_of(wanted), now[1], complex_of(wanted))
            elif wanted in INTEGRAL and wanted not in NARROW_INT:
                new = (now[0], wanted, now[2])
            else:
                raise UnsupportedDType(
                    "set_default_dtype",
                    "dtype",
                    got=wanted.name,
                    wanted="a floating or an integer dtype",
                    dtype=wanted,
                    op="set_default_dtype",
                )
        _overridden, _everywhere_wide = True, False
        _override.set(new)

    def __enter__(self) -> set_default_dtype:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        _override.set(self._before)
