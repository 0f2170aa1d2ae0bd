"""qmatmul: products with quantized matrices, on Array and on ``jax.Array``."""

from __future__ import annotations

import math
from typing import TypeVar, overload

import jax
import jax.numpy as jnp
import numpy as np

from .._array import Array, lift, wrap_shared
from ..checks import quant as check
from ..checks.choices import flag
from ..core.dispatch import Op
from ..core.dtypes import int8
from ..errors import InvalidArgument, UnsupportedDType
from ..ops import quant as _raw
from ..ops import quant_matmul as _products
from .functions import (
    FORMAT,
    Quantized,
    call,
    dequantize,
    four,
    is_raw,
    present,
    quantize,
    require_float,
    stored_format,
)
from .schemes import QuantScheme
from .tensor import QTensor

__all__ = ["integer_matmul", "qmatmul"]

T = TypeVar("T", Array, jax.Array)

# int32 holds a sum of this many products of -128..127, and of -255..255, what is left when zero points are taken off.
_MOST_TERMS, _MOST_SHIFTED_TERMS = 131_071, 33_025


def _weight_raw(
    a: jax.Array, *parts: jax.Array, present: tuple[bool, bool], dtype: np.dtype, **static: object
) -> jax.Array:
    rows = a.reshape(math.prod(a.shape[:-1]), a.shape[-1])
    product = _products.weight_matmul(rows, *four(parts, present), **static)  # type: ignore[arg-type]
    return product.reshape(*a.shape[:-1], product.shape[-1]).astype(dtype)


def _dynamic_raw(
    a: jax.Array,
    *parts: jax.Array,
    present: tuple[bool, bool],
    dtype: np.dtype,
    activations: QuantScheme,
    block: tuple[int, int],
    whole: bool,
    value: str,
    shape: tuple[int, int],
    weight_block: tuple[int, int],
    scale_dtype: str,
    packed: bool,
    transposed: bool,
) -> jax.Array:
    """Quantize rows on the fly and multiply: as integers if `whole`, else as the numbers that they stand for."""
    size = (math.prod(a.shape[:-1]), a.shape[-1])

    def weight_only(rows: jax.Array, *parts: jax.Array) -> jax.Array:
        return _products.weight_matmul(
            rows,
            *four(parts, present),
            value=value,
            shape=shape,
            block=weight_block,
            scale_dtype=scale_dtype,
            packed=packed,
            transposed=transposed,
        )

    @jax.custom_jvp
    def product(rows: jax.Array, *parts: jax.Array) -> jax.Array:
        codes, scale, *rest = _raw.quantize(
            rows,
            value=activations.value,
            block=block,
            scale_dtype=activations.scale_dtype,
            global_scale=activations.global_scale,
            symmetric=activations.symmetric,
            calibration="minmax",
            packed=False,
        )
        zero = None if activations.symmetric else rest[0]
        overall = rest[-2] if activations.global_scale else None
        if not whole:
            numbers = _raw.dequantize(
                codes,
                scale,
                zero,
                overall,
                value=activations.value,
                shape=size,
                block=block,
                scale_dtype=activations.scale_dtype,
                packed=False,
                dtype=rows.dtype,
            )
            return weight_only(numbers, *parts)
        effective = _raw.effective_scale(scale, overall, scale_dtype=activations.scale_dtype)
        return _products.quantized_matmul(
            codes,
            _products.per_row(effective, size, block),
            None if zero is None else _products.per_row(zero.astype(jnp.float32), size, block),
            *four(parts, present),
            value=value,
            shape=shape,
            block=weight_block,
            scale_dtype=scale_dtype,
            packed=packed,
            transposed=transposed,
            pairs=activations.symmetric and not present[0],
        )

    @product.defjvp
    def _jvp(primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        return product(*primals), jax.jvp(weight_only, primals, tangents)[1]

    rows = a.reshape(size).astype(jnp.float32)
    result = product(rows, *parts)
    return result.reshape(*a.shape[:-1], result.shape[-1]).astype(dtype)


def _both_raw(
    *parts: jax.Array,
    left: tuple[bool, bool],
    right: tuple[bool, bool],
    dtype: np.dtype,
    a_value: str,
    a_shape: tuple[int, int],
    a_block: tuple[int, int],
    a_scale_dtype: str,
    a_packed: bool,
    a_transposed: bool,
    value: str,
    shape: tuple[int, int],
    weight_block: tuple[int, int],
    scale_dtype: str,
    packed: bool,
    transposed: bool,
) -> jax.Array:
    """Product of two quantized matrices of integers."""
    count = 2 + sum(left)
    data, scale, zero, overall = four(parts[:count], left)
    codes = _raw.unpacked(data, check.FORMATS[a_value], a_shape, a_packed)
    effective = _raw.effective_scale(scale, overall, scale_dtype=a_scale_dtype)
    if a_transposed:
        codes, effective, zero = codes.T, effective.T, None if zero is None else zero.T
        a_shape, a_block = a_shape[::-1], a_block[::-1]
    return _products.quantized_matmul(
        codes,
        _products.per_row(effective, a_shape, a_block),
        None if zero is None else _products.per_row(zero.astype(jnp.float32), a_shape, a_block),
        *four(parts[count:], right),
        value=value,
        shape=shape,
        block=weight_block,
        scale_dtype=scale_dtype,
        packed=packed,
        transposed=transposed,
        pairs=not left[0] and not right[0],
    ).astype(dtype)


_WEIGHT = ("value", "shape", "weight_block", "scale_dtype", "packed", "transposed")
_weight = Op("qmatmul", _weight_raw, ("present", "dtype", *FORMAT, "transposed"))
_dynamic = Op("qmatmul", _dynamic_raw, ("present", "dtype", "activations", "block", "whole", *_WEIGHT))
_both = Op(
    "qmatmul",
    _both_raw,
    ("left", "right", "dtype", *(f"a_{name}" for name in FORMAT), "a_transposed", *_WEIGHT),
)
_integer_matmul = Op("integer_matmul", _products.integer_matmul, ("transposed",))


@overload
def qmatmul(
    a: Array | np.ndarray | QTensor[Array],
    b: QTensor[Array] | QTensor[jax.Array],
    /,
    *,
    activations: QuantScheme | None = None,
    propagate: bool = False,
) -> Array: ...
@overload
def qmatmul(
    a: jax.Array | QTensor[jax.Array],
    b: QTensor[jax.Array],
    /,
    *,
    activations: QuantScheme | None = None,
    propagate: bool = False,
) -> jax.Array: ...
def qmatmul(
    a: Array | jax.Array | np.ndarray | QTensor[Array] | QTensor[jax.Array],
    b: QTensor[Array] | QTensor[jax.Array],
    /,
    *,
    activations: QuantScheme | None = None,
    propagate: bool = False,
) -> object:
    """Multiply by a quantized matrix.

    Parameters
    ----------
    a
        ``(..., K)``: an array of a real floating dtype, or a quantized matrix ``(M, K)``.
    b
        The quantized matrix ``(K, N)``. A weight that lies as ``(N, K)`` is given as ``w.T``, which shares its memory
        and is the order that CPUs multiply fastest.
    activations
        Quantize the rows of `a` on the fly with this scheme; for this, `a` is read as a matrix ``(M, K)``, so
        ``QuantScheme("int8", PerChannel(0))`` has one scale for each row. If both sides are integers with one block
        along K, products are summed as exact integers, which is the fast form. None multiplies the numbers of `a` as
        they are.
    propagate
        Quantize the result: with the scheme of `a` where that is quantized, else with `activations`, else with one
        scale of the format of `b` for the whole.

    Returns
    -------
    Array, jax.Array or QTensor
        ``(..., N)`` in the dtype of `a`.

    Raises
    ------
    InvalidArgument
        `b` is not quantized.
    InvalidDimension, ShapeMismatch
        `b`, or a quantized `a`, is not a matrix; the inner sizes differ; blocks of `activations` do not divide `a`.
    UnsupportedDType
        `a` is not of a real floating dtype.

    Notes
    -----
    Between integers with one block along K, products are summed in int32 and scales and zero points are applied to the
    sums. All else is accumulated in float32, or float64 where `a` has it. The weight is
    never unpacked as a whole on CPUs (`rtx_jax.ops.quant_matmul` says where XLA leaves no choice). Differentiable
    in `a`; rounding of activations has the derivative 1. NaN or infinity in `a` spreads to its rows: nothing is
    raised, as that would wait for the result.

    Examples
    --------
    >>> import rtx_jax as xp
    >>> from rtx_jax.quant import PerChannel, QuantScheme, qmatmul, quantize
    >>> weight = quantize(xp.asarray([[1.0, -2.0], [0.5, 0.25]], dtype=xp.float32), QuantScheme("int8", PerChannel(0)))
    >>> x = xp.asarray([[1.0, 1.0]], dtype=xp.float32)
    >>> qmatmul(x, weight.T)  # -1 and 0.75, to half a scale for each weight
    Array([[-1.0078741 ,  0.74803156]], dtype=float32)
    """
    if not isinstance(b, QTensor):
        raise InvalidArgument(
            "qmatmul",
            "b",
            got=type(b).__name__,
            wanted="a QTensor",
            remedy="Quantize it, or use matmul.",
            arg="b",
            reason="not quantized",
        )
    if isinstance(a, QTensor):
        check.matrix("a", a.shape, "qmatmul")
        result = _two_quantized(a, b)
        again = a.scheme
    else:
        array = a if isinstance(a, Array) else wrap_shared(lift(a, None, "qmatmul", "a"))
        require_float("qmatmul", "a", array.dtype)
        check.product("qmatmul", array.shape, b.shape)
        raw = isinstance(a, jax.Array) and is_raw(b.data)
        again = activations or QuantScheme(b.scheme.value)
        if activations is None:
            result = call(_weight, (array, *b.parts()), (present(b), array.dtype, *_matrix(b)), raw)
        else:
            rows = (math.prod(array.shape[:-1]), array.shape[-1])
            block = activations.block(rows)
            static = (present(b), array.dtype, activations, block, _whole(activations, rows, b), *_matrix(b))
            result = call(_dynamic, (array, *b.parts()), static, raw)
    return quantize(result, again) if propagate else result  # type: ignore[call-overload]


def _two_quantized(a: Quantized, b: Quantized) -> object:
    check.product("qmatmul", a.shape, b.shape)
    raw = is_raw(a.data, b.data)
    if not _whole(a.scheme, a.shape, b):
        return call(_weight, (dequantize(a), *b.parts()), (present(b), a.dtype, *_matrix(b)), raw)
    static = (present(a), present(b), a.dtype, *_matrix(a), *_matrix(b))
    return call(_both, (*a.parts(), *b.parts()), static, raw)


def _matrix(q: Quantized) -> tuple[object, ...]:
    return (*stored_format(q), q.transposed)


def _whole(scheme: QuantScheme, shape: tuple[int, ...], b: Quantized) -> bool:
    """Tell whether both sides are integers with one block along K, whose sums int32 holds."""
    if not (scheme.format.integer and b.scheme.format.integer):
        return False
    most = _MOST_TERMS if scheme.symmetric and b.scheme.symmetric else _MOST_SHIFTED_TERMS
    return scheme.block(shape)[1] == b.scheme.block(b.shape)[0] == shape[1] <= most


def integer_matmul(a: T, b: T, /, *, transposed: bool = False) -> T:
    """Return the exact product of two int8 matrices as int32.

    Parameters
    ----------
    a
        ``(M, K)`` int8.
    b
        ``(K, N)`` int8, or ``(N, K)`` if `transposed`, which CPUs multiply several times faster.
    transposed
        How `b` is stored.

    Raises
    ------
    UnsupportedDType
        An operand is not int8.
    InvalidDimension, ShapeMismatch
        An operand is not a matrix; the inner sizes differ.

    Notes
    -----
    int32 holds the sums for K up to 131,071; above they wrap around.
    """
    left, right = (x if isinstance(x, Array) else wrap_shared(lift(x, None, "integer_matmul")) for x in (a, b))
    for name, x in (("a", left), ("b", right)):
        if x.dtype != int8:
            raise UnsupportedDType(
                "integer_matmul", name, got=x.dtype.name, wanted="int8", dtype=x.dtype, op="integer_matmul"
            )
        check.matrix(name, x.shape, "integer_matmul")
    stored = flag("integer_matmul", "transposed", transposed)
    check.product("integer_matmul", left.shape, right.shape[::-1] if stored else right.shape)
    return call(_integer_matmul, (left, right), stored, is_raw(a, b))  # type: ignore[return-value]
