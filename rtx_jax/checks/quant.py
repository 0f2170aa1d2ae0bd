"""Number formats and block grids of quantization, and the checks of them; pure Python."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import InvalidArgument, InvalidDimension, ShapeMismatch
from .choices import is_one_of

__all__ = [
    "CALIBRATIONS",
    "FORMATS",
    "SCALE_BYTES",
    "SMALLEST_SCALE",
    "Format",
    "as_format",
    "as_calibration",
    "block_grid",
    "full_block",
    "matrix",
    "not_finite",
    "packed_shape",
    "product",
]


@dataclass(frozen=True, slots=True)
class Format:
    """A format of quantized values.

    Attributes
    ----------
    name
        As `QuantScheme` spells it.
    bits
        Bits of one value.
    integer
        Whether values are integers (else floats with sign, exponent and mantissa).
    top
        The greatest magnitude of the symmetric range.
    least
        The least integer of the asymmetric range, which ends at ``-least - 1``; 0 for floats.
    mantissa
        Explicit bits of the significand; 0 for integers.
    min_exponent
        Exponent of the smallest normal number; 0 for integers.
    """

    name: str
    bits: int
    integer: bool
    top: float
    least: int = 0
    mantissa: int = 0
    min_exponent: int = 0


FORMATS: dict[str, Format] = {
    "int8": Format("int8", 8, True, 127.0, -128),
    "int4": Format("int4", 4, True, 7.0, -8),
    "fp8_e4m3": Format("fp8_e4m3", 8, False, 448.0, 0, 3, -6),
    "fp8_e5m2": Format("fp8_e5m2", 8, False, 57344.0, 0, 2, -14),
    "fp4_e2m1": Format("fp4_e2m1", 4, False, 6.0, 0, 1, 0),
}
"""The formats of values by name. e4m3 is the finite one ("fn" in ml_dtypes), as in the OCP specification."""

SCALE_BYTES: dict[str, int] = {"float32": 4, "bfloat16": 2, "e8m0": 1, "e4m3": 1}
"""The types of scales, and the bytes of one. e8m0 is a power of two; e4m3 has so small a range that it needs the
global scale."""

CALIBRATIONS: tuple[str, ...] = ("minmax", "absmax", "absmean", "mse")
"""How the range of a block is found."""

SMALLEST_SCALE = 2.0**-125
"""No scale is smaller: half of it is the smallest normal float32, below which devices flush numbers to zero."""


def as_format(operation: str, value: object) -> Format:
    """Return the format of that name, or raise InvalidArgument."""
    found = FORMATS.get(value) if isinstance(value, str) else None
    if found is None:
        raise InvalidArgument(
            operation,
            "value",
            got=repr(value),
            wanted="one of " + ", ".join(map(repr, FORMATS)),
            arg="value",
            reason="no such format",
        )
    return found


def full_block(operation: str, shape: tuple[int, ...], block: tuple[int, ...]) -> tuple[int, ...]:
    """Return a block with one size for each axis: sizes stand for the last axes, those before them have size 1.

    Raises
    ------
    InvalidDimension
        The block has more axes than the array.
    """
    missing = len(shape) - len(block)
    if missing < 0:
        raise InvalidDimension(
            operation,
            "block",
            got=f"blocks of {len(block)} axes",
            wanted=f"at most the {len(shape)} axes of the array",
            dim=len(block),
            ndim=len(shape),
        )
    return (1,) * missing + block


def block_grid(operation: str, shape: tuple[int, ...], block: tuple[int, ...]) -> tuple[int, ...]:
    """Return how many blocks lie along each axis.

    Parameters
    ----------
    shape, block
        Sizes of the array and of one block, of equal length.

    Raises
    ------
    ShapeMismatch
        The block does not divide the shape.
    """
    if any(b < 1 if b != n else False for n, b in zip(shape, block, strict=True)) or any(
        b != n and n % b for n, b in zip(shape, block, strict=True)
    ):
        raise ShapeMismatch(
            operation,
            "block",
            got=f"blocks of shape {block} in an array of shape {shape}",
            wanted="blocks that divide every axis",
            remedy="Choose another block, or pad the array.",
            expected=block,
            got_shape=shape,
        )
    return tuple(1 if n == b else n // b for n, b in zip(shape, block, strict=True))


def packed_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the bytes that hold 4-bit values of that shape, two in a byte.

    Pairs lie along the last axis where its size is even; else the array is packed flat, the last half byte unused.
    """
    if shape and shape[-1] % 2 == 0:
        return (*shape[:-1], shape[-1] // 2)
    return ((math.prod(shape) + 1) // 2,)


def as_calibration(operation: str, calibration: object) -> None:
    """Raise InvalidArgument unless it is the name of a calibration."""
    if not is_one_of(calibration, CALIBRATIONS):
        raise InvalidArgument(
            operation,
            "calibration",
            got=repr(calibration),
            wanted="one of " + ", ".join(map(repr, CALIBRATIONS)),
            arg="calibration",
            reason="no such calibration",
        )


def not_finite(operation: str) -> InvalidArgument:
    """Return the error for NaN or infinity among numbers to be quantized."""
    return InvalidArgument(
        operation,
        "x",
        got="NaN or infinity among the numbers",
        wanted="finite numbers",
        remedy="Replace them first: where(isfinite(x), x, 0).",
        arg="x",
        reason="not finite",
    )


def product(operation: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """Check the shapes of ``(..., K) @ (K, N)``.

    Raises
    ------
    InvalidDimension
        `b` is not a matrix, or `a` has no axis.
    ShapeMismatch
        The inner sizes differ.
    """
    matrix("b", b, operation)
    if not a:
        raise InvalidDimension(operation, "a", got="no axes", wanted="at least 1 axis", dim=0, ndim=0)
    if a[-1] != b[0]:
        raise ShapeMismatch(
            operation,
            "b",
            got=f"{b[0]} rows",
            wanted=f"as many as a has columns: {a[-1]}",
            remedy="A weight that lies as (N, K) is given as w.T.",
            expected=(a[-1],),
            got_shape=(b[0],),
        )


def matrix(argument: str, shape: tuple[int, ...], operation: str) -> None:
    """Raise InvalidDimension unless the shape has two axes."""
    if len(shape) != 2:
        raise InvalidDimension(
            operation, argument, got=f"shape {shape}", wanted="a matrix, 2 axes", dim=len(shape), ndim=len(shape)
        )
