"""`Quantized`: a backend whose tensors may be quantized, around another one."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import ClassVar, Literal, get_args

import numpy as np

from ..core.host_recorder import HostValue, OperationCall
from ..errors import InvalidArgument, UnsupportedDType
from ..quant import Calibration, QTensor, QuantScheme
from .base import Backend
from .codes import Codes, DeviceCodes, HostCodes
from .core import Call, Params, T
from .jax import JaxBackend
from .wrapper import Wrapper

__all__ = ["Propagation", "Quantized"]

Propagation = Literal["inhibit", "propagate"]
"""What becomes of results of operations on quantized tensors."""


class Quantized(Wrapper[T]):
    """A backend that takes quantized tensors (`QTensor`) wherever `inner` takes a floating tensor.

    `quantize` makes them. Products with a quantized matrix use its codes (`rtx_jax.quant.qmatmul`); transposes of a
    quantized matrix share its memory; every other operation gets the numbers that its quantized operands stand for.
    Operations without a quantized operand are those of `inner`.

    Parameters
    ----------
    inner
        The backend that does the work.
    scheme
        How `quantize` quantizes without a scheme of its own.
    propagation
        ``"inhibit"``: operations on quantized tensors return floating tensors. ``"propagate"``: floating results are
        quantized again with `scheme`, whose blocks must divide them.
    activations
        How rows are quantized on the fly before a product with a quantized matrix; None multiplies them as they are.

    Raises
    ------
    InvalidArgument
        `inner` is an `Autodiff`, which goes around this one.

    Examples
    --------
    >>> from rtx_jax.backend import CpuBackend, Quantized
    >>> from rtx_jax.quant import PerChannel, QuantScheme
    >>> B = Quantized(CpuBackend(), QuantScheme("int8", PerChannel(0)))
    >>> B.name()
    'quantized<cpu>'
    >>> weight = B.quantize(B.from_data([1.0, -2.0, 0.5, 0.25], (2, 2)))
    >>> B.to_data(B.linear(B.from_data([2.0, 2.0], (1, 2)), weight)).round(2)
    array([-2.02,  1.5 ], dtype=float32)
    """

    prefix: ClassVar[str] = "quantized"

    def __init__(
        self,
        inner: Backend[T],
        scheme: QuantScheme = QuantScheme(),  # noqa: B008 - a frozen value
        propagation: Propagation = "inhibit",
        activations: QuantScheme | None = None,
        /,
    ) -> None:
        super().__init__(inner)
        if propagation not in get_args(Propagation):
            raise InvalidArgument(
                "Quantized",
                "propagation",
                got=repr(propagation),
                wanted="'inhibit' or 'propagate'",
                arg="propagation",
                reason="no such propagation",
            )
        for name, value in (("scheme", scheme), ("activations", activations)):
            if not isinstance(value, QuantScheme) and not (value is None and name == "activations"):
                raise InvalidArgument(
                    "Quantized", name, got=repr(value), wanted="a QuantScheme", arg=name, reason="not a scheme"
                )
        root: object = inner
        while isinstance(root, Wrapper):
            if root.prefix == "autodiff":
                raise InvalidArgument(
                    "Quantized",
                    "inner",
                    got=f"the backend {inner.name()!r}",
                    wanted="a backend that does not record",
                    remedy="Write Autodiff(Quantized(B)): codes have no gradient, and what they multiply has.",
                    arg="inner",
                    reason="records itself",
                )
            root = root.inner
        self.scheme = scheme
        self.propagation = propagation
        self.activations = activations
        self._codes: Codes[T] = _codes_of(inner)

    def _parts(self) -> tuple[Hashable, ...]:
        return (self._inner, self.scheme, self.propagation, self.activations)

    # -- quantized tensors

    def quantize(self, x: T, scheme: QuantScheme | None = None, /, *, calibration: Calibration = "minmax") -> T:
        """Return `x` quantized; see `rtx_jax.quant.quantize` for the arguments and errors.

        Parameters
        ----------
        x
            A floating tensor.
        scheme
            None takes that of the backend.
        """
        if isinstance(x, QTensor):
            return x
        return self._codes.quantize(x, scheme or self.scheme, calibration)  # type: ignore[return-value]

    def dequantize(self, x: T, /) -> T:
        """Return the floating tensor that `x` stands for; a floating tensor as it is."""
        return self._codes.dequantize(x) if isinstance(x, QTensor) else x

    def q_matmul(self, lhs: T, rhs: T, /) -> T:
        """Return the product with a quantized matrix ``(K, N)``; see `rtx_jax.quant.qmatmul`.

        Parameters
        ----------
        lhs
            ``(..., K)``, quantized (a matrix) or floating.
        rhs
            ``(K, N)``, quantized.

        Raises
        ------
        InvalidArgument
            `rhs` is not quantized.
        InvalidDimension, ShapeMismatch
            `rhs` is not a matrix; the inner sizes differ.
        """
        if not isinstance(rhs, QTensor):
            raise InvalidArgument(
                "q_matmul", "rhs", got=type(rhs).__name__, wanted="a QTensor", arg="rhs", reason="not quantized"
            )
        return self._propagated(self._codes.matmul(lhs, rhs, self.activations))

    # -- dispatch

    def _apply(self, operation: str, operands: tuple[T | np.ndarray | None, ...], params: Params = ()) -> T:
        if not any(isinstance(x, QTensor) for x in operands):
            return self._inner._apply(operation, operands, params)
        for x in operands:
            if isinstance(x, HostValue):
                return x.tape.call(OperationCall(self, operation, params), operands)  # type: ignore[return-value]
        transposed = self._transposed(operation, operands, params)
        if transposed is not None:
            return transposed
        product = self._product(operation, operands, params)
        return self._propagated(self._on_numbers(operation, operands, params) if product is None else product)

    def _traceable(self, operation: str, operands: tuple[T | np.ndarray | None, ...], params: Params = ()) -> Call:
        if any(isinstance(x, QTensor) for x in operands):
            return super()._traceable(operation, tuple([getattr(x, "jax", x) for x in operands]), params)
        return self._inner._traceable(operation, operands, params)

    def _transposed(self, operation: str, operands: tuple[object, ...], params: Params) -> T | None:
        """Return the quantized result of an exchange of a matrix's axes, None for anything else."""
        x = operands[0]
        exchanges = (
            operation == "transpose"
            or (operation == "swap_dims" and set(params) == {0, 1})
            or (operation == "permute" and params == ((1, 0),))
        )
        return x.T if exchanges and isinstance(x, QTensor) and x.ndim == 2 else None  # type: ignore[return-value]

    def _product(self, operation: str, operands: tuple[object, ...], params: Params) -> T | None:
        """Return the product with a quantized matrix, None if the operation is no such product."""
        if operation not in ("matmul", "linear"):
            return None
        lhs, rhs, *rest = operands
        if not isinstance(rhs, QTensor):
            return None
        product = self._codes.matmul(lhs, rhs if operation == "matmul" else rhs.T, self.activations)
        bias = rest[0] if rest else None
        return product if bias is None else self._inner._apply("add", (product, self._numbers(bias)))

    def _on_numbers(self, operation: str, operands: tuple[object, ...], params: Params) -> T:
        return self._inner._apply(operation, tuple(self._numbers(x) for x in operands), params)

    def _numbers(self, x: object) -> T:
        return self._codes.dequantize(x) if isinstance(x, QTensor) else x  # type: ignore[return-value]

    def _propagated(self, result: T) -> T:
        if self.propagation == "inhibit" or not isinstance(getattr(result, "dtype", None), np.dtype):
            return result
        try:
            return self.quantize(result)
        except UnsupportedDType:  # integers and booleans stay what they are
            return result

    def _function(self, name: str) -> Callable[..., object]:
        plain = self._inner._function(name)
        if name == "to_data":
            return lambda x: plain(self._numbers(x))
        if name == "device":
            return lambda x: self._codes.device(x) if isinstance(x, QTensor) else plain(x)
        if name == "to_device":
            return lambda x, device: (
                self._codes.moved(x, lambda part: plain(part, device)) if isinstance(x, QTensor) else plain(x, device)
            )
        return plain


def _codes_of(inner: Backend[T]) -> Codes[T]:
    root: object = inner
    while isinstance(root, Wrapper):
        root = root.inner
    return DeviceCodes(inner) if isinstance(root, JaxBackend) else HostCodes(inner)  # type: ignore[arg-type, return-value]
