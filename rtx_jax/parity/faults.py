"""Faults to plant, so that the checker itself can be checked."""

from __future__ import annotations

import os
import time
from typing import Literal, TypeAlias, get_args

import numpy as np

from ..errors import InvalidArgument
from .ulp import Values, is_inexact

__all__ = ["FAULTS", "Fault", "parse", "spoil", "strike"]

Fault: TypeAlias = Literal["sign", "ulp", "axis", "nonsense", "raise", "crash", "hang"]
FAULTS: tuple[Fault, ...] = get_args(Fault)


def parse(text: str, /) -> tuple[str, Fault]:
    """Return the operation and the fault of ``NAME=FAULT``.

    Raises
    ------
    InvalidArgument
        It is not of that form, or there is no such fault.
    """
    name, _, fault = text.rpartition("=")
    if not name or fault not in FAULTS:
        raise InvalidArgument(
            "parity", "fault", got=repr(text), wanted=f"NAME=FAULT, the fault one of {', '.join(FAULTS)}", arg="fault"
        )
    return name, fault


def strike(fault: Fault | None, /) -> None:
    """Raise, crash the process or hang where the fault says so."""
    if fault == "raise":
        raise RuntimeError("a planted fault")
    if fault == "crash":
        os.abort()
    while fault == "hang":
        time.sleep(3600)


def spoil(leaves: list[Values], fault: Fault | None, /) -> list[Values]:
    """Return the results with the first of them spoilt.

    ``"sign"`` turns every sign, ``"ulp"`` moves the largest element by 16 units in the last place, ``"axis"`` swaps
    the last two axes (reverses a vector), ``"nonsense"`` fills with one number.
    """
    if fault not in ("sign", "ulp", "axis", "nonsense") or not leaves:
        return leaves
    first = leaves[0]
    if fault == "sign":
        spoilt = ~first if first.dtype.kind == "b" else _negative(first)
    elif fault == "ulp":
        spoilt = _moved(first)
    elif fault == "axis":
        spoilt = np.swapaxes(first, -1, -2) if first.ndim > 1 else first[::-1] if first.ndim else first
    else:
        spoilt = np.full(first.shape, 113).astype(first.dtype)
    return [spoilt, *leaves[1:]]


def _negative(x: Values) -> Values:
    if x.dtype.kind in "iu":
        with np.errstate(over="ignore"):
            return np.asarray((x.dtype.type(0) - x).astype(x.dtype))
    if x.dtype.kind in "US":
        return x
    return np.asarray(-x)


def _moved(x: Values) -> Values:
    out = x.copy()
    flat = out.reshape(-1)
    if not flat.size or x.dtype.kind in "US":
        return out
    if not is_inexact(x.dtype):
        flat[0] = not flat[0] if x.dtype.kind == "b" else flat[0] ^ x.dtype.type(16)
        return out
    parts = flat.view(f"f{x.dtype.itemsize // 2}") if x.dtype.kind == "c" else flat
    with np.errstate(all="ignore"):
        size = np.abs(parts.astype(np.float64))
        size = np.where(np.isfinite(size), size, -1.0)
        place = int(np.argmax(size))
        bits = parts.view(f"i{parts.dtype.itemsize}")
        # Towards zero, where there always is room.
        bits[place] -= 16 if size[place] > 0 else 0
    return out
