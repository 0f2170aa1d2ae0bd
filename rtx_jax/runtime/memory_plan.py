"""`MemoryPlan`: what a captured graph takes, known before it runs."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np

from ..errors import BackendLimitation, InvalidArgument, OutOfMemory

__all__ = ["MemoryPlan", "check_limit"]


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The memory of one launch, in bytes.

    Attributes
    ----------
    args
        Everything that a launch reads, the memory of its outputs among it.
    outputs
        What it writes.
    alias
        The part of `outputs` that is written into memory that `args` counts already: with stable output pointers all
        of it.
    temp
        Intermediate values, at the moment when most of them are alive.
    peak
        ``args + outputs - alias + temp``: what must fit on the device.
    flops
        Floating-point operations of one launch; None where the compiler does not tell.
    """

    args: int
    outputs: int
    alias: int
    temp: int
    flops: float | None = None

    @property
    def peak(self) -> int:
        """What must fit on the device at once."""
        return self.args + self.outputs - self.alias + self.temp

    @staticmethod
    def of(compiled: jax.stages.Compiled, platform: str) -> MemoryPlan:
        """Return the plan that the compiler made.

        Raises
        ------
        BackendLimitation
            The platform's compiler does not tell.
        """
        stats = compiled.memory_analysis()
        if stats is None:
            raise BackendLimitation(
                "capture",
                got=f"no memory analysis from the compiler of {platform!r}",
                wanted="a compiler that tells what a program takes",
                backend=platform,
                reason="no memory analysis",
            )
        return MemoryPlan(
            args=stats.argument_size_in_bytes,
            outputs=stats.output_size_in_bytes,
            alias=stats.alias_size_in_bytes,
            temp=stats.temp_size_in_bytes,
            flops=_flops(compiled),
        )

    def check(self, limit: int | None) -> None:
        """Raise OutOfMemory when the intermediate values take more than `limit` bytes."""
        if limit is not None and self.temp > limit:
            raise OutOfMemory(
                "capture",
                "max_temp_bytes",
                got=f"a graph with {self.temp} bytes of intermediate values",
                wanted=f"at most {limit}",
                remedy="Raise the limit, or compute in smaller pieces.",
                size=self.temp,
            )


def _flops(compiled: jax.stages.Compiled) -> float | None:
    costs = compiled.cost_analysis()
    if isinstance(costs, list):
        costs = costs[0] if costs else None
    found = None if costs is None else costs.get("flops")
    return None if found is None or found < 0 else float(found)


def check_limit(limit: object) -> None:
    """Raise InvalidArgument for what is no limit of temporaries."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | np.integer) or limit < 0):
        raise InvalidArgument(
            "capture",
            "max_temp_bytes",
            got=repr(limit),
            wanted="a number of bytes, or None",
            arg="max_temp_bytes",
            reason="not a size",
        )
