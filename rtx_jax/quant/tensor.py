"""QTensor: quantized values with their scales, a pytree."""

from __future__ import annotations

from typing import Generic, TypeVar

import jax
import numpy as np

from ..errors import InvalidDimension
from .schemes import QuantScheme

__all__ = ["QTensor"]

Part = TypeVar("Part")


@jax.tree_util.register_pytree_node_class
class QTensor(Generic[Part]):
    """A quantized array.

    It is a pytree: the arrays are its leaves, everything else is static, so that it passes through ``jit``, ``vmap``
    over nothing of it, ``scan`` as a constant, `jax.device_put` and checkpoints. It is never written to.

    Attributes
    ----------
    data
        The values. int8 and float8 lie as they are; 4-bit values are uint8, two in a byte
        (`rtx_jax.quant.packed_shape`). In a transposed tensor (`T`) the last two axes are in the other order.
    scale
        Scales, of the grid's shape and the scheme's scale dtype.
    zero
        Zero points as int8, of the grid's shape; None in a symmetric scheme.
    overall
        The global scale, a float32 scalar; None without one.
    shape
        Shape of the array that it stands for.
    scheme
        The scheme, with axes as in `shape`.
    dtype
        dtype of what was quantized, and of what `dequantize` returns.
    transposed
        Whether the last two axes are stored in the other order.
    """

    __slots__ = ("data", "dtype", "overall", "scale", "scheme", "shape", "transposed", "zero")

    def __init__(
        self,
        data: Part,
        scale: Part,
        zero: Part | None,
        overall: Part | None,
        *,
        shape: tuple[int, ...],
        scheme: QuantScheme,
        dtype: np.dtype,
        transposed: bool = False,
    ) -> None:
        self.data, self.scale, self.zero, self.overall = data, scale, zero, overall
        self.shape, self.scheme, self.dtype, self.transposed = shape, scheme, dtype, transposed

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of values."""
        size = 1
        for n in self.shape:
            size *= n
        return size

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Shape in the order in which the values are stored."""
        return (*self.shape[:-2], self.shape[-1], self.shape[-2]) if self.transposed else self.shape

    @property
    def stored_scheme(self) -> QuantScheme:
        """The scheme with axes in the order in which the values are stored."""
        return self.scheme.transposed(self.ndim) if self.transposed else self.scheme

    @property
    def storage_bytes(self) -> int:
        """Bytes of the values, scales, zero points and the global scale."""
        return self.scheme.storage_bytes(self.shape)

    @property
    def T(self) -> QTensor[Part]:
        """The matrix with its axes exchanged; shares all memory.

        Raises
        ------
        InvalidDimension
            It is not a matrix.
        """
        if self.ndim != 2:
            raise InvalidDimension(
                "QTensor.T", "", got=f"{self.ndim} axes", wanted="2 axes", dim=self.ndim, ndim=self.ndim
            )
        return QTensor(
            self.data,
            self.scale,
            self.zero,
            self.overall,
            shape=(self.shape[1], self.shape[0]),
            scheme=self.scheme.transposed(2),
            dtype=self.dtype,
            transposed=not self.transposed,
        )

    def parts(self) -> tuple[Part, ...]:
        """Return the arrays that are there, in the order of the attributes."""
        return tuple(part for part in (self.data, self.scale, self.zero, self.overall) if part is not None)

    def tree_flatten(self) -> tuple[tuple[Part, Part, Part | None, Part | None], tuple[object, ...]]:
        """Return the arrays and the static rest, for JAX."""
        return (self.data, self.scale, self.zero, self.overall), (
            self.shape,
            self.scheme,
            self.dtype,
            self.transposed,
        )

    @classmethod
    def tree_unflatten(
        cls, static: tuple[object, ...], children: tuple[Part, Part, Part | None, Part | None]
    ) -> QTensor[Part]:
        """Put a tensor together again, for JAX."""
        shape, scheme, dtype, transposed = static
        return cls(
            *children,
            shape=shape,  # type: ignore[arg-type]
            scheme=scheme,  # type: ignore[arg-type]
            dtype=dtype,  # type: ignore[arg-type]
            transposed=transposed,  # type: ignore[arg-type]
        )

    def __reduce__(self) -> tuple[object, ...]:
        children, static = self.tree_flatten()
        return _rebuild, (children, static)

    def __repr__(self) -> str:
        return f"QTensor(shape={self.shape}, dtype={self.dtype}, scheme={self.scheme})"

    def __len__(self) -> int:
        if not self.shape:
            raise InvalidDimension("len", "", got="a QTensor without axes", wanted="an axis", dim=0, ndim=0)
        return self.shape[0]


def _rebuild(children: tuple[Part, Part, Part | None, Part | None], static: tuple[object, ...]) -> QTensor[Part]:
    return QTensor.tree_unflatten(static, children)
