"""Python kernels: functions that fill their results in place, called back by XLA."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, cast, get_args

import jax
import numpy as np
from jax import lax

from .._array import Array, lift, wrap
from ..core.dispatch import raise_translated
from ..core.handle import tracing
from ..core.host_recorder import HostValue
from ..errors import InvalidArgument
from .kernel_calls import Call
from .kernels import Batching, Kernel

__all__ = ["PythonKernel", "register_kernel_py"]

Memory: TypeAlias = Literal["host", "device"]
"""Where a Python kernel finds its operands."""


class PythonKernel(Kernel):
    """A Python function that fills its results in place; see `register_kernel_py`.

    Attributes
    ----------
    fn
        The function.
    memory
        Where it finds its operands.
    """

    __slots__ = ("_failures", "_tickets", "fn", "memory")

    def __init__(self, fn: Callable[..., None], name: str, memory: Memory, batching: Batching) -> None:
        super().__init__(name, batching)
        self.fn, self.memory = fn, memory
        self._failures: dict[int, BaseException] = {}
        self._tickets = itertools.count(1)

    def _run(self, operands: Sequence[Array | jax.Array], call: Call) -> tuple[Array, ...]:
        if not tracing.settle():
            return super()._run(operands, call)
        # What the function raises is to be raised here, not where somebody reads the result. XLA keeps an exception
        # that passes through it, and would raise it again at the next barrier.
        ticket = 0
        if self.memory == "host":
            ticket = next(self._tickets) & 0xFFFFFFFF
            operands = [wrap(lift(np.uint32(ticket))), *operands]
            call = replace(call, is_ticketed=True)
        try:
            results = super()._run(operands, call)
            for result in results:
                result.block_until_ready()
        except Exception as error:
            self._failures.pop(ticket, None)
            raise_translated(self.name, error)
        failure = self._failures.pop(ticket, None)
        if failure is not None:
            raise failure
        return results

    def _traced(self, operands: Sequence[jax.Array], call: Call) -> list[jax.Array]:
        from jax.experimental.buffer_callback import buffer_callback

        specs = call.specs()
        skipped = int(call.is_ticketed)
        keywords = {a.name: a.plain() for a in call.attributes}

        def with_buffers(context: object, results: Sequence[object], *values: object) -> None:
            if self.memory == "device":
                self._call(context, *values, *results, **keywords)
                return
            inputs, outputs = [np.asarray(x) for x in values], [np.asarray(x) for x in results]
            with self._reporting(inputs[:skipped]):
                self.on_host(inputs[skipped:], outputs, keywords)

        def with_copies(*values: object) -> list[np.ndarray]:
            inputs = [np.asarray(x) for x in values]
            # Under `vmap`, sizes may be in front of the shapes.
            front = inputs[0].shape[: inputs[0].ndim - operands[0].ndim] if inputs else ()
            outputs = [np.zeros((*front, *s.shape), s.dtype) for s in specs]
            with self._reporting(inputs[:skipped]):
                self.on_copies(inputs[skipped:], outputs, call)
            return outputs

        direct = buffer_callback(
            with_buffers,
            specs,
            vmap_method=self.batching,
            input_output_aliases={source + skipped: target for source, target in call.aliases},
        )
        if self.memory == "device":
            return cast(list[jax.Array], direct(*operands))

        def by_copies(*values: jax.Array) -> list[jax.Array]:
            found: list[jax.Array] = jax.pure_callback(with_copies, specs, *values, vmap_method=self.batching)
            return found

        # The memory of the CPU is the host's: nothing is copied there.
        found: list[jax.Array] = lax.platform_dependent(*operands, cpu=direct, default=by_copies)
        return found

    @contextlib.contextmanager
    def _reporting(self, ticket: Sequence[np.ndarray]) -> Iterator[None]:
        """Keep what the body raises under the number of the call, where it has one."""
        try:
            yield
        except BaseException as error:
            if not ticket:
                raise
            self._failures[int(ticket[0])] = error

    def on_host(
        self, operands: Sequence[np.ndarray], results: Sequence[np.ndarray], attributes: Mapping[str, object]
    ) -> None:
        """Run the function on the host's memory: read `operands`, fill `results`."""
        inputs = []
        for x in operands:
            view = x.view()
            view.flags.writeable = False
            inputs.append(view)
        self._call(*inputs, *results, **attributes)

    def on_copies(self, operands: Sequence[np.ndarray], results: Sequence[np.ndarray], call: Call) -> None:
        """Run the function on memory of which no operand is a result's: aliases are copied first."""
        for source, target in call.aliases:
            results[target][...] = operands[source]
        self.on_host(operands, results, {a.name: a.plain() for a in call.attributes})

    def _recorded(self, operands: Sequence[HostValue | np.ndarray], call: Call) -> HostValue | tuple[HostValue, ...]:
        value = next((x for x in operands if isinstance(x, HostValue)), None)
        if value is None or self.memory == "device":
            return super()._recorded(operands, call)
        found = value.tape.call(HostStep(self, call), operands)
        return cast(HostValue, found) if call.single else tuple(cast(list[HostValue], found))

    def _call(self, *arguments: object, **attributes: object) -> None:
        if self.fn(*arguments, **attributes) is not None:
            raise InvalidArgument(
                self.name,
                "fn",
                got="a kernel that returns a value",
                wanted="one that fills its results and returns None",
                remedy="Write result[...] = value.",
                arg="fn",
                reason="returns a value",
            )


@dataclass(frozen=True, slots=True)
class HostStep:
    """A call of a kernel as a step of a graph of the NumPy runtime."""

    kernel: PythonKernel
    call: Call

    @property
    def name(self) -> str:
        """What it is called in errors."""
        return self.kernel.name

    def __call__(self, *operands: np.ndarray) -> np.ndarray | list[np.ndarray]:
        """Run the kernel."""
        results = [np.zeros(shape, dtype) for shape, dtype in self.call.results]
        self.kernel.on_copies([np.asarray(x) for x in operands], results, self.call)
        return results[0] if self.call.single else results


def register_kernel_py(
    fn: Callable[..., None],
    /,
    *,
    name: str | None = None,
    memory: Memory = "host",
    batching: Batching = "sequential",
) -> PythonKernel:
    """Make an operation of a Python function that fills its results in place.

    Parameters
    ----------
    fn
        ``fn(*operands, *results, **attributes)``, which returns None. With ``memory="host"`` operands and results are
        NumPy arrays, operands read-only; on the CPU they are XLA's own memory, without a copy. With
        ``memory="device"`` they are `jax.experimental.buffer_callback.Buffer`, which CuPy and PyTorch take by their
        protocols, after a first argument whose ``stream`` is the driver's stream to launch on.
    name
        Name in errors and profiles; that of `fn` when None.
    memory
        ``"host"``, on every platform; ``"device"``, on CPU, CUDA and ROCm.
    batching
        As in `register_kernel_c`.

    Returns
    -------
    PythonKernel
        The operation.

    Raises
    ------
    InvalidArgument
        `fn` is no function, or an option is unknown.

    Notes
    -----
    Called eagerly, the operation waits for the function and raises what it raises. In a compiled function an
    exception of the kernel becomes XLA's error, with the traceback in its text. The function runs in a thread of XLA
    and must not call JAX.

    Examples
    --------
    >>> import rtx_jax as xp
    >>> def cube(x, out):
    ...     out[...] = x**3
    >>> kernel = register_kernel_py(cube)
    >>> x = xp.asarray([1.0, 2.0])
    >>> kernel(x, results=x)
    Array([1., 8.])
    """
    if not callable(fn):
        raise InvalidArgument(
            "register_kernel_py", "fn", got=repr(fn), wanted="a function", arg="fn", reason="not callable"
        )
    if memory not in get_args(Memory):
        raise InvalidArgument(
            "register_kernel_py",
            "memory",
            got=repr(memory),
            wanted=" or ".join(map(repr, get_args(Memory))),
            arg="memory",
            reason="unknown",
        )
    return PythonKernel(fn, name or str(getattr(fn, "__name__", "kernel")), memory, batching)
