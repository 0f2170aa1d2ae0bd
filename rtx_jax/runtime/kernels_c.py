"""Compiled kernels behind XLA's foreign function interface."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Sequence

import jax

from .._array import Array
from ..errors import BackendLimitation, InvalidArgument, Xla
from .kernel_calls import Call
from .kernels import Batching, Kernel

__all__ = ["CKernel", "register_kernel_c"]

_PLATFORMS = ("cpu", "cuda", "rocm")


class CKernel(Kernel):
    """A compiled kernel behind XLA's foreign function interface; see `register_kernel_c`.

    Attributes
    ----------
    platforms
        The platforms that it is registered for.
    """

    __slots__ = ("_addresses",)

    def __init__(self, name: str, batching: Batching) -> None:
        super().__init__(name, batching)
        self._addresses: dict[str, int] = {}

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms that it is registered for."""
        return tuple(sorted(self._addresses))

    def _run(self, operands: Sequence[Array | jax.Array], call: Call) -> tuple[Array, ...]:
        try:
            return super()._run(operands, call)
        except Xla as error:
            if "No FFI handler registered" not in str(error) and "No registered implementation" not in str(error):
                raise
            raise BackendLimitation(
                self.name,
                got="operands on a platform that the kernel is not registered for",
                wanted=f"operands on {' or '.join(self.platforms)}",
                remedy="Register it there with register_kernel_c(..., platform=...).",
                backend="jax",
                reason="not registered",
            ) from error

    def _traced(self, operands: Sequence[jax.Array], call: Call) -> list[jax.Array]:
        target: Callable[..., Sequence[jax.Array]] = jax.ffi.ffi_call(
            self.name, call.specs(), vmap_method=self.batching, input_output_aliases=dict(call.aliases)
        )
        return list(target(*operands, **{a.name: a.value() for a in call.attributes}))


_registered: dict[str, CKernel] = {}
_lock = threading.Lock()
# Targets are for the life of the process, and so are the libraries that they lie in.
_libraries: list[ctypes.CDLL] = []


def register_kernel_c(
    name: str,
    library: str | os.PathLike[str] | ctypes.CDLL,
    platform: str = "cpu",
    /,
    *,
    symbol: str | None = None,
    batching: Batching = "sequential",
) -> CKernel:
    """Make an operation of a handler of XLA's foreign function interface.

    Parameters
    ----------
    name
        Name of the target, for the life of the process. ``jax.ffi.ffi_call(name, ...)`` calls it too.
    library
        The shared library with the handler, or the path of one. Handlers are compiled against the headers in
        ``jax.ffi.include_dir()``.
    platform
        ``"cpu"``, ``"cuda"`` or ``"rocm"``. One name may have a handler for each.
    symbol
        The symbol of the handler; `name` when None.
    batching
        What `vmap` does: ``"sequential"`` calls the kernel once for each element, ``"expand_dims"`` and
        ``"broadcast_all"`` once with an axis in front, of size 1 on operands that are not mapped, or of full size.

    Returns
    -------
    CKernel
        The operation; the same object for another platform of the same name.

    Raises
    ------
    InvalidArgument
        The library cannot be loaded or has no such symbol, or the name has another handler.
    BackendLimitation
        The platform has no foreign functions.
    """
    if platform not in _PLATFORMS:
        raise BackendLimitation(
            "register_kernel_c",
            "platform",
            got=repr(platform),
            wanted=" or ".join(map(repr, _PLATFORMS)),
            remedy="Register a Python kernel, or write the kernel with Pallas.",
            backend=str(platform),
            reason="no foreign functions",
        )
    loaded = _load(library)
    label = symbol or name
    try:
        handler = getattr(loaded, label)
    except AttributeError as error:
        raise InvalidArgument(
            "register_kernel_c",
            "symbol",
            got=repr(label),
            wanted="a symbol of the library",
            remedy='Define the handler with XLA_FFI_DEFINE_HANDLER_SYMBOL, or declare it extern "C".',
            arg="symbol",
            reason="no such symbol",
        ) from error
    address = ctypes.cast(handler, ctypes.c_void_p).value or 0
    with _lock:
        kernel = _registered.get(name)
        known = None if kernel is None else kernel._addresses.get(platform)
        if known is not None and known != address or kernel is not None and kernel.batching != batching:
            raise InvalidArgument(
                "register_kernel_c",
                "name",
                got=repr(name),
                wanted="a name that is not taken",
                remedy="A target stays for the life of the process.",
                arg="name",
                reason="registered before",
            )
        if kernel is None:
            kernel = CKernel(name, batching)
        if known is None:
            jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(handler), platform=platform)
            _libraries.append(loaded)
            kernel._addresses[platform] = address
        _registered[name] = kernel
    return kernel


def _load(library: str | os.PathLike[str] | ctypes.CDLL) -> ctypes.CDLL:
    if isinstance(library, ctypes.CDLL):
        return library
    try:
        return ctypes.CDLL(os.fspath(library))
    except (OSError, TypeError) as error:
        raise InvalidArgument(
            "register_kernel_c",
            "library",
            got=repr(library),
            wanted="a shared library, or the path of one",
            remedy=str(error),
            arg="library",
            reason="cannot be loaded",
        ) from error
