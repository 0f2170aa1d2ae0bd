"""Windows and offsets of any size: near ones in 32 bits that show and hide the same keys."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..errors import InvalidArgument

__all__ = ["FAR", "Distances", "offset_operand"]

FAR = 1 << 29
"""Further away than any key: sums of a few of these stay within 32 bits."""

_INT32 = np.iinfo(np.int32)


@dataclass(frozen=True, slots=True)
class Distances:
    """Which keys query t sees: those from ``t + offset - left`` to ``t + offset + right``, for offsets on the device.

    Attributes
    ----------
    left, right
        As the caller gave them, None for no bound.
    queries, keys
        T and S.
    """

    left: int | None
    right: int | None
    queries: int
    keys: int

    @property
    def sides(self) -> tuple[int | None, int | None]:
        """The window that goes with the offsets that `offset` returns."""
        if self._are_near():
            return self.left, self.right
        if self.left is None or self.right is None:
            return (None, 0) if self.left is None else (0, None)
        return 0, min(self.left + self.right, self._reach)

    def offset(self, x: jax.Array) -> jax.Array:
        """Return offsets as int32 that see the same keys, from any integers."""
        reach = self._reach
        if self._are_near():
            return _shifted(x, 0, -FAR, FAR)
        if self.left is None or self.right is None:
            shift = (self.right or 0) if self.left is None else -self.left
            return _shifted(x, shift, -reach, reach)
        if self.left + self.right < reach:
            return _shifted(x, -self.left, -2 * reach, reach)
        # So wide that one of the sides shows every key.
        low, high = _shifted(x, -self.left, -self.queries, reach), _shifted(x, self.right, -reach, reach)
        return jnp.where(high < self.keys, high - np.int32(reach), low)

    @property
    def _reach(self) -> int:
        return self.queries + self.keys

    def _are_near(self) -> bool:
        """Whether an offset beyond `FAR` still sees nothing, or everything, when it is taken as `FAR`."""
        return max(self.left or 0, self.right or 0) <= FAR - self._reach


def _shifted(x: jax.Array, shift: int, least: int, most: int) -> jax.Array:
    """Return ``x + shift`` between two bounds as int32, whatever the dtype of `x` holds."""
    info = jnp.iinfo(x.dtype)
    low, high = least - shift, most - shift
    if low > info.max or high < info.min:
        return lax.full_like(x, least if low > info.max else most, np.int32)
    bounds = (np.asarray(bound, x.dtype) for bound in (max(low, int(info.min)), min(high, int(info.max))))
    clamped = lax.clamp(next(bounds), x, next(bounds))
    # Modulo 2**32: what wraps on the way comes back, as the sum is in range.
    total = lax.convert_element_type(clamped, np.uint32) + np.uint32(shift % (1 << 32))
    near: jax.Array = lax.bitcast_convert_type(total, np.int32)
    return near


def offset_operand(operation: str, q_offset: int, window: tuple[int | None, int | None]) -> int:
    """Return an offset of the host as one that 32 bits hold and that sees the same keys.

    Raises
    ------
    InvalidArgument
        Neither it nor the window fits in 32 bits.
    """
    near = min(max(q_offset, int(_INT32.min)), int(_INT32.max))
    ends = [sign * side for sign, side in zip((-1, 1), window, strict=True) if side is not None]
    if any(_is_far(near + end) != _is_far(q_offset + end) for end in ends):
        raise InvalidArgument(
            operation,
            "q_offset",
            got=q_offset,
            wanted=f"at most 32 bits beside the window {window}",
            remedy="Take the same number off both.",
            arg="q_offset",
            reason="too far away",
        )
    return near


def _is_far(position: int) -> int:
    """Return -1 for a position before all keys, 1 for one behind all, and 0 where it counts."""
    return (position >= FAR) - (position <= -FAR)
