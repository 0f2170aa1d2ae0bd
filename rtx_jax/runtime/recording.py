"""What must not happen while a function is traced or captured: it would happen once, and not at each launch."""

from __future__ import annotations

from .._compat import trace_is_clean
from ..core.host_recorder import open_host_tape
from ..errors import ConcretizationError

__all__ = ["check_eager", "is_recording", "traced"]


def is_recording() -> bool:
    """Tell whether a function is being traced or captured in this thread."""
    return not trace_is_clean() or open_host_tape() is not None


def check_eager(operation: str) -> None:
    """Raise ConcretizationError where the bytes of a buffer are asked for or changed while `is_recording`."""
    if is_recording():
        raise traced(operation, "Capture the function with views of its buffers among the inputs and outputs.")


def traced(
    operation: str, remedy: str = "Call the function itself there; it becomes part of the trace."
) -> ConcretizationError:
    """Return the error for a launch, a capture or a move of bytes inside of a traced function."""
    return ConcretizationError(
        operation,
        got="a call inside of a function that is being traced",
        wanted="a call outside of it",
        remedy=remedy,
    )
