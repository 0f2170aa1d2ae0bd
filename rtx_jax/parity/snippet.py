"""A program that shows a wrong result, small enough to paste into a report."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .case import Mode, Operation, Params
from .ulp import Values, is_inexact

__all__ = ["program", "smallest"]


def program(operation: Operation, operands: Sequence[Values], params: Params, mode: Mode, what: str, /) -> str:
    """Return the lines that make the call and say what came and what was wanted."""
    prefix, _, name = operation.name.rpartition(".")
    backend = prefix == "backend"
    lines = ["import rtx_jax as xp"]
    if backend:
        lines += ["from rtx_jax.backend import auto_select", "B = auto_select()"]
    names = [f"x{i}" for i in range(len(operands))]
    for label, x in zip(names, operands, strict=True):
        lines.append(f"{label} = {_array(x)}")
    function = f"B.{name}" if backend else operation.name if operation.own else f"xp.{operation.name}"
    inner = _call(operation.name, function, names, params, operation.packs)
    lines.append(_in_mode(inner, names, mode))
    lines.append(f"# {what}")
    return "\n".join(lines)


def _in_mode(inner: str, names: list[str], mode: Mode) -> str:
    arguments = ", ".join(names)
    if mode == "jit":
        return f"print(xp.jit(lambda {arguments}: {inner})({arguments}))"
    if mode == "vmap":
        rows = ", ".join(f"{name}[None]" for name in names)
        return f"print(xp.vmap(lambda {arguments}: {inner})({rows}))"
    if mode == "grad":
        return f"print(xp.grad(lambda {arguments}: xp.sum({inner}))({arguments}))  # the check weights the sum"
    return f"print({inner})"


def _call(name: str, function: str, names: list[str], params: Params, packs: bool) -> str:
    if name == "Array.__getitem__":
        return f"{names[0]}[{names[1] if len(names) > 1 else params['key']}]"
    if name == "einsum":
        return f"{function}({', '.join([repr(params['subscripts']), *names])})"
    packed = f"[{', '.join(names)}]" if packs else ", ".join(names)
    keywords = [f"{key}={_param(value)}" for key, value in params.items()]
    return f"{function}({', '.join([packed, *keywords] if names else keywords)})"


def _array(x: Values) -> str:
    dtype = f"'{x.dtype.name}'"
    return f"xp.zeros({x.shape}, dtype={dtype})" if x.size == 0 else f"xp.asarray({_list(x)}, dtype={dtype})"


def _list(x: Values) -> str:
    if x.ndim:
        return f"[{', '.join(_list(row) for row in x)}]"
    if x.dtype.kind == "c":
        return f"complex({_real(x.real)}, {_real(x.imag)})"
    return _real(x) if is_inexact(x.dtype) else str(x.item())


def _real(x: Values) -> str:
    value = float(x)
    if np.isnan(value):
        return "xp.nan"
    if np.isinf(value):
        return "xp.inf" if value > 0 else "-xp.inf"
    short = str(x.astype(x.dtype)[()])
    return short if float(np.asarray(float(short)).astype(x.dtype)) == value else repr(value)


def _param(value: object) -> str:
    if isinstance(value, np.dtype):
        return f"'{value.name}'"
    return repr(value)


def smallest(operands: Sequence[Values], place: tuple[int, ...], shape: tuple[int, ...], /) -> list[Values]:
    """Return the elements that one element of an elementwise result comes from, as 0-d arrays."""
    found = []
    for x in operands:
        spread = np.broadcast_to(x, shape)
        found.append(np.asarray(spread[place]))
    return found
