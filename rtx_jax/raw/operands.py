"""What the raw functions ask of their operands: kinds of dtypes, one dtype, shapes that broadcast."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable

import jax
import numpy as np
from jax import lax

from .._compat import x64
from ..core.dtypes import FLOAT8, INEXACT, INTEGRAL, NUMERIC, REAL_FLOATING, WIDE, DType, bool_, default_float, float32
from ..core.promotion import result_dtype
from ..errors import BroadcastError, DTypeMismatch, UnsupportedDType

REAL: frozenset[DType] = INTEGRAL | REAL_FLOATING
"""Integers and real floating-point dtypes."""

BITS: frozenset[DType] = INTEGRAL | {bool_}
"""Integers and bool."""

REAL_OR_BOOL: frozenset[DType] = REAL | {bool_}
"""All but complex dtypes."""

EVERY: frozenset[DType] = NUMERIC | {bool_}
"""All dtypes."""

_WANTED = {
    NUMERIC: "a numeric dtype",
    EVERY: "a dtype of JAX",
    REAL: "a real-valued dtype",
    REAL_OR_BOOL: "a real-valued dtype",
    REAL_OR_BOOL - FLOAT8: "a real-valued dtype of at least 16 bits for floats",
    BITS: "an integer dtype or bool",
    INTEGRAL: "an integer dtype",
    INEXACT: "a floating-point dtype",
    REAL_FLOATING: "a real floating-point dtype",
}


def check_kind(operation: str, allowed: frozenset[DType], *operands: jax.Array, argument: str = "") -> None:
    """Raise UnsupportedDType if an operand's dtype is not one of `allowed`."""
    for position, x in enumerate(operands, 1):
        if x.dtype not in allowed:
            argument = argument or (f"x{position}" if len(operands) > 1 else "x")
            remedy = "Cast it with xp.astype first."
            if x.dtype == bool_ and allowed is NUMERIC:
                remedy = "Use the logical and bitwise functions, or cast it to an integer dtype."
            raise UnsupportedDType(
                operation,
                argument,
                got=x.dtype.name,
                wanted=_WANTED[allowed],
                remedy=remedy,
                dtype=x.dtype,
                op=operation,
            )


def check_shapes(operation: str, *operands: jax.Array) -> None:
    """Raise BroadcastError if the shapes of the operands do not broadcast together."""
    try:
        np.broadcast_shapes(*(x.shape for x in operands))
    except ValueError as error:
        lhs, rhs = operands[0].shape, operands[-1].shape
        raise BroadcastError(
            operation,
            "",
            got="shapes " + " and ".join(str(x.shape) for x in operands) + ", which cannot be broadcast together",
            wanted="shapes that are equal or 1 on each axis, counted from the last",
            lhs=lhs,
            rhs=rhs,
        ) from error


def common_dtype(operation: str, *operands: jax.Array) -> DType:
    """Return the dtype that the operands promote to; the error names the operation."""
    try:
        return result_dtype(*(x.dtype for x in operands))
    except DTypeMismatch as error:
        raise DTypeMismatch(operation, "", got=error.got, wanted=error.wanted, remedy=error.remedy) from error


def combine(
    operation: str,
    fn: Callable[[jax.Array, jax.Array], jax.Array],
    x1: jax.Array,
    x2: jax.Array,
    allowed: frozenset[DType] | None = None,
) -> jax.Array:
    """Apply `fn` to two operands in their common dtype, after a check of kinds (if any) and shapes.

    A bool beside a number is a number; two bools must be in `allowed` themselves. The common dtype may need x64
    where the operands do not: int32 beside uint32 makes int64.
    """
    if allowed is not None:
        for position, x in enumerate((x1, x2), 1):
            if x.dtype != bool_ and x.dtype not in allowed:
                check_kind(operation, allowed, x, argument=f"x{position}")
    dtype = common_dtype(operation, x1, x2)
    if allowed is not None and dtype not in allowed:
        check_kind(operation, allowed, x1, argument="x1")
    check_shapes(operation, x1, x2)
    with x64() if dtype in WIDE else contextlib.nullcontext():
        return fn(lax.convert_element_type(x1, dtype), lax.convert_element_type(x2, dtype))


def floating(fn: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
    """Decorate a function of one floating-point operand to take any number.

    Integers and bools become the default float, under x64 where that has 64 bits; 8-bit floats are computed in
    float32, since XLA has no transcendental functions of them.
    """

    @functools.wraps(fn)
    def raw(x: jax.Array, /) -> jax.Array:
        if x.dtype in FLOAT8:
            return lax.convert_element_type(fn(lax.convert_element_type(x, float32)), x.dtype)
        if x.dtype in INEXACT:
            return fn(x)
        with x64():
            return fn(lax.convert_element_type(x, default_float()))

    return raw


def floating2(
    fn: Callable[[jax.Array, jax.Array], jax.Array],
    allowed: frozenset[DType] = REAL_OR_BOOL,
) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """Decorate a function of two floating-point operands of one dtype to take any two numbers that broadcast.

    Two integers become the default float, as for `floating`.
    """
    operation = fn.__name__.lstrip("_")

    @functools.wraps(fn)
    def raw(x1: jax.Array, x2: jax.Array, /) -> jax.Array:
        check_kind(operation, allowed, x1, x2)
        check_shapes(operation, x1, x2)
        dtype = common_dtype(operation, x1, x2)
        if dtype in FLOAT8:
            wide = fn(lax.convert_element_type(x1, float32), lax.convert_element_type(x2, float32))
            return lax.convert_element_type(wide, dtype)
        if x1.dtype in INEXACT or x2.dtype in INEXACT:
            return fn(lax.convert_element_type(x1, dtype), lax.convert_element_type(x2, dtype))
        with x64():
            dtype = default_float()
            return fn(lax.convert_element_type(x1, dtype), lax.convert_element_type(x2, dtype))

    return raw
