"""The stream of random keys of a backend without JAX: draw number n takes the seed's key folded with n."""

from __future__ import annotations

import operator
import secrets
import threading

import numpy as np

from ..errors import InvalidArgument

__all__ = ["HostStream"]


class HostStream:
    """A sequence of keys, each used once; safe to use from several threads.

    Parameters
    ----------
    data
        ``uint32[2]``: the high and the low half of the seed.

    Notes
    -----
    The keys are those of `rtx_jax.core.random.Stream`, so that one seed gives the same draws on every backend.
    """

    __slots__ = ("_lock", "count", "data")

    def __init__(self, data: np.ndarray) -> None:
        self.data, self.count = data, 0
        self._lock = threading.Lock()

    @classmethod
    def of_seed(cls, seed: int | None) -> HostStream:
        """Return the stream of a seed of 64 bits, or (None) of one from the operating system.

        Raises
        ------
        InvalidArgument
            The seed is out of range or not an integer.
        """
        if seed is None:
            seed = secrets.randbits(64)
        try:
            value = -1 if isinstance(seed, bool | np.bool_) else operator.index(seed)
        except TypeError:
            value = -1
        if not 0 <= value < 2**64:
            raise InvalidArgument(
                "seed", "seed", got=repr(seed), wanted="an integer from 0 to 2**64 - 1", arg="seed", reason="not a seed"
            )
        return cls(np.array([value >> 32, value & 0xFFFFFFFF], np.uint32))

    def next(self) -> np.ndarray:
        """Return ``uint32[2]`` data of the next key."""
        from .reference.random import fold_in

        with self._lock:
            count = self.count
            self.count = count + 1
        return fold_in(self.data, count)
