"""`Fusion`: operations of a backend are recorded and run together when a value is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, cast

import numpy as np

from .._compat import EAGER_TRACE, ArrayImpl, running_trace
from ..core.handle import Handle, facts_of
from ..core.lazy import Lazy, Unrecordable, fusing, leaf, open_tape, record, resolve, slot_of, watch
from ..core.op import raise_translated
from ..core.ownership import is_exclusive, is_given, use_up
from ..errors import BackendLimitation, InvalidArgument
from .autodiff import Autodiff
from .base import Backend
from .core import Call, Params, T
from .jax import JaxBackend
from .jax_calls import OWNED, is_prepared
from .wrapper import Wrapper

__all__ = ["Fusion"]

_MAX_CALLS = 8192


class Fusion(Wrapper[T]):
    """A backend whose operations are recorded, and run together when a value is needed.

    Its tensors know their shape and dtype at once. The elements are computed when something looks at them (`to_data`,
    printing, ``float``, ``bool``, NumPy, DLPack, indices whose bounds are checked), after 512 operations, or when an
    operation cannot be recorded. Only tensors that are referred to by then get memory, and memory of operands that are
    gone is used again: a chain of elementwise operations runs as one kernel.

    Parameters
    ----------
    inner
        A JAX backend, or `Quantized` around one.

    Raises
    ------
    BackendLimitation
        `inner` computes outside of JAX.
    InvalidArgument
        `inner` records itself. Autodiff goes around Fusion, which records forward and backward alike.

    Notes
    -----
    Each thread records for itself; another thread that needs a tensor computes it. The same operations are run one by
    one until they have been seen often enough, then they are compiled as a whole; see `rtx_jax.fusion`, which does the
    same for the operations of the namespace. Inside of a function that is being traced nothing is recorded.

    Examples
    --------
    >>> from rtx_jax.backend import CpuBackend, Fusion
    >>> B = Fusion(CpuBackend())
    >>> x = B.from_data([1.0, 2.0, 3.0], (3,))
    >>> y = B.add(B.mul(x, x), x)
    >>> y.shape
    (3,)
    >>> B.to_data(y)
    array([ 2.,  6., 12.], dtype=float32)
    """

    prefix: ClassVar[str] = "fusion"

    def __init__(self, inner: Backend[T], /) -> None:
        super().__init__(inner)
        root: object = inner
        while isinstance(root, Wrapper):
            if isinstance(root, Autodiff | Fusion):
                raise InvalidArgument(
                    "Fusion",
                    "inner",
                    got=inner.name(),
                    wanted="a backend that does not record",
                    remedy=(
                        "Write Autodiff(Fusion(B)): it fuses forward and backward."
                        if isinstance(root, Autodiff)
                        else "One Fusion is enough."
                    ),
                    arg="inner",
                    reason="records itself",
                )
            root = root.inner
        if not isinstance(root, JaxBackend):
            raise BackendLimitation(
                "Fusion",
                "inner",
                got=f"the backend {inner.name()!r}",
                wanted="a JAX backend",
                remedy="NumPy runs each operation by itself; nothing compiles a program of several.",
                backend=inner.name(),
                reason="computes outside of JAX",
            )
        self._calls: dict[tuple[str, Params], tuple[Callable[..., object], bool]] = {}

    # -- dispatch

    def _apply(self, operation: str, operands: tuple[T | np.ndarray | None, ...], params: Params = ()) -> T:
        found = self._calls.get((operation, params))
        if found is None:
            return self._general(operation, operands, params)
        thread = fusing.thread
        tape = thread.tape
        if tape is None or watch.nans or running_trace.value is not EAGER_TRACE:
            return self._general(operation, operands, params)
        slots: list[int] = []
        try:
            for x in operands:
                if type(x) is Lazy:
                    slots.append(x.fact.slot if x.state is tape else slot_of(tape, x))
                elif type(x) is ArrayImpl:
                    slots.append(tape.slots.get(id(x)) or leaf(tape, x, False))
                else:
                    return self._general(operation, operands, params)
        except Unrecordable:
            return self._general(operation, operands, params)
        fn = found[0]
        place = tape.place.next.get((fn, *slots))
        if place is None or place.fact is None:
            try:
                return record(tape, fn, found[1], tuple(slots))  # type: ignore[return-value]
            except Unrecordable:
                return self._general(operation, operands, params)
            except Exception as error:
                raise_translated(operation, error)
        tape.place = place
        value: Lazy = _new(Lazy)
        value.fact = place.fact
        value.state = tape
        tape.values.append(value)
        return value  # type: ignore[return-value]

    def _general(self, operation: str, operands: tuple[T | np.ndarray | None, ...], params: Params) -> T:
        plain = _spent(operation, operands)
        tape = open_tape()
        if tape is None:
            return self._inner._apply(operation, _computed(plain), params)
        exclusive = _exclusive(operation, plain)
        call = self._inner._traceable(operation, cast("tuple[T, ...]", plain), params)
        if not is_prepared(operation) and all(type(x) is Lazy or type(x) is ArrayImpl for x in plain):
            given = [x for x in plain if x is not None]
            if len(given) == len(call[2]) and all(x is y for x, y in zip(given, call[2], strict=True)):
                if len(self._calls) >= _MAX_CALLS:
                    self._calls.clear()
                self._calls[operation, params] = call[0], call[1]
        made = self._make(operation, call)
        for x in call[2] if exclusive else ():
            if id(x) in exclusive and id(x) in tape.slots:
                tape.owned[id(x)] = True
        return made  # type: ignore[return-value]

    def _traceable(self, operation: str, operands: tuple[T | np.ndarray | None, ...], params: Params = ()) -> Call:
        return self._inner._traceable(operation, cast("tuple[T, ...]", _spent(operation, operands)), params)

    def _make(self, operation: str, call: Call) -> object:
        fn, wide, operands = call
        tape = open_tape()
        if tape is not None:
            try:
                slots = tuple([None if x is None else slot_of(tape, x) for x in operands])
                return record(tape, fn, wide, slots)
            except Unrecordable:
                pass
            except Exception as error:
                raise_translated(operation, error)
        return self._inner._make(operation, (fn, wide, _computed(operands)))

    # -- what looks at elements

    def _function(self, name: str) -> Callable[..., object]:
        plain = self._inner._function(name)
        if name in ("to_data", "device"):
            return lambda x: plain(_computed((x,))[0])
        if name == "to_device":
            return lambda x, device: plain(_computed((x,))[0], device)
        return plain

    def _index_values(self, indices: T) -> np.ndarray | None:
        return self._inner._index_values(_computed((indices,))[0])


def _plain(x: object) -> object:
    """Return what an operand holds; the value of a tensor that has one."""
    if type(x) is Lazy:
        return x.state if type(x.state) is ArrayImpl else x
    if isinstance(x, Handle):
        found = facts_of(x)
        return found if type(found) is Lazy else x
    return x


def _spent(operation: str, operands: tuple[object, ...]) -> tuple[object, ...]:
    """Return what operands hold. Handles are dead that were given up with a value that is not computed yet."""
    plain = []
    for i, x in enumerate(operands):
        found = _plain(x)
        if type(found) is Lazy and is_given(x) and i in OWNED[operation]:
            use_up(x, operation)  # type: ignore[arg-type]
        plain.append(found)
    return tuple(plain)


def _exclusive(operation: str, operands: tuple[object, ...]) -> set[int]:
    """Return the ids of arrays that were given up, whose memory may be used where nobody else has it."""
    return {
        id(x._data.data)  # type: ignore[attr-defined]
        for i, x in enumerate(operands)
        if is_given(x) and i in OWNED[operation] and is_exclusive(x)  # type: ignore[arg-type]
    }


def _computed(operands: tuple[object, ...]) -> tuple[T, ...]:
    """Return operands with the values of those that are recorded."""
    return tuple([resolve(x) if type(x) is Lazy else x for x in operands])  # type: ignore[misc]


_new = object.__new__
