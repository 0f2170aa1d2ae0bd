"""The bounds of `clip`: arrays are operands, scalars take their dtype from the array, None is no bound."""

from __future__ import annotations

import jax

from .._array import Array, calln
from ..core.dispatch import Op, lift, scalar_operand
from ..core.dtypes import INTEGRAL, DType
from ..core.handle import Handle, facts_of, tracing
from ..core.host import SCALARS
from ..core.promotion import integer_range
from ..raw import elementwise as _raw

__all__ = ["clip"]

_clip = Op("clip", _raw.clip, ("has_min", "has_max"))


def clip(x: Array, low: object, high: object, /) -> Array:
    """Limit `x` to the interval from `low` to `high`; see the namespace's ``clip``."""
    data = facts_of(x) if isinstance(x, Handle) else lift(x, None, "clip")
    dtype = data.dtype
    # Under a trace the scalars stay what they are, so that they become constants of the program.
    eager = type(x) is Array and not tracing.traced()
    operands: list[object] = [x if isinstance(x, Handle) else data]
    del data  # whether memory is free is seen from the references
    has_min, has_max = low is not None, high is not None
    if type(low) in SCALARS:
        has_min = not (dtype in INTEGRAL and isinstance(low, int) and low < integer_range(dtype)[0])
        low = _handle(low, dtype) if eager and has_min else low
    if type(high) in SCALARS:
        has_max = not (dtype in INTEGRAL and isinstance(high, int) and high > integer_range(dtype)[1])
        high = _handle(high, dtype) if eager and has_max else high
    if has_min:
        operands.append(low)
    if has_max:
        operands.append(high)
    return calln(_clip, operands, (has_min, has_max))  # type: ignore[return-value]


def _handle(value: object, dtype: DType) -> Array:
    handle = object.__new__(Array)
    data: jax.Array = scalar_operand(value, dtype)[0]  # type: ignore[arg-type]
    handle._data = data
    handle._owned = False
    return handle
