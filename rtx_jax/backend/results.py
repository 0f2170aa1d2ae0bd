"""`Ok` and `Err`: results of calls that return their error, for ``match``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NoReturn, ParamSpec, TypeAlias, TypeVar

from ..errors import BackendError

__all__ = ["BackendResult", "Err", "Ok", "attempt"]

V = TypeVar("V")
E = TypeVar("E", bound=Exception)
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Ok(Generic[V]):
    """The value of a call that succeeded.

    Attributes
    ----------
    value
        What the call returned.
    """

    value: V

    def __bool__(self) -> bool:
        return True

    def unwrap(self) -> V:
        """Return the value."""
        return self.value


@dataclass(frozen=True, slots=True)
class Err(Generic[E]):
    """The error of a call that failed.

    Attributes
    ----------
    error
        The exception that the call would have raised.
    """

    error: E

    def __bool__(self) -> bool:
        return False

    def unwrap(self) -> NoReturn:
        """Raise the error."""
        raise self.error


BackendResult: TypeAlias = "Ok[V] | Err[BackendError]"
"""What a ``try_`` function returns."""


def attempt(call: Callable[P, V], /, *args: P.args, **kwargs: P.kwargs) -> BackendResult[V]:
    """Return ``Ok(call(...))``, or ``Err(error)`` for an error of a backend; other exceptions are raised.

    Examples
    --------
    >>> from rtx_jax.backend import CpuBackend, Err, Ok, attempt
    >>> B = CpuBackend()
    >>> match attempt(B.matmul, B.zeros((2, 3)), B.zeros((2, 3))):
    ...     case Ok(value):
    ...         print(value.shape)
    ...     case Err(error):
    ...         print(type(error).__name__)
    ShapeMismatch
    """
    try:
        return Ok(call(*args, **kwargs))
    except BackendError as error:
        return Err(error)
