"""Kernels of one's own as operations of the engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, cast, get_args

import jax
import numpy as np

from .._array import Array, calln, lift, wrap
from ..core.dispatch import Op
from ..core.host_recorder import HostValue
from ..errors import BackendLimitation, InvalidArgument
from .kernel_calls import AttributeValue, Call, Like, call_of

__all__ = ["Batching", "Kernel"]

Batching: TypeAlias = Literal["sequential", "expand_dims", "broadcast_all"]
"""What `vmap` does with a kernel, as in `jax.pure_callback`."""


_ARRAYS = (Array, jax.Array)


class Kernel(ABC):
    """A function of one's own as an operation: works eagerly, under `jit` and `vmap`, and in captured graphs.

    `register_kernel_c` and `register_kernel_py` make kernels.

    Attributes
    ----------
    name
        Name in errors and profiles.
    batching
        What `vmap` does.
    """

    __slots__ = ("__weakref__", "_op", "batching", "name")

    def __init__(self, name: str, batching: Batching) -> None:
        if batching not in get_args(Batching):
            raise InvalidArgument(
                "register_kernel",
                "batching",
                got=repr(batching),
                wanted=" or ".join(map(repr, get_args(Batching))),
                arg="batching",
                reason="unknown",
            )
        self.name, self.batching = name, batching
        # x64 stays on: a narrow operand may have a wide result.
        self._op = Op(name, self._raw, ("call",), wide=True)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def __call__(
        self,
        *operands: Array | jax.Array | np.ndarray | HostValue,
        results: Like | Sequence[Like],
        attributes: Mapping[str, AttributeValue] | None = None,
        aliases: Mapping[int, int] | None = None,
    ) -> Array | jax.Array | HostValue | tuple[Array | jax.Array | HostValue, ...]:
        """Run the kernel.

        Parameters
        ----------
        *operands
            Arrays. They must be what the kernel expects: nothing is converted.
        results
            What has the shape and dtype of the result (such as an operand, or a ``jax.ShapeDtypeStruct``), or a
            sequence of them for several results.
        attributes
            Static parameters by name: each value is compiled once. Python's numbers become int64 and float64.
        aliases
            Numbers of operands, and of the results that take their memory where nothing else needs it. The kernel
            must work in place; elsewhere the operand is copied first.

        Returns
        -------
        Arrays, plain ones where all operands are; a tuple where `results` is a sequence.

        Raises
        ------
        InvalidArgument, UnsupportedDType, ShapeMismatch
            The results, attributes or aliases do not go together.
        BackendLimitation
            The kernel is not there for the operands' platform, or a derivative of it is asked for.
        Xla
            The kernel returned an error.

        Notes
        -----
        The kernel may be called more than once, or not at all where nobody needs its results. It has no derivative;
        give one with `rtx_jax.custom_vjp`.
        """
        lifted: Sequence[Array | jax.Array] = operands  # type: ignore[assignment]
        plain = False
        if not operands or any(type(x) is not Array for x in operands):
            if any(isinstance(x, HostValue) for x in operands):
                given: Sequence[HostValue | np.ndarray] = [
                    x if isinstance(x, HostValue) else np.asarray(x) for x in operands
                ]
                return self._recorded(given, call_of(self.name, given, results, attributes, aliases))
            plain = bool(operands) and all(isinstance(x, jax.Array) for x in operands)
            lifted = [
                x if isinstance(x, _ARRAYS) else wrap(lift(x, None, self.name, f"x{i + 1}"))
                for i, x in enumerate(operands)
            ]
        call = call_of(self.name, lifted, results, attributes, aliases)
        found = self._run(lifted, call)
        outputs = [x.jax if plain and isinstance(x, Array) else x for x in found]
        return outputs[0] if call.single else tuple(outputs)

    def _recorded(self, operands: Sequence[HostValue | np.ndarray], call: Call) -> HostValue | tuple[HostValue, ...]:
        """Append a step to what is being captured on the NumPy runtime."""
        raise BackendLimitation(
            self.name,
            got="a captured function of the NumPy runtime",
            wanted="a Python kernel on the host, or a JaxRuntime",
            backend="numpy",
            reason="no foreign functions without XLA",
        )

    def _run(self, operands: Sequence[Array | jax.Array], call: Call) -> tuple[Array, ...]:
        result = calln(self._op, operands, call)
        return result if isinstance(result, tuple) else (cast(Array, result),)

    def _raw(self, *operands: jax.Array, call: Call) -> list[jax.Array]:
        """Call under a trace; a derivative is refused with our own error."""

        @jax.custom_jvp
        def run(*values: jax.Array) -> list[jax.Array]:
            return self._traced(values, call)

        @run.defjvp
        def refuse(primals: object, tangents: object) -> tuple[list[jax.Array], list[jax.Array]]:
            raise BackendLimitation(
                self.name,
                got="a derivative of a kernel",
                wanted="a function with a derivative",
                remedy="Give it one with rtx_jax.custom_vjp or rtx_jax.custom_jvp.",
                backend="jax",
                reason="no derivative",
            )

        found: list[jax.Array] = run(*operands)
        return found

    @abstractmethod
    def _traced(self, operands: Sequence[jax.Array], call: Call) -> list[jax.Array]:
        """Return the results as part of the running trace."""
