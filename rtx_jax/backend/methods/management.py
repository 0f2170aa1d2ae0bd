"""Methods that make tensors and move them: creation, random draws, host data, devices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...checks import elementwise as check
from ...checks import shape as shapes
from ...errors import BackendUnavailable, InvalidArgument, ShapeMismatch, UnsupportedDType
from ..core import BackendCore, T
from ..device import Device

if TYPE_CHECKING:
    from ..stream import HostStream

__all__ = ["ManagementMethods"]


class ManagementMethods(BackendCore[T]):
    """Creation, random draws, host data and devices.

    A shape is a tuple of sizes of 0 or more. ``dtype=None`` is float32, and ``device=None`` the backend's default
    device. Errors of all methods that create: `InvalidArgument` for a negative size, `UnsupportedDType` for a dtype
    that the device lacks, `OutOfMemory`, `BackendUnavailable` for a device that is not there.
    """

    _stream: HostStream | None = None

    # -- devices

    def default_device(self) -> Device:
        """Return the device of tensors made without ``device=``."""
        return Device(self.name(), 0)

    def devices(self) -> list[Device]:
        """Return the devices of this backend in this process."""
        return [self.default_device()]

    def is_available(self) -> bool:
        """Tell whether the backend can run here; never raises."""
        return True

    def _device(self, operation: str, device: object) -> object:
        """Return what ``device=`` means, as the functions of this backend take it; here a `Device`.

        Raises
        ------
        InvalidArgument, BackendUnavailable
            It is no device, or none of this backend.
        """
        if device is None:
            return self.default_device()
        there = self.devices()
        for known in there:
            if (isinstance(device, Device) and device == known) or (
                isinstance(device, str) and Device.of(device, operation) == known
            ):
                return known
        raise BackendUnavailable(
            operation,
            "device",
            got=repr(device),
            wanted="one of " + ", ".join(map(str, there)),
            backend=self.name(),
            reason="not a device of this backend",
        )

    def device(self, x: T, /) -> Device | tuple[Device, ...]:
        """Return the device that a tensor lives on, or those that it is spread over."""
        return self._function("device")(x)  # type: ignore[return-value]

    def to_device(self, x: T, device: object, /) -> T:
        """Return a tensor on another device, or `x` itself when it is there already.

        Parameters
        ----------
        x
            Any tensor.
        device
            A `Device`, a name such as ``"cuda:1"``, or what the backend's library calls a device.

        Raises
        ------
        InvalidArgument
            It is no device; the text lists those there are.
        BackendUnavailable
            The device is not there.
        """
        return self._function("to_device")(x, self._device("to_device", device))  # type: ignore[return-value]

    def sync(self, device: object = None, /) -> None:
        """Wait until all work on a device is done (None: on every device of this backend)."""
        self._function("sync")(None if device is None else self._device("sync", device))

    # -- host data

    def from_data(
        self,
        data: Iterable[object] | bytes | np.ndarray | float,
        shape: int | Sequence[int] | None = None,
        /,
        *,
        dtype: object = None,
        device: object = None,
    ) -> T:
        """Return a tensor of host data in row-major order; it does not share their memory.

        Parameters
        ----------
        data
            A flat sequence or generator of numbers, an array (of any shape, read in row-major order), or the bytes of
            the elements in the machine's order.
        shape
            Shape of the tensor; None keeps that of an array, and makes a vector of anything else.
        dtype
            None keeps that of an array; Python's floats become `float_dtype`, ints `int_dtype`, and bytes are read as
            `float_dtype`.

        Raises
        ------
        ShapeMismatch
            The number of elements is not that of `shape`.
        UnsupportedDType
            The data are not numbers, or the device lacks their dtype.
        """
        placement = self._device("from_data", device)
        given = data.shape if shape is None and isinstance(data, np.ndarray) else shape
        flat = self._host_array(data, dtype, placement)
        wanted = (flat.size,) if given is None else shapes.as_shape("from_data", given)
        if flat.size != math.prod(wanted):
            raise ShapeMismatch(
                "from_data",
                "data",
                got=f"{flat.size} elements",
                wanted=f"{math.prod(wanted)}, for shape {wanted}",
                expected=wanted,
                got_shape=(flat.size,),
            )
        return self._function("from_data")(flat.reshape(wanted), placement)  # type: ignore[return-value]

    def _host_array(self, data: object, dtype: object, device: object) -> np.ndarray:
        """Return data as an array of its own memory, in row-major order."""
        if isinstance(data, (bytes, bytearray, memoryview)):
            target = self._dtype("from_data", dtype, self.float_dtype, device)
            if len(data) % target.itemsize:
                raise ShapeMismatch(
                    "from_data",
                    "data",
                    got=f"{len(data)} bytes",
                    wanted=f"a multiple of {target.itemsize}, the bytes of one {target.name}",
                    expected=(target.itemsize,),
                    got_shape=(len(data),),
                )
            return np.frombuffer(bytes(data), target).copy()
        if isinstance(data, (np.ndarray, np.generic)):
            array = np.array(data, order="C")
            if not array.dtype.isnative:
                array = array.astype(array.dtype.newbyteorder("="))
            default = array.dtype
        else:
            if isinstance(data, Iterable) and not isinstance(data, (str, Sequence)):
                data = list(data)
            try:
                array = np.array(data, order="C")
            except (TypeError, ValueError) as error:
                raise _not_numbers(type(data).__name__) from error
            default = {"f": self.float_dtype, "i": self.int_dtype, "b": self.bool_dtype}.get(
                array.dtype.kind, array.dtype
            )
            if not array.size and array.dtype == np.float64:
                default = self.float_dtype
            if default.kind == "i" and array.size:
                limits = np.iinfo(default)
                if array.min() < limits.min or array.max() > limits.max:
                    default = array.dtype  # kept rather than wrapped
        if check.kind_of(array.dtype) == "other":
            raise _not_numbers(f"dtype {array.dtype}")
        target = self._dtype("from_data", dtype, default, device)
        if array.dtype == target:
            return array.reshape(-1)
        check.castable("from_data", array.dtype, target)
        return _converted(array.reshape(-1), target)

    def to_data(self, x: T, /) -> np.ndarray:
        """Return the elements on the host in row-major order: a vector of its own memory, of the tensor's dtype.

        Raises
        ------
        ConcretizationError
            `x` has no value yet, because a function is being traced.
        """
        return np.array(self._function("to_data")(x)).reshape(-1)

    # -- creation

    def full(self, shape: int | Sequence[int], v: float, /, *, dtype: object = None, device: object = None) -> T:
        """Return a tensor of one value; NaN and infinities are values too.

        Parameters
        ----------
        shape
            Sizes of the axes.
        v
            A number of the host.

        Raises
        ------
        InvalidArgument
            A size is negative, or `v` is not a number or does not fit an integer dtype.
        """
        placement = self._device("full", device)
        target = self._dtype("full", dtype, self.float_dtype, placement)
        return self._full("full", shape, check.fill_value("full", v, target), target, placement)

    def zeros(self, shape: int | Sequence[int], /, *, dtype: object = None, device: object = None) -> T:
        """Return a tensor of zeros."""
        placement = self._device("zeros", device)
        return self._full("zeros", shape, 0, self._dtype("zeros", dtype, self.float_dtype, placement), placement)

    def ones(self, shape: int | Sequence[int], /, *, dtype: object = None, device: object = None) -> T:
        """Return a tensor of ones."""
        placement = self._device("ones", device)
        return self._full("ones", shape, 1, self._dtype("ones", dtype, self.float_dtype, placement), placement)

    def _full(
        self, operation: str, shape: int | Sequence[int], value: complex, dtype: np.dtype, placement: object
    ) -> T:
        sizes = shapes.as_shape(operation, shape, dtype.itemsize)
        return self._apply("full", (), (sizes, value, dtype, placement))

    # -- random draws

    def seed(self, seed: int, /) -> None:
        """Start this backend's stream of random numbers anew: the draws after it are the same each time.

        Parameters
        ----------
        seed
            0 to 2**64 - 1; all 64 bits count.

        Raises
        ------
        InvalidArgument
            It is out of range or not an integer.
        """
        from ..stream import HostStream

        self._stream = HostStream.of_seed(seed)

    def rand(
        self, shape: int | Sequence[int], /, *, dtype: object = None, device: object = None, key: object = None
    ) -> T:
        """Return independent values of ``[0, 1)``, multiples of the dtype's spacing just below 1.

        Parameters
        ----------
        shape
            Sizes of the axes.
        dtype
            float64, float32, float16 or bfloat16.
        key
            ``uint32[2]`` data of a threefry2x32 key, or a typed key of JAX where the backend knows these; the same
            key gives the same values on every backend. None takes the next key of the backend's stream (`seed`).

        Raises
        ------
        UnsupportedDType
            For another dtype.
        RngUnderTrace
            A draw without a key while plain JAX is tracing.
        """
        return self._draw("rand", shape, dtype, device, key)

    def randn(
        self, shape: int | Sequence[int], /, *, dtype: object = None, device: object = None, key: object = None
    ) -> T:
        """Return independent normal values of mean 0 and variance 1; for the arguments see `rand`."""
        return self._draw("randn", shape, dtype, device, key)

    def _draw(self, operation: str, shape: int | Sequence[int], dtype: object, device: object, key: object) -> T:
        placement = self._device(operation, device)
        target = self._dtype(operation, dtype, self.float_dtype, placement)
        if target not in check.DRAWN:
            raise UnsupportedDType(
                operation,
                "dtype",
                got=target.name,
                wanted="float64, float32, float16 or bfloat16",
                remedy="Convert the result with cast.",
                dtype=target,
                op=operation,
            )
        sizes = shapes.as_shape(operation, shape, target.itemsize)
        data = self._next_key(operation) if key is None else self._key_data(operation, key)
        return self._apply(operation, (data,), (sizes, target, placement))

    def _next_key(self, operation: str) -> np.ndarray:
        """Return ``uint32[2]`` data of the next key of the backend's stream."""
        from ..stream import HostStream

        if self._stream is None:
            self._stream = HostStream.of_seed(None)
        return self._stream.next()

    def _key_data(self, operation: str, key: object) -> np.ndarray:
        """Return ``uint32[2]`` data of a key that the caller holds."""
        data = np.asarray(key)
        if data.dtype != np.uint32 or data.shape != (2,):
            raise InvalidArgument(
                operation,
                "key",
                got=f"{data.dtype}{list(data.shape)}" if data.dtype != object else type(key).__name__,
                wanted="uint32[2] data of a threefry2x32 key",
                remedy="Give jax.random.key_data(key), or the two halves of a 64-bit seed, the high one first.",
                arg="key",
                reason="not a key",
            )
        return data


def _converted(array: np.ndarray, target: np.dtype) -> np.ndarray:
    """Return an array in another dtype by the rules of `cast`."""
    kinds = array.dtype.kind + target.kind
    if kinds in ("ff", "bf", "bi", "bu", "ii", "iu", "ui", "uu", "bc", "fc", "ic", "uc", "cc"):
        with np.errstate(all="ignore"):
            return array.astype(target)
    # NumPy lets floats wrap on their way to integers, and rounds twice on the way to the smallest floats.
    from ..reference.elementwise import cast

    return cast(array, dtype=target)


def _not_numbers(got: str) -> UnsupportedDType:
    return UnsupportedDType("from_data", "data", got=got, wanted="numbers or booleans", dtype=got, op="from_data")
