"""Random keys: from 64-bit seeds, from streams that count their draws, and from the transform that is tracing.

Keys are threefry2x32 whatever JAX's default implementation is, and travel as their data, ``uint32[2]``: the high and
the low half of the seed. So a seed below 2**32 gives the key of ``jax.random.key(seed)``, and a larger one, which JAX
cuts off or refuses, a key of its own.
"""

from __future__ import annotations

import secrets
import threading

import jax
import numpy as np

from .._compat import current_trace, trace_is_clean
from ..errors import InvalidArgument, RngUnderTrace
from .handle import tracing
from .host import place

__all__ = ["IMPL", "Stream", "fold_in", "global_stream", "outside_of_traces", "seed_data", "wrap_key"]

IMPL = "threefry2x32"
_SPAWN = 2**32 - 1  # the one step of a stream that leads to its children and is never drawn from
_SECTION = 2**31  # draws of a stream before it moves on to a key of its own


def seed_data(seed: int | None, operation: str = "key") -> np.ndarray:
    """Return the key data ``uint32[2]`` of a seed.

    Parameters
    ----------
    seed
        0 to 2**64 - 1, or None for one from the operating system.
    operation
        Named in the error.

    Raises
    ------
    InvalidArgument
        The seed is out of range or not an integer.
    """
    if seed is None:
        seed = secrets.randbits(64)
    try:
        value = seed.__index__()
    except (AttributeError, TypeError):
        value = -1
    if not 0 <= value < 2**64 or isinstance(seed, bool | np.bool_):
        raise InvalidArgument(
            operation, "seed", got=repr(seed), wanted="an integer from 0 to 2**64 - 1", arg="seed", reason="not a seed"
        )
    return np.array([value >> 32, value & 0xFFFFFFFF], np.uint32)


def wrap_key(data: jax.Array | np.ndarray, /) -> jax.Array:
    """Return the typed key of ``uint32[2]`` key data."""
    key: jax.Array = jax.random.wrap_key_data(data, impl=IMPL)  # type: ignore[arg-type]
    return key


def _fold(data: jax.Array, step: jax.Array) -> jax.Array:
    # Pinned: without it JAX numbers the bits in another order, which depends on how an array is sharded.
    with jax.threefry_partitionable(True):
        return jax.random.key_data(jax.random.fold_in(wrap_key(data), step))


_compiled_fold = jax.jit(_fold)


def fold_in(data: jax.Array | np.ndarray, step: int | jax.Array, /) -> jax.Array:
    """Return the key data that depends on `data` and `step`, an integer from 0 to 2**32 - 1."""
    folded: jax.Array = _compiled_fold(data, np.uint32(step) if isinstance(step, int) else step)
    return folded


class Stream:
    """A sequence of keys, each used once: draw number n uses the stream's key folded with n.

    Parameters
    ----------
    data
        ``uint32[2]`` key data.
    count, children
        Draws made and children spawned so far.

    Notes
    -----
    Safe to use from several threads. The count is Python state, so a draw under a trace needs the key of the
    transform that traces, which is new for every call; see `next`.
    """

    __slots__ = ("_lock", "_section", "_trace", "children", "count", "data")

    def __init__(self, data: jax.Array | np.ndarray, count: int = 0, children: int = 0) -> None:
        self.data, self.count, self.children = data, count, children
        self._section: tuple[int, jax.Array | np.ndarray] = (0, data)
        self._trace = current_trace()
        self._lock = threading.Lock()

    def restart(self, data: jax.Array | np.ndarray) -> None:
        """Begin anew from other key data; compiled functions that draw from this stream follow."""
        with self._lock:
            self.data, self.count, self.children = data, 0, 0
            self._section = (0, data)

    def next(self, operation: str) -> tuple[jax.Array | np.ndarray, int]:
        """Return key data and the step to fold into it, for one draw.

        Raises
        ------
        RngUnderTrace
            Plain JAX is tracing: the draw would be a constant of the compiled function.
        """
        if not tracing.settle() and current_trace() is not self._trace:
            return self._under_trace(operation), 0
        return self._advance()

    def _advance(self) -> tuple[jax.Array | np.ndarray, int]:
        with self._lock:
            count = self.count
            self.count = count + 1
        if isinstance(self._section[1], np.ndarray) and trace_is_clean():
            # On the device once, for all draws; not at the start, when no device needs to run yet.
            self._section = (self._section[0], place(self._section[1].copy()))
        section, step = divmod(count, _SECTION)
        if section != self._section[0]:
            self._section = (section, fold_in(fold_in(self.data, _SPAWN - 1), section))
        return self._section[1], step

    def _under_trace(self, operation: str) -> jax.Array:
        scopes = tracing.scopes
        data = scopes[-1].random_key(self) if scopes else None
        if data is None:
            raise RngUnderTrace(
                operation,
                got="a draw while plain JAX is tracing, which would become a constant of the compiled function",
                wanted="a key that is an argument of the traced function",
                remedy="Pass key= to the function of rtx_jax.random, or trace with rtx_jax.jit, grad, vmap or scan.",
            )
        return data

    def draw_data(self) -> jax.Array:
        """Return the key data of one draw, whatever is being traced; a transform calls it before each call."""
        data, step = self._advance()
        return fold_in(data, step)

    def spawn(self, n: int) -> list[Stream]:
        """Return `n` new streams that are independent of this one and of each other."""
        with self._lock:
            first = self.children
            self.children = first + n
        root = fold_in(self.data, _SPAWN)
        return [Stream(fold_in(root, first + i)) for i in range(n)]


class _Global:
    """The stream of draws that name no generator and no key; made on first use from the system's entropy."""

    __slots__ = ("_lock", "_stream")

    def __init__(self) -> None:
        self._stream: Stream | None = None
        self._lock = threading.Lock()

    def get(self) -> Stream:
        """Return the stream."""
        with self._lock:
            if self._stream is None:
                self._stream = outside_of_traces(seed_data(None))
            return self._stream

    def seed(self, seed: int | None) -> None:
        """Start the stream anew."""
        data = seed_data(seed, "seed")
        with self._lock:
            self._stream = outside_of_traces(data)


def outside_of_traces(data: np.ndarray) -> Stream:
    """Return a new stream that belongs to no trace, whatever is being traced."""
    # The first draw of a process may be in a trace. A stream draws freely in the trace that it was made in, but this
    # one outlives every trace.
    stream = Stream(data)
    stream._trace = None
    return stream


global_stream = _Global()


def device_data(data: jax.Array | np.ndarray, /) -> jax.Array:
    """Return key data as an uncommitted device array."""
    return data if isinstance(data, jax.Array) else place(data)
