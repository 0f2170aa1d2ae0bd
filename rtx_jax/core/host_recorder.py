"""Recording on the host: calls of NumPy as a `Recording` whose steps run again.

A `HostTape` is open while a function is captured. The function gets `HostValue`; NumPy's functions, its operators and
the operations of the NumPy backend on them become steps. Each step also runs once while it is recorded, so that shapes
and dtypes are known.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ..errors import ConcretizationError, TracedMutation
from .host_functions import DEPENDENT, FACTS, WRITING, Into, cast, dependent, getitem, left_behind, refused, setitem
from .recorder import Recording

__all__ = [
    "Draw",
    "HostCall",
    "Place",
    "HostValue",
    "HostTape",
    "OperationCall",
    "open_host_tape",
    "taping",
]

Static: TypeAlias = object
"""What a step holds besides its operands: numbers, strings, dtypes, slices, and tuples, lists and dicts of them."""


class Place(NamedTuple):
    """Where an operand stands in the arguments of a step."""

    number: int


@dataclass(frozen=True, slots=True)
class HostCall:
    """A step of the host: a function with its static arguments.

    Attributes
    ----------
    name
        What it is called in errors and files: ``"numpy.add"``, ``"numpy.add.reduce"``.
    function
        The function.
    arguments, keywords
        Its arguments, with a `Place` for each operand.
    is_unpacked
        Whether the function returns a sequence of one value, which is the result.
    """

    name: str
    function: Callable[..., object]
    arguments: Sequence[Static]
    keywords: Mapping[str, Static]
    is_unpacked: bool = False

    def __call__(self, *operands: object) -> object:
        """Call the function on operands."""
        keywords = {key: _filled(value, operands) for key, value in self.keywords.items()}
        result = self.function(*[_filled(value, operands) for value in self.arguments], **keywords)
        return result[0] if self.is_unpacked else result  # type: ignore[index]


@dataclass(frozen=True, slots=True)
class OperationCall:
    """A step of the host: an operation of a backend with its static parameters."""

    backend: object
    operation: str
    params: tuple[Hashable, ...]

    @property
    def name(self) -> str:
        """What it is called in errors."""
        return self.operation

    def __call__(self, *operands: object) -> object:
        """Run the operation."""
        result: object = self.backend._apply(self.operation, operands, self.params)  # type: ignore[attr-defined]
        return result


class Draw:
    """A leaf that is another key at each run: the next one of a stream of the host.

    Parameters
    ----------
    next_key
        Returns the key, ``uint32[2]``.
    """

    __slots__ = ("next_key",)

    def __init__(self, next_key: Callable[[], np.ndarray]) -> None:
        self.next_key = next_key


class HostTape:
    """A recording under construction, and what its values are for the example.

    Attributes
    ----------
    recording
        The program. Its leaves are arrays of the host, numbers, and `Draw`.
    sizes
        Bytes of each result slot in memory of its own; 0 for a view.
    roots
        For each result slot the slot whose memory it lies in: its own, or that of an operand.
    is_open
        Whether the function still runs.
    """

    __slots__ = ("is_open", "recording", "roots", "sizes")

    def __init__(self) -> None:
        self.is_open = True
        self.recording = Recording()
        self.sizes: list[int] = []
        self.roots: list[int] = []

    def leaf(self, value: object, example: np.ndarray | None = None) -> HostValue:
        """Return a value from outside, which each run reads anew."""
        slot = self.recording.leaf(value)
        return HostValue(self, slot, np.asarray(value) if example is None else example)

    def draw(self, next_key: Callable[[], np.ndarray]) -> HostValue:
        """Return a key that each run draws."""
        return self.leaf(Draw(next_key), next_key())

    def call(self, fn: Callable[..., object], operands: Sequence[object]) -> object:
        """Run a function of operands and append it as a step; return its results as `HostValue`."""
        for x in operands:
            if isinstance(x, HostValue) and (x._tape is not self or not self.is_open):
                raise left_behind()
        with np.errstate(all="ignore"):
            found = fn(*[x.example if isinstance(x, HostValue) else x for x in operands])
        several = isinstance(found, tuple | list)
        parts = [np.asarray(x) for x in (found if several else [found])]  # type: ignore[attr-defined]
        if any(part.dtype.kind not in "biufcV" for part in parts):
            raise refused(str(getattr(fn, "name", fn)), "it returns no numbers", "Call it outside.")
        if several and len(parts) == 1 and isinstance(fn, HostCall):
            fn = replace(fn, is_unpacked=True)
        slots = [
            None if x is None else x.slot if isinstance(x, HostValue) else self.recording.leaf(x) for x in operands
        ]
        first = self.recording.add(fn, False, tuple(slots), len(parts))
        for i, part in enumerate(parts):
            root = first + i
            for x in operands:
                if isinstance(x, HostValue) and np.may_share_memory(x.example, part):
                    root = self.roots[x.slot] if x.slot >= 0 else x.slot
            self.roots.append(root)
            self.sizes.append(part.nbytes if root == first + i else 0)
        results = [HostValue(self, first + i, part) for i, part in enumerate(parts)]
        if not several:
            return results[0]
        if hasattr(found, "_fields"):  # a named tuple, as of eigh
            return type(found)(*results)
        return tuple(results) if isinstance(found, tuple) else results

    def numpy(
        self, name: str, function: Callable[..., object], arguments: Sequence[object], keywords: Mapping[str, object]
    ) -> object:
        """Record a call of NumPy, whose operands stand anywhere in its arguments."""
        operands: list[object] = []
        static = [_emptied(value, operands) for value in arguments]
        named = {key: _emptied(value, operands) for key, value in keywords.items()}
        return self.call(HostCall(name, function, static, named), operands)


class _Open(threading.local):
    tape: HostTape | None = None


_open = _Open()


def open_host_tape() -> HostTape | None:
    """Return the tape of the capture that runs in this thread, or None."""
    return _open.tape


@contextlib.contextmanager
def taping() -> Iterator[HostTape]:
    """Record in this thread for the body."""
    before, tape = _open.tape, HostTape()
    _open.tape = tape
    try:
        yield tape
    finally:
        _open.tape = before
        tape.is_open = False


class HostValue(NDArrayOperatorsMixin):
    """A value of a captured function on the NumPy runtime.

    NumPy's functions and operators take it, indexing reads and writes it, and so do the operations of `NumpyBackend`.
    As for Arrays, no view aliases another value: a write changes this value alone. Its elements cannot be asked for
    while the function is captured.
    """

    __slots__ = ("_tape", "example", "slot")

    # What functions say that cannot take it.
    _remedy = "On the NumPy runtime use NumPy's functions, or the methods of NumpyBackend."

    def __init__(self, tape: HostTape, slot: int, example: np.ndarray) -> None:
        self._tape, self.slot, self.example = tape, slot, example

    # -- facts

    @property
    def tape(self) -> HostTape:
        """The tape that records what is done with it."""
        return self._tape

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self.example.shape

    @property
    def dtype(self) -> np.dtype:
        """Type of the elements."""
        return self.example.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.example.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.example.size

    @property
    def nbytes(self) -> int:
        """Number of bytes."""
        return self.example.nbytes

    def __len__(self) -> int:
        return len(self.example)

    def __iter__(self) -> Iterator[object]:
        return iter([self[i] for i in range(len(self))])

    def __repr__(self) -> str:
        return f"<HostValue {self.dtype.name}{list(self.shape)}>"

    # -- what has no answer while it is captured

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray:
        raise self._unknown("np.asarray(x)")

    def __bool__(self) -> bool:
        raise self._unknown("bool(x)")

    def __int__(self) -> int:
        raise self._unknown("int(x)")

    def __index__(self) -> int:
        raise self._unknown("x as an index")

    def __float__(self) -> float:
        raise self._unknown("float(x)")

    def __complex__(self) -> complex:
        raise self._unknown("complex(x)")

    def _unknown(self, operation: str) -> ConcretizationError:
        return ConcretizationError(
            operation,
            got="a value of a captured function, which each launch computes anew",
            remedy="Use NumPy's functions on it, such as where, or compute it outside of the captured function.",
        )

    # -- NumPy's protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **keywords: object) -> object:
        name = f"numpy.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
        if method == "at":
            raise refused(name, "it writes into its operand", "Use x[key] = value.")
        function = ufunc if method == "__call__" else getattr(ufunc, method)
        out = keywords.pop("out", None)
        if out is None:
            return self._tape.numpy(name, function, inputs, keywords)
        targets = out if isinstance(out, tuple) else (out,)
        if len(targets) != 1 or not isinstance(targets[0], HostValue):
            raise TracedMutation(
                name,
                "out",
                got="an array from outside of the captured function",
                wanted="a value of the function",
                remedy="List the array among the outputs of the capture.",
            )
        target = targets[0]
        result = self._tape.numpy(f"{name}.into", Into(function), (target, *inputs), keywords)
        assert isinstance(result, HostValue)
        target.rebind(result)
        return target

    def __array_function__(
        self,
        function: Callable[..., object],
        types: Sequence[type],
        arguments: Sequence[object],
        keywords: Mapping[str, object],
    ) -> object:
        name = f"{function.__module__}.{function.__qualname__}"
        plain = function.__name__
        if plain in FACTS:
            examples = [x.example if isinstance(x, HostValue) else x for x in arguments]
            return function(*examples, **keywords)
        if plain in WRITING or keywords.get("out") is not None:
            raise refused(name, "it writes into an operand", "Use x[key] = value.")
        if plain in DEPENDENT or (plain == "where" and len(arguments) == 1):
            raise dependent(name)
        return self._tape.numpy(name, function, arguments, keywords)

    # -- indexing

    def __getitem__(self, key: object) -> object:
        _check_key(key)
        return self._tape.numpy("x[key]", getitem, (self, key), {})

    def __setitem__(self, key: object, value: object) -> None:
        if not isinstance(value, HostValue | np.ndarray | np.generic | bool | int | float | complex | list | tuple):
            raise refused("x[key] = value", f"the value is of type {type(value).__name__}", "Convert it to an array.")
        result = self._tape.numpy("x[key] = value", setitem, (self, key, value), {})
        assert isinstance(result, HostValue)
        self.rebind(result)

    def rebind(self, other: HostValue) -> None:
        """Become another value, of the same shape and dtype."""
        self.slot, self.example = other.slot, other.example

    # -- methods of an array

    def _through(self, function: Callable[..., object], *arguments: object, **keywords: object) -> object:
        return self.__array_function__(function, (HostValue,), (self, *arguments), keywords)

    @property
    def T(self) -> object:
        """The axes in reverse order."""
        return self._through(np.transpose)

    def astype(self, dtype: object, /) -> object:
        """Return the elements as another dtype."""
        return self._tape.numpy("numpy.astype", cast, (self, np.dtype(dtype)), {})  # type: ignore[call-overload]

    def copy(self) -> HostValue:
        """Return a value of its own."""
        return HostValue(self._tape, self.slot, self.example)

    def reshape(self, *shape: int | Sequence[int]) -> object:
        """Return the elements in another shape."""
        return self._through(np.reshape, shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes: int) -> object:
        """Return the axes in another order, by default the reverse one."""
        return self._through(np.transpose, axes or None)

    def sum(self, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False) -> object:
        """Return the sum along axes."""
        return self._through(np.sum, axis=axis, keepdims=keepdims)

    def mean(self, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False) -> object:
        """Return the mean along axes."""
        return self._through(np.mean, axis=axis, keepdims=keepdims)

    def max(self, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False) -> object:
        """Return the largest along axes."""
        return self._through(np.max, axis=axis, keepdims=keepdims)

    def min(self, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False) -> object:
        """Return the smallest along axes."""
        return self._through(np.min, axis=axis, keepdims=keepdims)


def _check_key(key: object) -> None:
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, HostValue) and part.dtype == np.bool_:
            raise dependent("x[mask]")


def _emptied(value: object, operands: list[object]) -> Static:
    """Return an argument with a `Place` for each array in it, which goes to `operands`."""
    if isinstance(value, HostValue | np.ndarray):
        operands.append(value)
        return Place(len(operands) - 1)
    if isinstance(value, tuple | list):
        parts = [_emptied(part, operands) for part in value]
        return parts if isinstance(value, list) else tuple(parts)
    if isinstance(value, dict):
        return {key: _emptied(part, operands) for key, part in value.items()}
    return value


def _filled(value: Static, operands: Sequence[object]) -> object:
    if isinstance(value, Place):
        return operands[value.number]
    if isinstance(value, tuple | list):
        parts = [_filled(part, operands) for part in value]
        return parts if isinstance(value, list) else tuple(parts)
    if isinstance(value, dict):
        return {key: _filled(part, operands) for key, part in value.items()}
    return value
