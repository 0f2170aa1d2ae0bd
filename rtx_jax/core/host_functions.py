"""What can be recorded on the host: functions of NumPy by kind, steps that are none, and the errors of the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..errors import BackendLimitation, ConcretizationError, DataDependentShape, DTypeMismatch

__all__ = [
    "DEPENDENT",
    "FACTS",
    "HOST_CALLS",
    "WRITING",
    "Into",
    "cast",
    "dependent",
    "getitem",
    "left_behind",
    "refused",
    "setitem",
]

# Functions that ask for facts alone, which are known.
FACTS = frozenset(("shape", "ndim", "size", "result_type", "can_cast", "iscomplexobj", "isrealobj"))
# Functions that write into an operand.
WRITING = frozenset(("copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis"))
# Functions whose results have shapes that depend on values.
DEPENDENT = frozenset(
    """nonzero flatnonzero argwhere unique unique_values unique_counts unique_inverse unique_all compress extract
    setdiff1d intersect1d union1d setxor1d trim_zeros histogram_bin_edges bincount""".split()
)


def refused(name: str, reason: str, remedy: str) -> BackendLimitation:
    """Return the error for a call that cannot run again."""
    return BackendLimitation(
        name,
        got="a value of a captured function",
        wanted=f"something that can be recorded; {reason}",
        remedy=remedy,
        backend="numpy",
        reason=reason,
    )


def left_behind() -> ConcretizationError:
    """Return the error for a value of a function that is not the one that is captured."""
    return ConcretizationError(
        "capture",
        got="a value that another captured function has left behind",
        wanted="values of the function that is captured",
        remedy="Write it to an output there.",
    )


def dependent(name: str) -> DataDependentShape:
    """Return the error for a result whose shape depends on values."""
    return DataDependentShape(
        name,
        got="a value of a captured function",
        wanted="a shape that does not depend on values",
        remedy="Use where(mask, x, y), or compute it outside of the captured function.",
    )


def getitem(x: np.ndarray, key: object) -> object:
    """Return ``x[key]``."""
    return x[key]  # type: ignore[call-overload]


def setitem(x: np.ndarray, key: object, value: object) -> np.ndarray:
    """Return a copy with ``x[key] = value``."""
    result = x.copy()
    result[key] = value  # type: ignore[call-overload]
    return result


def cast(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the elements as another dtype."""
    return x.astype(dtype)


class Into:
    """A ufunc that writes over a copy of its first operand."""

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function

    def __call__(self, target: np.ndarray, *inputs: object, **keywords: object) -> np.ndarray:
        result = target.copy()
        try:
            self.function(*inputs, out=result, **keywords)
        except TypeError as error:
            if "Cannot cast ufunc" not in str(error):
                raise
            raise DTypeMismatch("x op= y", "y", got=str(error), remedy="Convert y with astype.") from error
        return result


HOST_CALLS: Mapping[str, Callable[..., object]] = {
    "x[key]": getitem,
    "x[key] = value": setitem,
    "numpy.astype": cast,
}
"""Steps that are no functions of NumPy, by name."""
