"""What a run of a benchmark found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

__all__ = ["Measurement", "Report"]


@dataclass(frozen=True, slots=True)
class Measurement:
    """One contender on one problem.

    Attributes
    ----------
    operation, variant, direction
        What ran, as ``"attention"``, ``"causal"``, ``"forward"``.
    length
        Where it stands on the horizontal axis of the plot: the length of the sequence or of the cache.
    contender
        Who ran.
    best_ms, median_ms
        Milliseconds of one call; None where it did not run.
    flops, moved_bytes
        What the problem takes at least: floating-point operations, and bytes read and written.
    share
        Reached part of the yardstick's rate in the same rounds: of a matrix product for what is bound by arithmetic,
        of a copy for what is bound by memory.
    slower
        How many times longer it took than ours.
    temp_bytes
        Temporary memory of the compiled program, or the peak of the device above the operands; None where nothing
        tells.
    error
        Largest deviation from the float64 result, relative to its largest element; None where it was not computed.
    note
        Why it did not run.
    """

    operation: str
    variant: str
    direction: str
    length: int
    contender: str
    best_ms: float | None = None
    median_ms: float | None = None
    flops: float = 0.0
    moved_bytes: float = 0.0
    share: float | None = None
    slower: float | None = None
    temp_bytes: int | None = None
    error: float | None = None
    note: str = ""

    @property
    def tflops(self) -> float | None:
        """Reached TFLOP/s."""
        return None if self.best_ms is None or not self.flops else self.flops / self.best_ms / 1e9

    @property
    def gbytes(self) -> float | None:
        """Reached GB/s."""
        return None if self.best_ms is None or not self.moved_bytes else self.moved_bytes / self.best_ms / 1e6


@dataclass(frozen=True, slots=True)
class Report:
    """All measurements of a run, and where it ran.

    Attributes
    ----------
    operation
        What was measured.
    bound
        ``"arithmetic"`` or ``"memory"``: which rate counts.
    environment
        Device, versions and commit.
    settings
        What was asked for.
    measurements
        In the order in which they ran.
    """

    operation: str
    bound: str
    environment: dict[str, object]
    settings: dict[str, object]
    measurements: Sequence[Measurement]

    def as_dict(self) -> dict[str, object]:
        """Return all of it as plain values, for JSON."""
        records = [
            asdict(measurement) | {"tflops": measurement.tflops, "gbytes": measurement.gbytes}
            for measurement in self.measurements
        ]
        return {
            "operation": self.operation,
            "bound": self.bound,
            "environment": self.environment,
            "settings": self.settings,
            "measurements": records,
        }
