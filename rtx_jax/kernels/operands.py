"""Whether an operand of a kernel is an array at all, before its shape and dtype are read."""

from __future__ import annotations

import jax
import numpy as np

from .._compat import ArrayImpl
from ..core.handle import Handle
from ..errors import InvalidArgument

__all__ = ["arrays", "is_array", "not_an_array"]


def is_array(value: object, /) -> bool:
    """Return whether it is an array of JAX or NumPy, of which NumPy's scalars are some."""
    return isinstance(value, (jax.Array, np.ndarray, np.generic))


def arrays(operation: str, required: tuple[str, ...], /, **operands: object) -> None:
    """Raise InvalidArgument unless each operand is an array of JAX or NumPy, or None where it is not required."""
    for name, value in operands.items():
        if (value is not None or name in required) and type(value) is not ArrayImpl and not is_array(value):
            raise not_an_array(operation, name, value)


def not_an_array(operation: str, argument: str, value: object) -> InvalidArgument:
    """Return the error of an operand that is none."""
    if isinstance(value, Handle):
        got, remedy = "an rtx_jax.Array", "Pass its .jax; rtx_jax.nn has what takes Arrays."
    else:
        got = type(value).__name__
        remedy = "" if value is None else "Convert it with jax.numpy.asarray first."
    return InvalidArgument(
        operation, argument, got=got, wanted="a jax.Array", remedy=remedy, arg=argument, reason="not an array"
    )
