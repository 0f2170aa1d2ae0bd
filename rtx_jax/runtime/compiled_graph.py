"""`CompiledGraph`: a graph of a JAX runtime, one compiled program whose outputs lie in given memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp

from .. import _config
from .._compat import X64_UNSET, restore_x64, swap_x64
from ..core.handle import Handle, data_of, tracing
from ..core.nans import has_nan
from ..core.op import raise_translated
from ..core.random import Stream, global_stream
from ..errors import ShapeMismatch
from ..transforms.donation import run_donating
from ..transforms.nans import raise_first_nan
from .client import Client
from .graph import Graph
from .recording import traced
from .slots import Slot

__all__ = ["CompiledGraph", "Source", "read"]


Source: TypeAlias = "Slot | Handle | Stream | jax.Array | None"
"""Where an operand of a launch comes from: a buffer, an Array, a fresh key of a stream (None: the global one), or a
constant."""


class CompiledGraph(Graph):
    """A compiled program and where its operands come from.

    Parameters
    ----------
    name
        The name of the captured function.
    function
        The traceable program: takes all operands, returns the new values of the first ``donors`` ones.
    compiled
        The same, compiled, with the first ``donors`` operands donated: each new value lies in the memory of the old.
    sources
        Where the operands come from.
    donors
        How many operands are written.
    client
        Whose lock guards the buffers; None where there are none.
    wide
        Whether 64-bit types take part.
    payload
        The serialized form of `compiled` where it was loaded from one, which cannot be serialized again.
    kept
        Places of the Arrays whose values belong to the graph: what the function reads without receiving it.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Sequence[jax.Array]],
        compiled: Callable[..., Sequence[jax.Array]],
        sources: Sequence[Source],
        donors: int,
        client: Client | None,
        wide: bool,
        kept: frozenset[int],
        payload: bytes | None = None,
    ) -> None:
        self.kept, self.payload = kept, payload
        self.name, self.function, self.compiled, self.wide = name, function, compiled, wide
        self.sources, self.donors, self.client = tuple(sources), donors, client
        self._written_buffers = [(i, x.buffer) for i, x in enumerate(self.sources[:donors]) if isinstance(x, Slot)]
        self._written = [(x, i, i) for i, x in enumerate(self.sources[:donors]) if isinstance(x, Handle)]
        self._lock: threading.RLock = client.lock if client is not None else threading.RLock()

    def launch(self) -> None:
        """Run once."""
        if tracing.active and not tracing.settle():
            raise traced("launch")
        previous = X64_UNSET
        try:
            if self.wide:
                previous = swap_x64(True)
            with self._lock:
                try:
                    self._run()
                except BaseException:
                    self._restore()
                    raise
        except Exception as error:
            self._explain(error)
        finally:
            if self.wide:
                restore_x64(previous)

    def _run(self) -> None:
        for _, buffer in self._written_buffers:
            if buffer._reads:
                buffer._settle()
        operands = [read(source) for source in self.sources]
        if _config.debug_nans():
            self._find_nans(operands)
        if self._written:
            results = run_donating(self.compiled, self.name, operands, self._written, ())  # type: ignore[arg-type]
            for i, buffer in self._written_buffers:
                buffer._replace(results[i])
            return
        # Filled inside of one call: Ctrl-C raises before the result of a call has a name, and the old storage is gone.
        found: list[Sequence[jax.Array]] = []
        try:
            found.extend(map(self.compiled, *zip(operands, strict=True)))
        finally:
            if found:
                for i, buffer in self._written_buffers:
                    buffer._replace(found[0][i])

    def _find_nans(self, operands: Sequence[jax.Array]) -> None:
        """Raise FloatingPointError where the program makes a NaN; nothing is written."""
        if has_nan(jax.jit(self.function)(*operands)):
            raise_first_nan(self.name, jax.make_jaxpr(self.function)(*operands), operands)

    def _restore(self) -> None:
        """Give outputs whose memory went into a run that failed new memory, of zeros; under the lock."""
        for _, buffer in self._written_buffers:
            lost = buffer._storage
            if isinstance(lost, jax.Array) and lost.is_deleted():
                fresh = buffer.client._new(buffer.nbytes)
                buffer._storage = fresh if fresh.dtype == lost.dtype else buffer.client._typed(fresh, lost.dtype)
        for handle, _, _ in self._written:
            lost = handle._data
            if isinstance(lost, jax.Array) and lost.is_deleted():
                handle._data = jnp.zeros(lost.shape, lost.dtype, device=lost.sharding)

    def _explain(self, error: Exception) -> None:
        if isinstance(error, TypeError) and str(error).startswith("Argument types differ"):
            raise ShapeMismatch(
                "launch",
                got=str(error).split("\n")[-1],
                wanted="operands of the shapes and dtypes of the capture",
                remedy="Write the new values into the Arrays of the capture: name[...] = value.",
                expected=None,
                got_shape=None,
            ) from error
        raise_translated("launch", error)


def read(source: Source) -> jax.Array:
    """Return the operand as it is now."""
    if source.__class__ is Slot:
        return source.read()
    if isinstance(source, Handle):
        return data_of(source)
    if isinstance(source, jax.Array):
        return source
    stream = global_stream.get() if source is None else source
    return stream.draw_data()  # type: ignore[union-attr]
