"""Functions whose result has a shape that depends on values: what they need of an operand, and how results return."""

from __future__ import annotations

from collections.abc import Iterable

import jax
import numpy as np

from .._array import Array, wrap
from ..core.devices import device_of, platform_of
from ..core.devices import place as place_on
from ..core.dispatch import lift, place
from ..core.handle import used
from ..errors import DataDependentShape

__all__ = ["concrete", "from_host", "host_view"]


def concrete(x: object, operation: str, remedy: str) -> jax.Array:
    """Return the raw array of an operand whose values are known.

    Raises
    ------
    DataDependentShape
        They are not, as they are being traced.
    """
    data = used(x) if isinstance(x, Array) else lift(x, None, operation)
    if isinstance(data, jax.core.Tracer):
        raise DataDependentShape(
            operation,
            "x",
            got="an Array whose values are not known while tracing",
            wanted="values, as the shape of the result depends on them",
            remedy=remedy,
        )
    return data


def host_view(data: jax.Array) -> np.ndarray | None:
    """Return the values without a copy if they are in host memory, else None."""
    placement = device_of(data)
    if placement is None or platform_of(placement) != "cpu" or not data.is_fully_addressable:
        return None
    return np.asarray(data)


def from_host(arrays: Iterable[np.ndarray], data: jax.Array) -> tuple[Array, ...]:
    """Return private host arrays as Arrays where `data` lives; their memory must not be used afterwards."""
    placement = device_of(data)
    if not data.committed or not isinstance(placement, jax.Device):
        return tuple(wrap(place(np.asarray(a, order="C"))) for a in arrays)
    return tuple(wrap(place_on(np.asarray(a, order="C"), placement)) for a in arrays)  # type: ignore[arg-type]
