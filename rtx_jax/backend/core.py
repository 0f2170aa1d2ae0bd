"""What every group of a backend's methods is written on: the table of functions and `_apply`."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from typing import Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from ..checks.elementwise import kind_of
from ..errors import BackendLimitation, InvalidArgument, OutOfMemory, RtxError, UnsupportedDType, UseAfterMove
from .operations import MANAGEMENT, OPERATIONS

__all__ = ["BackendCore", "Call", "Params", "T", "Tensor"]

Params = tuple[Hashable, ...]
"""Values of the static parameters of one call, in the order of the operation's table."""

Call: TypeAlias = "tuple[Callable[..., object], bool, tuple[object, ...]]"
"""A function of raw tensors, whether it needs 64-bit types whatever its operands are, and its operands."""

Facts = tuple[tuple[int, ...], np.dtype]
"""Shape and dtype of an operand."""

_MAX_PASSED = 4096
_passed: dict[tuple[object, ...], Params] = {}


class Tensor(Protocol):
    """What every backend's tensors have."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""

    @property
    def dtype(self) -> np.dtype:
        """Type of the elements."""

    @property
    def ndim(self) -> int:
        """Number of axes."""


T = TypeVar("T", bound=Tensor)


class BackendCore(ABC, Generic[T]):
    """The part of `Backend` that its groups of methods share.

    Attributes
    ----------
    functions
        The functions of this backend by operation: ``fn(*operands, **params)``, with the names of
        `operations.OPERATIONS`, and those of `operations.MANAGEMENT`. An operation without one takes its default body.
    float_dtype, int_dtype, bool_dtype
        The dtypes of tensors made without ``dtype=``.
    """

    functions: Mapping[str, Callable[..., object]] = {}
    float_dtype: np.dtype = np.dtype(np.float32)
    int_dtype: np.dtype = np.dtype(np.int32)
    bool_dtype: np.dtype = np.dtype(np.bool_)

    @abstractmethod
    def name(self) -> str:
        """Return the name of the backend, such as ``"cpu"`` or ``"autodiff<cuda>"``."""

    def _apply(self, operation: str, operands: tuple[T | np.ndarray | None, ...], params: Params = ()) -> T:
        """Run one operation: the one place through which every method goes, and which a decorator overrides.

        Parameters
        ----------
        operation
            A name of `operations.OPERATIONS`.
        operands
            Tensors in the table's order, None for an absent one. Row indices that the host holds are a NumPy vector,
            checked before; so is the key of a random draw, ``uint32[2]``.
        params
            Static parameters in the table's order, checked and in one canonical form (floats are floats, sizes are
            tuples of ints), so that they serve as a key of a cache.
        """
        function = self.functions.get(operation)
        if function is None:
            from .defaults import default_body

            return default_body(self, operation)(*operands, *params)
        names = OPERATIONS[operation].params
        try:
            return function(*operands, **dict(zip(names, params, strict=True)))  # type: ignore[return-value]
        except RtxError:
            raise
        except MemoryError as error:
            raise OutOfMemory(
                operation, got=str(error) or "no memory", remedy="Free tensors or use smaller pieces."
            ) from error

    def _traceable(self, operation: str, operands: tuple[T | np.ndarray | None, ...], params: Params = ()) -> Call:
        """Return the call that `_apply` would make with the same arguments, for a recorder to keep and make again.

        Returns
        -------
        tuple
            A function of raw tensors, whether it needs 64-bit types whatever its operands are, and its operands:
            tensors, trees of them, vectors of the host, or None for an absent one. They are at the places of those
            given, scalars of the host come after them, and absent ones at the end may be left out. The function is
            pure and the same object for the same operation and parameters; on a backend of JAX it can be traced.
        """
        signs = tuple([math.copysign(1.0, p) for p in params if type(p) is float and p == 0.0])
        return _bound(_Itself(self), operation, params, signs), False, operands

    def _make(self, operation: str, call: Call) -> object:
        """Make a call of the kind that `_traceable` returns; a backend that records does it later.

        Parameters
        ----------
        operation
            What errors name.
        call
            The function may return several tensors.
        """
        fn, _, operands = call
        return fn(*operands)

    def _function(self, name: str) -> Callable[..., object]:
        """Return a function of the table that manages tensors.

        Raises
        ------
        BackendLimitation
            The backend lacks this primitive.
        """
        assert name in MANAGEMENT
        function = self.functions.get(name)
        if function is None:
            raise BackendLimitation(
                name,
                got=f"the backend {self.name()!r}, which has no function {name!r}",
                wanted="every primitive of rtx_jax.backend.PRIMITIVES in the table `functions`",
                backend=self.name(),
                reason=f"no {name}",
            )
        return function

    def supports_dtype(self, dtype: np.dtype, device: object = None) -> bool:
        """Tell whether tensors of `dtype` can live and be computed on `device` (None: the default one)."""
        return kind_of(dtype) != "other"

    def _dtype(self, operation: str, dtype: object, default: np.dtype, device: object = None) -> np.dtype:
        """Return what ``dtype=`` means.

        Raises
        ------
        UnsupportedDType
            It is no dtype, or the device lacks it.
        """
        if dtype is None:
            found = default
        else:
            try:
                found = np.dtype(dtype if isinstance(dtype, type) else getattr(dtype, "dtype", dtype))  # type: ignore[call-overload]
            except (TypeError, ValueError) as error:
                raise UnsupportedDType(
                    operation, "dtype", got=repr(dtype), wanted="a dtype", dtype=dtype, op=operation
                ) from error
        if not self.supports_dtype(found, device):
            raise UnsupportedDType(
                operation,
                "dtype",
                got=found.name,
                wanted=f"a dtype of the backend {self.name()!r}",
                remedy="Use float32 or an integer dtype, or another backend.",
                dtype=found,
                op=operation,
            )
        return found

    def _facts(self, operation: str, x: T | None) -> Facts | None:
        """Return shape and dtype of an operand, None for an absent one."""
        if x is None:
            return None
        return self._given(operation, x)

    def _given(self, operation: str, x: T | None) -> Facts:
        """Return shape and dtype of an operand that must be there.

        Raises
        ------
        InvalidArgument
            It is not, or no tensor.
        """
        try:
            return x.shape, x.dtype  # type: ignore[union-attr]
        except UseAfterMove as error:
            raise error.renamed(operation) from None
        except AttributeError:
            raise self._not_a_tensor(operation, x) from None

    @staticmethod
    def _checked(key: tuple[object, ...], check: Callable[[], Params]) -> Params:
        """Return the checked parameters of a call: a call like an earlier one is not checked again.

        `key` holds all that `check` looks at. Arguments that cannot be part of a key are checked each time.
        """
        try:
            found = _passed.get(key)
        except TypeError:
            return check()
        if found is None:
            found = check()
            if len(_passed) >= _MAX_PASSED:
                _passed.clear()
            _passed[key] = found
        return found

    def _not_a_tensor(self, operation: str, value: object) -> InvalidArgument:
        """Return the error for an operand that is no tensor."""
        return InvalidArgument(
            operation,
            "",
            got=f"{type(value).__name__}",
            wanted=f"tensors of the backend {self.name()!r}",
            remedy=getattr(type(value), "_remedy", "Make one with from_data or full."),
            arg="",
            reason="not a tensor",
        )


class _Itself(Generic[T]):
    """A backend as a key that no other is equal to: a subclass may have state, and equal ones then differ."""

    __slots__ = ("backend",)

    def __init__(self, backend: BackendCore[T]) -> None:
        self.backend = backend

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.backend is self.backend

    def __hash__(self) -> int:
        return id(self.backend)


@functools.lru_cache(maxsize=4096)
def _bound(key: _Itself[T], operation: str, params: Params, signs: tuple[float, ...]) -> Callable[..., object]:
    """Return an operation of a backend as a function of its operands; `signs` tells -0.0 from 0.0, which is equal."""
    backend = key.backend

    def call(*operands: T | np.ndarray | None) -> T:
        return backend._apply(operation, operands, params)

    call.__name__ = call.__qualname__ = operation
    return call
