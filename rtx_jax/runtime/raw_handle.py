"""Raw handles: what lies below a client, for code that does not go through rtx_jax."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import jax
import numpy as np

from .._array import Array
from ..core.handle import Handle, data_of
from ..core.op import given_away
from ..errors import BackendLimitation, ConcretizationError, DeviceMismatch, InvalidArgument
from .buffer import Buffer
from .client import Client
from .jax_client import JaxClient
from .kernels import Batching
from .kernels_c import CKernel, register_kernel_c
from .kernels_py import Memory, PythonKernel, register_kernel_py
from .view import BufferView

__all__ = ["RawHandle", "raw_handle"]


@dataclass(frozen=True, slots=True)
class RawHandle:
    """What lies below a client.

    Attributes
    ----------
    client
        XLA's client, as JAX has it; None on the NumPy runtime.
    device
        The `jax.Device`; None on the NumPy runtime.
    platform
        ``"cpu"``, ``"cuda"``, ``"rocm"``, ``"tpu"``, ``"metal"``, a plugin's name, or ``"numpy"``.
    stream
        The driver's handle of the stream that computations run on, or None where there is none.
    """

    client: object | None
    device: jax.Device | None
    platform: str
    stream: int | None

    @property
    def ffi(self) -> ModuleType:
        """The module `jax.ffi`; ``ffi.include_dir()`` has the headers that handlers are compiled against.

        Raises
        ------
        BackendLimitation
            On the NumPy runtime.
        """
        if self.device is None:
            raise _no_xla("ffi")
        import jax.ffi

        return jax.ffi

    def pointer(self, x: Array | jax.Array | np.ndarray | Buffer | BufferView, /) -> int:
        """Return the address of the first byte of an array or a buffer on the device.

        It waits for the work that makes the bytes. The address is good while the array or buffer lives and nothing
        writes to the Array; on the CPU, ctypes reads it. Writing through the address of an array changes every array
        that shares its memory: write through the address of a `Buffer`.

        Raises
        ------
        DeviceMismatch
            It is on another device.
        InvalidArgument
            It is spread over several devices, or it is no array or buffer.
        ConcretizationError
            It has no memory, inside of a traced function.
        UseAfterFree, UseAfterMove
            Its memory was given back.
        """
        if isinstance(x, Buffer | BufferView):
            buffer = x if isinstance(x, Buffer) else x.buffer
            device = buffer.client.jax_device if isinstance(buffer.client, JaxClient) else None
            self._check_device(device)
            buffer.read(0)  # waits
            return x.ptr
        data: object = x
        if isinstance(x, Handle):
            x.block_until_ready()
            data = data_of(x)
        if isinstance(data, jax.core.Tracer):
            raise ConcretizationError(
                "pointer",
                "x",
                got="a value of a traced function, which has no memory",
                remedy="Use a kernel inside of traced functions.",
            )
        if isinstance(data, jax.Array):
            if data.is_deleted():
                raise given_away("pointer")
            found = data.devices()
            if len(found) != 1:
                raise InvalidArgument(
                    "pointer",
                    "x",
                    got=f"an array on {len(found)} devices",
                    wanted="an array on one",
                    remedy="Take the parts in x.jax.addressable_shards.",
                    arg="x",
                    reason="several devices",
                )
            self._check_device(next(iter(found)))
            data.block_until_ready()
            return int(data.unsafe_buffer_pointer())
        if isinstance(data, np.ndarray):
            self._check_device(None)
            return int(data.ctypes.data)
        raise InvalidArgument(
            "pointer", "x", got=type(x).__name__, wanted="an array or a buffer", arg="x", reason="no memory"
        )

    def register_kernel_c(
        self,
        name: str,
        library: str | os.PathLike[str] | ctypes.CDLL,
        /,
        *,
        symbol: str | None = None,
        batching: Batching = "sequential",
    ) -> CKernel:
        """Register a compiled kernel for this platform; see `rtx_jax.runtime.register_kernel_c`.

        Raises
        ------
        BackendLimitation
            The platform has no foreign functions, as on the NumPy runtime.
        """
        if self.device is None:
            raise _no_xla("register_kernel_c")
        return register_kernel_c(name, library, self.platform, symbol=symbol, batching=batching)

    def register_kernel_py(
        self,
        fn: Callable[..., None],
        /,
        *,
        name: str | None = None,
        memory: Memory = "host",
        batching: Batching = "sequential",
    ) -> PythonKernel:
        """Register a Python kernel; see `rtx_jax.runtime.register_kernel_py`."""
        return register_kernel_py(fn, name=name, memory=memory, batching=batching)

    def _check_device(self, device: jax.Device | None) -> None:
        if device != self.device:
            names = (str(device or "the host's NumPy"), str(self.device or "the host's NumPy"))
            raise DeviceMismatch(
                "pointer", "x", got=f"memory of {names[0]}", wanted=f"memory of {names[1]}", devices=names
            )


def raw_handle(client: Client, /) -> RawHandle:
    """Return what lies below a client.

    Examples
    --------
    >>> from rtx_jax.runtime import JaxRuntime
    >>> raw_handle(JaxRuntime("cpu").default_client()).platform
    'cpu'
    """
    if isinstance(client, JaxClient):
        device = client.jax_device
        return RawHandle(device.client, device, client.device.kind, client.compute_stream_handle())
    if not isinstance(client, Client):
        raise InvalidArgument(
            "raw_handle",
            "client",
            got=type(client).__name__,
            wanted="a Client",
            remedy="Ask a runtime: runtime.client(device).",
            arg="client",
            reason="not a client",
        )
    return RawHandle(None, None, client.device.kind, client.compute_stream_handle())


def _no_xla(operation: str) -> BackendLimitation:
    return BackendLimitation(
        operation,
        got="the NumPy runtime",
        wanted="a JaxRuntime",
        backend="numpy",
        reason="no foreign functions without XLA",
    )
