"""Whether an operand of a kernel is an array of numbers, before its shape and dtype are read."""

from __future__ import annotations

import jax
import numpy as np

from .._compat import ArrayImpl
from ..core.handle import Handle
from ..errors import InvalidArgument, UnsupportedDType

__all__ = ["arrays", "check_array"]


def arrays(operation: str, required: tuple[str, ...], /, **operands: object) -> None:
    """Raise unless each operand is an array of JAX or NumPy, or None where it is not required; see `check_array`."""
    for name, value in operands.items():
        if type(value) is not ArrayImpl and (value is not None or name in required):
            check_array(operation, name, value)


def check_array(operation: str, argument: str, value: object) -> None:
    """Check that an operand is an array of JAX or NumPy, of which NumPy's scalars are some.

    Raises
    ------
    InvalidArgument
        It is none.
    UnsupportedDType
        It holds no numbers, but keys of `jax.random`.
    """
    if isinstance(value, (jax.Array, np.ndarray, np.generic)):
        if isinstance(value.dtype, np.dtype):
            return
        raise UnsupportedDType(
            operation,
            argument,
            got=str(value.dtype),
            wanted="numbers",
            remedy="The numbers of a random key are jax.random.key_data(key).",
            dtype=value.dtype,
            op=operation,
        )
    if isinstance(value, Handle):
        got, remedy = "an rtx_jax.Array", "Pass its .jax; rtx_jax.nn has what takes Arrays."
    else:
        got = type(value).__name__
        remedy = "" if value is None else "Convert it with jax.numpy.asarray first."
    raise InvalidArgument(
        operation, argument, got=got, wanted="a jax.Array", remedy=remedy, arg=argument, reason="not an array"
    )
