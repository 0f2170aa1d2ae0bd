"""Where `Quantized` makes and reads codes: on a device through JAX, or on the host with the reference."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import jax
import numpy as np

from ..checks import quant as check
from ..errors import HostFallback, UnsupportedDType
from ..quant import Calibration, QTensor, QuantScheme, dequantize, qmatmul, quantize
from .base import Backend
from .core import T
from .numpy import NumpyBackend
from .reference import quant as reference

__all__ = ["Codes", "DeviceCodes", "HostCodes"]

S = TypeVar("S")

_warned: set[str] = set()


class Codes(Protocol[S]):
    """What `Quantized` does with codes: on the device, or with the reference on the host."""

    def quantize(self, x: S, scheme: QuantScheme, calibration: Calibration, /) -> object:
        """Return `x` quantized."""

    def dequantize(self, q: object, /) -> S:
        """Return the numbers of a quantized tensor."""

    def matmul(self, a: object, b: object, activations: QuantScheme | None, /) -> S:
        """Return the product with a quantized matrix."""

    def device(self, q: object, /) -> object:
        """Return where a quantized tensor is."""

    def moved(self, q: object, move: Callable[[S], object], /) -> object:
        """Return a quantized tensor whose parts were moved."""


class DeviceCodes:
    """Codes on the device of a JAX backend."""

    def __init__(self, inner: Backend[jax.Array]) -> None:
        self._inner = inner

    def quantize(self, x: jax.Array, scheme: QuantScheme, calibration: Calibration, /) -> QTensor[jax.Array]:
        return quantize(getattr(x, "jax", x), scheme, calibration=calibration)

    def dequantize(self, q: QTensor[jax.Array], /) -> jax.Array:
        return dequantize(q)

    def matmul(self, a: object, b: QTensor[jax.Array], activations: QuantScheme | None, /) -> jax.Array:
        return qmatmul(getattr(a, "jax", a), b, activations=activations)  # type: ignore[call-overload, no-any-return]

    def device(self, q: QTensor[jax.Array], /) -> object:
        return self._inner.device(q.data)

    def moved(self, q: QTensor[jax.Array], move: Callable[[jax.Array], jax.Array], /) -> QTensor[jax.Array]:
        return jax.tree.map(move, q)  # type: ignore[no-any-return]


class HostCodes(Generic[T]):
    """Codes on the host, by the reference: for `NumpyBackend`, and for backends that JAX does not know."""

    def __init__(self, inner: Backend[T]) -> None:
        self._inner = inner
        self._foreign = not isinstance(inner, NumpyBackend)

    def quantize(self, x: T, scheme: QuantScheme, calibration: Calibration, /) -> QTensor[np.ndarray]:
        array = self._array("quantize", x)
        if array.dtype.kind not in "fV":
            raise UnsupportedDType(
                "quantize", "x", got=array.dtype.name, wanted="a real floating dtype", dtype=array.dtype, op="quantize"
            )
        return quantized_on_host(array, scheme, calibration)

    def dequantize(self, q: QTensor[np.ndarray], /) -> T:
        return self._tensor(numbers_on_host(q, q.dtype))

    def matmul(self, a: object, b: QTensor[np.ndarray], activations: QuantScheme | None, /) -> T:
        if isinstance(a, QTensor):
            dtype, rows = a.dtype, numbers_on_host(a, np.dtype(np.float64))
        else:
            given = self._array("q_matmul", a)  # type: ignore[arg-type]
            dtype, rows = given.dtype, given
            if activations is not None:
                matrix = given.reshape(math.prod(given.shape[:-1]), given.shape[-1])
                codes = quantized_on_host(matrix, activations, "minmax", finite=False)
                rows = numbers_on_host(codes, np.dtype(np.float64)).reshape(given.shape)
        check.product("q_matmul", rows.shape, b.shape)
        matrix = rows.reshape(math.prod(rows.shape[:-1]), rows.shape[-1])
        product = matrix.astype(np.float64) @ numbers_on_host(b, np.dtype(np.float64))
        return self._tensor(product.reshape(*rows.shape[:-1], b.shape[1]).astype(dtype))

    def device(self, q: QTensor[np.ndarray], /) -> object:
        return self._inner.default_device()

    def moved(self, q: QTensor[np.ndarray], move: Callable[[T], T], /) -> QTensor[np.ndarray]:
        return q

    def _array(self, operation: str, x: T) -> np.ndarray:
        if not self._foreign:
            return x  # type: ignore[return-value]
        name = self._inner.name()
        if name not in _warned:
            _warned.add(name)
            warnings.warn(
                f"{operation}: the backend {name!r} is not one of JAX, so quantized tensors are kept and multiplied "
                "on the host, which moves the operands there and back.",
                HostFallback,
                stacklevel=5,
            )
        return self._inner.to_data(x).reshape(x.shape)

    def _tensor(self, array: np.ndarray) -> T:
        return self._inner.from_data(array, array.shape) if self._foreign else array  # type: ignore[return-value]


def quantized_on_host(
    x: np.ndarray, scheme: QuantScheme, calibration: Calibration, finite: bool = True
) -> QTensor[np.ndarray]:
    """Quantize with the reference; `finite` refuses NaN and infinity.

    Raises
    ------
    InvalidArgument
        `x` is not finite.
    InvalidDimension, ShapeMismatch
        The scheme does not fit the shape.
    """
    check.as_calibration("quantize", calibration)
    *parts, is_finite = reference.quantize(
        x,
        value=scheme.value,
        block=scheme.block(x.shape),
        scale_dtype=scheme.scale_dtype,
        global_scale=scheme.global_scale,
        symmetric=scheme.symmetric,
        calibration=calibration,
        packed=scheme.packed,
    )
    if finite and not is_finite:
        raise check.not_finite("quantize")
    data, scale, *rest = parts
    zero = None if scheme.symmetric else rest[0]
    overall = rest[-1] if scheme.global_scale else None
    return QTensor(data, scale, zero, overall, shape=x.shape, scheme=scheme, dtype=x.dtype)


def numbers_on_host(q: QTensor[np.ndarray], dtype: np.dtype) -> np.ndarray:
    """Return what a quantized array stands for, by the reference."""
    scheme = q.stored_scheme
    numbers = reference.dequantize(
        q.data,
        q.scale,
        q.zero,
        q.overall,
        value=scheme.value,
        shape=q.stored_shape,
        block=scheme.block(q.stored_shape),
        scale_dtype=scheme.scale_dtype,
        packed=scheme.packed,
        dtype=dtype,
    )
    return numbers.swapaxes(-1, -2) if q.transposed else numbers
