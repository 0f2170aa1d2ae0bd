"""`Autodiff`: a backend that records what it computes, and differentiates that."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import ClassVar, cast

import numpy as np

from ...checks.choices import flag
from ...core.handle import Handle, data_of, lend, tracing, used
from ...core.recorder import Node, Ref
from ...errors import (
    BackendLimitation,
    InvalidArgument,
    MissingGradient,
    RtxError,
    UnsupportedDimension,
    UnsupportedDType,
    UseAfterMove,
)
from ...quant import QTensor
from ..base import Backend
from ..core import Call, Params, T, Tensor
from ..jax import JaxBackend
from ..quantized import Quantized
from ..results import BackendResult, attempt
from ..wrapper import Wrapper
from . import programs
from .functional import FunctionalMethods
from .gradient_map import GradientMap
from .graph import FLOATING, free, is_wide, linearize
from .hooks import GradientHook, Hook, Hooks
from .programs import tap
from .tensor import Leaf, TrackedTensor
from .tracing import note
from .tracing import state as tracing_now

__all__ = ["Autodiff"]


class Autodiff(FunctionalMethods):
    """A backend that computes gradients, around a backend of JAX.

    `require_grad` marks a tensor. Operations run at once, as on `inner`; those on tracked tensors are recorded beside.
    `backward` makes one program of what a tensor was computed from, which XLA compiles once for each structure, and
    returns the gradients of the marked tensors. Operations without a tracked operand are those of `inner`.

    Parameters
    ----------
    inner
        A JAX backend, or a backend around one.
    max_rank
        Most axes of a tensor that `backward` takes; None for any number.

    Raises
    ------
    BackendLimitation
        `inner` computes outside of JAX, as `NumpyBackend` does; or it quantizes results, which have no gradient.

    Notes
    -----
    Nested, ``Autodiff(Autodiff(B))``, it gives derivatives of derivatives. A recorded tensor keeps what it was
    computed from, so a write to an `rtx_jax.Array` between forward and backward changes nothing: the graph has the
    value that was read.

    Examples
    --------
    >>> from rtx_jax.backend import Autodiff, CpuBackend
    >>> B = Autodiff(CpuBackend())
    >>> B.name()
    'autodiff<cpu>'
    >>> w = B.require_grad(B.from_data([3.0], (1,)))
    >>> x = B.from_data([2.0], (1,))
    >>> loss = B.mul(B.mul(w, w), x)
    >>> B.backward(loss)[w]
    Array([12.], dtype=float32)
    """

    prefix: ClassVar[str] = "autodiff"

    def __init__(self, inner: Backend[T], /, max_rank: int | None = 6) -> None:
        super().__init__(cast("Backend[Tensor]", inner))
        _check_inner(inner)
        if max_rank is not None and (isinstance(max_rank, bool) or not isinstance(max_rank, int) or max_rank < 0):
            raise InvalidArgument(
                "Autodiff",
                "max_rank",
                got=repr(max_rank),
                wanted="a number of axes, 0 or more, or None",
                arg="max_rank",
                reason="not a rank",
            )
        self.max_rank = max_rank
        self._level = inner._level + 1 if isinstance(inner, Autodiff) else 1
        self._hooks = Hooks()

    def _parts(self) -> tuple[Hashable, ...]:
        return (self._inner, self.max_rank)

    # -- leaves

    def require_grad(self, x: Tensor, /) -> TrackedTensor:
        """Return `x` as a tensor whose gradient `backward` gives.

        Parameters
        ----------
        x
            A real floating tensor; its value is kept. One that is marked is returned as it is. A result of operations
            may be marked too: go on with what is returned in its place.

        Raises
        ------
        UnsupportedDType
            `x` is not real floating, or quantized.
        """
        if type(x) is TrackedTensor and x._level == self._level:
            return x if self.is_require_grad(x) else self._tapped(x)
        value = self._floating_value("require_grad", x)
        leaf = Leaf(value)
        return TrackedTensor(value, leaf, self._level, leaf.id)

    def is_require_grad(self, x: Tensor, /) -> bool:
        """Tell whether `require_grad` marked `x`, so that `backward` gives its gradient."""
        if type(x) is not TrackedTensor or x._level != self._level:
            return False
        source = x._source
        return isinstance(source, Leaf) or source.node.fn is tap

    def detach(self, x: Tensor, /) -> Tensor:
        """Return the value of `x` without its graph: a tensor of the inner backend."""
        return x._value if type(x) is TrackedTensor and x._level == self._level else x

    def _tapped(self, x: TrackedTensor) -> TrackedTensor:
        # -0.0 is the number that changes nothing when it is added, -0.0 included.
        zeros = Leaf(self._inner._full("require_grad", x.shape, -0.0, x.dtype, None))
        note(self._level, (x,))
        node = Node(tap, False, (x._source, zeros))
        return TrackedTensor(x._value, Ref(node), self._level, zeros.id)

    def _floating_value(self, operation: str, x: object) -> Tensor:
        """Return a tensor without a graph of this backend as the inner backend takes it.

        Raises
        ------
        UnsupportedDType
            It is not real floating, or quantized.
        InvalidArgument
            It is no tensor, or one of a backend around this one.
        """
        if isinstance(x, Handle):
            given, x = x, data_of(x) if tracing.active else lend(x)
            used(given)
        dtype = getattr(x, "dtype", None)
        if not isinstance(dtype, np.dtype) or isinstance(x, np.ndarray | np.generic):
            raise self._not_a_tensor(operation, x)
        if type(x) is TrackedTensor and x._level > self._level:
            raise self._of_another(operation, x)
        if isinstance(x, QTensor):
            raise UnsupportedDType(
                operation,
                "x",
                got="a quantized tensor",
                wanted="a real floating tensor",
                remedy="Its codes are integers; use dequantize of the inner backend.",
                dtype=dtype,
                op=operation,
            )
        if dtype not in FLOATING:
            raise UnsupportedDType(
                operation,
                "x",
                got=dtype.name,
                wanted="a real floating dtype",
                remedy="Convert it with cast.",
                dtype=dtype,
                op=operation,
            )
        return cast("Tensor", x)

    # -- backward

    def backward(self, t: Tensor, /, retain: bool = False) -> GradientMap:
        """Return the gradients of the sum of `t` with respect to the marked tensors that it was computed from.

        Parameters
        ----------
        t
            A tracked tensor; its own gradient is 1 at each element.
        retain
            Keep the graph for another pass. Otherwise its nodes are freed, and a second pass over any of them raises.

        Raises
        ------
        MissingGradient
            `t` was computed from no marked tensor.
        UnsupportedDimension
            It has more than `max_rank` axes.
        BackwardError
            An earlier pass has freed a part of the graph.
        UseAfterMove
            The buffer of a tensor that the graph reads was donated.

        Notes
        -----
        The first pass over a graph of a new structure compiles one program, which computes the values that it needs
        again: only the operands from outside are kept until then, and no intermediate result. Passes over graphs of
        the same structure and shapes compile nothing.
        """
        keeps = flag("backward", "retain", retain)
        if type(t) is not TrackedTensor or t._level != self._level:
            raise self._untracked(t)
        if self.max_rank is not None and t.ndim > self.max_rank:
            raise UnsupportedDimension(
                "backward",
                "t",
                got=f"a tensor of {t.ndim} axes",
                wanted=f"at most {self.max_rank}",
                remedy="Sum it or reshape it, or make the backend with max_rank=None.",
                ndim=t.ndim,
                max=self.max_rank,
            )
        graph = linearize((t._source,), "backward")
        places = tuple([i for i, leaf in enumerate(graph.leaves) if type(leaf) is Leaf])
        values = tuple([leaf.value if type(leaf) is Leaf else leaf for leaf in graph.leaves])
        call = programs.gradient(graph, places), is_wide(graph, values), values
        try:
            result = self._inner._make("backward", call)
        except UseAfterMove as error:
            raise UseAfterMove(
                "backward",
                "t",
                got="a graph that reads a tensor whose buffer was given away since",
                wanted="tensors that live until the backward pass",
                remedy="Call backward first, or do not donate what tracked tensors were computed from.",
            ) from error
        if not keeps:
            free(graph)
        found: tuple[Tensor, ...] = result if len(places) > 1 else (result,)  # type: ignore[assignment]
        ids = [graph.leaves[i].id for i in places]  # type: ignore[attr-defined]
        return self._hooks.run(GradientMap._of(self._inner, dict(zip(ids, found, strict=True))))

    def try_backward(self, t: Tensor, /, retain: bool = False) -> BackendResult[GradientMap]:
        """Return `Ok` of what `backward` returns, or `Err` of the error that it raises."""
        return attempt(self.backward, t, retain=retain)

    def register_hook(self, hook: GradientHook, /) -> Hook:
        """Call a function with the gradients of each `backward` of this backend before they are returned.

        Parameters
        ----------
        hook
            Gets the `GradientMap`, and changes it in place or returns another; for example, it sums the gradients
            over the devices that share the work. Hooks run in the order of their registration. They belong to this
            value of the backend: equal ones do not have them, and they do not pickle.

        Returns
        -------
        Hook
            Its ``remove()`` takes the function away again; so does leaving it as a context manager.
        """
        return self._hooks.add(hook)

    # -- dispatch

    def _apply(self, operation: str, operands: tuple[Tensor | np.ndarray | None, ...], params: Params = ()) -> Tensor:
        for x in operands:
            if type(x) is TrackedTensor:
                return self._recorded(operation, operands, params)
        return self._inner._apply(operation, operands, params)

    def _recorded(self, operation: str, operands: Sequence[object], params: Params) -> Tensor:
        raw, tracked = self._split(operation, operands)
        if not tracked:
            return self._inner._apply(operation, raw, params)  # type: ignore[arg-type]
        call = self._inner._traceable(operation, raw, params)  # type: ignore[arg-type]
        return self._linked(call, tracked, self._inner._make(operation, call))  # type: ignore[return-value]

    def _traceable(self, operation: str, operands: tuple[Tensor | np.ndarray | None, ...], params: Params = ()) -> Call:
        raw, tracked = self._split(operation, operands)
        fn, wide, found = self._inner._traceable(operation, raw, params)  # type: ignore[arg-type]
        if tracked:
            mixed = list(found)
            for i, x in tracked:
                mixed[i] = x
            found = tuple(mixed)
        return fn, wide, found

    def _make(self, operation: str, call: Call) -> object:
        fn, wide, operands = call
        raw, tracked = self._split(operation, operands)
        call = fn, wide, raw
        value = self._inner._make(operation, call)
        return self._linked(call, tracked, value) if tracked else value

    def _split(
        self, operation: str, operands: Sequence[object]
    ) -> tuple[tuple[object, ...], list[tuple[int, TrackedTensor]]]:
        """Return the operands as the inner backend takes them, and the tracked ones with their places."""
        level = self._level
        raw = list(operands)
        tracked = []
        for i, x in enumerate(operands):
            if type(x) is TrackedTensor:
                if x._level == level:
                    raw[i] = x._value
                    tracked.append((i, x))
                elif x._level > level:
                    raise self._of_another(operation, x)
        return tuple(raw), tracked

    def _linked(self, call: Call, tracked: list[tuple[int, TrackedTensor]], value: object) -> object:
        """Return results of a call as tensors that lead back to its tracked operands."""
        fn, wide, operands = call
        if tracing_now.traces:
            note(self._level, [x for _, x in tracked])
        mixed = list(operands)
        for i, x in tracked:
            mixed[i] = x._source
        if type(value) is tuple or type(value) is list:
            node = Node(fn, wide, tuple(mixed), len(value))
            return tuple(
                [
                    TrackedTensor(part, Ref(node, i), self._level) if part.dtype in FLOATING else part
                    for i, part in enumerate(value)
                ]
            )
        if value.dtype not in FLOATING:  # type: ignore[attr-defined]
            return value
        return TrackedTensor(value, Ref(Node(fn, wide, tuple(mixed))), self._level)  # type: ignore[arg-type]

    # -- tensors

    def _function(self, name: str) -> Callable[..., object]:
        plain = self._inner._function(name)
        if name in ("to_data", "device"):
            return lambda x: plain(self.detach(x))
        if name == "to_device":
            return self._moved
        return plain

    def _moved(self, x: Tensor, device: object) -> Tensor:
        value = self.detach(x)
        moved = self._inner._function("to_device")(value, device)
        if value is x:
            return cast("Tensor", moved)
        if self._inner.device(cast("Tensor", moved)) != self._inner.device(value):
            raise BackendLimitation(
                "to_device",
                "x",
                got=f"a tracked tensor of {self._inner.device(value)}",
                wanted="a graph on one device",
                remedy="Move tensors before require_grad, or detach(x) first.",
                backend=self.name(),
                reason="a graph is one program on one device",
            )
        return x

    def _untracked(self, t: object) -> RtxError:
        if type(t) is TrackedTensor:
            return self._of_another("backward", t)
        if not isinstance(getattr(t, "dtype", None), np.dtype):
            return self._not_a_tensor("backward", t)
        return MissingGradient(
            "backward",
            "t",
            got="a tensor without a graph",
            wanted="a tensor that was computed from one of require_grad",
            remedy="Mark a tensor with require_grad before it is used; integer results have no graph.",
        )

    def _of_another(self, operation: str, x: TrackedTensor) -> InvalidArgument:
        return InvalidArgument(
            operation,
            "",
            got=f"a tensor of {'a backend around' if x._level > self._level else 'the backend inside'} this one",
            wanted=f"tensors of {self.name()!r}",
            remedy="Use the outer backend, or its detach(x)." if x._level > self._level else "Use require_grad.",
            arg="",
            reason="a tensor of another backend",
        )


def _check_inner(inner: Backend[T]) -> None:
    root: object = inner
    while isinstance(root, Wrapper):
        if isinstance(root, Quantized) and root.propagation == "propagate":
            raise BackendLimitation(
                "Autodiff",
                "inner",
                got=f"{root.name()!r} with propagation='propagate'",
                wanted="propagation='inhibit'",
                remedy="Results that are quantized again have no gradient.",
                backend=root.name(),
                reason="quantized results have no gradient",
            )
        root = root.inner
    if not isinstance(root, JaxBackend):
        raise BackendLimitation(
            "Autodiff",
            "inner",
            got=f"the backend {root.name()!r}",  # type: ignore[attr-defined]
            wanted="a JAX backend, or one around it",
            remedy="Gradients come from jax.grad, which cannot see into functions outside of JAX. "
            "Use CpuBackend() in its place.",
            backend=root.name(),  # type: ignore[attr-defined]
            reason="JAX does not trace its functions",
        )
