"""`Backend`: one documented method per operation, over a table of functions."""

from __future__ import annotations

from collections.abc import Hashable

from .core import T
from .methods.activation import ActivationMethods
from .methods.attention import AttentionMethods
from .methods.convolution import ConvolutionMethods
from .methods.index import IndexMethods
from .methods.management import ManagementMethods
from .methods.normalization import NormalizationMethods
from .methods.pooling import PoolingMethods
from .methods.reduction import ReductionMethods
from .methods.resampling import ResamplingMethods
from .methods.shape import ShapeMethods

__all__ = ["Backend"]


class Backend(
    ManagementMethods[T],
    ReductionMethods[T],
    ActivationMethods[T],
    ShapeMethods[T],
    AttentionMethods[T],
    IndexMethods[T],
    NormalizationMethods[T],
    ConvolutionMethods[T],
    PoolingMethods[T],
    ResamplingMethods[T],
):
    """Tensors of one library on one kind of device, and the operations on them.

    Each method checks its arguments and calls ``_apply(operation, operands, params)``. A concrete backend is a name
    and a table of functions; a decorator overrides `_apply`. A value of a backend is stateless but for its stream of
    random numbers, compares and hashes by its type and what it is made of, and pickles the same way, so it can be a
    static argument of a compiled function.

    The type parameter is the type of the backend's tensors: `jax.Array`, `np.ndarray`, ...

    Examples
    --------
    A training step for any backend:

    >>> from rtx_jax.backend import Backend, CpuBackend
    >>> def energy(B, x):
    ...     return B.sum(B.mul(x, x))
    >>> B = CpuBackend()
    >>> B.to_data(energy(B, B.from_data([1.0, 2.0], (2,))))
    array([5.], dtype=float32)
    """

    def _parts(self) -> tuple[Hashable, ...]:
        """Return the constructor's arguments: with the type they are the identity of the backend."""
        return ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash((type(self), self._parts()))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self._parts()

    def __repr__(self) -> str:
        return f"<backend {self.name()}>"
