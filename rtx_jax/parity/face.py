"""How the runner speaks to what it tests: the namespace on Arrays, or a backend on its tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np

import rtx_jax as xp

from .._compat import x64
from ..backend import Autodiff, Backend, JaxBackend
from ..backend.core import Tensor
from ..core.devices import DeviceLike, device_name, platform_of, resolve
from ..core.dtypes import REAL_FLOATING, WIDE, default_int, has_wide_floats
from .ulp import Values

__all__ = ["AutodiffFace", "BackendFace", "Face", "NamespaceFace", "Trees", "face_of"]

Trees = list[list[object]]
"""For each case, its tensors."""


class Face(Protocol):
    """What the runner needs of the thing under test."""

    @property
    def name(self) -> str:
        """What it is called in the report."""

    @property
    def device(self) -> str:
        """Name of the device."""

    def put(self, values: Values, /) -> object:
        """Return a tensor on the device."""

    def get(self, tensor: object, /) -> Values:
        """Return a result on the host."""

    def supports(self, dtype: np.dtype, /) -> bool:
        """Whether the device has the dtype."""

    def same_dtype(self, got: np.dtype, wanted: np.dtype, /) -> bool:
        """Whether a dtype is the wanted one, or stands for it on the device."""

    def jit(self, program: Callable[[Trees], Trees], /) -> Callable[[Trees], Trees]:
        """Compile a program of tensors."""

    def vmap(self, function: Callable[..., list[object]], rows: Sequence[object], /) -> list[object]:
        """Map over the first axis of each tensor."""

    def grad(self, loss: Callable[[Trees], object], /) -> Callable[[Trees], Trees]:
        """Return the compiled gradient of a number."""

    def weighted(self, leaf: object, weights: object, /) -> object:
        """Return the sum of products, a number."""


class NamespaceFace:
    """The functions of `rtx_jax` on Arrays of one device.

    Parameters
    ----------
    device
        Where; None for the default device.

    Raises
    ------
    BackendUnavailable
        There is no such device.
    """

    def __init__(self, device: DeviceLike | None = None) -> None:
        self._placement = resolve(device, "parity")

    @property
    def name(self) -> str:
        """What it is called in the report."""
        return "rtx_jax"

    @property
    def device(self) -> str:
        """Name of the device."""
        placement = self._placement
        if placement is None:
            placement = xp.__array_namespace_info__().default_device()
        return device_name(placement)

    @property
    def platform(self) -> str:
        """The platform's name."""
        return self.device.partition(":")[0] if self._placement is None else platform_of(self._placement)

    def put(self, values: Values, /) -> object:
        """Return an Array on the device."""
        return xp.asarray(values, device=self._placement)

    def get(self, tensor: object, /) -> Values:
        """Return a result on the host; dtypes and other plain values too."""
        if isinstance(tensor, xp.Array):
            return np.asarray(tensor)
        return np.asarray(str(tensor) if isinstance(tensor, np.dtype) else tensor)

    def supports(self, dtype: np.dtype, /) -> bool:
        """Whether the device has the dtype."""
        return dtype not in WIDE or dtype.kind in "iu" or has_wide_floats(self._placement)

    def same_dtype(self, got: np.dtype, wanted: np.dtype, /) -> bool:
        """Whether a dtype is the wanted one, or the device's default integer in place of int64."""
        return got == wanted or (wanted == np.int64 and got == default_int(self._placement))

    def jit(self, program: Callable[[Trees], Trees], /) -> Callable[[Trees], Trees]:
        """Compile a program of Arrays."""
        return xp.jit(program)

    def vmap(self, function: Callable[..., list[object]], rows: Sequence[object], /) -> list[object]:
        """Map over the first axis of each Array."""
        return xp.vmap(function)(*rows)  # type: ignore[return-value]

    def grad(self, loss: Callable[[Trees], object], /) -> Callable[[Trees], Trees]:
        """Return the compiled gradient of a number."""
        return xp.jit(xp.grad(loss))  # type: ignore[return-value]

    def weighted(self, leaf: object, weights: object, /) -> object:
        """Return the sum of products, a 0-d Array."""
        assert isinstance(leaf, xp.Array)
        assert isinstance(weights, xp.Array)
        return xp.sum(leaf * weights)


class BackendFace:
    """A backend's methods on its tensors.

    Parameters
    ----------
    backend
        Any backend; only those on JAX can be compiled, mapped and differentiated.
    device
        Where; None for the backend's default device.
    """

    def __init__(self, backend: Backend[Tensor], device: DeviceLike | None = None) -> None:
        self.backend = backend
        self._device = device
        inner: object = backend
        while hasattr(inner, "inner"):
            inner = inner.inner
        self.is_traceable = isinstance(inner, JaxBackend)

    @property
    def name(self) -> str:
        """Name of the backend."""
        return self.backend.name()

    @property
    def device(self) -> str:
        """Name of the device."""
        return str(self._device or self.backend.default_device())

    def put(self, values: Values, /) -> object:
        """Return a tensor on the device."""
        return self.backend.from_data(values, values.shape, dtype=values.dtype, device=self._device)

    def get(self, tensor: object, /) -> Values:
        """Return a result on the host."""
        return self.backend.to_data(tensor).reshape(tensor.shape)  # type: ignore[arg-type, attr-defined]

    def supports(self, dtype: np.dtype, /) -> bool:
        """Whether the backend has the dtype."""
        return self.backend.supports_dtype(dtype, self._device)

    def same_dtype(self, got: np.dtype, wanted: np.dtype, /) -> bool:
        """Whether the dtypes are the same."""
        return got == wanted

    def jit(self, program: Callable[[Trees], Trees], /) -> Callable[[Trees], Trees]:
        """Compile a program of tensors."""
        return _wide(jax.jit(program))

    def vmap(self, function: Callable[..., list[object]], rows: Sequence[object], /) -> list[object]:
        """Map over the first axis of each tensor."""
        found: list[object] = jax.vmap(function)(*rows)
        return found

    def grad(self, loss: Callable[[Trees], object], /) -> Callable[[Trees], Trees]:
        """Return the compiled gradient of a number."""
        return _wide(jax.jit(jax.grad(loss)))

    def weighted(self, leaf: object, weights: object, /) -> object:
        """Return the sum of products, a number."""
        return jnp.sum(leaf * weights)  # type: ignore[operator]


class AutodiffFace(BackendFace):
    """A backend that records: operands are marked, so that every operation is recorded, and gradients are its own.

    Parameters
    ----------
    backend, device
        As of `BackendFace`.
    """

    def __init__(self, backend: Autodiff, device: DeviceLike | None = None) -> None:
        super().__init__(backend, device)
        self._autodiff = backend

    def put(self, values: Values, /) -> object:
        """Return a tensor on the device, marked where it has a gradient."""
        return self._marked(super().put(values))

    def _marked(self, tensor: object) -> object:
        known = tensor.dtype in REAL_FLOATING  # type: ignore[attr-defined]
        return self._autodiff.require_grad(tensor) if known else tensor  # type: ignore[arg-type]

    def _value(self, tensor: object) -> object:
        return self._autodiff.detach(tensor)  # type: ignore[arg-type]

    def jit(self, program: Callable[[Trees], Trees], /) -> Callable[[Trees], Trees]:
        """Compile a program of tensors that are marked inside of it."""

        def inside(trees: Trees) -> Trees:
            results: Trees = _each(self._value, program(_each(self._marked, trees)))
            return results

        compiled = super().jit(inside)
        return lambda trees: compiled(_each(self._value, trees))

    def vmap(self, function: Callable[..., list[object]], rows: Sequence[object], /) -> list[object]:
        """Map over the first axis of each tensor; the rows are marked."""

        def inside(*row: object) -> list[object]:
            return [self._value(x) for x in function(*map(self._marked, row))]

        return super().vmap(inside, [self._value(x) for x in rows])

    def grad(self, loss: Callable[[Trees], object], /) -> Callable[[Trees], Trees]:
        """Return the gradient of a number that is recorded."""

        def gradient(trees: Trees) -> Trees:
            marked = _each(self._marked, _each(self._value, trees))
            total = loss(marked)
            assert isinstance(total, _Total)
            gradients = self._autodiff.backward(total.value)
            return _each(lambda x: gradients.get(x, self._zeros(x)), marked)

        return gradient

    def _zeros(self, x: object) -> Tensor:
        return self.backend.zeros(x.shape, dtype=x.dtype, device=self._device)  # type: ignore[attr-defined]

    def weighted(self, leaf: object, weights: object, /) -> object:
        """Return the sum of products, a tensor that adds up."""
        backend = self.backend
        return _Total(backend, backend.sum(backend.mul(leaf, self._value(weights))))  # type: ignore[arg-type]


class _Total:
    """A sum of tensors of a backend."""

    def __init__(self, backend: Backend[Tensor], value: Tensor) -> None:
        self._backend, self.value = backend, value

    def __add__(self, other: _Total) -> _Total:
        return _Total(self._backend, self._backend.add(self.value, other.value))

    def __radd__(self, nothing: int) -> _Total:
        return self


def _each(change: Callable[[object], object], trees: Trees) -> Trees:
    return [[change(leaf) for leaf in tree] for tree in trees]


def face_of(backend: Backend[Tensor], device: DeviceLike | None = None) -> BackendFace:
    """Return the face of a backend."""
    return AutodiffFace(backend, device) if isinstance(backend, Autodiff) else BackendFace(backend, device)


def _wide(program: Callable[[Trees], Trees]) -> Callable[[Trees], Trees]:
    """Trace a program with 64-bit dtypes where its operands have them."""

    def run(trees: Trees) -> Trees:
        leaves = [leaf for tree in trees for leaf in tree]
        with x64(any(leaf.dtype in WIDE for leaf in leaves)):  # type: ignore[attr-defined]
            return program(trees)

    return run
