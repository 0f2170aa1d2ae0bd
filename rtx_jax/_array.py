"""Array: a mutable handle on a ``jax.Array``, with the standard's attributes, methods and operators."""

from __future__ import annotations

import functools
import itertools
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Self, TypeAlias, TypeVar

import jax
import numpy as np
from jax import Array as JaxArray
from jax import Device
from jax.core import Tracer
from jax.sharding import Sharding

from . import _config, _interop, _methods
from ._at import At
from ._chained import TEMPORARY, warn_if_chained
from ._compat import ArrayImpl, trace_is_clean
from ._text import text
from .core import devices as _devices
from .core import indexing as _indexing
from .core.comparison import comparison
from .core.dispatch import Door, InPlace, Op, lift, raise_translated, scalar_operand
from .core.dtypes import INTEGRAL, NUMERIC, WIDE
from .core.floating import floating_binary
from .core.handle import (
    COUNTED,
    INTERNED,
    MOVED,
    Given,
    Handle,
    data_of,
    facts_of,
    give,
    held,
    settled,
    share,
    tracing,
    update,
    used,
)
from .core.host import unpickle
from .core.lazy import Lazy, disown, fusing, tapes
from .core.lazy_indexing import record_read, record_write
from .core.recorded import record_update, wrap_lazy
from .errors import (
    DTypeMismatch,
    InvalidArgument,
    InvalidDimension,
    ScalarOverflow,
)
from .raw import elementwise as _ew
from .raw import linear_algebra as _la

if TYPE_CHECKING:
    from types import EllipsisType

    _Index: TypeAlias = "int | slice | EllipsisType | None | Array | jax.Array | np.ndarray | list[int]"
    Key: TypeAlias = "_Index | tuple[_Index, ...]"
    Scalar: TypeAlias = "bool | int | float | complex"
    ArrayOperand: TypeAlias = "Array | jax.Array | np.ndarray"
    Operand: TypeAlias = "ArrayOperand | Scalar"

_A = TypeVar("_A", bound="Array")

__all__ = ["Array", "binary", "call1", "call2", "calln", "interned", "lift", "unary", "wrap", "wrap_shared"]


class NotASequence(InvalidDimension, TypeError):
    """Length or iteration of an Array without axes; a TypeError, which `iter` callers like ``numpy.iterable`` catch."""


class Array(Handle):
    """A mutable n-dimensional array on an XLA device.

    Parameters
    ----------
    data
        The ``jax.Array`` to hold; it is shared, so the first write to this Array copies it.

    Attributes
    ----------
    is_alive
        Whether there is a value: the Array was not given up, and its buffer not donated.

    Notes
    -----
    ``x[key] = value`` and the in-place operators rebind this handle; nobody else sees the change. When the handle
    owns its buffer alone, the update runs in place.
    """

    __slots__ = ()
    # NumPy leaves binary operations with an Array to the Array.
    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, data: jax.Array, /) -> None:
        if isinstance(data, Array):
            data = share(data)
        if not isinstance(data, jax.Array):
            raise InvalidArgument(
                "Array",
                "data",
                got=f"an object of type {type(data).__name__}",
                wanted="a jax.Array",
                remedy="Use rtx_jax.asarray.",
                arg="data",
                reason="not a jax.Array",
            )
        self._data = data
        self._owned = COUNTED
        if isinstance(data, Tracer):
            tracing.tracer_seen()
            self._owned = tracing.mark()

    @classmethod
    def _fresh(cls, data: jax.Array) -> Array:
        return wrap(data)

    # --- attributes -----------------------------------------------------------------------------------------------

    @property
    def jax(self) -> jax.Array:
        """The ``jax.Array``. From now on it is shared, so the next write to this Array copies."""
        data = data_of(self)
        if self._owned is INTERNED and type(data) is ArrayImpl:
            # The constant serves every later creation of the same value; whoever gets it might donate it.
            data = _interop.copy_now(data)
            self._data = Given(data) if type(self._data) is Given else data
        owned = self._owned
        if owned is True or owned is COUNTED or (owned is INTERNED and type(data) is ArrayImpl):
            self._owned = False
        if tapes:
            disown(data)
        return data

    @property
    def dtype(self) -> np.dtype:
        """Data type of the elements."""
        data = self._data
        return (data if type(data) is ArrayImpl else facts_of(self)).dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Size of each axis."""
        data = self._data
        return (data if type(data) is ArrayImpl else facts_of(self)).shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        data = self._data
        return (data if type(data) is ArrayImpl else facts_of(self)).ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        data = self._data
        return (data if type(data) is ArrayImpl else facts_of(self)).size

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def device(self) -> Device | Sharding | None:
        """The device that holds the elements, the sharding over several devices, or None while tracing."""
        return _devices.device_of(facts_of(self))

    @property
    def sharding(self) -> Sharding:
        """How the elements are spread over devices."""
        return facts_of(self).sharding

    @property
    def T(self) -> Array:
        """The transpose of a matrix.

        Raises
        ------
        InvalidDimension
            If the array is not two-dimensional.
        """
        return _transpose(self)

    @property
    def mT(self) -> Array:
        """The transpose of each matrix in the last two axes.

        Raises
        ------
        InvalidDimension
            If the array has fewer than two axes.
        """
        return _matrix_transpose(self)

    @property
    def at(self) -> At:
        """Updates that return a new Array, as ``jax.Array.at``: ``x.at[key].set(value)``."""
        return At(self)

    # --- the standard's protocols ---------------------------------------------------------------------------------

    if not TYPE_CHECKING:  # a checker is to find wrong names itself

        def __getattr__(self, name: str) -> object:
            if name.startswith("_"):  # protocols that others look for
                raise AttributeError(f"'Array' object has no attribute {name!r}")
            from ._numpy_names import missing_attribute

            raise missing_attribute(name, [known for known in dir(type(self)) if not known.startswith("_")])

    def __array_namespace__(self, /, *, api_version: str | None = None) -> types.ModuleType:
        """Return the module `rtx_jax`.

        Raises
        ------
        InvalidArgument
            For a version of the standard that is not supported.
        """
        if api_version is not None and api_version not in _API_VERSIONS:
            raise InvalidArgument(
                "__array_namespace__",
                "api_version",
                got=repr(api_version),
                wanted=", ".join(_API_VERSIONS),
                arg="api_version",
                reason="not supported",
            )
        return sys.modules[__package__]

    def to_device(self, device: Device | Sharding | str, /, *, stream: int | object | None = None) -> Array:
        """Return the Array on another device.

        Parameters
        ----------
        device
            A ``jax.Device``, a ``Sharding`` or a string such as ``"cpu:0"`` or ``"cuda:1"``.
        stream
            Must be None: XLA orders its own work.

        Raises
        ------
        BackendUnavailable
            If there is no such device.
        """
        if stream is not None:
            raise InvalidArgument(
                "to_device", "stream", got=repr(stream), wanted="None", arg="stream", reason="XLA orders its own work"
            )
        target = _devices.resolve(device, "to_device")
        data = share(self)
        return wrap_shared(data if target is None else _devices.place(data, target))

    def __dlpack__(
        self,
        /,
        *,
        stream: int | object | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """Export the buffer as a DLPack capsule; see `rtx_jax.from_dlpack`."""
        return _interop.dlpack(self, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self, /) -> tuple[int, int]:
        """Return the DLPack device type and number."""
        return _interop.dlpack_device(self)

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        """Return the values as a NumPy array; read-only without a copy where the device allows it."""
        return _interop.to_numpy(self, dtype, copy)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object) -> object:
        """Run a NumPy ufunc as the function of this namespace that it stands for."""
        return _interop.array_ufunc(self, ufunc, method, *inputs, **kwargs)

    # --- values ---------------------------------------------------------------------------------------------------

    def _value(self, operation: str) -> np.ndarray:
        return _interop.values(self, operation)

    def _scalar(self, operation: str) -> bool | int | float | complex:
        if self.size != 1:
            raise InvalidArgument(
                operation,
                "x",
                got=f"an Array of shape {self.shape}",
                wanted="one element",
                remedy="Use any or all, or index one element.",
                arg="x",
                reason="not one element",
            )
        value: bool | int | float | complex = self._value(operation).item()
        return value

    def __bool__(self) -> bool:
        return bool(self._scalar("bool"))

    def __int__(self) -> int:
        value: int | float = _real(self, "int")
        return int(value)

    def __float__(self) -> float:
        value: int | float = _real(self, "float")
        return float(value)

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        if self.dtype.kind not in "iu":
            raise DTypeMismatch("index", "x", got=f"dtype {self.dtype}", wanted="an integer dtype")
        if self.ndim:
            raise InvalidDimension("index", "x", got=f"{self.ndim} axes", wanted="0 axes", dim=self.ndim, ndim=0)
        value: int = self._value("index").item()
        return value

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        return format(self._scalar("format"), spec)

    def item(self) -> bool | int | float | complex:
        """Return the only element as a Python scalar.

        Raises
        ------
        InvalidArgument
            If there is not exactly one.
        """
        return self._scalar("item")

    def tolist(self) -> object:
        """Return the values as nested lists of Python scalars."""
        return self._value("tolist").tolist()

    def __len__(self) -> int:
        if not self.ndim:
            raise NotASequence("len", "x", got="0 axes", wanted="at least 1", dim=0, ndim=0)
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        if not self.ndim:
            raise NotASequence("iteration", "x", got="0 axes", wanted="at least 1", dim=0, ndim=0)
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, value: object) -> bool:
        return bool(np.any(np.asarray(self == value)))

    def __repr__(self) -> str:
        return _GIVEN_UP if self._data is MOVED else text(data_of(self), repr)

    def __str__(self) -> str:
        return _GIVEN_UP if self._data is MOVED else text(data_of(self), str)

    # --- copies and pickles ---------------------------------------------------------------------------------------

    def __copy__(self) -> Array:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, object]) -> Array:
        copied = self.copy()
        memo[id(self)] = copied
        return copied

    def copy(self) -> Array:
        """Return an independent Array. The elements are copied when one of the two is first written."""
        owned = self._owned
        data = self._data
        if type(data) is Lazy and trace_is_clean():
            copied = wrap_lazy(type(self), data)
            copied._owned = self._owned = False
            return copied
        copied = wrap_shared(share(self))
        if owned is INTERNED and copied._owned is False:  # under a trace the copy belongs to that
            copied._owned = INTERNED
        return copied

    # --- ownership ------------------------------------------------------------------------------------------------

    @property
    def id(self) -> int:
        """A number that no other Array of this process has or had."""
        try:
            return self._id
        except AttributeError:
            with _id_lock:  # two threads get one number
                if not hasattr(self, "_id"):
                    self._id = next(_ids)
            return self._id

    @property
    def is_alive(self) -> bool:
        """Whether there is a value: the Array was not given up, and its buffer was not donated."""
        if self._data is MOVED:
            return False
        data = self._data if type(self._data) is Lazy else held(self)
        return type(data) is not ArrayImpl or not data.is_deleted()

    def take(self, *indices: object) -> Array:
        """Give this Array up: return one for the next operation, which may put its result into the same memory.

        Every later use of this Array raises `UseAfterMove`. The Array that is returned serves one operation: a
        function of the namespace or of a backend, an operator, a call of a function of `rtx_jax.jit`. A look at it (its
        shape, its values, ``print``) is none. The memory is used where nobody else can see it and a result has its
        shape and dtype; a clone, an export or a view keeps its value.

        Raises
        ------
        UseAfterMove
            It was given up before.
        TracedMutation
            It does not belong to the function that is being traced.
        InvalidArgument
            It was given indices.

        Notes
        -----
        NumPy's method of this name, with indices, is the function `rtx_jax.take`. Inside of a function of
        `rtx_jax.jit`, giving an argument up donates the caller's Array, as a call without compilation would.

        Examples
        --------
        >>> import rtx_jax as xp
        >>> x = xp.asarray([1.0, 2.0])
        >>> xp.exp(x.take() - 1.0)
        Array([1.        , 2.71828183])
        >>> x.is_alive
        False
        """
        if indices:
            raise InvalidArgument(
                "x.take",
                "indices",
                got=f"{len(indices)} of them",
                wanted="none: the method gives the Array up to the next operation",
                remedy="Elements are taken by rtx_jax.take(x, indices, axis=0), or by x[indices].",
                arg="indices",
                reason="not NumPy's method",
            )
        given = object.__new__(type(self))
        give(self, given)
        return given

    def clone(self) -> Array:
        """Return another Array on the same memory, which is copied when one of the two is written.

        An operation that is given one of them (`take`) leaves the memory to the other.

        Raises
        ------
        UseAfterMove
            The Array was given up.
        """
        owned = self._owned
        twin = self.copy()
        if (owned is True or owned is COUNTED) and twin._owned is False:
            # Both hold the same ``jax.Array``: whoever is left alone can tell from the references to it.
            self._owned = twin._owned = COUNTED
        return twin

    def __reduce__(self) -> tuple[Callable[[np.ndarray], Array], tuple[np.ndarray]]:
        return _unpickle, (self._value("pickle"),)

    # --- indexing and mutation ------------------------------------------------------------------------------------

    def __getitem__(self, key: Key, /) -> Array:
        return _getitem(self, key)

    def __setitem__(self, key: Key, value: Array | JaxArray | np.ndarray | Scalar, /) -> None:
        if _getrefcount(self) <= TEMPORARY:
            warn_if_chained(sys._getframe(1))
        _setitem(self, key, value)

    def block_until_ready(self) -> Self:
        """Wait until the value has been computed, and return the Array."""
        data = data_of(self)
        if type(data) is ArrayImpl:
            data.block_until_ready()
        return self

    # --- operators ------------------------------------------------------------------------------------------------

    def __add__(self, other: Operand, /) -> Array:
        return _add(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __sub__(self, other: Operand, /) -> Array:
        return _subtract(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __mul__(self, other: Operand, /) -> Array:
        return _multiply(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __truediv__(self, other: Operand, /) -> Array:
        return _divide(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __floordiv__(self, other: Operand, /) -> Array:
        return _floor_divide(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __mod__(self, other: Operand, /) -> Array:
        return _remainder(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __pow__(self, other: Operand, /) -> Array:
        if other.__class__ is int and other == 2:
            return _square(self)
        return _pow(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __matmul__(self, other: ArrayOperand, /) -> Array:
        return call2(_matmul, self, other, _precision()) if isinstance(other, _ARRAYS) else NotImplemented

    def __and__(self, other: Operand, /) -> Array:
        return _bitwise_and(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __or__(self, other: Operand, /) -> Array:
        return _bitwise_or(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __xor__(self, other: Operand, /) -> Array:
        return _bitwise_xor(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __lshift__(self, other: Operand, /) -> Array:
        return _bitwise_left_shift(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __rshift__(self, other: Operand, /) -> Array:
        return _bitwise_right_shift(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __eq__(self, other: Operand, /) -> Array:  # type: ignore[override]
        return _equal(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __ne__(self, other: Operand, /) -> Array:  # type: ignore[override]
        return _not_equal(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __lt__(self, other: Operand, /) -> Array:
        return _less(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __le__(self, other: Operand, /) -> Array:
        return _less_equal(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __gt__(self, other: Operand, /) -> Array:
        return _greater(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __ge__(self, other: Operand, /) -> Array:
        return _greater_equal(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __radd__(self, other: Operand, /) -> Array:
        return _add(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    def __rsub__(self, other: Operand, /) -> Array:
        return _subtract(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    def __rmul__(self, other: Operand, /) -> Array:
        return _multiply(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    def __rtruediv__(self, other: Operand, /) -> Array:
        return _divide(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    def __rfloordiv__(self, other: Operand, /) -> Array:
        return _floor_divide(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    def __rmod__(self, other: Operand, /) -> Array:
        return _remainder(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    def __rpow__(self, other: Operand, /) -> Array:
        return _pow(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    def __rmatmul__(self, other: ArrayOperand, /) -> Array:
        return call2(_matmul, other, self, _precision()) if isinstance(other, _ARRAYS) else NotImplemented

    def __rand__(self, other: Operand, /) -> Array:
        return _bitwise_and(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    def __ror__(self, other: Operand, /) -> Array:
        return _bitwise_or(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    def __rxor__(self, other: Operand, /) -> Array:
        return _bitwise_xor(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    def __rlshift__(self, other: Operand, /) -> Array:
        return _bitwise_left_shift(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    def __rrshift__(self, other: Operand, /) -> Array:
        return _bitwise_right_shift(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    def __iadd__(self, other: Operand, /) -> Self:
        return _in_place(self, other, _iadd) if isinstance(other, _OPERANDS) else NotImplemented

    def __isub__(self, other: Operand, /) -> Self:
        return _in_place(self, other, _isubtract) if isinstance(other, _OPERANDS) else NotImplemented

    def __imul__(self, other: Operand, /) -> Self:
        return _in_place(self, other, _imultiply) if isinstance(other, _OPERANDS) else NotImplemented

    def __itruediv__(self, other: Operand, /) -> Self:
        return _in_place(self, other, _idivide) if isinstance(other, _OPERANDS) else NotImplemented

    def __ifloordiv__(self, other: Operand, /) -> Self:
        return _in_place(self, other, _ifloor_divide) if isinstance(other, _OPERANDS) else NotImplemented

    def __imod__(self, other: Operand, /) -> Self:
        return _in_place(self, other, _iremainder) if isinstance(other, _OPERANDS) else NotImplemented

    def __ipow__(self, other: Operand, /) -> Self:
        if type(other) is int and other < 0 and self.dtype in INTEGRAL:
            _pow(self, other)  # refuses
        return _in_place(self, other, _ipow) if isinstance(other, _OPERANDS) else NotImplemented

    def __imatmul__(self, other: ArrayOperand, /) -> Self:
        return _in_place(self, other, _imatmul[_precision()]) if isinstance(other, _ARRAYS) else NotImplemented

    def __iand__(self, other: Operand, /) -> Self:
        return _in_place(self, other, _ibitwise_and) if isinstance(other, _OPERANDS) else NotImplemented

    def __ior__(self, other: Operand, /) -> Self:
        return _in_place(self, other, _ibitwise_or) if isinstance(other, _OPERANDS) else NotImplemented

    def __ixor__(self, other: Operand, /) -> Self:
        return _in_place(self, other, _ibitwise_xor) if isinstance(other, _OPERANDS) else NotImplemented

    def __ilshift__(self, other: Operand, /) -> Self:
        return _in_place(self, other, _ibitwise_left_shift) if isinstance(other, _OPERANDS) else NotImplemented

    def __irshift__(self, other: Operand, /) -> Self:
        return _in_place(self, other, _ibitwise_right_shift) if isinstance(other, _OPERANDS) else NotImplemented

    def __divmod__(self, other: Operand, /) -> tuple[Array, Array]:
        if not isinstance(other, _OPERANDS):
            return NotImplemented
        x = settled(self)
        y = settled(other) if isinstance(other, Array) else other
        return x // y, x % y

    def __rdivmod__(self, other: Operand, /) -> tuple[Array, Array]:
        if not isinstance(other, _OPERANDS):
            return NotImplemented
        x = settled(self)
        return x.__rfloordiv__(other), x.__rmod__(other)

    def __neg__(self, /) -> Array:
        return _negative(self)

    def __pos__(self, /) -> Array:
        return _positive(self)

    def __abs__(self, /) -> Array:
        return _abs(self)

    def __invert__(self, /) -> Array:
        return _bitwise_invert(self)

    # --- NumPy's methods, last so that their names shadow nothing above --------------------------------------------

    all = _methods.all
    any = _methods.any
    argmax = _methods.argmax
    argmin = _methods.argmin
    argsort = _methods.argsort
    astype = _methods.astype
    clip = _methods.clip
    conj = _methods.conj
    conjugate = _methods.conjugate
    cumprod = _methods.cumprod
    cumsum = _methods.cumsum
    dot = _methods.dot
    flatten = _methods.flatten
    max = _methods.max
    mean = _methods.mean
    min = _methods.min
    nonzero = _methods.nonzero
    prod = _methods.prod
    ravel = _methods.ravel
    repeat = _methods.repeat
    reshape = _methods.reshape
    round = _methods.round
    squeeze = _methods.squeeze
    std = _methods.std
    sum = _methods.sum
    swapaxes = _methods.swapaxes
    transpose = _methods.transpose
    var = _methods.var
    real = property(_methods.real)
    imag = property(_methods.imag)


_API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
_door: Door[Array] = Door(Array)
unary, binary, interned, wrap, wrap_shared = _door.unary, _door.binary, _door.interned, _door.wrap, _door.wrap_shared
call1, call2, calln = _door.call1(), _door.call2(), _door.calln()


# --- indexing and mutation ------------------------------------------------------------------------------------------


def _raw_key(key: object) -> object:
    """Return a key with the Arrays in it replaced by their arrays."""
    if isinstance(key, Handle):
        return used(key)
    if type(key) is tuple:
        return tuple(used(part) if isinstance(part, Handle) else part for part in key)
    return key


def _getitem(x: Array, key: object) -> Array:
    if tracing.active and fusing.recording is not None:
        try:
            recorded = record_read(x, key)
        except Exception as error:
            raise_translated("x[key]", error)
        if recorded is not None:
            return wrap_lazy(Array, recorded)
    if isinstance(key, Handle) or type(key) is tuple:
        key = _raw_key(key)
    data = x._data
    if type(data) is not ArrayImpl or tracing.active:
        x = settled(x)
        data = data_of(x)
    try:
        result = _indexing.get(data, key)
    except Exception as error:
        raise_translated("x[key]", error)
    if result is data:
        return wrap_shared(share(x))
    return wrap(result)


def _setitem(x: Array, key: object, value: object) -> None:
    if tracing.active and fusing.recording is not None:
        try:
            if record_write(x, key, value):
                return
        except Exception as error:
            raise_translated("x[key] = value", error)
    if isinstance(key, Handle) or type(key) is tuple:
        key = _raw_key(key)
    data = x._data
    if type(data) is Given:  # the write is what it was given to
        x._data = data = data.data
    if isinstance(value, Handle):
        value = used(value)
    if type(data) is not ArrayImpl or tracing.active:
        data = data_of(x)
    try:
        plain, donating, operands, wide = _indexing.plan_set(data, key, value)
        del data  # a reference of ours would keep the update from reusing the buffer
        update(x, plain, donating, operands, wide, "x[key] = value")
    except Exception as error:
        raise_translated("x[key] = value", error)


def _in_place(x: _A, other: object, op: InPlace) -> _A:
    if tracing.active and fusing.recording is not None and _record_in_place(x, other, op):
        return x
    data = x._data
    if type(data) is Given:  # the write is what it was given to
        x._data = data = data.data
    if type(data) is not ArrayImpl or tracing.active:
        data = data_of(x)
    wide = data.dtype in WIDE
    if type(other) is Array:
        operand = other._data
        if type(operand) is not ArrayImpl or tracing.active:
            operand = used(other)
        wide = wide or operand.dtype in WIDE
    elif isinstance(other, bool | int | float | complex):
        try:
            operand, wide_scalar = scalar_operand(other, data.dtype)
        except ScalarOverflow as error:
            raise error.renamed(op.operation) from None
        wide = wide or wide_scalar
    else:
        operand = lift(other)
        wide = wide or operand.dtype in WIDE
    del data  # a reference of ours would keep the update from reusing the buffer
    try:
        update(x, op.plain, op.donating, (operand,), wide, op.operation)
    except Exception as error:
        raise_translated(op.operation, error)
    return x


def _record_in_place(x: Array, other: object, op: InPlace) -> bool:
    """Record an in-place operator where that is possible."""
    try:
        if isinstance(other, bool | int | float | complex):
            other = scalar_operand(other, x.dtype)[0]
        elif not isinstance(other, Handle):
            other = lift(other)
        return record_update(x, op.plain, op.donating, (other,), False)
    except ScalarOverflow as error:
        raise error.renamed(op.operation) from None
    except Exception as error:
        raise_translated(op.operation, error)


# --- values ---------------------------------------------------------------------------------------------------------


def _real(x: Array, operation: str) -> int | float:
    if x.dtype.kind == "c":
        raise DTypeMismatch(
            operation, "x", got=f"dtype {x.dtype}", wanted="a real dtype", remedy="Take rtx_jax.real first."
        )
    value = x._scalar(operation)
    assert not isinstance(value, complex)
    return value


def _unpickle(value: np.ndarray) -> Array:
    return wrap(unpickle(value))


# --- pytree ---------------------------------------------------------------------------------------------------------


def _flatten(x: Array) -> tuple[tuple[jax.Array], None]:
    return (x.jax,), None


def _unflatten(_: None, children: tuple[object, ...]) -> Array:
    # JAX also builds trees of placeholders (None, shapes, sentinels), so nothing is checked here.
    handle = object.__new__(Array)
    handle._data = data = children[0]
    handle._owned = False
    if isinstance(data, Tracer):
        tracing.tracer_seen()
        handle._owned = tracing.mark()
    return handle


jax.tree_util.register_pytree_node(Array, _flatten, _unflatten)


# --- operators ------------------------------------------------------------------------------------------------------

_getrefcount = sys.getrefcount
_ids = itertools.count(1)
_id_lock = threading.Lock()
_GIVEN_UP = "<Array, given up>"
_OPERANDS = (Array, bool, int, float, complex, jax.Array, np.ndarray, np.generic)
_ARRAYS = (Array, jax.Array, np.ndarray)

# The operators' calls. `Op` shares what is compiled with the namespace's functions of the same raw function.
_add = binary(Op("add", _ew.add))
_subtract = binary(Op("subtract", _ew.subtract))
_multiply = binary(Op("multiply", _ew.multiply))
_divide = floating_binary(_door, Op("divide", _ew.divide), Op("divide", _ew.divide_rounded))
_floor_divide = binary(Op("floor_divide", _ew.floor_divide))
_remainder = binary(Op("remainder", _ew.remainder))
_pow_arrays = binary(Op("pow", _ew.pow))
_integer_pow = Op("pow", _ew.integer_pow, ("exponent",))
_bitwise_and = binary(Op("bitwise_and", _ew.bitwise_and))
_bitwise_or = binary(Op("bitwise_or", _ew.bitwise_or))
_bitwise_xor = binary(Op("bitwise_xor", _ew.bitwise_xor))
_bitwise_left_shift = binary(Op("bitwise_left_shift", _ew.bitwise_left_shift))
_bitwise_right_shift = binary(Op("bitwise_right_shift", _ew.bitwise_right_shift))
_equal = comparison(_door, Op("equal", _ew.equal))
_not_equal = comparison(_door, Op("not_equal", _ew.not_equal))
_less = comparison(_door, Op("less", _ew.less))
_less_equal = comparison(_door, Op("less_equal", _ew.less_equal))
_greater = comparison(_door, Op("greater", _ew.greater))
_greater_equal = comparison(_door, Op("greater_equal", _ew.greater_equal))
_negative = unary(Op("negative", _ew.negative))
_positive = unary(Op("positive", _ew.positive))
_abs = unary(Op("abs", _ew.abs))
_bitwise_invert = unary(Op("bitwise_invert", _ew.bitwise_invert))
_square = unary(Op("square", _ew.square))


def _pow(x1: object, x2: object, /) -> Array:
    # A small integer exponent is compiled in, so that it becomes multiplications, as in plain JAX. Of integers a
    # negative one is refused there.
    if type(x2) is int and type(x1) is Array and x2 <= _MAX_EXPONENT:
        dtype = x1.dtype
        if (x2 >= -_MAX_EXPONENT and dtype in NUMERIC) or dtype in INTEGRAL:
            return call1(_integer_pow, x1, x2)
    return _pow_arrays(x1, x2)


_MAX_EXPONENT = 32
_matmul = Op("matmul", _la.matmul, ("precision",))
_matrix_transpose = unary(Op("mT", _la.matrix_transpose))
_transpose = unary(Op("T", _la.transpose))
_precision = _config.matmul_precision

_iadd = InPlace("+=", _ew.add)
_isubtract = InPlace("-=", _ew.subtract)
_imultiply = InPlace("*=", _ew.multiply)
_idivide = InPlace("/=", _ew.divide_rounded)
_ifloor_divide = InPlace("//=", _ew.floor_divide)
_iremainder = InPlace("%=", _ew.remainder)
_ipow = InPlace("**=", _ew.pow)
_imatmul = {
    precision: InPlace("@=", functools.partial(_la.matmul, precision=precision)) for precision in _config.PRECISIONS
}
_ibitwise_and = InPlace("&=", _ew.bitwise_and)
_ibitwise_or = InPlace("|=", _ew.bitwise_or)
_ibitwise_xor = InPlace("^=", _ew.bitwise_xor)
_ibitwise_left_shift = InPlace("<<=", _ew.bitwise_left_shift)
_ibitwise_right_shift = InPlace(">>=", _ew.bitwise_right_shift)
