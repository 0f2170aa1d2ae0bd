"""One tree of errors; every class is also the built-in type that callers already catch.

Errors are built from fields, so that the text, pickling and the tests agree. The text always names the
operation, the argument, what it got, what it wanted and, where there is one, the remedy.
"""

from __future__ import annotations

from typing import Self

__all__ = [
    "AllocatorBusy",
    "AllocatorFrozen",
    "AutogradError",
    "BackendError",
    "BackendLimitation",
    "BackendUnavailable",
    "BackwardError",
    "BroadcastError",
    "ChainedAssignmentWarning",
    "CheckpointError",
    "ConcretizationError",
    "DTypeMismatch",
    "DataDependentShape",
    "DeviceMismatch",
    "FallbackWarning",
    "FeatureRequired",
    "FormatError",
    "HostFallback",
    "IndexOutOfBounds",
    "Internal",
    "InvalidArgument",
    "InvalidDimension",
    "InvalidKey",
    "MissingGradient",
    "NotContiguous",
    "NotImplementedOp",
    "OutOfMemory",
    "RngUnderTrace",
    "RtxError",
    "RtxWarning",
    "ScalarOverflow",
    "ShapeMismatch",
    "TracedMutation",
    "UnsupportedDType",
    "UnsupportedDimension",
    "UseAfterFree",
    "UseAfterMove",
    "Xla",
]


class RtxError(Exception):
    """Base of every error of rtx_jax.

    Parameters
    ----------
    operation
        The function or operator, as the user wrote it: ``"reshape"``, ``"x[key] = value"``.
    argument
        The parameter that is wrong, or ``""``.
    got, wanted
        What it was and what it should have been, in words or values.
    remedy
        What to do about it; empty where `wanted` already says it.
    **fields
        The named fields of the subclass (``dim=``, ``ndim=``, ...); they become attributes.
    """

    def __init__(
        self,
        operation: str = "",
        argument: str = "",
        got: object = "",
        wanted: object = "",
        remedy: str = "",
        **fields: object,
    ) -> None:
        self.operation, self.argument = operation, argument
        self.got, self.wanted, self.remedy = got, wanted, remedy
        self.fields = fields
        for name, value in fields.items():
            setattr(self, name, value)
        super().__init__(self._text())

    def renamed(self, operation: str) -> Self:
        """Return the same error under the name of the operation that the user called."""
        args = (operation, self.argument, self.got, self.wanted, self.remedy)
        return _rebuild(type(self), args, self.fields)  # type: ignore[return-value]

    def _text(self) -> str:
        head = self.operation + (f": argument {self.argument}" if self.argument else "")
        parts = []
        if self.got != "":
            parts.append(f"got {self.got}")
        if self.wanted != "":
            parts.append(f"wanted {self.wanted}")
        body = ", ".join(parts)
        text = f"{head}: {body}" if head and body else head or body
        return f"{text}. {self.remedy}" if self.remedy else text

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (
            type(self),
            (self.operation, self.argument, self.got, self.wanted, self.remedy),
            self.fields,
        )


def _rebuild(cls: type[RtxError], args: tuple[object, ...], fields: dict[str, object]) -> RtxError:
    return cls(*args, **fields)  # type: ignore[arg-type]


class BackendError(RtxError):
    """Base of the errors that come from a backend, a device or the runtime."""


class ShapeMismatch(BackendError, ValueError):
    """Shapes do not fit the operation. Fields: ``expected``, ``got_shape``."""


class BroadcastError(BackendError, ValueError):
    """Shapes cannot be broadcast together. Fields: ``lhs``, ``rhs``."""


class InvalidDimension(BackendError, ValueError, IndexError):
    """An axis or a rank is out of range. Fields: ``dim``, ``ndim``."""


class UnsupportedDType(BackendError, TypeError):
    """The operation is not defined for this dtype. Fields: ``dtype``, ``op``."""


class DTypeMismatch(BackendError, TypeError):
    """Two dtypes do not combine, or a value cannot be cast to the array's dtype without loss of kind."""


class DeviceMismatch(BackendError, ValueError):
    """Operands are committed to different devices. Field: ``devices``."""


class OutOfMemory(BackendError, MemoryError):
    """The device has no room. Field: ``size`` (bytes), where the device tells."""


class IndexOutOfBounds(BackendError, IndexError):
    """An index lies outside the axis. Fields: ``index``, ``size``."""


class InvalidKey(BackendError, IndexError, TypeError):
    """An index key is of a kind that no array takes, or a mask does not fit the array. Fields: ``key``."""


class InvalidArgument(BackendError, ValueError):
    """An argument has a value that the operation cannot take. Fields: ``arg``, ``reason``."""


class ScalarOverflow(InvalidArgument, OverflowError):
    """A Python number is out of the range of the dtype that it takes beside an array. Field: ``dtype``."""


class NotContiguous(BackendError, BufferError):
    """Memory is not laid out as required."""


class MissingGradient(BackendError, LookupError):
    """No gradient was recorded for this tensor."""


class BackendLimitation(BackendError, NotImplementedError):
    """This backend or implementation cannot do it. Fields: ``backend``, ``reason``."""


class NotImplementedOp(BackendError, NotImplementedError):
    """The feature does not exist. Field: ``feature``."""


class FeatureRequired(BackendError, ImportError):
    """An optional package or device feature is missing. Field: ``feature``."""


class AllocatorBusy(BackendError, RuntimeError):
    """The allocator still has live allocations. Field: ``active_allocations``."""


class AllocatorFrozen(BackendError, RuntimeError):
    """The allocator was frozen and refuses new memory."""


class Internal(BackendError, RuntimeError):
    """A fault of rtx_jax itself; please report it."""


class Xla(BackendError, RuntimeError):
    """XLA or the device driver failed. Field: ``code``."""


class AutogradError(BackendError):
    """Base of the errors of automatic differentiation."""


class UnsupportedDimension(AutogradError, ValueError):
    """The rank is above the limit. Fields: ``ndim``, ``max``."""


class BackwardError(AutogradError, RuntimeError):
    """The backward pass cannot run."""


class UseAfterMove(BackendError, RuntimeError):
    """The handle was given up, or its buffer was donated."""


class UseAfterFree(BackendError, RuntimeError):
    """The buffer was freed."""


class BackendUnavailable(BackendError, RuntimeError):
    """The device or platform is not there. Fields: ``backend``, ``reason``."""


class TracedMutation(RtxError, TypeError):
    """A traced function writes to an Array that it did not receive, where that cannot be carried out."""


class ConcretizationError(RtxError, TypeError):
    """A value is needed that is not known while tracing."""


class DataDependentShape(ConcretizationError):
    """The shape of the result depends on values that are not known while tracing."""


class RngUnderTrace(RtxError, RuntimeError):
    """A draw from the global generator under a trace that rtx_jax does not control."""


class CheckpointError(RtxError, ValueError):
    """A checkpoint does not fit the model or is damaged."""


class FormatError(RtxError, ValueError):
    """A file or buffer is not in the format that it should have."""


class RtxWarning(UserWarning):
    """Base of every warning of rtx_jax."""


class FallbackWarning(RtxWarning):
    """An automatic choice fell back to another implementation."""


class HostFallback(RtxWarning):
    """An operation runs on the host because the backend has no implementation of it."""


class ChainedAssignmentWarning(RtxWarning):
    """A write went to a temporary that nothing else refers to, so it has no effect."""
