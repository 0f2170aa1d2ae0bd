"""`Runtime`: memory, copies, events and graphs of the devices of one kind, below the operations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..backend.device import Device
from ..core.devices import DeviceLike
from ..errors import DeviceMismatch, IndexOutOfBounds, InvalidArgument
from .buffer import Buffer
from .client import Client
from .copies import PendingCopy
from .events import Event
from .host import HostMemory, readable, writable
from .strided import Layout
from .view import BufferView

if TYPE_CHECKING:
    from .capture import Captured
    from .graph import CapturedGraph
    from .raw_handle import RawHandle

__all__ = ["Runtime"]


class Runtime(ABC):
    """Memory, copies, events and graphs of the devices of one kind.

    Every method takes ``device=None`` for the default device. Copies are ordered after the work that makes what they
    read and before the work that follows; those to the host return when the bytes are there.

    See Also
    --------
    JaxRuntime, NumpyRuntime : the runtimes that there are.
    """

    __slots__ = ()

    # -- devices

    @abstractmethod
    def name(self) -> str:
        """Return the kind of the devices: ``"cpu"``, ``"cuda"``, ``"numpy"``, ..."""

    @abstractmethod
    def is_available(self) -> bool:
        """Tell whether a device is there; never raises."""

    @abstractmethod
    def devices(self) -> list[Device]:
        """Return the devices in this process.

        Raises
        ------
        BackendUnavailable
            There are none; the text says why.
        """

    @abstractmethod
    def default_device(self) -> Device:
        """Return the device that is taken where none is named.

        Raises
        ------
        BackendUnavailable
            There is none.
        """

    @abstractmethod
    def client(self, device: Device | DeviceLike | None = None) -> Client:
        """Return the client of a device: the same object at every call.

        Raises
        ------
        BackendUnavailable
            The device is not there.
        InvalidArgument
            It is no device of this runtime.
        """

    def default_client(self) -> Client:
        """Return the client of the default device."""
        return self.client(None)

    def synchronize(self, device: Device | DeviceLike | None = None) -> None:
        """Wait until all work that was given to a device is done."""
        self.client(device).synchronize()

    def raw_handle(self, device: Device | DeviceLike | None = None) -> RawHandle:
        """Return what lies below the client of a device: XLA's client, the stream, pointers and kernels."""
        from .raw_handle import raw_handle

        return raw_handle(self.client(device))

    def compute_stream_handle(self, device: Device | DeviceLike | None = None) -> int | None:
        """Return the driver's handle of the stream on which work runs, or None where there is none: on a host."""
        return self.client(device).compute_stream_handle()

    @property
    def supports_graph_capture(self) -> bool:
        """Whether captured graphs run again when they are launched: on every runtime here."""
        return True

    # -- memory

    def allocate(self, nbytes: int, /, device: Device | DeviceLike | None = None) -> Buffer:
        """Return a new buffer of zeros; see `Allocator.allocate`.

        Raises
        ------
        OutOfMemory
            The device has no room.
        AllocatorFrozen
            The allocator of the device is frozen.
        InvalidArgument
            `nbytes` is not an integer of 0 or more.
        """
        return self.client(device).allocator.allocate(nbytes)

    def deallocate(self, buffer: Buffer, nbytes: int | None = None, /) -> None:
        """Free a buffer; see `Allocator.deallocate`.

        Raises
        ------
        UseAfterFree
            It was freed before.
        InvalidArgument
            `nbytes` is given and is not its size.
        """
        _buffer("deallocate", "buffer", buffer).allocator.deallocate(buffer, nbytes)

    # -- copies

    def copy_to_device(self, src: HostMemory, dst: Buffer, /, *, offset: int = 0) -> None:
        """Copy host memory into a buffer; `src` may be changed as soon as this returns.

        Parameters
        ----------
        src
            Any contiguous memory: bytes, bytearray, memoryview, NumPy array of any dtype.
        dst
            The buffer. Its pointer stays.
        offset
            The first byte of `dst` that is written.

        Raises
        ------
        IndexOutOfBounds
            `src` does not fit behind `offset`.
        InvalidArgument, NotContiguous
            `src` has no such memory.
        UseAfterFree
            The buffer was freed.
        """
        _buffer("copy_to_device", "dst", dst)._store("copy_to_device", offset, readable(src, "copy_to_device", "src"))

    def copy_from_device(self, src: Buffer, dst: HostMemory, /, *, offset: int = 0) -> None:
        """Fill host memory from a buffer, after waiting for the work that makes the bytes.

        Parameters
        ----------
        src
            The buffer.
        dst
            Writable contiguous memory: a bytearray, memoryview or NumPy array.
        offset
            The first byte of `src` that is read.

        Raises
        ------
        IndexOutOfBounds
            `dst` is longer than what follows `offset`.
        InvalidArgument, NotContiguous
            `dst` has no such memory.
        UseAfterFree
            The buffer was freed.
        """
        out = writable(dst, "copy_from_device", "dst")
        _buffer("copy_from_device", "src", src)._range("copy_from_device", offset, out.size)
        src._load("copy_from_device", offset, out)

    def copy_within_device(
        self,
        src: Buffer,
        dst: Buffer,
        nbytes: int | None = None,
        /,
        *,
        src_offset: int = 0,
        dst_offset: int = 0,
    ) -> None:
        """Copy bytes between buffers of one device, or within one, as if by way of a temporary: ranges may overlap.

        Parameters
        ----------
        src, dst
            The buffers.
        nbytes
            How many bytes; all of `src` behind `src_offset` when None.
        src_offset, dst_offset
            The first byte read and the first written.

        Raises
        ------
        IndexOutOfBounds
            A range does not lie in its buffer.
        DeviceMismatch
            The buffers are on different devices.
        UseAfterFree
            A buffer was freed.
        """
        operation = "copy_within_device"
        client = _one_client(operation, src, dst)
        with client.lock:
            size = src.nbytes - src_offset if nbytes is None else nbytes
            size = src._range(operation, src_offset, size, "src_offset")
            dst._range(operation, dst_offset, size, "dst_offset")
            if size:
                source = src._check(operation)
                dst._change(operation, lambda cell: client._move(source, src_offset, cell, dst_offset, size))

    def copy_strided(
        self,
        src: Buffer,
        src_byte_offset: int,
        dst: Buffer,
        shape: Sequence[int],
        strides: Sequence[int],
        elem_size: int,
        /,
    ) -> None:
        """Copy the elements of a strided range side by side, in C order, to the beginning of another buffer.

        The elements are those of ``numpy.lib.stride_tricks.as_strided``, with all bytes checked before anything is
        copied. `src` and `dst` may be the same buffer.

        Parameters
        ----------
        src
            The buffer that is read.
        src_byte_offset
            The first byte of the element with all indices 0; any number, also one that is not a multiple of
            `elem_size`.
        dst
            The buffer that is written, from its first byte.
        shape
            Sizes of the axes, of any number; ``()`` copies one element.
        strides
            Elements from one index of an axis to the next; negative and 0 are allowed.
        elem_size
            Bytes of an element, 1 or more.

        Raises
        ------
        IndexOutOfBounds
            An element does not lie in `src`, or `dst` is too short.
        InvalidArgument
            The shape and the strides do not go together, or are none.
        DeviceMismatch
            The buffers are on different devices.
        UseAfterFree
            A buffer was freed.
        """
        operation = "copy_strided"
        layout = Layout.checked(operation, src_byte_offset, shape, strides, elem_size)
        client = _one_client(operation, src, dst)
        with client.lock:
            source = src._check(operation)
            dst._check(operation)
            layout.check_range(operation, src.nbytes)
            if layout.nbytes > dst.nbytes:
                raise IndexOutOfBounds(
                    operation,
                    "dst",
                    got=f"a buffer of {dst.nbytes} bytes",
                    wanted=f"{layout.nbytes} bytes for shape {layout.shape} of {layout.item_bytes} bytes",
                    index=layout.nbytes,
                    size=dst.nbytes,
                )
            if not layout.size:
                return
            if layout.is_contiguous:
                dst._change(operation, lambda cell: client._move(source, layout.offset_bytes, cell, 0, layout.nbytes))
            else:
                dst._change(operation, lambda cell: client._gather(source, layout, cell))

    # -- graphs

    def capture(
        self,
        fn: Callable[..., object],
        /,
        *,
        inputs: Sequence[Captured],
        outputs: Sequence[Captured],
        device: Device | DeviceLike | None = None,
        max_temp_bytes: int | None = None,
    ) -> CapturedGraph:
        """Capture ``fn(*inputs, *outputs)`` as a graph that writes into the memory of the outputs.

        See `rtx_jax.runtime.capture_graph_into` for the arguments, the result and the errors; the client is that of
        `device`.
        """
        return self.capture_graph_into(self.client(device), inputs, outputs, fn, max_temp_bytes=max_temp_bytes)

    def capture_graph_into(
        self,
        client: Client,
        inputs: Sequence[Captured],
        outputs: Sequence[Captured],
        fn: Callable[..., object],
        /,
        *,
        max_temp_bytes: int | None = None,
    ) -> CapturedGraph:
        """Capture ``fn(*inputs, *outputs)``; see `rtx_jax.runtime.capture_graph_into`."""
        from .capture import capture_graph_into

        return capture_graph_into(client, inputs, outputs, fn, max_temp_bytes=max_temp_bytes)

    # -- events and copies that overlap with work

    def record_event(self, device: Device | DeviceLike | None = None) -> Event:
        """Return an event for the work that was given to a device until now."""
        return self.client(device)._record()

    def copy_from_device_async(
        self, src: Buffer, /, event: Event | None = None, *, into: HostMemory | None = None
    ) -> PendingCopy:
        """Begin to copy a buffer to the host, and return at once.

        The copy has the bytes that the buffer has, or that pending work gives it, at this call: later writes and
        launches do not change them. Several copies, and further work, run at the same time.

        Parameters
        ----------
        src
            The buffer.
        event
            Work to wait for before the copy begins.
        into
            Writable memory to fill; it must be left alone until the copy is done. New memory when None.

        Raises
        ------
        IndexOutOfBounds
            `into` is longer than the buffer.
        InvalidArgument, NotContiguous
            `into` has no such memory.
        UseAfterFree
            The buffer was freed.
        """
        operation = "copy_from_device_async"
        _buffer(operation, "src", src)
        out = None if into is None else writable(into, operation, "into")
        if out is not None:
            src._range(operation, 0, out.size)
        return PendingCopy.begin(src, event, out)


def _buffer(operation: str, argument: str, given: object) -> Buffer:
    if isinstance(given, Buffer):
        return given
    raise InvalidArgument(
        operation,
        argument,
        got=f"an object of type {type(given).__name__}",
        wanted="a Buffer",
        remedy="Use view.buffer." if isinstance(given, BufferView) else "",
        arg=argument,
        reason="not a buffer",
    )


def _one_client(operation: str, src: Buffer, dst: Buffer) -> Client:
    _buffer(operation, "src", src), _buffer(operation, "dst", dst)
    if src.client is not dst.client:
        there = (str(src.client.device), str(dst.client.device))
        raise DeviceMismatch(
            operation,
            "dst",
            got=f"buffers on {there[0]} and {there[1]}",
            wanted="buffers of one device",
            remedy="Copy through the host: copy_to_device(src.read(), dst).",
            devices=there,
        )
    return src.client
