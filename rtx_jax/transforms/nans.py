"""The first operation of a compiled function that makes a NaN: run it again, one operation at a time, and look."""

from __future__ import annotations

from collections.abc import Sequence

from .._compat import ClosedJaxpr
from ..core.nans import has_nan

__all__ = ["raise_first_nan"]

_CALLS = frozenset(("jit", "pjit", "closed_call", "core_call", "remat", "checkpoint", "custom_jvp_call"))


def raise_first_nan(name: str, closed: ClosedJaxpr, operands: Sequence[object]) -> None:
    """Raise FloatingPointError for the first operation that makes a NaN out of numbers, with its shapes.

    Parameters
    ----------
    name
        The compiled function.
    closed
        Its jaxpr.
    operands
        All operands, still alive.
    """
    if not has_nan(operands):
        _evaluate(name, closed, operands)


def _evaluate(name: str, closed: ClosedJaxpr, operands: Sequence[object]) -> list[object]:
    jaxpr = closed.jaxpr
    values: dict[object, object] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    values.update(zip(jaxpr.invars, operands, strict=True))

    def read(atom: object) -> object:
        return atom.val if hasattr(atom, "val") else values[atom]

    for eqn in jaxpr.eqns:
        inputs = [read(atom) for atom in eqn.invars]
        inner = eqn.params.get("jaxpr") or eqn.params.get("call_jaxpr")
        if eqn.primitive.name in _CALLS and hasattr(inner, "consts"):
            outputs = _evaluate(name, inner, inputs)
        else:
            outputs = eqn.primitive.bind(*inputs, **eqn.primitive.get_bind_params(eqn.params))
            if not eqn.primitive.multiple_results:
                outputs = [outputs]
            if has_nan(outputs) and not has_nan(inputs):
                shapes = ", ".join(str(atom.aval) for atom in eqn.invars)
                raise FloatingPointError(f"{name}: {eqn.primitive.name} made NaN from operands without NaN: {shapes}")
        values.update(zip(eqn.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]
